//! Names, attributes and open files: the requests to the metadata server, and the client's own copy of its replies.

pub(crate) mod attributes;
pub(crate) mod names;
pub(crate) mod open_file;
pub(crate) mod open_options;
pub(crate) mod shared_counter;
pub(crate) mod table_cache;
pub(crate) mod truncate;
pub(crate) mod unsynced;
