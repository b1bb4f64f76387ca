//! Which MPI does a program use? Read from files; nothing of the program is run.
//!
//! A program's libraries, and theirs, are walked breadth first until one is an MPI library. Most are known by
//! name; `libmpi.so.12`, which MPICH and an old Open MPI share, by the symbols it has. For Python the walk
//! starts at the extension module that mpi4py would load; the interpreter is asked where that is, without
//! importing it.

use super::elf::{self, Elf};
use super::libraries::{LibrarySearch, Object};
use super::{Executable, MpiFamily, ProgramError, SearchPaths, UnclearMpi};
use std::collections::{HashSet, VecDeque};
use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The MPI a program uses.
#[derive(Debug)]
pub struct ProgramMpi {
    /// Its family.
    pub family: MpiFamily,
    /// The library's name, as the object that needs it calls it.
    pub library: String,
    /// Its file, if it was found.
    pub file: Option<PathBuf>,
    /// The objects that lead from the program to it.
    pub via: Vec<PathBuf>,
}

/// A symbol that every Open MPI has and nobody else.
const OPEN_MPI_SYMBOL: &str = "ompi_mpi_comm_world";
/// More libraries than this no program has.
const MOST_LIBRARIES: usize = 2000;

impl ProgramMpi {
    /// The MPI that the program in `file` uses.
    pub fn of(file: &Path, search: &SearchPaths) -> Result<ProgramMpi, ProgramError> {
        let unclear = |why| ProgramError::Undetermined(file.to_owned(), why);
        if is_python(file.file_name()) {
            return ask_python(file, search).map_err(unclear);
        }
        let opened = File::open(file).map_err(|e| ProgramError::Unreadable(file.to_owned(), e))?;
        match elf::read(&opened) {
            Ok(elf) if is_static(&elf) => Err(ProgramError::Static(file.to_owned())),
            Ok(elf) => walk(file, elf, search).ok_or_else(|| unclear(UnclearMpi::NoMpi)),
            Err(elf::Error::Io(e)) => Err(ProgramError::Unreadable(file.to_owned(), e)),
            Err(elf::Error::NotElf) => match interpreter(&opened) {
                Some(words) => match python_of(&words, search) {
                    Some(python) => ask_python(&python, search).map_err(unclear),
                    None => Err(unclear(UnclearMpi::Script)),
                },
                None => {
                    Err(unclear(UnclearMpi::Unusable("it is neither an ELF program nor a script".to_owned())))
                }
            },
            Err(e) => Err(unclear(UnclearMpi::Unusable(format!("it is {e}")))),
        }
    }
}

impl fmt::Display for ProgramMpi {
    /// The family, the library, where it is, and which libraries need it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ProgramMpi { family, library, file, via } = self;
        let file = file.as_ref().map_or("not found".to_owned(), |file| file.display().to_string());
        write!(f, "{family} ({library}: {file}")?;
        via.iter().skip(1).try_for_each(|object| write!(f, ", needed by {}", object.display()))?;
        f.write_str(")")
    }
}

/// Whether nothing can be preloaded into the program in `file`, because no loader runs for it.
pub fn refuse_static(file: &Path) -> Result<(), ProgramError> {
    let opened = File::open(file).map_err(|e| ProgramError::Unreadable(file.to_owned(), e))?;
    match elf::read(&opened) {
        Ok(elf) if is_static(&elf) => Err(ProgramError::Static(file.to_owned())),
        _ => Ok(()),
    }
}

fn is_static(elf: &Elf) -> bool {
    !elf.has_interpreter && elf.needed.is_empty()
}

/// Walks the libraries of the object in `file`, breadth first, to an MPI library.
fn walk(file: &Path, elf: Elf, search: &SearchPaths) -> Option<ProgramMpi> {
    let libraries = LibrarySearch::new(&search.libraries);
    let mut seen = HashSet::new();
    let mut queue = VecDeque::from([(vec![file.to_owned()], Object::new(file, &elf, None), elf.needed)]);
    while let Some((via, object, needed)) = queue.pop_front() {
        for library in needed {
            if seen.len() >= MOST_LIBRARIES || !seen.insert(library.clone()) {
                continue;
            }
            let found = libraries.find(&library, &object);
            let looked_into = found.as_ref().map(|(_, file, elf)| elf.mentions(file, OPEN_MPI_SYMBOL));
            if let Some(family) = family_of(&library, looked_into) {
                return Some(ProgramMpi { family, library, file: found.map(|(path, ..)| path), via });
            }
            if let Some((path, _, elf)) = found {
                let below = Object::new(&path, &elf, Some(&object));
                queue.push_back((via.iter().cloned().chain([path]).collect(), below, elf.needed));
            }
        }
    }
    None
}

/// The family of a library by its name and, if its file was found, by whether Open MPI's symbol is in it.
fn family_of(library: &str, has_open_mpi_symbol: Option<bool>) -> Option<MpiFamily> {
    // MPICH's own names, its Fortran and C++ libraries, and Cray's builds of it.
    const MPICH: [&str; 9] = [
        "libmpich.so",
        "libmpichfort.so",
        "libmpichcxx.so",
        "libmpifort.so",
        "libmpicxx.so",
        "libmpi_cray.so",
        "libmpi_gnu",
        "libmpi_nvidia",
        "libmpi_amd",
    ];
    // Open MPI's Fortran, C++ and Java libraries, and IBM's build of it.
    const OPEN_MPI: [&str; 6] =
        ["libmpi_mpifh", "libmpi_usempi", "libmpi_cxx.so", "libmpi_java.so", "libmpi_ibm", "liboshmem.so"];
    let name = library.rsplit('/').next().unwrap_or(library);
    let is_any = |names: &[&str]| names.iter().any(|n| name.starts_with(n));
    if is_any(&MPICH) {
        Some(MpiFamily::Mpich)
    } else if is_any(&OPEN_MPI) {
        Some(MpiFamily::OpenMpi)
    } else if name.starts_with("libmpi_abi.so") {
        Some(MpiFamily::StandardAbi)
    } else if name == "libmpi.so" || name.starts_with("libmpi.so.") {
        match has_open_mpi_symbol {
            Some(true) => Some(MpiFamily::OpenMpi),
            Some(false) => Some(MpiFamily::Mpich),
            None if name == "libmpi.so.12" => Some(MpiFamily::Mpich),
            None => Some(MpiFamily::OpenMpi),
        }
    } else {
        None
    }
}

/// The words of a script's first line after `#!`.
fn interpreter(file: &File) -> Option<Vec<String>> {
    let mut head = Vec::new();
    file.take(512).read_to_end(&mut head).ok()?;
    let line = String::from_utf8_lossy(head.strip_prefix(b"#!")?).lines().next()?.to_owned();
    Some(line.split_whitespace().map(str::to_owned).collect())
}

/// The Python that runs a script with these words in its first line.
fn python_of(words: &[String], search: &SearchPaths) -> Option<PathBuf> {
    let (first, rest) = words.split_first()?;
    let first = Path::new(first);
    if is_python(first.file_name()) {
        return Some(first.to_owned());
    }
    if first.file_name() != Some(OsStr::new("env")) {
        return None;
    }
    let name = rest.iter().find(|w| !w.starts_with('-') && !w.contains('='))?;
    is_python(Path::new(name).file_name())
        .then(|| Executable::find(OsStr::new(name), search).ok())?
        .map(|p| p.file)
}

/// `python`, `python3`, `python3.11` and the like, also PyPy.
fn is_python(name: Option<&OsStr>) -> bool {
    let name = name.and_then(OsStr::to_str).unwrap_or("");
    let version = name.strip_prefix("python").or_else(|| name.strip_prefix("pypy"));
    version.is_some_and(|v| v.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

/// Prints where mpi4py's extension module is. Finding it imports the package around it, not the module, so MPI
/// is not started. The package from PyPI has a module for each MPI. It loads an MPI library, such as that of the same virtual
/// environment, to choose one of them; this library is printed, too.
const WHERE_IS_MPI4PY: &str = "\
import importlib.util, os, sys
try: spec = importlib.util.find_spec('mpi4py.MPI')
except ModuleNotFoundError: spec = None
sys.stdout.write('mpi4py at ' + spec.origin if spec and spec.origin else 'no mpi4py')
files = [line.split(None, 5)[-1].strip() for line in open('/proc/self/maps')]
loaded = [file for file in files if os.path.basename(file).startswith('libmpi')]
sys.stdout.write('\\nlibrary at ' + loaded[0] if loaded else '')";

fn ask_python(python: &Path, search: &SearchPaths) -> Result<ProgramMpi, UnclearMpi> {
    let failed = |why: String| UnclearMpi::Python(python.to_owned(), why);
    let mut command = Command::new(python);
    command.args(["-c", WHERE_IS_MPI4PY]).stdin(Stdio::null());
    let output = command.output().map_err(|e| failed(e.to_string()))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(failed(text.lines().last().unwrap_or("it failed without a word").to_owned()));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let Some((_, module)) = text.split_once("mpi4py at ") else {
        return Err(UnclearMpi::NoMpi4py(python.to_owned()));
    };
    let (module, loaded) = module.split_once("\nlibrary at ").unwrap_or((module, ""));
    let module = Path::new(module);
    if let Some(mpi) = loaded_library(Path::new(loaded), module) {
        return Ok(mpi);
    }
    let opened = File::open(module).map_err(|e| failed(format!("{}: {e}", module.display())))?;
    let elf = elf::read(&opened).map_err(|e| failed(format!("{}: {e}", module.display())))?;
    walk(module, elf, search).ok_or(UnclearMpi::NoMpi)
}

/// The MPI whose library a Python has loaded for its module of mpi4py.
fn loaded_library(file: &Path, module: &Path) -> Option<ProgramMpi> {
    let library = file.file_name()?.to_str()?;
    let opened = File::open(file).ok()?;
    let elf = elf::read(&opened).ok()?;
    let family = family_of(library, Some(elf.mentions(&opened, OPEN_MPI_SYMBOL)))?;
    let (library, file, via) = (library.to_owned(), Some(file.to_owned()), vec![module.to_owned()]);
    Some(ProgramMpi { family, library, file, via })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_known_by_name_and_symbol() {
        use MpiFamily::{Mpich, OpenMpi, StandardAbi};
        for (name, symbol, family) in [
            ("libmpich.so.12", None, Some(Mpich)),
            ("libmpi.so.12", None, Some(Mpich)),
            ("libmpi.so.12", Some(false), Some(Mpich)),
            ("libmpi.so.12", Some(true), Some(OpenMpi)),
            ("libmpi.so.40", Some(true), Some(OpenMpi)),
            ("libmpi.so.40", None, Some(OpenMpi)),
            ("/opt/x/libmpi_mpifh.so.40", None, Some(OpenMpi)),
            ("libmpifort.so.12", Some(false), Some(Mpich)),
            ("libmpi_gnu_123.so.12", None, Some(Mpich)),
            ("libmpi_abi.so.1", Some(false), Some(StandardAbi)),
            ("libmpi_abi.so.0", Some(true), Some(StandardAbi)),
            ("libmpigraph.so.1", Some(true), None),
            ("libhdf5_mpich.so.103", Some(false), None),
            ("libc.so.6", Some(false), None),
        ] {
            assert_eq!(family_of(name, symbol), family, "{name} {symbol:?}");
        }
    }

    #[test]
    fn pythons_are_known_by_name() {
        for name in ["python", "python3", "python3.11", "pypy3"] {
            assert!(is_python(Some(OsStr::new(name))), "{name}");
        }
        for name in ["python3-config", "ipython", "perl", "pythonista"] {
            assert!(!is_python(Some(OsStr::new(name))), "{name}");
        }
    }

    #[test]
    fn the_python_of_a_script_is_in_its_first_line() {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let search = SearchPaths::default();
        assert_eq!(python_of(&words("/opt/bin/python3 -u"), &search), Some("/opt/bin/python3".into()));
        assert_eq!(python_of(&words("/bin/sh"), &search), None);
        assert_eq!(python_of(&words("/usr/bin/env perl"), &search), None);
        assert_eq!(python_of(&[], &search), None);
    }
}
