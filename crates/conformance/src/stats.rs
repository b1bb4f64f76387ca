//! Reads the line that each rank prints at `MPI_Finalize` under `PARIO_STATS=1`:
//! `pario: stats rank=R calls=N opens=O read_bytes=B written_bytes=B`, and the line of JSON on each file under
//! `PARIO_STATS=json`.
//!
//! Tests use them to check whether the calls of a program reached Pario, and by which strategy.

/// The calls and bytes of one rank that went through Pario.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// The rank in `MPI_COMM_WORLD`.
    pub rank: u64,
    /// `MPI_File_*` calls.
    pub calls: u64,
    /// Files opened.
    pub opens: u64,
    /// Data bytes given to the program.
    pub read_bytes: u64,
    /// Data bytes taken from the program.
    pub written_bytes: u64,
}

const HEAD: &str = "pario: stats ";

/// All stats lines in a run's error output, also where a launcher glued lines together.
pub(crate) fn parse(text: &str) -> Vec<Stats> {
    text.split(HEAD).skip(1).filter_map(|rest| one(rest.lines().next()?)).collect()
}

fn one(line: &str) -> Option<Stats> {
    let mut stats = Stats::default();
    let mut known = 0;
    for word in line.split_whitespace() {
        let Some((name, value)) = word.split_once('=') else {
            break;
        };
        let Ok(value) = value.parse() else { break };
        match name {
            "rank" => stats.rank = value,
            "calls" => stats.calls = value,
            "opens" => stats.opens = value,
            "read_bytes" => stats.read_bytes = value,
            "written_bytes" => stats.written_bytes = value,
            _ => continue,
        }
        known += 1;
    }
    (known >= 2).then_some(stats)
}

/// The accesses to a file between open and close.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatsReport {
    line: String,
}

impl StatsReport {
    /// The sum over the ranks of a number of this name.
    #[track_caller]
    pub fn total(&self, name: &str) -> u64 {
        self.number("totals", name)
    }

    /// The largest of any rank.
    #[track_caller]
    pub fn largest(&self, name: &str) -> u64 {
        self.number("largest", name)
    }

    /// Whether some collective write went this way.
    pub fn wrote_by(&self, strategy: &str) -> bool {
        let decisions = self.line.split("\"write\":[").nth(1).unwrap_or_default();
        decisions.contains(&format!("\"strategy\":\"{strategy}\""))
    }

    #[track_caller]
    fn number(&self, object: &str, name: &str) -> u64 {
        let object = self.line.split(&format!("\"{object}\":{{")).nth(1).unwrap_or_default();
        let object = object.split('}').next().unwrap_or_default();
        let mut pairs = object.split(',').filter_map(|pair| pair.split_once(':'));
        let value = pairs.find_map(|(key, value)| (key.trim_matches('"') == name).then_some(value));
        let value = value.and_then(|value| value.parse().ok());
        value.unwrap_or_else(|| panic!("no number {name} in {}", self.line))
    }
}

/// All reports in a run's error output.
pub(crate) fn reports(text: &str) -> Vec<StatsReport> {
    let lines = text.lines().filter_map(|line| Some(&line[line.find("{\"file\":")?..]));
    lines.map(|line| StatsReport { line: line.to_owned() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_read() {
        let text = "x\n{\"file\":\"a{,}\",\"ranks\":2,\"totals\":{\"messages\":3,\"pieces\":12},\
                    \"largest\":{\"messages\":2},\"decisions\":{\"read\":[{\"strategy\":\"direct\"}],\
                    \"write\":[{\"strategy\":\"two-phase\"}]}}\ny\n";
        let [report] = &reports(text)[..] else { panic!("one report") };
        assert_eq!(
            (report.total("messages"), report.total("pieces"), report.largest("messages")),
            (3, 12, 2)
        );
        assert!(report.wrote_by("two-phase") && !report.wrote_by("direct"));
    }

    #[test]
    fn lines_are_found_among_others() {
        let text = "x\npario: stats rank=1 calls=7 opens=2 read_bytes=3 written_bytes=4\n\
                    [0] pario: stats rank=0 calls=5 opens=1 read_bytes=0 written_bytes=9\npario: other\n";
        let found = parse(text);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0], Stats { rank: 1, calls: 7, opens: 2, read_bytes: 3, written_bytes: 4 });
        assert_eq!(found[1].written_bytes, 9);
    }
}
