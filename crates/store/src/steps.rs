//! The steps in which a part changes, so that tests can stop between any two of them and in the middle of
//! one.

/// One change of what is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A new part's checksum file appears, with its header.
    CreateSums,
    /// A new part's data file appears.
    CreateData,
    /// The order of a part's blocks is written, under a name that nobody looks at.
    WriteOrder,
    /// It gets the name under which it counts.
    Arrange,
    /// Entries are marked as in flux.
    Mark,
    /// Blocks are written.
    Data,
    /// The data file gets another size.
    Resize,
    /// Ordered blocks, or bytes of one, beyond the end become zeros.
    Clear,
    /// Entries get their new value.
    Enter,
    /// Entries beyond the end are cut off.
    Trim,
    /// The header is written anew.
    Head,
    /// The data file goes.
    RemoveData,
    /// The file of ordered blocks goes.
    RemoveOrdered,
    /// The checksum file goes.
    RemoveSums,
}

/// Who is asked before each step.
pub trait Steps: Send + Sync {
    /// How many of the step's bytes may be written (0 bytes: whether the step may be taken); an error
    /// number if none. After fewer than all of them the disk is full.
    fn before(&self, step: Step, bytes: usize) -> Result<usize, i32>;
}

/// Every step is taken in full.
pub struct Plain;

impl Steps for Plain {
    fn before(&self, _: Step, bytes: usize) -> Result<usize, i32> {
        Ok(bytes)
    }
}
