//! Measurements as rows: one for each contender and phase, compared with the baseline of its workload.

use super::results::{PHASES, Phase, Results, Series};
use super::stats::{self, FEWEST, Ratio};
use crate::files::{Side, Table};

/// How sure intervals are.
pub const CONFIDENCE: f64 = 0.95;

/// What a contender's runs say about one phase.
#[derive(Clone, Debug)]
pub struct Row<'a> {
    /// Whose.
    pub series: &'a Series,
    /// Which phase.
    pub phase: Phase,
    /// Seconds.
    pub median: f64,
    /// Seconds of the fastest and the slowest run.
    pub range: (f64, f64),
    /// How many times as fast as the baseline; none for the baseline itself, or if it has no runs.
    pub faster: Option<Ratio>,
}

impl Row<'_> {
    /// MiB per second of a time.
    pub fn rate(&self, seconds: f64) -> f64 {
        self.series.bytes(self.phase) as f64 / seconds / f64::from(1 << 20)
    }
}

/// All rows, in the order of the series.
pub fn rows(results: &Results) -> Vec<Row<'_>> {
    let mut rows = Vec::new();
    for series in &results.series {
        let baseline = results.baseline_of(series).filter(|_| !series.baseline);
        for phase in PHASES {
            let seconds = series.seconds(phase);
            if seconds.is_empty() {
                continue;
            }
            let faster = baseline.and_then(|b| stats::ratio(&b.seconds(phase), &seconds, CONFIDENCE));
            let (median, range) = (stats::median(&seconds), stats::range(&seconds));
            rows.push(Row { series, phase, median, range, faster });
        }
    }
    rows
}

/// A ratio for the user: with its interval, if there are runs enough for one.
pub fn ratio_text(ratio: Option<Ratio>, runs: usize) -> String {
    match ratio {
        None => String::new(),
        Some(r) if runs < FEWEST => format!("{:.2}", r.value),
        Some(r) => format!("{:.2} ({:.2} to {:.2})", r.value, r.low, r.high),
    }
}

/// A time in three or four digits.
pub fn seconds_text(seconds: f64) -> String {
    match seconds {
        s if s < 0.001 => format!("{:.1} us", s * 1e6),
        s if s < 1.0 => format!("{:.2} ms", s * 1e3),
        s => format!("{s:.3} s"),
    }
}

/// The table for a terminal.
pub fn text(results: &Results) -> String {
    use Side::{Left, Right};
    let head = [
        "workload",
        "ranks",
        "contender",
        "phase",
        "runs",
        "median",
        "fastest",
        "slowest",
        "MiB/s",
        "times as fast",
    ];
    let sides = [Left, Right, Left, Left, Right, Right, Right, Right, Right, Left];
    let mut table = Table::with_head(&sides, &head);
    for row in rows(results) {
        let runs = row.series.seconds(row.phase).len();
        table.row(vec![
            row.series.workload.clone(),
            row.series.ranks.to_string(),
            row.series.contender.clone(),
            row.phase.name().to_owned(),
            runs.to_string(),
            seconds_text(row.median),
            seconds_text(row.range.0),
            seconds_text(row.range.1),
            format!("{:.1}", row.rate(row.median)),
            if row.series.baseline { "(baseline)".to_owned() } else { ratio_text(row.faster, runs) },
        ]);
    }
    let mut text = table.text(0);
    for series in &results.series {
        if let Some(why) = &series.failure {
            text += &format!("{} on {} ranks, {}: {why}\n", series.workload, series.ranks, series.contender);
        }
    }
    if !results.complete {
        text += "This is not all: some runs are missing.\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::{results, series};
    use super::*;

    #[test]
    fn twice_as_fast_is_two() {
        let all = results(vec![
            series("btio:small", "host", &[(0.5, 0.1), (0.5, 0.1), (0.5, 0.1)]),
            series("btio:small", "pario", &[(0.25, 0.1), (0.25, 0.1), (0.25, 0.1)]),
            series("tile:small", "pario", &[(1.0, 0.0)]),
        ]);
        let rows = rows(&all);
        assert_eq!(rows.len(), 5, "a phase that was not run has no row");
        assert_eq!(rows[0].faster, None);
        assert_eq!(rows[2].faster.map(|r| (r.value, r.low, r.high)), Some((2.0, 2.0, 2.0)));
        assert_eq!(rows[2].rate(rows[2].median), 32.0);
        assert_eq!(rows[4].faster, None, "there is no baseline");
        let text = text(&all);
        assert!(text.contains("2.00 (2.00 to 2.00)") && text.contains("250.00 ms"), "{text}");
    }

    #[test]
    fn failures_and_gaps_are_said() {
        let mut failed = series("btio:small", "pario", &[]);
        failed.failure = Some("disk full".into());
        let mut all = results(vec![failed]);
        all.complete = false;
        let text = text(&all);
        assert!(
            text.contains("btio:small on 4 ranks, pario: disk full\n") && text.contains("not all"),
            "{text}"
        );
    }

    #[test]
    fn times_have_units() {
        assert_eq!(seconds_text(0.000_012_34), "12.3 us");
        assert_eq!(seconds_text(0.0123), "12.30 ms");
        assert_eq!(seconds_text(12.3), "12.300 s");
    }
}
