//! The C library's clocks and random numbers, replaced in simulated threads.
//!
//! The linker prefers these functions to those of the C library, so the standard library and all crates get virtual time and seeded
//! numbers. Threads that run no simulation get the kernel's.

use std::cell::Cell;

use super::{clock as clocks, scheduler};

std::thread_local! {
    /// A state for random numbers that are wanted before a simulation starts.
    static EARLY: Cell<u64> = const { Cell::new(0x853c_49e6_748f_ea9b) };
}

/// # Safety
/// As `clock_gettime(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> libc::c_int {
    if !scheduler::is_active() {
        // SAFETY: the caller's arguments, as they came.
        return unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) } as libc::c_int;
    }
    let now = if clock == libc::CLOCK_REALTIME { clocks::wall_clock() } else { scheduler::now() };
    let now = libc::timespec { tv_sec: (now / 1_000_000_000) as i64, tv_nsec: (now % 1_000_000_000) as i64 };
    // SAFETY: the caller gives a valid pointer.
    unsafe { *time = now };
    0
}

/// # Safety
/// As `getrandom(2)`. The numbers are the same in every run of the program, also before a simulation: the keys of hash tables come from
/// here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrandom(buffer: *mut libc::c_void, len: usize, _flags: libc::c_uint) -> isize {
    // SAFETY: the caller gives a buffer of that length.
    let bytes = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), len) };
    if scheduler::is_active() {
        scheduler::fill_random(bytes);
        return len as isize;
    }
    for byte in bytes {
        let state =
            EARLY.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        EARLY.set(state);
        *byte = (state >> 56) as u8;
    }
    len as isize
}
