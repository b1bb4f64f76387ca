//! The hint `cb_config_list`, in the syntax of ROMIO: `n1:2,n2,*:3`.
//!
//! An item is a host name, or `*` for every host, followed by the largest number of aggregators on such a
//! host: a number, `*` for all of its ranks, or nothing, which means one. The first item that names a host
//! applies. `n3:0,*:1` therefore means one aggregator on every host except n3.

use crate::Error;

/// A parsed `cb_config_list`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigList {
    items: Vec<Item>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Item {
    /// `None` means every host.
    host: Option<String>,
    /// The largest number of aggregators on each host.
    most: usize,
}

impl ConfigList {
    /// Parses a list. Blanks around items are ignored.
    pub fn parse(text: &str) -> Result<ConfigList, Error> {
        Ok(ConfigList { items: text.split(',').map(Item::parse).collect::<Result<_, _>>()? })
    }

    /// The index of the item that applies to a host, and the largest number of aggregators on it. `None` if
    /// no item names the host.
    pub(crate) fn find(&self, host: &str) -> Option<(usize, usize)> {
        let index =
            self.items.iter().position(|item| item.host.as_deref().is_none_or(|name| name == host))?;
        Some((index, self.items[index].most))
    }
}

/// One aggregator on every node.
impl Default for ConfigList {
    fn default() -> ConfigList {
        ConfigList { items: vec![Item { host: None, most: 1 }] }
    }
}

impl Item {
    fn parse(text: &str) -> Result<Item, Error> {
        let bad = || Error::ConfigItem(text.trim().to_owned());
        let (host, count) = match text.trim().split_once(':') {
            Some((host, count)) => (host.trim(), count.trim()),
            None => (text.trim(), "1"),
        };
        if host.is_empty() || host.contains(char::is_whitespace) {
            return Err(bad());
        }
        let most = match count {
            "*" => usize::MAX,
            _ if !count.is_empty() && count.bytes().all(|b| b.is_ascii_digit()) => {
                count.parse().unwrap_or(usize::MAX)
            }
            _ => return Err(bad()),
        };
        Ok(Item { host: (host != "*").then(|| host.to_owned()), most })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_item_that_names_a_host_counts() {
        let list = ConfigList::parse("n1:2, n2 ,n3:0,*:3,n4:7,*:*").expect("good");
        let all = ["n1", "n2", "n3", "n4", "n5"].map(|host| list.find(host));
        assert_eq!(all, [Some((0, 2)), Some((1, 1)), Some((2, 0)), Some((3, 3)), Some((3, 3))]);
        assert_eq!(ConfigList::parse("n1:*").expect("good").find("n1"), Some((0, usize::MAX)));
        assert_eq!(ConfigList::parse("n1").expect("good").find("n2"), None);
        assert_eq!(ConfigList::parse("*:1").expect("good"), ConfigList::default());
    }

    #[test]
    fn a_bad_item_is_named_on_one_line() {
        for bad in ["", ":1", "n0:", "n0:x", "n0,,n1", "a b:1", "n0:1:2", "n0:-1", "n0:+1"] {
            assert!(ConfigList::parse(bad).is_err(), "{bad}");
        }
        let error = ConfigList::parse("n0,n1:\nx").expect_err("bad");
        assert!(error.to_string().contains("\"n1:\\nx\""), "{error}");
        assert_eq!(error.kind(), pario_types::ErrorKind::Info);
    }
}
