//! A small file system in memory, mounted for one test: something to fill up or to make read-only.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The mounted file system; unmounted when dropped.
#[derive(Debug)]
pub struct TmpfsMount {
    dir: PathBuf,
}

fn done(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

impl TmpfsMount {
    /// Makes the directory `dir` and mounts `size` (as in `1m`) of memory there. `None`: this process may not
    /// mount, which it says.
    pub fn tmpfs(dir: &Path, size: &str) -> Option<TmpfsMount> {
        std::fs::create_dir(dir).expect("a scratch directory takes new directories");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size},mode=0755"), "tmpfs"]);
        if done(mount.arg(dir)) {
            return Some(TmpfsMount { dir: dir.to_path_buf() });
        }
        eprintln!("skipped: no right to mount a file system");
        None
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// Takes the right to write away.
    pub fn make_read_only(&self) {
        let mut remount = Command::new("mount");
        let remounted = done(remount.args(["-o", "remount,ro"]).arg(&self.dir));
        assert!(remounted, "a mounted file system can be remounted");
    }
}

impl Drop for TmpfsMount {
    fn drop(&mut self) {
        if !done(Command::new("umount").arg(&self.dir)) {
            eprintln!("cannot unmount {}", self.dir.display());
        }
    }
}
