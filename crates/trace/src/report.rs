//! The report on a file when it is closed: the combined numbers of the ranks, as a few lines or as a line of JSON.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::PathBuf;

use crate::json;
use crate::setup::SettingError;
use crate::stats::{Decisions, FileTotals, StrategyChoice};
use pario_types::round_size;

/// The statistics of a file between open and close, over all its ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileReport {
    /// The file's name, as the program gave it.
    pub path: String,
    /// Ranks that had it open.
    pub ranks: u32,
    /// Sums over the ranks; of a peak the largest.
    pub totals: FileTotals,
    /// The largest number of any rank.
    pub largest: FileTotals,
    /// The choices of the reporting rank; choices for collective accesses are the same on all.
    pub decisions: Decisions,
}

impl FileReport {
    /// From each rank's [`numbers`](crate::FileStats::numbers).
    pub fn fold(path: &str, ranks: &[Vec<u64>], decisions: Decisions) -> FileReport {
        let length = ranks.iter().map(Vec::len).max().unwrap_or(0);
        let column = |i: usize| ranks.iter().map(move |numbers| numbers.get(i).copied().unwrap_or(0));
        let sums: Vec<u64> = (0..length).map(|i| column(i).fold(0, u64::saturating_add)).collect();
        let largest: Vec<u64> = (0..length).map(|i| column(i).max().unwrap_or(0)).collect();
        FileReport::reduced(path, ranks.len() as u32, &sums, &largest, decisions)
    }

    /// From the sums and the maxima of all ranks' numbers, where a reduction has made them already.
    pub fn reduced(
        path: &str,
        ranks: u32,
        sums: &[u64],
        largest: &[u64],
        decisions: Decisions,
    ) -> FileReport {
        let largest = FileTotals::of(largest);
        let totals = FileTotals::totals(&FileTotals::of(sums), &largest);
        FileReport { path: path.to_owned(), ranks, totals, largest, decisions }
    }

    /// The number of copies of each byte that was read or written; `None` if there was none.
    pub fn copies_per_byte(&self) -> Option<f64> {
        let bytes = self.totals.read_bytes + self.totals.written_bytes;
        (bytes > 0).then(|| self.totals.copied_bytes as f64 / bytes as f64)
    }

    /// The share of file access in the time of exchange and file access; `None` if neither took time.
    pub fn io_share(&self) -> Option<f64> {
        let FileTotals { io_ns, exchange_ns, .. } = self.totals;
        let both = io_ns as f64 + exchange_ns as f64;
        (both > 0.0).then(|| io_ns as f64 / both)
    }

    /// One line of JSON, without its newline.
    pub fn to_json(&self) -> String {
        let numbers = |numbers: &FileTotals| {
            let pairs: Vec<String> =
                numbers.values().into_iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
            format!("{{{}}}", pairs.join(","))
        };
        let ratio = |ratio: Option<f64>| ratio.map_or("null".to_owned(), |r| format!("{r:.4}"));
        let choices = |made: &[(StrategyChoice, u64)]| {
            let made: Vec<String> = made.iter().map(choice_json).collect();
            format!("[{}]", made.join(","))
        };
        format!(
            "{{\"file\":{},\"ranks\":{},\"copies_per_byte\":{},\"io_share\":{},\"totals\":{},\"largest\":{},\
             \"decisions\":{{\"read\":{},\"write\":{}}}}}",
            json::string(&self.path),
            self.ranks,
            ratio(self.copies_per_byte()),
            ratio(self.io_share()),
            numbers(&self.totals),
            numbers(&self.largest),
            choices(&self.decisions.read),
            choices(&self.decisions.write),
        )
    }
}

fn choice_json((choice, count): &(StrategyChoice, u64)) -> String {
    format!(
        "{{\"strategy\":{},\"partitioning\":{},\"aggregators\":{},\"why\":{},\"count\":{count}}}",
        json::string(choice.strategy),
        json::string(choice.partitioning),
        choice.aggregators,
        json::string(&choice.why),
    )
}

impl fmt::Display for FileReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sum, most) = (&self.totals, &self.largest);
        let plural = if self.ranks == 1 { "" } else { "s" };
        writeln!(f, "pario: file {}, {} rank{plural}", self.path, self.ranks)?;
        direction(
            f,
            "writes",
            [most.collective_writes, sum.independent_writes, sum.written_bytes],
            &self.decisions.write,
        )?;
        direction(
            f,
            "reads",
            [most.collective_reads, sum.independent_reads, sum.read_bytes],
            &self.decisions.read,
        )?;
        writeln!(
            f,
            "pario:   pieces {}, rounds {}, messages {} ({}), host-MPI operations {}",
            sum.pieces,
            most.rounds,
            sum.messages,
            round_size(sum.message_bytes),
            sum.host_calls,
        )?;
        if sum.server_requests + sum.staged_bytes > 0 {
            writeln!(
                f,
                "pario:   requests to servers {} ({}), staged in the background {}, called back {} times",
                sum.server_requests,
                round_size(sum.server_bytes),
                round_size(sum.staged_bytes),
                sum.recalls,
            )?;
        }
        let copies = self.copies_per_byte().map_or("-".to_owned(), |c| format!("{c:.2}"));
        let share = self.io_share().map_or("-".to_owned(), |s| format!("{:.0} %", 100.0 * s));
        writeln!(
            f,
            "pario:   copies per byte {copies}, exchange {:.6} s, I/O {:.6} s (slowest rank), \
             I/O-phase share {share}",
            seconds(most.exchange_ns),
            seconds(most.io_ns),
        )?;
        write!(
            f,
            "pario:   read-modify-writes {}, lock requests {}, windows {} per node, errors {}",
            sum.rmw,
            sum.lock_requests,
            round_size(sum.window_bytes),
            sum.errors,
        )
    }
}

/// A line on reads or on writes: calls, bytes, and methods.
fn direction(
    f: &mut fmt::Formatter<'_>,
    word: &str,
    [collective, independent, bytes]: [u64; 3],
    made: &[(StrategyChoice, u64)],
) -> fmt::Result {
    if collective + independent == 0 {
        return writeln!(f, "pario:   {word}: none");
    }
    writeln!(
        f,
        "pario:   {word}: {collective} collective, {independent} independent, {}",
        round_size(bytes)
    )?;
    for (choice, count) in made {
        write!(f, "pario:     {count} × {}", choice.strategy)?;
        if !choice.partitioning.is_empty() {
            write!(f, ", {}", choice.partitioning)?;
        }
        if choice.aggregators > 0 {
            let plural = if choice.aggregators == 1 { "" } else { "s" };
            write!(f, ", {} aggregator{plural}", choice.aggregators)?;
        }
        writeln!(f, ": {}", choice.why)?;
    }
    Ok(())
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// The destination of reports, from `PARIO_STATS`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StatsTo {
    /// None.
    #[default]
    Off,
    /// A few lines per file to standard error.
    Text,
    /// A line of JSON per file to standard error.
    Json,
    /// A line of JSON per file at the end of this file.
    JsonFile(PathBuf),
}

impl StatsTo {
    /// Reads `1`, `json` or `json:FILE`. An empty text, `0` and `off` select no report.
    pub fn parse(text: &str) -> Result<StatsTo, SettingError> {
        match text.trim() {
            "" | "0" | "off" => Ok(StatsTo::Off),
            "1" | "on" | "yes" | "true" | "text" => Ok(StatsTo::Text),
            "json" => Ok(StatsTo::Json),
            other => match other.strip_prefix("json:") {
                Some("") => Err(SettingError::stats(text, "json: names no file".to_owned())),
                Some(path) => Ok(StatsTo::JsonFile(PathBuf::from(path))),
                None => Err(SettingError::stats(text, "it is not known".to_owned())),
            },
        }
    }

    /// Writes a report there, with one write, so that reports of several processes do not mix.
    pub fn deliver(&self, report: &FileReport) -> io::Result<()> {
        match self {
            StatsTo::Off => Ok(()),
            StatsTo::Text => io::stderr().write_all(format!("{report}\n").as_bytes()),
            StatsTo::Json => io::stderr().write_all(format!("{}\n", report.to_json()).as_bytes()),
            StatsTo::JsonFile(path) => {
                let mut file = OpenOptions::new().append(true).create(true).open(path)?;
                file.write_all(format!("{}\n", report.to_json()).as_bytes())
            }
        }
    }
}
