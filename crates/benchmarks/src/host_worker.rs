//! The worker of a host: starts its processes, forwards orders to those that take part, and answers each with one
//! report.

use crate::orders::{
    MESSAGE_VERSION, ModelOrder, StepReport, WorkerStart, input_lines, line, next_line, parse, send_report,
};
use pario_copy::Connections;
use pario_io_models::Spot;
use parking_lot::Mutex;
use std::ffi::OsString;
use std::io::{self, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// How long to wait for the end of killed processes. One that hangs in the kernel takes longer.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);

/// Cleanup after the run: processes to end, directories to remove.
#[derive(Default)]
struct Remains {
    children: Vec<Child>,
    start: Option<WorkerStart>,
}

/// One process.
struct Process {
    spot: Spot,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// Runs the worker until its input ends. `process_command` starts a process (see [`crate::process_worker`]).
pub fn run(process_command: &[OsString]) -> io::Result<()> {
    let remains = Arc::new(Mutex::new(Remains::default()));
    let at_end = Arc::clone(&remains);
    let lines = input_lines(move || clear(&mut at_end.lock()));
    let done = serve(&lines, &remains, process_command);
    // A report that cannot be written may be the first sign that the coordinator is gone.
    clear(&mut remains.lock());
    done
}

/// Executes orders until the input ends.
fn serve(
    lines: &Receiver<Vec<u8>>,
    remains: &Mutex<Remains>,
    process_command: &[OsString],
) -> io::Result<()> {
    let Ok(first) = lines.recv() else { return Ok(()) };
    let mut processes = match begin(&first, remains, process_command) {
        Ok(processes) => processes,
        Err(error) => return send_report(&StepReport::failed(error.to_string())),
    };
    send_report(&collect(processes.iter_mut()))?;
    for line in lines {
        let Some(model) = parse::<ModelOrder>(&line)?.model() else {
            send_report(&StepReport::failed("there is no such model".to_owned()))?;
            continue;
        };
        let mut members: Vec<&mut Process> =
            processes.iter_mut().filter(|process| model.has(process.spot)).collect();
        for process in &mut members {
            // A process that has ended is found by its missing report.
            let _ = process.input.write_all(&line);
        }
        send_report(&collect(members.into_iter()))?;
    }
    Ok(())
}

/// Starts the processes.
fn begin(first: &[u8], remains: &Mutex<Remains>, process_command: &[OsString]) -> io::Result<Vec<Process>> {
    let start: WorkerStart = parse(first)?;
    if start.version != MESSAGE_VERSION {
        return Err(io::Error::other("it is not the same version of pario"));
    }
    remains.lock().start = Some(start.clone());
    raise_descriptor_limit();
    let (program, arguments) = process_command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut processes = Vec::new();
    for spot in start.spots() {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|cause| {
            io::Error::new(
                cause.kind(),
                format!("process {} cannot be started: {cause}", processes.len() + 1),
            )
        })?;
        let mut input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        remains.lock().children.push(child);
        input.write_all(&line(&start.for_process(spot)))?;
        processes.push(Process { spot, input, output });
    }
    Ok(processes)
}

/// Raises the limit of open files: each process has two pipes.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If the limit is still too low, starting a process fails.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Waits for the reports of the processes, and combines them.
fn collect<'a>(processes: impl Iterator<Item = &'a mut Process>) -> StepReport {
    let reports = processes.map(|process| {
        let report = match next_line(&mut process.output) {
            Ok(Some(line)) => parse(&line).unwrap_or_else(|error| StepReport::failed(error.to_string())),
            Ok(None) => StepReport::failed("it ended or was killed".to_owned()),
            Err(error) => StepReport::failed(error.to_string()),
        };
        let Spot { node, core } = process.spot;
        let error = report.error.map(|error| format!("node {node}, process {core}: {error}"));
        StepReport { error, ..report }
    });
    let none = || StepReport { begin_ns: 0, end_ns: 0, error: None };
    reports.reduce(StepReport::and).unwrap_or_else(none)
}

/// Ends the processes, and removes what they wrote.
fn clear(remains: &mut Remains) {
    for child in &mut remains.children {
        let _ = child.kill();
    }
    let until = Instant::now() + KILL_TIMEOUT;
    for child in &mut remains.children {
        while matches!(child.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    if let Some(start) = &remains.start {
        let mut connections = Connections::for_metadata(start.home.as_deref(), None);
        for directory in &start.directories {
            // The coordinator tries as well if it is still there, and tells the user.
            let _ = directory.open(&mut connections).and_then(|directory| directory.remove_all());
        }
    }
}
