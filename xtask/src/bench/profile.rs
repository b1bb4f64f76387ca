//! What `pario profile` costs a program that does many accesses of 4 KiB, and whether it keeps them all.
//!
//! The program is `xtask/bench/profile.c`; its files stay in the page cache, so that nothing hides the
//! cost. It is started with and without recording at the same time on the same core, so that both meet the
//! same machine, however busy it is with others, and however much its cores differ. Beside the difference
//! stands what `pario profile` says of itself.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::host::{HOSTS, Host};
use crate::numbers::Times;
use crate::place;
use crate::program::{self, Failure, Outcome, at};
use crate::setup;
use crate::test;

const RANKS: u32 = 1;
const OPERATIONS: u64 = 2_500_000;
const TURNS: u32 = 4;

pub fn run() -> Outcome {
    setup::compilers_and_mpis()?;
    test::release_build()?;
    let all = OPERATIONS * u64::from(RANKS);
    println!(
        "\n{all} accesses of 4 KiB by one rank, {TURNS} starts of both contenders on one core at once; nanoseconds of processor \
         time per\naccess, median (min–max) of the starts' medians, and the median of the starts' differences. {}",
        super::load()
    );
    let programs = place::target().join("bench");
    let [_, (_, dir)] = place::scratch();
    for host in HOSTS {
        let program = host.compile("xtask/bench/profile.c", &programs)?;
        at(&dir, std::fs::create_dir_all(&dir))?;
        let result = take_turns(host, &program, &dir);
        at(&dir, std::fs::remove_dir_all(&dir))?;
        show(host, &result?);
    }
    Ok(())
}

/// What came out, without and with recording.
#[derive(Default)]
struct Result {
    write: [Times; 2],
    read: [Times; 2],
    /// How much more a write took recorded, and a read.
    more: [Times; 2],
    peak_kib: [u64; 2],
    said_ns: Times,
    trace_bytes: u64,
}

fn take_turns(host: &Host, program: &Path, dir: &Path) -> Outcome<Result> {
    let mut result = Result::default();
    let trace = dir.join("trace");
    for turn in 0..TURNS {
        let mut both = Vec::new();
        for (recorded, command) in [host.launch_with_pario(RANKS), profiled(host, &trace)].iter().enumerate()
        {
            let mut command = on_core(turn % 2, command);
            let files = dir.join(recorded.to_string());
            at(&files, std::fs::create_dir_all(&files))?;
            command.arg(program).arg(files).arg(OPERATIONS.to_string());
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            both.push(at(program, command.spawn())?);
        }
        let mut more = [0.0; 2];
        for (recorded, child) in both.into_iter().enumerate() {
            let output = at(program, child.wait_with_output())?;
            let (said, errors) = (text(&output.stdout), text(&output.stderr));
            let numbers = said.lines().find_map(parse);
            let Some((write, read, peak)) = numbers.filter(|_| output.status.success()) else {
                return Err(Failure::new(format!("{}: the program failed: {said}{errors}", host.label)));
            };
            result.write[recorded].add(write);
            result.read[recorded].add(read);
            more = [write - more[0], read - more[1]];
            result.peak_kib[recorded] = result.peak_kib[recorded].max(peak);
            if recorded == 1 {
                let own = errors.lines().find_map(own_cost);
                result.said_ns.add(own.ok_or_else(|| Failure::new(format!("no cost is printed: {errors}")))?);
                result.trace_bytes = complete(&trace)?;
                at(&trace, std::fs::remove_dir_all(&trace))?;
            }
        }
        result.more[0].add(more[0]);
        result.more[1].add(more[1]);
    }
    Ok(result)
}

/// The same command, kept on one core.
fn on_core(core: u32, command: &Command) -> Command {
    let mut kept = Command::new("taskset");
    kept.arg("-c").arg(core.to_string()).arg(command.get_program()).args(command.get_args());
    kept.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    kept
}

fn profiled(host: &Host, trace: &Path) -> Command {
    let mut command = Command::new(place::binary());
    command.env("PARIO_LIB", place::library()).arg("profile").arg("--dir").arg(trace).arg("--");
    let launch = host.launch(RANKS);
    command.arg(launch.get_program()).args(launch.get_args());
    command
}

/// Fails unless every access is in the trace; its size.
fn complete(trace: &Path) -> Outcome<u64> {
    let mut command = Command::new(place::binary());
    let said = program::stdout(command.args(["trace", "summary", "--op", "read,write"]).arg(trace))?;
    let wanted = format!("{} operations ", OPERATIONS * u64::from(RANKS));
    if !said.starts_with(&wanted) {
        return Err(Failure::new(format!("the trace does not have all accesses: {said}")));
    }
    let mut bytes = 0;
    for entry in at(trace, std::fs::read_dir(trace))? {
        bytes += at(trace, at(trace, entry)?.metadata())?.len();
    }
    Ok(bytes)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// `profile 1800.0 1300.0 19000`
fn parse(line: &str) -> Option<(f64, f64, u64)> {
    let mut words = line.strip_prefix("profile ")?.split_whitespace();
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

/// `pario: recording cost 90 ns per operation, …`
fn own_cost(line: &str) -> Option<f64> {
    line.strip_prefix("pario: recording cost ")?.split(' ').next()?.parse().ok()
}

fn show(host: &Host, result: &Result) {
    println!("\n{}\n{:<6}{:>26}{:>26}{:>10}{:>9}", host.label, "", "without", "recorded", "more", "");
    for (name, [without, with], more) in
        [("write", &result.write, &result.more[0]), ("read", &result.read, &result.more[1])]
    {
        let (difference, percent) = (more.median(), 100.0 * more.median() / without.median());
        let [without, with] = [without, with].map(spread);
        println!("{name:<6}{without:>26}{with:>26}{difference:>7.0} ns{percent:>7.1} %");
    }
    let more = result.more.iter().map(Times::median).sum::<f64>() / 2.0;
    let [without, with] = result.peak_kib;
    println!(
        "measured {more:.0} ns per access; pario profile says {:.0}. All accesses are in the trace, {} MiB.\n\
         Peak memory of a rank: {without} KiB without, {with} KiB recorded.",
        result.said_ns.median(),
        result.trace_bytes >> 20
    );
}

fn spread(times: &Times) -> String {
    format!("{:.0} ({:.0}–{:.0})", times.median(), times.min(), times.max())
}

#[cfg(test)]
mod tests {
    use super::{own_cost, parse};

    #[test]
    fn lines_are_read() {
        assert_eq!(parse("profile 1800.5 1300 19000"), Some((1800.5, 1300.0, 19000)));
        assert_eq!(parse("profile 1800.5"), None);
        assert_eq!(own_cost("pario: recording cost 90 ns per operation, measured"), Some(90.0));
    }
}
