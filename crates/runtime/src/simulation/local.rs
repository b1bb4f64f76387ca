//! Values of simulated threads.

use std::cell::{Cell, RefCell};

use super::scheduler;

/// A value that each simulated thread has for itself; made by [`thread_local!`](crate::thread_local).
pub struct LocalKey<T: 'static> {
    make: fn() -> T,
}

impl<T: 'static> LocalKey<T> {
    #[doc(hidden)]
    pub const fn new(make: fn() -> T) -> LocalKey<T> {
        LocalKey { make }
    }

    /// Uses the value of the current thread.
    pub fn with<R>(&'static self, act: impl FnOnce(&T) -> R) -> R {
        let value = scheduler::local(std::ptr::from_ref(self) as usize, self.make);
        // SAFETY: the value belongs to the current thread, which keeps it until it ends.
        act(unsafe { &*value })
    }
}

impl<T: 'static + Copy> LocalKey<Cell<T>> {
    /// The value.
    pub fn get(&'static self) -> T {
        self.with(Cell::get)
    }

    /// Changes the value.
    pub fn set(&'static self, value: T) {
        self.with(|cell| cell.set(value));
    }
}

impl<T: 'static> LocalKey<RefCell<T>> {
    /// Uses the value.
    pub fn with_borrow_mut<R>(&'static self, act: impl FnOnce(&mut T) -> R) -> R {
        self.with(|cell| act(&mut cell.borrow_mut()))
    }
}

/// Declares values that each thread has for itself, as the macro of the standard library does.
#[macro_export]
macro_rules! thread_local {
    ($($(#[$attribute:meta])* $visibility:vis static $name:ident : $type:ty = const { $value:expr });+ $(;)?) => {
        $($(#[$attribute])* $visibility static $name: $crate::simulation::local::LocalKey<$type> =
            $crate::simulation::local::LocalKey::new(|| $value);)+
    };
    ($($(#[$attribute:meta])* $visibility:vis static $name:ident : $type:ty = $value:expr);+ $(;)?) => {
        $($(#[$attribute])* $visibility static $name: $crate::simulation::local::LocalKey<$type> =
            $crate::simulation::local::LocalKey::new(|| $value);)+
    };
}
