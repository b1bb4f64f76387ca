//! How many ranks fit this machine: Open MPI counts cores, not hardware threads, and so do we.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::thread::available_parallelism;

/// The cores this process may use; at least one.
pub fn available() -> u32 {
    let threads = available_parallelism().map_or(1, |n| n.get());
    let cores = physical(Path::new("/sys/devices/system/cpu")).unwrap_or(threads);
    u32::try_from(threads.min(cores).max(1)).unwrap_or(u32::MAX)
}

/// The machine's cores as the kernel lists them; `None` where it does not say.
fn physical(cpus: &Path) -> Option<usize> {
    let mut cores = HashSet::new();
    for cpu in fs::read_dir(cpus).ok()?.flatten() {
        let topology = cpu.path().join("topology");
        let (package, core) = (topology.join("physical_package_id"), topology.join("core_id"));
        if let (Ok(package), Ok(core)) = (fs::read_to_string(package), fs::read_to_string(core)) {
            cores.insert((package, core));
        }
    }
    (!cores.is_empty()).then_some(cores.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_at_least_one_core() {
        assert!(available() >= 1);
        assert_eq!(physical(Path::new("/nonexistent")), None);
    }
}
