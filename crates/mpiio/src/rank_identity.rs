//! The identities of the ranks that open files together.

use pario_mpi_host::Comm;
use pario_types::ErrorKind;

use crate::env::env;
use crate::error::{Error, Result};
use crate::node;

/// The identity of a rank, exchanged when a group is created.
pub(crate) struct RankIdentity {
    /// The key of its node.
    pub node: u64,
    /// Its process id.
    pub pid: u32,
    /// A random number.
    pub random: u64,
    /// The name of its host.
    pub name: String,
}

/// The bytes of a host name that are exchanged.
const NAME: usize = 64;

impl RankIdentity {
    /// The identities of all ranks of a communicator. Collective.
    pub fn gather(comm: Comm) -> Result<Vec<RankIdentity>> {
        let name = env().host_name();
        let mut mine = Vec::with_capacity(24 + NAME);
        let random = node::random_id()
            .map_err(|_| Error::Usage(ErrorKind::Intern, "the system has no random numbers"))?;
        for word in [env().node_key(), u64::from(std::process::id()), random as u64] {
            mine.extend_from_slice(&word.to_ne_bytes());
        }
        mine.extend(name.bytes().take(NAME));
        mine.resize(24 + NAME, 0);
        let all = comm.allgather(&mine)?;
        let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
        Ok(all
            .chunks_exact(24 + NAME)
            .map(|one| RankIdentity {
                node: word(&one[..8]),
                pid: word(&one[8..16]) as u32,
                random: word(&one[16..24]),
                name: String::from_utf8_lossy(&one[24..]).trim_end_matches('\0').to_owned(),
            })
            .collect())
    }
}
