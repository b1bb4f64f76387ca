//! The command line.

/// The help.
pub const HELP: &str = "\
usage: cargo xtask simulate [OPTION]…

Clients and servers run in one process under a scheduler that a seed controls, with faults. Every byte and size that a client
reads is compared with what may be there. A failing seed fails again in the same way.

  --seeds N      histories to run [1000]
  --seconds S    no history starts after that time [unlimited]
  --seed X       the first seed [1]
  --log          run only that seed, and print its log
  --jobs N       histories at a time [processors]
  --faults A,B…  only these: kill, stop, term, break, cut, host [all]
  --set A=N,B=N… change numbers of the plan of each history, for instance clients=1,calls=7,kill=0
  --bug NAME     plant a bug, and expect to find it
  --bugs         plant each bug in turn; a table of how soon each is found (--seconds for each [600])
";

/// Seeds of histories that once failed. They run before all others.
///
/// - 2474: a worker took the wakeup of a server that ends, slept, and the server never ended.
pub const KEPT_SEEDS: &[u64] = &[2474];

/// The options of a run.
#[derive(Clone, Debug)]
pub struct Arguments {
    pub seeds: u64,
    pub seconds: u64,
    pub first: u64,
    pub log: bool,
    pub jobs: usize,
    pub faults: Option<Vec<String>>,
    /// Numbers of plans that are not drawn.
    pub set: Vec<(String, u64)>,
    pub bug: Option<String>,
    pub bugs: bool,
}

/// Reads the command line; `None`: it asks for help.
pub fn parse(mut words: impl Iterator<Item = String>) -> Result<Option<Arguments>, String> {
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let mut arguments = Arguments {
        seeds: 1000,
        seconds: u64::MAX,
        first: 1,
        log: false,
        jobs,
        faults: None,
        set: Vec::new(),
        bug: None,
        bugs: false,
    };
    while let Some(word) = words.next() {
        let mut number = || {
            let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
            value.parse::<u64>().map_err(|_| format!("{word}: `{value}` is no number"))
        };
        match word.as_str() {
            "--seeds" => arguments.seeds = number()?,
            "--seconds" => (arguments.seconds, arguments.seeds) = (number()?, u64::MAX),
            "--seed" => arguments.first = number()?,
            "--jobs" => arguments.jobs = number()?.max(1) as usize,
            "--log" => arguments.log = true,
            "--faults" => {
                let value = words.next().ok_or("--faults needs a list")?;
                arguments.faults = Some(value.split(',').map(str::to_owned).collect());
            }
            "--set" => arguments.set = parse_settings(&words.next().ok_or("--set needs a list")?)?,
            "--bug" => arguments.bug = Some(words.next().ok_or("--bug needs a name")?),
            "--bugs" => arguments.bugs = true,
            "--help" | "-h" => return Ok(None),
            other => return Err(format!("unknown option `{other}`; --help lists all")),
        }
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
