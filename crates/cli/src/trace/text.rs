//! Numbers and names as this subcommand writes them.

use std::collections::BTreeSet;

/// A time in three digits and a unit.
pub fn duration(ns: u64) -> String {
    let value = ns as f64;
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => three(value / 1e3, "µs"),
        1_000_000..1_000_000_000 => three(value / 1e6, "ms"),
        _ => three(value / 1e9, "s"),
    }
}

fn three(value: f64, unit: &str) -> String {
    // By what is left after rounding: 9.999 is 10.0, not 10.00.
    let decimals = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.decimals$} {unit}")
}

/// Ranks with runs of them drawn together: `0-3, 7`.
pub fn ranks(ranks: &BTreeSet<u32>) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &rank in ranks {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(rank) => *last = rank,
            _ => runs.push((rank, rank)),
        }
    }
    list(runs.into_iter().map(|(first, last)| match last - first {
        0 => first.to_string(),
        _ => format!("{first}-{last}"),
    }))
}

/// Words with commas between them.
pub fn list(words: impl Iterator<Item = String>) -> String {
    words.collect::<Vec<_>>().join(", ")
}

/// A file's name on one line, whatever it is made of.
pub fn printable(name: &str) -> String {
    name.chars()
        .map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        let times = [0, 999, 1000, 9_999, 12_345, 999_000, 2_500_000, 61_000_000_000].map(duration);
        assert_eq!(times, ["0 ns", "999 ns", "1.00 µs", "10.0 µs", "12.3 µs", "999 µs", "2.50 ms", "61.0 s"]);
    }

    #[test]
    fn runs_of_ranks_are_drawn_together() {
        assert_eq!(ranks(&[0, 1, 2, 3, 7, 9, 10].into()), "0-3, 7, 9-10");
        assert_eq!(ranks(&BTreeSet::new()), "");
    }

    #[test]
    fn names_stay_on_their_line() {
        assert_eq!(printable("a\nb 'ä'"), "a\\nb 'ä'");
    }
}
