//! Workloads of scientific programs on a partition: each strategy beside the host's own MPI-IO on files.
//!
//! The program is `crates/workloads/c`, unchanged for all contenders. One start of it writes a workload's files, reads
//! them back and compares every byte; the contenders' starts take turns, so that a slow minute of the machine hits
//! all of them, and a ratio is that of two starts of one turn. The partition stays up; its servers keep dirty blocks in
//! memory and store them on the disk of the build in the background.

mod counts;
mod options;
mod outcome;
mod table;

use std::path::PathBuf;
use std::process::Command;

use super::partition::network::Between;
use super::partition::site::{Partition, Site};
use crate::host::Host;
use crate::place;
use crate::program::{self, Failure, Outcome, at};
use crate::{setup, test};

use options::{Job, Options, Runs};
use outcome::Seconds;
use table::Table;

/// The partition's name.
const NAME: &str = "large";

/// Where a contender's files are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Files of this directory of [`place::scratch`], by the host's own MPI-IO.
    Host(usize),
    /// The partition, with this strategy.
    Partition(&'static str),
}

/// The contenders, in the order of the table.
const CONTENDERS: [(&str, Place); 5] = [
    ("host, memory", Place::Host(0)),
    ("host, disk", Place::Host(1)),
    ("two-phase", Place::Partition("two-phase")),
    ("server-directed", Place::Partition("server-directed")),
    ("client-directed", Place::Partition("client-directed")),
];

pub fn run(arguments: &[String]) -> Outcome {
    let options = match Options::parse(arguments)? {
        Runs::Help => {
            print!("{}", options::HELP);
            return Ok(());
        }
        Runs::With(options) => options,
    };
    setup::compilers_and_mpis()?;
    test::release_build()?;
    println!("\n{}\n{}", options.legend(), super::load());
    let site = Site::create(&place::target().join("bench/partition-io"), &place::binary())?;
    let mut tables = Vec::new();
    for host in &options.hosts {
        let program = workload(host, &site)?;
        let bench = Bench { host, program, site: &site, options: &options };
        for job in &options.jobs {
            let table = bench.measure(job)?;
            table.show();
            tables.push(table);
        }
        if options.counts {
            counts::show(&bench)?;
        }
    }
    table::aims(&tables);
    Ok(())
}

/// The program, compiled for a host.
fn workload(host: &Host, site: &Site) -> Outcome<PathBuf> {
    let dir = site.dir().join(host.name);
    at(&dir, std::fs::create_dir_all(&dir))?;
    let program = dir.join("pario-workload");
    let sources = place::root().join("crates/workloads/c");
    let mut command = Command::new(host.mpicc);
    command.args(["-std=c11", "-O2", "-D_GNU_SOURCE", "-o"]).arg(&program);
    let entries = at(&sources, std::fs::read_dir(&sources))?;
    for entry in entries {
        let path = at(&sources, entry)?.path();
        if path.extension().is_some_and(|extension| extension == "c") {
            command.arg(path);
        }
    }
    program::stdout(command.arg("-lm"))?;
    Ok(program)
}

/// One host's programs.
struct Bench<'a> {
    host: &'a Host,
    program: PathBuf,
    site: &'a Site,
    options: &'a Options,
}

impl Bench<'_> {
    fn up(&self) -> Outcome<Partition<'_>> {
        let cache = format!("cache={}", self.options.cache);
        self.site.up(NAME, self.options.servers, &[&cache], &Between::Nothing)
    }

    fn measure(&self, job: &Job) -> Outcome<Table> {
        let partition = self.up()?;
        let scratch = place::scratch();
        let mut table = Table::new(self.host, job);
        // One turn that does not count: what is done once (connections, memory for caches) is done.
        for turn in 0..=self.options.turns {
            let mut seconds = Vec::new();
            for index in 0..CONTENDERS.len() {
                let (name, place) = CONTENDERS[(index + turn as usize) % CONTENDERS.len()];
                let outcome = self.start(job, place, &partition, &scratch);
                seconds.push((name, outcome.map_err(|e| Failure::new(format!("{name}, {job}: {e}")))?));
            }
            if turn > 0 {
                table.add(&seconds);
            }
        }
        table.limit(self.options.turns);
        Ok(table)
    }

    fn start(
        &self,
        job: &Job,
        place: Place,
        partition: &Partition<'_>,
        scratch: &[(&'static str, PathBuf); 2],
    ) -> Outcome<Seconds> {
        let (mut command, dir) = match place {
            Place::Host(which) => {
                let dir = scratch[which].1.clone();
                at(&dir, std::fs::create_dir_all(&dir))?;
                (self.host.launch(job.ranks), dir)
            }
            Place::Partition(strategy) => {
                let mut command = self.host.launch_with_pario(job.ranks);
                command.arg(format!("PARIO_HINTS=pario_strategy={strategy}"));
                command.arg(format!("PARIO_HOME={}", partition.home().display()));
                (command, PathBuf::from(format!("pario:{NAME}")))
            }
        };
        command.arg(&self.program).arg(job.workload).args(["--preset", job.preset]);
        command.args(["--steps", &job.steps.to_string(), "--json", "-", "--dir"]).arg(&dir);
        let said = program::stdout(&mut command);
        if let Place::Host(_) = place {
            at(&dir, std::fs::remove_dir_all(&dir))?;
        }
        Seconds::parse(&said?)
    }
}
