//! What the user asks of the bench.

use super::contenders::CONTENDERS;
use crate::program::{Failure, Outcome};

pub const HELP: &str = "\
usage: cargo xtask bench collective [OPTION…]

  --quick             half of the patterns, 3 turns, in memory only: a minute or two
  --ranks N,…         default 2,4,16; above 8 only few patterns unless --pattern is given
  --on PLACE,…        tmpfs (/dev/shm), disk (the build directory); default both
  --pattern NAME,…    block3d-N bt s3d flash tiles random-N pieces-N (N: edge, or bytes of a piece)
  --turns N           starts per contender; default 7
  --contenders NAME,… romio ompio romio-openmpi pario-mpich pario-openmpi plain; default all
  --overwrite         write over a file that has its bytes already; default: each write creates its file
";

pub const ALL: &str = "block3d-128 block3d-100 bt s3d flash tiles random-1024 \
    pieces-16 pieces-64 pieces-256 pieces-1024 pieces-4096 pieces-16384 pieces-65536";
pub const QUICK: &str = "block3d-128 bt random-1024 pieces-16 pieces-64 pieces-1024 pieces-65536";
pub const FEW: &str = "block3d-100 pieces-64 pieces-1024";

pub fn words(list: &str) -> Vec<String> {
    list.split_whitespace().map(str::to_string).collect()
}

pub struct Options {
    pub quick: bool,
    pub ranks: Vec<u32>,
    /// By the labels of `place::scratch`.
    pub places: Vec<&'static str>,
    pub places_given: bool,
    pub patterns: Option<Vec<String>>,
    pub turns: Option<u32>,
    /// Indices of [`CONTENDERS`].
    pub contenders: Vec<usize>,
    pub overwrite: bool,
}

pub enum Runs {
    Help,
    With(Options),
}

impl Options {
    pub fn parse(arguments: &[String]) -> Outcome<Runs> {
        let mut options = Options {
            quick: false,
            ranks: Vec::new(),
            places: Vec::new(),
            places_given: false,
            patterns: None,
            turns: None,
            contenders: (0..CONTENDERS.len()).collect(),
            overwrite: false,
        };
        let mut rest = arguments.iter();
        while let Some(option) = rest.next() {
            let mut list = || match rest.next() {
                Some(text) => Ok(text.split(',')),
                None => Err(Failure::new(format!("{option} needs a value; see --help"))),
            };
            match option.as_str() {
                "--help" | "-h" => return Ok(Runs::Help),
                "--quick" => options.quick = true,
                "--overwrite" => options.overwrite = true,
                "--ranks" => options.ranks = list()?.map(number).collect::<Outcome<_>>()?,
                "--turns" => options.turns = Some(number(list()?.next().unwrap_or_default())?),
                "--on" => options.places = list()?.map(place).collect::<Outcome<_>>()?,
                "--pattern" => options.patterns = Some(list()?.map(str::to_string).collect()),
                "--contenders" => options.contenders = list()?.map(contender).collect::<Outcome<_>>()?,
                _ => return Err(Failure::new(format!("no option `{option}`; see --help"))),
            }
        }
        options.places_given = !options.places.is_empty();
        if options.ranks.is_empty() {
            options.ranks = if options.quick { vec![2, 4] } else { vec![2, 4, 16] };
        }
        if !options.places_given {
            options.places = if options.quick { vec!["/dev/shm"] } else { vec!["/dev/shm", "disk"] };
        }
        Ok(Runs::With(options))
    }
}

fn number(text: &str) -> Outcome<u32> {
    match text.parse() {
        Ok(number @ 1..=1024) => Ok(number),
        _ => Err(Failure::new(format!("`{text}`: not a number from 1 to 1024"))),
    }
}

fn place(text: &str) -> Outcome<&'static str> {
    match text {
        "tmpfs" => Ok("/dev/shm"),
        "disk" => Ok("disk"),
        _ => Err(Failure::new(format!("`{text}`: not a place; there are tmpfs and disk"))),
    }
}

fn contender(text: &str) -> Outcome<usize> {
    CONTENDERS
        .iter()
        .position(|contender| contender.name == text)
        .ok_or_else(|| Failure::new(format!("no contender `{text}`; see --help")))
}

#[cfg(test)]
mod tests {
    use super::{Options, Runs, words};

    fn parsed(line: &str) -> Option<Options> {
        match Options::parse(&words(line)) {
            Ok(Runs::With(options)) => Some(options),
            _ => None,
        }
    }

    #[test]
    fn options_are_read() {
        let options =
            parsed("--ranks 2,16 --on disk --turns 3 --pattern bt,pieces-16").expect("good options");
        assert_eq!((options.ranks, options.places, options.turns), (vec![2, 16], vec!["disk"], Some(3)));
        assert_eq!(options.patterns, Some(words("bt pieces-16")));
        assert_eq!(parsed("--quick").expect("good options").ranks, [2, 4]);
    }

    #[test]
    fn nonsense_is_refused() {
        for line in ["--ranks", "--ranks 0", "--on tape", "--fast", "--contenders gpfs"] {
            assert!(parsed(line).is_none(), "{line}");
        }
    }
}
