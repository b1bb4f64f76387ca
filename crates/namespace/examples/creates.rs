//! Measures how fast files are created and recovered, and their memory: `cargo run --release --example creates [files]
//! [dir]`.
//!
//! It creates a directory below `dir` (default /dev/shm) and removes it at the end.

use std::path::Path;
use std::time::Instant;

use pario_namespace::{Caller, CreateMode, Error, LayoutRequest, Namespace, NamespaceConfig, OpenAccess};
use pario_types::{ClientId, PartitionId, RequestId, Stamp};

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let files: u64 = arguments.next().and_then(|files| files.parse().ok()).unwrap_or(1_000_000);
    let base = arguments.next().unwrap_or_else(|| "/dev/shm".into());
    let dir = Path::new(&base).join(format!("pario-creates-{}", std::process::id()));
    let result = measure(files, &dir);
    std::fs::remove_dir_all(&dir).expect("made above");
    result
}

fn measure(files: u64, dir: &Path) -> Result<(), Error> {
    let config = NamespaceConfig::new(PartitionId(1), 4, 1 << 20);
    let (mut names, _) = Namespace::open(dir, config, Stamp::now())?;
    let by = |request| Caller { client: ClientId(7), request: RequestId(request), now: Stamp::now() };
    for d in 0..10 {
        names.make_directory(&format!("/run{d}"), 0o755, false, by(d + 1))?;
    }
    let before = resident();
    let mut longest = 0.0f64;
    let start = Instant::now();
    for n in 0..files {
        let one = Instant::now();
        let path = format!("/run{}/rank-{n:08}.dat", n % 10);
        let (request, layout_request) = (2 * n + 100, LayoutRequest::default());
        let made = names
            .open_file(&path, OpenAccess::Write, CreateMode::Exclusive, 0o644, layout_request, by(request))?
            .attributes;
        names.close(made.file, None, by(request + 1))?;
        longest = longest.max(one.elapsed().as_secs_f64());
    }
    say("create and close", files, start);
    println!(
        "  longest {:.0} ms (with a snapshot), journal and snapshot {} MB",
        longest * 1e3,
        names.counts().bytes >> 20
    );
    println!(
        "  memory {} MB, {} bytes per file",
        (resident() - before) >> 20,
        (resident() - before) / files.max(1)
    );

    let start = Instant::now();
    let mut after = String::new();
    let mut listed = 0;
    loop {
        let (page, more) = names.read_directory("/run0", &after, 1000)?;
        listed += page.len() as u64;
        match page.last() {
            Some(last) if more => after = last.name.clone(),
            _ => break,
        }
    }
    say("list", listed, start);

    let start = Instant::now();
    names.snapshot()?;
    say("snapshot", files, start);
    println!("  snapshot {} MB", names.counts().bytes >> 20);
    drop(names);

    let start = Instant::now();
    let (mut names, recovered) = Namespace::open(dir, config, Stamp::now())?;
    say("recover", recovered.records, start);

    let start = Instant::now();
    for n in 0..files {
        names.unlink(&format!("/run{}/rank-{n:08}.dat", n % 10), by(0))?;
    }
    say("unlink", files, start);
    drop(names);

    let start = Instant::now();
    let (mut names, recovered) = Namespace::open(dir, config, Stamp::now())?;
    say("recover", recovered.records, start);

    names.end_grace_period();
    let start = Instant::now();
    loop {
        let orphans = names.take_orphans(1000);
        if orphans.is_empty() {
            break;
        }
        for (file, _) in orphans {
            names.reaped(file, Stamp::now())?;
        }
    }
    say("reap", files, start);
    Ok(())
}

fn say(what: &str, count: u64, start: Instant) {
    let seconds = start.elapsed().as_secs_f64();
    println!("{what}: {count} in {seconds:.2} s, {:.0}/s", count as f64 / seconds);
}

/// Bytes of memory of this process.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}
