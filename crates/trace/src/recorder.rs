//! A recorder: operations in, one trace file out.
//!
//! Plain operations of the thread that creates the recorder go into its `thread_buffer`, without a lock and in a few
//! nanoseconds. All others wait in a list under the lock. A thread that finds the thread buffer or the list full empties
//! both: the waiting operations are merged in the order of their ends and added to a buffer as entries of the file, and a
//! full buffer is written. All of this is bounded. In mode `errors` every record is written at once, and the file is
//! created with the first one. A killed process loses at most the unwritten operations, and only in mode `all`.
//!
//! The file always ends with complete entries: an incomplete write is cut off, its operations are counted as lost, one line
//! on standard error says so, and the count is written to the file as soon as that is possible again.
//!
//! No state is kept per file: a [`TracedFile`] has the name, and the recorder writes it before its first use. The same
//! holds for the pattern of a view, a [`PatternId`].

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};
use std::time::{Instant, SystemTime};

use crate::clock::{Clock, Moment, Scale, TickCalibration, nanoseconds};
use crate::cost::{CostMeter, RecordingCost, SAMPLE};
use crate::event::{Actor, Record, TracedCall};
use crate::format::{
    self, LONGEST_NAME, LONGEST_PART, OPERATION, Operation, PART, TraceHeader, VIEWED, Window,
};
use crate::output::Output;
use crate::plain::{Encoder, PLAIN, PackedCall, PlainOperation};
use crate::setup::{TraceMode, TraceSetup};
use crate::thread_buffer::{PutResult, ThreadBuffer};

/// The bytes of entries that a recorder buffers before it writes.
const BUFFER: usize = 64 << 10;
/// Operations outside of the thread buffer that wait to be merged with it.
const MOST_OTHERS: usize = 128;
/// Ticks after which the buffer is written even if it is not full: 10 to 40 seconds. The error of times in it is the change
/// of the system clock's rate meanwhile.
const LONGEST_WAIT: u64 = 1 << 35;

static NEXT_FILE: AtomicU32 = AtomicU32::new(1);
static NEXT_PATTERN: AtomicU32 = AtomicU32::new(1);
static NEXT_EPOCH: AtomicU64 = AtomicU64::new(1);

/// A file that records refer to: its name, and its number in the trace.
#[derive(Debug)]
pub struct TracedFile {
    number: u32,
    name: Box<[u8]>,
    /// The epoch of the recorder that last wrote the name.
    written: AtomicU64,
}

impl TracedFile {
    /// Created for each open, or each other use, of a file of that name.
    pub fn new(path: impl AsRef<Path>) -> TracedFile {
        let name = path.as_ref().as_os_str().as_bytes();
        let name = name[..name.len().min(LONGEST_NAME)].into();
        TracedFile { number: NEXT_FILE.fetch_add(1, Relaxed), name, written: AtomicU64::new(0) }
    }
}

/// The pattern of a view, and its number in the trace.
#[derive(Debug)]
pub struct PatternId {
    number: u32,
    bytes: Box<[u8]>,
    written: AtomicU64,
}

impl PatternId {
    /// Creates the id of an encoded pattern of the crate `view`; `None` if it is too large to be traced.
    pub fn new(bytes: Vec<u8>) -> Option<PatternId> {
        u32::try_from(bytes.len()).ok()?;
        let number = NEXT_PATTERN.fetch_add(1, Relaxed);
        Some(PatternId { number, bytes: bytes.into(), written: AtomicU64::new(0) })
    }
}

/// Records the operations of one task, agent or server.
///
/// The fields that an operation reads are together in two lines of the processor's cache.
#[derive(Debug)]
#[repr(align(64))]
pub struct Recorder {
    mode: TraceMode,
    min: u64,
    clock: Clock,
    /// Names written in another epoch have to be written again; a failed write begins a new one.
    epoch: AtomicU64,
    thread_buffer: ThreadBuffer,
    /// The number of operations that went through it; some are measured.
    measured: CostMeter,
    state: Mutex<Box<State>>,
}

/// The state under the lock.
#[derive(Debug)]
struct State {
    header: TraceHeader,
    dir: PathBuf,
    output: Option<Output>,
    gauge: TickCalibration,
    /// Operations outside of the thread buffer that have not been merged with it.
    others: Vec<Operation>,
    /// Entries that wait to be written.
    buffer: Vec<u8>,
    /// Operations in the buffer.
    waiting: u64,
    /// The end of the last operation in the buffer; the next entries do not count from it after a write.
    encoder: Option<Encoder>,
    /// The start of the first operation in the buffer.
    first: u64,
    /// Operations in the file.
    kept: u64,
    lost: u64,
    /// The number of lost operations that the file records.
    lost_noted: u64,
    cost: RecordingCost,
    complained: bool,
}

impl Recorder {
    /// Starts recording. If the file cannot be created, a line on standard error says so and nothing fails.
    pub fn start(setup: &TraceSetup, actor: Actor, rank: u32, ranks: u32) -> Recorder {
        let clock = Clock::start(setup.clock);
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let header = TraceHeader {
            actor,
            mode: setup.mode,
            rank,
            ranks,
            began_ns: nanoseconds(wall).saturating_sub(clock.now_ns()),
            min: setup.min,
            pid: std::process::id(),
            host: host.trim().to_owned(),
            job: setup.job.clone(),
        };
        let state = State {
            header,
            // The program may change its directory before the file is created.
            dir: std::path::absolute(&setup.dir).unwrap_or_else(|_| setup.dir.clone()),
            output: None,
            gauge: TickCalibration::new(),
            others: Vec::new(),
            buffer: Vec::new(),
            waiting: 0,
            encoder: None,
            first: 0,
            kept: 0,
            lost: 0,
            lost_noted: 0,
            cost: RecordingCost::new(&clock),
            complained: false,
        };
        let recorder = Recorder {
            mode: setup.mode,
            min: setup.min,
            clock,
            epoch: AtomicU64::new(NEXT_EPOCH.fetch_add(1, Relaxed)),
            thread_buffer: ThreadBuffer::new(),
            measured: CostMeter::default(),
            state: Mutex::new(Box::new(state)),
        };
        // A failure has been reported on standard error; the next flush tries again.
        let _ = recorder.flush();
        recorder
    }

    /// Returns a file for records to refer to.
    pub fn file(&self, path: impl AsRef<Path>) -> TracedFile {
        TracedFile::new(path)
    }

    /// The present time.
    #[inline]
    pub fn now(&self) -> Moment {
        self.clock.now()
    }

    /// Converts a time of the system's clock.
    pub fn at(&self, instant: Instant) -> Moment {
        self.clock.at(instant)
    }

    /// Records, if the mode asks for it, a plain operation that ends now: it moved all requested bytes, which are all of
    /// `len` bytes from `offset` on.
    #[inline]
    pub fn plain(&self, call: TracedCall, file: &TracedFile, offset: u64, len: u64, start: Moment) {
        if self.mode == TraceMode::Errors {
            return;
        }
        let over = self.clock.now();
        if file.written.load(Relaxed) == self.epoch.load(Relaxed)
            && offset >= self.min
            && let Some(what) = PackedCall::new(call, file.number, len)
        {
            match self.thread_buffer.put(what, offset, start, over) {
                PutResult::Done(before) => {
                    if before % SAMPLE == SAMPLE / 2 {
                        self.measured.add(self.clock.now().since(over));
                    }
                    return;
                }
                PutResult::Full => {
                    self.lock().drain(self);
                    if let PutResult::Done(_) = self.thread_buffer.put(what, offset, start, over) {
                        return;
                    }
                }
                PutResult::Unfit => (),
            }
        }
        let end = offset.saturating_add(len);
        self.record(&Record { offset, end, len, moved: len, ..Record::new(call, Some(file), start, over) });
    }

    /// Records an operation if the mode asks for it.
    #[cold]
    pub fn record(&self, record: &Record) {
        if self.mode == TraceMode::Errors && !record.is_wrong() {
            return;
        }
        if record.call.op.on_bytes() && record.end <= self.min && record.offset < self.min {
            return;
        }
        let operation = Operation {
            call: record.call,
            kind: record.kind.map_or(0, |kind| kind.code() as u8),
            file: record.file.map_or(0, |file| file.number),
            class: record.class,
            errno: record.errno,
            behalf: record.on_behalf_of.map_or(0, |rank| rank.saturating_add(1)),
            offset: record.offset,
            end: record.end,
            len: record.len,
            moved: record.moved,
            start: record.start.0,
            took: record.over.since(record.start),
            window: record.view.map(|view| Window {
                pattern: view.pattern.number,
                disp: view.disp,
                at: view.at,
                len: view.len,
            }),
        };
        let mut state = self.lock();
        let elsewhere = state.cost.spent();
        state.add(self, operation, record);
        if self.mode == TraceMode::Errors {
            // A failure has been counted and reported; the program's call must not fail for it.
            let _ = state.flush(self);
        }
        let spent = self.clock.now().since(record.over);
        let elsewhere = state.cost.spent() - elsewhere;
        state.cost.slow.add(spent.saturating_sub(elsewhere));
    }

    /// Writes the waiting operations; called when a file is closed.
    pub fn flush(&self) -> io::Result<()> {
        match self.mode {
            // Every record was written at once, and without records there must be no file.
            TraceMode::Errors => Ok(()),
            TraceMode::All => self.lock().flush(self),
        }
    }

    /// Writes the rest and the trailer. Fails if any record was lost. Recording may continue afterwards; then this has to
    /// be called again.
    pub fn finish(&self) -> io::Result<()> {
        let mut state = self.lock();
        if self.mode == TraceMode::Errors && state.kept + state.lost == 0 {
            return Ok(());
        }
        let flushed = state.flush(self);
        let cost = state.cost.ticks(self.thread_buffer.had(), &self.measured);
        let cost_ns = state.gauge.scale(&self.clock).span(cost);
        let trailer = format::trailer(state.kept, state.lost, self.clock.now_ns(), cost_ns);
        let written = state.output.as_ref().map_or(Ok(()), |output| output.end_with(&trailer));
        match state.lost {
            0 => flushed.and(written),
            lost => Err(io::Error::other(format!("{lost} operations are missing from the trace"))),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Box<State>> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // A failure has been reported on standard error.
        let _ = self.finish();
    }
}

impl State {
    /// Adds an operation that does not go through the thread buffer.
    fn add(&mut self, recorder: &Recorder, operation: Operation, record: &Record) {
        if self.others.len() == MOST_OTHERS {
            self.drain(recorder);
        }
        if let Some(view) = &record.view {
            self.add_pattern(recorder, view.pattern);
        }
        if let Some(file) = record.file
            && file.written.load(Relaxed) != recorder.epoch.load(Relaxed)
        {
            self.make_room(recorder, file.name.len() + 8);
            file.written.store(recorder.epoch.load(Relaxed), Relaxed);
            format::name(file.number, &file.name, &mut self.buffer);
        }
        self.others.push(operation);
    }

    /// Leaves space for a name, so that no write comes between the pattern and the operation that refers to it.
    fn add_pattern(&mut self, recorder: &Recorder, pattern: &PatternId) {
        let begun = recorder.epoch.load(Relaxed);
        if pattern.written.load(Relaxed) == begun {
            return;
        }
        let mut at = 0;
        while at < pattern.bytes.len() {
            self.make_room(recorder, PART + LONGEST_PART + LONGEST_NAME + 8);
            at += format::part(pattern.number, &pattern.bytes, at, &mut self.buffer);
        }
        // If a write failed on the way, the first parts are missing, and the next use writes all of them
        // again.
        let epoch = recorder.epoch.load(Relaxed);
        if epoch == begun || pattern.bytes.len() <= LONGEST_PART {
            pattern.written.store(epoch, Relaxed);
        }
    }

    fn make_room(&mut self, recorder: &Recorder, room: usize) {
        if self.buffer.len() + room > BUFFER {
            // A failure has been counted and reported.
            let _ = self.write_out(recorder);
        }
    }

    /// Turns all waiting operations into entries, in the order of their ends.
    fn drain(&mut self, recorder: &Recorder) {
        let others = self.others.len();
        self.make_room(
            recorder,
            recorder.thread_buffer.waiting() * PLAIN + (others + 2) * (OPERATION + VIEWED),
        );
        let began = recorder.clock.now();
        let mut others = std::mem::take(&mut self.others);
        others.sort_by_key(Operation::over);
        let mut rest = others.iter().peekable();
        recorder.thread_buffer.take(|plain| {
            while let Some(other) = rest.next_if(|other| other.over() < plain.over()) {
                self.encode(other);
            }
            self.encode_plain(&plain);
        });
        rest.for_each(|other| self.encode(other));
        others.clear();
        self.others = others;
        self.cost.drains.add(recorder.clock.now().since(began));
        if self
            .encoder
            .as_ref()
            .is_some_and(|encoder| encoder.last().saturating_sub(self.first) > LONGEST_WAIT)
        {
            // A failure has been counted and reported.
            let _ = self.write_out(recorder);
        }
    }

    #[inline]
    fn encode_plain(&mut self, plain: &PlainOperation) {
        if let Some(encoder) = &mut self.encoder
            && encoder.add(plain, &mut self.buffer)
        {
            self.waiting += 1;
        } else {
            self.encode(&plain.operation());
        }
    }

    #[cold]
    fn encode(&mut self, operation: &Operation) {
        match self.encoder.as_ref().and_then(|encoder| operation.plain(encoder.last())) {
            Some(plain) => self.buffer.extend_from_slice(&plain),
            None => operation.encode(&mut self.buffer),
        }
        if self.encoder.is_none() {
            self.first = operation.start;
        }
        self.encoder = Some(Encoder::behind(operation.start));
        self.waiting += 1;
    }

    /// Writes all waiting operations, or counts them as lost.
    fn flush(&mut self, recorder: &Recorder) -> io::Result<()> {
        self.drain(recorder);
        if self.buffer.is_empty() && self.output.as_ref().is_some_and(|output| !output.is_empty()) {
            return Ok(());
        }
        self.write_out(recorder)
    }

    /// Empties the buffer: into the file, or into the count of lost operations.
    fn write_out(&mut self, recorder: &Recorder) -> io::Result<()> {
        let began = recorder.clock.now();
        let written = self.write(&recorder.clock);
        // The next entries do not count from operations that may be lost.
        self.encoder = None;
        match &written {
            Ok(()) => self.kept += self.waiting,
            Err(e) => {
                // Operations that are not entries yet are lost, too: names that they need may have been in the buffer.
                recorder.epoch.store(NEXT_EPOCH.fetch_add(1, Relaxed), Relaxed);
                self.lost += self.waiting + self.others.len() as u64;
                recorder.thread_buffer.take(|_| self.lost += 1);
                self.others.clear();
                self.complain(e);
            }
        }
        self.buffer.clear();
        self.waiting = 0;
        self.cost.writing += recorder.clock.now().since(began);
        written
    }

    fn write(&mut self, clock: &Clock) -> io::Result<()> {
        if self.output.is_none() {
            self.output = Some(Output::create(&self.dir, &self.header)?);
        }
        let Some(output) = &mut self.output else { return Ok(()) };
        let mut first = if output.is_empty() { self.header.encode() } else { Vec::new() };
        if self.lost > self.lost_noted {
            first.extend(format::gap(self.lost));
        }
        match self.gauge.scale(clock) {
            Scale::PLAIN => (),
            scale => first.extend(format::clock(scale)),
        }
        output.append(&first, &self.buffer)?;
        self.lost_noted = self.lost;
        Ok(())
    }

    fn complain(&mut self, error: &io::Error) {
        if !std::mem::replace(&mut self.complained, true) {
            let (actor, rank, dir) = (self.header.actor, self.header.rank, self.dir.display());
            // Standard error may be closed; then the error cannot be reported.
            let _ = writeln!(
                io::stderr(),
                "pario: the trace of {actor} {rank} in {dir} cannot be written and misses operations: {error}"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::TracedOp;
    use crate::reader::{TraceEnding, read};
    use std::fs::File;

    /// A write that fails in the middle of a file, which otherwise only a full disk causes.
    #[test]
    fn what_cannot_be_written_leaves_a_gap_and_no_torn_entry() {
        let dir = std::env::temp_dir().join(format!("pario-trace-gap-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        let setup =
            TraceSetup { dir: dir.clone(), ..TraceSetup::parse("errors").expect("good").expect("a trace") };
        let recorder = Recorder::start(&setup, Actor::Task, 0, 1);
        let file = recorder.file("out.dat");
        let record = |len| {
            let call = Record::new(TracedOp::Write, Some(&file), recorder.now(), recorder.now());
            recorder.record(&Record { end: len, len, ..call });
        };
        record(1);
        let path = dir.join("task-0.ptrace");
        let swap = |file| {
            let mut state = recorder.lock();
            std::mem::replace(&mut state.output.as_mut().expect("a file").file, file)
        };
        let good = swap(File::open(&path).expect("for reading"));
        record(2);
        record(3);
        swap(good);
        record(4);
        assert!(recorder.finish().unwrap_err().to_string().contains("2 operations"));

        let mut reader = read(&path).expect("a trace");
        let events: Vec<_> = reader.by_ref().map(|e| (e.len, e.file.unwrap().to_string())).collect();
        assert_eq!(events, [(1, "out.dat".to_owned()), (4, "out.dat".to_owned())]);
        assert_eq!((reader.lost(), reader.ending()), (2, Some(&TraceEnding::Finished)));
        std::fs::remove_dir_all(&dir).expect("removed");
    }
}
