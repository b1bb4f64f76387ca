//! Kills, stops and starves partitions for a while: builds what it takes and runs `crates/conformance/examples/torture`.

use crate::place;
use crate::program::{self, Outcome};
use crate::test;

pub fn run(arguments: &[String]) -> Outcome {
    test::release_build()?;
    let mut torture = program::cargo();
    torture.args(["run", "--release", "--quiet", "-p", "pario-conformance", "--example", "torture", "--"]);
    program::run(torture.args(arguments).env("PARIO_LIB", place::library()).env("PARIO_BIN", place::binary()))
}
