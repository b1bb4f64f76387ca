//! The address at which a server listens.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::error::Error;

/// The address of a server: `unix:/path` or `tcp:host:port` (an IPv6 host in brackets).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A Unix socket.
    Unix(PathBuf),
    /// A host, by name or number, and a port.
    Tcp(String, u16),
}

impl Address {
    /// Whether only processes of this host can reach it.
    pub fn is_local(&self) -> bool {
        matches!(self, Address::Unix(_))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Tcp(host, port) if host.contains(':') => write!(f, "tcp:[{host}]:{port}"),
            Address::Tcp(host, port) => write!(f, "tcp:{host}:{port}"),
        }
    }
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Address, Error> {
        let address = match (text.strip_prefix("unix:"), text.strip_prefix("tcp:")) {
            (Some(path), _) => (!path.is_empty()).then(|| Address::Unix(path.into())),
            (None, Some(rest)) => host_and_port(rest),
            (None, None) => None,
        };
        address.ok_or_else(|| Error::Address { text: text.to_owned() })
    }
}

fn host_and_port(text: &str) -> Option<Address> {
    let (host, port) = text.rsplit_once(':')?;
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').filter(|host| host.contains(':'))?,
        None => Some(host).filter(|host| !host.contains([':', ']']))?,
    };
    let digits = port.bytes().all(|byte| byte.is_ascii_digit());
    (digits && !host.is_empty()).then_some(())?;
    Some(Address::Tcp(host.to_owned(), port.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_invalid_address_is_refused() {
        let wrong =
            ["", "unix:", "/run/x", "tcp:", "tcp:host", "tcp::80", "tcp:h:70000", "tcp:h:+1", "tcp:::1:80"];
        for text in wrong.into_iter().chain(["tcp:[::1]", "tcp:[h]:80", "udp:h:1", "tcp:[::1:80"]) {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
        assert_eq!("tcp:[::1]:80".parse::<Address>().unwrap(), Address::Tcp("::1".into(), 80));
    }

    proptest! {
        #[test]
        fn an_address_parses_as_it_is_displayed(
            host in "[a-z0-9.-]{1,12}|::[0-9a-f:]{0,8}",
            port: u16,
            path in "/\\PC{0,20}",
        ) {
            for address in [Address::Tcp(host, port), Address::Unix(path.into())] {
                prop_assert_eq!(address.to_string().parse::<Address>().unwrap(), address);
            }
        }
    }
}
