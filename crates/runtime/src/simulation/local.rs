//! Values of simulated threads.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use super::scheduler;

/// The values of a thread, by the addresses of their keys.
pub(crate) type Locals = BTreeMap<usize, Box<dyn Any>>;

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
        let value = local(std::ptr::from_ref(self) as usize, self.make);
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

/// A value of the running thread, made when it is first used.
fn local<T: 'static>(key: usize, make: impl FnOnce() -> T) -> *const T {
    let found =
        scheduler::with(|scheduler| scheduler.locals().get(&key).map(|value| std::ptr::from_ref(&**value)));
    let value = found.unwrap_or_else(|| {
        let value: Box<dyn Any> = Box::new(make());
        let pointer = std::ptr::from_ref(&*value);
        scheduler::with(|scheduler| drop(scheduler.locals().insert(key, value)));
        pointer
    });
    // SAFETY: the box stays where it is as long as its thread lives, and the caller is that thread.
    unsafe { &*value }.downcast_ref::<T>().expect("one type for a key")
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
