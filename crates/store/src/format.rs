//! The `format` file: the partition and the server to which a store belongs. It is text, so that people can read it:
//!
//! ```text
//! pario-store 2
//! partition 00112233445566778899aabbccddeeff
//! server 3
//! block 65536
//! ```

use std::path::Path;

use pario_types::{PartitionId, ServerId};

use crate::{Error, Result};

const VERSION: u32 = 2;

/// The owner of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreIdentity {
    /// The partition.
    pub partition: PartitionId,
    /// The server in it.
    pub server: ServerId,
}

/// The content of a format file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreFormat {
    version: u32,
    identity: StoreIdentity,
    block: usize,
}

impl StoreFormat {
    /// The content for a store that this program creates.
    pub fn new(identity: StoreIdentity, block: usize) -> StoreFormat {
        StoreFormat { version: VERSION, identity, block }
    }

    /// The file's text.
    pub fn text(&self) -> String {
        let StoreIdentity { partition, server } = self.identity;
        let StoreFormat { version, block, .. } = self;
        format!("pario-store {version}\npartition {partition}\nserver {server}\nblock {block}\n")
    }

    /// Parses a text; `None` if it is no format file. Of another version only the version number is known.
    fn parse(text: &str) -> Option<StoreFormat> {
        let mut lines = text.lines();
        let mut value = |key: &str| lines.next()?.strip_prefix(key)?.strip_prefix(' ');
        let version = value("pario-store")?.parse().ok()?;
        if version != VERSION {
            let identity = StoreIdentity { partition: PartitionId(0), server: ServerId(0) };
            return Some(StoreFormat { version, identity, block: 0 });
        }
        let partition = PartitionId(u128::from_str_radix(value("partition")?, 16).ok()?);
        let server = ServerId(value("server")?.parse().ok()?);
        let block = value("block")?.parse().ok()?;
        let format = StoreFormat { version, identity: StoreIdentity { partition, server }, block };
        (format.text() == text).then_some(format)
    }

    /// Whether a directory with this format file may be opened as such a store.
    pub fn check(&self, directory: &Path, file: &Path, text: &[u8]) -> Result<()> {
        let found = std::str::from_utf8(text).ok().and_then(StoreFormat::parse);
        let found = found.ok_or_else(|| Error::NoFormat { path: file.to_owned() })?;
        let differs = |what, found: String, wanted: String| {
            let path = directory.to_owned();
            if found == wanted { Ok(()) } else { Err(Error::Foreign { path, what, found, wanted }) }
        };
        let (is, be) = (found.identity, self.identity);
        differs("the version", found.version.to_string(), self.version.to_string())?;
        differs("the partition", is.partition.to_string(), be.partition.to_string())?;
        differs("the server's number", is.server.to_string(), be.server.to_string())?;
        differs("the block size", found.block.to_string(), self.block.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(partition: u128, server: u16, block: usize) -> StoreFormat {
        StoreFormat::new(StoreIdentity { partition: PartitionId(partition), server: ServerId(server) }, block)
    }

    #[test]
    fn only_an_equal_format_is_accepted() {
        let (dir, file) = (Path::new("/d"), Path::new("/d/format"));
        let ours = format(0xab, 3, 65536);
        let check = |text: &str| ours.check(dir, file, text.as_bytes());
        assert_eq!(check(&ours.text()), Ok(()));
        let others = [
            ("the partition", format(0xac, 3, 65536).text()),
            ("the server's number", format(0xab, 2, 65536).text()),
            ("the block size", format(0xab, 3, 4096).text()),
            ("the version", "pario-store 3\nanything else\n".to_owned()),
        ];
        for (differs, text) in others {
            match check(&text) {
                Err(Error::Foreign { what, .. }) => assert_eq!(what, differs),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_truncated_or_changed_format_file_is_refused() {
        let (dir, file) = (Path::new("/d"), Path::new("/d/format"));
        let ours = format(0xab, 3, 65536);
        let text = ours.text();
        for len in 0..text.len() {
            assert!(ours.check(dir, file, &text.as_bytes()[..len]).is_err(), "{len}");
        }
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 0x80;
            assert!(ours.check(dir, file, &bytes).is_err(), "{at}");
        }
        assert!(ours.check(dir, file, format!("{text}more\n").as_bytes()).is_err());
    }
}
