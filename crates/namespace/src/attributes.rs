//! Results of the name space that no other crate shares.

use pario_metadata::Attributes;

/// An opened file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenedFile {
    /// The file.
    pub attributes: Attributes,
    /// Whether this open created it.
    pub created: bool,
}
