//! What the user asks of the bench.

use crate::program::{Failure, Outcome};

pub const HELP: &str = "\
usage: cargo xtask bench partition [OPTION…]

  --quick         3 turns and fewer files: about a minute
  --turns N       default 9
  --servers N     of each partition, all on this host; default 1
  --only PART,…   local (shared memory), tcp (loopback, and network namespaces if root), flush, names;
                  default all
";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Local,
    Tcp,
    Flush,
    Names,
}

#[derive(Debug)]
pub struct Options {
    pub quick: bool,
    pub turns: u32,
    pub servers: u32,
    pub parts: Vec<Part>,
}

pub enum Runs {
    Help,
    With(Options),
}

impl Options {
    pub fn parse(arguments: &[String]) -> Outcome<Runs> {
        let mut quick = false;
        let (mut turns, mut servers) = (None, 1);
        let mut parts = vec![Part::Local, Part::Tcp, Part::Flush, Part::Names];
        let mut rest = arguments.iter();
        while let Some(option) = rest.next() {
            let mut value =
                || rest.next().ok_or_else(|| Failure::new(format!("{option} needs a value; see --help")));
            match option.as_str() {
                "--help" | "-h" => return Ok(Runs::Help),
                "--quick" => quick = true,
                "--turns" => turns = Some(number(value()?)?),
                "--servers" => servers = number(value()?)?,
                "--only" => parts = value()?.split(',').map(part).collect::<Outcome<_>>()?,
                _ => return Err(Failure::new(format!("no option `{option}`; see --help"))),
            }
        }
        let turns = turns.unwrap_or(if quick { 3 } else { 9 });
        Ok(Runs::With(Options { quick, turns, servers, parts }))
    }

    /// That each client makes in a turn.
    pub fn files(&self) -> u32 {
        if self.quick { 500 } else { 2000 }
    }
}

fn number(text: &str) -> Outcome<u32> {
    match text.parse() {
        Ok(number @ 1..=64) => Ok(number),
        _ => Err(Failure::new(format!("`{text}`: not a number from 1 to 64"))),
    }
}

fn part(text: &str) -> Outcome<Part> {
    match text {
        "local" => Ok(Part::Local),
        "tcp" => Ok(Part::Tcp),
        "flush" => Ok(Part::Flush),
        "names" => Ok(Part::Names),
        _ => Err(Failure::new(format!("no part `{text}`; there are local, tcp, flush and names"))),
    }
}

#[cfg(test)]
mod tests {
    use super::{Options, Part, Runs};

    fn parsed(line: &str) -> Option<Options> {
        let words: Vec<String> = line.split_whitespace().map(str::to_string).collect();
        match Options::parse(&words) {
            Ok(Runs::With(options)) => Some(options),
            _ => None,
        }
    }

    #[test]
    fn options_are_read() {
        let options = parsed("--servers 4 --only tcp,names --quick").expect("good options");
        assert_eq!((options.turns, options.servers), (3, 4));
        assert_eq!(options.parts, [Part::Tcp, Part::Names]);
        assert_eq!(parsed("--quick --turns 5").expect("good options").turns, 5);
    }

    #[test]
    fn nonsense_is_refused() {
        for line in ["--turns", "--turns 0", "--only disk", "--fast", "--servers 65"] {
            assert!(parsed(line).is_none(), "{line}");
        }
    }
}
