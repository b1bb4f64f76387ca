//! Commands that start simulated processes, with the interface of `std::process`.
//!
//! Every program is `pario`, whose main function the simulation sets, except `ssh`, which starts a process on another simulated host.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use super::host::host_named;
use super::network;
use super::process::{self, HostId, SimulatedPid};
use super::process_table::{
    self, PipeEnd, PipeNumber, ProcessEnd, Program, StandardStreams, close_pipe, make_pipe, note_end,
    read_pipe, write_pipe,
};
use super::scheduler::{self, start_task};

/// How long `ssh` tries to connect to a host that is cut off.
const CONNECT: Duration = Duration::from_secs(20);

/// The exit code of `ssh` if it cannot connect.
const NO_CONNECTION: u8 = 255;

/// The exit code of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitCode(u8);

impl ExitCode {
    /// All is well.
    pub const SUCCESS: ExitCode = ExitCode(0);
    /// It is not.
    pub const FAILURE: ExitCode = ExitCode(1);

    /// Its value.
    pub fn value(self) -> u8 {
        self.0
    }
}

impl From<u8> for ExitCode {
    fn from(code: u8) -> ExitCode {
        ExitCode(code)
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitStatus(ProcessEnd);

impl ExitStatus {
    /// Whether it returned 0.
    pub fn success(&self) -> bool {
        self.code() == Some(0)
    }

    /// The code that it returned.
    pub fn code(&self) -> Option<i32> {
        match self.0 {
            ProcessEnd::Code(code) => Some(code.into()),
            ProcessEnd::Signal(_) => None,
        }
    }
}

impl fmt::Display for ExitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ProcessEnd::Code(code) => write!(f, "exit status: {code}"),
            ProcessEnd::Signal(signal) => write!(f, "signal: {signal}"),
        }
    }
}

/// What a standard stream of a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stdio {
    #[doc(hidden)]
    Inherited,
    #[doc(hidden)]
    Nothing,
    #[doc(hidden)]
    Pipe,
}

impl Stdio {
    /// That of the process that starts it.
    pub fn inherit() -> Stdio {
        Stdio::Inherited
    }

    /// It is always empty.
    pub fn null() -> Stdio {
        Stdio::Nothing
    }

    /// A pipe from or to the process that starts it.
    pub fn piped() -> Stdio {
        Stdio::Pipe
    }
}

/// A file for messages. They are in the log of the simulation, too.
impl From<super::fs::File> for Stdio {
    fn from(_: super::fs::File) -> Stdio {
        Stdio::Nothing
    }
}

/// A process to start.
#[derive(Debug)]
pub struct Command {
    program: OsString,
    arguments: Vec<OsString>,
    input: Stdio,
    output: Stdio,
    error: Stdio,
}

impl Command {
    /// The program.
    pub fn new(program: impl AsRef<OsStr>) -> Command {
        let inherit = Stdio::Inherited;
        let program = program.as_ref().to_owned();
        Command { program, arguments: Vec::new(), input: inherit, output: inherit, error: inherit }
    }

    /// Adds an argument.
    pub fn arg(&mut self, argument: impl AsRef<OsStr>) -> &mut Command {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    pub fn args(&mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> &mut Command {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Its standard input.
    pub fn stdin(&mut self, input: impl Into<Stdio>) -> &mut Command {
        self.input = input.into();
        self
    }

    /// Its standard output.
    pub fn stdout(&mut self, output: impl Into<Stdio>) -> &mut Command {
        self.output = output.into();
        self
    }

    /// Its standard error.
    pub fn stderr(&mut self, error: impl Into<Stdio>) -> &mut Command {
        self.error = error.into();
        self
    }

    /// The program.
    pub fn get_program(&self) -> &OsStr {
        &self.program
    }

    /// Starts the process.
    pub fn spawn(&mut self) -> io::Result<Child> {
        scheduler::point();
        let words =
            |words: &[OsString]| words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let words: Vec<String> = words(&self.arguments);
        let own = process_table::standard_streams();
        let open = |kind: Stdio, inherited: Option<PipeNumber>, parent: PipeEnd| match kind {
            Stdio::Inherited => (inherited, None),
            Stdio::Nothing => (None, None),
            Stdio::Pipe => {
                let pipe = make_pipe(parent);
                (Some(pipe), Some(pipe))
            }
        };
        let (input, stdin) = open(self.input, own.input, PipeEnd::Write);
        let (output, stdout) = open(self.output, own.output, PipeEnd::Read);
        let (error, stderr) = open(self.error, own.error, PipeEnd::Read);
        let streams = StandardStreams { input, output, error };
        let is_ssh = Path::new(&self.program).file_name().is_some_and(|name| name == "ssh");
        let main = if is_ssh { Rc::new(run_on_other_host) } else { process_table::program() };
        let host = process::current_host();
        let process = start(host, words, streams, main);
        Ok(Child {
            stdin: stdin.map(|pipe| ChildStdin(OpenPipe(pipe, PipeEnd::Write))),
            stdout: stdout.map(|pipe| ChildStdout(OpenPipe(pipe, PipeEnd::Read))),
            stderr: stderr.map(|pipe| ChildStderr(OpenPipe(pipe, PipeEnd::Read))),
            process,
        })
    }
}

/// Settings of commands that only Unix has.
pub trait CommandExt {
    /// Puts the process into a group, which makes no difference to a simulated one.
    fn process_group(&mut self, group: i32) -> &mut Self;
}

impl CommandExt for Command {
    fn process_group(&mut self, _group: i32) -> &mut Command {
        self
    }
}

fn start(host: HostId, words: Vec<String>, streams: StandardStreams, main: Program) -> SimulatedPid {
    let is_named = |word: &&String| !word.starts_with('-');
    let name = words.iter().filter(is_named).cloned().collect::<Vec<_>>().join(" ");
    let process = scheduler::with(|scheduler| {
        let parent = scheduler.owner();
        let process = scheduler.add_process(host, &name);
        scheduler.table.add(process, parent, words.clone(), streams);
        process
    });
    let main = move || exit(main(&words));
    start_task(process, "main".into(), Box::new(main));
    process
}

/// Starts `pario` on a host as a process that nobody waits for, with these arguments.
pub fn start_program(host: HostId, arguments: &[&str]) -> SimulatedPid {
    let words = arguments.iter().map(|word| (*word).to_owned()).collect();
    start(host, words, StandardStreams::default(), process_table::program())
}

/// `ssh … -- NODE COMMAND`: the command has the standard streams of this process.
fn run_on_other_host(words: &[String]) -> u8 {
    let mut words = words.iter().skip_while(|word| *word != "--").skip(1);
    let (Some(node), Some(command)) = (words.next(), words.next()) else { return NO_CONNECTION };
    let Some(host) = host_named(node) else { return NO_CONNECTION };
    let until = scheduler::now() + scheduler::nanos(CONNECT);
    while network::is_cut(host) || network::is_cut(process::current_host()) {
        if scheduler::now() > until {
            return NO_CONNECTION;
        }
        scheduler::sleep(Duration::from_millis(500));
    }
    let words = command.split(' ').skip(1).map(str::to_owned).collect();
    let remote = start(host, words, process_table::standard_streams(), process_table::program());
    match process_table::wait_for_end(remote) {
        ProcessEnd::Code(code) => code,
        ProcessEnd::Signal(_) => NO_CONNECTION,
    }
}

/// A process that this one has started.
#[derive(Debug)]
pub struct Child {
    /// Its input, if that is a pipe.
    pub stdin: Option<ChildStdin>,
    /// Its output, if that is a pipe.
    pub stdout: Option<ChildStdout>,
    /// Its messages, if they go to a pipe.
    pub stderr: Option<ChildStderr>,
    process: SimulatedPid,
}

impl Child {
    /// Its number.
    pub fn id(&self) -> u32 {
        self.process.0
    }

    /// Kills it.
    pub fn kill(&mut self) -> io::Result<()> {
        process_table::send_signal(self.process, libc::SIGKILL);
        Ok(())
    }

    /// Closes its input and waits for its end.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        self.stdin = None;
        Ok(ExitStatus(process_table::wait_for_end(self.process)))
    }

    /// How it ended, if it has.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        scheduler::point();
        Ok(process_table::end_of(self.process).map(ExitStatus))
    }
}

/// An open end of a pipe.
#[derive(Debug)]
struct OpenPipe(PipeNumber, PipeEnd);

impl Drop for OpenPipe {
    fn drop(&mut self) {
        close_pipe(self.0, self.1);
    }
}

/// The input of a process.
#[derive(Debug)]
pub struct ChildStdin(OpenPipe);

/// The output of a process.
#[derive(Debug)]
pub struct ChildStdout(OpenPipe);

/// The messages of a process.
#[derive(Debug)]
pub struct ChildStderr(OpenPipe);

impl Write for ChildStdin {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        write_pipe(self.0.0, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for ChildStdout {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        Ok(read_pipe(self.0.0, bytes))
    }
}

impl Read for ChildStderr {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        Ok(read_pipe(self.0.0, bytes))
    }
}

/// The standard input of the current process.
#[derive(Debug)]
pub struct Stdin(());

/// The standard output of the current process.
#[derive(Debug)]
pub struct Stdout(());

/// The standard input of the current process.
pub fn stdin() -> Stdin {
    Stdin(())
}

/// The standard output of the current process.
pub fn stdout() -> Stdout {
    Stdout(())
}

impl Stdout {
    /// The same, for this thread alone.
    pub fn lock(self) -> Stdout {
        self
    }
}

impl Read for Stdin {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        Ok(process_table::standard_streams().input.map_or(0, |pipe| read_pipe(pipe, bytes)))
    }
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        process_table::standard_streams().output.map_or(Ok(bytes.len()), |pipe| write_pipe(pipe, bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The number of the current process.
pub fn id() -> u32 {
    process::current_process().0
}

/// The number of the parent of the current process.
pub fn parent_id() -> u32 {
    process_table::parent().0
}

/// The file of the program `pario`.
pub fn current_exe() -> io::Result<PathBuf> {
    Ok(PathBuf::from("/bin/pario"))
}

/// Ends the current process.
pub fn exit(code: u8) -> ! {
    scheduler::log(format!("exits with {code}"));
    note_end(ProcessEnd::Code(code));
    process::abort()
}
