//! Runs other programs. Every failure becomes one line that names the program and how it ended.

use std::ffi::OsStr;
use std::fmt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::place;

/// The error as one line for the user.
#[derive(Debug)]
pub struct Failure(String);

pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    pub fn new(line: impl Into<String>) -> Failure {
        Failure(line.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Names the path in an input/output error.
pub fn at<T>(path: &Path, result: std::io::Result<T>) -> Outcome<T> {
    result.map_err(|error| Failure(format!("{}: {error}", path.display())))
}

/// The same cargo that started us, in the repository's root.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(place::root());
    command
}

/// Shows the command, runs it with our terminal, and fails unless it succeeds.
pub fn run(command: &mut Command) -> Outcome {
    println!("+ {}", line(command));
    let status = command.status().map_err(|error| cannot_start(command, &error))?;
    if status.success() { Ok(()) } else { Err(Failure(format!("{}: {status}", line(command)))) }
}

/// Runs the command without its terminal and returns what it said, however it ended.
pub fn capture(command: &mut Command) -> Outcome<Output> {
    command.stdin(Stdio::null()).output().map_err(|error| cannot_start(command, &error))
}

/// Runs the command and returns its standard output; fails, with its error output, unless it succeeds.
pub fn stdout(command: &mut Command) -> Outcome<String> {
    let output = capture(command)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    Err(Failure(format!("{}: {}\n{}", line(command), output.status, words.trim_end())))
}

/// Whether the command can be started and succeeds; it stays silent.
pub fn works(program: impl AsRef<OsStr>, arguments: &[&str]) -> bool {
    capture(Command::new(program).args(arguments)).is_ok_and(|output| output.status.success())
}

fn cannot_start(command: &Command, error: &std::io::Error) -> Failure {
    Failure(format!("cannot start {}: {error}", command.get_program().display()))
}

fn line(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    let words = std::iter::once(name).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
