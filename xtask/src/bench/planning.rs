//! How long `pario plan` takes for ten million accesses, which give nearly as many chunks.
//!
//! 64 processes take turns in blocks of 4 KiB of a file, and each reads where its block meets the next one.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::numbers::Times;
use crate::place;
use crate::program::{self, Outcome, at};
use crate::test;

const ACCESSES: u64 = 10_000_000;
const PROCESSES: u64 = 64;
const BLOCK: u64 = 4096;
const TURNS: u32 = 3;

pub fn run() -> Outcome {
    test::release_build()?;
    let [_, (_, dir)] = place::scratch();
    at(&dir, std::fs::create_dir_all(&dir))?;
    let result = measure(&dir);
    at(&dir, std::fs::remove_dir_all(&dir))?;
    result
}

fn measure(dir: &Path) -> Outcome {
    let table = dir.join("accesses.csv");
    at(&table, write(&table))?;
    let log = dir.join("accesses.darshan");
    let mut convert = Command::new(place::binary());
    program::run(convert.arg("convert").arg(&table).args(["--to", "darshan"]).arg(&log))?;
    println!("\n{ACCESSES} accesses, {TURNS} times each, seconds. {}", super::load());
    for (name, profile) in [("CSV table", &table), ("Darshan log", &log)] {
        let mut times = Times::default();
        let mut said = String::new();
        for _ in 0..TURNS {
            let began = Instant::now();
            said = program::stdout(Command::new(place::binary()).arg("plan").arg(profile))?;
            times.add(began.elapsed().as_secs_f64());
        }
        let first = said.lines().next().unwrap_or_default();
        println!("{name:<12}{:>6.1} ({:.1}–{:.1})   {first}", times.median(), times.min(), times.max());
    }
    Ok(())
}

fn write(table: &Path) -> std::io::Result<()> {
    let mut output = BufWriter::with_capacity(1 << 20, File::create(table)?);
    writeln!(output, "process,file,offset,length,op,time_ns")?;
    for block in 0..ACCESSES / 2 {
        let (process, offset) = (block % PROCESSES, block * BLOCK);
        writeln!(output, "{process},out.dat,{offset},{BLOCK},write,{}", 2 * block)?;
        writeln!(output, "{process},out.dat,{},128,read,{}", offset + BLOCK - 64, 2 * block + 1)?;
    }
    output.flush()
}
