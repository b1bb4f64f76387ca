//! Listeners and the files of their sockets.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use pario_transport::{Address, Connection, Error, Listener, SocketOptions, Stream};
use pario_types::ErrorKind;

use crate::support::{Directory, Medium, accepted, hello, secret, soon};

fn bind(address: &Address) -> Result<Listener, Error> {
    Listener::bind(address, SocketOptions::default())
}

#[test]
fn a_socket_is_private_and_is_removed_with_its_listener() {
    let directory = Directory::new();
    let path = directory.0.join("socket");
    let address = Address::Unix(path.clone());
    let listener = bind(&address).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(listener.accept().unwrap().map(|_| ()), None);
    drop(listener);
    assert_eq!(std::fs::read_dir(&directory.0).unwrap().count(), 0);
}

#[test]
fn the_socket_of_a_dead_server_is_replaced_and_that_of_a_live_one_is_not() {
    let directory = Directory::new();
    let path = directory.0.join("socket");
    let address = Address::Unix(path.clone());
    // The standard library's listener leaves its file behind, as a killed server does.
    drop(UnixListener::bind(&path).unwrap());
    let listener = bind(&address).unwrap();
    let error = bind(&address).unwrap_err();
    assert!(error.to_string().contains("another server listens there"), "{error}");
    Stream::connect(&address, &SocketOptions::default(), soon()).unwrap();
    drop(listener);

    std::fs::write(&path, "not a socket").unwrap();
    assert!(bind(&address).unwrap_err().to_string().contains("taken by something else"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "not a socket");
}

#[test]
fn a_listener_leaves_its_successor_s_socket_alone() {
    let directory = Directory::new();
    let path = directory.0.join("socket");
    let address = Address::Unix(path.clone());
    let old = bind(&address).unwrap();
    std::fs::remove_file(&path).unwrap();
    let new = bind(&address).unwrap();
    drop(old);
    Stream::connect(&address, &SocketOptions::default(), soon()).unwrap();
    accepted(&new);
}

#[test]
fn port_zero_becomes_a_real_port() {
    let listener = bind(&Medium::Tcp.address(&Directory::new())).unwrap();
    let Address::Tcp(host, port) = listener.address() else { panic!("not TCP") };
    assert!(host == "127.0.0.1" && *port != 0);
    assert!(bind(listener.address()).is_err());
}

#[test]
fn connecting_without_a_listener_fails() {
    let directory = Directory::new();
    let gone = bind(&Medium::Tcp.address(&directory)).unwrap().address().clone();
    let stale = directory.0.join("stale");
    drop(UnixListener::bind(&stale).unwrap());
    let missing = directory.0.join("missing");
    let long = directory.0.join("x".repeat(200));
    for address in [gone, Address::Unix(stale), Address::Unix(missing), Address::Unix(long)] {
        let met = Connection::connect(&address, &SocketOptions::default(), &hello(), &secret(), soon());
        let Err(error) = met else { panic!("connected to {address}") };
        assert_eq!(error.kind(), ErrorKind::Unreachable);
        assert!(error.to_string().starts_with(&format!("cannot connect to {address}: ")), "{error}");
    }
}
