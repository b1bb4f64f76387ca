//! Where numbers of processes mean something.

use std::io;
use std::os::unix::fs::MetadataExt;

/// A run of the kernel, and the namespaces in which a [`Process`](crate::Process) is known by its number and start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The kernel's random number of this boot.
    pub boot: u128,
    /// The namespaces of process numbers and of times, as one number.
    pub namespaces: u64,
}

impl Origin {
    /// That of this process.
    pub fn here() -> io::Result<Origin> {
        let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
        let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
        let boot = u128::from_str_radix(&digits, 16).map_err(io::Error::other)?;
        let pids = std::fs::metadata("/proc/self/ns/pid")?.ino();
        // Kernels before 5.6 have one time for all.
        let times = std::fs::metadata("/proc/self/ns/time").map_or(0, |found| found.ino());
        Ok(Origin { boot, namespaces: pids ^ times << 32 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_stays_what_it_is() {
        let here = Origin::here().unwrap();
        assert_ne!(here.boot, 0);
        assert_ne!(here.namespaces, 0);
        assert_eq!(Origin::here().unwrap(), here);
    }
}
