//! Measurements as one page that needs nothing but a browser: a chart for each workload and number of ranks, and the
//! table.

use super::results::{Phase, Results};
use super::summary::{self, Row, ratio_text, seconds_text};
use std::fmt::Write;

const STYLE: &str = "\
body{font:15px/1.45 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em;color:#222}\
table{border-collapse:collapse;width:100%;font-size:13px}\
td,th{padding:.25em .6em;border-bottom:1px solid #ddd;text-align:right}\
td:first-child,th:first-child,td.word,th.word{text-align:left}\
svg{width:100%;height:auto}text{font:13px system-ui,sans-serif;fill:#222}\
.write{fill:#3b6ea5}.read{fill:#7fb069}.whisker{stroke:#222;stroke-width:1.2}.faint{fill:#666}\
.note{background:#fff3cd;padding:.5em 1em}";

/// Widths and heights in a chart, in its own units.
const WIDTH: f64 = 960.0;
const LEFT: f64 = 260.0;
const RIGHT: f64 = 250.0;
const BAR: f64 = 16.0;
const GAP: f64 = 8.0;

/// The page.
pub fn page(results: &Results) -> String {
    let rows = summary::rows(results);
    let mut page = String::from("<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\">");
    let title = "Pario: a comparison";
    add(
        &mut page,
        format_args!("<title>{title}</title>\n<style>{STYLE}</style></head>\n<body>\n<h1>{title}</h1>\n"),
    );
    let options = match &results.options[..] {
        [] => String::new(),
        some => format!(" Options of the workloads: {}.", some.join(" ")),
    };
    add(
        &mut page,
        format_args!(
            "<p>Measured on {} with {} cores, {}, by Pario {}.{} Bars show the data rate of the median run, from \
             the first open to the last close; lines reach from the slowest to the fastest run.</p>\n",
            escaped(&results.machine),
            results.cores,
            escaped(&results.mpi),
            escaped(&results.pario),
            escaped(&options)
        ),
    );
    if !results.complete {
        page += "<p class=\"note\">This is not all: some runs are missing.</p>\n";
    }
    let mut rest = &rows[..];
    while let Some(first) = rest.first() {
        let same = |row: &&Row| {
            row.series.workload == first.series.workload && row.series.ranks == first.series.ranks
        };
        let (group, others) = rest.split_at(rest.iter().take_while(same).count());
        add(
            &mut page,
            format_args!("<h2>{}, {} ranks</h2>\n", escaped(&first.series.workload), first.series.ranks),
        );
        page += &chart(group);
        rest = others;
    }
    page += &table(&rows);
    for series in &results.series {
        if let Some(why) = &series.failure {
            let what = format!("{} on {} ranks, {}: {why}", series.workload, series.ranks, series.contender);
            add(&mut page, format_args!("<p class=\"note\">{}</p>\n", escaped(&what)));
        }
    }
    page += "</body>\n</html>\n";
    page
}

/// Writing to a string does not fail.
fn add(page: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = page.write_fmt(text);
}

/// Bars of one workload on one number of ranks.
fn chart(rows: &[Row]) -> String {
    let height = GAP + rows.len() as f64 * (BAR + GAP);
    let most = rows.iter().map(|row| row.rate(row.range.0)).fold(0.0, f64::max);
    let x = |rate: f64| LEFT + rate / most * (WIDTH - LEFT - RIGHT);
    let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n");
    for (row, at) in rows.iter().zip(0u32..) {
        let y = GAP + f64::from(at) * (BAR + GAP);
        let base = y + BAR - 4.0;
        let name = escaped(&format!("{}, {}", row.series.contender, row.phase.name()));
        let class = if row.phase == Phase::Write { "write" } else { "read" };
        let end = x(row.rate(row.median));
        add(
            &mut svg,
            format_args!("<text x=\"{:.1}\" y=\"{base:.1}\" text-anchor=\"end\">{name}</text>", LEFT - 8.0),
        );
        add(
            &mut svg,
            format_args!(
                "<rect class=\"{class}\" x=\"{LEFT}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{BAR}\"/>",
                end - LEFT
            ),
        );
        let (slowest, fastest) = (x(row.rate(row.range.1)), x(row.rate(row.range.0)));
        let middle = y + BAR / 2.0;
        add(
            &mut svg,
            format_args!(
                "<line class=\"whisker\" x1=\"{slowest:.1}\" y1=\"{middle:.1}\" x2=\"{fastest:.1}\" y2=\"{middle:.1}\"/>"
            ),
        );
        let faster = ratio_text(row.faster, row.series.runs.len());
        let faster = if faster.is_empty() { faster } else { format!(" \u{d7} {faster}") };
        add(
            &mut svg,
            format_args!(
                "<text x=\"{:.1}\" y=\"{base:.1}\">{:.0} MiB/s<tspan class=\"faint\">{faster}</tspan></text>\n",
                fastest + 6.0,
                row.rate(row.median)
            ),
        );
    }
    svg + "</svg>\n"
}

fn table(rows: &[Row]) -> String {
    let mut table = String::from("<h2>Numbers</h2>\n<table>\n<tr><th>workload</th><th>ranks</th>");
    table += "<th class=\"word\">contender</th><th class=\"word\">phase</th><th>runs</th><th>median</th>";
    table += "<th>fastest</th><th>slowest</th><th>MiB/s</th><th>times as fast (95 %)</th></tr>\n";
    for row in rows {
        let runs = row.series.seconds(row.phase).len();
        add(
            &mut table,
            format_args!(
                "<tr><td>{}</td><td>{}</td><td class=\"word\">{}</td><td class=\"word\">{}</td><td>{runs}</td>\
                 <td>{}</td><td>{}</td><td>{}</td><td>{:.1}</td><td>{}</td></tr>\n",
                escaped(&row.series.workload),
                row.series.ranks,
                escaped(&row.series.contender),
                row.phase.name(),
                seconds_text(row.median),
                seconds_text(row.range.0),
                seconds_text(row.range.1),
                row.rate(row.median),
                ratio_text(row.faster, runs)
            ),
        );
    }
    table + "</table>\n"
}

/// Text that a browser shows as it is.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::{results, series};
    use super::*;
    use proptest::prelude::*;

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
    fn the_page_stands_alone() {
        let times = [(0.5, 0.1), (0.6, 0.2), (0.7, 0.15)];
        let mut failed = series("tile:small", "pario", &[]);
        failed.failure = Some("<script>alert(1)</script>".into());
        let mut all = results(vec![
            series("btio:small", "host", &times),
            series("btio:small", "pario", &times),
            failed,
        ]);
        all.complete = false;
        let page = page(&all);
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
            let page = page(&all);
            prop_assert!(is_balanced(&page));
            prop_assert!(!page.contains("NaN") && !page.contains("inf"));
        }
    }
}
