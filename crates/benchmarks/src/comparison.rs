//! A comparison: every contender runs every case, in turn.
//!
//! The contenders of a case alternate, and each round begins with another one, so that other load on the machine and
//! warm caches affect all of them alike. A contender that fails is not run again in that case. After an interruption
//! the measurements so far are returned.

use crate::contender::{Contender, order};
use crate::error::Error;
use crate::results::{ComparisonResults, ContenderSeries};
use pario_workloads::{Ranks, WorkloadInfo, WorkloadReport, workload};

/// One workload on a number of ranks.
#[derive(Clone, Copy)]
pub struct Case {
    /// The workload.
    pub workload: &'static WorkloadInfo,
    /// The name of its preset.
    pub preset: &'static str,
    /// The number of ranks.
    pub ranks: u32,
}

/// Runs programs for a comparison, and hears about its progress.
pub trait WorkloadRunner {
    /// Why a run could not even be started.
    type Error;

    /// Runs a workload once; returns its report, or why it failed.
    fn run(
        &mut self,
        case: &Case,
        contender: &Contender,
    ) -> Result<Result<WorkloadReport, String>, Self::Error>;

    /// Whether the comparison is to stop.
    fn is_interrupted(&self) -> bool;

    /// A run of this series is over, the `done`-th of `all`.
    fn finished(&mut self, done: usize, all: usize, series: &ContenderSeries);
}

/// The workloads and contenders to compare.
pub struct Comparison {
    /// The cases.
    pub cases: Vec<Case>,
    /// The contenders, the baseline first.
    pub contenders: Vec<Contender>,
    /// The number of runs of each contender in each case.
    pub rounds: usize,
}

/// The cases for workloads as users write them (`NAME[:PRESET]`) on these numbers of ranks.
pub fn parse_cases(workloads: &[String], ranks: &[u32]) -> Result<Vec<Case>, Error> {
    let mut cases = Vec::new();
    for text in workloads {
        let (name, preset) = text.split_once(':').unwrap_or((text, "small"));
        let workload = workload(name).ok_or_else(|| Error::NoWorkload(name.to_owned()))?;
        let known = workload.presets.iter().map(|preset| preset.name);
        let preset = known
            .clone()
            .find(|known| *known == preset)
            .ok_or_else(|| Error::NoPreset(workload.name, preset.to_owned(), known.collect()))?;
        for &ranks in ranks {
            if !workload.ranks.allow(ranks) {
                let rule = match workload.ranks {
                    Ranks::Square => "it has to be a square",
                    Ranks::PowerOfTwo => "it has to be a power of two",
                    Ranks::Any => "there has to be one",
                };
                return Err(Error::Ranks(workload.name, ranks, rule));
            }
            cases.push(Case { workload, preset, ranks });
        }
    }
    Ok(cases)
}

impl Comparison {
    /// Runs everything, and adds the measurements to `results`.
    pub fn measure<R: WorkloadRunner>(
        &self,
        mut results: ComparisonResults,
        runner: &mut R,
    ) -> Result<ComparisonResults, R::Error> {
        let mut done = 0;
        let all = self.cases.len() * self.contenders.len() * self.rounds;
        for case in &self.cases {
            let first = results.series.len();
            results.series.extend(self.contenders.iter().enumerate().map(|(number, contender)| {
                ContenderSeries {
                    workload: format!("{}:{}", case.workload.name, case.preset),
                    ranks: case.ranks,
                    contender: contender.to_string(),
                    baseline: number == 0,
                    runs: Vec::new(),
                    failure: None,
                }
            }));
            for round in 0..self.rounds {
                for number in order(self.contenders.len(), round) {
                    done += 1;
                    let series = &mut results.series[first + number];
                    if series.failure.is_some() {
                        continue;
                    }
                    let run = runner.run(case, &self.contenders[number])?;
                    if runner.is_interrupted() {
                        return Ok(results);
                    }
                    match run {
                        Ok(report) => {
                            results.mpi.clone_from(&report.mpi);
                            series.runs.push(report.all);
                        }
                        Err(why) => series.failure = Some(why),
                    }
                    runner.finished(done, all, series);
                }
            }
        }
        results.complete = results.series.iter().all(|series| series.failure.is_none());
        Ok(results)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contender::{ParioStorage, Rival, contenders};
    use std::collections::BTreeMap;

    /// Every run of one contender fails; the others take no time.
    struct Fake {
        failing: &'static str,
        stop_after: usize,
        runs: Vec<String>,
    }

    impl WorkloadRunner for Fake {
        type Error = ();

        fn run(&mut self, case: &Case, contender: &Contender) -> Result<Result<WorkloadReport, String>, ()> {
            self.runs.push(contender.to_string());
            assert_eq!(case.preset, "small");
            if contender.to_string() == self.failing {
                return Ok(Err("disk full".to_owned()));
            }
            let all = pario_workloads::WorkloadOutcome {
                seconds: BTreeMap::new(),
                bytes_written: 1,
                bytes_read: 1,
                write_calls: 1,
                read_calls: 1,
            };
            Ok(Ok(WorkloadReport {
                workload: case.workload.name.to_owned(),
                preset: case.preset.to_owned(),
                steps: 1,
                ranks: case.ranks.into(),
                seed: 1,
                mpi: "an MPI".to_owned(),
                interface: "mpi-io".to_owned(),
                all,
                each: Vec::new(),
                verified: None,
                wrong_bytes: 0,
                first_wrong: None,
            }))
        }

        fn is_interrupted(&self) -> bool {
            self.runs.len() >= self.stop_after
        }

        fn finished(&mut self, _: usize, all: usize, _: &ContenderSeries) {
            assert_eq!(all, 6);
        }
    }

    fn comparison() -> Comparison {
        let cases = parse_cases(&["btio".to_owned()], &[4]).expect("a workload");
        Comparison {
            cases,
            contenders: contenders(&[Rival::Host], &[ParioStorage::PlainFiles], &[]),
            rounds: 3,
        }
    }

    #[test]
    fn a_contender_that_fails_is_not_run_again() {
        let mut fake = Fake { failing: "host", stop_after: 100, runs: Vec::new() };
        let results = ComparisonResults::new("here".into(), 2, Vec::new());
        let results = comparison().measure(results, &mut fake).expect("measured");
        assert!(!results.complete);
        assert_eq!(fake.runs.iter().filter(|name| *name == "host").count(), 1);
        assert_eq!(fake.runs.iter().filter(|name| *name == "pario").count(), 3);
        assert_eq!(results.series[0].failure.as_deref(), Some("disk full"));
    }

    #[test]
    fn an_interruption_keeps_what_was_measured() {
        let mut fake = Fake { failing: "none", stop_after: 1, runs: Vec::new() };
        let results = ComparisonResults::new("here".into(), 2, Vec::new());
        let results = comparison().measure(results, &mut fake).expect("measured");
        assert_eq!((fake.runs.len(), results.complete), (1, false));
    }

    #[test]
    fn unknown_workloads_presets_and_ranks_are_refused() {
        let parse = |text: &str, ranks| parse_cases(&[text.to_owned()], &[ranks]);
        assert!(matches!(parse("nothing", 4), Err(Error::NoWorkload(_))));
        assert!(matches!(parse("btio:gigantic", 4), Err(Error::NoPreset(..))));
        assert!(matches!(parse("btio", 3), Err(Error::Ranks("btio", 3, _))));
        assert!(parse("btio:small", 9).is_ok());
    }
}
