//! Sums over all histories of a run, as text and as JSON.

use std::collections::BTreeMap;
use std::time::Instant;

use pario_runtime::simulation::counts::{self, Counts};

use crate::child::Report;

/// Sums over all histories of a run.
pub struct Statistics {
    begun: Instant,
    pub histories: u64,
    counts: Counts,
    /// The fingerprints of all histories, added: the order in which they ended does not matter.
    fingerprint: u64,
}

impl Statistics {
    pub fn new() -> Statistics {
        Statistics { begun: Instant::now(), histories: 0, counts: Counts::new(), fingerprint: 0 }
    }

    pub fn add(&mut self, report: &Report) {
        self.histories += 1;
        self.fingerprint = self.fingerprint.wrapping_add(report.fingerprint);
        report.counts.iter().for_each(|(name, count)| counts::add(&mut self.counts, name, *count));
    }

    pub fn seconds(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    fn count(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }

    /// The counters of a group, which is the first word of their names.
    fn group(&self, group: &str) -> Vec<(&str, u64)> {
        let counts = self.counts.iter();
        counts
            .filter_map(|(name, count)| Some((name.strip_prefix(group)?.strip_prefix(' ')?, *count)))
            .collect()
    }

    /// The calls: for each kind, how often each result was returned.
    fn calls(&self) -> BTreeMap<&str, Vec<(&str, u64)>> {
        let mut calls = BTreeMap::<_, Vec<_>>::new();
        for (name, count) in self.group("call") {
            let (kind, result) = name.split_once(' ').unwrap_or((name, ""));
            calls.entry(kind).or_default().push((result, count));
        }
        calls
    }

    /// One line, while the run goes on.
    pub fn progress(&self) -> String {
        let rate = self.histories as f64 / self.seconds();
        format!("{} histories, {rate:.0} per second, {} calls", self.histories, self.call_count())
    }

    fn call_count(&self) -> u64 {
        self.group("call").iter().map(|(_, count)| count).sum()
    }

    pub fn text(&self) -> String {
        let (seconds, histories) = (self.seconds(), self.histories);
        let per_history = self.count("steps") / histories.max(1);
        let mut text = format!(
            "{histories} histories in {seconds:.1} s ({:.0} per second), {} steps ({per_history} per history), {} s of virtual time\n",
            histories as f64 / seconds,
            self.count("steps"),
            self.count("virtual milliseconds") / 1000,
        );
        text.push_str(&format!(
            "{} calls, {} bytes compared\n",
            self.call_count(),
            self.count("bytes compared")
        ));
        for (kind, results) in self.calls() {
            text.push_str(&format!("  {kind:<14} {}\n", list(&results)));
        }
        for (group, title) in [("fault", "faults"), ("refused", "refused by faults")] {
            let counts = self.group(group);
            if !counts.is_empty() {
                text.push_str(&format!("{title}: {}\n", list(&counts)));
            }
        }
        text.push_str(&format!("fingerprint {:016x}", self.fingerprint));
        text
    }

    /// All numbers, and the failure if there is one.
    pub fn json(&self, failure: Option<(u64, &str)>) -> String {
        let object = |counts: &[(&str, u64)]| {
            let fields: Vec<_> =
                counts.iter().map(|(name, count)| format!("{}:{count}", quote(name))).collect();
            format!("{{{}}}", fields.join(","))
        };
        let calls: Vec<_> = self
            .calls()
            .iter()
            .map(|(kind, results)| format!("{}:{}", quote(kind), object(results)))
            .collect();
        let failure = failure.map_or("null".to_owned(), |(seed, why)| {
            format!("{{\"seed\":{seed},\"violation\":{}}}", quote(why))
        });
        format!(
            "{{\"histories\":{},\"seconds\":{:.3},\"steps\":{},\"virtual_seconds\":{:.3},\"bytes_compared\":{},\"calls\":{{{}}},\"faults\":{},\"refused\":{},\"fingerprint\":\"{:016x}\",\"failure\":{failure}}}",
            self.histories,
            self.seconds(),
            self.count("steps"),
            self.count("virtual milliseconds") as f64 / 1000.0,
            self.count("bytes compared"),
            calls.join(","),
            object(&self.group("fault")),
            object(&self.group("refused")),
            self.fingerprint,
        )
    }
}

fn list(counts: &[(&str, u64)]) -> String {
    counts.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
}

fn quote(text: &str) -> String {
    let escape = |letter: char| match letter {
        '"' | '\\' => format!("\\{letter}"),
        letter if (letter as u32) < 32 => format!("\\u{:04x}", letter as u32),
        letter => letter.to_string(),
    };
    format!("\"{}\"", text.chars().map(escape).collect::<String>())
}
