//! The part of a host: its processes, and one report for what they all did.

use super::super::message::{Order, Report, Start, VERSION, say};
use super::{Part, command, lines, message};
use crate::env::Environment;
use crate::files::session::Session;
use pario_io_models::Spot;
use pario_launch::message::{line, next_line};
use std::io::{self, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long processes that were killed may take to end. One that hangs in the kernel takes longer.
const GRACE: Duration = Duration::from_secs(2);

/// What is left to do when `pario models` is gone: the processes to end, the directories to remove.
#[derive(Default)]
struct Remains {
    children: Vec<Child>,
    start: Option<Start>,
}

/// One process.
struct Process {
    spot: Spot,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

pub fn main(env: &Environment) -> io::Result<()> {
    let remains = Arc::new(Mutex::new(Remains::default()));
    let (at_end, also_env) = (Arc::clone(&remains), env.clone());
    let lines = lines(move || clear(&mut lock(&at_end), &also_env));
    let done = serve(&lines, &remains);
    // The first sign that `pario models` is gone may be that it does not hear us.
    clear(&mut lock(&remains), env);
    done
}

/// Follows orders as long as somebody hears the reports.
fn serve(lines: &Receiver<Vec<u8>>, remains: &Mutex<Remains>) -> io::Result<()> {
    let Ok(first) = lines.recv() else { return Ok(()) };
    let mut processes = match begin(&first, remains) {
        Ok(processes) => processes,
        Err(error) => return say(&Report::failed(error.to_string())),
    };
    say(&collect(processes.iter_mut()))?;
    for line in lines {
        let Some(model) = message::<Order>(&line)?.model() else {
            say(&Report::failed("there is no such model".to_owned()))?;
            continue;
        };
        let mut team: Vec<&mut Process> =
            processes.iter_mut().filter(|process| model.has(process.spot)).collect();
        for process in &mut team {
            // One that is gone is noticed by what it does not say.
            let _ = process.input.write_all(&line);
        }
        say(&collect(team.into_iter()))?;
    }
    Ok(())
}

/// Starts the processes.
fn begin(first: &[u8], remains: &Mutex<Remains>) -> io::Result<Vec<Process>> {
    let start: Start = message(first)?;
    if start.version != VERSION {
        return Err(io::Error::other("it is not the same version of pario"));
    }
    lock(remains).start = Some(start.clone());
    more_descriptors();
    let [program, arguments @ ..] = command(Part::Process)?;
    let mut processes = Vec::new();
    for spot in start.spots() {
        let mut command = Command::new(&program);
        command.args(&arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|cause| {
            io::Error::new(
                cause.kind(),
                format!("process {} cannot be started: {cause}", processes.len() + 1),
            )
        })?;
        let mut input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        lock(remains).children.push(child);
        input.write_all(&line(&start.for_process(spot)))?;
        processes.push(Process { spot, input, output });
    }
    Ok(processes)
}

/// Two pipes for each process are more than many systems allow at first.
fn more_descriptors() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If that does not do, starting a process says so.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Waits for a report of each and makes them one.
fn collect<'a>(processes: impl Iterator<Item = &'a mut Process>) -> Report {
    let reports = processes.map(|process| {
        let report = match next_line(&mut process.output) {
            Ok(Some(line)) => message(&line).unwrap_or_else(|error| Report::failed(error.to_string())),
            Ok(None) => Report::failed("it ended or was killed".to_owned()),
            Err(error) => Report::failed(error.to_string()),
        };
        let Spot { node, core } = process.spot;
        let error = report.error.map(|error| format!("node {node}, process {core}: {error}"));
        Report { error, ..report }
    });
    let none = || Report { begin_ns: 0, end_ns: 0, error: None };
    reports.reduce(Report::and).unwrap_or_else(none)
}

/// Ends the processes and removes what they wrote.
fn clear(remains: &mut Remains, env: &Environment) {
    for child in &mut remains.children {
        let _ = child.kill();
    }
    let until = Instant::now() + GRACE;
    for child in &mut remains.children {
        while matches!(child.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    if let Some(start) = &remains.start {
        let env = Environment { home: start.home.clone(), ..env.clone() };
        let mut session = Session::of_tool(&env);
        for place in &start.places {
            // Whoever started us, if still there, tries as well, and tells the user.
            let _ = place.enter(&mut session).and_then(|directory| directory.clear());
        }
    }
}

fn lock(remains: &Mutex<Remains>) -> MutexGuard<'_, Remains> {
    remains.lock().unwrap_or_else(PoisonError::into_inner)
}
