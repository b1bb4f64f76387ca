//! The connections of a client, by the number of the server. A connection exists from its first use on and stays, so that references
//! to it are valid while the partition's set of servers grows.

use std::sync::OnceLock;

use pario_types::ServerId;

use crate::connection::server_connection::ServerConnection;

/// Chunk k has the connections of the servers from 2ᵏ − 1 to 2ᵏ⁺¹ − 2.
const CHUNKS: usize = 17;

/// A connection for each server that there is or will be.
pub(crate) struct ConnectionTable([OnceLock<Box<[ServerConnection]>>; CHUNKS]);

impl ConnectionTable {
    pub fn new() -> ConnectionTable {
        ConnectionTable(std::array::from_fn(|_| OnceLock::new()))
    }

    #[inline]
    pub fn get(&self, server: ServerId) -> &ServerConnection {
        let place = usize::from(server.0) + 1;
        let chunk = place.ilog2() as usize;
        let first = 1 << chunk;
        let make =
            || (first..2 * first).map(|place| ServerConnection::new(ServerId((place - 1) as u16))).collect();
        &self.0[chunk].get_or_init(make)[place - first]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_has_one_connection() {
        let table = ConnectionTable::new();
        for server in [0, 1, 2, 3, 6, 7, 8, 1000, u16::MAX - 1, u16::MAX].map(ServerId) {
            let connection = table.get(server);
            assert_eq!(connection.server, server);
            assert!(std::ptr::eq(connection, table.get(server)));
        }
    }
}
