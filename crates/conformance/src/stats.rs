//! Reads the line that each rank prints at `MPI_Finalize` under `PARIO_STATS=1`:
//! `pario: stats rank=R calls=N opens=O read_bytes=B written_bytes=B`.
//!
//! It is the proof that a program's calls really reached Pario, or really did not.

/// What one rank did through Pario.
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

#[cfg(test)]
mod tests {
    use super::*;

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
