//! `cargo xtask torture`: partitions whose processes are killed, stopped and starved, with proof that nothing acknowledged
//! is lost. See `pario_conformance::torture`.

use std::process::{Command, ExitCode};

use pario_conformance::torture::{self, FaultKind, KINDS, TortureOptions};

fn main() -> ExitCode {
    if torture::run_if_told() {
        return ExitCode::SUCCESS;
    }
    let options = match parse(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => {
            print!("{}", help());
            return ExitCode::SUCCESS;
        }
        Err(why) => {
            eprintln!("torture: {why}");
            return ExitCode::from(2);
        }
    };
    let launch = || Command::new(std::env::current_exe().expect("a program knows its path"));
    match torture::run(&options, &launch) {
        Ok(summary) => {
            println!("{summary}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("torture: violation\n{why}");
            ExitCode::FAILURE
        }
    }
}

fn help() -> String {
    let TortureOptions { seconds, seed, rounds, jobs, .. } = TortureOptions::default();
    let mut text = format!(
        "usage: cargo xtask torture [OPTION]…

Real clients and servers are killed, stopped and starved by a seed, and every byte, size and name that anybody reads is
compared with what was acknowledged.

  --seconds N      no session begins after that [{seconds}]
  --seed N         of the first session; the next has the next [{seed}]
  --sessions N     so many sessions at most
  --rounds N       rounds of a session [{rounds}]
  --jobs N         sessions at a time [{jobs}]
  --faults A,B,…   only these:
"
    );
    for (_, name, about) in KINDS {
        text += &format!("                     {name:<5} {about}\n");
    }
    text
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Option<TortureOptions>, String> {
    let mut options = TortureOptions::default();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word}: a value is missing"));
        match word.as_str() {
            "--help" | "-h" => return Ok(None),
            "--seconds" => options.seconds = number(&word, &value()?)?,
            "--seed" => options.seed = number(&word, &value()?)?,
            "--sessions" => options.sessions = number(&word, &value()?)?,
            "--rounds" => options.rounds = number(&word, &value()?)?,
            "--jobs" => options.jobs = number(&word, &value()?)?,
            "--faults" => options.faults = value()?.split(',').map(kind).collect::<Result<_, _>>()?,
            _ => return Err(format!("`{word}` is no option\n{}", help())),
        }
    }
    Ok(Some(options))
}

fn kind(name: &str) -> Result<FaultKind, String> {
    let found = KINDS.iter().find(|(_, known, _)| *known == name);
    found.map(|(kind, ..)| *kind).ok_or_else(|| format!("--faults {name}: no such fault\n{}", help()))
}

fn number<T: std::str::FromStr>(word: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{word} {text}: a number is needed"))
}
