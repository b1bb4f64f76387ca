//! Paths within a partition: absolute, and of plain names only, so that no path leads out of it.

use crate::Error;

/// Bytes of the longest path.
pub const LONGEST_PATH: usize = 4096;
/// Bytes of the longest name of a file or directory.
pub const LONGEST_NAME: usize = 255;

/// A checked path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path<'a>(&'a str);

impl<'a> Path<'a> {
    pub fn new(path: &'a str) -> Result<Path<'a>, Error> {
        let bad = |why| Error::BadPath { path: beginning(path), why };
        if path.len() > LONGEST_PATH {
            return Err(Error::TooLong { path: beginning(path) });
        }
        let Some(rest) = path.strip_prefix('/') else { return Err(bad("it does not begin with /")) };
        if path.contains('\0') {
            return Err(bad("it contains a zero byte"));
        }
        if !rest.is_empty() {
            for name in rest.split('/') {
                match name {
                    "" => return Err(bad("it has an empty name")),
                    "." | ".." => return Err(bad("it has . or .. in it")),
                    _ if name.len() > LONGEST_NAME => return Err(Error::TooLong { path: beginning(name) }),
                    _ => {}
                }
            }
        }
        Ok(Path(path))
    }

    pub fn is_root(self) -> bool {
        self.0 == "/"
    }

    pub fn as_str(self) -> &'a str {
        self.0
    }

    /// The names in it, each with the path up to and including it.
    pub fn names(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let path = self.0;
        let mut from = 1;
        std::iter::from_fn(move || {
            let rest = path.get(from..).filter(|rest| !rest.is_empty())?;
            let len = rest.find('/').unwrap_or(rest.len());
            let end = from + len;
            from = end + 1;
            Some((&rest[..len], &path[..end]))
        })
    }

    /// Returns the path of its directory; the root's is the root.
    pub fn parent(self) -> &'a str {
        match self.0.rfind('/') {
            None | Some(0) => "/",
            Some(at) => &self.0[..at],
        }
    }
}

/// Returns enough of a wrong path to recognise it.
fn beginning(path: &str) -> String {
    path.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_with_their_paths() {
        let path = Path::new("/a/bc/d").expect("sound");
        let names: Vec<_> = path.names().collect();
        assert_eq!(names, [("a", "/a"), ("bc", "/a/bc"), ("d", "/a/bc/d")]);
        assert_eq!(path.parent(), "/a/bc");
        assert_eq!(Path::new("/").expect("sound").names().count(), 0);
        assert_eq!(Path::new("/a").expect("sound").parent(), "/");
    }

    #[test]
    fn invalid_paths_are_refused() {
        for path in ["", "a", "//", "/a/", "/a//b", "/.", "/a/../b", "/a\0"] {
            assert!(matches!(Path::new(path), Err(Error::BadPath { .. })), "{path:?}");
        }
        let long = "x".repeat(LONGEST_NAME);
        assert!(Path::new(&format!("/{long}")).is_ok());
        assert!(matches!(Path::new(&format!("/{long}x")), Err(Error::TooLong { .. })));
        assert!(matches!(Path::new(&"/x".repeat(2049)), Err(Error::TooLong { .. })));
        assert!(Path::new(&"/x".repeat(2048)).is_ok());
    }
}
