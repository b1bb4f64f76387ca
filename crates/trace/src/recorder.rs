//! A recorder: operations in, one trace file out.
//!
//! [`Recorder::record`] puts a record of fixed size into a bounded buffer, under a lock that is free in
//! ordinary programs; whoever fills the buffer writes it to the file. In mode `errors` every record is
//! written at once, and the file is made with the first one. A process that is killed loses at most what its
//! buffer held, and only in mode `all`.
//!
//! The file always ends with whole entries: what could not be written is cut off, counted, said once on
//! standard error, and noted in the file as soon as it can be written again.
//!
//! What recording costs is measured on the way: all writing, and of every [`SAMPLE`]th operation the time from its end
//! to the end of recording it; with what two readings of the clock cost, that is the cost of each.
//!
//! Nothing is kept per file: a [`FileId`] holds the name, and the recorder writes it before its first use. The
//! same holds for the pattern of a view, a [`PatternId`].
//! A file of an earlier job is never touched: the next free name is taken (`task-3.ptrace`,
//! `task-3.2.ptrace`, …).

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime};

use crate::event::{Actor, Record};
use crate::format::{self, Header, LONGEST_NAME, LONGEST_PART, Operation, PART, VIEWED, Window};
use crate::setup::{Mode, Setup};

/// What a recorder holds back before it writes.
const BUFFER: usize = 64 << 10;
/// Jobs that may leave traces in one directory before it has to be tidied up.
const MOST_JOBS: u32 = 10_000;

/// Of so many operations one is measured.
const SAMPLE: u64 = 64;
/// What takes longer was interrupted by others, who are not the recorder's cost.
const LONGEST_SAMPLE: Duration = Duration::from_micros(20);

static NEXT_FILE: AtomicU32 = AtomicU32::new(1);
static NEXT_PATTERN: AtomicU32 = AtomicU32::new(1);
static NEXT_EPOCH: AtomicU64 = AtomicU64::new(1);

/// A file that records speak of: its name, and a number that stands for it in the trace.
#[derive(Debug)]
pub struct FileId {
    number: u32,
    name: Box<[u8]>,
    /// The epoch of the recorder that last wrote the name.
    written: AtomicU64,
}

impl FileId {
    /// For each open, or each other use, of a file of that name.
    pub fn new(path: impl AsRef<Path>) -> FileId {
        let name = path.as_ref().as_os_str().as_bytes();
        let name = name[..name.len().min(LONGEST_NAME)].into();
        FileId { number: NEXT_FILE.fetch_add(1, Relaxed), name, written: AtomicU64::new(0) }
    }
}

/// The pattern of a view, and a number that stands for it in the trace.
#[derive(Debug)]
pub struct PatternId {
    number: u32,
    bytes: Box<[u8]>,
    written: AtomicU64,
}

impl PatternId {
    /// For a pattern in the bytes of the crate `view`; `None` for one that is too large to be traced.
    pub fn new(bytes: Vec<u8>) -> Option<PatternId> {
        u32::try_from(bytes.len()).ok()?;
        let number = NEXT_PATTERN.fetch_add(1, Relaxed);
        Some(PatternId { number, bytes: bytes.into(), written: AtomicU64::new(0) })
    }
}

/// Records the operations of one task, agent or server.
#[derive(Debug)]
pub struct Recorder {
    mode: Mode,
    min: u64,
    origin: Instant,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    header: Header,
    dir: PathBuf,
    output: Option<Output>,
    buffer: Vec<u8>,
    /// Operations in the buffer.
    waiting: u64,
    /// Operations in the file.
    kept: u64,
    lost: u64,
    /// How many lost operations the file knows of.
    lost_noted: u64,
    /// Names written in another epoch have to be written again; a failed write begins a new one.
    epoch: u64,
    /// The start of the last operation in the buffer; nothing that is written later counts from it.
    last_ns: Option<u64>,
    cost: Cost,
    complained: bool,
}

/// What recording has cost so far.
#[derive(Debug, Default)]
struct Cost {
    operations: u64,
    sampled: u64,
    sampled_ns: u64,
    writing_ns: u64,
    /// One reading of the clock.
    clock_ns: f64,
}

impl Cost {
    /// With the cost of reading the clock, which is measured now, in some microseconds.
    fn new() -> Cost {
        const READINGS: u32 = 64;
        let round = || {
            let began = Instant::now();
            (1..READINGS).fold(began, |_, _| Instant::now()).duration_since(began)
        };
        let best = (0..4).map(|_| round()).min().unwrap_or_default();
        Cost { clock_ns: best.as_nanos() as f64 / f64::from(READINGS), ..Cost::default() }
    }

    /// All of it, in nanoseconds.
    fn all_ns(&self) -> u64 {
        let mean = self.sampled_ns as f64 / self.sampled.max(1) as f64;
        ((2.0 * self.clock_ns + mean) * self.operations as f64) as u64 + self.writing_ns
    }
}

#[derive(Debug)]
struct Output {
    file: File,
    /// Where the next entry goes; a trailer may lie there already.
    end: u64,
}

impl Recorder {
    /// Begins to record. That the file cannot be made is said on standard error and fails nothing.
    pub fn start(setup: &Setup, actor: Actor, rank: u32, ranks: u32) -> Recorder {
        let origin = Instant::now();
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let header = Header {
            actor,
            mode: setup.mode,
            rank,
            ranks,
            began_ns: nanoseconds(wall),
            min: setup.min,
            pid: std::process::id(),
            host: host.trim().to_owned(),
            job: setup.job.clone(),
        };
        let mut state = State {
            header,
            // The program may change its directory before the file is made.
            dir: std::path::absolute(&setup.dir).unwrap_or_else(|_| setup.dir.clone()),
            output: None,
            buffer: Vec::with_capacity(BUFFER),
            waiting: 0,
            kept: 0,
            lost: 0,
            lost_noted: 0,
            epoch: NEXT_EPOCH.fetch_add(1, Relaxed),
            last_ns: None,
            cost: Cost::new(),
            complained: false,
        };
        if setup.mode == Mode::All {
            // A failure has been said on standard error; the next flush tries again.
            let _ = state.flush();
        }
        Recorder { mode: setup.mode, min: setup.min, origin, state: Mutex::new(state) }
    }

    /// A file to speak of in records.
    pub fn file(&self, path: impl AsRef<Path>) -> FileId {
        FileId::new(path)
    }

    /// Keeps the record if the mode asks for it.
    pub fn record(&self, record: &Record) {
        if self.mode == Mode::Errors && !record.is_wrong() {
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
            start_ns: nanoseconds(record.start.saturating_duration_since(self.origin)),
            took_ns: nanoseconds(record.took),
            window: record.view.map(|view| Window {
                pattern: view.pattern.number,
                disp: view.disp,
                at: view.at,
                len: view.len,
            }),
        };
        let mut state = self.lock();
        let writing_ns = state.cost.writing_ns;
        state.add(&operation, record);
        state.cost.operations += 1;
        if state.cost.operations.is_multiple_of(SAMPLE) && state.cost.writing_ns == writing_ns {
            let spent = record.start.elapsed().saturating_sub(record.took);
            if spent < LONGEST_SAMPLE {
                state.cost.sampled += 1;
                state.cost.sampled_ns += nanoseconds(spent);
            }
        }
        if self.mode == Mode::Errors {
            // A failure has been counted and said; the program's call is not to fail for it.
            let _ = state.flush();
        }
    }

    /// Writes what is in the buffer; good to call where a file is closed.
    pub fn flush(&self) -> io::Result<()> {
        match self.mode {
            // Every record was written at once, and where there was none there is to be no file.
            Mode::Errors => Ok(()),
            Mode::All => self.lock().flush(),
        }
    }

    /// Writes what is left and the trailer. An error if any record was lost. Recording may go on afterwards;
    /// then this has to be called again.
    pub fn finish(&self) -> io::Result<()> {
        let mut state = self.lock();
        if state.header.mode == Mode::Errors && state.waiting == 0 && state.kept + state.lost == 0 {
            return Ok(());
        }
        let flushed = state.flush();
        let trailer =
            format::trailer(state.kept, state.lost, nanoseconds(self.origin.elapsed()), state.cost.all_ns());
        let written = match &state.output {
            Some(output) => output.file.write_all_at(&trailer, output.end),
            None => Ok(()),
        };
        match state.lost {
            0 => flushed.and(written),
            lost => Err(io::Error::other(format!("{lost} operations are missing from the trace"))),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // What failed has been said on standard error.
        let _ = self.finish();
    }
}

impl State {
    fn add(&mut self, operation: &Operation, record: &Record) {
        if let Some(view) = &record.view {
            self.add_pattern(view.pattern);
        }
        self.make_room(VIEWED + record.file.map_or(0, |file| file.name.len() + 8));
        if let Some(file) = record.file
            && file.written.load(Relaxed) != self.epoch
        {
            file.written.store(self.epoch, Relaxed);
            format::name(file.number, &file.name, &mut self.buffer);
        }
        match self.last_ns.and_then(|before| operation.plain(before)) {
            Some(plain) => self.buffer.extend_from_slice(&plain),
            None => operation.encode(&mut self.buffer),
        }
        self.last_ns = Some(operation.start_ns);
        self.waiting += 1;
    }

    /// Leaves room for the operation that refers to the pattern, so that no write comes between them.
    fn add_pattern(&mut self, pattern: &PatternId) {
        if pattern.written.load(Relaxed) == self.epoch {
            return;
        }
        let (begun, mut at) = (self.epoch, 0);
        while at < pattern.bytes.len() {
            self.make_room(PART + LONGEST_PART + VIEWED + LONGEST_NAME + 8);
            at += format::part(pattern.number, &pattern.bytes, at, &mut self.buffer);
        }
        // If a write failed on the way, the first parts are missing, and the next use writes all of them again.
        if self.epoch == begun || pattern.bytes.len() <= LONGEST_PART {
            pattern.written.store(self.epoch, Relaxed);
        }
    }

    fn make_room(&mut self, room: usize) {
        if self.buffer.len() + room > BUFFER {
            // A failure has been counted and said.
            let _ = self.flush();
        }
    }

    /// Empties the buffer: into the file, or into the count of what was lost.
    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() && self.output.as_ref().is_some_and(|output| output.end > 0) {
            return Ok(());
        }
        let began = Instant::now();
        let written = self.write();
        self.cost.writing_ns += nanoseconds(began.elapsed());
        // What is written next does not count from what may be lost.
        self.last_ns = None;
        match &written {
            Ok(()) => self.kept += self.waiting,
            Err(e) => {
                self.lost += self.waiting;
                self.epoch = NEXT_EPOCH.fetch_add(1, Relaxed);
                self.complain(e);
            }
        }
        self.buffer.clear();
        self.waiting = 0;
        written
    }

    fn write(&mut self) -> io::Result<()> {
        if self.output.is_none() {
            self.output = Some(Output { file: create(&self.dir, &self.header)?, end: 0 });
        }
        let Some(output) = &mut self.output else { return Ok(()) };
        let mut first = if output.end == 0 { self.header.encode() } else { Vec::new() };
        if self.lost > self.lost_noted {
            first.extend(format::gap(self.lost));
        }
        output.append(&first, &self.buffer)?;
        self.lost_noted = self.lost;
        Ok(())
    }

    fn complain(&mut self, error: &io::Error) {
        if !std::mem::replace(&mut self.complained, true) {
            let (actor, rank, dir) = (self.header.actor, self.header.rank, self.dir.display());
            // Standard error may be closed; there is nobody left to tell.
            let _ = writeln!(
                io::stderr(),
                "pario: the trace of {actor} {rank} in {dir} cannot be written and misses operations: {error}"
            );
        }
    }
}

impl Output {
    /// All of both, or nothing.
    fn append(&mut self, first: &[u8], second: &[u8]) -> io::Result<()> {
        let middle = self.end + first.len() as u64;
        let written = self
            .file
            .write_all_at(first, self.end)
            .and_then(|()| self.file.write_all_at(second, middle))
            .inspect_err(|_| {
                // If even this fails, readers stop at the torn entry and say so.
                let _ = self.file.set_len(self.end);
            });
        if written.is_ok() {
            self.end = middle + second.len() as u64;
        }
        written
    }
}

/// A new file under the first free name.
fn create(dir: &Path, header: &Header) -> io::Result<File> {
    std::fs::create_dir_all(dir)?;
    let (actor, rank) = (header.actor, header.rank);
    for job in 1..=MOST_JOBS {
        let name = match job {
            1 => format!("{actor}-{rank}.ptrace"),
            _ => format!("{actor}-{rank}.{job}.ptrace"),
        };
        match OpenOptions::new().write(true).create_new(true).open(dir.join(name)) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => (),
            other => return other,
        }
    }
    Err(io::Error::other("too many traces of earlier jobs are there; name another directory"))
}

fn nanoseconds(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1_000_000_000).saturating_add(u64::from(time.subsec_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Op;
    use crate::reader::{Ending, read};

    /// A write that fails in mid-file, which from outside only a full disk could bring about.
    #[test]
    fn what_cannot_be_written_leaves_a_gap_and_no_torn_entry() {
        let dir = std::env::temp_dir().join(format!("pario-trace-gap-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        let setup = Setup { mode: Mode::Errors, min: 0, dir: dir.clone(), job: String::new() };
        let recorder = Recorder::start(&setup, Actor::Task, 0, 1);
        let file = recorder.file("out.dat");
        let record = |len| {
            let call = Record::new(Op::Write, Some(&file), Instant::now());
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
        assert_eq!((reader.lost(), reader.ending()), (2, Some(&Ending::Finished)));
        std::fs::remove_dir_all(&dir).expect("removed");
    }
}
