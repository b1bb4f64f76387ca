//! The scope in which process numbers are comparable.

use std::io;
use std::os::unix::fs::MetadataExt;

/// A boot of the kernel and the namespaces in which a [`ProcessIdentity`](crate::ProcessIdentity) is
/// unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PidScope {
    /// The random id of this boot.
    pub boot: u128,
    /// The inode numbers of the process and time namespaces, combined into one number.
    pub namespaces: u64,
}

impl PidScope {
    /// The scope of this process.
    pub fn current() -> io::Result<PidScope> {
        let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
        let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
        let boot = u128::from_str_radix(&digits, 16).map_err(io::Error::other)?;
        let pids = std::fs::metadata("/proc/self/ns/pid")?.ino();
        // Kernels before 5.6 have no time namespaces.
        let times = std::fs::metadata("/proc/self/ns/time").map_or(0, |found| found.ino());
        Ok(PidScope { boot, namespaces: pids ^ times << 32 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_stays_what_it_is() {
        let here = PidScope::current().unwrap();
        assert_ne!(here.boot, 0);
        assert_ne!(here.namespaces, 0);
        assert_eq!(PidScope::current().unwrap(), here);
    }
}
