//! Errors in hint values about file domains.

use pario_types::ErrorKind;

/// The reason why a hint value is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An item of a `cb_config_list` that is not `host`, `host:count` or `host:*`.
    #[error("cb_config_list: {0:?} is not a host and a count; write items such as node7:2 or *:1")]
    ConfigItem(String),
}

impl Error {
    /// The error class for callers.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::ConfigItem(_) => ErrorKind::Info,
        }
    }
}
