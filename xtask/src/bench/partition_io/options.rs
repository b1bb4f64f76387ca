//! What is measured.

use std::fmt;

use crate::host::{HOSTS, Host};
use crate::program::{Failure, Outcome};

pub const HELP: &str = "\
usage: cargo xtask bench partition-io [OPTION]…

  --quick         fewer workloads, 3 turns
  --turns N       turns that count [5]
  --mpi NAME      mpich or openmpi [both]
  --servers N     servers of the partition [2]
  --cache SIZE    memory of each [512M]
  --only NAME     one workload: btio, tile, coll_perf, s3d, flash
  --no-counts     do not count messages and requests of BT on 9 ranks
";

/// One workload at one number of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    pub workload: &'static str,
    pub preset: &'static str,
    pub steps: u32,
    pub ranks: u32,
    /// About how long its pieces are.
    pub piece: u32,
    quick: bool,
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}, {} ranks", self.workload, self.preset, self.ranks)
    }
}

const fn job(workload: &'static str, preset: &'static str, steps: u32, ranks: u32, piece: u32) -> Job {
    Job { workload, preset, steps, ranks, piece, quick: false }
}

const fn quick(job: Job) -> Job {
    Job { quick: true, ..job }
}

const JOBS: [Job; 13] = [
    quick(job("btio", "bt-A", 5, 4, 1280)),
    quick(job("btio", "bt-A", 5, 9, 880)),
    job("btio", "bt-A", 5, 16, 640),
    job("btio", "bt-B", 3, 4, 2040),
    job("btio", "bt-B", 3, 9, 1360),
    job("tile", "medium", 1, 2, 4096),
    quick(job("tile", "medium", 1, 4, 4096)),
    job("coll_perf", "medium", 2, 2, 640),
    quick(job("coll_perf", "fdp-100", 2, 4, 400)),
    job("s3d", "medium", 2, 2, 400),
    quick(job("s3d", "medium", 2, 4, 400)),
    job("flash", "medium", 1, 2, 4096),
    quick(job("flash", "medium", 1, 4, 4096)),
];

pub struct Options {
    pub jobs: Vec<Job>,
    pub hosts: Vec<&'static Host>,
    pub turns: u32,
    pub servers: u32,
    pub cache: String,
    pub counts: bool,
}

pub enum Runs {
    Help,
    With(Options),
}

impl Options {
    pub fn parse(arguments: &[String]) -> Outcome<Runs> {
        let mut options = Options {
            jobs: JOBS.to_vec(),
            hosts: HOSTS.to_vec(),
            turns: 0,
            servers: 2,
            cache: "512M".into(),
            counts: true,
        };
        let mut turns = 5;
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let mut value =
                || words.next().ok_or_else(|| Failure::new(format!("{word}: a value is missing")));
            match word.as_str() {
                "--help" | "-h" => return Ok(Runs::Help),
                "--quick" => {
                    options.jobs.retain(|job| job.quick);
                    turns = 3;
                }
                "--turns" => options.turns = number(word, value()?)?,
                "--servers" => options.servers = number(word, value()?)?,
                "--cache" => options.cache = value()?.clone(),
                "--no-counts" => options.counts = false,
                "--mpi" => {
                    let name = value()?;
                    options.hosts.retain(|host| host.name == name);
                }
                "--only" => {
                    let name = value()?;
                    options.jobs.retain(|job| job.workload == name);
                }
                _ => return Err(Failure::new(format!("`{word}`: no such option\n{HELP}"))),
            }
        }
        if options.turns == 0 {
            options.turns = turns;
        }
        if options.jobs.is_empty() || options.hosts.is_empty() {
            return Err(Failure::new(format!("nothing of that name to measure\n{HELP}")));
        }
        Ok(Runs::With(options))
    }

    pub fn legend(&self) -> String {
        let Options { servers, cache, turns, .. } = self;
        format!(
            "A partition of {servers} servers on this host with {cache} of cache each; {turns} turns. write and read: \
             milliseconds in\nthe calls of the slowest rank; open to close: of all files, both phases. Medians; in \
             brackets the host's time\nin memory (/dev/shm) divided by this one's, median (quartiles) over turns: more \
             than 1 is faster than the host."
        )
    }
}

fn number(word: &str, value: &str) -> Outcome<u32> {
    match value.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(Failure::new(format!("{word} {value}: a positive number is needed"))),
    }
}
