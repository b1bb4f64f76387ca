//! Random access sequences, compared with a flat-byte model of MPI-IO.
//!
//! Each script is a long history of views, pointers, sizes and accesses of every kind on one file. The program
//! `history.c` plays it on 1 to 4 ranks with Pario in front; what each rank read, every pointer, every count
//! and the final file must be what the model says. Seeds are fixed; `PARIO_HISTORY_SEED` chooses others and
//! `PARIO_HISTORY_COUNT` more; fewer `PARIO_HISTORY_STEPS` give a prefix of the same history, to find the first
//! wrong step. The script of a failed history is kept and named.

mod history;
mod table;

use std::fs;
use std::path::PathBuf;

use history::{Script, script};
use pario_conformance::{Host, scratch, target_dir};
use table::{all_hold, table_run};

/// Steps of one history; a step is one to a dozen calls.
const STEPS: u64 = 60;
fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Plays histories of consecutive seeds on one launch and compares.
fn play(host: Host, ranks: u32, count: u64) {
    let first = number("PARIO_HISTORY_SEED", 1000 * u64::from(ranks));
    let count = number("PARIO_HISTORY_COUNT", count);
    let steps = number("PARIO_HISTORY_STEPS", STEPS) as usize;
    let scripts: Vec<(u64, Script)> = (first..first + count)
        .map(|seed| (seed, script(seed, ranks as usize, &format!("history-{seed}"), steps)))
        .collect();
    let dir = scratch();
    let text: String = scripts.iter().map(|(_, script)| script.text.as_str()).collect();
    fs::write(dir.join("script"), text).expect("a scratch directory takes new files");
    let output = table_run(host, ranks, "history", &dir).run();
    let where_from = format!("{} on {ranks} ranks", host.name());
    let mut at = vec![0; ranks as usize];
    for (seed, script) in &scripts {
        for (rank, at) in at.iter_mut().enumerate() {
            let seen = fs::read_to_string(dir.join(format!("out.{rank}"))).unwrap_or_default();
            let want = script.world.lines(rank);
            let got: Vec<&str> = seen.lines().skip(*at).take(want.len()).collect();
            if let Some(i) = (0..want.len()).find(|&i| got.get(i) != Some(&want[i].as_str())) {
                let got = got.get(i).copied().unwrap_or("nothing");
                differs(*seed, script, &where_from, rank, got, &want[i], &output.stderr);
            }
            *at += want.len();
        }
        let file = fs::read(dir.join(format!("history-{seed}"))).unwrap_or_default();
        if file != script.world.file {
            let first = file.iter().zip(&script.world.file).position(|(a, b)| a != b);
            let wrong = file.iter().zip(&script.world.file).filter(|(a, b)| a != b).count();
            let got = format!("a file of {} bytes, {wrong} of them wrong, first at {first:?}", file.len());
            let want = format!("a file of {} bytes", script.world.file.len());
            differs(*seed, script, &where_from, 0, &got, &want, &output.stderr);
        }
    }
    all_hold(&output);
}

/// Keeps the script and says how to play it again.
fn differs(seed: u64, script: &Script, whence: &str, rank: usize, got: &str, want: &str, stderr: &str) -> ! {
    let kept: PathBuf = target_dir().join(format!("history-{seed}.script"));
    fs::write(&kept, &script.text).expect("the build directory takes new files");
    let id = want.split(' ').next().unwrap_or_default();
    let call = script.text.lines().find(|line| line.contains(&format!(" do {id} "))).unwrap_or("no access");
    panic!(
        "seed {seed}, {whence}, rank {rank}: got `{got}`, wanted `{want}`\nthe call: {call}\n\
         the script: {}\nagain: PARIO_HISTORY_SEED={seed} PARIO_HISTORY_COUNT=1\n{stderr}",
        kept.display()
    );
}

#[test]
fn one_rank_mpich() {
    play(Host::Mpich, 1, 24);
}

#[test]
fn one_rank_open_mpi() {
    play(Host::OpenMpi, 1, 24);
}

#[test]
fn two_ranks_mpich() {
    play(Host::Mpich, 2, 16);
}

#[test]
fn two_ranks_open_mpi() {
    play(Host::OpenMpi, 2, 24);
}

#[test]
fn three_ranks_mpich() {
    play(Host::Mpich, 3, 6);
}

#[test]
fn three_ranks_open_mpi() {
    play(Host::OpenMpi, 3, 16);
}

#[test]
fn four_ranks_mpich() {
    play(Host::Mpich, 4, 3);
}

#[test]
fn four_ranks_open_mpi() {
    play(Host::OpenMpi, 4, 12);
}
