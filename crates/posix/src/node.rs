//! Which node this is, and ids that nobody else draws.

use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;

/// A number equal on all processes that share this node's memory file system, and hardly elsewhere.
///
/// Made of the kernel's boot id, the host name, and the device of `/dev/shm`, so that containers with a
/// memory file system of their own count as nodes of their own.
pub fn node_key() -> u64 {
    let boot = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let name = std::fs::read("/proc/sys/kernel/hostname").unwrap_or_default();
    let device = std::fs::metadata("/dev/shm").map_or(0, |m| m.dev());
    let bytes = boot.into_iter().chain(name).chain(device.to_ne_bytes());
    // FNV-1a: a fixed, simple hash; the standard library's is seeded anew in each process.
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// A random number that nobody else draws.
pub fn random_id() -> io::Result<u128> {
    let mut bytes = [0u8; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u128::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_stays_and_ids_do_not() {
        assert_eq!(node_key(), node_key());
        assert_ne!(random_id().unwrap(), random_id().unwrap());
    }
}
