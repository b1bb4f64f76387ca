//! Run directories: `BASE/pario-UID/PARTITION/SERVER`, where a server's socket and pool are while it runs,
//! and where its successor finds the pool if it was killed.
//!
//! ```text
//! socket      the socket for clients of this host
//! pool        the server's cache; stays behind if the server is killed
//! leases      the leases and their holders
//! owner       the partition to which it belongs
//! supervisor  held by the process that starts the server again when it dies
//! ```
//!
//! The base is shared by all users, `/dev/shm` if there is one, so each step below it is checked to be this user's own.
//! Below the first of them other users cannot create anything.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pario_runtime::is_planted;
use pario_types::{ErrorKind, PartitionId, ServerId};

use crate::error::Error;
use crate::lock::Lock;
use crate::private_path::{self, Links};

/// Longest name of a run directory: a Unix socket's has 107 bytes, some of which its own name takes.
const LONGEST: usize = 90;

/// The file of a run directory that its supervisor has locked.
const SUPERVISOR: &str = "supervisor";

/// The base of run directories: `/dev/shm`, which is memory, or else the caller's choice.
pub fn run_base(otherwise: &Path) -> PathBuf {
    let memory = Path::new("/dev/shm");
    if pario_runtime::fs::metadata(memory).is_ok_and(|found| found.is_dir()) {
        memory.to_owned()
    } else {
        otherwise.to_owned()
    }
}

/// Returns a server's run directory, and creates it if it does not exist.
pub fn run_directory(base: &Path, partition: PartitionId, server: ServerId) -> Result<PathBuf, Error> {
    let steps = steps(base, partition, server);
    let [_, _, path] = &steps;
    if path.as_os_str().as_bytes().len() > LONGEST {
        return Err(Error::TooLong(path.clone()));
    }
    for step in &steps {
        private_path::directory(step, Links::Refused)?;
    }
    let [_, _, path] = steps;
    Ok(path)
}

/// An existing run directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDirectory {
    /// The partition.
    pub partition: PartitionId,
    /// The server.
    pub server: ServerId,
    /// The path.
    pub path: PathBuf,
}

/// The run directories of this user below a base. Files with other names are no run directories.
pub fn run_directories(base: &Path) -> Result<Vec<RunDirectory>, Error> {
    let mut found = Vec::new();
    for whole in names(&base.join(format!("pario-{}", rustix::process::geteuid().as_raw())))? {
        let id = whole.file_name().and_then(|name| name.to_str()).filter(|name| name.len() == 32);
        let Some(partition) = id.and_then(|id| u128::from_str_radix(id, 16).ok()).map(PartitionId) else {
            continue;
        };
        for path in names(&whole)? {
            let number = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse().ok());
            found.extend(number.map(|number| RunDirectory { partition, server: ServerId(number), path }));
        }
    }
    found.sort_by_key(|one| (one.partition.0, one.server));
    Ok(found)
}

/// The entries of a directory; none if it does not exist.
fn names(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    match pario_runtime::fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(Error::io("list", dir)(error)),
        Ok(entries) => Ok(entries.flatten().map(|entry| entry.path()).collect()),
    }
}

/// Removes a server's run directory with all its content, and those above it that are empty then.
pub fn remove_run_directory(base: &Path, partition: PartitionId, server: ServerId) -> Result<(), Error> {
    let [user, whole, path] = steps(base, partition, server);
    match pario_runtime::fs::remove_dir_all(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(Error::io("remove", path)(error));
        }
        _ => {}
    }
    for above in [whole, user] {
        // It is still used, or removed already.
        if pario_runtime::fs::remove_dir(above).is_err() {
            break;
        }
    }
    Ok(())
}

/// Removes the run directory of a server that has ended in order, unless another server uses it, or a supervisor has taken it for
/// another one. `own` is the process that supervises the server that ended: it has the directory locked until that server has ended.
pub fn leave_run_directory(
    base: &Path,
    partition: PartitionId,
    server: ServerId,
    own: u32,
) -> Result<(), Error> {
    let path = run_directory_path(base, partition, server);
    // It is held until the directory is removed, so that no other process takes it meanwhile.
    let held = match Supervision::take(&path, Duration::ZERO) {
        Ok(held) => Some(held),
        Err(error) if error.kind() == ErrorKind::NoSuchFile => return Ok(()),
        Err(Error::Locked { .. }) if Supervision::holder(&path)? == Some(own) => None,
        Err(Error::Locked { .. }) if is_planted("late-server-removes-successor") => None,
        Err(Error::Locked { .. }) => return Ok(()),
        Err(error) => return Err(error),
    };
    // The server that ended has removed its pool. A pool that is there belongs to a successor, whose supervisor may have been killed.
    let is_used = has_pool(&path) && !is_planted("late-server-removes-successor");
    let removed = if is_used { Ok(()) } else { remove_run_directory(base, partition, server) };
    drop(held);
    removed
}

/// Whether there is a pool in a run directory, or may be one.
fn has_pool(run_directory: &Path) -> bool {
    pario_runtime::fs::exists(run_directory.join("pool")).unwrap_or(true)
}

/// The path of a server's run directory, whether it exists or not.
pub fn run_directory_path(base: &Path, partition: PartitionId, server: ServerId) -> PathBuf {
    let [_, _, path] = steps(base, partition, server);
    path
}

/// The right to restart a server when it dies: its supervisor has it, in the server's run directory.
#[derive(Debug)]
pub struct Supervision(Lock);

impl Supervision {
    /// Takes the right for the server of this run directory.
    pub fn take(run_directory: &Path, deadline: Duration) -> Result<Supervision, Error> {
        let what = format!("the server of {}", run_directory.display());
        Ok(Supervision(Lock::take(&run_directory.join(SUPERVISOR), &what, deadline)?))
    }

    /// The process of this host that has it.
    pub fn holder(run_directory: &Path) -> Result<Option<u32>, Error> {
        Lock::holder(&run_directory.join(SUPERVISOR))
    }

    /// Whether the run directory still belongs to the server: it is removed when the partition goes down.
    pub fn is_current(&self) -> bool {
        self.0.is_there()
    }

    /// Releases it, and removes the run directory, unless a killed server has left its pool there.
    pub fn give_up(self, base: &Path, partition: PartitionId, server: ServerId) {
        let path = run_directory_path(base, partition, server);
        // The directory may be removed with all its content, or belong to a successor.
        if self.is_current() && !has_pool(&path) {
            // Its content is not needed.
            let _ = remove_run_directory(base, partition, server);
        }
    }
}

fn steps(base: &Path, partition: PartitionId, server: ServerId) -> [PathBuf; 3] {
    let user = base.join(format!("pario-{}", rustix::process::geteuid().as_raw()));
    let whole = user.join(partition.to_string());
    let own = whole.join(server.to_string());
    [user, whole, own]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::UnsafePath;
    use crate::registry::tests::Scratch;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    const PARTITION: PartitionId = PartitionId(0xabc);

    /// A base with a short name.
    fn base(name: &str) -> Scratch {
        Scratch::at(std::env::temp_dir().join(format!("pr{}-{name}", std::process::id())))
    }

    #[test]
    fn a_run_directory_is_private_and_is_removed_with_its_parents() {
        let base = base("made");
        let path = run_directory(base.dir(), PARTITION, ServerId(3)).expect("made");
        assert_eq!(path.metadata().expect("there").mode() & 0o7777, 0o700);
        assert_eq!(run_directory(base.dir(), PARTITION, ServerId(3)).expect("there"), path);
        let other = run_directory(base.dir(), PARTITION, ServerId(4)).expect("made");
        std::fs::write(path.join("pool"), "x").expect("written");
        remove_run_directory(base.dir(), PARTITION, ServerId(3)).expect("removed");
        assert!(!path.exists() && other.exists());
        remove_run_directory(base.dir(), PARTITION, ServerId(4)).expect("removed");
        remove_run_directory(base.dir(), PARTITION, ServerId(4)).expect("nothing left to do");
        assert_eq!(std::fs::read_dir(base.dir()).expect("there").count(), 0);
    }

    #[test]
    fn run_directories_are_found_with_their_supervisors() {
        let base = base("found");
        assert_eq!(run_directories(base.dir()).expect("listed"), []);
        let path = run_directory(base.dir(), PARTITION, ServerId(3)).expect("made");
        std::fs::create_dir(path.parent().expect("above").join("other")).expect("made");
        std::fs::create_dir(path.parent().expect("above").with_file_name("other")).expect("made");
        let found = RunDirectory { partition: PARTITION, server: ServerId(3), path: path.clone() };
        assert_eq!(run_directories(base.dir()).expect("listed"), [found]);
        assert_eq!(Supervision::holder(&path).expect("known"), None);
        let held = Supervision::take(&path, Duration::ZERO).expect("free");
        assert_eq!(Supervision::holder(&path).expect("known"), Some(std::process::id()));
        assert!(Supervision::take(&path, Duration::ZERO).is_err());
        drop(held);
        assert_eq!(Supervision::holder(&path).expect("known"), None);
    }

    #[test]
    fn a_run_directory_that_another_user_could_have_made_is_refused() {
        let base = base("refused");
        let [user, whole, own] = steps(base.dir(), PARTITION, ServerId(0));
        std::fs::create_dir_all(base.dir().join("elsewhere")).expect("made");
        symlink(base.dir().join("elsewhere"), &user).expect("linked");
        let reason = |expected| match run_directory(base.dir(), PARTITION, ServerId(0)) {
            Err(Error::Unsafe { reason, .. }) => assert_eq!(reason, expected),
            other => panic!("{other:?}"),
        };
        reason(UnsafePath::NotADirectory);
        std::fs::remove_file(&user).expect("removed");
        std::fs::create_dir_all(&whole).expect("made");
        std::fs::set_permissions(&user, PermissionsExt::from_mode(0o755)).expect("set");
        reason(UnsafePath::Mode(0o755));
        std::fs::set_permissions(&user, PermissionsExt::from_mode(0o700)).expect("set");
        std::fs::set_permissions(&whole, PermissionsExt::from_mode(0o700)).expect("set");
        std::fs::write(&own, "a file").expect("written");
        reason(UnsafePath::NotADirectory);
    }

    #[test]
    fn a_server_has_one_supervisor() {
        let base = base("one");
        let path = run_directory(base.dir(), PARTITION, ServerId(0)).expect("made");
        assert_eq!(Supervision::holder(&path).expect("looked"), None);
        let one = Supervision::take(&path, Duration::ZERO).expect("free");
        assert_eq!(Supervision::holder(&path).expect("looked"), Some(std::process::id()));
        assert!(matches!(Supervision::take(&path, Duration::ZERO), Err(Error::Locked { .. })));
        assert!(one.is_current());
        remove_run_directory(base.dir(), PARTITION, ServerId(0)).expect("removed");
        assert!(!one.is_current());
        run_directory(base.dir(), PARTITION, ServerId(0)).expect("made");
        let two = Supervision::take(&path, Duration::ZERO).expect("free");
        one.give_up(base.dir(), PARTITION, ServerId(0));
        assert!(two.is_current(), "a successor's");
        two.give_up(base.dir(), PARTITION, ServerId(0));
        assert_eq!(std::fs::read_dir(base.dir()).expect("there").count(), 0);
    }

    #[test]
    fn a_server_that_ends_late_leaves_the_lock_of_a_new_supervisor_alone() {
        let base = base("late");
        let path = run_directory(base.dir(), PARTITION, ServerId(0)).expect("made");
        let new = Supervision::take(&path, Duration::ZERO).expect("free");
        // The supervisor of the server that ends was another process.
        leave_run_directory(base.dir(), PARTITION, ServerId(0), 1).expect("left");
        assert!(new.is_current() && path.exists());
        leave_run_directory(base.dir(), PARTITION, ServerId(0), std::process::id()).expect("removed");
        assert!(!path.exists(), "by the server of that supervisor");
        drop(new);
        let path = run_directory(base.dir(), PARTITION, ServerId(0)).expect("made");
        leave_run_directory(base.dir(), PARTITION, ServerId(0), 1).expect("removed");
        assert!(!path.exists(), "nobody supervises it");
        leave_run_directory(base.dir(), PARTITION, ServerId(0), 1).expect("nothing left to do");
    }

    #[test]
    fn a_server_that_ends_late_leaves_a_successor_alone_whose_supervisor_was_killed() {
        let base = base("orphan");
        let path = run_directory(base.dir(), PARTITION, ServerId(0)).expect("made");
        std::fs::write(path.join("pool"), "the successor's").expect("written");
        leave_run_directory(base.dir(), PARTITION, ServerId(0), 1).expect("left");
        assert!(path.join("pool").exists());
    }

    #[test]
    fn a_name_too_long_for_a_socket_is_refused() {
        let base = Path::new("/tmp").join("x".repeat(80));
        assert!(matches!(run_directory(&base, PARTITION, ServerId(0)), Err(Error::TooLong(_))));
    }
}
