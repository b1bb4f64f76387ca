//! Programs on hosts with slow links, their files laid out by plan: builds what it takes and runs
//! `crates/conformance/examples/plan`, which has the tests' hosts.

use crate::place;
use crate::program::{self, Outcome};
use crate::{setup, test};

pub fn run(arguments: &[String]) -> Outcome {
    setup::compilers_and_mpis()?;
    test::release_build()?;
    let mut bench = program::cargo();
    bench.args(["run", "--quiet", "-p", "pario-conformance", "--example", "plan", "--"]).args(arguments);
    program::run(bench.env("PARIO_LIB", place::library()).env("PARIO_BIN", place::binary()))
}
