//! The check of a partition: whether checksums, sizes, copies and names agree, and the repair of what does not.
//!
//! [`inspect`] looks at everything and returns a [`CheckReport`] of [`CheckFinding`]s; programs may use the partition meanwhile.
//! [`repair`] repairs each finding on its own. The caller shows the report.
#![forbid(unsafe_code)]

mod error;
mod finding;
mod inspect;
mod paths;
mod repair;

pub use error::Error;
pub use finding::{CheckFinding, Inconsistency};
pub use inspect::{CheckReport, inspect};
pub use repair::repair;
