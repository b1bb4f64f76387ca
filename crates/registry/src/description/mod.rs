//! A partition file: the structure of a partition, and the settings of its servers.
//!
//! Every key is one entry of a table (`keys`): its names, kind, range, default, meaning and field in the description. A
//! text, in TOML or the plain format of the AHPIOS paper, becomes a list of settings with their lines (`read`), each is
//! stored in its field, and the whole is checked (`draft`). The JSON of the registry is read in the same way, so there is
//! one set of checks.

mod codec;
mod draft;
mod keys;
mod listen;
mod read;
mod resource;
mod value;

use std::path::Path;
use std::time::Duration;

use pario_types::{AccessDefaults, ServerId};

use crate::error::{DescriptionError, Error};
use draft::Draft;
pub(crate) use keys::is_name;
pub use keys::{Key, keys};
pub use listen::Listen;
pub use resource::Resource;
pub use value::{Launcher, Scheduling, Water};

/// A partition file, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    structure: Structure,
    settings: Settings,
}

/// The properties that are fixed when a partition is created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Structure {
    /// The partition's name.
    pub name: String,
    /// The directories of its servers, by [`ServerId`].
    pub servers: Vec<Resource>,
    /// The server that also has the name space.
    pub metadata: ServerId,
    /// The default number of bytes of a stripe.
    pub stripe_size: u64,
    /// Bytes of a block of the servers' caches.
    pub block_size: u64,
}

/// The settings that may change at each start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of each server's cache.
    pub cache: u64,
    /// Dirty blocks at which a server's flusher starts.
    pub high_water: Water,
    /// Dirty blocks at which it stops.
    pub low_water: Water,
    /// The number of threads of a server that process requests.
    pub workers: u16,
    /// The order in which they process them.
    pub scheduling: Scheduling,
    /// The defaults for accesses to its files, where hints say nothing else.
    pub access: AccessDefaults,
    /// Whether a server that dies is restarted.
    pub supervise: bool,
    /// The program that starts servers.
    pub launcher: Launcher,
    /// The TCP port of server 0, the next one of server 1, and so on; 0: any.
    pub port: u16,
    /// The address at which servers listen for other hosts.
    pub listen: Listen,
    /// Whether TCP traffic is encrypted.
    pub encryption: bool,
    /// The deadline of a request.
    pub deadline: Duration,
}

impl Description {
    /// Reads a partition file's text. `fallback` is its name if the text has none, usually that of the file.
    pub fn parse(text: &str, fallback: Option<&str>) -> Result<Description, Error> {
        Ok(Draft::from_settings(read::settings(text)?)?.finish(fallback)?)
    }

    /// Reads a partition file. Its name without extension is the partition's, if the file does not name another.
    pub fn read(path: &Path) -> Result<Description, Error> {
        let bytes = pario_runtime::fs::read(path).map_err(Error::io("read the partition file", path))?;
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let text = std::str::from_utf8(&bytes).map_err(|error| {
            let line = bytes[..error.valid_up_to()].iter().filter(|&&byte| byte == b'\n').count() + 1;
            DescriptionError::Syntax { line: Some(line), why: "the text is not UTF-8".to_owned() }
        })?;
        Description::parse(text, stem)
    }

    /// Creates a description of these parts, if they are consistent.
    pub fn new(structure: Structure, settings: Settings) -> Result<Description, Error> {
        if usize::from(structure.metadata.0) >= structure.servers.len() {
            return Err(DescriptionError::Metadata {
                line: None,
                place: format!("server {}", structure.metadata),
            }
            .into());
        }
        Ok(Draft::of(&structure, &settings).checked()?.finish(None)?)
    }

    /// The same with one value changed, in the user's notation. Not for lists.
    pub fn with(&self, key: &str, value: &str) -> Result<Description, Error> {
        let mut draft = Draft::of(&self.structure, &self.settings);
        draft.replace(key, value)?;
        Ok(draft.finish(None)?)
    }

    /// The same with other servers. The metadata server stays where it is.
    pub fn with_servers(&self, servers: Vec<Resource>) -> Result<Description, Error> {
        Description::new(Structure { servers, ..self.structure.clone() }, self.settings.clone())
    }

    /// The partition's name.
    pub fn name(&self) -> &str {
        &self.structure.name
    }

    /// The properties that are fixed when the partition is created.
    pub fn structure(&self) -> &Structure {
        &self.structure
    }

    /// The settings that may change at each start.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Blocks of each server's cache.
    pub fn cache_blocks(&self) -> u64 {
        self.settings.cache / self.structure.block_size
    }

    /// Checks that `asked` describes the same partition as `self` in all fixed properties. The first difference is the
    /// error.
    pub fn check_same_structure(&self, asked: &Description) -> Result<(), Error> {
        let (mut fixed, mut other) = (self.draft(), asked.draft());
        for key in keys().iter().filter(|key| key.structural) {
            let (fixed, asked) = (key.spell(&mut fixed), key.spell(&mut other));
            if fixed != asked {
                let spelled =
                    |value: Option<keys::Spelling>| value.map_or_else(String::new, |v| v.to_string());
                return Err(Error::Structure {
                    name: self.name().to_owned(),
                    key: key.name,
                    fixed: spelled(fixed),
                    asked: spelled(asked),
                });
            }
        }
        Ok(())
    }

    fn draft(&self) -> Draft {
        Draft::of(&self.structure, &self.settings)
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            cache: 256 << 20,
            high_water: Water::Percent(50),
            low_water: Water::Percent(25),
            workers: 4,
            scheduling: Scheduling::Fair,
            access: AccessDefaults::default(),
            supervise: true,
            launcher: Launcher::Auto,
            port: 0,
            listen: Listen::Auto,
            encryption: false,
            deadline: Duration::from_secs(30),
        }
    }
}

#[cfg(test)]
mod tests;
