//! Executes faults on a session.

use std::fs;
use std::io::Write;
use std::time::{Duration, Instant};

use super::fault::{Ending, Fault};
use super::history::{Call, Nanos, Op, now};
use super::session::{Session, Violation, io};
use super::tamper::{self, Backup};
use super::worker::NAME;
use crate::processes::ProcessHandle;

impl Session<'_> {
    fn disturb(&mut self, start: Nanos, after: Duration) {
        self.round.disturbed.push((start, now() + after.as_nanos() as u64));
    }

    fn client(&self, slot: usize) -> Option<(u32, ProcessHandle)> {
        self.workers.get(&slot).map(|running| (running.task.worker, ProcessHandle(running.child.id())))
    }

    pub(super) fn strike(&mut self, fault: Fault) -> Result<(), Violation> {
        let start = now();
        match fault {
            Fault::KillServer { server } => {
                self.cluster.process(server).into_iter().for_each(ProcessHandle::kill);
                self.disturb(start, Duration::from_secs(2));
            }
            Fault::KillServerForGood { server } => {
                if let Some(process) = self.cluster.process(server) {
                    let supervisor = process.parent();
                    if supervisor.command().ends_with("supervisor") {
                        supervisor.kill();
                    }
                    process.kill();
                }
                self.bring_up()?;
                self.disturb(start, Duration::ZERO);
            }
            Fault::KillAllServers => {
                self.cluster.kill_servers();
                self.bring_up()?;
                self.disturb(start, Duration::ZERO);
            }
            Fault::KillClient { slot } => {
                self.client(slot).into_iter().for_each(|(_, process)| process.kill())
            }
            Fault::StopServer { server, millis } => {
                if let Some(process) = self.cluster.process(server) {
                    process.stop();
                    self.wait(Duration::from_millis(millis))?;
                    process.go_on();
                }
                self.disturb(start, Duration::ZERO);
            }
            Fault::StopClient { slot, millis } => {
                if let Some((worker, process)) = self.client(slot) {
                    process.stop();
                    self.wait(Duration::from_millis(millis))?;
                    process.go_on();
                    self.round.stops.push((worker, start, now()));
                }
            }
            Fault::TermServer { server } => {
                if let Some(process) = self.cluster.process(server) {
                    process.signal("-TERM");
                    self.round.downs += 1;
                    let until = Instant::now() + Duration::from_secs(30);
                    while !process.is_gone() {
                        if Instant::now() > until {
                            return Err(format!("server {server} did not end within 30 s after SIGTERM"));
                        }
                        self.wait(Duration::from_millis(5))?;
                    }
                }
                self.bring_up()?;
                self.disturb(start, Duration::ZERO);
            }
            Fault::DownUp => {
                self.down()?;
                self.cluster.forget_memory();
                self.bring_up()?;
                self.disturb(start, Duration::ZERO);
            }
            Fault::DownUpAround { slot } => self.down_around(slot)?,
            Fault::FullStorage { millis } => self.fill_storage(millis)?,
        }
        Ok(())
    }

    /// Down and up while a worker is stopped in a call that it chose itself, or wherever it is.
    fn down_around(&mut self, slot: usize) -> Result<(), Violation> {
        let start = now();
        let patience = Instant::now() + Duration::from_millis(1500);
        let stopped = loop {
            match self.client(slot) {
                Some((worker, process)) if process.is_stopped() => break Some((worker, process)),
                Some((worker, process)) if Instant::now() > patience => {
                    process.stop();
                    break Some((worker, process));
                }
                None => break None,
                Some(_) => self.wait(Duration::from_millis(1))?,
            }
        };
        self.down()?;
        self.cluster.forget_memory();
        self.bring_up()?;
        if let Some((worker, process)) = stopped {
            process.go_on();
            self.round.stops.push((worker, start.saturating_sub(5_000_000_000), now()));
        }
        self.disturb(start, Duration::ZERO);
        Ok(())
    }

    /// `pario down`, which has to succeed in the end: it may fail, and say so, while a killed server is still about to end or its
    /// storage has no room.
    pub(super) fn down(&mut self) -> Result<(), Violation> {
        self.round.downs += 1;
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            let said = self.cluster.pario(&["down", NAME]).map_err(io)?;
            self.note(&format!("down: {:?} {}", said.status.and_then(|status| status.code()), said.text));
            if said.succeeded() {
                break;
            }
            self.tally.refused();
            if said.status.is_none() || Instant::now() > until {
                return Err(format!("pario down failed: {:?} {}", said.status, said.text));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        match self.cluster.wait_until_gone(Duration::from_secs(10)) {
            true => Ok(()),
            false => Err("pario down succeeded, and servers are still there".into()),
        }
    }

    /// `pario up`, which has to work in the end.
    pub(super) fn bring_up(&mut self) -> Result<(), Violation> {
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            let said = self.cluster.up().map_err(io)?;
            if said.succeeded() {
                return Ok(());
            }
            self.note(&format!("up: {:?} {}", said.status.and_then(|status| status.code()), said.text));
            if said.status.is_none() || Instant::now() > until {
                return Err(format!("pario up does not work: {}", said.text));
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Takes all room of the small storage for a while.
    fn fill_storage(&mut self, millis: u64) -> Result<(), Violation> {
        let Some(small) = &self.cluster.small else { return Ok(()) };
        let ballast = small.path().join("ballast");
        self.round.was_full = true;
        let mut file = fs::File::create(&ballast).map_err(io)?;
        for size in [1 << 16, 4096] {
            while file.write(&vec![1; size]).is_ok_and(|written| written == size) {}
        }
        drop(file);
        self.wait(Duration::from_millis(millis))?;
        fs::remove_file(&ballast).map_err(io)
    }

    /// Executes a fault after the workers have ended, and brings everything up again.
    pub(super) fn end(&mut self, ending: Ending) -> Result<(), Violation> {
        ending.kind().into_iter().for_each(|kind| self.tally.fault(kind));
        self.note(&format!("ending: {ending:?}"));
        match ending {
            Ending::Nothing | Ending::LostFiles => return Ok(()),
            Ending::Down => self.down()?,
            Ending::KillThenDown => {
                let server = self.dice.index(self.cluster.servers);
                match self.cluster.process(server) {
                    Some(process) if self.dice.one_in(2) => {
                        process.parent().kill();
                        process.kill();
                    }
                    _ => self.cluster.kill_servers(),
                }
                self.down()?;
            }
            Ending::TermAll => {
                self.cluster.server_processes().into_iter().for_each(|process| process.signal("-TERM"));
                if !self.cluster.wait_until_gone(Duration::from_secs(30)) {
                    return Err("servers or supervisors did not end within 30 s after SIGTERM".into());
                }
            }
            Ending::HostLost => {
                self.cluster.kill_servers();
                self.round.losses.push(now());
            }
        }
        // Storage alone has to be enough.
        self.cluster.forget_memory();
        self.bring_up()
    }

    /// Damages stored files: no client may read wrong bytes, and everything can be read again once the files are restored.
    pub(super) fn lose_files(&mut self) -> Result<(), Violation> {
        self.down()?;
        let data: Vec<_> = (0..self.cluster.servers).map(|server| self.cluster.data(server)).collect();
        let backup = Backup::of(&data, &self.cluster.dir.join("backup")).map_err(io)?;
        let dir = &data[self.dice.index(data.len())];
        let harm = tamper::harm(dir, &mut self.dice).map_err(io)?.unwrap_or_default();
        self.note(&harm);
        let up = self.cluster.up().map_err(io)?;
        if up.succeeded() {
            let (calls, _) = self.look()?;
            if let Some(why) = calls.iter().find_map(|call| self.is_wrong(call)) {
                return Err(format!("{harm}\nand this was served as good: {why}"));
            }
            if calls.iter().any(|call| call.failure().is_some()) {
                let check = self.cluster.pario(&["check", NAME]).map_err(io)?;
                if check.succeeded() {
                    return Err(format!(
                        "{harm}\nreads fail, but `pario check` finds nothing: {}",
                        check.text
                    ));
                }
            }
            // It may say that there is damage.
            let down = self.cluster.pario(&["down", NAME]).map_err(io)?;
            self.note(&format!("down of the damaged one: {}", down.text));
        } else {
            self.note(&format!("refused to start: {}", up.text));
        }
        self.cluster.kill_servers();
        self.cluster.forget_memory();
        backup.restore().map_err(io)?;
        self.bring_up()
    }

    /// Why an outcome cannot be, where nothing has changed since everything was judged.
    fn is_wrong(&self, call: &Call) -> Option<String> {
        let wrong = match (&call.op, call.failure()) {
            (Op::Open { .. }, Some(("NoSuchFile", text))) => Err(text.to_owned()),
            (_, Some(_)) => return None,
            (Op::Read { file, .. } | Op::Len { file }, None) => {
                self.files[*file].judge(call, &[]).map(|_| ())
            }
            (Op::List { slot }, None) => self.names[*slot].clone().take(call, &[]),
            _ => return None,
        };
        wrong.err().map(|why| format!("{}: {why}", call.op))
    }
}
