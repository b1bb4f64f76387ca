//! A partition of this host for a test: `pario up` when it is made, `pario down` when it is dropped.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Scratch, pario, scratch};

/// A partition that runs as long as this value lives.
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

    /// Runs the command `pario`, which has to succeed.
    #[track_caller]
    pub fn pario(&self, arguments: &[&str]) {
        let output = Command::new(pario()).args(arguments).env("PARIO_HOME", self.home()).output();
        let output = output.expect("pario can be run");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "pario {}: {}: {said}", arguments.join(" "), output.status);
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
