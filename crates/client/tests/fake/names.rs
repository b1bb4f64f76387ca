//! A minimal name space, which does nothing twice.

use std::collections::{BTreeMap, HashMap};

use pario_layout::Striping;
use pario_types::{ClientId, ErrorKind, FileId, RequestId, Stamp, TruncationId};
use pario_wire::message::{
    Attributes, CreateMode, DirectoryEntry, Failure, FileSize, InodeKind, OpenFileEntry,
};
use pario_wire::{Reply, Request};

pub struct Names {
    servers: u16,
    stripe: u64,
    next: u64,
    paths: BTreeMap<String, Attributes>,
    held: HashMap<ClientId, Vec<OpenFileEntry>>,
    /// The requests that were done, and whether their opens and closes are still valid.
    done: HashMap<(ClientId, RequestId), (Reply, bool)>,
    /// The last truncation's id, and those that have not ended.
    truncation: u64,
    truncating: HashMap<FileId, TruncationId>,
}

fn failed(kind: ErrorKind, text: &str) -> Reply {
    Reply::Failed(Failure { kind, errno: 0, text: text.into() })
}

fn parent(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) | None => "/",
        Some((parent, _)) => parent,
    }
}

impl Names {
    pub fn new(servers: u16, stripe: u64) -> Names {
        let mut names = Names {
            servers,
            stripe,
            next: 1,
            paths: BTreeMap::new(),
            held: HashMap::new(),
            done: HashMap::new(),
            truncation: 0,
            truncating: HashMap::new(),
        };
        let root = names.attributes(InodeKind::Directory, 0o755, 0);
        names.paths.insert("/".into(), root);
        names
    }

    fn attributes(&mut self, kind: InodeKind, mode: u32, count: u16) -> Attributes {
        let file = FileId(self.next);
        self.next += 1;
        let count = if count == 0 { self.servers } else { count.min(self.servers) };
        let first = (file.0 % u64::from(self.servers)) as u16;
        let now = Stamp::now();
        Attributes {
            file,
            kind,
            mode,
            size: FileSize::Ask { seen: 1 },
            accessed: now,
            modified: now,
            changed: now,
            created: now,
            striping: Striping::new(self.stripe, count, first, self.servers).expect("sound"),
            table: None,
            truncating: None,
            opens: 0,
            entries: 0,
        }
    }

    pub fn opens(&self) -> usize {
        self.held.values().map(Vec::len).sum()
    }

    pub fn begin_truncate_of(&mut self, path: &str) {
        self.truncation += 1;
        self.truncating.insert(self.paths[path].file, TruncationId(self.truncation));
    }

    pub fn apply(&mut self, client: ClientId, id: RequestId, request: &Request) -> Reply {
        if let Request::Reopen { files, .. } = request {
            self.held.insert(client, files.clone());
            for ((whose, _), (_, counts)) in &mut self.done {
                *counts &= *whose != client;
            }
            return Reply::Reopened { gone: Vec::new() };
        }
        let held = self.held.entry(client).or_default();
        match (self.done.get_mut(&(client, id)), request) {
            (Some((Reply::Opened { attributes, .. }, counts @ false)), Request::Open { access, .. }) => {
                held.push(OpenFileEntry { file: attributes.file, access: *access });
                *counts = true;
            }
            (Some((_, false)), Request::Close { .. }) => {
                self.done.remove(&(client, id));
            }
            _ => {}
        }
        if let Some((reply, _)) = self.done.get(&(client, id)) {
            return reply.clone();
        }
        let reply = self.carry_out(client, request);
        if !matches!(reply, Reply::Failed(_)) {
            self.done.insert((client, id), (reply.clone(), true));
        }
        reply
    }

    fn carry_out(&mut self, client: ClientId, request: &Request) -> Reply {
        let missing = |path: &str| failed(ErrorKind::NoSuchFile, &format!("{path}: not there"));
        match request {
            Request::Lookup { path } => self.found(path),
            Request::Open { path, access, create, mode, layout_request } => {
                let known = self.paths.get(path).copied();
                let (attributes, created) = match (known, create) {
                    (Some(_), CreateMode::Exclusive) => return failed(ErrorKind::FileExists, "it is there"),
                    (Some(found), _) if found.kind == InodeKind::Directory => {
                        return failed(ErrorKind::BadFile, "a directory");
                    }
                    (Some(found), _) => (found, false),
                    (None, CreateMode::Never) => return missing(path),
                    (None, _) if !self.paths.contains_key(parent(path)) => return missing(path),
                    (None, _) => (self.attributes(InodeKind::File, *mode, layout_request.count), true),
                };
                self.paths.insert(path.clone(), attributes);
                let file = attributes.file;
                self.held.entry(client).or_default().push(OpenFileEntry { file, access: *access });
                Reply::Opened { attributes, created }
            }
            Request::Close { file, .. } => {
                let held = self.held.entry(client).or_default();
                match held.iter().position(|held| held.file == *file) {
                    Some(index) => drop(held.swap_remove(index)),
                    None => return failed(ErrorKind::File, "not open"),
                }
                Reply::Done
            }
            Request::MakeDirectory { path, mode, parents } => {
                if *parents && parent(path) != path.as_str() && !self.paths.contains_key(parent(path)) {
                    let path = parent(path).to_owned();
                    self.carry_out(client, &Request::MakeDirectory { path, mode: *mode, parents: true });
                }
                match (self.paths.contains_key(path), self.paths.contains_key(parent(path))) {
                    (true, _) if *parents => self.found(path),
                    (true, _) => failed(ErrorKind::FileExists, "it is there"),
                    (false, false) => missing(path),
                    (false, true) => {
                        let made = self.attributes(InodeKind::Directory, *mode, 0);
                        self.paths.insert(path.clone(), made);
                        Reply::Attributes(made)
                    }
                }
            }
            Request::RemoveDirectory { path } if self.children(path).next().is_some() => {
                failed(ErrorKind::NotEmpty, "not empty")
            }
            Request::RemoveDirectory { path } | Request::Unlink { path } => match self.paths.remove(path) {
                Some(_) => Reply::Done,
                None => missing(path),
            },
            Request::Rename { from, to, replace } => {
                if !replace && self.paths.contains_key(to) {
                    return failed(ErrorKind::FileExists, "it is there");
                }
                let Some(moved) = self.paths.remove(from) else { return missing(from) };
                self.paths.insert(to.clone(), moved);
                Reply::Done
            }
            Request::ReadDirectory { path, after, most } => {
                let entries: Vec<DirectoryEntry> = self
                    .children(path)
                    .filter(|(name, _)| name.as_str() > after.as_str())
                    .map(|(name, attributes)| DirectoryEntry { name, attributes })
                    .collect();
                let most = (*most).min(3) as usize;
                Reply::Entries {
                    more: entries.len() > most,
                    entries: entries.into_iter().take(most).collect(),
                }
            }
            Request::SetAttributes { path, mode, accessed, modified } => match self.paths.get_mut(path) {
                Some(found) => {
                    found.mode = mode.unwrap_or(found.mode);
                    found.accessed = accessed.unwrap_or(found.accessed);
                    found.modified = modified.unwrap_or(found.modified);
                    Reply::Attributes(*found)
                }
                None => missing(path),
            },
            Request::BeginTruncate { file, .. } => {
                self.truncation += 1;
                let truncation = TruncationId(self.truncation);
                self.truncating.insert(*file, truncation);
                Reply::Truncation { truncation }
            }
            Request::EndTruncate { file, truncation } | Request::AbortTruncate { file, truncation } => {
                match self.truncating.remove(file) {
                    Some(begun) if begun == *truncation => Reply::Done,
                    _ => failed(ErrorKind::Io, "no such truncation"),
                }
            }
            Request::ReportSize { file, size, seen: 1 } => {
                let sized = self.paths.values_mut().filter(|one| one.file == *file);
                sized.for_each(|one| one.size = FileSize::Known(*size));
                Reply::Done
            }
            other => failed(ErrorKind::UnsupportedOperation, other.name()),
        }
    }

    fn found(&self, path: &str) -> Reply {
        match self.paths.get(path) {
            Some(attributes) => Reply::Attributes(*attributes),
            None => failed(ErrorKind::NoSuchFile, &format!("{path}: not there")),
        }
    }

    fn children(&self, path: &str) -> impl Iterator<Item = (String, Attributes)> {
        let inside = move |(name, attributes): (&String, &Attributes)| {
            let last = name.rsplit('/').next().unwrap_or_default();
            (parent(name) == path && !last.is_empty()).then(|| (last.to_owned(), *attributes))
        };
        self.paths.iter().filter_map(inside).collect::<Vec<_>>().into_iter()
    }
}
