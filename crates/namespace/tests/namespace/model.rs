//! The name space against a naive one: a map of whole paths.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use pario_namespace::{CreateMode, FileSize, InodeKind, Namespace, OpenAccess};
use pario_types::{FileId, Stamp};
use proptest::prelude::*;

use crate::disk::MemoryDisk;
use crate::random::{Answer, Op, op, open, perform};

#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    id: u64,
    directory: bool,
    mode: u32,
    modified: i64,
    changed: i64,
}

#[derive(Clone, Debug)]
struct Model {
    nodes: BTreeMap<String, Node>,
    next: u64,
    /// (client, file, for writing)
    opens: Vec<(u8, u64, bool)>,
    orphans: BTreeSet<u64>,
    /// Of files open for writing: the time up to which writes are known.
    floors: BTreeMap<u64, i64>,
}

const ENOENT: i32 = 2;
const EBADF: i32 = 9;
const EACCES: i32 = 13;
const EBUSY: i32 = 16;
const EEXIST: i32 = 17;
const ENOTDIR: i32 = 20;
const EISDIR: i32 = 21;
const EINVAL: i32 = 22;
const ENOTEMPTY: i32 = 39;

fn parent(path: &str) -> String {
    match path.rfind('/') {
        Some(0) | None => "/".into(),
        Some(at) => path[..at].into(),
    }
}

fn below(directory: &str) -> String {
    if directory == "/" { "/".into() } else { format!("{directory}/") }
}

impl Model {
    fn new() -> Model {
        let root = Node { id: 1, directory: true, mode: 0o755, modified: 1, changed: 1 };
        Model {
            nodes: BTreeMap::from([("/".into(), root)]),
            next: 2,
            opens: Vec::new(),
            orphans: BTreeSet::new(),
            floors: BTreeMap::new(),
        }
    }

    /// Checks that all directories above a path exist and can be searched.
    fn reach(&self, path: &str) -> Result<(), i32> {
        let names: Vec<_> = path.split('/').collect();
        let sound = path == "/" || names[0].is_empty() && names.len() > 1;
        if !sound || path != "/" && names[1..].iter().any(|n| ["", ".", ".."].contains(n)) {
            return Err(EINVAL);
        }
        let mut above = vec![parent(path)];
        while above.last().is_some_and(|last| last != "/") {
            above.push(parent(above.last().expect("there is one")));
        }
        if path == "/" {
            return Ok(());
        }
        for directory in above.iter().rev() {
            let node = self.nodes.get(directory).ok_or(ENOENT)?;
            if !node.directory {
                return Err(ENOTDIR);
            }
            self.allow(node, 0o100)?;
        }
        Ok(())
    }

    fn allow(&self, node: &Node, bit: u32) -> Result<(), i32> {
        if node.mode & bit != 0 { Ok(()) } else { Err(EACCES) }
    }

    fn allow_change(&self, path: &str) -> Result<(), i32> {
        self.allow(&self.nodes[&parent(path)], 0o200)
    }

    fn entries(&self, directory: &str) -> Vec<String> {
        let prefix = below(directory);
        let inside = self.nodes.keys().filter_map(|path| path.strip_prefix(&prefix));
        inside.filter(|rest| !rest.is_empty() && !rest.contains('/')).map(String::from).collect()
    }

    fn touch(&mut self, path: &str, now: i64) {
        let node = self.nodes.get_mut(path).expect("there");
        (node.modified, node.changed) = (now, now);
    }

    fn add(&mut self, path: &str, directory: bool, mode: u32, now: i64) -> u64 {
        let id = self.next;
        self.next += 1;
        self.nodes.insert(path.into(), Node { id, directory, mode, modified: now, changed: now });
        self.touch(&parent(path), now);
        id
    }

    fn held(&self, client: u8) -> Vec<FileId> {
        self.opens.iter().filter(|open| open.0 == client).map(|open| FileId(open.1)).collect()
    }

    fn apply(&mut self, op: &Op, now: i64) -> Result<Answer, i32> {
        match op {
            Op::Open { client, path, access, create, mode } => {
                self.reach(path)?;
                let (id, created) = match self.nodes.get(path) {
                    Some(_) if *create == CreateMode::Exclusive => return Err(EEXIST),
                    Some(node) if node.directory => return Err(EISDIR),
                    Some(node) => {
                        if access.reads() {
                            self.allow(node, 0o400)?;
                        }
                        if access.writes() {
                            self.allow(node, 0o200)?;
                        }
                        (node.id, false)
                    }
                    None if *create == CreateMode::Never => return Err(ENOENT),
                    None => {
                        self.allow_change(path)?;
                        (self.add(path, false, *mode, now), true)
                    }
                };
                if access.writes() && !self.opens.iter().any(|open| open.1 == id && open.2) {
                    let node = self.nodes.values().find(|node| node.id == id).expect("there");
                    self.floors.insert(id, node.modified.min(now));
                }
                self.opens.push((*client, id, *access != OpenAccess::Read));
                Ok(Answer::About(FileId(id), created))
            }
            Op::Close { client, which, .. } => {
                let file = self.held(*client).get(*which).copied().ok_or(ENOENT)?.0;
                let writing = self.opens.iter().position(|open| *open == (*client, file, true));
                let any = self.opens.iter().position(|open| (open.0, open.1) == (*client, file));
                self.opens.remove(writing.or(any).ok_or(EBADF)?);
                if writing.is_some() && now > self.floors[&file] {
                    self.floors.insert(file, now);
                    if let Some(node) = self.nodes.values_mut().find(|node| node.id == file) {
                        (node.modified, node.changed) = (now, now);
                    }
                }
                Ok(Answer::Done)
            }
            Op::Gone { client } => {
                self.opens.retain(|open| open.0 != *client);
                Ok(Answer::Done)
            }
            Op::MakeDirectory { path, mode, parents: false, .. } => {
                self.reach(path)?;
                if self.nodes.contains_key(path) {
                    return Err(EEXIST);
                }
                self.allow_change(path)?;
                Ok(Answer::About(FileId(self.add(path, true, *mode, now)), true))
            }
            Op::MakeDirectory { client, path, mode, parents: true } => {
                match self.reach(path) {
                    Ok(()) => match self.nodes.get(path) {
                        Some(node) if node.directory => Ok(Answer::About(FileId(node.id), true)),
                        Some(_) => Err(ENOTDIR),
                        None => {
                            self.allow_change(path)?;
                            Ok(Answer::About(FileId(self.add(path, true, *mode, now)), true))
                        }
                    },
                    // The directory above is made first, and always allows this one to be made.
                    Err(ENOENT) => {
                        let (path_above, mode_above) = (parent(path), *mode | 0o300);
                        let above = Op::MakeDirectory {
                            client: *client,
                            path: path_above,
                            mode: mode_above,
                            parents: true,
                        };
                        self.apply(&above, now)?;
                        Ok(Answer::About(FileId(self.add(path, true, *mode, now)), true))
                    }
                    Err(error) => Err(error),
                }
            }
            Op::RemoveDirectory { path, .. } => {
                self.reach(path)?;
                let node = self.nodes.get(path).ok_or(ENOENT)?;
                if path == "/" {
                    return Err(EBUSY);
                }
                if !node.directory {
                    return Err(ENOTDIR);
                }
                if !self.entries(path).is_empty() {
                    return Err(ENOTEMPTY);
                }
                self.allow_change(path)?;
                self.nodes.remove(path);
                self.touch(&parent(path), now);
                Ok(Answer::Done)
            }
            Op::Unlink { path, .. } => {
                self.reach(path)?;
                let node = self.nodes.get(path).ok_or(ENOENT)?;
                if node.directory {
                    return Err(EISDIR);
                }
                self.allow_change(path)?;
                self.orphans.insert(self.nodes.remove(path).expect("just seen").id);
                self.touch(&parent(path), now);
                Ok(Answer::Done)
            }
            Op::Rename { from, to, replace, .. } => self.rename(from, to, *replace, now),
            Op::SetAttributes { path, mode, modified, .. } => {
                self.reach(path)?;
                let node = self.nodes.get_mut(path).ok_or(ENOENT)?;
                node.mode = mode.unwrap_or(node.mode);
                node.modified = modified.unwrap_or(node.modified);
                node.changed = now;
                if let (Some(_), Some(floor)) = (modified, self.floors.get_mut(&node.id)) {
                    *floor = (*floor).max(now);
                }
                Ok(Answer::About(FileId(node.id), false))
            }
            Op::Reap { most } => {
                let open = |id: &u64| self.opens.iter().any(|open| open.1 == *id);
                let gone: Vec<_> = self.orphans.iter().filter(|id| !open(id)).take(*most).copied().collect();
                self.orphans.retain(|id| !gone.contains(id));
                Ok(Answer::Orphans(gone.into_iter().map(FileId).collect()))
            }
        }
    }

    fn rename(&mut self, from: &str, to: &str, replace: bool, now: i64) -> Result<Answer, i32> {
        self.reach(from)?;
        self.reach(to)?;
        let node = self.nodes.get(from).ok_or(ENOENT)?.clone();
        if from == "/" || to == "/" {
            return Err(EBUSY);
        }
        if node.directory && to.starts_with(&below(from)) {
            return Err(EINVAL);
        }
        if let Some(target) = self.nodes.get(to) {
            if !replace {
                return Err(EEXIST);
            }
            if from == to {
                return Ok(Answer::Done);
            }
            match (node.directory, target.directory) {
                (true, false) => return Err(ENOTDIR),
                (false, true) => return Err(EISDIR),
                (true, true) if !self.entries(to).is_empty() => return Err(ENOTEMPTY),
                _ => {}
            }
        }
        self.allow_change(from)?;
        self.allow_change(to)?;
        if node.directory && parent(from) != parent(to) {
            self.allow(&node, 0o200)?;
        }
        if let Some(target) = self.nodes.remove(to).filter(|target| !target.directory) {
            self.orphans.insert(target.id);
        }
        let inside = below(from);
        let moved: Vec<_> =
            self.nodes.keys().filter(|path| *path == from || path.starts_with(&inside)).cloned().collect();
        for path in moved {
            let node = self.nodes.remove(&path).expect("just seen");
            self.nodes.insert(format!("{to}{}", &path[from.len()..]), node);
        }
        self.nodes.get_mut(to).expect("moved").changed = now;
        self.touch(&parent(from), now);
        self.touch(&parent(to), now);
        Ok(Answer::Done)
    }

    /// Whether a client may repeat the operation after an answer of success.
    fn changes(&self, op: &Op) -> bool {
        match op {
            Op::Open { path, .. } => !self.nodes.contains_key(path),
            Op::MakeDirectory { path, .. } => !self.nodes.contains_key(path),
            Op::Rename { from, to, .. } => from != to,
            Op::Close { .. } | Op::Gone { .. } | Op::Reap { .. } => false,
            _ => true,
        }
    }
}

/// Returns the name space's paths, in the form of the model.
fn tree(names: &Namespace) -> (BTreeMap<String, Node>, BTreeSet<u64>) {
    let mut all = Vec::new();
    loop {
        let after = all.last().map_or(FileId(0), |inode: &pario_namespace::Inode| inode.attributes.file);
        let (page, more) = names.list_inodes(after, 3);
        all.extend(page);
        if !more {
            break;
        }
    }
    let by_id: BTreeMap<_, _> = all.iter().map(|inode| (inode.attributes.file.0, inode)).collect();
    let (mut nodes, mut orphans) = (BTreeMap::new(), BTreeSet::new());
    for inode in &all {
        let id = inode.attributes.file.0;
        if inode.parent == FileId(0) {
            orphans.insert(id);
            continue;
        }
        let (mut path, mut at) = (String::new(), id);
        while at != 1 {
            path = format!("/{}{path}", by_id[&at].name);
            at = by_id[&at].parent.0;
        }
        let attributes = &inode.attributes;
        let node = Node {
            id,
            directory: attributes.kind == InodeKind::Directory,
            mode: attributes.mode,
            modified: attributes.modified.0,
            changed: attributes.changed.0,
        };
        nodes.insert(if path.is_empty() { "/".into() } else { path }, node);
    }
    (nodes, orphans)
}

fn compare(names: &Namespace, model: &Model) {
    let (nodes, orphans) = tree(names);
    assert_eq!(nodes, model.nodes);
    assert_eq!(orphans, model.orphans);
    let counts = names.counts();
    assert_eq!(counts.orphans, model.orphans.len() as u64);
    assert_eq!(counts.directories, model.nodes.values().filter(|node| node.directory).count() as u64);
    assert_eq!(counts.files, model.nodes.values().filter(|node| !node.directory).count() as u64);
    for (path, node) in &model.nodes {
        if model.reach(path).is_err() {
            continue;
        }
        let attributes = names.lookup(path).expect("the model has it");
        assert_eq!(attributes.opens as usize, model.opens.iter().filter(|open| open.1 == node.id).count());
        let written = model.opens.iter().any(|open| open.1 == node.id && open.2);
        assert!(!written || matches!(attributes.size, FileSize::Ask { .. }));
        if !node.directory || node.mode & 0o400 == 0 {
            continue;
        }
        let (mut listed, mut after) = (Vec::new(), String::new());
        loop {
            let (page, more) = names.read_directory(path, &after, 2).expect("readable");
            listed.extend(page.iter().map(|entry| entry.name.clone()));
            match listed.last() {
                Some(last) if more => after = last.clone(),
                _ => break,
            }
        }
        assert_eq!(listed, model.entries(path));
        assert_eq!(attributes.entries as usize, listed.len());
    }
}

#[derive(Clone, Debug)]
enum Step {
    Do(Op),
    /// Another server takes over after the first was killed.
    Restart,
    /// An earlier request is repeated, counted from the last.
    Again(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => op().prop_map(Step::Do),
        1 => Just(Step::Restart),
        3 => (0usize..20).prop_map(Step::Again),
    ]
}

/// A request that succeeded, its answer, and whether a restart has dropped its open.
struct Done {
    op: Op,
    request: u64,
    answer: Answer,
    open_lost: bool,
}

fn run(steps: Vec<Step>, journal: u64) {
    let disk = MemoryDisk::new();
    let (mut names, _) = open(&disk, journal);
    let mut model = Model::new();
    let mut done: Vec<Done> = Vec::new();
    for (at, step) in steps.into_iter().enumerate() {
        let now = 100 + at as i64;
        match step {
            Step::Do(op) => {
                let held = match &op {
                    Op::Close { client, .. } => model.held(*client),
                    _ => Vec::new(),
                };
                let repeatable = model.changes(&op);
                let expected = model.apply(&op, now);
                let request = at as u64 + 1;
                let answer = perform(&mut names, &op, request, now, &held);
                assert_eq!(answer.as_ref().map_err(|error| error.errno()), expected.as_ref().map_err(|e| *e));
                if let (Ok(answer), true) = (answer, repeatable) {
                    done.push(Done { op, request, answer, open_lost: false });
                } else if let Op::Gone { client } = op {
                    lose_opens(&mut done, Some(client));
                }
            }
            Step::Restart => {
                drop(names);
                names = open(&disk, journal).0;
                names.end_grace_period();
                model.opens.clear();
                lose_opens(&mut done, None);
            }
            Step::Again(back) => {
                let Some(at) = done.len().checked_sub(1 + back) else { continue };
                let Done { op, request, answer, open_lost } = &mut done[at];
                let again = perform(&mut names, op, *request, now, &[]);
                let Answer::About(file, _) = answer.clone() else {
                    assert_eq!(again, Ok(answer.clone()));
                    continue;
                };
                if names.attributes(file).is_err() {
                    assert_eq!(again.map_err(|error| error.errno()), Err(ENOENT));
                    continue;
                }
                assert_eq!(again, Ok(answer.clone()));
                if let (Op::Open { client, access, .. }, true) = (&op, *open_lost) {
                    *open_lost = false;
                    if access.writes() && !model.opens.iter().any(|open| open.1 == file.0 && open.2) {
                        let modified = names.attributes(file).expect("just seen").modified;
                        model.floors.insert(file.0, modified.min(Stamp(now)).0);
                    }
                    model.opens.push((*client, file.0, access.writes()));
                }
            }
        }
        compare(&names, &model);
        assert_eq!(names.check_invariants(), Ok(()));
        let read = |path: &Path| Some(disk.read(path.file_name()?.to_str()?));
        assert_eq!(names.check_replay(&read), Ok(()));
    }
}

/// The opens of a client, or of all, are lost: a repeated open is done again.
fn lose_opens(done: &mut [Done], of: Option<u8>) {
    for done in done {
        if let Op::Open { client, .. } = &done.op {
            done.open_lost |= of.is_none_or(|of| of == *client);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, ..ProptestConfig::default() })]

    #[test]
    fn it_does_what_the_model_does(
        steps in prop::collection::vec(step(), 1..80),
        journal in prop::sample::select(vec![300u64, 1000, 1 << 30]),
    ) {
        run(steps, journal);
    }
}
