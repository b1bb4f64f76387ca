//! Plays histories and compares.

use std::fs;
use std::path::PathBuf;

use pario_conformance::partition::Site;
use pario_conformance::{HostMpi, scratch, target_dir};

use super::{Script, script};
use crate::table::{all_hold, table_run};

/// Steps of one history; a step is one to a dozen calls.
const STEPS: u64 = 60;
fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Plays histories of consecutive seeds on one launch and compares.
#[track_caller]
pub fn play(host: HostMpi, ranks: u32, count: u64, site: Option<&Site>) {
    let first = number("PARIO_HISTORY_SEED", 1000 * u64::from(ranks));
    let count = number("PARIO_HISTORY_COUNT", count);
    let steps = number("PARIO_HISTORY_STEPS", STEPS) as usize;
    let scripts: Vec<(u64, Script)> = (first..first + count)
        .map(|seed| (seed, script(seed, ranks as usize, &format!("history-{seed}"), steps)))
        .collect();
    let dir = scratch();
    let text: String = scripts.iter().map(|(_, script)| script.text.as_str()).collect();
    fs::write(dir.join("script"), text).expect("a scratch directory takes new files");
    let run = table_run(host, ranks, "history", &dir);
    let (output, files) = match site {
        None => (run.run(), dir.path().to_path_buf()),
        Some(site) => {
            let output = run.on(site, dir.path()).run();
            let files = dir.join("files");
            site.partition.copy_out(&files);
            (output, files)
        }
    };
    let where_from = format!("{} on {ranks} ranks, {site:?}", host.name());
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
        let file = fs::read(files.join(format!("history-{seed}"))).unwrap_or_default();
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
