//! The addresses at which servers listen for other hosts.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use crate::error::Error;
use crate::sys;

/// The address at which servers listen for other hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// None if every server is on one host, else the address of the name of the server's node.
    Auto,
    /// Every address.
    All,
    /// None: only processes of the same host can connect.
    Nowhere,
    /// This address.
    Address(IpAddr),
    /// The address of this network interface.
    Interface(String),
}

impl Listen {
    /// The address on this host; `None`: do not listen. [`Listen::Auto`] does not listen: a caller that knows of several
    /// hosts chooses the address.
    pub fn address(&self) -> Result<Option<IpAddr>, Error> {
        match self {
            Listen::All => Ok(Some(Ipv4Addr::UNSPECIFIED.into())),
            Listen::Auto | Listen::Nowhere => Ok(None),
            Listen::Address(address) => Ok(Some(*address)),
            Listen::Interface(name) => {
                let all = sys::interface_addresses(name)
                    .map_err(Error::io("list the network interfaces for", name))?;
                // IPv4 first: an IPv6 address may be valid on its link only.
                let best = all.iter().find(|address| address.is_ipv4()).or(all.first());
                best.copied().map(Some).ok_or_else(|| Error::NoInterface(name.clone()))
            }
        }
    }

    pub(super) fn parse(text: &str) -> Option<Listen> {
        if text.eq_ignore_ascii_case("auto") {
            return Some(Listen::Auto);
        }
        if text.eq_ignore_ascii_case("all") {
            return Some(Listen::All);
        }
        if text.eq_ignore_ascii_case("none") {
            return Some(Listen::Nowhere);
        }
        if let Ok(address) = text.parse() {
            return Some(Listen::Address(address));
        }
        // The limits of Linux: 15 bytes, no blanks, no slash, no colon.
        let sound = |c: char| c.is_ascii_graphic() && !matches!(c, '/' | ':');
        (!text.is_empty() && text.len() <= 15 && text.chars().all(sound))
            .then(|| Listen::Interface(text.to_owned()))
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::Auto => f.write_str("auto"),
            Listen::All => f.write_str("all"),
            Listen::Nowhere => f.write_str("none"),
            Listen::Address(address) => address.fmt(f),
            Listen::Interface(name) => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv6Addr;

    #[test]
    fn a_listen_address_is_a_keyword_an_address_or_an_interface() {
        for (text, listen) in [
            ("auto", Listen::Auto),
            ("all", Listen::All),
            ("NONE", Listen::Nowhere),
            ("10.0.0.1", Listen::Address(Ipv4Addr::new(10, 0, 0, 1).into())),
            ("::1", Listen::Address(Ipv6Addr::LOCALHOST.into())),
            ("eth0.100", Listen::Interface("eth0.100".to_owned())),
        ] {
            assert_eq!(Listen::parse(text), Some(listen.clone()));
            assert_eq!(Listen::parse(&listen.to_string()), Some(listen));
        }
        for bad in ["", "a b", "a/b", "eth0:1", "a-name-that-is-too-long"] {
            assert_eq!(Listen::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn interfaces_are_looked_up_on_this_host() {
        let address = |text: &str| Listen::parse(text).expect("sound").address();
        assert_eq!(address("lo").expect("every host has one"), Some(Ipv4Addr::LOCALHOST.into()));
        assert_eq!(address("none").expect("nothing to look up"), None);
        assert!(matches!(address("no-such-0"), Err(Error::NoInterface(_))));
    }
}
