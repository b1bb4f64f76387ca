//! Formatting, lints, documentation, dependencies, and the rules of `ARCHITECTURE.md` and `CONTRIBUTING.md` that a program can
//! check.

pub mod baseline;
mod glossary;
mod type_names;
mod words;

use crate::edges;
use crate::prints;
use crate::program::{self, Failure, Outcome};
use crate::promises;
use crate::scheduling;
use crate::setup;
use crate::stages::Stages;
use crate::text;
use crate::unsafe_code;

use baseline::{Baseline, Violation};

/// A check whose known violations are in the baseline.
struct Counted {
    /// As the baseline names it; without spaces.
    name: &'static str,
    check: fn() -> Outcome<Vec<Violation>>,
}

const COUNTED: &[Counted] = &[
    Counted { name: "unused-edges", check: edges::unused },
    Counted { name: "long-files", check: text::long_files },
    Counted { name: "type-names", check: type_names::check },
    Counted { name: "words", check: words::check },
];

/// All checks. With `--texts`, only those that read the repository and compile nothing; with `--shrink`, none: the baseline loses
/// what is no longer there.
pub fn run(arguments: &[String]) -> Outcome {
    match arguments {
        [] => all(),
        [option] if option == "--texts" => {
            let mut stages = Stages::default();
            texts(&mut stages);
            stages.finish()
        }
        [option] if option == "--shrink" => shrink(),
        _ => Err(Failure::new("usage: cargo xtask tidy [--texts | --shrink]")),
    }
}

fn all() -> Outcome {
    let mut stages = Stages::default();
    cheap(&mut stages);
    stages.stage("documentation", documentation);
    if stages.stage("cargo-deny", setup::cargo_deny) {
        stages.stage("licences, bans, sources", || {
            program::run(program::cargo().args(["deny", "check", "licenses", "bans", "sources"]))
        });
        advisories(&mut stages);
    }
    stages.finish()
}

/// The checks that `cargo xtask test` runs as well.
pub fn cheap(stages: &mut Stages) {
    stages.stage("format", || program::run(program::cargo().args(["fmt", "--all", "--check"])));
    texts(stages);
    stages.stage("clippy", || {
        let mut clippy = program::cargo();
        clippy.args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]);
        program::run(&mut clippy)
    });
}

/// The checks that read the repository and compile nothing.
pub fn texts(stages: &mut Stages) {
    stages.stage("edges between crates", || report(edges::check()?));
    stages.stage("unsafe code", || report(unsafe_code::check()?));
    stages.stage("servers do not print", || report(prints::check()?));
    stages.stage("threads and locks", || report(scheduling::check()?));
    stages.stage("texts", || report(text::check()?));
    for counted in COUNTED {
        stages.stage(counted.name, || report(Baseline::read()?.compare(counted.name, &(counted.check)()?)));
    }
    stages.stage("glossary", || report(glossary::check()?));
    stages.stage("promises and their tests", || report(promises::check()?));
}

fn shrink() -> Outcome {
    let mut baseline = Baseline::read()?;
    for counted in COUNTED {
        baseline.shrink(counted.name, &(counted.check)()?);
    }
    baseline.write()
}

/// Apart, because the crate `pario`, the library `libpario.so` and the program `pario` would write to the same place. A
/// link to a private item is allowed: developers of a crate read its private parts, too.
fn documentation() -> Outcome {
    let parts: [&[&str]; 3] = [
        &["--workspace", "--exclude", "pario-capi", "--lib"],
        &["--workspace", "--bins"],
        &["-p", "pario-capi", "--lib"],
    ];
    for part in parts {
        let mut doc = program::cargo();
        doc.args(["doc", "--no-deps"]).args(part);
        program::run(doc.env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links"))?;
    }
    Ok(())
}

/// Known vulnerabilities of the dependencies. Their database comes over the network; where it cannot be fetched, the check is
/// skipped with a message.
fn advisories(stages: &mut Stages) {
    let fetched = program::capture(program::cargo().args(["deny", "fetch", "db"]));
    if fetched.is_ok_and(|output| output.status.success()) {
        stages.stage("advisories", || program::run(program::cargo().args(["deny", "check", "advisories"])));
    } else {
        stages.skip("advisories", "their database cannot be fetched from here");
    }
}

fn report(complaints: Vec<String>) -> Outcome {
    for complaint in &complaints {
        println!("{complaint}");
    }
    match complaints.len() {
        0 => Ok(()),
        n => Err(Failure::new(format!("{n} to put right"))),
    }
}
