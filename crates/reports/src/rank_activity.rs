//! The MPI-IO calls that the ranks of a job are in.

use pario_activity::{ProcessSnapshot, waiting_calls};
use std::time::Duration;

use crate::table::{Align, TextTable};

/// The ranks of one job on this host, and which of them its collective calls wait for. `now` is the time on the clock of
/// `pario_activity::now`.
pub fn rank_activity_text(job: &str, processes: &[ProcessSnapshot], now: Duration) -> String {
    let of = processes.first().map_or(0, |process| process.ranks);
    let name = if job.is_empty() { "a job without a name".to_owned() } else { format!("job {job}") };
    let mut text = format!("{name}: {} of {of} ranks are on this host\n", processes.len());
    let alignments = [Align::Right, Align::Right, Align::Right, Align::Left, Align::Left];
    let mut table = TextTable::with_head(&alignments, &["RANK", "PROCESS", "CALLS", "MPI-IO CALL", "FILE"]);
    for process in processes {
        let (call, path) = match process.wait() {
            Some(file) => {
                let since = file.waiting_since.unwrap_or(now);
                (format!("waits {} s in {}", now.saturating_sub(since).as_secs(), file.call), &file.path)
            }
            None if process.is_in_call() => (format!("in {}", process.call), &process.path),
            None => (format!("none; the last was {}", process.call), &process.path),
        };
        table.row(vec![
            process.rank.to_string(),
            process.pid.to_string(),
            process.begun.to_string(),
            call,
            path.clone(),
        ]);
    }
    text += &table.text(0);
    for line in waiting_calls(processes) {
        text += &format!("{line}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use pario_activity::{CallName, FileSnapshot};

    #[test]
    fn ranks_that_wait_and_ranks_that_are_elsewhere_are_shown() {
        let call = CallName::new("MPI_File_sync");
        let file = |rank, collectives, waiting_since| FileSnapshot {
            group: 5,
            rank,
            ranks: 2,
            collectives,
            call,
            path: "/out".into(),
            waiting_since,
            ..FileSnapshot::default()
        };
        let process = |rank, files: Vec<FileSnapshot>| ProcessSnapshot {
            pid: 10 + rank,
            rank,
            ranks: 2,
            begun: 3,
            ended: 3,
            call,
            path: "/out".into(),
            files,
            ..ProcessSnapshot::default()
        };
        let waits = process(0, vec![file(0, 4, Some(Duration::from_secs(1)))]);
        let ranks = [waits, process(1, vec![file(1, 3, None)])];
        let text = rank_activity_text("7", &ranks, Duration::from_secs(6));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "job 7: 2 of 2 ranks are on this host");
        assert!(lines[2].contains("waits 5 s in MPI_File_sync") && lines[2].ends_with("/out"), "{text}");
        assert!(lines[3].contains("none; the last was MPI_File_sync"), "{text}");
        assert!(lines[4].starts_with("rank 0 of 2 has waited "), "{text}");
        assert!(lines[4].contains("rank 1 (process 11) is not there"), "{text}");
    }
}
