//! The set of the partition's servers, which `pario scale` changes while the server runs.
//!
//! A set has an epoch. A server uses a set of a later epoch than its own once the set is recorded in its directory, so that its
//! successor, which is started with the set of the time when the partition was started, continues with it.

use pario_runtime::sync::Mutex;
use pario_transport::Address;
use pario_wire::message::{ServerMember, ServerSet};

use crate::core::Core;
use crate::error::{Error, Result};

/// Records a set of servers durably.
pub(crate) type RecordServerSet = Box<dyn Fn(&ServerSet) -> std::result::Result<(), String> + Send + Sync>;

/// Records sets of servers, one at a time.
#[derive(Default)]
pub(crate) struct ServerSetRecord(Mutex<Option<RecordServerSet>>);

impl ServerSetRecord {
    pub fn set(&self, record: RecordServerSet) {
        *self.0.lock() = Some(record);
    }
}

impl Core {
    /// Uses another set of servers from now on: for new files, for requests to other servers and in handshakes.
    pub fn set_servers(&self, set: &ServerSet) -> Result<()> {
        let record = self.server_sets.0.lock();
        let known = self.peers.epoch();
        if set.epoch < known {
            return Err(Error::OldServerSet { told: set.epoch, known });
        }
        if set.epoch == known {
            return Ok(());
        }
        let servers = u16::try_from(set.servers.len()).map_err(|_| Error::BadRequest("servers"))?;
        if self.config.server.0 >= servers || self.config.metadata.0 >= servers {
            return Err(Error::BadRequest("servers"));
        }
        let addresses: Vec<Vec<Address>> = set.servers.iter().map(addresses).collect::<Result<_>>()?;
        if let Some(record) = &*record {
            record(set).map_err(Error::Unrecorded)?;
        }
        let is_here = |at: &&Vec<Address>| at.iter().any(|address| matches!(address, Address::Unix(_)));
        let here = addresses.iter().filter(is_here).count() as u64;
        self.peers.set_servers(set.epoch, addresses);
        self.sessions.set_servers(set.epoch, servers);
        self.tier.share_medium(here, &self.counters);
        match &self.metadata {
            Some(metadata) => metadata.set_servers(servers),
            None => Ok(()),
        }
    }
}

fn addresses(member: &ServerMember) -> Result<Vec<Address>> {
    let addresses = member.addresses.iter().map(|text| Ok(text.parse()?)).collect::<Result<Vec<_>>>()?;
    if addresses.is_empty() { Err(Error::BadRequest("servers")) } else { Ok(addresses) }
}
