//! From what the user names to the files to copy: trees are walked, and their directories made on the way.

use super::super::error::Error;
use super::copy::{Settings, Task};
use super::crew::Crew;
use super::side::{Info, Kind, Side};
use std::ffi::OsStr;
use std::rc::Rc;

/// Walks trees and brings their files to a crew.
pub struct Walk<'a> {
    crew: &'a Crew<'a>,
    settings: &'a Settings,
    recursive: bool,
    /// Directories that were made, each after the one that it is in. They get their attributes at the end,
    /// when nothing is put into them any more.
    directories: Vec<(Side, Info)>,
}

/// A directory that is to be copied, and those that it is in.
struct Level {
    source: Side,
    target: Side,
    above: Option<Rc<Above>>,
}

struct Above {
    id: (u64, u64),
    above: Option<Rc<Above>>,
}

impl<'a> Walk<'a> {
    /// For a crew that is at work.
    pub fn new(crew: &'a Crew<'a>, settings: &'a Settings, recursive: bool) -> Walk<'a> {
        Walk { crew, settings, recursive, directories: Vec::new() }
    }

    /// Brings a file, or all files of a tree. Whether it makes sense to go on.
    pub fn copy(&mut self, source: Side, target: Side) -> bool {
        let mut levels = Vec::new();
        if !self.tried(&source, self.meet(&source, &target, None, &mut levels)) {
            return false;
        }
        while let Some(level) = levels.pop() {
            if !self.enter(&level, &mut levels) {
                return false;
            }
        }
        true
    }

    /// Brings what is in a directory.
    fn enter(&mut self, level: &Level, levels: &mut Vec<Level>) -> bool {
        let Level { source, target, .. } = level;
        let made = source.info().and_then(|info| {
            target.make_directory()?;
            Ok(info)
        });
        match made {
            Ok(Some(info)) => self.directories.push((target.clone(), info)),
            // It is gone, and so is what was in it.
            Ok(None) => return true,
            Err(error) => return self.tried(source, Err(error)),
        }
        let names = match source.list() {
            Ok(names) => names,
            Err(error) => return self.tried(source, Err(error)),
        };
        for name in names {
            let go_on = match name {
                Ok(name) => self.meet_in(level, &name, levels),
                Err(error) => self.tried(source, Err(error)),
            };
            if !go_on {
                return false;
            }
        }
        true
    }

    fn meet_in(&self, level: &Level, name: &OsStr, levels: &mut Vec<Level>) -> bool {
        let (source, target) = match (level.source.join(name), level.target.join(name)) {
            (Ok(source), Ok(target)) => (source, target),
            (Err(error), _) | (_, Err(error)) => return self.tried(&level.source, Err(error)),
        };
        let met = match source.is_link() && !self.settings.follow {
            // A link to a file is copied as a file; one to a directory might lead anywhere.
            true => source.info().and_then(|info| match info.map(|info| info.kind) {
                Some(Kind::Directory) => {
                    Err(Error::Refused(source.show(), "a link to a directory; -L copies what it leads to"))
                }
                _ => self.meet(&source, &target, level.above.clone(), levels),
            }),
            false => self.meet(&source, &target, level.above.clone(), levels),
        };
        self.tried(&source, met)
    }

    /// Brings a file, or notes a directory for later. Whether it makes sense to go on.
    fn meet(
        &self,
        source: &Side,
        target: &Side,
        above: Option<Rc<Above>>,
        levels: &mut Vec<Level>,
    ) -> Result<bool, Error> {
        let refused = |why| Err(Error::Refused(source.show(), why));
        let Some(info) = source.info()? else { return refused("no such file or directory") };
        match info.kind {
            Kind::File => {
                self.settings.meter.expect(info.size);
                let (source, target) = (source.clone(), target.clone());
                Ok(self.crew.bring(Task { source, target, info }))
            }
            Kind::Directory if !self.recursive => refused("a directory; copy it with -r"),
            Kind::Directory => {
                let mut next = above.as_ref();
                while let Some(one) = next {
                    if one.id == info.id {
                        return refused("a link to a directory that it is in");
                    }
                    next = one.above.as_ref();
                }
                let above = Some(Rc::new(Above { id: info.id, above }));
                levels.push(Level { source: source.clone(), target: target.clone(), above });
                Ok(true)
            }
            Kind::Other => refused("no file and no directory; it cannot be copied"),
        }
    }

    fn tried(&self, source: &Side, outcome: Result<bool, Error>) -> bool {
        outcome.unwrap_or_else(|error| {
            let go_on = !error.stops_all();
            self.crew.failed(source.show(), error);
            go_on
        })
    }

    /// Gives the directories their attributes, the innermost first; how many there are.
    pub fn finish(self) -> u64 {
        let count = self.directories.len() as u64;
        for (directory, info) in self.directories.iter().rev() {
            if let Err(error) = directory.take_after(info) {
                self.crew.failed(directory.show(), error);
            }
        }
        count
    }
}
