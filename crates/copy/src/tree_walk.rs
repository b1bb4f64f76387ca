//! The walk over the sources: queues their files, and makes their directories on the way.

use crate::CopyPair;
use crate::endpoint::{Endpoint, FileInfo, FileKind};
use crate::error::Error;
use crate::file_copy::{CopyContext, CopyTask};
use crate::workers::Workers;
use std::ffi::OsStr;
use std::rc::Rc;

/// Walks trees and queues their files for the workers.
pub struct TreeWalk<'a> {
    workers: &'a Workers<'a>,
    context: &'a CopyContext<'a>,
    /// Directories that were made, parents first. They get their attributes at the end, when nothing is added to them
    /// any more.
    directories: Vec<(Endpoint, FileInfo)>,
}

/// A directory to copy, and its ancestors among the copied directories.
struct PendingDirectory {
    source: Endpoint,
    target: Endpoint,
    ancestor: Option<Rc<Ancestor>>,
}

struct Ancestor {
    id: (u64, u64),
    ancestor: Option<Rc<Ancestor>>,
}

impl<'a> TreeWalk<'a> {
    /// A walk for these workers.
    pub fn new(workers: &'a Workers<'a>, context: &'a CopyContext<'a>) -> TreeWalk<'a> {
        TreeWalk { workers, context, directories: Vec::new() }
    }

    /// Queues a file, or all files of a tree. Returns whether to continue.
    pub fn copy(&mut self, pair: CopyPair) -> bool {
        let CopyPair { source, target } = pair;
        let mut pending = Vec::new();
        if !self.proceed(&source, self.visit(&source, &target, None, &mut pending)) {
            return false;
        }
        while let Some(directory) = pending.pop() {
            if !self.enter(&directory, &mut pending) {
                return false;
            }
        }
        true
    }

    /// Makes a directory, and queues its files.
    fn enter(&mut self, directory: &PendingDirectory, pending: &mut Vec<PendingDirectory>) -> bool {
        let PendingDirectory { source, target, .. } = directory;
        let made = source.info().and_then(|info| {
            target.make_directory()?;
            Ok(info)
        });
        match made {
            Ok(Some(info)) => self.directories.push((target.clone(), info)),
            // It was removed meanwhile.
            Ok(None) => return true,
            Err(error) => return self.proceed(source, Err(error)),
        }
        let names = match source.list() {
            Ok(names) => names,
            Err(error) => return self.proceed(source, Err(error)),
        };
        for name in names {
            let go_on = match name {
                Ok(name) => self.visit_entry(directory, &name, pending),
                Err(error) => self.proceed(source, Err(error)),
            };
            if !go_on {
                return false;
            }
        }
        true
    }

    fn visit_entry(
        &self,
        directory: &PendingDirectory,
        name: &OsStr,
        pending: &mut Vec<PendingDirectory>,
    ) -> bool {
        let (source, target) = match (directory.source.join(name), directory.target.join(name)) {
            (Ok(source), Ok(target)) => (source, target),
            (Err(error), _) | (_, Err(error)) => return self.proceed(&directory.source, Err(error)),
        };
        // A link to a file is copied as a file; one to a directory might lead anywhere.
        let is_refused = source.is_link() && !self.context.options.follow_links;
        let visited = source.info().and_then(|info| match info.map(|info| info.kind) {
            Some(FileKind::Directory) if is_refused => {
                Err(Error::Refused(source.show(), "a link to a directory; -L copies what it leads to"))
            }
            _ => self.visit(&source, &target, directory.ancestor.clone(), pending),
        });
        self.proceed(&source, visited)
    }

    /// Queues a file, or notes a directory for later. Returns whether to continue.
    fn visit(
        &self,
        source: &Endpoint,
        target: &Endpoint,
        ancestor: Option<Rc<Ancestor>>,
        pending: &mut Vec<PendingDirectory>,
    ) -> Result<bool, Error> {
        let refused = |why| Err(Error::Refused(source.show(), why));
        let Some(info) = source.info()? else { return refused("no such file or directory") };
        match info.kind {
            FileKind::File => {
                self.context.observer.expect(info.size);
                let (source, target) = (source.clone(), target.clone());
                Ok(self.workers.enqueue(CopyTask { source, target, info }))
            }
            FileKind::Directory if !self.context.options.recursive => refused("a directory; copy it with -r"),
            FileKind::Directory => {
                let mut next = ancestor.as_ref();
                while let Some(one) = next {
                    if one.id == info.id {
                        return refused("a link to a directory that it is in");
                    }
                    next = one.ancestor.as_ref();
                }
                let ancestor = Some(Rc::new(Ancestor { id: info.id, ancestor }));
                pending.push(PendingDirectory { source: source.clone(), target: target.clone(), ancestor });
                Ok(true)
            }
            FileKind::Other => refused("no file and no directory; it cannot be copied"),
        }
    }

    /// Reports a failure. Returns whether to continue.
    fn proceed(&self, source: &Endpoint, outcome: Result<bool, Error>) -> bool {
        outcome.unwrap_or_else(|error| {
            let go_on = !error.stops_all();
            self.workers.failed(source.show(), error);
            go_on
        })
    }

    /// Sets the attributes of the directories, children first. Returns their number.
    pub fn finish(self) -> u64 {
        let count = self.directories.len() as u64;
        for (directory, info) in self.directories.iter().rev() {
            if let Err(error) = directory.set_attributes(info) {
                self.workers.failed(directory.show(), error);
            }
        }
        count
    }
}
