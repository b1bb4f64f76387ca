//! The names and addresses of this host.

use std::net::{IpAddr, ToSocketAddrs, UdpSocket};

/// This host's name, as the kernel knows it; empty if it is not known.
pub fn name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}

/// The addresses of a node.
pub fn addresses(node: &str) -> Vec<IpAddr> {
    match node.parse() {
        Ok(address) => vec![address],
        Err(_) => (node, 0).to_socket_addrs().map(|all| all.map(|a| a.ip()).collect()).unwrap_or_default(),
    }
}

/// Whether an address is this host's. The kernel lets a socket have an address only if it is.
pub fn is_own(address: IpAddr) -> bool {
    !address.is_unspecified() && UdpSocket::bind((address, 0)).is_ok()
}
