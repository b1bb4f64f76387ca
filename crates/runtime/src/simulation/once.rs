//! A value that is computed once, with the interface of `std::sync::OnceLock`.
//!
//! The real one makes threads wait in the kernel while one of them computes the value, which stops a simulation for ever.

use std::cell::UnsafeCell;

use super::sync::Mutex;

/// A value that the first thread that needs it computes.
pub struct OnceLock<T> {
    /// Held while the value is computed.
    computing: Mutex<()>,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: all simulated threads run in one thread of the program.
unsafe impl<T: Send> Send for OnceLock<T> {}
// SAFETY: likewise.
unsafe impl<T: Send + Sync> Sync for OnceLock<T> {}

impl<T> OnceLock<T> {
    /// No value so far.
    pub const fn new() -> OnceLock<T> {
        OnceLock { computing: Mutex::new(()), value: UnsafeCell::new(None) }
    }

    /// The value, if it is computed.
    pub fn get(&self) -> Option<&T> {
        // SAFETY: the value is stored once, and never changed while others may refer to it.
        unsafe { (*self.value.get()).as_ref() }
    }

    /// The value, which is computed if necessary.
    pub fn get_or_init(&self, compute: impl FnOnce() -> T) -> &T {
        if let Some(value) = self.get() {
            return value;
        }
        let _computing = self.computing.lock();
        if self.get().is_none() {
            let value = compute();
            // SAFETY: nobody refers to the value, because there is none, and no other thread stores one.
            unsafe { *self.value.get() = Some(value) };
        }
        self.get().expect("it is computed")
    }
}

impl<T> Default for OnceLock<T> {
    fn default() -> OnceLock<T> {
        OnceLock::new()
    }
}
