//! Where things are: the repository and the build directory.

use std::path::{Path, PathBuf};

/// The repository's root.
pub fn root() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest.parent().map_or_else(|| manifest.clone(), Path::to_path_buf)
}

/// The build directory as an absolute path: `CARGO_TARGET_DIR`, or `target` in the repository.
pub fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => std::path::absolute(&dir).unwrap_or_else(|_| PathBuf::from(dir)),
        None => root().join("target"),
    }
}

/// The release build of the library that goes in front of the host MPI.
pub fn library() -> PathBuf {
    target().join("release/libpario.so")
}

/// The release build of the `pario` program.
pub fn binary() -> PathBuf {
    target().join("release/pario")
}

/// Directories to measure file access in, of this process alone: in memory, and on the disk of the build.
pub fn scratch() -> [(&'static str, PathBuf); 2] {
    let name = format!("pario-bench-{}", std::process::id());
    [("/dev/shm", Path::new("/dev/shm").join(&name)), ("disk", target().join(name))]
}
