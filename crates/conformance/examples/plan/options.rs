//! The command line.

use std::path::PathBuf;

use pario_conformance::HostMpi;

use crate::jobs::{JOBS, Job};

pub const HELP: &str = "\
usage: cargo xtask bench plan [OPTION]…

Needs root: it makes hosts of namespaces on this machine.

  --turns N        turns that count [5]
  --rate N[,N]     Mbit/s of each host's link, in each direction [100,1000]
  --mpi NAME       mpich or openmpi [openmpi]
  --only NAME[,…]  these workloads: btio, seismic, tile, perf, mandelbrot, jacobi, fft
  --preset NAME    all of them so large, such as small to try it out
  --cache SIZE     memory of each server [512M]
  --timeout N      seconds that a run may take [300]
  --json FILE      all measurements
";

pub struct Options {
    pub host: HostMpi,
    pub jobs: Vec<Job>,
    pub turns: usize,
    pub rates: Vec<u32>,
    pub cache: String,
    pub timeout: u64,
    pub json: Option<PathBuf>,
}

pub enum Runs {
    Help,
    With(Options),
}

impl Options {
    pub fn parse(mut words: impl Iterator<Item = String>) -> Result<Runs, String> {
        let mut options = Options {
            host: HostMpi::OpenMpi,
            jobs: JOBS.to_vec(),
            turns: 5,
            rates: vec![100, 1000],
            cache: "512M".into(),
            timeout: 300,
            json: None,
        };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word}: a value is missing"));
            match word.as_str() {
                "--help" | "-h" => return Ok(Runs::Help),
                "--turns" => options.turns = number(&word, &value()?)?,
                "--timeout" => options.timeout = number(&word, &value()?)?,
                "--rate" => {
                    options.rates =
                        value()?.split(',').map(|rate| number(&word, rate)).collect::<Result<_, _>>()?;
                }
                "--cache" => options.cache = value()?,
                "--json" => options.json = Some(value()?.into()),
                "--mpi" => {
                    options.host = match value()?.as_str() {
                        "mpich" => HostMpi::Mpich,
                        "openmpi" => HostMpi::OpenMpi,
                        other => return Err(format!("--mpi {other}: mpich or openmpi is needed")),
                    }
                }
                "--only" => {
                    let names = value()?;
                    if let Some(name) = names.split(',').find(|name| JOBS.iter().all(|j| j.workload != *name))
                    {
                        return Err(format!("--only {name}: no such workload here\n{HELP}"));
                    }
                    options.jobs.retain(|job| names.split(',').any(|name| job.workload == name));
                }
                "--preset" => {
                    let name = value()?;
                    let known = |job: &Job| {
                        let presets =
                            pario_workloads::workload(job.workload).map(|workload| workload.presets);
                        presets.into_iter().flatten().find(|preset| preset.name == name)
                    };
                    for job in &mut options.jobs {
                        let preset =
                            known(job).ok_or_else(|| format!("{} has no preset {name}", job.workload))?;
                        *job = Job { preset: preset.name, steps: None, ..*job };
                    }
                }
                _ => return Err(format!("`{word}`: no such option\n{HELP}")),
            }
        }
        Ok(Runs::With(options))
    }
}

fn number<N: std::str::FromStr + PartialOrd + From<u8>>(word: &str, value: &str) -> Result<N, String> {
    match value.parse::<N>() {
        Ok(number) if number > N::from(0) => Ok(number),
        _ => Err(format!("{word} {value}: a positive number is needed")),
    }
}
