//! An incomplete description: values as they are read, then checks of the whole.

use std::collections::{HashMap, HashSet};

use pario_types::{AccessDefaults, ServerId, Strategy};

use super::keys::{self, Key, is_name};
use super::resource::Resource;
use super::{Description, Settings, Structure};
use crate::error::DescriptionError;

/// The smallest number of blocks of a cache: enough for every worker to hold some and to have some to evict.
const LEAST_BLOCKS: u64 = 16;

/// One `key = value` of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    /// Its line, from 1, where there are lines.
    pub line: Option<usize>,
    pub key: String,
    pub value: String,
}

/// A description that is not complete, or not checked.
#[derive(Debug)]
pub(super) struct Draft {
    /// Empty until known.
    pub name: String,
    pub servers: Vec<Resource>,
    pub metadata: Option<Resource>,
    pub count: Option<u64>,
    pub stripe_size: u64,
    pub block_size: u64,
    pub settings: Settings,
    /// The line of each key that was set; of the servers, all lines.
    lines: HashMap<&'static str, Vec<Option<usize>>>,
}

impl Draft {
    fn new() -> Draft {
        Draft {
            name: String::new(),
            servers: Vec::new(),
            metadata: None,
            count: None,
            stripe_size: 64 << 10,
            block_size: 64 << 10,
            settings: Settings::default(),
            lines: HashMap::new(),
        }
    }

    /// The draft of settings, each checked separately.
    pub fn from_settings(settings: Vec<Setting>) -> Result<Draft, DescriptionError> {
        let mut draft = Draft::new();
        for setting in settings {
            draft.put(setting)?;
        }
        Ok(draft)
    }

    /// The draft of a description.
    pub fn of(structure: &Structure, settings: &Settings) -> Draft {
        Draft {
            name: structure.name.clone(),
            servers: structure.servers.clone(),
            metadata: structure.servers.get(usize::from(structure.metadata.0)).cloned(),
            stripe_size: structure.stripe_size,
            block_size: structure.block_size,
            settings: settings.clone(),
            ..Draft::new()
        }
    }

    /// The same, each value checked separately.
    pub fn checked(mut self) -> Result<Draft, DescriptionError> {
        Draft::from_settings(
            self.spelled().into_iter().flat_map(|(key, value)| settings_of(key, value)).collect(),
        )
    }

    /// Each key's value as text.
    pub fn spelled(&mut self) -> Vec<(&'static Key, keys::Spelling)> {
        keys::keys().iter().filter_map(|key| Some((key, key.spell(self)?))).collect()
    }

    /// Changes one value.
    pub fn replace(&mut self, key: &str, value: &str) -> Result<(), DescriptionError> {
        if let Some(known) = keys::find(key) {
            if known.is_list() {
                self.servers.clear();
            }
            self.lines.remove(known.name);
        }
        self.put(Setting { line: None, key: key.to_owned(), value: value.to_owned() })
    }

    fn put(&mut self, setting: Setting) -> Result<(), DescriptionError> {
        let Setting { line, key, value } = setting;
        let Some(known) = keys::find(&key) else {
            let nearest = keys::nearest(&key);
            return Err(DescriptionError::Unknown { line, key, nearest });
        };
        let lines = self.lines.entry(known.name).or_default();
        if !lines.is_empty() && !known.is_list() {
            return Err(DescriptionError::Twice { line, key: known.name });
        }
        lines.push(line);
        known.set(self, &value).ok_or_else(|| DescriptionError::Value {
            line,
            key: known.name,
            value: value.clone(),
            allowed: known.allowed(),
        })
    }

    fn line(&self, key: &str) -> Option<usize> {
        self.lines.get(key).and_then(|lines| lines.last().copied().flatten())
    }

    /// The description, if it is consistent.
    pub fn finish(self, fallback: Option<&str>) -> Result<Description, DescriptionError> {
        let metadata = self.check_servers()?;
        self.check_cache()?;
        self.check_tier1()?;
        let port = self.settings.port;
        if port > 0 && self.servers.len() - 1 > usize::from(u16::MAX - port) {
            return Err(DescriptionError::Ports {
                line: self.line("port"),
                port,
                servers: self.servers.len(),
            });
        }
        let name = match (self.name, fallback) {
            (name, _) if !name.is_empty() => name,
            (_, Some(fallback)) if is_name(fallback) => fallback.to_owned(),
            (_, Some(fallback)) => return Err(DescriptionError::NoName(fallback.to_owned())),
            (_, None) => return Err(DescriptionError::Missing("name")),
        };
        let Draft { servers, stripe_size, block_size, settings, .. } = self;
        Ok(Description {
            structure: Structure { name, servers, metadata, stripe_size, block_size },
            settings,
        })
    }

    /// The metadata server, if the servers are valid.
    fn check_servers(&self) -> Result<ServerId, DescriptionError> {
        if self.servers.is_empty() {
            return Err(DescriptionError::Missing("servers"));
        }
        let mut seen = HashSet::new();
        for (index, resource) in self.servers.iter().enumerate() {
            if !seen.insert(resource) {
                let line = self.lines.get("servers").and_then(|lines| lines.get(index).copied().flatten());
                return Err(DescriptionError::SamePlace { line, place: resource.to_string() });
            }
        }
        if let Some(said) = self.count.filter(|&said| said != self.servers.len() as u64) {
            return Err(DescriptionError::Count {
                line: self.line("nr_ios"),
                said,
                servers: self.servers.len(),
            });
        }
        let index = match &self.metadata {
            None => 0,
            Some(place) => self.servers.iter().position(|resource| resource == place).ok_or_else(|| {
                DescriptionError::Metadata { line: self.line("metadata"), place: place.to_string() }
            })?,
        };
        Ok(ServerId(u16::try_from(index).expect("no more servers than numbers for them")))
    }

    fn check_cache(&self) -> Result<(), DescriptionError> {
        let Settings { cache, high_water, low_water, .. } = self.settings;
        let blocks = cache / self.block_size;
        if blocks < LEAST_BLOCKS {
            let line = self.line("cache").or(self.line("block_size"));
            return Err(DescriptionError::SmallCache {
                line,
                cache,
                block: self.block_size,
                least: LEAST_BLOCKS,
            });
        }
        let (low, high) = (low_water.of(blocks), high_water.of(blocks));
        if low >= high || high > blocks {
            let line = self.line("high_water").or(self.line("low_water"));
            return Err(DescriptionError::Watermarks { line, low, high, blocks });
        }
        Ok(())
    }

    fn check_tier1(&self) -> Result<(), DescriptionError> {
        let AccessDefaults { strategy, tier1, tier1_high: high, tier1_low: low, .. } = self.settings.access;
        if low > high {
            let line = self.line("tier1_high_water").or(self.line("tier1_low_water"));
            return Err(DescriptionError::Tier1Watermarks { line, low, high });
        }
        if strategy == Strategy::ClientDirected && !tier1 {
            return Err(DescriptionError::NoTier1 { line: self.line("tier1").or(self.line("strategy")) });
        }
        Ok(())
    }
}

/// The settings that give a key this value.
pub(super) fn settings_of(key: &Key, value: keys::Spelling) -> Vec<Setting> {
    let setting = |value| Setting { line: None, key: key.name.to_owned(), value };
    match value {
        keys::Spelling::List(all) => all.into_iter().map(setting).collect(),
        one => vec![setting(one.to_string())],
    }
}
