//! The command line.

use pario_runtime::simulation::planted::BUGS;

use crate::focus::{self, TOPICS};
use crate::plan::{KINDS, Mix};
use crate::settings::SETTINGS;

/// The help.
pub fn help() -> String {
    let kinds: Vec<_> = KINDS.iter().map(|(_, name)| *name).collect();
    let settings: Vec<_> = SETTINGS.iter().map(|setting| setting.name).collect();
    let topics: Vec<_> = TOPICS.iter().map(|(_, name, _)| *name).collect();
    let help = HELP.replace("KINDS", &kinds.join(", ")).replace("SETTINGS", &settings.join(", "));
    help.replace("TOPICS", &topics.join(", "))
}

const HELP: &str = "\
usage: cargo xtask simulate [OPTION]…

Clients and servers run in one process under a scheduler that a seed controls, with faults. Every byte and size that a client
reads is compared with what may be there. A seed determines a history completely: a failing seed fails again in the same way.

Histories
  --seeds N      so many histories [1000]
  --seconds S    no history starts after that time [unlimited]
  --seed X       the first seed [those that once failed, then 1, 2, 3…]
  --jobs N       histories at a time [processors]
  --mode TOPIC   only histories about one mechanism: TOPICS [about half of
                 all histories are about one of them, the others mix everything]
  --swarm        each history has a random subset of all features and kinds of faults
  --faults A,B…  only faults of these kinds: KINDS [all]
  --set A=N,B=N… change numbers of each plan, for instance clients=1,calls=7,kill=0: SETTINGS, and the share of
                 each kind of fault
  --deadline S   a history that needs more processor time fails [60]

A history that failed
  --shrink S     look for a smaller history that fails, for so long [60]
  --no-shrink    do not
  --keep-going   go on after a failing history; at the end, a line for each of them
  --log          run only the seed of --seed, and print its log: calls with their results, faults, starts and ends of processes

Planted bugs
  --bug NAME     plant a bug, and expect to find it
  --bugs         plant each bug in turn, --jobs at a time; a table of how soon each is found (--seconds for each [600]).
                 Rare ones are looked for in histories of their topic, unless --mode or --swarm is given

Coverage
  --coverage     how many lines of the production crates the histories reach, as a table [2000 histories]
  --unreached    with --coverage: also each file, and the functions that no history reached

Output
  --json         all numbers as one line of JSON

Examples
  cargo xtask simulate --seconds 3600                    an hour of histories that nobody has run yet: add --seed 1000000
  cargo xtask simulate --seed 4711 --log                 repeat a history
  cargo xtask simulate --faults kill,stop --set hosts=1  only kills and stops, on one host
";

/// Seeds of histories that once failed. They run before all others. A change of the plans changes the histories of all seeds and empties this
/// list; the bugs have tests of their own.
pub const KEPT_SEEDS: &[u64] = &[];

/// The options of a run.
#[derive(Clone, Debug)]
pub struct Arguments {
    pub seeds: u64,
    pub seconds: u64,
    /// The first seed; without it, the seeds that once failed and then all from 1.
    pub first: Option<u64>,
    pub log: bool,
    pub jobs: usize,
    pub faults: Option<Vec<String>>,
    pub mix: Mix,
    /// Numbers of plans that are not drawn.
    pub set: Vec<(String, u64)>,
    pub bug: Option<String>,
    pub bugs: bool,
    /// Most seconds of processor time of a history.
    pub deadline: u64,
    /// Seconds for the search for a smaller history.
    pub shrink: u64,
    /// Whether histories go on after one that failed.
    pub keep_going: bool,
    pub json: bool,
}

/// Reads the command line; `None`: it asks for help.
pub fn parse(mut words: impl Iterator<Item = String>) -> Result<Option<Arguments>, String> {
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let mut arguments = Arguments {
        seeds: 1000,
        seconds: u64::MAX,
        first: None,
        log: false,
        jobs,
        faults: None,
        mix: Mix::Usual,
        set: Vec::new(),
        bug: None,
        bugs: false,
        deadline: 60,
        shrink: 60,
        keep_going: false,
        json: false,
    };
    while let Some(word) = words.next() {
        let mut number = || {
            let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
            value.parse::<u64>().map_err(|_| format!("{word}: `{value}` is no number"))
        };
        match word.as_str() {
            "--seeds" => arguments.seeds = number()?,
            "--seconds" => (arguments.seconds, arguments.seeds) = (number()?, u64::MAX),
            "--seed" => arguments.first = Some(number()?),
            "--jobs" => arguments.jobs = number()?.max(1) as usize,
            "--deadline" => arguments.deadline = number()?.max(1),
            "--shrink" => arguments.shrink = number()?,
            "--no-shrink" => arguments.shrink = 0,
            "--keep-going" => arguments.keep_going = true,
            "--json" => arguments.json = true,
            "--log" => arguments.log = true,
            "--faults" => {
                let value = words.next().ok_or("--faults needs a list")?;
                arguments.faults = Some(value.split(',').map(str::to_owned).collect());
            }
            "--swarm" => arguments.mix = Mix::Swarm,
            "--mode" => {
                let name = words.next().ok_or("--mode needs a topic")?;
                let topic = focus::find_topic(&name).ok_or_else(|| format!("there is no topic `{name}`"))?;
                arguments.mix = Mix::Only(topic);
            }
            "--set" => arguments.set = parse_settings(&words.next().ok_or("--set needs a list")?)?,
            "--bug" => arguments.bug = Some(words.next().ok_or("--bug needs a name")?),
            "--bugs" => arguments.bugs = true,
            "--help" | "-h" => return Ok(None),
            other => return Err(format!("unknown option `{other}`; --help lists all")),
        }
    }
    if let Some(bug) = arguments.bug.as_ref().filter(|bug| !BUGS.iter().any(|(name, _)| name == bug)) {
        return Err(format!("there is no planted bug `{bug}`"));
    }
    if arguments.log {
        (arguments.seeds, arguments.jobs) = (1, 1);
    }
    Ok(Some(arguments))
}

fn parse_settings(text: &str) -> Result<Vec<(String, u64)>, String> {
    let parse = |word: &str| {
        let (name, value) = word.split_once('=').ok_or_else(|| format!("`{word}` is not NAME=NUMBER"))?;
        let value = value.parse().map_err(|_| format!("`{value}` is no number"))?;
        Ok((name.to_owned(), value))
    };
    text.split(',').map(parse).collect()
}
