//! Sizes, times, watermarks and names: reading and writing them. A written value reads back the same.

use std::fmt;
use std::time::Duration;

/// A number of dirty blocks at which the flusher starts or stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Water {
    /// A percentage of the blocks of the cache.
    Percent(u8),
    /// A number of blocks.
    Blocks(u64),
}

impl Water {
    /// The number of blocks in a cache of that many.
    pub fn of(self, blocks: u64) -> u64 {
        match self {
            Water::Percent(percent) => (u128::from(blocks) * u128::from(percent) / 100) as u64,
            Water::Blocks(count) => count,
        }
    }

    pub(super) fn parse(text: &str) -> Option<Water> {
        match text.strip_suffix('%') {
            Some(_) => parse_percent(text).map(Water::Percent),
            None => whole(text).map(Water::Blocks),
        }
    }
}

impl fmt::Display for Water {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Water::Percent(percent) => write!(f, "{percent}%"),
            Water::Blocks(blocks) => blocks.fmt(f),
        }
    }
}

/// A closed list of names, each with a meaning.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$doc])* $variant,)*
        }

        impl $name {
            /// Every name of the list.
            pub const WORDS: &'static [&'static str] = &[$($word),*];

            /// Its name.
            pub fn word(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)*
                }
            }

            pub(super) fn parse(text: &str) -> Option<$name> {
                $(if text.eq_ignore_ascii_case($word) {
                    return Some($name::$variant);
                })*
                None
            }
        }
    };
}

words! {
    /// The order in which a server processes requests.
    Scheduling {
        /// One request of each program in turn.
        Fair = "fair",
        /// In order of arrival.
        Arrival = "arrival",
    }
}

words! {
    /// The program that starts a server on its node.
    Launcher {
        /// A plain process on this host, `srun` within a Slurm job, else `ssh`.
        Auto = "auto",
        /// A plain process on this host.
        Local = "local",
        /// `ssh`.
        Ssh = "ssh",
        /// Slurm's `srun`.
        Srun = "srun",
        /// An MPI's `mpiexec`.
        Mpiexec = "mpiexec",
    }
}

/// Accepts digits only: the standard parser would accept a plus sign.
pub(super) fn whole(text: &str) -> Option<u64> {
    (!text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

/// Reads a percentage from 0 to 100, with or without its sign.
pub(super) fn parse_percent(text: &str) -> Option<u8> {
    let number = text.strip_suffix('%').map_or(text, str::trim_end);
    whole(number).and_then(|percent| u8::try_from(percent).ok()).filter(|&percent| percent <= 100)
}

/// Reads a time: `500ms`, `30s` or plain `30`, `2m`, `1h`.
pub(super) fn parse_time(text: &str) -> Option<Duration> {
    let (number, unit) = split_number(text);
    let milliseconds = match unit.to_ascii_lowercase().as_str() {
        "ms" => 1,
        "" | "s" => 1000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    whole(number)?.checked_mul(milliseconds).map(Duration::from_millis)
}

/// A time as [`parse_time`] reads it. Times are whole milliseconds.
pub(super) fn spell_time(time: Duration) -> String {
    let milliseconds = time.as_millis();
    if milliseconds.is_multiple_of(1000) {
        format!("{}s", milliseconds / 1000)
    } else {
        format!("{milliseconds}ms")
    }
}

fn split_number(text: &str) -> (&str, &str) {
    let text = text.trim();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    (number, unit.trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pario_types::{format_size, parse_size};
    use proptest::prelude::*;

    #[test]
    fn sizes_count_in_steps_of_1024() {
        for (text, bytes) in
            [("64k", 65536), ("64K", 65536), ("4 MiB", 4 << 20), ("1G", 1 << 30), ("7", 7), (" 7b ", 7)]
        {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        for bad in ["", "k", "-1", "+1", "1.5M", "1kk", "1 0", "16777216T", "0x10", "99999999999999999999"] {
            assert_eq!(parse_size(bad), None, "{bad}");
        }
    }

    #[test]
    fn times_have_units() {
        for (text, ms) in [("30", 30_000), ("500ms", 500), ("2m", 120_000), ("1 h", 3_600_000)] {
            assert_eq!(parse_time(text), Some(Duration::from_millis(ms)), "{text}");
        }
        for bad in ["", "s", "-1", "1.5s", "1d"] {
            assert_eq!(parse_time(bad), None, "{bad}");
        }
    }

    #[test]
    fn watermarks_are_percents_or_blocks() {
        assert_eq!(Water::parse("50%").map(|w| w.of(4096)), Some(2048));
        assert_eq!(Water::parse("100 %").map(|w| w.of(u64::MAX)), Some(u64::MAX));
        assert_eq!(Water::parse("17").map(|w| w.of(4096)), Some(17));
        for bad in ["", "%", "101%", "-1", "50 percent"] {
            assert_eq!(Water::parse(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn written_values_read_back(bytes: u64, shift in 0u32..64, ms in 0u64..10_000_000) {
            let bytes = bytes << shift;
            prop_assert_eq!(parse_size(&format_size(bytes)), Some(bytes));
            let time = Duration::from_millis(ms);
            prop_assert_eq!(parse_time(&spell_time(time)), Some(time));
        }
    }
}
