//! The connections of a client to the servers of a partition.

pub(crate) mod connection_table;
pub(crate) mod mapped_pool;
pub(crate) mod server_connection;
pub(crate) mod target;
