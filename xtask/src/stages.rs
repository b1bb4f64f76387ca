//! Named, timed steps. A step that fails does not hide the ones after it: all run, then the sum is told.

use std::time::{Duration, Instant};

use crate::program::{Failure, Outcome};

/// The steps so far, with how long each took and whether it passed.
#[derive(Default)]
pub struct Stages {
    done: Vec<Stage>,
}

struct Stage {
    name: &'static str,
    took: Duration,
    passed: bool,
}

impl Stages {
    /// Runs one step; a failure is shown and remembered, and the next step may still run.
    pub fn stage(&mut self, name: &'static str, step: impl FnOnce() -> Outcome) -> bool {
        println!("\n== {name}");
        let start = Instant::now();
        let outcome = step();
        let took = start.elapsed();
        let passed = outcome.is_ok();
        match outcome {
            Ok(()) => println!("== {name}: ok, {:.1} s", took.as_secs_f64()),
            Err(failure) => println!("== {name}: FAILED after {:.1} s: {failure}", took.as_secs_f64()),
        }
        self.done.push(Stage { name, took, passed });
        passed
    }

    /// Shows the times and fails if any step failed.
    pub fn finish(self) -> Outcome {
        println!();
        for stage in &self.done {
            let word = if stage.passed { "ok" } else { "FAILED" };
            println!("{:>8.1} s  {:<6}  {}", stage.took.as_secs_f64(), word, stage.name);
        }
        let total: Duration = self.done.iter().map(|stage| stage.took).sum();
        println!("{:>8.1} s  in all", total.as_secs_f64());
        let failed: Vec<&str> = self.done.iter().filter(|stage| !stage.passed).map(|s| s.name).collect();
        if failed.is_empty() { Ok(()) } else { Err(Failure::new(format!("failed: {}", failed.join(", ")))) }
    }
}
