//! The environment variables of a rank, read once; no other module of the library reads any.

use std::sync::{Once, OnceLock};

use pario_hints::{Complaint, Hints};

/// What the environment says.
#[derive(Debug)]
pub struct Env {
    /// `PARIO_DISABLE=1`: hand every call to the host's own MPI-IO.
    pub disable: bool,
    /// `PARIO_STATS=1`: print the counters at MPI_Finalize.
    pub stats: bool,
    /// `PARIO_VERBOSE=1`: print a line for every call that fails.
    pub verbose: bool,
    hints: Hints,
    complaints: Vec<String>,
}

/// The environment of this process.
pub fn env() -> &'static Env {
    static ENV: OnceLock<Env> = OnceLock::new();
    ENV.get_or_init(|| Env::read(&|name| std::env::var(name).ok()))
}

impl Env {
    fn read(var: &dyn Fn(&str) -> Option<String>) -> Env {
        let on = |name| var(name).is_some_and(|value| !matches!(value.as_str(), "" | "0"));
        let mut complaints = Vec::new();
        let source = pario_hints::hint_file(var);
        let text = match std::fs::read(&source.path) {
            Ok(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
            Err(_) if source.variable.is_none() => None,
            Err(e) => {
                let variable = source.variable.unwrap_or_default();
                complaints
                    .push(format!("hint file {} (named by {variable}) cannot be read: {e}", source.path));
                None
            }
        };
        let (hints, found) = pario_hints::load(var, text.as_deref());
        complaints.extend(found.iter().map(Complaint::to_string));
        let (disable, stats, verbose) = (on("PARIO_DISABLE"), on("PARIO_STATS"), on("PARIO_VERBOSE"));
        Env { disable, stats, verbose, hints, complaints }
    }

    /// The hints that hold for every file, before the program's own.
    pub(crate) fn hints(&self) -> Hints {
        self.hints.clone()
    }

    /// Says once what is wrong with the hints of the environment.
    pub(crate) fn complain_once(&self) {
        static SAID: Once = Once::new();
        SAID.call_once(|| self.complaints.iter().for_each(|line| say(line)));
    }
}

/// One line to the user.
pub fn say(line: &str) {
    eprintln!("pario: {line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_and_hints_are_read() {
        let env = Env::read(&|name| match name {
            "PARIO_STATS" => Some("1".into()),
            "PARIO_VERBOSE" => Some("0".into()),
            "PARIO_HINTS" => Some("ind_rd_buffer_size=1M;cb_buffer_size=64Q".into()),
            "ROMIO_HINTS" => Some("/no/such/file".into()),
            _ => None,
        });
        assert!(env.stats && !env.verbose && !env.disable);
        assert_eq!(env.hints().ind_rd_buffer_size(), 1 << 20);
        assert_eq!(env.complaints.len(), 2, "{:?}", env.complaints);
        assert!(env.complaints[0].contains("/no/such/file"));
        assert!(env.complaints[1].contains("cb_buffer_size") && env.complaints[1].contains("64Q"));
    }
}
