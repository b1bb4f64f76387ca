//! What can be wrong with what a user asks of this room.

use pario_types::ErrorKind;

/// Why a text is not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// An item of a `cb_config_list` that is not `host`, `host:count` or `host:*`.
    ConfigItem(String),
}

impl Error {
    /// The kind, as far as a caller can act on it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::ConfigItem(_) => ErrorKind::Info,
        }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::ConfigItem(item) => {
                write!(
                    f,
                    "cb_config_list: {item:?} is not a host and a count; write items such as node7:2 or *:1"
                )
            }
        }
    }
}

impl std::error::Error for Error {}
