//! A TCP port before the first server of a site: the basis of
//! [`faulty_proxy`](super::faulty_proxy) and [`message_proxy`](super::message_proxy).

use std::net::{Shutdown, TcpListener, TcpStream};

use pario::Target;
use pario_transport::Address;

use super::site::Site;

/// Both directions of a connection: where bytes come from and where they go, first from the client to the server.
pub type Directions = [(TcpStream, TcpStream); 2];

/// Listens at a port, which is returned, and connects each connection on to the first server of the site. The thread ends with the
/// test's process.
pub fn before_first_server(site: &Site, mut connected: impl FnMut(u64, Directions) + Send + 'static) -> u16 {
    let target = Target::of_entry(&site.entry(), site.secret()).expect("it is up");
    let tcp = target.servers[0].iter().find_map(|address| match address {
        Address::Tcp(host, port) => Some((host.clone(), *port)),
        Address::Unix(_) => None,
    });
    let address = tcp.expect("it listens");
    let listener = TcpListener::bind("127.0.0.1:0").expect("there are free ports");
    let port = listener.local_addr().expect("it is bound").port();
    std::thread::spawn(move || {
        for (number, near) in (0..).zip(listener.incoming()) {
            let (Ok(near), Ok(far)) = (near, TcpStream::connect(&address)) else { continue };
            connected(number, [(clone(&near), clone(&far)), (far, near)]);
        }
    });
    port
}

pub fn clone(stream: &TcpStream) -> TcpStream {
    stream.try_clone().expect("there are descriptors")
}

/// Ends both sides of a connection.
pub fn hang_up(from: &TcpStream, to: &TcpStream) {
    // The other side may have hung up before.
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}
