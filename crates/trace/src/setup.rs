//! The settings of tracing, as a user writes them: which operations to record, and where.
//!
//! The strings come from the environment, which is read elsewhere; here they become typed values once.

use std::fmt;
use std::path::PathBuf;

use pario_types::ErrorKind;

use crate::clock::ClockSource;

/// The default directory of traces.
pub const DEFAULT_DIR: &str = "pario-trace";

/// The operations that are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceMode {
    /// Those that failed or moved fewer bytes than requested.
    Errors,
    /// All of them.
    All,
}

impl TraceMode {
    /// Its name in the variable.
    pub fn word(self) -> &'static str {
        match self {
            TraceMode::Errors => "errors",
            TraceMode::All => "all",
        }
    }
}

/// The settings in `PARIO_TRACE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceSetup {
    /// The operations that are recorded.
    pub mode: TraceMode,
    /// Reads and writes that touch no byte at this offset or above are left out.
    pub min: u64,
    /// The clock.
    pub clock: ClockSource,
    /// The directory of the trace files, which is created if it does not exist.
    pub dir: PathBuf,
    /// A word that is the same on all ranks of a job and differs between jobs; empty where none is known.
    pub job: String,
}

impl TraceSetup {
    /// Reads `errors|all[,min=OFFSET][,dir=DIR][,clock=system]`. An empty text, `0` and `off` select no trace.
    ///
    /// ```
    /// let setup = pario_trace::TraceSetup::parse("errors,min=64k,dir=/tmp/t").unwrap().unwrap();
    /// assert_eq!(setup.min, 65536);
    /// assert!(pario_trace::TraceSetup::parse("everything").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Option<TraceSetup>, SettingError> {
        let mut parts = text.split(',').map(str::trim);
        let mode = match parts.next() {
            Some("errors") => TraceMode::Errors,
            Some("all") => TraceMode::All,
            Some("" | "0" | "off") if parts.next().is_none() => return Ok(None),
            word => {
                return Err(SettingError::trace(text, format!("'{}' is no mode", word.unwrap_or_default())));
            }
        };
        let (clock, dir) = (ClockSource::Fastest, PathBuf::from(DEFAULT_DIR));
        let mut setup = TraceSetup { mode, min: 0, clock, dir, job: String::new() };
        for part in parts {
            match part.split_once('=') {
                Some(("min", value)) => {
                    setup.min = offset(value)
                        .ok_or_else(|| SettingError::trace(text, format!("min={value} is no file offset")))?;
                }
                Some(("dir", "")) => {
                    return Err(SettingError::trace(text, "dir= names no directory".to_owned()));
                }
                Some(("dir", value)) => setup.dir = PathBuf::from(value),
                Some(("clock", "system")) => setup.clock = ClockSource::System,
                _ => return Err(SettingError::trace(text, format!("'{part}' is not known"))),
            }
        }
        Ok(Some(setup))
    }
}

/// A file offset in the user's notation.
fn offset(text: &str) -> Option<u64> {
    pario_types::parse_size(text).filter(|&bytes| bytes <= i64::MAX as u64)
}

/// An invalid setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingError {
    variable: &'static str,
    text: String,
    why: String,
    form: &'static str,
}

impl SettingError {
    fn trace(text: &str, why: String) -> SettingError {
        let form = "errors|all[,min=OFFSET][,dir=DIR][,clock=system]";
        SettingError { variable: "PARIO_TRACE", text: text.to_owned(), why, form }
    }

    pub(crate) fn stats(text: &str, why: String) -> SettingError {
        SettingError { variable: "PARIO_STATS", text: text.to_owned(), why, form: "1|json|json:FILE" }
    }

    /// The kind, on which a caller can act.
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::Arg
    }
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SettingError { variable, text, why, form } = self;
        write!(f, "{variable}={text:?} is ignored: {why}; write {variable}={form}")
    }
}

impl std::error::Error for SettingError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup(text: &str) -> TraceSetup {
        TraceSetup::parse(text).unwrap().unwrap()
    }

    #[test]
    fn every_part_is_understood() {
        let plain = setup("errors");
        assert_eq!((plain.mode, plain.min, plain.dir.to_str()), (TraceMode::Errors, 0, Some("pario-trace")));
        let full = setup("all,min=1M,dir=/scratch/my trace");
        assert_eq!(
            (full.mode, full.min, full.dir.to_str()),
            (TraceMode::All, 1 << 20, Some("/scratch/my trace"))
        );
        assert_eq!(setup("all, dir=x, min=7").min, 7);
        assert_eq!(
            (setup("all").clock, setup("all,clock=system").clock),
            (ClockSource::Fastest, ClockSource::System)
        );
        for off in ["", "0", "off", " "] {
            assert_eq!(TraceSetup::parse(off), Ok(None), "{off:?}");
        }
    }

    #[test]
    fn what_is_not_understood_is_refused_in_one_line() {
        let wrong = [
            "yes",
            "all;min=4",
            "all,min=-1",
            "all,min=4Q",
            "all,min=",
            "all,dir=",
            "all,clock=mine",
            "errors,x",
            "0,min=4",
            "all,min=9999999999G",
            "all,min=ä",
        ];
        for text in wrong {
            let line = TraceSetup::parse(text).unwrap_err().to_string();
            assert!(line.contains("PARIO_TRACE") && line.contains("errors|all"), "{line}");
            assert!(!line.contains('\n'), "{line}");
        }
    }
}
