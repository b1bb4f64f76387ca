//! Servers that were to be stopped, and of which not everything is known to be stored.

use pario_types::{ServerId, round_size};
use std::fmt;
use std::path::Path;

/// A server of which not everything is known to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsettledServer {
    /// Which.
    pub server: ServerId,
    /// On which host.
    pub host: String,
    /// Where unsaved data is, and how to save it.
    pub why: String,
    /// Why it refused to stop, if it did.
    refusal: Option<String>,
}

impl UnsettledServer {
    /// A server with the reason why it is not settled.
    pub fn new(server: ServerId, host: &str, why: String) -> UnsettledServer {
        UnsettledServer { server, host: host.to_owned(), why, refusal: None }
    }

    /// It runs, and says that it cannot stop.
    pub fn refuses(server: ServerId, host: &str, why: &str) -> UnsettledServer {
        let refusal = Some(why.to_owned());
        let why =
            format!("it goes on running, because it cannot store everything: {why}; mend that and try again");
        UnsettledServer { refusal, ..UnsettledServer::new(server, host, why) }
    }

    /// The same server after it was stopped by force.
    pub(crate) fn stopped_by_force(self) -> UnsettledServer {
        let Some(refusal) = &self.refusal else { return self };
        let why = format!(
            "it could not store everything: {refusal}; it was stopped by force, and what is not stored is in its pool"
        );
        UnsettledServer { why, refusal: None, ..self }
    }

    /// Its pool is gone with the memory of its host.
    pub fn lost(server: ServerId, host: &str) -> UnsettledServer {
        let why = "it ended without storing everything, and its pool is gone, as after a restart of its host: writes that were \
                   not synced may be lost; 'pario up' starts it with what is stored, 'pario down --discard' accepts the loss";
        UnsettledServer::new(server, host, why.to_owned())
    }

    /// It died, and what its pool holds could not be stored. `unsaved`: how many bytes, if that is known.
    pub fn left(
        server: ServerId,
        host: &str,
        unsaved: Option<u64>,
        pool: &Path,
        cause: &str,
    ) -> UnsettledServer {
        let pool = pool.display();
        let what = match unsaved {
            Some(0) => format!("nothing is only in its pool {pool}, but its storage cannot be used"),
            Some(bytes) => {
                format!("{} are only in its pool {pool}, because they cannot be stored", round_size(bytes))
            }
            None => format!("its pool {pool} cannot be read"),
        };
        let why = format!(
            "it died, and {what}: {cause}; mend that, then 'pario up' or 'pario down' saves everything; 'pario down \
             --discard' removes the pool"
        );
        UnsettledServer::new(server, host, why)
    }
}

impl fmt::Display for UnsettledServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "server {} on {}: {}", self.server, self.host, self.why)
    }
}
