//! The processor's own counter of time, which is read in half the time of a system clock.

/// A reading of the counter. It may be taken some ten nanoseconds before instructions in front of it are done: waiting for
/// them would double its price.
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the instruction; where the system forbids it, `is_steady` has not been true.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Whether the counter runs at one rate, in all states of the processor and alike on all of them.
///
/// The processor says the first. Of the second the kernel makes sure before it makes the counter its own clock, and watches it.
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
