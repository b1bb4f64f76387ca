//! A partition of this host for a test: `pario up` when it is made, `pario down` when it is dropped.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Run, Scratch, pario, scratch};

/// A partition that runs as long as this value lives.
#[derive(Debug)]
pub struct Partition {
    dir: Scratch,
}

/// Its name.
pub const NAME: &str = "trial";

impl Partition {
    /// With so many servers, stripes of so many bytes, and so much cache each.
    #[track_caller]
    pub fn up(servers: u16, stripe: u64, cache: &str) -> Partition {
        let dir = scratch();
        let list: Vec<String> =
            (0..servers).map(|server| format!("{:?}", dir.join(format!("data{server}")))).collect();
        let text = format!(
            "name = \"{NAME}\"\nservers = [{}]\nstripe_size = {stripe}\ncache = \"{cache}\"\nlisten = \"127.0.0.1\"\n",
            list.join(", ")
        );
        let file = dir.join("trial.toml");
        std::fs::write(&file, text).expect("a scratch directory takes files");
        let partition = Partition { dir };
        partition.pario(&["up", &file.to_string_lossy()]);
        partition
    }

    /// What `PARIO_HOME` has to be.
    pub fn home(&self) -> PathBuf {
        self.dir.join("home")
    }

    /// Copies its files to a directory that is not there.
    #[track_caller]
    pub fn copy_out(&self, to: &Path) {
        std::fs::create_dir_all(to).expect("a scratch directory takes directories");
        self.pario(&["cp", "-r", &format!("{NAME}:/"), &to.to_string_lossy()]);
    }

    /// Runs the command `pario`, which has to succeed; what it says.
    #[track_caller]
    pub fn pario(&self, arguments: &[&str]) -> String {
        let output = Command::new(pario()).args(arguments).env("PARIO_HOME", self.home()).output();
        let output = output.expect("pario can be run");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "pario {}: {}: {said}", arguments.join(" "), output.status);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

/// A directory where a partition is mounted as long as this value lives.
#[derive(Debug)]
pub struct Mounted {
    dir: PathBuf,
}

impl Partition {
    /// Mounts it at a directory, which is made. `None`: this machine has no FUSE, which it says.
    #[track_caller]
    pub fn mount(&self, dir: &Path) -> Option<Mounted> {
        if !Path::new("/dev/fuse").exists() {
            eprintln!("skipped: there is no /dev/fuse");
            return None;
        }
        std::fs::create_dir(dir).expect("a scratch directory takes directories");
        self.pario(&["mount", NAME, &dir.to_string_lossy()]);
        Some(Mounted { dir: dir.to_owned() })
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let unmounted = Command::new(pario()).args(["umount", "--lazy"]).arg(&self.dir).status();
        if !std::thread::panicking() {
            assert!(unmounted.is_ok_and(|status| status.success()), "pario umount failed");
        }
    }
}

/// Where and how a program's files are accessed.
#[derive(Debug)]
pub struct Site<'a> {
    /// What they are on.
    pub partition: &'a Partition,
    /// Hints for every file, as `PARIO_HINTS` has them.
    pub hints: &'a str,
    /// The node of each rank; empty: all on one.
    pub nodes: &'a [u32],
}

impl Run {
    /// Has the program find its files below a directory on a partition instead.
    pub fn on(self, site: &Site<'_>, mount: &Path) -> Run {
        let run = self
            .env("PARIO_HOME", &site.partition.home().to_string_lossy())
            .env("PARIO_PARTITION", NAME)
            .env("PARIO_MOUNT", &mount.to_string_lossy())
            .nodes(site.nodes);
        if site.hints.is_empty() { run } else { run.env("PARIO_HINTS", site.hints) }
    }
}

impl Drop for Partition {
    fn drop(&mut self) {
        let down = Command::new(pario()).args(["down", NAME]).env("PARIO_HOME", self.home()).status();
        // A test that fails already says more.
        if !std::thread::panicking() {
            assert!(down.is_ok_and(|status| status.success()), "pario down failed");
        }
    }
}
