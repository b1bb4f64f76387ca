//! The time stamp counter of the processor and the identity of the current thread, both without a system call. No crate
//! offers these two; a system call would cost more than the operation that is recorded.

/// A reading of the counter. It may be taken some ten nanoseconds before instructions in front of it are
/// done: waiting for them would double its price.
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the instruction; where the system forbids it, `is_steady` has not
    // been true.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Whether the counter runs at one rate, in all states of the processor and alike on all of them.
///
/// The processor says the first. Of the second the kernel makes sure before it makes the counter its own
/// clock, and watches it.
#[cfg(target_arch = "x86_64")]
pub fn is_steady() -> bool {
    const POWER_MANAGEMENT: u32 = 0x8000_0007;
    const INVARIANT: u32 = 1 << 8;
    let leaf = |number| core::arch::x86_64::__cpuid(number);
    let says = leaf(0x8000_0000).eax >= POWER_MANAGEMENT && leaf(POWER_MANAGEMENT).edx & INVARIANT != 0;
    let clock = std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    says && clock.is_ok_and(|clock| clock.trim() == "tsc")
}

/// No counter is known for this processor.
#[cfg(not(target_arch = "x86_64"))]
pub fn ticks() -> u64 {
    unreachable!("there is no counter, and is_steady says so")
}

/// No counter is known for this processor.
#[cfg(not(target_arch = "x86_64"))]
pub fn is_steady() -> bool {
    false
}

/// A number that no other living thread has: the address of its control block.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[inline]
pub fn thread() -> u64 {
    let address;
    // SAFETY: by the platform's ABI the word at fs:0 is the thread's pointer to itself.
    unsafe {
        core::arch::asm!("mov {}, fs:0", out(reg) address, options(nostack, preserves_flags, readonly, pure))
    };
    address
}

/// A number that no other living thread has: the address of a variable of its own.
#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
pub fn thread() -> u64 {
    thread_local! {
        static HERE: std::cell::Cell<u8> = const { std::cell::Cell::new(0) };
    }
    HERE.with(|here| std::ptr::from_ref(here).addr() as u64)
}

#[cfg(test)]
mod tests {
    #[test]
    fn threads_differ_and_stay_what_they_are() {
        let here = super::thread();
        let there = std::thread::spawn(|| (super::thread(), super::thread())).join().expect("no panic");
        assert_eq!((super::thread(), there.0), (here, there.1));
        assert!(here != 0 && there.0 != 0 && there.0 != here);
    }
}
