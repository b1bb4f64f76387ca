//! The hints `pario_access_ranges` and `pario_access_done`: ranges of a file that a rank will access soon, and ranges
//! that it no longer needs.
//!
//! On a partition the servers prefetch the ranges into their caches and refuse ranges beyond a limit. On a plain file
//! the kernel is advised to read the ranges, within limits of `posix`. Ranges that were in the page cache before
//! are not released, since other processes may use them.

use pario_hints::Hints;

use crate::file::MpiFile;
use crate::info::apply_info;

impl MpiFile {
    /// Applies the prefetch hints of an info object that the program has passed.
    pub(crate) fn apply_prefetch_info(&self, info: &[(String, String)]) {
        let mut passed = Hints::new();
        apply_info(&mut passed, info, false);
        self.apply_prefetch_hints(&passed);
    }

    /// Applies prefetch hints. Errors are ignored: the accesses to the ranges report them.
    pub(crate) fn apply_prefetch_hints(&self, hints: &Hints) {
        let (done, soon) = (hints.access_done().unwrap_or_default(), hints.access_ranges());
        if done.is_empty() && soon.is_none() {
            return;
        }
        let wanted = soon.unwrap_or_default();
        let taken = self.opened().map_or(0, |storage| {
            storage.release_hinted(done);
            storage.prefetch_hinted(wanted)
        });
        if soon.is_some() {
            self.note_taken(taken);
        }
    }
}
