//! The server schedule, a choice that only hints define. The other choices are in the crate `types`, because other
//! crates share them.

/// The server with which a rank begins an access to several servers, as in the hint `pario_schedule`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Each rank begins with another server.
    Staggered,
    /// All ranks begin with the first server.
    Fixed,
    /// Each rank draws its first server at random when it opens the file.
    Random,
}

impl Schedule {
    pub(crate) const ALL: [Schedule; 3] = [Schedule::Staggered, Schedule::Fixed, Schedule::Random];

    /// The name in hints.
    pub const fn name(self) -> &'static str {
        match self {
            Schedule::Staggered => "staggered",
            Schedule::Fixed => "fixed",
            Schedule::Random => "random",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Schedule> {
        Schedule::ALL.into_iter().find(|schedule| schedule.name() == name)
    }
}
