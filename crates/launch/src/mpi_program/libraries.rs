//! Finding the file of a shared library by the loader's rules: the `RPATH` of the object that needs it and of
//! those that led there, `LD_LIBRARY_PATH`, the object's `RUNPATH`, and the system's directories.
//!
//! The system's directories come from `/etc/ld.so.conf` rather than from the loader's cache, a binary file
//! whose format is the C library's own business.

use super::elf::{self, Elf};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Where this system's libraries are.
#[derive(Clone, Debug)]
pub struct LibrarySearch {
    first: Vec<PathBuf>,
    system: Vec<PathBuf>,
}

/// An object whose needs are looked for.
#[derive(Clone, Debug)]
pub struct Object {
    /// The directories of its `RUNPATH`.
    runpath: Vec<PathBuf>,
    /// The directories of its `RPATH` and of those of the objects that led to it.
    rpath: Vec<PathBuf>,
}

impl LibrarySearch {
    /// The directories of `LD_LIBRARY_PATH`, and the system's.
    pub fn new(library_path: &[PathBuf]) -> LibrarySearch {
        let mut system = Vec::new();
        configured(Path::new("/etc/ld.so.conf"), 0, &mut system);
        let arch = std::env::consts::ARCH;
        system.extend(["/lib64", "/usr/lib64", "/lib", "/usr/lib"].map(PathBuf::from));
        system.extend(["/lib", "/usr/lib"].map(|lib| Path::new(lib).join(format!("{arch}-linux-gnu"))));
        LibrarySearch { first: library_path.to_vec(), system }
    }

    /// The file of the library `name` that `by` needs, with what it says.
    pub fn find(&self, name: &str, by: &Object) -> Option<(PathBuf, File, Elf)> {
        if name.contains('/') {
            return open(Path::new(name));
        }
        // The loader passes over RPATH in an object that has RUNPATH.
        let rpath = if by.runpath.is_empty() { by.rpath.as_slice() } else { &[] };
        let dirs = rpath.iter().chain(&self.first).chain(&by.runpath).chain(&self.system);
        dirs.map(|dir| dir.join(name)).find_map(|file| open(&file))
    }
}

impl Object {
    /// The object in `file`, needed by `parent`.
    pub fn new(file: &Path, elf: &Elf, parent: Option<&Object>) -> Object {
        let origin =
            file.canonicalize().ok().and_then(|f| f.parent().map(Path::to_owned)).unwrap_or_default();
        let expand = |dirs: &[String]| -> Vec<PathBuf> {
            let origin = origin.to_string_lossy();
            dirs.iter().map(|d| d.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin).into()).collect()
        };
        let mut rpath = expand(&elf.rpath);
        rpath.extend(parent.iter().flat_map(|p| p.rpath.iter().cloned()));
        Object { runpath: expand(&elf.runpath), rpath }
    }
}

/// Opens a library for this machine; the loader, too, passes over others of the same name.
fn open(path: &Path) -> Option<(PathBuf, File, Elf)> {
    let file = File::open(path).ok()?;
    let elf = elf::read(&file).ok()?;
    Some((path.to_owned(), file, elf))
}

/// Adds the directories that a loader configuration file lists, and those of the files it includes.
fn configured(file: &Path, depth: u32, dirs: &mut Vec<PathBuf>) {
    const DEEPEST: u32 = 4;
    let Ok(text) = fs::read_to_string(file) else { return };
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or("").trim();
        match line.strip_prefix("include").filter(|rest| rest.starts_with(char::is_whitespace)) {
            Some(pattern) if depth < DEEPEST => {
                for included in matching(&file.parent().unwrap_or(Path::new("/")).join(pattern.trim())) {
                    configured(&included, depth + 1, dirs);
                }
            }
            None if line.starts_with('/') => dirs.push(line.into()),
            _ => {}
        }
    }
}

/// The files that a path means whose last part may hold one `*`.
fn matching(pattern: &Path) -> Vec<PathBuf> {
    let (Some(dir), Some(name)) = (pattern.parent(), pattern.file_name().and_then(|n| n.to_str())) else {
        return Vec::new();
    };
    let Some((head, tail)) = name.split_once('*') else { return vec![pattern.to_owned()] };
    let fits = |n: &str| n.len() >= head.len() + tail.len() && n.starts_with(head) && n.ends_with(tail);
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut files: Vec<_> =
        entries.filter(|e| e.file_name().to_str().is_some_and(fits)).map(|e| e.path()).collect();
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_expanded_and_inherited() {
        let top = Elf { rpath: vec!["$ORIGIN/../lib".into(), "/a".into()], ..Elf::default() };
        let parent = Object::new(Path::new("/usr/bin/env"), &top, None);
        let origin = Path::new("/usr/bin/env").canonicalize().expect("env").parent().expect("dir").to_owned();
        assert_eq!(parent.rpath, [origin.join("../lib"), "/a".into()]);
        let below = Elf { runpath: vec!["/b".into()], ..Elf::default() };
        let child = Object::new(Path::new("/usr/bin/env"), &below, Some(&parent));
        assert_eq!((child.runpath, child.rpath), (vec![PathBuf::from("/b")], parent.rpath));
    }

    #[test]
    fn the_c_library_is_found_and_nonsense_is_not() {
        let libraries = LibrarySearch::new(&[]);
        let object = Object::new(Path::new("/"), &Elf::default(), None);
        let (path, _, elf) = libraries.find("libc.so.6", &object).expect("the C library");
        assert!(path.is_absolute() && !elf.needed.is_empty());
        assert!(libraries.find("libno-such-thing.so.1", &object).is_none());
    }
}
