//! A storage resource: a node and a directory there, written `node:/dir`, or `/dir` for this host.

use std::fmt;

/// The directory of a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Resource {
    /// The node's name or address; `None`: the host where the partition is created.
    pub node: Option<String>,
    /// An absolute path there, without `.`, `..` or empty parts.
    pub dir: String,
}

/// The longest path of any system.
const LONGEST: usize = 4096;

impl Resource {
    /// Reads `node:/dir` or `/dir`.
    pub fn parse(text: &str) -> Option<Resource> {
        if text.len() > LONGEST || text.chars().any(char::is_control) {
            return None;
        }
        let (node, dir) = match text.find(":/") {
            _ if text.starts_with('/') => (None, text),
            Some(colon) => (Some(node(&text[..colon])?), &text[colon + 1..]),
            None => return None,
        };
        Some(Resource { node, dir: directory(dir)? })
    }
}

/// A name or an address (IPv6 with or without brackets). It becomes an argument of `ssh` and its kin, so
/// anything that could be an option or more than one word is refused.
fn node(text: &str) -> Option<String> {
    let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
    let sound = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    (!bare.is_empty() && !bare.starts_with('-') && bare.chars().all(sound)).then(|| bare.to_owned())
}

fn directory(text: &str) -> Option<String> {
    let parts = || text.split('/').filter(|part| !part.is_empty() && *part != ".");
    let sound = parts().all(|part| part != "..") && parts().next().is_some();
    sound.then(|| parts().flat_map(|part| ["/", part]).collect())
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.node {
            Some(node) => write!(f, "{node}:{}", self.dir),
            None => f.write_str(&self.dir),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_a_node_and_a_directory() {
        for (text, node, dir) in [
            ("n0:/data", Some("n0"), "/data"),
            ("/scratch/me", None, "/scratch/me"),
            ("io-1.cluster:/a//b/./c/", Some("io-1.cluster"), "/a/b/c"),
            ("[fd00::2]:/d", Some("fd00::2"), "/d"),
            ("::1:/d", Some("::1"), "/d"),
            ("n0:/a:/b", Some("n0"), "/a:/b"),
            ("/a:/b", None, "/a:/b"),
        ] {
            let resource = Resource::parse(text).expect(text);
            assert_eq!((resource.node.as_deref(), resource.dir.as_str()), (node, dir), "{text}");
            assert_eq!(Resource::parse(&resource.to_string()).as_ref(), Some(&resource));
        }
    }

    #[test]
    fn an_invalid_resource_is_refused() {
        for text in [
            "",
            "/",
            "n0",
            "n0:",
            "n0:data",
            "data",
            ":/data",
            "n0:/",
            "-oProxy:/x",
            "a b:/x",
            "a;b:/x",
            "n0:/a/../b",
            "n0:/a\nb",
            "u@h:/x",
            "[]:/x",
        ] {
            assert_eq!(Resource::parse(text), None, "{text}");
        }
    }
}
