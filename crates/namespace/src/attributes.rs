//! What callers get beyond the words that all rooms of a partition share.

use pario_metadata::Attributes;

/// An opened file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The file.
    pub attributes: Attributes,
    /// Whether this open made it.
    pub created: bool,
}
