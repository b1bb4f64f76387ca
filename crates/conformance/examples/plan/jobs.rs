//! The measured programs and their configurations.

use std::fmt;

/// A program of the paper on profile-guided partitioning.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    pub workload: &'static str,
    pub preset: &'static str,
    /// Where it is not as the preset says.
    pub steps: Option<u32>,
    /// How much less run time the paper says that it takes by plan, on 24 nodes (BT 25, FFT 16).
    pub paper_percent: f64,
}

const fn job(workload: &'static str, preset: &'static str, paper_percent: f64) -> Job {
    Job { workload, preset, steps: None, paper_percent }
}

/// All that the paper has, in its order.
pub const JOBS: [Job; 7] = [
    job("btio", "medium", 47.2),
    job("seismic", "medium", 31.6),
    job("tile", "medium", 82.6),
    Job { steps: Some(2), ..job("perf", "medium", 81.2) },
    job("mandelbrot", "medium", 27.8),
    job("jacobi", "medium", 87.0),
    job("fft", "profile", 71.7),
];

impl Job {
    /// The arguments of the program.
    pub fn arguments(&self) -> Vec<String> {
        let mut words = vec![self.workload.to_owned(), "--preset".into(), self.preset.into()];
        words.extend(self.steps.iter().flat_map(|steps| ["--steps".into(), steps.to_string()]));
        words
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.workload, self.preset)?;
        self.steps.map_or(Ok(()), |steps| write!(f, " × {steps}"))
    }
}

/// Where a program's files lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    /// On the first host.
    Central,
    /// In turns on all.
    Striped,
    /// As a plan says; what is central in it, on the first host.
    ByPlan,
    /// As a plan says that makes no copies unless they are cheaper; where that is another plan.
    IfCheaper,
}

/// In the order of the table; the first is what the others are compared with.
pub const CONTENDERS: [Contender; 4] =
    [Contender::Central, Contender::Striped, Contender::ByPlan, Contender::IfCheaper];

/// Hints that keep files on the first host's server.
pub const SHARED: &str = "striping_factor=1;start_iodevice=0";

impl Contender {
    pub fn name(self) -> &'static str {
        match self {
            Contender::Central => "central",
            Contender::Striped => "striped",
            Contender::ByPlan => "by plan",
            Contender::IfCheaper => "by plan, copies if cheaper",
        }
    }

    pub fn hints(self) -> &'static str {
        match self {
            Contender::Central | Contender::ByPlan | Contender::IfCheaper => SHARED,
            Contender::Striped => "",
        }
    }

    /// The options of `pario plan` for it, if it has a plan.
    pub fn planned_with(self) -> Option<&'static [&'static str]> {
        match self {
            Contender::Central | Contender::Striped => None,
            Contender::ByPlan => Some(&[]),
            Contender::IfCheaper => Some(&["--broadcast", "if-cheaper"]),
        }
    }
}
