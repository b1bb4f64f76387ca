//! Damaged storage: one stored file is removed, shortened or changed while no process uses it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::dice::Dice;

/// Copies of the servers' stored files, to be restored.
pub struct Backup {
    copies: Vec<(PathBuf, PathBuf)>,
}

fn run(command: &mut Command) -> io::Result<()> {
    let output = command.output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned())),
    }
}

impl Backup {
    /// Copies directories to another one.
    pub fn of(directories: &[PathBuf], to: &Path) -> io::Result<Backup> {
        fs::create_dir_all(to)?;
        let mut copies = Vec::new();
        for (number, from) in directories.iter().enumerate() {
            let copy = to.join(number.to_string());
            if copy.exists() {
                fs::remove_dir_all(&copy)?;
            }
            run(Command::new("cp").args(["-a", "--sparse=always"]).arg(from).arg(&copy))?;
            copies.push((from.clone(), copy));
        }
        Ok(Backup { copies })
    }

    /// Restores everything; a directory may be a mount point.
    pub fn restore(&self) -> io::Result<()> {
        for (to, copy) in &self.copies {
            for entry in fs::read_dir(to)? {
                let path = entry?.path();
                if path.is_dir() { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
            }
            run(Command::new("cp").args(["-a", "--sparse=always"]).arg(copy.join(".")).arg(to))?;
        }
        Ok(())
    }
}

fn files(dir: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() { files(&path, found)? } else { found.push(path) }
    }
    Ok(())
}

/// Damages one of the files below a directory, and describes the damage; `None` if there is no file.
pub fn harm(dir: &Path, dice: &mut Dice) -> io::Result<Option<String>> {
    let mut all = Vec::new();
    files(dir, &mut all)?;
    all.sort();
    all.retain(|path| fs::metadata(path).is_ok_and(|metadata| metadata.len() > 0));
    if all.is_empty() {
        return Ok(None);
    }
    let path = &all[dice.index(all.len())];
    let mut bytes = fs::read(path)?;
    let at = dice.index(bytes.len());
    let what = match dice.below(4) {
        0 if dice.one_in(2) => {
            // With all that belongs to it.
            let stem = |path: &Path| {
                path.file_name().map(|name| name.to_string_lossy().split('.').next().map(str::to_owned))
            };
            let together = all.iter().filter(|other| stem(other) == stem(path));
            together
                .map(fs::remove_file)
                .collect::<io::Result<Vec<()>>>()
                .map(|all| format!("{} files removed", all.len()))?
        }
        0 => {
            fs::remove_file(path)?;
            "removed".to_owned()
        }
        1 => {
            let file = fs::OpenOptions::new().write(true).open(path)?;
            file.set_len(at as u64)?;
            format!("shortened from {} to {at} bytes", bytes.len())
        }
        2 => {
            bytes[at] ^= 1 << dice.below(8);
            fs::write(path, &bytes)?;
            format!("a bit of byte {at} of {} changed", bytes.len())
        }
        _ => {
            let page = at / 4096 * 4096;
            let end = bytes.len().min(page + 4096);
            bytes[page..end].fill(0);
            fs::write(path, &bytes)?;
            format!("bytes {page}..{end} of {} lost (zeros)", bytes.len())
        }
    };
    Ok(Some(format!("{}: {what}", path.display())))
}
