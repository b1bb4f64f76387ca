//! `pario cp` in a history: files of hosts are copied into the partition, and its files to hosts.
//!
//! A copy that succeeded is a read of the whole file by a worker of its own, or a file of known content in the partition.

use std::time::Duration;

use fastrand::Rng;
use pario_conformance::torture::history::{Call, CallOutcome, Op, content};
use pario_runtime::fs;
use pario_runtime::simulation::process::{self, HostId};
use pario_runtime::simulation::scheduler;

use crate::managed::Managed;
use crate::plan::{FaultKind, Plan};
use crate::program::{CommandRun, NAME};

/// The lengths of the files that are copied into the partition.
const LENGTHS: [u64; 2] = [70_000, 9_000];

/// The workers of copies have numbers that no other worker has.
const FIRST_WORKER: u32 = 1000;

/// The directory of the files of a host.
const DIRECTORY: &str = "/work";

/// The content of a file that is copied into the partition.
fn source(index: usize) -> Vec<u8> {
    content(0x00c0_ffee_0000 + index as u64, 0, LENGTHS[index])
}

/// Every host gets the files that are copied into the partition.
pub fn prepare(plan: &Plan) {
    for host in (1..=plan.hosts).map(HostId) {
        let write = || {
            fs::create_dir_all(DIRECTORY).expect("a directory");
            for index in 0..LENGTHS.len() {
                fs::write(format!("{DIRECTORY}/in{index}"), source(index)).expect("a file");
            }
            fs::File::open(DIRECTORY).and_then(|directory| fs::sync_file_system(&directory)).expect("a sync");
        };
        let process = process::start_process(host, "prepare", write);
        while process::is_alive(process) {
            scheduler::sleep(Duration::from_micros(100));
        }
    }
}

/// The words of a copy.
pub fn draw(plan: &Plan, number: usize, random: &mut Rng) -> Vec<String> {
    let mut words = vec!["cp".to_owned()];
    if plan.slow_copies && random.u32(0..4) > 0 {
        words.extend(
            ["--resume", "--sync"].iter().filter(|_| random.u32(0..3) == 0).map(|word| (*word).to_owned()),
        );
        words.extend(["--slow".to_owned(), format!("{DIRECTORY}/in0"), format!("{NAME}:/copy0")]);
        return words;
    }
    let options = ["--resume", "--sync", "--slow"];
    words.extend(options.iter().filter(|_| random.bool()).map(|option| (*option).to_owned()));
    if random.bool() {
        // Only a long copy notes its progress.
        let index = [0, 0, 1][random.usize(0..3)];
        words.extend([format!("{DIRECTORY}/in{index}"), format!("{NAME}:/copy{index}")]);
    } else {
        let file = random.usize(0..plan.files);
        words.extend([format!("{NAME}:/f{file}"), format!("{DIRECTORY}/out{number}")]);
    }
    words
}

/// Copies that succeeded, as reads of the files of the partition. A disk that lies, or drops what it could not write, may have changed the
/// copies on it.
pub fn reads(plan: &Plan, runs: &[CommandRun]) -> Vec<Call> {
    if plan.has_kind(FaultKind::DiskLies) || plan.has_kind(FaultKind::SyncFails) {
        return Vec::new();
    }
    let read = |(number, run): (usize, &CommandRun)| {
        let (Some((end, 0)), Some(bytes)) = (run.end, &run.copied) else { return None };
        let from = run.words.iter().rev().nth(1)?;
        let file = from.strip_prefix(&format!("{NAME}:/f"))?.parse().ok()?;
        Some(Call {
            worker: FIRST_WORKER + number as u32,
            slot: 0,
            op: Op::Read { file, at: 0, len: bytes.len() as u64 },
            start: run.start,
            end: Some(end),
            outcome: Some(CallOutcome::Bytes(bytes.clone())),
        })
    };
    runs.iter().enumerate().filter_map(read).filter(|call| call.outcome.is_some()).collect()
}

/// Files whose copies into the partition succeeded have their content there. A copy that succeeded is closed, and one that lost bytes with the
/// memory of a host fails (SEMANTICS, W3 and S1), so only losses of power take it.
pub fn check(managed: &Managed, power_losses: &[u64]) -> Result<(), String> {
    for index in 0..LENGTHS.len() {
        let target = format!("{NAME}:/copy{index}");
        let runs = managed.runs();
        let copies = || runs.iter().filter(|run| run.words.last() == Some(&target));
        let Some(begin) = copies().map(|run| run.start).min() else { continue };
        let is_done = copies().any(|run| matches!(run.end, Some((_, 0))));
        if !is_done || power_losses.iter().any(|loss| *loss > begin) {
            continue;
        }
        // All copies to the target have the same content.
        copies()
            .filter_map(|run| run.copied.as_ref())
            .try_for_each(|bytes| compare(bytes, index, &target))?;
        let run = managed.succeed(&["cp", &target, &format!("{DIRECTORY}/last{index}")])?;
        compare(&run.copied.unwrap_or_default(), index, &target)?;
    }
    Ok(())
}

fn compare(bytes: &[u8], index: usize, target: &str) -> Result<(), String> {
    let expected = source(index);
    if bytes == expected {
        return Ok(());
    }
    let differs = bytes.iter().zip(&expected).position(|(found, expected)| found != expected);
    Err(format!(
        "pario cp succeeded, but {target} has {} of {} bytes, and differs first at {differs:?}",
        bytes.len(),
        expected.len()
    ))
}
