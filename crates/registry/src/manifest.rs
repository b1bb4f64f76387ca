//! The manifest in a server's directory, by which a partition can be registered again from its directories alone.
//!
//! `partition`, version 2, text:
//!
//! ```text
//! pario-partition 2
//! crc32c 0a1b2c3d
//! {"id":"00112233445566778899aabbccddeeff","server":1,"description":{"name":"scratch","servers":["n0:/data","n1:/data"],…},"epoch":1,"peers":[["unix:…/0/socket"],["tcp:n1:40000"]]}
//! ```
//!
//! The checksum is that of all bytes after its own line. The file is replaced as a whole (mode 600) whenever a server
//! starts with another description, and when the set of servers changes while it runs: a server that is started again with an older
//! set continues with the set and the addresses (`peers`) of its manifest. It contains no secret: registering the partition again creates a new one.

use std::io;
use std::path::{Path, PathBuf};

use pario_types::{Epoch, PartitionId, ServerId};
use serde::{Deserialize, Serialize};

use crate::description::Description;
use crate::entry::{epoch, hexadecimal, number};
use crate::error::Error;
use crate::replace::replace;

const NAME: &str = "partition";
const HEAD: &str = "pario-partition ";
const VERSION: u64 = 2;

/// The manifest in a server's directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The partition.
    #[serde(with = "hexadecimal")]
    pub id: PartitionId,
    /// The server.
    #[serde(with = "number")]
    pub server: ServerId,
    /// The description of the partition, as of the last start of its servers.
    pub description: Description,
    /// The version of the set of servers.
    #[serde(with = "epoch")]
    pub epoch: Epoch,
    /// The addresses of the servers, if the set has changed since the server was started.
    pub peers: Vec<Vec<String>>,
}

impl Manifest {
    /// Reads the manifest of a directory.
    pub fn read(directory: &Path) -> Result<Manifest, Error> {
        let path = directory.join(NAME);
        let text = pario_runtime::fs::read_to_string(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Error::NoManifest(directory.to_owned()),
            _ => Error::io("read", &path)(error),
        })?;
        Manifest::parse(&text, &path)
    }

    /// Writes the manifest to a directory, unless it is there already. It is on the medium after this.
    pub fn write(&self, directory: &Path) -> Result<(), Error> {
        let before = Manifest::read(directory).ok();
        if before.as_ref() == Some(self) {
            return Ok(());
        }
        let written = replace(&directory.join(NAME), self.text().as_bytes(), &|_| Ok(()));
        // If there is no space, a change of the settings is not an error: the fixed properties are there.
        let enough = before.is_some_and(|before| before.says_the_same(self));
        if enough { Ok(()) } else { written }
    }

    fn says_the_same(&self, other: &Manifest) -> bool {
        let same = self.description.check_same_structure(&other.description).is_ok();
        same && (self.id, self.server, self.epoch) == (other.id, other.server, other.epoch)
    }

    fn text(&self) -> String {
        let body = serde_json::to_string(self).expect("it can be written as JSON") + "\n";
        format!("{HEAD}{VERSION}\ncrc32c {:08x}\n{body}", crc32c::crc32c(body.as_bytes()))
    }

    fn parse(text: &str, path: &Path) -> Result<Manifest, Error> {
        let path: PathBuf = path.to_owned();
        let garbled = |why: &str| Error::Garbled { path: path.clone(), why: why.to_owned() };
        let (head, rest) = text.split_once('\n').ok_or_else(|| garbled("it has no lines"))?;
        let version = head.strip_prefix(HEAD).and_then(|version| version.parse().ok());
        match version.ok_or_else(|| garbled("it does not begin like a partition's"))? {
            VERSION => {}
            found => return Err(Error::Version { path, found, known: VERSION }),
        }
        let (sum, body) = rest.split_once('\n').ok_or_else(|| garbled("it is cut short"))?;
        let sum = sum.strip_prefix("crc32c ").and_then(|sum| u32::from_str_radix(sum, 16).ok());
        if sum != Some(crc32c::crc32c(body.as_bytes())) {
            return Err(garbled("its checksum is wrong"));
        }
        let manifest: Manifest = serde_json::from_str(body).map_err(|error| garbled(&error.to_string()))?;
        if usize::from(manifest.server.0) >= manifest.description.structure().servers.len() {
            return Err(garbled("it is of a server that its partition does not have"));
        }
        Ok(manifest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::tests::Scratch;
    use std::os::unix::fs::MetadataExt;

    fn manifest(cache: &str) -> Manifest {
        let text = format!("servers = ['/a', 'n1:/b']\ncache = '{cache}'");
        let description = Description::parse(&text, Some("p")).expect("sound");
        Manifest { id: PartitionId(7), server: ServerId(1), description, epoch: Epoch(0), peers: Vec::new() }
    }

    #[test]
    fn a_manifest_reads_back_and_is_replaced_as_a_whole() {
        let scratch = Scratch::new("manifest");
        let dir = scratch.dir();
        assert!(matches!(Manifest::read(dir), Err(Error::NoManifest(_))));
        for cache in ["1M", "2M"] {
            manifest(cache).write(dir).expect("written");
            assert_eq!(Manifest::read(dir).expect("read"), manifest(cache));
        }
        assert_eq!(dir.join(NAME).metadata().expect("there").mode() & 0o7777, 0o600);
    }

    #[test]
    fn damage_at_any_byte_is_found() {
        let scratch = Scratch::new("manifest-damage");
        let dir = scratch.dir();
        manifest("1M").write(dir).expect("written");
        let good = std::fs::read(dir.join(NAME)).expect("read");
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            std::fs::write(dir.join(NAME), &bad).expect("written");
            let error = Manifest::read(dir).map(|read| assert_eq!(read, manifest("1M"))).err();
            // A hexadecimal digit may be written in two ways.
            assert!(error.is_some() || bad.eq_ignore_ascii_case(&good), "byte {at}");
            std::fs::write(dir.join(NAME), &good[..at]).expect("written");
            assert!(Manifest::read(dir).is_err(), "cut at {at}");
        }
    }
}
