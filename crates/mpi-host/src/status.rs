//! Statuses: how many bytes an operation moved, written in the host's own format.

use crate::error::HostError;
use crate::handles::Host;
use std::ffi::c_void;

impl Host {
    /// Whether the program passed `MPI_STATUS_IGNORE`.
    pub fn ignores_status(&self, status: *const c_void) -> bool {
        status as usize as i64 == self.constants.number.status_ignore
    }

    /// Records `bytes` moved and "not cancelled"; nothing for `MPI_STATUS_IGNORE`. The count is in units
    /// of `MPI_BYTE`, from which the host answers `MPI_Get_count` for any datatype.
    ///
    /// # Safety
    /// `status` is `MPI_STATUS_IGNORE` or points to an `MPI_Status`.
    pub unsafe fn set_status(&self, status: *mut c_void, bytes: u64) -> Result<(), HostError> {
        if self.ignores_status(status) {
            return Ok(());
        }
        let byte = self.constants.handle.byte;
        let count = i64::try_from(bytes).unwrap_or(i64::MAX);
        // `_c` replaced `_x` in MPI-4.1; both write the same field.
        let set = self.f.status_set_elements_c.unwrap_or(self.f.status_set_elements_x);
        // SAFETY: the caller's; the datatype is a handle by value.
        self.check("MPI_Status_set_elements_x", unsafe { set(status, byte, count) })?;
        // SAFETY: the caller's.
        self.check("MPI_Status_set_cancelled", unsafe { (self.f.status_set_cancelled)(status, 0) })
    }
}
