//! Compiles test programs with a host's own compilers, once per content.
//!
//! A program's name in the cache carries a hash of everything that made it: its source, the files that it
//! includes, the host, the language and the flags. Concurrent tests may build the same program; each builds under
//! a private name and renames, so that no test executes an incomplete file.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::files::scratch;
use crate::host::HostMpi;
use crate::library::target_dir;
use crate::process;

/// The language, or the compiler wrapper, of a test program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SourceKind {
    /// C by `mpicc`.
    C,
    /// Fortran 77 by `mpif77`.
    F77,
    /// Fortran 90 and later by `mpif90`.
    F90,
    /// C with parallel HDF5 by `h5pcc`.
    Hdf5,
    /// C++ by `mpicxx`.
    Cxx,
    /// A shared library in C, without MPI, by `cc`: something to preload.
    Library,
}

impl SourceKind {
    fn compiler(self, host: HostMpi) -> Command {
        let (compiler, flags): (PathBuf, &[&str]) = match self {
            SourceKind::C => {
                (host.mpicc(), &["-std=gnu11", "-O1", "-Wall", "-Werror=implicit-function-declaration"])
            }
            SourceKind::F77 => (host.mpif77(), &["-O1", "-Wall"]),
            SourceKind::F90 => (host.mpif90(), &["-O1", "-Wall"]),
            SourceKind::Hdf5 => (host.h5pcc(), &["-std=gnu11", "-O1", "-Wall"]),
            SourceKind::Cxx => (host.mpicxx(), &["-O1", "-Wall"]),
            SourceKind::Library => ("cc".into(), &["-std=gnu11", "-O1", "-Wall", "-shared", "-fPIC"]),
        };
        let mut command = Command::new(compiler);
        command.args(flags);
        command
    }
}

/// Compiles the program at `source` and gives the path of the executable; panics with the compiler's words.
#[track_caller]
pub fn compile(host: HostMpi, source: impl AsRef<Path>, kind: SourceKind, flags: &[&str]) -> PathBuf {
    let source = source.as_ref();
    let source = source.canonicalize().unwrap_or_else(|e| panic!("{}: {e}", source.display()));
    let mut hash = DefaultHasher::new();
    (host, kind, flags).hash(&mut hash);
    if let HostMpi::Installed(_) = host {
        host.mpicc().hash(&mut hash);
    }
    for part in inputs(&source) {
        let text = fs::read(&part).unwrap_or_else(|e| panic!("cannot read {}: {e}", part.display()));
        (part.file_name(), text).hash(&mut hash);
    }
    let stem = source.file_stem().unwrap_or_default().to_string_lossy();
    let done = cache_dir().join(format!("{stem}-{}-{:016x}", host.name(), hash.finish()));
    if !done.is_file() {
        build(host, &source, kind, flags, &done);
    }
    done
}

/// Compiles a program given as text; `name` (with its extension) names it in messages and in the cache.
#[track_caller]
pub fn compile_text(host: HostMpi, name: &str, text: &str, kind: SourceKind, flags: &[&str]) -> PathBuf {
    let dir = scratch();
    let source = dir.join(name);
    fs::write(&source, text).unwrap_or_else(|e| panic!("cannot write {}: {e}", source.display()));
    compile(host, source, kind, flags)
}

#[track_caller]
fn build(host: HostMpi, source: &Path, kind: SourceKind, flags: &[&str], done: &Path) {
    let work = scratch(); // module files and objects fall here
    let made = work.join("program");
    let mut command = kind.compiler(host);
    command.current_dir(work.path()).arg("-o").arg(&made).arg(source);
    if let Some(dir) = source.parent() {
        command.arg("-I").arg(dir);
    }
    command.args(flags);
    let finished = process::finish(command, Duration::from_secs(120));
    let built = finished.status.is_some_and(|status| status.success());
    assert!(built, "cannot compile {}:\n{}{}", source.display(), finished.stdout, finished.stderr);
    // Copied first: the build directory may lie on another file system than the temporary one.
    let near = done.with_extension(format!("{}", work.path().file_name().unwrap_or_default().display()));
    fs::copy(&made, &near)
        .and_then(|_| fs::rename(&near, done))
        .expect("the build directory takes new files");
}

/// The source and what it includes by a name in quotes, directly and indirectly, each once.
fn inputs(source: &Path) -> Vec<PathBuf> {
    let mut parts = vec![source.to_path_buf()];
    let mut next = 0;
    while let Some(part) = parts.get(next).cloned() {
        next += 1;
        let text = fs::read_to_string(&part).unwrap_or_default();
        let names = text.lines().filter_map(|line| line.strip_prefix("#include \"")?.split('"').next());
        for included in names.filter_map(|name| part.parent()?.join(name).canonicalize().ok()) {
            if !parts.contains(&included) {
                parts.push(included);
            }
        }
    }
    parts
}

fn cache_dir() -> PathBuf {
    let dir = target_dir().join("conformance-programs");
    fs::create_dir_all(&dir).expect("the build directory takes new directories");
    dir
}
