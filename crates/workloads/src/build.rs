//! Compiles the program, once for each compiler and version of the sources.
//!
//! A build is in a directory whose name is a hash of the sources, the flags and the compiler's version. It is made under a
//! private name and renamed when it is complete, so any number of processes may build at once, and none ever runs an
//! incomplete file.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fmt, fs, io};

use crate::source::FILES;

const FLAGS: &[&str] = &["-std=c11", "-O2", "-Wall", "-Wextra"];
const NAME: &str = "pario-workload";

/// The reason why there is no program.
#[derive(Debug)]
pub enum Error {
    /// The compiler does not exist.
    NoCompiler(PathBuf),
    /// The compiler cannot be started.
    Start(PathBuf, io::Error),
    /// The compiler refuses; the first line that speaks of an error.
    Compile(PathBuf, String),
    /// The directory for builds cannot be used.
    Cache(PathBuf, io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoCompiler(mpicc) => write!(
                f,
                "{}: not found; install the MPI library's development package (libmpich-dev, \
                 libopenmpi-dev) or name another compiler wrapper",
                mpicc.display()
            ),
            Error::Start(mpicc, e) => write!(f, "{}: cannot be started: {e}", mpicc.display()),
            Error::Compile(mpicc, line) => {
                write!(f, "{}: cannot compile the workloads: {line}", mpicc.display())
            }
            Error::Cache(dir, e) => write!(f, "{}: cannot build the workloads there: {e}", dir.display()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Start(_, e) | Error::Cache(_, e) => Some(e),
            Error::NoCompiler(_) | Error::Compile(..) => None,
        }
    }
}

/// Returns the path of `pario-workload` as compiled by `mpicc`, a path or a name on `PATH`; it is built in `cache` unless
/// it is there.
pub fn build(mpicc: &Path, cache: &Path) -> Result<PathBuf, Error> {
    // The compiler is started in another directory. Links are not resolved: some compilers depend on the name by which they
    // are called.
    let full = if mpicc.components().count() > 1 { std::path::absolute(mpicc) } else { Ok(mpicc.to_owned()) };
    let mpicc = &full.map_err(|e| Error::Start(mpicc.to_owned(), e))?;
    let place = cache.join(format!("workloads-{}", identity(mpicc)?));
    let program = place.join(NAME);
    if program.is_file() {
        return Ok(program);
    }
    let failed = |e| Error::Cache(cache.to_owned(), e);
    let work = private(cache).map_err(failed)?;
    let made = compile(mpicc, &work);
    let moved = made.and_then(|()| match fs::rename(&work, &place) {
        // Another process has just done the same.
        Err(_) if program.is_file() => Ok(()),
        other => other.map_err(failed),
    });
    // After a success there is nothing, or the build of another process.
    let _ = fs::remove_dir_all(&work);
    moved.map(|()| program)
}

/// A hash of everything that determines the program.
fn identity(mpicc: &Path) -> Result<String, Error> {
    let mut hash = blake3::Hasher::new();
    let mut add = |bytes: &[u8]| {
        hash.update(&(bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    for (name, text) in FILES {
        add(name.as_bytes());
        add(text.as_bytes());
    }
    FLAGS.iter().for_each(|flag| add(flag.as_bytes()));
    add(mpicc.as_os_str().as_encoded_bytes());
    // The command that the wrapper would run, and its version.
    for question in ["-show", "--version"] {
        let answer = command(mpicc).arg(question).output().map_err(|e| not_started(mpicc, e))?;
        add(&answer.stdout);
    }
    Ok(hash.finalize().to_hex()[..16].to_owned())
}

fn command(mpicc: &Path) -> Command {
    let mut command = Command::new(mpicc);
    command.stdin(Stdio::null());
    command
}

fn not_started(mpicc: &Path, e: io::Error) -> Error {
    match e.kind() {
        io::ErrorKind::NotFound => Error::NoCompiler(mpicc.to_owned()),
        _ => Error::Start(mpicc.to_owned(), e),
    }
}

/// A new directory that no other process uses.
fn private(cache: &Path) -> io::Result<PathBuf> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    fs::create_dir_all(cache)?;
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = cache.join(format!(".building-{}-{number}", std::process::id()));
        match fs::create_dir(&dir) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|()| dir),
        }
    }
}

fn compile(mpicc: &Path, work: &Path) -> Result<(), Error> {
    for (name, text) in FILES {
        fs::write(work.join(name), text).map_err(|e| Error::Cache(work.to_owned(), e))?;
    }
    let is_c = |name: &&str| Path::new(name).extension() == Some(OsStr::new("c"));
    let sources = FILES.iter().map(|(name, _)| *name).filter(is_c);
    let mut command = command(mpicc);
    command.current_dir(work).args(FLAGS).args(["-o", NAME]).args(sources).arg("-lm");
    let output = command.output().map_err(|e| not_started(mpicc, e))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let telling = said.lines().find(|line| line.contains("error")).or(said.lines().next());
    Err(Error::Compile(mpicc.to_owned(), telling.unwrap_or("it says nothing").to_owned()))
}
