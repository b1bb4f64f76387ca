//! The list of mounts from the kernel, and unmounting.
//!
//! A mount is identified by its source: `pario:NAME#ID`, with the first digits of the partition's id, so that a partition
//! of the same name in another registry is distinguished. It may outlive the process that served it (if that was killed).
//! Then every access to its directory fails, but it is still listed and can be unmounted.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use pario_client::PartitionId;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::error::Error;

/// The type of the file system, as the kernel shows it.
pub(crate) const SUBTYPE: &str = "pario";

const DEVICE: &str = "/dev/fuse";
const LIST: &str = "/proc/self/mountinfo";
const PREFIX: &str = "pario:";

/// A partition that is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Its directory.
    pub dir: PathBuf,
    source: String,
}

impl Mount {
    /// Whether it is a mount of that partition.
    pub fn is_of(&self, name: &str, id: PartitionId) -> bool {
        self.source == source(name, id)
    }
}

pub(crate) fn source(name: &str, id: PartitionId) -> String {
    let id = id.to_string();
    format!("{PREFIX}{name}#{}", &id[..8])
}

/// Checks that this process can mount at all, as far as that is known beforehand.
pub(crate) fn check_available() -> Result<(), Error> {
    fs::OpenOptions::new().read(true).write(true).open(DEVICE).map(drop).map_err(Error::Device)
}

/// Checks that a directory can be mounted on; returns its path without links.
pub(crate) fn check_free(dir: &Path) -> Result<PathBuf, Error> {
    let named = |cause| Error::Directory { dir: dir.to_owned(), cause };
    // This check precedes any access to the directory: a mount there may have no process that answers.
    let (place, mounts) = (in_place(dir), list()?);
    if mounts.iter().any(|(taken, _)| Some(taken) == place.as_ref()) {
        return Err(Error::Taken(dir.to_owned()));
    }
    let dir = dir.canonicalize().map_err(named)?;
    if mounts.iter().any(|(taken, _)| *taken == dir) {
        return Err(Error::Taken(dir));
    }
    match fs::read_dir(&dir).map_err(named)?.next() {
        None => Ok(dir),
        Some(_) => Err(Error::Occupied(dir)),
    }
}

/// Returns the partition that is mounted at a directory, if there is one; also if no process serves it any more.
pub fn at(dir: &Path) -> Result<Option<Mount>, Error> {
    let Some(place) = in_place(dir) else { return Ok(None) };
    let mounts = list()?;
    // The last mount covers the others.
    let find = |dir: &Path| mounts.iter().rev().find(|(mounted, _)| *mounted == dir);
    // If nothing is mounted there, the path may be a link to a mount.
    let found = find(&place).or_else(|| find(&dir.canonicalize().ok()?));
    let ours = found.filter(|(_, source)| source.starts_with(PREFIX));
    Ok(ours.map(|(dir, source)| Mount { dir: dir.clone(), source: source.clone() }))
}

/// Unmounts the partition at a directory. If it is in use this is an error, unless `lazy`: then it disappears from the
/// directory now, and ends with its last use.
pub fn unmount(dir: &Path, lazy: bool) -> Result<(), Error> {
    let Mount { dir, .. } = at(dir)?.ok_or_else(|| Error::NotMounted(dir.to_owned()))?;
    let flags = if lazy { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    match rustix::mount::unmount(&dir, flags) {
        Ok(()) => Ok(()),
        Err(Errno::BUSY) => Err(Error::Busy(dir)),
        Err(Errno::PERM) => unmount_as_user(dir, lazy),
        Err(cause) => Err(Error::Unmount { dir, why: cause.to_string() }),
    }
}

fn unmount_as_user(dir: PathBuf, lazy: bool) -> Result<(), Error> {
    let mut command = Command::new("fusermount3");
    command.env("LC_ALL", "C").arg(if lazy { "-uz" } else { "-u" }).arg("--").arg(&dir);
    let output = match command.output() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(Error::Unmount {
                dir,
                why: "there is no fusermount3: install the package fuse3".into(),
            });
        }
        output => output.map_err(Error::System)?,
    };
    let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    match output.status.success() {
        true => Ok(()),
        false if said.contains("busy") => Err(Error::Busy(dir)),
        false => Err(Error::Unmount { dir, why: said }),
    }
}

/// Returns the path of a directory within its parent, without an access to the directory itself: if that is a mount that no
/// process serves, the access fails or takes long. `None` if the parent does not exist.
fn in_place(dir: &Path) -> Option<PathBuf> {
    let whole = std::path::absolute(dir).ok()?;
    match (whole.parent(), whole.file_name()) {
        (Some(parent), Some(name)) => Some(parent.canonicalize().ok()?.join(name)),
        _ => Some(whole),
    }
}

/// Directory and source of all mounts, oldest first.
fn list() -> Result<Vec<(PathBuf, String)>, Error> {
    let text = fs::read(LIST).map_err(Error::System)?;
    Ok(text.split(|byte| *byte == b'\n').filter_map(parse).collect())
}

/// Parses a line of the kernel's list: its fifth word is the directory; the source is the second word after a single `-`.
fn parse(line: &[u8]) -> Option<(PathBuf, String)> {
    let mut words = line.split(|byte| *byte == b' ');
    let dir = plain(words.nth(4)?);
    words.find(|word| *word == b"-")?;
    let source = String::from_utf8(plain(words.nth(1)?)).ok()?;
    Some((PathBuf::from(OsString::from_vec(dir)), source))
}

/// The kernel writes space, tab, newline, backslash and # as three octal digits after a backslash.
fn plain(word: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| first == b'\\');
        let octal = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        plain.push(octal.unwrap_or(first));
        rest = if octal.is_some() { &after[3..] } else { after };
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn mount_lines_of_the_kernel_are_parsed() {
        let line =
            br"36 35 98:0 / /mnt/a\040b rw,noatime shared:1 master:2 - fuse.pario pario:scratch\0431234 rw";
        assert_eq!(parse(line), Some(("/mnt/a b".into(), "pario:scratch#1234".into())));
        let bare = b"23 28 0:22 / /proc rw,relatime - proc proc rw";
        assert_eq!(parse(bare), Some(("/proc".into(), "proc".into())));
        assert_eq!(parse(b""), None);
        assert_eq!(parse(b"1 2 3 4 5"), None);
    }

    #[test]
    fn other_mounts_are_not_unmounted() {
        for dir in ["/proc", "/", "/no/such/directory"] {
            assert_eq!(at(Path::new(dir)).expect("a list"), None);
            assert!(matches!(unmount(Path::new(dir), false), Err(Error::NotMounted(_))));
        }
        assert!(matches!(check_free(Path::new("/proc")), Err(Error::Taken(_))));
        assert!(matches!(check_free(Path::new("/no/such")), Err(Error::Directory { .. })));
        let occupied = check_free(Path::new(env!("CARGO_MANIFEST_DIR")));
        assert!(matches!(occupied, Err(Error::Occupied(_))));
    }

    #[test]
    fn a_mount_is_that_of_one_partition() {
        let mount = Mount { dir: "/m".into(), source: "pario:scratch#00000000".into() };
        assert!(mount.is_of("scratch", PartitionId(7)));
        assert!(!mount.is_of("scratch", PartitionId(7 << 96)));
        assert!(!mount.is_of("other", PartitionId(7)));
    }

    proptest! {
        #[test]
        fn any_escaped_name_is_decoded(name in prop::collection::vec(1u8.., 0..20)) {
            let written: Vec<u8> = name.iter().flat_map(|byte| match byte {
                b' ' | b'\t' | b'\n' | b'\\' | b'#' => format!("\\{byte:03o}").into_bytes(),
                byte => vec![*byte],
            }).collect();
            prop_assert_eq!(plain(&written), name);
        }
    }
}
