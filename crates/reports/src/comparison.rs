//! The results of a comparison: rows, a table for terminals, a page with charts, and the comparison of two results.

use crate::page::render;
use crate::table::{Align, TextTable};
use crate::text;
use askama::Template;
use pario_benchmarks::statistics::{self, FEWEST, MedianRatio, Verdict};
use pario_benchmarks::{ComparisonResults, ContenderSeries, PHASES, Phase};

/// The confidence of the intervals in a summary.
const CONFIDENCE: f64 = 0.95;

/// The confidence of the intervals in a diff. It is higher, because a file has many comparisons and each may be wrong by
/// chance.
const DIFF_CONFIDENCE: f64 = 0.99;

/// A contender's runs in one phase.
struct Row<'a> {
    series: &'a ContenderSeries,
    phase: Phase,
    /// Seconds.
    median: f64,
    /// Seconds of the fastest and the slowest run.
    range: (f64, f64),
    /// How many times as fast as the baseline; none for the baseline itself, or if it has no runs.
    faster: Option<MedianRatio>,
}

impl Row<'_> {
    /// The data rate in MiB per second, if the phase takes this time.
    fn rate(&self, seconds: f64) -> f64 {
        self.series.bytes(self.phase) as f64 / seconds / f64::from(1 << 20)
    }

    fn runs(&self) -> usize {
        self.series.seconds(self.phase).len()
    }

    fn median_text(&self) -> String {
        text::seconds(self.median)
    }

    fn fastest_text(&self) -> String {
        text::seconds(self.range.0)
    }

    fn slowest_text(&self) -> String {
        text::seconds(self.range.1)
    }

    fn rate_text(&self) -> String {
        format!("{:.1}", self.rate(self.median))
    }

    fn faster_text(&self) -> String {
        ratio_text(self.faster, self.runs())
    }
}

/// All rows, in the order of the series.
fn rows(results: &ComparisonResults) -> Vec<Row<'_>> {
    let mut rows = Vec::new();
    for series in &results.series {
        let baseline = results.baseline_of(series).filter(|_| !series.baseline);
        for phase in PHASES {
            let seconds = series.seconds(phase);
            if seconds.is_empty() {
                continue;
            }
            let ratio = |baseline: &ContenderSeries| {
                statistics::ratio(&baseline.seconds(phase), &seconds, CONFIDENCE)
            };
            let (median, range) = (statistics::median(&seconds), statistics::range(&seconds));
            rows.push(Row { series, phase, median, range, faster: baseline.and_then(ratio) });
        }
    }
    rows
}

/// A ratio, with its interval if there are enough runs for one.
fn ratio_text(ratio: Option<MedianRatio>, runs: usize) -> String {
    match ratio {
        None => String::new(),
        Some(ratio) if runs < FEWEST => format!("{:.2}", ratio.value),
        Some(ratio) => format!("{:.2} ({:.2} to {:.2})", ratio.value, ratio.low, ratio.high),
    }
}

/// The results as a table, with failures below.
pub fn comparison_text(results: &ComparisonResults) -> String {
    use Align::{Left, Right};
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
    let alignments = [Left, Right, Left, Left, Right, Right, Right, Right, Right, Left];
    let mut table = TextTable::with_head(&alignments, &head);
    for row in rows(results) {
        table.row(vec![
            row.series.workload.clone(),
            row.series.ranks.to_string(),
            row.series.contender.clone(),
            row.phase.name().to_owned(),
            row.runs().to_string(),
            row.median_text(),
            row.fastest_text(),
            row.slowest_text(),
            row.rate_text(),
            if row.series.baseline { "(baseline)".to_owned() } else { row.faster_text() },
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

/// The results as one page that needs no other file: a chart for each workload and number of ranks, and the table.
pub fn comparison_page(results: &ComparisonResults) -> String {
    let rows = rows(results);
    let groups = rows.chunk_by(|one, other| {
        (&one.series.workload, one.series.ranks) == (&other.series.workload, other.series.ranks)
    });
    let charts = groups.map(chart).collect();
    render(&ComparisonPage { results, charts, rows })
}

#[derive(Template)]
#[template(path = "comparison.html")]
struct ComparisonPage<'a> {
    results: &'a ComparisonResults,
    charts: Vec<BarChart>,
    rows: Vec<Row<'a>>,
}

/// A bar chart, in units of its own.
struct BarChart {
    title: String,
    width: f64,
    height: f64,
    bars: Vec<Bar>,
}

/// A bar with its name, its label, and a line from the slowest to the fastest run.
struct Bar {
    name: String,
    name_x: String,
    class: &'static str,
    left: f64,
    top: String,
    base: String,
    middle: String,
    width: String,
    height: f64,
    slowest: String,
    fastest: String,
    label_x: String,
    rate: String,
    faster: String,
}

/// The chart of one workload on one number of ranks.
fn chart(rows: &[Row<'_>]) -> BarChart {
    const WIDTH: f64 = 960.0;
    const LEFT: f64 = 260.0;
    const RIGHT: f64 = 250.0;
    const BAR: f64 = 16.0;
    const GAP: f64 = 8.0;
    let most = rows.iter().map(|row| row.rate(row.range.0)).fold(0.0, f64::max);
    let x = |rate: f64| LEFT + rate / most * (WIDTH - LEFT - RIGHT);
    let number = |value: f64| format!("{value:.1}");
    let bars = rows.iter().zip(0u32..).map(|(row, at)| {
        let top = GAP + f64::from(at) * (BAR + GAP);
        let fastest = x(row.rate(row.range.0));
        let faster = ratio_text(row.faster, row.series.runs.len());
        Bar {
            name: format!("{}, {}", row.series.contender, row.phase.name()),
            name_x: number(LEFT - 8.0),
            class: if row.phase == Phase::Write { "write" } else { "read" },
            left: LEFT,
            top: number(top),
            base: number(top + BAR - 4.0),
            middle: number(top + BAR / 2.0),
            width: number(x(row.rate(row.median)) - LEFT),
            height: BAR,
            slowest: number(x(row.rate(row.range.1))),
            fastest: number(fastest),
            label_x: number(fastest + 6.0),
            rate: format!("{:.0}", row.rate(row.median)),
            faster: if faster.is_empty() { faster } else { format!(" \u{d7} {faster}") },
        }
    });
    let title = rows.first().map(|row| format!("{}, {} ranks", row.series.workload, row.series.ranks));
    BarChart {
        title: title.unwrap_or_default(),
        width: WIDTH,
        height: GAP + rows.len() as f64 * (BAR + GAP),
        bars: bars.collect(),
    }
}

/// The same measurements before and after a change.
pub struct MeasuredChange<'a> {
    series: &'a ContenderSeries,
    phase: Phase,
    before: Vec<f64>,
    after: Vec<f64>,
    /// How the times after the change differ.
    pub verdict: Verdict,
}

/// The changes of all series and phases that both results have. A difference counts if it is larger than `margin` (0.05
/// is 5 %).
pub fn measured_changes<'a>(
    before: &ComparisonResults,
    after: &'a ComparisonResults,
    margin: f64,
) -> Vec<MeasuredChange<'a>> {
    let key = |series: &ContenderSeries| (series.workload.clone(), series.ranks, series.contender.clone());
    let mut changes = Vec::new();
    for series in &after.series {
        let Some(old) = before.series.iter().find(|old| key(old) == key(series)) else { continue };
        for phase in PHASES {
            let (before, after) = (old.seconds(phase), series.seconds(phase));
            if !before.is_empty() && !after.is_empty() {
                let verdict = statistics::verdict(&before, &after, DIFF_CONFIDENCE, margin);
                changes.push(MeasuredChange { series, phase, before, after, verdict });
            }
        }
    }
    changes
}

/// Changes as a table.
pub fn changes_text(changes: &[MeasuredChange<'_>]) -> String {
    use Align::{Left, Right};
    let head = ["workload", "ranks", "contender", "phase", "before", "after", "times as long", ""];
    let mut table = TextTable::with_head(&[Left, Right, Left, Left, Right, Right, Left, Left], &head);
    for change in changes {
        let ratio = statistics::ratio(&change.after, &change.before, DIFF_CONFIDENCE);
        let verdict = match change.verdict {
            Verdict::Larger => "SLOWER",
            Verdict::Smaller => "faster",
            Verdict::Alike => "",
            Verdict::TooFew => "too few runs to tell",
        };
        table.row(vec![
            change.series.workload.clone(),
            change.series.ranks.to_string(),
            change.series.contender.clone(),
            change.phase.name().to_owned(),
            text::seconds(statistics::median(&change.before)),
            text::seconds(statistics::median(&change.after)),
            ratio_text(ratio, change.before.len().min(change.after.len())),
            verdict.to_owned(),
        ]);
    }
    table.text(0)
}

/// The last run of a series, in words.
pub fn last_run_text(series: &ContenderSeries) -> String {
    let name = format!("{}, {} ranks, {}", series.workload, series.ranks, series.contender);
    if let Some(why) = &series.failure {
        return format!("{name}: {why}");
    }
    let times = PHASES.into_iter().filter_map(|phase| {
        let seconds = *series.seconds(phase).last()?;
        Some(format!("{} {}", phase.name(), text::seconds(seconds)))
    });
    format!("{name}: {}", times.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pario_workloads::WorkloadOutcome;
    use proptest::prelude::*;

    /// A series whose writes and reads took these times.
    fn series(workload: &str, contender: &str, times: &[(f64, f64)]) -> ContenderSeries {
        let run = |(writing, reading): &(f64, f64)| WorkloadOutcome {
            seconds: [("writing".to_owned(), *writing), ("reading".to_owned(), *reading)].into(),
            bytes_written: 8 << 20,
            bytes_read: 8 << 20,
            write_calls: 1,
            read_calls: 1,
        };
        ContenderSeries {
            workload: workload.to_owned(),
            ranks: 4,
            contender: contender.to_owned(),
            baseline: contender == "host",
            runs: times.iter().map(run).collect(),
            failure: None,
        }
    }

    fn results(series: Vec<ContenderSeries>) -> ComparisonResults {
        let mut results = ComparisonResults::new("here".into(), 2, Vec::new());
        results.complete = true;
        results.series = series;
        results
    }

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
        let text = comparison_text(&all);
        assert!(text.contains("2.00 (2.00 to 2.00)") && text.contains("250.00 ms"), "{text}");
    }

    #[test]
    fn failures_and_missing_runs_are_listed() {
        let mut failed = series("btio:small", "pario", &[]);
        failed.failure = Some("disk full".into());
        let mut all = results(vec![failed]);
        all.complete = false;
        let text = comparison_text(&all);
        assert!(
            text.contains("btio:small on 4 ranks, pario: disk full\n") && text.contains("not all"),
            "{text}"
        );
    }

    #[test]
    fn only_what_both_have_is_compared() {
        let times = [(1.0, 0.5), (1.01, 0.5), (0.99, 0.51)];
        let slow = times.map(|(write, read)| (write * 1.3, read));
        let before =
            results(vec![series("btio:small", "host", &times), series("btio:small", "pario", &times)]);
        let after =
            results(vec![series("btio:small", "pario", &slow), series("tile:small", "pario", &times)]);
        let changes = measured_changes(&before, &after, 0.05);
        let verdicts: Vec<_> = changes.iter().map(|c| (c.phase, c.verdict)).collect();
        assert_eq!(verdicts, [(Phase::Write, Verdict::Larger), (Phase::Read, Verdict::Alike)]);
        assert!(changes_text(&changes).contains("SLOWER"));
    }

    /// Whether every tag that opens closes in the right order.
    fn is_balanced(page: &str) -> bool {
        let mut open = Vec::new();
        for tag in page.split('<').skip(1).map(|rest| rest.split('>').next().unwrap_or("")) {
            let name = tag.split([' ', '/']).next().unwrap_or("");
            if let Some(closed) = tag.strip_prefix('/') {
                if open.pop() != Some(closed) {
                    return false;
                }
            } else if !tag.ends_with('/') && !tag.starts_with('!') && name != "meta" {
                open.push(name);
            }
        }
        open.is_empty()
    }

    #[test]
    fn the_page_needs_no_other_file() {
        let times = [(0.5, 0.1), (0.6, 0.2), (0.7, 0.15)];
        let mut failed = series("tile:small", "pario", &[]);
        failed.failure = Some("<script>alert(1)</script>".into());
        let mut all = results(vec![
            series("btio:small", "host", &times),
            series("btio:small", "pario", &times),
            failed,
        ]);
        all.complete = false;
        let page = comparison_page(&all);
        assert!(is_balanced(&page), "{page}");
        for outside in ["http", "src=", "<script", "<link", "url(", "@import"] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert_eq!(page.matches("<svg").count(), 1);
        assert_eq!(page.matches("<rect").count(), 4);
        assert!(page.contains("This is not all"));
    }

    proptest! {
        #[test]
        fn any_names_and_times_make_a_page(name in "[ -~]{1,20}", times in proptest::collection::vec((1e-6f64..1e3, 1e-6f64..1e3), 1..6)) {
            let all = results(vec![series(&name, "host", &times), series(&name, &name, &times)]);
            let page = comparison_page(&all);
            prop_assert!(is_balanced(&page));
            prop_assert!(!page.contains("NaN") && !page.contains("inf"));
        }
    }
}
