//! Names, attributes and open files: what the metadata server knows, and what a client keeps of it.

pub(crate) mod attributes;
pub(crate) mod names;
pub(crate) mod open_file;
pub(crate) mod open_options;
pub(crate) mod shared_counter;
pub(crate) mod table_cache;
pub(crate) mod truncate;
pub(crate) mod unsynced;
