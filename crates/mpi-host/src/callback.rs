//! The panic boundary of functions that the host calls back.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `body`. A panic returns `failed` instead of unwinding into C.
pub(crate) fn catch_panic(failed: c_int, body: impl FnOnce() -> c_int) -> c_int {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(failed)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_panic_becomes_the_error_value() {
        assert_eq!(super::catch_panic(7, || 3), 3);
        assert_eq!(super::catch_panic(7, || std::panic::resume_unwind(Box::new(()))), 7);
    }
}
