//! Which host is this, and is a node this host?

use pario_runtime::host::{self, addresses, is_own};
use std::net::{IpAddr, Ipv4Addr};

/// This host's name.
pub fn name() -> String {
    match host::name() {
        name if name.is_empty() => "localhost".to_owned(),
        name => name,
    }
}

/// Whether a node's name or address is this host's.
pub fn is_here(node: &str) -> bool {
    is_named(node, &name()) || addresses(node).into_iter().any(is_own)
}

/// Whether it is this host by name: its own, with or without domain, or the usual one for any host.
fn is_named(node: &str, own: &str) -> bool {
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    let is = |a: &str, b: &str| a.eq_ignore_ascii_case(b);
    let domains = node.contains('.') && own.contains('.');
    is(node, "localhost")
        || is(node, own)
        || (!domains && node.parse::<IpAddr>().is_err() && is(&short(node), &short(own)))
}

/// The address that this host has by the node's name, at which a server listens for other hosts. A name that other hosts
/// cannot have looked up the same way leads to every address, and to a note for the user.
pub fn own_address(node: &str) -> (IpAddr, Option<String>) {
    let mut own = addresses(node).into_iter().filter(|address| !address.is_loopback() && is_own(*address));
    match own.next() {
        Some(address) => (address, None),
        None => {
            let note = format!(
                "the name {node} leads to no network address of its own host: the server listens at all addresses; set \
                 listen = ADDRESS to choose one"
            );
            (Ipv4Addr::UNSPECIFIED.into(), Some(note))
        }
    }
}

/// How other hosts reach a server: the address it listens at, or the node's name where it listens at all of
/// them.
pub fn reachable(listens: &str, node: &str) -> String {
    let Ok(address) = listens.parse::<std::net::SocketAddr>() else { return listens.to_owned() };
    if !address.ip().is_unspecified() {
        return listens.to_owned();
    }
    let port = address.port();
    if node.contains(':') { format!("[{node}]:{port}") } else { format!("{node}:{port}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_goes_by_its_names_and_addresses() {
        for node in ["localhost", "LOCALHOST", "127.0.0.1", "::1", &name()] {
            assert!(is_here(node), "{node}");
        }
        // Addresses set aside for documentation: nobody has them.
        for node in ["203.0.113.7", "2001:db8::7", "0.0.0.0", "no-such-node.invalid"] {
            assert!(!is_here(node), "{node}");
        }
    }

    #[test]
    fn names_count_with_and_without_domain() {
        assert!(is_named("n1", "n1.cluster") && is_named("n1.cluster", "n1"));
        assert!(!is_named("n1.cluster", "n1.elsewhere") && !is_named("n2", "n1"));
        assert!(!is_named("10.0.0.1", "10"));
    }

    #[test]
    fn a_name_without_a_network_address_of_this_host_leads_to_all_addresses() {
        for node in ["localhost", "127.0.0.1", "203.0.113.7"] {
            let (address, note) = own_address(node);
            assert!(address.is_unspecified() && note.expect("a note").contains(node), "{node}");
        }
        if let Some(own) = addresses(&name()).into_iter().find(|a| !a.is_loopback() && is_own(*a)) {
            assert_eq!(own_address(&own.to_string()), (own, None));
        }
    }

    #[test]
    fn an_address_for_others_names_the_node() {
        assert_eq!(reachable("0.0.0.0:4000", "n1"), "n1:4000");
        assert_eq!(reachable("[::]:4000", "fd00::2"), "[fd00::2]:4000");
        assert_eq!(reachable("10.0.0.7:4000", "n1"), "10.0.0.7:4000");
    }
}
