//! Sizes, times, counts, modes and names as every command writes them.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use pario_types::short_size;
use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

/// A number of bytes: all digits, or if `human` two or three of them and a unit.
pub fn size(bytes: u64, human: bool) -> String {
    if human { short_size(bytes) } else { bytes.to_string() }
}

/// A part of a whole, in percent; `-` if the whole is 0.
pub fn percent(part: u64, whole: u64) -> String {
    match whole {
        0 => "-".to_owned(),
        _ => format!("{:.0}%", part as f64 * 100.0 / whole as f64),
    }
}

/// A time span in one or two units: `12s`, `4m05s`, `3h20m`, `2d06h`.
pub fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{minutes}m{:02}s", seconds % 60),
        3600..86400 => format!("{hours}h{:02}m", minutes % 60),
        _ => format!("{days}d{:02}h", hours % 24),
    }
}

/// Type and permission bits as `ls` shows them.
pub fn mode(is_dir: bool, mode: u32) -> String {
    let bit = |shift: u32, letter: char| if mode >> shift & 1 == 1 { letter } else { '-' };
    let kind = if is_dir { 'd' } else { '-' };
    std::iter::once(kind)
        .chain((0..9).rev().map(|shift| bit(shift, ['x', 'w', 'r'][shift as usize % 3])))
        .collect()
}

/// A point in time to the minute, in the user's time zone.
pub fn local_time(time: SystemTime) -> String {
    in_zone(time, &TimeZone::system(), "%Y-%m-%d %H:%M")
}

/// A point in time to the nanosecond, with the time zone.
pub fn exact_local_time(time: SystemTime) -> String {
    in_zone(time, &TimeZone::system(), "%Y-%m-%d %H:%M:%S.%9f %z")
}

fn in_zone(time: SystemTime, zone: &TimeZone, format: &str) -> String {
    match Timestamp::try_from(time) {
        Ok(stamp) => stamp.to_zoned(zone.clone()).strftime(format).to_string(),
        Err(_) => "?".to_owned(),
    }
}

/// A point in time for JSON: nanoseconds since 1970.
pub fn nanoseconds(time: SystemTime) -> i64 {
    let clamp = |distance: Duration| i64::try_from(distance.as_nanos()).unwrap_or(i64::MAX);
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => clamp(after),
        Err(before) => -clamp(before.duration()),
    }
}

/// A name on one line: control characters are escaped.
pub fn printable(name: &str) -> String {
    let shown = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    name.chars().map(shown).collect()
}

/// A count and its noun: `1 file`, `2 files`, `3 directories`, `4 processes`.
pub fn count(number: u64, noun: &str) -> String {
    match (number, noun.strip_suffix('y')) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{number} {stem}ies"),
        _ if noun.ends_with('s') => format!("{number} {noun}es"),
        _ => format!("{number} {noun}s"),
    }
}

/// A duration in three digits and a unit.
pub fn duration(ns: u64) -> String {
    let value = ns as f64;
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => three_digits(value / 1e3, "µs"),
        1_000_000..1_000_000_000 => three_digits(value / 1e6, "ms"),
        _ => three_digits(value / 1e9, "s"),
    }
}

fn three_digits(value: f64, unit: &str) -> String {
    // The number of decimals depends on the rounded value: 9.999 is 10.0, not 10.00.
    let decimals = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.decimals$} {unit}")
}

/// A measured time in three or four digits.
pub fn seconds(seconds: f64) -> String {
    match seconds {
        s if s < 0.001 => format!("{:.1} us", s * 1e6),
        s if s < 1.0 => format!("{:.2} ms", s * 1e3),
        s => format!("{s:.3} s"),
    }
}

/// Ranks, with consecutive ones as ranges: `0-3, 7`.
pub fn ranks(ranks: &BTreeSet<u32>) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &rank in ranks {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(rank) => *last = rank,
            _ => ranges.push((rank, rank)),
        }
    }
    let words = ranges.into_iter().map(|(first, last)| match last - first {
        0 => first.to_string(),
        _ => format!("{first}-{last}"),
    });
    words.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_have_two_or_three_digits() {
        let sizes =
            [0, 999, 1023, 1024, 1536, 10 << 10, 65536, (1 << 20) - 1, 1 << 20, u64::MAX].map(short_size);
        assert_eq!(sizes, ["0", "999", "1023", "1.0K", "1.5K", "10K", "64K", "1.0M", "1.0M", "16E"]);
        assert_eq!((size(1536, true), size(1536, false)), ("1.5K".to_owned(), "1536".to_owned()));
    }

    #[test]
    fn spans_have_at_most_two_units() {
        let spans = [0, 59, 60, 3599, 3600, 86399, 86400, 200_000].map(Duration::from_secs).map(span);
        assert_eq!(spans, ["0s", "59s", "1m00s", "59m59s", "1h00m", "23h59m", "1d00h", "2d07h"]);
    }

    #[test]
    fn modes_look_like_those_of_ls() {
        assert_eq!(mode(false, 0o644), "-rw-r--r--");
        assert_eq!(mode(true, 0o751), "drwxr-x--x");
        assert_eq!(mode(false, 0), "----------");
    }

    #[test]
    fn times_have_a_date_and_a_time_of_day() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_nanos(1_700_000_000_123_456_789);
        let exact = in_zone(time, &TimeZone::UTC, "%Y-%m-%d %H:%M:%S.%9f %z");
        assert_eq!(exact, "2023-11-14 22:13:20.123456789 +0000");
        assert_eq!(local_time(time).len(), "2023-11-14 22:13".len());
        assert_eq!(nanoseconds(time), 1_700_000_000_123_456_789);
        assert_eq!(nanoseconds(SystemTime::UNIX_EPOCH - Duration::from_nanos(5)), -5);
    }

    #[test]
    fn names_and_counts_are_readable() {
        assert_eq!(printable("a\nb 'ä'"), "a\\nb 'ä'");
        assert_eq!(
            [count(1, "file"), count(0, "file"), count(2, "directory"), count(2, "process")],
            ["1 file", "0 files", "2 directories", "2 processes"]
        );
        assert_eq!((percent(1, 3), percent(0, 0)), ("33%".to_owned(), "-".to_owned()));
    }

    #[test]
    fn durations_have_three_digits() {
        let times = [0, 999, 1000, 9_999, 12_345, 999_000, 2_500_000, 61_000_000_000].map(duration);
        assert_eq!(times, ["0 ns", "999 ns", "1.00 µs", "10.0 µs", "12.3 µs", "999 µs", "2.50 ms", "61.0 s"]);
    }

    #[test]
    fn measured_times_have_units() {
        assert_eq!(seconds(0.000_012_34), "12.3 us");
        assert_eq!(seconds(0.0123), "12.30 ms");
        assert_eq!(seconds(12.3), "12.300 s");
    }

    #[test]
    fn consecutive_ranks_become_ranges() {
        assert_eq!(ranks(&[0, 1, 2, 3, 7, 9, 10].into()), "0-3, 7, 9-10");
        assert_eq!(ranks(&BTreeSet::new()), "");
    }

    proptest! {
        #[test]
        fn sizes_are_near_the_truth(bytes: u64, shift in 0u32..64) {
            let bytes = bytes >> shift;
            let text = short_size(bytes);
            prop_assert!(text.len() <= 5, "{}", text);
            let digits = text.trim_end_matches(|c: char| c.is_ascii_uppercase());
            let units = ["", "K", "M", "G", "T", "P", "E"];
            let power = units.iter().position(|unit| text == format!("{digits}{unit}"));
            let power = power.expect("a unit");
            let value = digits.parse::<f64>().unwrap() * 1024f64.powi(power as i32);
            prop_assert!((value - bytes as f64).abs() <= bytes as f64 * 0.051, "{} is {}", bytes, text);
        }
    }
}
