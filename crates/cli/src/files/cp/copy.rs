//! One file's copy: begun once, moved in pieces by any number of threads, finished once.
//!
//! The bytes go into `.NAME.pario-part` beside the destination, which gets its name when all are there.
//! Every second or so `.NAME.pario-state` says what is there already (see [`super::state`]). Holes of the
//! source are not read, and blocks of zeros are not written.

use super::super::error::Error;
use super::super::placing::Placing;
use super::super::progress::Meter;
use super::limit::Limit;
use super::ranges::Ranges;
use super::side::{Info, Kind, Layout, Open, Side};
use super::state::{MOST_BYTES, State};
use pario_types::ErrorKind;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Between two notes of how far it is.
const SAVE: Duration = Duration::from_secs(1);

/// A file to copy.
pub struct Task {
    /// From where.
    pub source: Side,
    /// To where.
    pub target: Side,
    /// What the source is like.
    pub info: Info,
}

/// How files are copied.
pub struct Settings {
    /// Bytes of a piece.
    pub chunk: u64,
    /// Go on where an interrupted copy was, and leave alone what is there already.
    pub resume: bool,
    /// Bring each copy to the medium before it gets its name.
    pub sync: bool,
    /// Copy what links to directories lead to.
    pub follow: bool,
    /// How new files of partitions are striped.
    pub layout: Layout,
    /// By which plan they are placed.
    pub placing: Option<Placing>,
    /// The most bytes per second.
    pub limit: Option<Limit>,
    /// How far all of it is.
    pub meter: Arc<Meter>,
    /// Bytes that were read from sources.
    pub moved: AtomicU64,
    /// Whether this process was asked to end: what is not complete then fails.
    pub stop: fn() -> bool,
}

impl Settings {
    /// How a new file is laid out.
    fn layout_of(&self, target: &Side) -> Layout {
        let table = self.placing.as_ref().and_then(|placing| placing.table(&target.show()));
        Layout { table, ..self.layout.clone() }
    }
}

/// What there is to do for a thread.
pub enum Turn {
    /// Copy this piece.
    Piece(Range<u64>),
    /// Nothing is left but to finish: this thread is the one to do it.
    Last,
    /// Others do the rest.
    Nothing,
}

/// A copy under way.
pub struct Copying {
    task: Task,
    names: Names,
    source: Open,
    /// `None` once it is closed.
    part: RwLock<Option<Open>>,
    part_id: (u64, u64),
    inner: Mutex<Inner>,
    /// When it was last noted how far it is.
    saved: Mutex<Instant>,
    /// Whether there is such a note.
    has_state: AtomicBool,
}

struct Inner {
    /// Everything below has been given out, or is done.
    cursor: u64,
    done: Ranges,
    /// Pieces that threads are working at.
    outstanding: usize,
    finishing: bool,
    failure: Option<Error>,
}

/// The files beside the destination.
struct Names {
    part: Side,
    state: Side,
    new_state: Side,
}

impl Names {
    fn beside(target: &Side) -> Names {
        let name = target.name().unwrap_or_default();
        let name = shortened(&name.to_string_lossy());
        let beside = |what: &str| target.sibling(&format!(".{name}.pario-{what}"));
        Names { part: beside("part"), state: beside("state"), new_state: beside("state-new") }
    }
}

/// The name, or if it would be too long with what is put around it, its beginning and a number made of all
/// of it.
fn shortened(name: &str) -> String {
    if name.len() <= 230 {
        return name.to_owned();
    }
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    let end = (0..=200).rev().find(|end| name.is_char_boundary(*end)).unwrap_or(0);
    format!("{}-{:016x}", &name[..end], hasher.finish())
}

impl Copying {
    /// Opens both files. `None` if the destination is a copy already and copies are to be left alone.
    pub fn begin(mut task: Task, settings: &Settings) -> Result<Option<Copying>, Error> {
        let Task { source, target, .. } = &task;
        if (settings.stop)() {
            return Err(Error::Interrupted(source.show()));
        }
        let there = target.info()?;
        if settings.resume && there.is_some_and(|there| there.has_same_bytes(&task.info)) {
            settings.meter.add(task.info.size);
            return Ok(None);
        }
        if there.is_some_and(|there| there.kind != Kind::File) {
            return Err(Error::Refused(target.show(), "not a file: a copy does not take its place"));
        }
        if there.is_some_and(|there| there.id == task.info.id) && are_together(source, target) {
            return Err(Error::RefusedBoth(source.show(), target.show(), "they are the same file"));
        }
        let opened = source.open()?;
        // As it is now that it is open.
        let info = source.info()?.filter(|info| info.kind == Kind::File);
        task.info = info.ok_or_else(|| Error::Refused(task.source.show(), "no longer a file"))?;
        let names = Names::beside(&task.target);
        let found = match settings.resume {
            true => resumed(&task, &names)?,
            false => None,
        };
        let has_state = AtomicBool::new(found.is_some());
        let (part, done) = match found {
            Some(found) => found,
            None => (fresh(&task, &names, &settings.layout_of(&task.target))?, Ranges::default()),
        };
        let part_id = part.id().map_err(|fault| fault.at("cannot look at", &names.part))?;
        settings.meter.add(done.total());
        let inner = Inner { cursor: 0, done, outstanding: 0, finishing: false, failure: None };
        Ok(Some(Copying {
            task,
            names,
            source: opened,
            part: RwLock::new(Some(part)),
            part_id,
            inner: Mutex::new(inner),
            saved: Mutex::new(Instant::now()),
            has_state,
        }))
    }

    /// How it is called in reports.
    pub fn source(&self) -> String {
        self.task.source.show()
    }

    /// Bytes of the file.
    pub fn size(&self) -> u64 {
        self.task.info.size
    }

    /// Whether others may help.
    pub fn is_large(&self, settings: &Settings) -> bool {
        self.task.info.size > settings.chunk
    }

    /// What there is to do for a thread that has nothing to do.
    pub fn turn(&self, settings: &Settings) -> Turn {
        let size = self.task.info.size;
        let mut inner = self.lock();
        while inner.failure.is_none() {
            let at = inner.done.next_missing(inner.cursor);
            inner.cursor = at;
            if at >= size {
                break;
            }
            let data = self.source.next_data(at, size);
            if data > at {
                inner.done.insert(at..data);
                settings.meter.add(data - at);
                continue;
            }
            let chunk_end = (at / settings.chunk + 1).saturating_mul(settings.chunk);
            let end = chunk_end.min(size).min(inner.done.next_present(at).unwrap_or(size));
            inner.cursor = end;
            inner.outstanding += 1;
            return Turn::Piece(at..end);
        }
        if inner.outstanding == 0 && !std::mem::replace(&mut inner.finishing, true) {
            return Turn::Last;
        }
        Turn::Nothing
    }

    /// Copies a piece. That it failed shows at the end.
    pub fn copy(&self, piece: Range<u64>, settings: &Settings, buffer: &mut Vec<u8>) {
        let outcome = self.carry(piece.clone(), settings, buffer);
        let mut inner = self.lock();
        inner.outstanding -= 1;
        match outcome {
            Ok(()) => inner.done.insert(piece),
            Err(error) => {
                inner.failure.get_or_insert(error);
                return;
            }
        }
        drop(inner);
        // If another thread is at it, its note is as good.
        let Ok(mut saved) = self.saved.try_lock() else { return };
        if saved.elapsed() >= SAVE {
            if let Err(error) = self.save() {
                self.lock().failure.get_or_insert(error);
            }
            *saved = Instant::now();
        }
    }

    fn carry(&self, piece: Range<u64>, settings: &Settings, buffer: &mut Vec<u8>) -> Result<(), Error> {
        let len = (piece.end - piece.start) as usize;
        if let Some(limit) = &settings.limit {
            limit.wait(len as u64);
        }
        if (settings.stop)() {
            return Err(Error::Interrupted(self.task.source.show()));
        }
        buffer.resize(len, 0);
        let read = self.source.read_at(buffer, piece.start);
        let read = read.map_err(|fault| fault.at("cannot read", &self.task.source))?;
        if read < len {
            return Err(Error::Refused(self.task.source.show(), "it became shorter while it was copied"));
        }
        let guard = self.part.read().unwrap_or_else(PoisonError::into_inner);
        let part = guard.as_ref().expect("open while pieces are copied");
        for data in data_runs(buffer, piece.start, part.hole()) {
            let at = piece.start + data.start as u64;
            let written = part.write_at(&buffer[data], at);
            written.map_err(|fault| fault.at("cannot write", &self.names.part))?;
        }
        settings.meter.add(len as u64);
        settings.moved.fetch_add(len as u64, Relaxed);
        Ok(())
    }

    /// Notes how far it is.
    fn save(&self) -> Result<(), Error> {
        let done = self.lock().done.clone();
        let guard = self.part.read().unwrap_or_else(PoisonError::into_inner);
        let Some(part) = guard.as_ref() else { return Ok(()) };
        part.sync().map_err(|fault| fault.at("cannot write", &self.names.part))?;
        let state = State::new(&self.task.source, &self.task.info, self.part_id, &done);
        self.names.state.replace_small(&self.names.new_state, &state.encode())?;
        self.has_state.store(true, Relaxed);
        Ok(())
    }

    /// Whether the next attempt can go on where this one failed.
    pub fn is_kept(&self) -> bool {
        self.has_state.load(Relaxed)
    }

    /// Gives the copy its attributes and its name; or says why there is none.
    pub fn finish(&self, settings: &Settings) -> Result<(), Error> {
        let finished = match self.lock().failure.take() {
            None => self.complete(settings),
            Some(failure) => Err(failure),
        };
        if finished.is_err() {
            // If neither works, something useless is left, and the next attempt begins anew.
            let _ = self.save();
            let is_ours = || matches!(self.names.part.info(), Ok(Some(part)) if part.id == self.part_id);
            if !self.is_kept() && is_ours() {
                let _ = self.names.part.remove();
            }
        }
        finished
    }

    fn complete(&self, settings: &Settings) -> Result<(), Error> {
        let Task { source, target, info } = &self.task;
        let part = self.part.write().unwrap_or_else(PoisonError::into_inner).take().expect("closed once");
        let stored = part.set_len(info.size).and_then(|()| if settings.sync { part.sync() } else { Ok(()) });
        let stored = stored.and_then(|()| part.close());
        stored.map_err(|fault| fault.at("cannot write", &self.names.part))?;
        if !source.info()?.is_some_and(|now| now.has_same_bytes(info)) {
            self.names.state.remove()?;
            self.has_state.store(false, Relaxed);
            return Err(Error::Refused(source.show(), "it was changed while it was copied; copy it again"));
        }
        self.names.part.take_after(info)?;
        if self.names.part.info()?.is_none_or(|part| part.id != self.part_id) {
            return Err(Error::Refused(target.show(), "somebody else is copying to the same place"));
        }
        if self.is_kept() {
            self.names.state.remove()?;
        }
        self.names.part.rename(target)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether ids of both can be compared.
fn are_together(one: &Side, other: &Side) -> bool {
    match (one, other) {
        (Side::Here(_), Side::Here(_)) => true,
        (Side::There(one, _), Side::There(other, _)) => one.id() == other.id(),
        _ => false,
    }
}

/// What an interrupted copy of the same source left.
fn resumed(task: &Task, names: &Names) -> Result<Option<(Open, Ranges)>, Error> {
    let Some(bytes) = names.state.read_small(MOST_BYTES)? else { return Ok(None) };
    let Some(part) = names.part.info()?.filter(|part| part.kind == Kind::File) else { return Ok(None) };
    let Some(done) = State::trusted(&bytes, &task.source, &task.info, part.id) else { return Ok(None) };
    Ok(Some((names.part.open_to_write(false, &Layout::default())?, done)))
}

/// A new file for the copy, in place of what is left of another one.
fn fresh(task: &Task, names: &Names, layout: &Layout) -> Result<Open, Error> {
    let part = match names.part.open_to_write(true, layout) {
        Err(error) if error.kind() == ErrorKind::FileExists => {
            names.state.remove()?;
            names.part.remove()?;
            names.part.open_to_write(true, layout)?
        }
        opened => opened?,
    };
    if let Open::Here(_) = part {
        part.set_len(task.info.size).map_err(|fault| fault.at("cannot write", &names.part))?;
    }
    Ok(part)
}

/// The parts of the bytes that are not whole blocks of zeros. They begin at the offset `start` of the file,
/// of which blocks are counted.
fn data_runs(bytes: &[u8], start: u64, block: usize) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let within = ((start + at as u64) % block as u64) as usize;
        let end = (at + block - within).min(bytes.len());
        if bytes[at..end].iter().any(|byte| *byte != 0) {
            match runs.last_mut() {
                Some(last) if last.end == at => last.end = end,
                _ => runs.push(at..end),
            }
        }
        at = end;
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_beside_have_a_dot_and_fit() {
        let names = Names::beside(&Side::Here("a/b.dat".into()));
        assert_eq!(names.part.show(), "a/.b.dat.pario-part");
        assert_eq!(names.state.show(), "a/.b.dat.pario-state");
        let (one, other) = ("ä".repeat(127), "ä".repeat(126) + "x");
        assert!(one.len() == 254 && shortened(&one).len() + ".".len() + ".pario-state-new".len() <= 255);
        assert_ne!(shortened(&one), shortened(&other));
    }

    proptest! {
        #[test]
        fn only_whole_blocks_of_zeros_are_left_out(
            bytes in prop::collection::vec(prop::sample::select(vec![0u8, 0, 0, 0, 0, 0, 0, 1]), 0..200),
            start in 0u64..40, block in 1usize..20,
        ) {
            let runs = data_runs(&bytes, start, block);
            let mut copy = vec![0; bytes.len()];
            for run in &runs {
                copy[run.clone()].copy_from_slice(&bytes[run.clone()]);
            }
            prop_assert_eq!(&copy, &bytes);
            prop_assert!(runs.windows(2).all(|pair| pair[0].end < pair[1].start));
            // Every block that is left out is so because it is zeros, and every one that is zeros is left
            // out.
            for (index, byte) in bytes.iter().enumerate() {
                let number = (start + index as u64) / block as u64;
                let zeros = bytes.iter().enumerate()
                    .all(|(i, b)| (start + i as u64) / block as u64 != number || *b == 0);
                let left_out = !runs.iter().any(|run| run.contains(&index));
                prop_assert_eq!(zeros, left_out, "byte {} is {}", index, byte);
            }
        }
    }
}
