//! The model: directories and files as plain maps and flat bytes, which generates steps with the results that
//! they must have.
//!
//! Operations come in rounds. Within a round every directory belongs to one client, or to all: then its names
//! stay, and its files are read only, or each client keeps to a slice of its own. So clients may go through a
//! round as fast as they can, and what each must see is known before.

use std::collections::BTreeMap;

use pario_types::ErrorKind;

use super::dice::Dice;
use super::step::{Comb, Extents, Handle, How, Op, Outcome, Step, Want};

/// The most bytes of a file.
pub const LONGEST: u64 = 3 << 20;

/// Files and handles that there may be.
const MOST_FILES: usize = 12;
const MOST_HANDLES: usize = 6;

/// Names in a directory with the bytes of files; `None` for directories.
pub type Entries<'a> = Vec<(String, Option<&'a [u8]>)>;

/// All there is.
#[derive(Debug)]
pub struct World {
    directories: Vec<Directory>,
    files: Vec<Vec<u8>>,
    /// Of each client.
    open: Vec<BTreeMap<Handle, Open>>,
    stripes: Vec<u64>,
    servers: u16,
    next_handle: Handle,
}

#[derive(Clone, Debug)]
struct Directory {
    path: String,
    /// Files by their index; `None`: an empty directory.
    entries: BTreeMap<String, Option<usize>>,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    file: usize,
    writes: bool,
}

/// The operations that clients may do with the files of a directory in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// One client, everything.
    Own(usize),
    /// Everybody reads.
    Read,
    /// Everybody has a slice; with the files' lengths at the round's beginning.
    Slices,
}

impl World {
    /// Two directories per client; `servers` and `stripes` are what files may be striped over and by.
    pub fn new(clients: usize, servers: u16, stripes: &[u64]) -> World {
        let directory = |i| Directory { path: format!("/d{i}"), entries: BTreeMap::new() };
        World {
            directories: (0..clients * 2).map(directory).collect(),
            files: Vec::new(),
            open: vec![BTreeMap::new(); clients],
            stripes: stripes.to_vec(),
            servers,
            next_handle: 0,
        }
    }

    /// The directories to be made before the first round.
    pub fn directories(&self) -> Vec<String> {
        self.directories.iter().map(|directory| directory.path.clone()).collect()
    }

    /// Every directory with its entries.
    pub fn contents(&self) -> Vec<(String, Entries<'_>)> {
        let file = |(name, file): (&String, &Option<usize>)| {
            (name.clone(), file.map(|index| self.files[index].as_slice()))
        };
        let one = |d: &Directory| (d.path.clone(), d.entries.iter().map(file).collect());
        self.directories.iter().map(one).collect()
    }

    /// The steps of each client in a round, about `steps` each.
    pub fn round(&mut self, dice: &mut Dice, steps: usize) -> Vec<Vec<Step>> {
        let clients = self.open.len();
        let rule = |dice: &mut Dice| match dice.below(6) {
            0 => Rule::Read,
            1 | 2 => Rule::Slices,
            _ => Rule::Own(dice.index(clients)),
        };
        let rules: Vec<Rule> = self.directories.iter().map(|_| rule(dice)).collect();
        let mut of_files = vec![Rule::Read; self.files.len()];
        for (directory, rule) in self.directories.iter().zip(&rules) {
            directory.entries.values().flatten().for_each(|&file| of_files[file] = *rule);
        }
        for (file, of_file) in of_files.iter_mut().enumerate() {
            // A file without a name: one of the clients that have it open uses it.
            let named = self.directories.iter().any(|d| d.entries.values().any(|f| *f == Some(file)));
            if !named {
                *of_file = Rule::Own(dice.index(clients));
            }
        }
        let mut lengths: Vec<u64> = self.files.iter().map(|file| file.len() as u64).collect();
        let mut round = Vec::new();
        for client in 0..clients {
            let mut turn = Turn {
                world: self,
                dice,
                client,
                rules: &rules,
                of_files: of_files.clone(),
                lengths: lengths.clone(),
                steps: Vec::new(),
            };
            for _ in 0..steps {
                turn.step();
            }
            // Files that this client creates belong to it alone in this round.
            let (made, steps) = (turn.of_files.len() - of_files.len(), turn.steps);
            of_files.extend(vec![Rule::Own(client); made]);
            lengths.resize(of_files.len(), 0);
            round.push(steps);
        }
        round
    }

    /// Steps that close all open files.
    pub fn farewell(&mut self) -> Vec<Vec<Step>> {
        let close = |handle| Step { op: Op::Close { handle }, want: Want::Exactly(Outcome::Done) };
        self.open.iter_mut().map(|open| std::mem::take(open).into_keys().map(close).collect()).collect()
    }
}

/// One client's steps of a round in the making.
struct Turn<'a> {
    world: &'a mut World,
    dice: &'a mut Dice,
    client: usize,
    rules: &'a [Rule],
    of_files: Vec<Rule>,
    /// Of the files, as far as this client can be sure.
    lengths: Vec<u64>,
    steps: Vec<Step>,
}

impl Turn<'_> {
    fn step(&mut self) {
        match self.dice.below(22) {
            0..=2 => self.open(),
            3 | 4 => self.names(),
            5 => self.look(),
            6 => self.close(),
            _ => self.access(),
        }
    }

    fn push(&mut self, op: Op, want: Outcome) {
        self.steps.push(Step { op, want: Want::Exactly(want) });
    }

    fn rule(&self, file: usize) -> Rule {
        self.of_files.get(file).copied().unwrap_or(Rule::Own(self.client))
    }

    /// A directory in which this client may change names.
    fn own_directory(&mut self) -> Option<usize> {
        let own: Vec<usize> =
            (0..self.rules.len()).filter(|&d| self.rules[d] == Rule::Own(self.client)).collect();
        (!own.is_empty()).then(|| self.dice.pick(&own))
    }

    fn path(&self, directory: usize, name: &str) -> String {
        format!("{}/{name}", self.world.directories[directory].path)
    }

    fn name(&mut self) -> String {
        format!("f{}", self.dice.below(4))
    }

    fn open(&mut self) {
        if self.world.open[self.client].len() >= MOST_HANDLES {
            return self.close();
        }
        let (own, any) = (self.own_directory(), self.dice.index(self.rules.len()));
        let shared = !matches!(self.rules[any], Rule::Own(_));
        let directory = match own {
            Some(own) if !shared || self.dice.one_in(2) => own,
            _ if shared => any,
            _ => return,
        };
        let owned = self.rules[directory] == Rule::Own(self.client);
        let name = self.name();
        let there = self.world.directories[directory].entries.get(&name).copied();
        let full = self.world.files.len() >= MOST_FILES * self.world.open.len();
        let how = match owned {
            false => How::Existing,
            true if full => self.dice.pick(&[How::Existing, How::ReadOnly, How::Truncate]),
            true => self.dice.pick(&[
                How::Existing,
                How::ReadOnly,
                How::Create,
                How::Create,
                How::Create,
                How::New,
                How::Truncate,
            ]),
        };
        let path = self.path(directory, &name);
        let handle = self.world.next_handle;
        self.world.next_handle += 1;
        let stripe = self.dice.pick(&self.world.stripes);
        let count = self.dice.below(u64::from(self.world.servers) + 1) as u16;
        let extents = if self.dice.one_in(2) { self.extents() } else { Vec::new() };
        let op = Op::Open { handle, path, how, stripe, count, extents };
        let file = match (there, how) {
            // A directory cannot be opened as a file.
            (Some(None), How::New) => return self.push(op, Outcome::Failed(ErrorKind::FileExists)),
            (Some(None), _) => return self.push(op, Outcome::Failed(ErrorKind::BadFile)),
            (Some(Some(_)), How::New) => return self.push(op, Outcome::Failed(ErrorKind::FileExists)),
            (None, How::Existing | How::ReadOnly | How::Truncate) => {
                return self.push(op, Outcome::Failed(ErrorKind::NoSuchFile));
            }
            (Some(Some(file)), _) => file,
            (None, How::Create | How::New) => {
                let file = self.world.files.len();
                self.world.files.push(Vec::new());
                self.of_files.push(Rule::Own(self.client));
                self.lengths.push(0);
                self.world.directories[directory].entries.insert(name, Some(file));
                file
            }
        };
        if how == How::Truncate {
            self.world.files[file].clear();
            self.lengths[file] = 0;
        }
        let open = Open { file, writes: how != How::ReadOnly };
        self.world.open[self.client].insert(handle, open);
        self.push(op, Outcome::Done);
    }

    /// Where a new file is to be: on one server, on several, or anywhere.
    fn extents(&mut self) -> Extents {
        let (servers, most) = (u64::from(self.world.servers), self.dice.pick(&[3000, 100_000, 1 << 20]));
        let holders = |dice: &mut Dice| (0..dice.below(4)).map(|_| dice.below(servers) as u16).collect();
        (0..1 + self.dice.below(30)).map(|_| (1 + self.dice.below(most), holders(self.dice))).collect()
    }

    fn close(&mut self) {
        let handles: Vec<Handle> = self.world.open[self.client].keys().copied().collect();
        if handles.is_empty() {
            return;
        }
        let handle = self.dice.pick(&handles);
        self.world.open[self.client].remove(&handle);
        let op = if self.dice.one_in(3) { Op::Drop { handle } } else { Op::Close { handle } };
        self.push(op, Outcome::Done);
    }

    /// Changes names.
    fn names(&mut self) {
        let Some(directory) = self.own_directory() else { return };
        let name = self.name();
        let path = self.path(directory, &name);
        let there = self.world.directories[directory].entries.get(&name).copied();
        match self.dice.below(5) {
            0 => {
                let want = match there {
                    Some(Some(_)) => Outcome::Done,
                    Some(None) => Outcome::Failed(ErrorKind::BadFile),
                    None => Outcome::Failed(ErrorKind::NoSuchFile),
                };
                if want == Outcome::Done {
                    self.world.directories[directory].entries.remove(&name);
                }
                self.push(Op::Unlink { path }, want);
            }
            1 => match there {
                Some(_) => {
                    self.push(Op::MakeDirectory { path }, Outcome::Failed(ErrorKind::FileExists));
                }
                None => {
                    self.world.directories[directory].entries.insert(name, None);
                    self.push(Op::MakeDirectory { path }, Outcome::Done);
                }
            },
            2 => match there {
                Some(None) => {
                    self.world.directories[directory].entries.remove(&name);
                    self.push(Op::RemoveDirectory { path }, Outcome::Done);
                }
                Some(Some(_)) => {
                    self.push(Op::RemoveDirectory { path }, Outcome::Failed(ErrorKind::BadFile));
                }
                None => {
                    let path = self.world.directories[directory].path.clone();
                    if !self.world.directories[directory].entries.is_empty() {
                        self.push(Op::RemoveDirectory { path }, Outcome::Failed(ErrorKind::NotEmpty));
                    }
                }
            },
            3 if self.dice.one_in(3) => {
                // With all that is in it, while files in it are open.
                let from = self.world.directories[directory].path.clone();
                let to =
                    if from.starts_with("/d") { from.replace("/d", "/e") } else { from.replace("/e", "/d") };
                self.world.directories[directory].path = to.clone();
                self.push(Op::Rename { from, to, replace: true }, Outcome::Done);
            }
            _ => self.rename(directory, name),
        }
    }

    fn rename(&mut self, from: usize, name: String) {
        let to = self.own_directory().expect("there is one at least");
        let new = self.name();
        let (source, target) = (
            self.world.directories[from].entries.get(&name).copied(),
            self.world.directories[to].entries.get(&new).copied(),
        );
        let replace = self.dice.one_in(2);
        let op = Op::Rename { from: self.path(from, &name), to: self.path(to, &new), replace };
        let want = match (source, target) {
            (None, _) => Outcome::Failed(ErrorKind::NoSuchFile),
            // To itself.
            (Some(_), Some(_)) if (from, &name) == (to, &new) => return,
            (Some(_), Some(_)) if !replace => Outcome::Failed(ErrorKind::FileExists),
            // A file over a directory, or the other way round.
            (Some(a), Some(b)) if a.is_some() != b.is_some() => return,
            _ => Outcome::Done,
        };
        if want == Outcome::Done {
            let moved = self.world.directories[from].entries.remove(&name).expect("looked above");
            self.world.directories[to].entries.insert(new, moved);
        }
        self.push(op, want);
    }

    /// Asks about names.
    fn look(&mut self) {
        let directory = self.dice.index(self.rules.len());
        // Names in shared directories do not change, so that all clients know them.
        if matches!(self.rules[directory], Rule::Own(client) if client != self.client) {
            return;
        }
        let entries = &self.world.directories[directory].entries;
        if self.dice.one_in(2) {
            let names = entries.iter().map(|(name, file)| (name.clone(), file.is_none())).collect();
            let path = self.world.directories[directory].path.clone();
            return self.push(Op::List { path }, Outcome::Names(names));
        }
        let name = self.name();
        let want = match self.world.directories[directory].entries.get(&name) {
            Some(Some(_)) if self.rules[directory] == Rule::Slices => return,
            Some(Some(file)) => Outcome::Length(self.world.files[*file].len() as u64),
            Some(None) => Outcome::Length(0),
            None => Outcome::Failed(ErrorKind::NoSuchFile),
        };
        let path = self.path(directory, &name);
        self.push(Op::Stat { path }, want);
    }

    /// Moves bytes.
    fn access(&mut self) {
        let usable: Vec<(Handle, Open)> = self.world.open[self.client]
            .iter()
            .filter(|(_, open)| !matches!(self.rule(open.file), Rule::Own(client) if client != self.client))
            .map(|(handle, open)| (*handle, *open))
            .collect();
        if usable.is_empty() {
            return self.open();
        }
        let (handle, Open { file, writes }) = self.dice.pick(&usable);
        match self.rule(file) {
            Rule::Own(_) => self.access_own(handle, file, writes),
            Rule::Read => self.read(handle, file, 0..LONGEST),
            Rule::Slices => {
                let width = LONGEST / self.world.open.len() as u64;
                let from = self.client as u64 * width;
                let slice = from..from + width;
                match writes && self.dice.one_in(2) {
                    true => self.write(handle, file, slice),
                    false => self.read(handle, file, slice),
                }
            }
        }
    }

    fn access_own(&mut self, handle: Handle, file: usize, writes: bool) {
        let length = self.world.files[file].len() as u64;
        match self.dice.below(16) {
            0 => self.push(Op::Len { handle }, Outcome::Length(length)),
            1 => self.push(Op::Flush { handle }, Outcome::Done),
            2 if self.dice.one_in(2) => self.push(Op::Sync { handle }, Outcome::Done),
            3 if !writes => self.push(Op::SetLen { handle, len: 1 }, Outcome::Failed(ErrorKind::Access)),
            3 => {
                let len = match self.dice.below(3) {
                    0 => self.dice.below(LONGEST),
                    1 => self.dice.below(length + 1),
                    _ => 0,
                };
                self.world.files[file].resize(len as usize, 0);
                self.lengths[file] = len;
                self.push(Op::SetLen { handle, len }, Outcome::Done);
            }
            4 => self.read_strided(handle, file),
            5 if writes => self.write_strided(handle, file),
            6 if !writes => {
                let bytes = self.dice.bytes(10);
                self.push(Op::Write { handle, at: 0, bytes }, Outcome::Failed(ErrorKind::Access));
            }
            7..=11 if writes => self.write(handle, file, 0..LONGEST),
            _ => self.read(handle, file, 0..LONGEST),
        }
    }

    /// Some bytes within a range: often few, often at a boundary of something.
    fn extent(&mut self, file: usize, within: std::ops::Range<u64>) -> (u64, usize) {
        let room = within.end - within.start;
        let len = match self.dice.below(6) {
            0..=2 => 1 + self.dice.below(300),
            3 | 4 => 1 + self.dice.below(70_000),
            _ => 1 + self.dice.below(700_000),
        };
        let len = len.min(room);
        let length = self.world.files[file].len() as u64;
        let boundary = self.dice.pick(&[4096, 65536, 1 << 20]);
        let at = match self.dice.below(4) {
            0 => within.start + self.dice.below(room),
            1 => (within.start + self.dice.below(room)) / boundary * boundary,
            2 => length.saturating_sub(self.dice.below(len + 1)),
            _ => ((within.start + self.dice.below(room)) / boundary * boundary).saturating_sub(len / 2),
        };
        (at.clamp(within.start, within.end - len), len as usize)
    }

    fn write(&mut self, handle: Handle, file: usize, within: std::ops::Range<u64>) {
        let (at, len) = self.extent(file, within);
        let bytes = self.dice.bytes(len);
        self.put(file, at, &bytes);
        self.push(Op::Write { handle, at, bytes }, Outcome::Done);
    }

    fn put(&mut self, file: usize, at: u64, bytes: &[u8]) {
        let end = at as usize + bytes.len();
        let content = &mut self.world.files[file];
        if content.len() < end {
            content.resize(end, 0);
        }
        content[at as usize..end].copy_from_slice(bytes);
        self.lengths[file] = self.lengths[file].max(end as u64);
    }

    fn read(&mut self, handle: Handle, file: usize, within: std::ops::Range<u64>) {
        let (at, len) = self.extent(file, within);
        let content = &self.world.files[file];
        let there = |length: u64| length.saturating_sub(at).min(len as u64) as usize;
        let from = (at as usize).min(content.len());
        let mut bytes = content[from..from + there(content.len() as u64)].to_vec();
        let op = Op::Read { handle, at, len };
        match self.rule(file) {
            Rule::Slices => {
                bytes.resize(len, 0);
                let want = Want::AtLeast(there(self.lengths[file]), bytes);
                self.steps.push(Step { op, want });
            }
            _ => self.push(op, Outcome::Bytes(bytes)),
        }
    }

    fn comb(&mut self) -> Comb {
        let (len, count) = (1 + self.dice.index(5000), 1 + self.dice.index(40));
        let stride = len as u64 + self.dice.below(20_000);
        Comb { at: self.dice.below(LONGEST - stride * count as u64), len, stride, count }
    }

    fn write_strided(&mut self, handle: Handle, file: usize) {
        let comb = self.comb();
        let bytes = self.dice.bytes(comb.len * comb.count);
        for (i, piece) in bytes.chunks(comb.len).enumerate() {
            self.put(file, comb.at + i as u64 * comb.stride, piece);
        }
        self.push(Op::WriteStrided { handle, comb, bytes }, Outcome::Done);
    }

    fn read_strided(&mut self, handle: Handle, file: usize) {
        let comb = self.comb();
        let content = &self.world.files[file];
        let mut bytes = Vec::new();
        for i in 0..comb.count {
            let from = (comb.at + i as u64 * comb.stride).min(content.len() as u64) as usize;
            let to = (from + comb.len).min(content.len());
            bytes.extend_from_slice(&content[from..to]);
            if to - from < comb.len {
                break;
            }
        }
        self.push(Op::ReadStrided { handle, comb }, Outcome::Bytes(bytes));
    }
}
