//! Whether what workers saw in a round, and what is there after it, can be.

use std::time::{Duration, Instant};

use super::contents::{Circumstances, seconds};
use super::history::{self, Call, CallOutcome, Op, now};
use super::session::{LONGEST_CALL, Session, Violation, io};
use super::worker::NAME;

impl Session<'_> {
    /// Everything, as a fresh process finds it.
    pub(super) fn look(&mut self) -> Result<(Vec<Call>, u64), Violation> {
        let task = self.task(0, 0, None);
        self.note(&format!("worker {} looks at everything", task.worker));
        let mut child = self.cluster.spawn(&task).map_err(io)?;
        let until = Instant::now() + Duration::from_secs(120);
        let status = loop {
            match child.try_wait().map_err(io)? {
                Some(status) => break status,
                None if Instant::now() > until => return Err("a process that only reads does not end".into()),
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        };
        let calls = history::calls(&task.journal, task.worker, 0).map_err(io)?;
        if !status.success() {
            let said = std::fs::read_to_string(task.journal.with_extension("log")).unwrap_or_default();
            return Err(format!("a process that only reads ended with {status}: {said}"));
        }
        Ok((calls, now()))
    }

    /// Judges the round, and takes what is there now for the beginning of the next.
    pub(super) fn judge(&mut self) -> Result<(), Violation> {
        let mut calls = Vec::new();
        for task in &self.round.tasks {
            calls.extend(history::calls(&task.journal, task.worker, task.slot).map_err(io)?);
        }
        calls.iter().try_for_each(|call| self.judge_manner(call))?;
        let (seen, after) = self.look()?;
        if let Some(call) = seen.iter().find(|call| call.failure().is_some()) {
            return Err(format!("all servers run, but {}: {:?}", call.op, call.failure()));
        }
        let round = &self.round;
        let over = |worker| round.over(worker);
        let circumstances = Circumstances { over: &over };
        for (number, file) in self.files.iter_mut().enumerate() {
            file.take(number, &calls, &circumstances);
        }
        let mut bytes = 0;
        for call in calls.iter().chain(&seen) {
            if let Op::Read { file, .. } | Op::Len { file } = call.op {
                let wrong = |why| format!("worker {}: {}: {why}", call.worker, call.op);
                bytes += self.files[file].judge(call, &round.losses).map_err(wrong)?;
            }
        }
        self.tally.judged(calls.len() as u64, bytes);
        for call in &calls {
            let wrong = |why| format!("worker {}: {why}", call.worker);
            self.names[call.slot].take(call, &round.losses).map_err(wrong)?;
        }
        for call in &seen {
            match (&call.op, &call.outcome) {
                (Op::List { slot }, _) => {
                    let wrong = |why| format!("directory of slot {slot}: {why}");
                    self.names[*slot].take(call, &round.losses).map_err(wrong)?;
                }
                (Op::Read { file, .. }, Some(CallOutcome::Bytes(bytes))) => {
                    self.files[*file].rebase(bytes.clone(), after);
                }
                _ => {}
            }
        }
        self.names.iter_mut().for_each(|names| names.settle());
        for task in &self.round.tasks {
            // Checked calls are not needed any more.
            let _ = std::fs::remove_file(&task.journal);
            let _ = std::fs::remove_file(task.journal.with_extension("log"));
        }
        Ok(())
    }

    /// A call takes only so long, and fails only for reasons that there are.
    fn judge_manner(&self, call: &Call) -> Result<(), Violation> {
        let Some(end) = call.end else { return Ok(()) };
        let stopped = self
            .round
            .stops
            .iter()
            .any(|(worker, from, to)| *worker == call.worker && *from < end && call.start < *to);
        if end - call.start > LONGEST_CALL && !stopped {
            let took = seconds(end - call.start);
            return Err(format!(
                "worker {}: {} took {took} s, from {}",
                call.worker,
                call.op,
                seconds(call.start)
            ));
        }
        let Some((kind, text)) = call.failure() else { return Ok(()) };
        let expected = match kind {
            "Unreachable" | "FileInUse" => true,
            "NoSpace" => self.round.was_full,
            // A process that caches blocks and cannot store them in time loses them, and gets an error.
            "Io" if text.contains("did not store in time") => true,
            // The same, if it dropped its handle: then the next sync or close of the file tells.
            "Io" if text.contains("bytes that it had cached could not be stored") => true,
            // The metadata server did not wait for its end, and made sure that it never happens.
            "Io" if text.contains("and is void") => matches!(call.op, Op::SetLen { .. } | Op::Open { .. }),
            // A client that missed all of a server's life between two downs cannot know that all was stored.
            "Io" if text.contains("its cache was lost") => self.round.downs > 1,
            "NoSuchFile" | "FileExists" => super::names::is_change(&call.op),
            _ => false,
        };
        match expected {
            true => Ok(()),
            false => Err(format!(
                "worker {}: {} failed at {} with {kind}, for which there is no reason: {text}",
                call.worker,
                call.op,
                seconds(end)
            )),
        }
    }

    /// The partition goes down for good, and nothing of it stays.
    pub(super) fn tear_down(&mut self) -> Result<(), Violation> {
        self.down()?;
        match self.cluster.run.exists() {
            false => Ok(()),
            true => {
                Err(format!("partition {NAME} is down, and {} is still there", self.cluster.run.display()))
            }
        }
    }
}
