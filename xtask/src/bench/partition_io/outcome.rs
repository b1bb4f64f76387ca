//! What one start of the program says about itself.

use std::str::FromStr;

use crate::program::{Failure, Outcome};

/// Seconds of the slowest rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seconds {
    /// In calls that write, that read, and from the opening of files to their closing.
    pub write: f64,
    pub read: f64,
    pub open_to_close: f64,
    /// Bytes of all ranks that were written.
    pub bytes: f64,
}

impl Seconds {
    /// From the program's JSON; a run that read a wrong byte does not get this far.
    pub fn parse(said: &str) -> Outcome<Seconds> {
        let number = |name: &str| {
            number_in(said, "all", name)
                .ok_or_else(|| Failure::new(format!("the workload said no `{name}`: {said}")))
        };
        if !said.contains("\"verified\":true") {
            return Err(Failure::new(format!("the workload has not verified what it read: {said}")));
        }
        Ok(Seconds {
            write: number("write")?,
            read: number("read")?,
            open_to_close: number("open_to_close")?,
            bytes: number("bytes_written")?,
        })
    }
}

/// The first number of this name in an object of that name, in a line of JSON.
pub fn number_in<N: FromStr>(line: &str, object: &str, name: &str) -> Option<N> {
    let (_, object) = line.split_once(&format!("\"{object}\":"))?;
    let (_, value) = object.split_once(&format!("\"{name}\":"))?;
    value.split([',', '}']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_all_ranks_are_read() {
        let said = "{\"workload\":\"x\",\"all\":{\"seconds\":{\"open\":0.5,\"write\":0.25,\"read\":1e-3,\
                    \"open_to_close\":2.0},\"bytes_written\":1024,\"bytes_read\":0},\"each\":[{\"write\":9}],\
                    \"verified\":true}";
        let seconds = Seconds { write: 0.25, read: 1e-3, open_to_close: 2.0, bytes: 1024.0 };
        assert_eq!(Seconds::parse(said).ok(), Some(seconds));
        assert!(Seconds::parse(&said.replace("true", "null")).is_err());
        assert!(Seconds::parse("").is_err());
    }
}
