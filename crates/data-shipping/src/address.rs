//! The address of an agent, in the form that ranks exchange when they open a file.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr as UnixAddr;

/// An agent's address: a name on its own node, and perhaps one for other nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentAddress {
    /// The node it is on.
    pub(crate) node: u64,
    /// The base of its Unix socket's name.
    pub(crate) id: u128,
    /// Its address for other nodes.
    pub(crate) tcp: Option<SocketAddr>,
}

impl AgentAddress {
    /// Bytes of an encoded address.
    pub const BYTES: usize = 48;

    /// An address, or that there is none, as bytes of one length:
    ///
    /// ```text
    ///  0  1  version = 1, 0 if there is no address (then all is 0)
    ///  1  1  0 no TCP, 4 or 6 the version of the IP address
    ///  2  2  TCP port
    ///  4  4  zero
    ///  8  8  node
    /// 16 16  id of the Unix socket, whose abstract name is "pario-agent-" and the id in 32 hex digits
    /// 32 16  IP address; one of version 4 is the first 4 bytes
    /// ```
    pub fn encode(address: Option<&AgentAddress>) -> [u8; AgentAddress::BYTES] {
        let mut out = [0; AgentAddress::BYTES];
        let Some(address) = address else { return out };
        out[0] = 1;
        out[8..16].copy_from_slice(&address.node.to_le_bytes());
        out[16..32].copy_from_slice(&address.id.to_le_bytes());
        if let Some(tcp) = address.tcp {
            out[2..4].copy_from_slice(&tcp.port().to_le_bytes());
            match tcp.ip() {
                IpAddr::V4(ip) => {
                    out[1] = 4;
                    out[32..36].copy_from_slice(&ip.octets());
                }
                IpAddr::V6(ip) => {
                    out[1] = 6;
                    out[32..].copy_from_slice(&ip.octets());
                }
            }
        }
        out
    }

    /// The reverse; `None` also for bytes that are no address.
    pub fn decode(bytes: &[u8; AgentAddress::BYTES]) -> Option<AgentAddress> {
        let port = u16::from_le_bytes([bytes[2], bytes[3]]);
        let high: [u8; 16] = bytes[32..].try_into().ok()?;
        let ip: Option<IpAddr> = match bytes[1] {
            0 => None,
            4 => Some(Ipv4Addr::new(high[0], high[1], high[2], high[3]).into()),
            6 => Some(Ipv6Addr::from(high).into()),
            _ => return None,
        };
        (bytes[0] == 1).then_some(AgentAddress {
            node: u64::from_le_bytes(bytes[8..16].try_into().ok()?),
            id: u128::from_le_bytes(bytes[16..32].try_into().ok()?),
            tcp: ip.map(|ip| SocketAddr::new(ip, port)),
        })
    }

    pub(crate) fn unix(&self) -> io::Result<UnixAddr> {
        UnixAddr::from_abstract_name(format!("pario-agent-{:032x}", self.id))
    }
}

/// The address by which other nodes most likely reach this node: the source address of its packets to a distant host or,
/// without a route to one, of its packets to the first network that it is on.
pub fn ip_of_this_node() -> Option<IpAddr> {
    // An address that is reserved for documentation (RFC 5737).
    let far = Ipv4Addr::new(192, 0, 2, 1);
    let routes = || std::fs::read_to_string("/proc/net/route").unwrap_or_default();
    ip_of_packets_to(far).or_else(|| neighbours(&routes()).into_iter().find_map(ip_of_packets_to))
}

/// Connecting only chooses a route; nothing is sent.
fn ip_of_packets_to(there: Ipv4Addr) -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((there, 9)).ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|ip| !ip.is_unspecified() && !ip.is_loopback())
}

/// The first address of each network in the kernel's table of routes, whose second column is the network as
/// a number in hex, in this machine's byte order.
fn neighbours(routes: &str) -> Vec<Ipv4Addr> {
    let network = |line: &str| u32::from_str_radix(line.split_whitespace().nth(1)?, 16).ok();
    let networks = routes.lines().skip(1).filter_map(network).map(|n| u32::from_be_bytes(n.to_ne_bytes()));
    networks.filter(|n| *n != 0).map(|n| Ipv4Addr::from_bits(n | 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_decode_to_what_was_encoded() {
        let mut address = AgentAddress { node: 7, id: 3 << 90, tcp: None };
        for tcp in [None, Some("127.0.0.1:80"), Some("[2001:db8::7]:65535")] {
            address.tcp = tcp.map(|text| text.parse().unwrap());
            assert_eq!(AgentAddress::decode(&AgentAddress::encode(Some(&address))), Some(address));
        }
        assert_eq!(AgentAddress::decode(&AgentAddress::encode(None)), None);
        assert_eq!(AgentAddress::decode(&[9; AgentAddress::BYTES]), None);
    }

    #[test]
    fn networks_are_read_from_the_routing_table() {
        let routes = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n\
                      eth0 00000000 0100000A 0003 0 0 0 00000000 0 0 0\n\
                      eth0 00004D0A 00000000 0001 0 0 0 00FFFFFF 0 0 0\n\
                      nonsense\n";
        assert_eq!(neighbours(routes), ["10.77.0.1".parse::<Ipv4Addr>().unwrap()]);
        assert!(neighbours("").is_empty());
    }
}
