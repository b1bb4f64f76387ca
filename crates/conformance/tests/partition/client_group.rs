//! Clients in threads of their own, each with a partition handle and open files, that go through steps and say
//! what was not as it should be.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pario::{File, Offset, OpenOptions, Partition, PlacementMap, Pos, ServerId, View, view};

use super::site::{DEADLINE, Route, connect};
use super::step::{Comb, Extents, Handle, How, Op, Outcome, Step};

/// No operation takes longer, whatever happens to the servers: the longest deadline, and what a busy machine
/// may add to it.
const LONGEST: Duration = Duration::from_secs(DEADLINE.as_secs() * 2 + 10);

/// Some clients.
pub struct ClientGroup {
    members: Vec<Member>,
}

struct Member {
    steps: Sender<Vec<Step>>,
    /// The violations; empty at the end of each round if there were none.
    said: Receiver<Result<(), String>>,
    thread: Option<JoinHandle<()>>,
}

impl ClientGroup {
    /// Clients of the partition with this registry, each through its route.
    pub fn new(home: &Path, routes: &[Route]) -> ClientGroup {
        ClientGroup { members: routes.iter().map(|route| Member::new(home, *route)).collect() }
    }

    /// Has every client go through its steps, all at the same time.
    #[track_caller]
    pub fn go(&self, round: Vec<Vec<Step>>) {
        for (member, steps) in self.members.iter().zip(round) {
            member.steps.send(steps).expect("a client listens");
        }
        for (number, member) in self.members.iter().enumerate() {
            match member.said.recv_timeout(LONGEST * 2) {
                Ok(Ok(())) => {}
                Ok(Err(why)) => panic!("client {number}: {why}"),
                Err(_) => panic!("client {number} hangs"),
            }
        }
    }
}

impl Drop for ClientGroup {
    fn drop(&mut self) {
        let threads: Vec<_> = self.members.drain(..).filter_map(|mut member| member.thread.take()).collect();
        if !std::thread::panicking() {
            for thread in threads {
                thread.join().expect("a client does not panic");
            }
        }
    }
}

impl Member {
    fn new(home: &Path, route: Route) -> Member {
        let (steps, to_do) = channel::<Vec<Step>>();
        let (say, said) = channel();
        let home = home.to_owned();
        let thread = std::thread::spawn(move || {
            let mut client = connect(&home, route).map(Client::new);
            for steps in to_do {
                let outcome = match &mut client {
                    Ok(client) => steps.into_iter().try_for_each(|step| client.check(step)),
                    Err(error) => Err(format!("did not get in: {error}")),
                };
                // Nobody listens once the test has failed.
                let _ = say.send(outcome);
            }
        });
        Member { steps, said, thread: Some(thread) }
    }
}

/// One client.
pub struct Client {
    partition: Partition,
    files: HashMap<Handle, File>,
}

impl Client {
    pub fn new(partition: Partition) -> Client {
        Client { partition, files: HashMap::new() }
    }

    /// Executes a step; an error if its outcome is not the expected one.
    pub fn check(&mut self, Step { op, want }: Step) -> Result<(), String> {
        let begun = Instant::now();
        let done = self.act(&op);
        let (took, said) = (begun.elapsed(), done.as_ref().err().map(ToString::to_string));
        let outcome = done.unwrap_or_else(|error| Outcome::Failed(error.kind()));
        if took > LONGEST {
            return Err(format!("{} took {} s", describe(&op), took.as_secs()));
        }
        match want.contradicts(&outcome) {
            None => Ok(()),
            Some(why) => Err(format!("{} {why} ({})", describe(&op), said.unwrap_or_default())),
        }
    }

    fn act(&mut self, op: &Op) -> pario::Result<Outcome> {
        let partition = &self.partition;
        match op {
            Op::Open { handle, path, how, stripe, count, extents } => {
                let mut options = OpenOptions::new();
                if !extents.is_empty() {
                    options.table(table(extents));
                }
                options.read(true).write(*how != How::ReadOnly).stripe(*stripe).stripe_count(*count);
                match how {
                    How::Existing | How::ReadOnly => &mut options,
                    How::Create => options.create(true),
                    How::New => options.create_new(true),
                    How::Truncate => options.truncate(true),
                };
                let file = partition.open(path, &options)?;
                self.files.insert(*handle, file);
            }
            Op::Write { handle, at, bytes } => self.files[handle].write_at(bytes, *at)?,
            Op::WriteStrided { handle, comb, bytes } => {
                if let Some(view) = comb.view() {
                    self.files[handle].write_view(&view, Pos(0), bytes)?;
                    return Ok(Outcome::Done);
                }
                let pieces: Vec<_> = comb.offsets().zip(bytes.chunks(comb.len)).collect();
                self.files[handle].write_vectored_at(&pieces)?;
            }
            Op::Read { handle, at, len } => {
                // Not zeros, which might pass for what was read.
                let mut bytes = vec![0xa5; *len];
                let read = self.files[handle].read_at(&mut bytes, *at)?;
                bytes.truncate(read);
                return Ok(Outcome::Bytes(bytes));
            }
            Op::ReadStrided { handle, comb } => {
                let mut bytes = vec![0xa5; comb.len * comb.count];
                if let Some(view) = comb.view() {
                    let read = self.files[handle].read_view(&view, Pos(0), &mut bytes)?;
                    bytes.truncate(read);
                    return Ok(Outcome::Bytes(bytes));
                }
                let mut pieces: Vec<_> = comb.offsets().zip(bytes.chunks_mut(comb.len)).collect();
                let read = self.files[handle].read_vectored_at(&mut pieces)?;
                bytes.truncate(read);
                return Ok(Outcome::Bytes(bytes));
            }
            Op::SetLen { handle, len } => self.files[handle].set_len(*len)?,
            Op::Len { handle } => return self.files[handle].len().map(Outcome::Length),
            Op::Flush { handle } => self.files[handle].flush()?,
            Op::Sync { handle } => self.files[handle].sync()?,
            Op::Close { handle } => {
                if let Some(file) = self.files.remove(handle) {
                    file.close()?;
                }
            }
            Op::Drop { handle } => drop(self.files.remove(handle)),
            Op::Rename { from, to, replace: true } => partition.rename(from, to)?,
            Op::Rename { from, to, replace: false } => partition.rename_new(from, to)?,
            Op::Unlink { path } => partition.remove_file(path)?,
            Op::MakeDirectory { path } => partition.create_dir(path)?,
            Op::RemoveDirectory { path } => partition.remove_dir(path)?,
            Op::List { path } => {
                let entry = |entry: pario::Result<pario::DirEntry>| {
                    entry.map(|entry| (entry.name().to_owned(), entry.is_dir()))
                };
                let names = partition.read_dir(path).map(entry).collect::<Result<_, _>>()?;
                return Ok(Outcome::Names(names));
            }
            Op::Stat { path } => return Ok(Outcome::Length(partition.metadata(path)?.len())),
        }
        Ok(Outcome::Done)
    }
}

/// Extents one after the other, which are first used from the last to the first.
fn table(extents: &Extents) -> PlacementMap {
    let mut at = 0;
    let kept = extents.iter().map(|(len, servers)| {
        at += len;
        (at - len..at, servers.iter().copied().map(ServerId).collect())
    });
    let kept: Vec<(Range<u64>, Vec<ServerId>)> = kept.collect();
    let order: Vec<Range<u64>> = kept.iter().rev().map(|(range, _)| range.clone()).collect();
    PlacementMap::new(kept).expect("in order").in_order(&order).expect("apart")
}

impl Comb {
    /// As a view, for every other one: lists and views must come to the same.
    fn view(&self) -> Option<View> {
        let view = || view::strided(Offset(self.at), self.len as u64, self.stride).expect("a view");
        (self.at % 2 == 1).then(view)
    }

    fn offsets(&self) -> impl Iterator<Item = u64> + use<> {
        let Comb { at, stride, count, .. } = *self;
        (0..count as u64).map(move |i| at + i * stride)
    }
}

/// An operation without its bytes.
fn describe(op: &Op) -> String {
    match op {
        Op::Write { handle, at, bytes } => format!("Write {} bytes at {at} to {handle}", bytes.len()),
        Op::WriteStrided { handle, comb, .. } => format!("WriteStrided {comb:?} to {handle}"),
        other => format!("{other:?}"),
    }
}
