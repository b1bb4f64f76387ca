//! The identity of this node, and random ids.

use std::os::unix::fs::MetadataExt;

/// A key that is equal on all processes that share this node's memory file system, and almost certainly unequal
/// elsewhere.
///
/// It is a hash of the kernel's boot id, the host name and the device of `/dev/shm`. Containers that have a memory
/// file system of their own count as separate nodes.
pub(crate) fn node_key() -> u64 {
    let boot = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let name = std::fs::read("/proc/sys/kernel/hostname").unwrap_or_default();
    let device = std::fs::metadata("/dev/shm").map_or(0, |m| m.dev());
    let bytes = boot.into_iter().chain(name).chain(device.to_ne_bytes());
    pario_types::fnv1a(bytes)
}

/// A random id that no other process draws.
pub(crate) fn random_id() -> Result<u128, getrandom::Error> {
    let mut bytes = [0u8; 16];
    getrandom::fill(&mut bytes)?;
    Ok(u128::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_key_is_stable_and_ids_differ() {
        assert_eq!(node_key(), node_key());
        assert_ne!(random_id().unwrap(), random_id().unwrap());
    }
}
