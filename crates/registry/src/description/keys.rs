//! The table of keys: one entry each.

use std::fmt;
use std::time::Duration;

use pario_types::{MAX_NETWORK_BUFFER, Strategy};

use super::draft::Draft;
use super::listen::Listen;
use super::resource::Resource;
use super::value::{Launcher, Scheduling, Water, parse_percent, parse_time, spell_time, whole};
use pario_types::{format_size, parse_size};

/// A key of partition files.
#[derive(Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// Other names for it, such as the AHPIOS paper's.
    pub aliases: &'static [&'static str],
    /// Whether it is fixed when the partition is created.
    pub structural: bool,
    /// Its meaning, in a line or two.
    pub doc: &'static str,
    kind: Kind,
}

/// The values of a key, and their field in a draft.
enum Kind {
    Name,
    Servers,
    Metadata,
    /// The number of servers: it is only checked, never stored.
    Servercount,
    Size {
        least: u64,
        most: u64,
        power: bool,
        at: fn(&mut Draft) -> &mut u64,
    },
    Number {
        least: u16,
        most: u16,
        at: fn(&mut Draft) -> &mut u16,
    },
    Switch {
        at: fn(&mut Draft) -> &mut bool,
    },
    Water {
        at: fn(&mut Draft) -> &mut Water,
    },
    Percent {
        at: fn(&mut Draft) -> &mut u8,
    },
    Time {
        least: Duration,
        most: Duration,
        at: fn(&mut Draft) -> &mut Duration,
    },
    Listen {
        at: fn(&mut Draft) -> &mut Listen,
    },
    Word {
        words: &'static [&'static str],
        set: fn(&mut Draft, &str) -> Option<()>,
        get: fn(&Draft) -> &'static str,
    },
}

/// A value as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Spelling {
    Text(String),
    Size(u64),
    Number(u64),
    Switch(bool),
    List(Vec<String>),
}

macro_rules! words {
    ($type:ident, $field:ident) => {
        Kind::Word {
            words: $type::WORDS,
            set: |draft, text| $type::parse(text).map(|value| draft.settings.$field = value),
            get: |draft| draft.settings.$field.word(),
        }
    };
}

const FIXED: bool = true;
const FREE: bool = false;

/// The strategies that a partition may prefer. Data shipping is a choice of the program alone.
const STRATEGIES: &[&str] = &[
    Strategy::Auto.name(),
    Strategy::Independent.name(),
    Strategy::TwoPhase.name(),
    Strategy::ClientDirected.name(),
    Strategy::ServerDirected.name(),
];

static KEYS: &[Key] = &[
    Key {
        name: "name",
        aliases: &["partition"],
        structural: FIXED,
        doc: "The partition's name. Without it the file's name without extension is taken.",
        kind: Kind::Name,
    },
    Key {
        name: "servers",
        aliases: &["ahpfs_server", "server"],
        structural: FIXED,
        doc: "Where each server keeps its data: node:/dir, or /dir for this host.",
        kind: Kind::Servers,
    },
    Key {
        name: "nr_ios",
        aliases: &[],
        structural: FREE,
        doc: "The number of servers; if it is there, it has to be right.",
        kind: Kind::Servercount,
    },
    Key {
        name: "metadata",
        aliases: &[],
        structural: FIXED,
        doc: "The server that also keeps the name space, one of those above. Without it the first.",
        kind: Kind::Metadata,
    },
    Key {
        name: "stripe_size",
        aliases: &[],
        structural: FIXED,
        doc: "Bytes of a stripe, where a file's creator does not say otherwise.",
        kind: Kind::Size { least: 512, most: 1 << 40, power: false, at: |draft| &mut draft.stripe_size },
    },
    Key {
        name: "block_size",
        aliases: &[],
        structural: FIXED,
        doc: "Bytes of a block of the servers' caches.",
        kind: Kind::Size { least: 4096, most: 64 << 20, power: true, at: |draft| &mut draft.block_size },
    },
    Key {
        name: "cache",
        aliases: &["cache_size"],
        structural: FREE,
        doc: "Bytes of each server's cache, in memory.",
        kind: Kind::Size {
            least: 64 << 10,
            most: 1 << 44,
            power: false,
            at: |draft| &mut draft.settings.cache,
        },
    },
    Key {
        name: "high_water",
        aliases: &[],
        structural: FREE,
        doc: "Dirty blocks at which a server starts to write to storage by itself.",
        kind: Kind::Water { at: |draft| &mut draft.settings.high_water },
    },
    Key {
        name: "low_water",
        aliases: &[],
        structural: FREE,
        doc: "Dirty blocks at which it rests.",
        kind: Kind::Water { at: |draft| &mut draft.settings.low_water },
    },
    Key {
        name: "network_buffer",
        aliases: &[],
        structural: FREE,
        doc: "The most bytes of data in one message between a client and a server, where the hint pario_network_buffer \
              is not set.",
        kind: Kind::Size {
            least: 4096,
            most: MAX_NETWORK_BUFFER,
            power: false,
            at: |draft| &mut draft.settings.access.network_buffer,
        },
    },
    Key {
        name: "workers",
        aliases: &[],
        structural: FREE,
        doc: "Threads of a server that do requests.",
        kind: Kind::Number { least: 1, most: 256, at: |draft| &mut draft.settings.workers },
    },
    Key {
        name: "scheduling",
        aliases: &[],
        structural: FREE,
        doc: "In which order requests are taken up: fair, of each program in turn, or arrival, as they come.",
        kind: words!(Scheduling, scheduling),
    },
    Key {
        name: "strategy",
        aliases: &[],
        structural: FREE,
        doc: "How collective calls move data, where the hint pario_strategy is not set.",
        kind: Kind::Word {
            words: STRATEGIES,
            set: |draft, text| {
                let strategy =
                    Strategy::from_name(text).filter(|known| STRATEGIES.contains(&known.name()))?;
                draft.settings.access.strategy = strategy;
                Some(())
            },
            get: |draft| draft.settings.access.strategy.name(),
        },
    },
    Key {
        name: "tier1",
        aliases: &[],
        structural: FREE,
        doc: "Whether collective calls may keep blocks in the memory of the ranks. off: what such a call has written is \
              with the servers when it returns, and outlives its ranks, whatever the hints say.",
        kind: Kind::Switch { at: |draft| &mut draft.settings.access.tier1 },
    },
    Key {
        name: "tier1_size",
        aliases: &[],
        structural: FREE,
        doc: "The memory of each rank for these blocks, where the hint pario_tier1_size is not set.",
        kind: Kind::Size {
            least: 4096,
            most: 4 << 30,
            power: false,
            at: |draft| &mut draft.settings.access.tier1_size,
        },
    },
    Key {
        name: "tier1_high_water",
        aliases: &[],
        structural: FREE,
        doc: "The share of dirty blocks in that memory above which a rank writes them to the servers at once, where the \
              hint pario_tier1_high is not set.",
        kind: Kind::Percent { at: |draft| &mut draft.settings.access.tier1_high },
    },
    Key {
        name: "tier1_low_water",
        aliases: &[],
        structural: FREE,
        doc: "The share of dirty blocks down to which it does so, where the hint pario_tier1_low is not set.",
        kind: Kind::Percent { at: |draft| &mut draft.settings.access.tier1_low },
    },
    Key {
        name: "supervise",
        aliases: &[],
        structural: FREE,
        doc: "Whether a server that dies is started again.",
        kind: Kind::Switch { at: |draft| &mut draft.settings.supervise },
    },
    Key {
        name: "launcher",
        aliases: &[],
        structural: FREE,
        doc: "What starts servers. auto: a plain process on this host, srun in a Slurm job, else ssh.",
        kind: words!(Launcher, launcher),
    },
    Key {
        name: "port",
        aliases: &[],
        structural: FREE,
        doc: "The TCP port of the first server, the next one of the second, and so on. 0: any that is free.",
        kind: Kind::Number { least: 0, most: u16::MAX, at: |draft| &mut draft.settings.port },
    },
    Key {
        name: "listen",
        aliases: &[],
        structural: FREE,
        doc: "The address or network interface at which servers listen for other hosts, or all, or none. auto: none if \
              every server is on one host, else the address of the server's node.",
        kind: Kind::Listen { at: |draft| &mut draft.settings.listen },
    },
    Key {
        name: "encryption",
        aliases: &[],
        structural: FREE,
        doc: "Whether what goes over TCP is encrypted. That nobody on the way can change it is certain without it.",
        kind: Kind::Switch { at: |draft| &mut draft.settings.encryption },
    },
    Key {
        name: "deadline",
        aliases: &[],
        structural: FREE,
        doc: "How long a request may take before it fails.",
        kind: Kind::Time {
            least: Duration::from_millis(100),
            most: Duration::from_secs(24 * 3600),
            at: |draft| &mut draft.settings.deadline,
        },
    },
];

/// Every key, in the order in which they are written.
pub fn keys() -> &'static [Key] {
    KEYS
}

/// The key of that name or alias.
pub(super) fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name || key.aliases.contains(&name))
}

/// The name or alias that differs from this by one or two typing errors.
pub(super) fn nearest(name: &str) -> Option<&'static str> {
    let names = KEYS.iter().flat_map(|key| key.aliases.iter().copied().chain([key.name]));
    names
        .map(|known| (strsim::levenshtein(known, name), known))
        .filter(|&(d, _)| d <= 2)
        .min()
        .map(|(_, known)| known)
}

/// Whether a partition can have this name: it is part of file names and of `pario:name/path`.
pub(crate) fn is_name(text: &str) -> bool {
    let sound = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let first = text.chars().next();
    text.len() <= 64 && first.is_some_and(|c| c.is_ascii_alphanumeric()) && text.chars().all(sound)
}

impl Key {
    /// Whether there may be several values, each in a setting of its own.
    pub(super) fn is_list(&self) -> bool {
        matches!(self.kind, Kind::Servers)
    }

    /// Stores a value in the draft; `None` if it is not allowed.
    pub(super) fn set(&self, draft: &mut Draft, text: &str) -> Option<()> {
        match &self.kind {
            Kind::Name => is_name(text).then(|| draft.name = text.to_owned()),
            Kind::Servers => {
                let room = draft.servers.len() < usize::from(u16::MAX);
                Resource::parse(text).filter(|_| room).map(|resource| draft.servers.push(resource))
            }
            Kind::Metadata => Resource::parse(text).map(|resource| draft.metadata = Some(resource)),
            Kind::Servercount => whole(text).map(|count| draft.count = Some(count)),
            Kind::Size { least, most, power, at } => {
                let sound =
                    |size: &u64| (*least..=*most).contains(size) && (!power || size.is_power_of_two());
                parse_size(text).filter(sound).map(|size| *at(draft) = size)
            }
            Kind::Number { least, most, at } => {
                let number = whole(text).and_then(|number| u16::try_from(number).ok());
                number.filter(|n| (*least..=*most).contains(n)).map(|number| *at(draft) = number)
            }
            Kind::Switch { at } => {
                let on = ["true", "yes", "on", "1"].iter().any(|word| text.eq_ignore_ascii_case(word));
                let off = ["false", "no", "off", "0"].iter().any(|word| text.eq_ignore_ascii_case(word));
                (on || off).then(|| *at(draft) = on)
            }
            Kind::Water { at } => Water::parse(text).map(|water| *at(draft) = water),
            Kind::Percent { at } => parse_percent(text).map(|percent| *at(draft) = percent),
            Kind::Time { least, most, at } => {
                parse_time(text).filter(|time| (least..=most).contains(&time)).map(|time| *at(draft) = time)
            }
            Kind::Listen { at } => Listen::parse(text).map(|listen| *at(draft) = listen),
            Kind::Word { set, .. } => set(draft, text),
        }
    }

    /// The value in the draft; `None` for a key that is only checked.
    pub(super) fn spell(&self, draft: &mut Draft) -> Option<Spelling> {
        Some(match &self.kind {
            Kind::Name => Spelling::Text(draft.name.clone()),
            Kind::Servers => Spelling::List(draft.servers.iter().map(Resource::to_string).collect()),
            Kind::Metadata => Spelling::Text(draft.metadata.as_ref()?.to_string()),
            Kind::Servercount => return None,
            Kind::Size { at, .. } => Spelling::Size(*at(draft)),
            Kind::Number { at, .. } => Spelling::Number(u64::from(*at(draft))),
            Kind::Switch { at } => Spelling::Switch(*at(draft)),
            Kind::Water { at } => match at(draft) {
                Water::Blocks(blocks) => Spelling::Number(*blocks),
                percent @ Water::Percent(_) => Spelling::Text(percent.to_string()),
            },
            Kind::Percent { at } => Spelling::Text(format!("{}%", at(draft))),
            Kind::Time { at, .. } => Spelling::Text(spell_time(*at(draft))),
            Kind::Listen { at } => Spelling::Text(at(draft).to_string()),
            Kind::Word { get, .. } => Spelling::Text(get(draft).to_owned()),
        })
    }

    /// The allowed values, in words that follow "allowed:".
    pub fn allowed(&self) -> String {
        match &self.kind {
            Kind::Name => {
                "letters, digits, '.', '_' and '-', at most 64, the first a letter or digit".to_owned()
            }
            Kind::Servers => {
                "node:/dir or /dir, with an absolute directory without '..', at most 65535 times".to_owned()
            }
            Kind::Metadata => "one of the servers, written as there".to_owned(),
            Kind::Servercount => "the number of servers".to_owned(),
            Kind::Size { least, most, power, .. } => format!(
                "{} from {} to {}, such as 64k or 16M",
                if *power { "a power of two" } else { "a size" },
                format_size(*least),
                format_size(*most)
            ),
            Kind::Number { least, most, .. } => format!("a whole number from {least} to {most}"),
            Kind::Switch { .. } => "true or false".to_owned(),
            Kind::Water { .. } => "a number of blocks, or a percentage such as 50%".to_owned(),
            Kind::Percent { .. } => "a percentage such as 50%".to_owned(),
            Kind::Time { least, most, .. } => {
                format!(
                    "a time from {} to {}, such as 500ms, 30s or 2m",
                    spell_time(*least),
                    spell_time(*most)
                )
            }
            Kind::Listen { .. } => {
                "an address, the name of a network interface, auto, all or none".to_owned()
            }
            Kind::Word { words, .. } => format!("one of {}", words.join(", ")),
        }
    }
}

impl fmt::Display for Spelling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Spelling::Text(text) => f.write_str(text),
            Spelling::Size(size) => f.write_str(&format_size(*size)),
            Spelling::Number(number) => number.fmt(f),
            Spelling::Switch(on) => on.fmt(f),
            Spelling::List(all) => f.write_str(&all.join(" ")),
        }
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Kind")
    }
}
