//! Which clients and servers accept each other.

use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, mpsc};

use pario_transport::{Connection, Error, HandshakeConfig};
use pario_types::{ErrorKind, PartitionId, ServerId};
use pario_wire::Secret;
use pario_wire::greeting::{Greeting, HandshakeRefusal, Hello, VERSION, Welcome};

use crate::support::{Medium, Server, at_once, config, file_with, hello, secret, soon, welcome};

type Met = Result<(Connection, Welcome, Option<OwnedFd>), Error>;

/// A client and a server connect: returns the client's result, and the server's.
fn meet<T: Send>(
    medium: Medium,
    hello: Hello,
    secret: &Secret,
    server: impl FnOnce(Server) -> T + Send,
) -> (Met, T) {
    let (near, far) = medium.ends();
    std::thread::scope(|scope| {
        let server = scope.spawn(move || server(Server::new(far)));
        let met = Connection::over(near, format!("{medium:?}"), &hello, secret, soon());
        (met, server.join().expect("no panic"))
    })
}

fn refused(met: Met) -> Error {
    match met {
        Ok(_) => panic!("it was let in"),
        Err(error) => error,
    }
}

#[test]
fn the_descriptor_of_the_pool_arrives_with_the_welcome() {
    for medium in [Medium::Unix, Medium::InProcess] {
        let pool = file_with(b"blocks");
        let (met, ()) = meet(medium, hello(), &secret(), |server| {
            let accepted = server.shake_hands(config()).expect("accepted");
            server.write(&accepted.welcome(welcome(Some(3))));
            server.stream.send_descriptor(pool.as_fd()).expect("sent");
        });
        let (_, said, pool) = met.expect("let in");
        assert_eq!(said.ledger, Some(3));
        let mut text = String::new();
        std::fs::File::from(pool.expect("a descriptor")).read_to_string(&mut text).unwrap();
        assert_eq!(text, "blocks");
    }
}

#[test]
fn a_missing_descriptor_is_an_error() {
    for (medium, after) in [(Medium::Unix, "D"), (Medium::InProcess, "x"), (Medium::Tcp, "D")] {
        let (met, ()) = meet(medium, hello(), &secret(), |server| {
            let accepted = server.shake_hands(config()).expect("accepted");
            server.write(&accepted.welcome(welcome(Some(3))));
            server.write(after.as_bytes());
        });
        assert!(matches!(refused(met), Error::UnexpectedMessage { .. }));
    }
    let (met, ()) = meet(Medium::Unix, hello(), &secret(), |server| {
        let accepted = server.shake_hands(config()).expect("accepted");
        server.write(&accepted.welcome(welcome(Some(3))));
    });
    assert!(matches!(refused(met), Error::Closed { .. }));
}

#[test]
fn descriptors_do_not_pass_over_tcp() {
    let (near, _far) = Medium::Tcp.ends();
    let error = near.send_descriptor(file_with(b"").as_fd()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::Unsupported);
    assert!(near.receive_descriptor().is_err());
}

#[test]
fn the_user_of_a_local_connection_is_known() {
    for medium in Medium::ALL {
        let (near, _far) = medium.ends();
        let known = (!matches!(medium, Medium::Tcp | Medium::Encrypted)).then(pario_transport::own_user);
        assert_eq!(near.peer_user().unwrap(), known);
    }
}

#[test]
fn a_client_of_another_partition_or_server_is_refused_with_a_reason() {
    let cases = [
        (Hello { partition: PartitionId(1), ..hello() }, "partition"),
        (Hello { server: ServerId(2), ..hello() }, "this is server 1, not 2"),
        (Hello { servers: 2, ..hello() }, "has 3 servers, not 2"),
    ];
    for medium in Medium::ALL {
        for (hello, reason) in cases {
            let (met, ended) = meet(medium, hello, &secret(), |server| server.shake_hands(config()));
            let error = refused(met);
            assert_eq!(error.kind(), ErrorKind::Protocol);
            assert!(error.to_string().contains(reason), "{error}");
            assert!(matches!(ended, Err(Some(Error::Refused { .. }))));
        }
    }
}

#[test]
fn without_the_secret_neither_side_continues() {
    for medium in Medium::ALL {
        // The client notices first, and the server sees it go.
        let (met, ended) =
            meet(medium, hello(), &Secret::new([1; 32]), |server| server.shake_hands(config()));
        let error = refused(met);
        assert!(matches!(error, Error::WrongSecret { .. }) && error.kind() == ErrorKind::Access, "{error}");
        assert!(matches!(ended, Err(None)));
        // A server that does not know the secret does not get a proof from the client either.
        let other = Arc::new(HandshakeConfig { secret: Secret::new([1; 32]), ..(*config()).clone() });
        let (met, ended) = meet(medium, hello(), &secret(), |server| server.shake_hands(other));
        assert!(matches!(refused(met), Error::WrongSecret { .. }));
        assert!(matches!(ended, Err(None)));
    }
}

/// The server takes a TCP connection for one of its own host, which would need no protection.
#[test]
fn a_client_refuses_a_tcp_connection_without_protection() {
    for medium in [Medium::Tcp, Medium::Encrypted] {
        let user = Some(pario_transport::own_user());
        let (met, ended) =
            meet(medium, hello(), &secret(), |server| server.shake_hands_with(medium.config(), user));
        assert!(matches!(refused(met), Error::UnexpectedMessage { .. }));
        assert!(matches!(ended, Err(None)));
    }
}

#[test]
fn another_version_is_refused_with_a_reason() {
    for medium in Medium::ALL {
        let (near, far) = medium.ends();
        let near = Server::new(near);
        let mut bytes =
            Greeting::Hello { hello: hello(), nonce: pario_transport::fresh_nonce().unwrap() }.encode();
        bytes[4..6].copy_from_slice(&(VERSION + 8).to_le_bytes());
        near.write(&bytes);
        let Err(Some(error)) = Server::new(far).shake_hands(config()) else { panic!("accepted") };
        assert_eq!(error.kind(), ErrorKind::Protocol);
        assert!(error.to_string().contains(&format!("version {}", VERSION + 8)), "{error}");
        // This client also understands a server of a later version.
        let (met, ()) = meet(medium, hello(), &secret(), |server| {
            let text = "you are old".to_owned();
            let mut bytes = Greeting::Refused(HandshakeRefusal { kind: ErrorKind::Protocol, text }).encode();
            bytes[4..6].copy_from_slice(&(VERSION + 8).to_le_bytes());
            server.stream.read(&mut [0; 200]).expect("a hello");
            server.write(&bytes);
        });
        assert!(refused(met).to_string().contains("you are old"));
    }
}

#[test]
fn random_bytes_are_not_a_handshake() {
    for medium in Medium::ALL {
        let (near, far) = medium.ends();
        let near = Server::new(near);
        near.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let ended = Server::new(far).shake_hands(config());
        assert!(matches!(ended, Err(Some(Error::Malformed { .. }))));
        // A peer of another protocol gets no reply.
        assert_eq!(near.stream.read(&mut [0; 10]).unwrap_or(0), 0);

        let (met, ()) = meet(medium, hello(), &secret(), |server| {
            server.stream.read(&mut [0; 200]).expect("a hello");
            server.write(b"SSH-2.0-OpenSSH_9.2\r\n");
        });
        let error = refused(met);
        assert!(matches!(error, Error::Malformed { .. }) && error.kind() == ErrorKind::Protocol, "{error}");
    }
}

#[test]
fn a_silent_server_is_given_up_at_the_deadline_of_the_handshake() {
    for medium in Medium::ALL {
        let (near, far) = medium.ends();
        let (done, wait) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let _ = wait.recv();
                drop(far);
            });
            let met = Connection::over(near, "mute".into(), &hello(), &secret(), at_once());
            let error = refused(met);
            assert!(
                matches!(error, Error::TimedOut { .. }) && error.kind() == ErrorKind::Unreachable,
                "{error}"
            );
            drop(done);
        });
    }
}
