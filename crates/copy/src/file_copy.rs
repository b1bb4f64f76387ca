//! The copy of one file: begun once, copied in chunks by any number of threads, finished once.
//!
//! The bytes go into `.NAME.pario-part` beside the target, which is renamed when it is complete. About every second
//! the copy notes in `.NAME.pario-state` which bytes are there (see [`ResumeState`]). Holes of the source are not
//! read, and blocks of zeros are not written.

use crate::endpoint::{Endpoint, FileInfo, FileKind, NewFileLayout};
use crate::error::Error;
use crate::open_file::OpenFile;
use crate::range_set::RangeSet;
use crate::rate_limit::RateLimit;
use crate::resume_state::{MOST_BYTES, ResumeState};
use crate::{CopyObserver, CopyOptions};
use pario_runtime::sync::{Mutex, MutexGuard, RwLock};
use pario_runtime::time::Instant;
use pario_types::ErrorKind;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The time between two notes of the progress.
const SAVE_INTERVAL: Duration = Duration::from_secs(1);

/// A file to copy.
pub struct CopyTask {
    /// The original.
    pub source: Endpoint,
    /// The copy.
    pub target: Endpoint,
    /// The attributes of the source.
    pub info: FileInfo,
}

/// State that all threads of a copy share.
pub struct CopyContext<'a> {
    /// How files are copied.
    pub options: CopyOptions,
    /// How new files in partitions are striped.
    pub layout: NewFileLayout,
    /// The bound on bytes per second.
    pub rate_limit: Option<RateLimit>,
    /// Bytes read from sources.
    pub moved: AtomicU64,
    /// The observer of the copy.
    pub observer: &'a dyn CopyObserver,
}

impl CopyContext<'_> {
    /// The layout of a new file: as the plan places it, if it does.
    fn layout_of(&self, target: &Endpoint) -> NewFileLayout {
        let placement = self.options.placement.as_ref();
        let table = placement.and_then(|placement| placement.table(&target.show()));
        NewFileLayout { table, ..self.layout.clone() }
    }
}

/// The next step of a thread with a file.
pub enum NextStep {
    /// Copy this range.
    Chunk(Range<u64>),
    /// Finish the copy: all chunks are done, and this thread is the one to do it.
    Finish,
    /// Nothing: other threads do the rest.
    Nothing,
}

/// A copy in progress.
pub struct FileCopy {
    task: CopyTask,
    files: WorkFiles,
    source: OpenFile,
    /// `None` once it is closed.
    part: RwLock<Option<OpenFile>>,
    part_id: (u64, u64),
    inner: Mutex<Inner>,
    /// When the progress was last noted.
    saved: Mutex<Instant>,
    /// Whether the progress is noted.
    has_state: AtomicBool,
}

struct Inner {
    /// All bytes below are done or assigned to threads.
    cursor: u64,
    done: RangeSet,
    /// Chunks that threads are copying.
    outstanding: usize,
    finishing: bool,
    failure: Option<Error>,
}

/// The files beside the target.
struct WorkFiles {
    part: Endpoint,
    state: Endpoint,
    new_state: Endpoint,
}

impl WorkFiles {
    fn beside(target: &Endpoint) -> WorkFiles {
        let name = target.name().unwrap_or_default();
        let name = shortened(&name.to_string_lossy());
        let beside = |what: &str| target.sibling(&format!(".{name}.pario-{what}"));
        WorkFiles { part: beside("part"), state: beside("state"), new_state: beside("state-new") }
    }
}

/// The name; if it would be too long with a prefix and a suffix, its beginning and a hash of all of it.
fn shortened(name: &str) -> String {
    if name.len() <= 230 {
        return name.to_owned();
    }
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    let end = (0..=200).rev().find(|end| name.is_char_boundary(*end)).unwrap_or(0);
    format!("{}-{:016x}", &name[..end], hasher.finish())
}

impl FileCopy {
    /// Opens both files. `None` if a resumed copy finds that the target is complete.
    pub fn begin(mut task: CopyTask, context: &CopyContext<'_>) -> Result<Option<FileCopy>, Error> {
        let CopyTask { source, target, .. } = &task;
        if context.observer.is_interrupted() {
            return Err(Error::Interrupted(source.show()));
        }
        let there = target.info()?;
        if context.options.resume && there.is_some_and(|there| there.has_same_bytes(&task.info)) {
            context.observer.advance(task.info.size);
            return Ok(None);
        }
        if there.is_some_and(|there| there.kind != FileKind::File) {
            return Err(Error::Refused(target.show(), "not a file: a copy does not take its place"));
        }
        if there.is_some_and(|there| there.id == task.info.id) && share_id_space(source, target) {
            return Err(Error::RefusedBoth(source.show(), target.show(), "they are the same file"));
        }
        let opened = source.open()?;
        // The attributes may have changed before the open.
        let info = source.info()?.filter(|info| info.kind == FileKind::File);
        task.info = info.ok_or_else(|| Error::Refused(task.source.show(), "no longer a file"))?;
        let files = WorkFiles::beside(&task.target);
        let found = if context.options.resume { resumed(&task, &files)? } else { None };
        let has_state = AtomicBool::new(found.is_some());
        let (part, done) = match found {
            Some(found) => found,
            None => (new_part(&task, &files, &context.layout_of(&task.target))?, RangeSet::default()),
        };
        let part_id = part.id().map_err(|fault| fault.at("cannot look at", &files.part))?;
        context.observer.advance(done.total());
        let inner = Inner { cursor: 0, done, outstanding: 0, finishing: false, failure: None };
        Ok(Some(FileCopy {
            task,
            files,
            source: opened,
            part: RwLock::new(Some(part)),
            part_id,
            inner: Mutex::new(inner),
            saved: Mutex::new(Instant::now()),
            has_state,
        }))
    }

    /// The source, as the user writes it.
    pub fn source(&self) -> String {
        self.task.source.show()
    }

    /// The size of the file.
    pub fn size(&self) -> u64 {
        self.task.info.size
    }

    /// Whether the file has several chunks, so that other threads can help.
    pub fn is_large(&self, context: &CopyContext<'_>) -> bool {
        self.task.info.size > context.options.chunk
    }

    /// The next step of an idle thread.
    pub fn next_step(&self, context: &CopyContext<'_>) -> NextStep {
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
                context.observer.advance(data - at);
                continue;
            }
            let chunk_end = (at / context.options.chunk + 1).saturating_mul(context.options.chunk);
            let end = chunk_end.min(size).min(inner.done.next_present(at).unwrap_or(size));
            inner.cursor = end;
            inner.outstanding += 1;
            return NextStep::Chunk(at..end);
        }
        if inner.outstanding == 0 && !std::mem::replace(&mut inner.finishing, true) {
            return NextStep::Finish;
        }
        NextStep::Nothing
    }

    /// Copies a chunk. [`FileCopy::finish`] returns its error.
    pub fn copy_chunk(&self, chunk: Range<u64>, context: &CopyContext<'_>, buffer: &mut Vec<u8>) {
        let outcome = self.transfer(chunk.clone(), context, buffer);
        let mut inner = self.lock();
        inner.outstanding -= 1;
        match outcome {
            Ok(()) => inner.done.insert(chunk),
            Err(error) => {
                inner.failure.get_or_insert(error);
                return;
            }
        }
        drop(inner);
        // If another thread is noting the progress, its note will do.
        let Some(mut saved) = self.saved.try_lock() else { return };
        if saved.elapsed() >= SAVE_INTERVAL {
            if let Err(error) = self.save() {
                self.lock().failure.get_or_insert(error);
            }
            *saved = Instant::now();
        }
    }

    fn transfer(
        &self,
        chunk: Range<u64>,
        context: &CopyContext<'_>,
        buffer: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let len = (chunk.end - chunk.start) as usize;
        if let Some(limit) = &context.rate_limit {
            limit.wait(len as u64);
        }
        if context.observer.is_interrupted() {
            return Err(Error::Interrupted(self.task.source.show()));
        }
        buffer.resize(len, 0);
        let read = self.source.read_at(buffer, chunk.start);
        let read = read.map_err(|fault| fault.at("cannot read", &self.task.source))?;
        if read < len {
            return Err(Error::Refused(self.task.source.show(), "it became shorter while it was copied"));
        }
        let guard = self.part.read();
        let part = guard.as_ref().expect("open while chunks are copied");
        for data in data_runs(buffer, chunk.start, part.hole_size()) {
            let at = chunk.start + data.start as u64;
            let written = part.write_at(&buffer[data], at);
            written.map_err(|fault| fault.at("cannot write", &self.files.part))?;
        }
        context.observer.advance(len as u64);
        context.moved.fetch_add(len as u64, Relaxed);
        Ok(())
    }

    /// Notes the progress.
    fn save(&self) -> Result<(), Error> {
        let done = self.lock().done.clone();
        let guard = self.part.read();
        let Some(part) = guard.as_ref() else { return Ok(()) };
        part.sync().map_err(|fault| fault.at("cannot write", &self.files.part))?;
        let state = ResumeState::new(&self.task.source, &self.task.info, self.part_id, &done);
        self.files.state.replace_small(&self.files.new_state, &state.encode())?;
        self.has_state.store(true, Relaxed);
        Ok(())
    }

    /// Whether the next attempt can resume this one.
    pub fn is_resumable(&self) -> bool {
        self.has_state.load(Relaxed)
    }

    /// Completes the copy: sets its attributes and renames it. Or returns why there is no copy.
    pub fn finish(&self, context: &CopyContext<'_>) -> Result<(), Error> {
        let finished = match self.lock().failure.take() {
            None => self.complete(context),
            Some(failure) => Err(failure),
        };
        if finished.is_err() {
            // Both are best effort: what is left behind is not used by the next attempt.
            let _ = self.save();
            let is_ours = || matches!(self.files.part.info(), Ok(Some(part)) if part.id == self.part_id);
            if !self.is_resumable() && is_ours() {
                let _ = self.files.part.remove();
            }
        }
        finished
    }

    fn complete(&self, context: &CopyContext<'_>) -> Result<(), Error> {
        let CopyTask { source, target, info } = &self.task;
        let part = self.part.write().take().expect("closed once");
        let stored =
            part.set_len(info.size).and_then(|()| if context.options.sync { part.sync() } else { Ok(()) });
        let stored = stored.and_then(|()| part.close());
        let stored = if pario_runtime::is_planted("copy-ignores-close") { Ok(()) } else { stored };
        stored.map_err(|fault| fault.at("cannot write", &self.files.part))?;
        if !source.info()?.is_some_and(|now| now.has_same_bytes(info)) {
            self.files.state.remove()?;
            self.has_state.store(false, Relaxed);
            return Err(Error::Refused(source.show(), "it was changed while it was copied; copy it again"));
        }
        self.files.part.set_attributes(info)?;
        if self.files.part.info()?.is_none_or(|part| part.id != self.part_id) {
            return Err(Error::Refused(target.show(), "another copy to the same target is in progress"));
        }
        if self.is_resumable() {
            self.files.state.remove()?;
        }
        self.files.part.rename(target)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }
}

/// Whether the ids of both can be compared.
fn share_id_space(one: &Endpoint, other: &Endpoint) -> bool {
    match (one, other) {
        (Endpoint::Host(_), Endpoint::Host(_)) => true,
        (Endpoint::Partition(one, _), Endpoint::Partition(other, _)) => one.id() == other.id(),
        _ => false,
    }
}

/// The partial file of an interrupted copy of the same source, and the bytes in it.
fn resumed(task: &CopyTask, files: &WorkFiles) -> Result<Option<(OpenFile, RangeSet)>, Error> {
    let Some(bytes) = files.state.read_small(MOST_BYTES)? else { return Ok(None) };
    let Some(part) = files.part.info()?.filter(|part| part.kind == FileKind::File) else { return Ok(None) };
    let Some(done) = ResumeState::copied_bytes(&bytes, &task.source, &task.info, part.id) else {
        return Ok(None);
    };
    Ok(Some((files.part.open_to_write(false, &NewFileLayout::default())?, done)))
}

/// A new partial file; one that another copy left is removed.
fn new_part(task: &CopyTask, files: &WorkFiles, layout: &NewFileLayout) -> Result<OpenFile, Error> {
    let part = match files.part.open_to_write(true, layout) {
        Err(error) if error.kind() == ErrorKind::FileExists => {
            files.state.remove()?;
            files.part.remove()?;
            files.part.open_to_write(true, layout)?
        }
        opened => opened?,
    };
    if let OpenFile::Host(_) = part {
        part.set_len(task.info.size).map_err(|fault| fault.at("cannot write", &files.part))?;
    }
    Ok(part)
}

/// The ranges of the bytes that are not whole blocks of zeros. The bytes begin at offset `start` of the file; blocks
/// are aligned in the file.
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
    fn work_files_are_hidden_and_have_valid_names() {
        let files = WorkFiles::beside(&Endpoint::Host("a/b.dat".into()));
        assert_eq!(files.part.show(), "a/.b.dat.pario-part");
        assert_eq!(files.state.show(), "a/.b.dat.pario-state");
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
            // Exactly the blocks of zeros are left out.
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
