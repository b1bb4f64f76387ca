//! Named, timed steps. A failed step does not stop the others: all run, then the summary is printed.

use std::time::{Duration, Instant};

use crate::program::{Failure, Outcome};

/// The steps so far, with how long each took and how it ended.
#[derive(Default)]
pub struct Stages {
    done: Vec<Stage>,
}

struct Stage {
    name: &'static str,
    took: Duration,
    end: End,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Passed,
    Failed,
    Skipped,
}

impl End {
    fn word(self) -> &'static str {
        match self {
            End::Passed => "ok",
            End::Failed => "FAILED",
            End::Skipped => "skipped",
        }
    }
}

impl Stages {
    /// Runs one step; a failure is shown and remembered, and the next step may still run.
    pub fn stage(&mut self, name: &'static str, step: impl FnOnce() -> Outcome) -> bool {
        println!("\n== {name}");
        let start = Instant::now();
        let outcome = step();
        let took = start.elapsed();
        let end = if outcome.is_ok() { End::Passed } else { End::Failed };
        match outcome {
            Ok(()) => println!("== {name}: ok, {:.1} s", took.as_secs_f64()),
            Err(failure) => println!("== {name}: FAILED after {:.1} s: {failure}", took.as_secs_f64()),
        }
        self.done.push(Stage { name, took, end });
        end == End::Passed
    }

    /// Notes a step that is not possible here. It is printed and counts as no failure.
    pub fn skip(&mut self, name: &'static str, why: &str) {
        println!("\n== {name}: SKIPPED: {why}");
        self.done.push(Stage { name, took: Duration::ZERO, end: End::Skipped });
    }

    /// Shows the times and fails if any step failed.
    pub fn finish(self) -> Outcome {
        println!();
        for stage in &self.done {
            println!("{:>8.1} s  {:<7}  {}", stage.took.as_secs_f64(), stage.end.word(), stage.name);
        }
        let total: Duration = self.done.iter().map(|stage| stage.took).sum();
        println!("{:>8.1} s  in all", total.as_secs_f64());
        let failed = self.done.iter().filter(|stage| stage.end == End::Failed);
        let failed: Vec<&str> = failed.map(|stage| stage.name).collect();
        if failed.is_empty() { Ok(()) } else { Err(Failure::new(format!("failed: {}", failed.join(", ")))) }
    }
}
