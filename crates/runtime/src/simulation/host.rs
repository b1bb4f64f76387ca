//! The names and addresses of simulated hosts: host N is 10.0.0.N.

use std::net::{IpAddr, Ipv4Addr};

use super::process::{HostId, current_host};

/// The host with that name.
pub fn host_named(name: &str) -> Option<HostId> {
    match name.parse::<Ipv4Addr>().ok()?.octets() {
        [10, 0, 0, number] => Some(HostId(number.into())),
        _ => None,
    }
}

/// The name of a host, which is its address.
pub fn name_of(host: HostId) -> String {
    address_of(host).to_string()
}

fn address_of(host: HostId) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, host.0 as u8).into()
}

/// This host's name.
pub fn name() -> String {
    name_of(current_host())
}

/// The addresses of a host.
pub fn addresses(node: &str) -> Vec<IpAddr> {
    host_named(node).map(address_of).into_iter().collect()
}

/// Whether an address is this host's.
pub fn is_own(address: IpAddr) -> bool {
    address == address_of(current_host())
}
