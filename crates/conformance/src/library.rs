//! Paths: the workspace, the build directory, and the `libpario.so` under test.

use std::path::{Path, PathBuf};

/// The root of the workspace.
pub fn workspace_dir() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("the crate lies two levels below the workspace").to_path_buf()
}

/// Cargo's build directory: the one that holds this very program, a test or an example.
pub fn target_dir() -> PathBuf {
    let exe = std::env::current_exe().expect("a test program knows its own path");
    let inside = exe.ancestors().find(|dir| dir.ends_with("deps") || dir.ends_with("examples"));
    match inside.and_then(|dir| dir.ancestors().nth(2)) {
        Some(target) => target.to_path_buf(),
        None => panic!("{} is not inside a cargo build directory", exe.display()),
    }
}

/// The library under test: `PARIO_LIB`, or the newer of the release and debug builds beside this program.
pub fn libpario() -> PathBuf {
    built("PARIO_LIB", "libpario.so", "pario-capi")
}

/// The command-line program under test: `PARIO_BIN`, or the newer of the builds beside this program.
pub fn pario() -> PathBuf {
    built("PARIO_BIN", "pario", "pario-cli")
}

fn built(variable: &str, name: &str, package: &str) -> PathBuf {
    if let Some(path) = std::env::var_os(variable) {
        let path = PathBuf::from(path);
        assert!(path.is_file(), "{variable}={} is not a file", path.display());
        return path.canonicalize().expect("an existing file has a canonical path");
    }
    let built = ["release", "debug"].map(|profile| target_dir().join(profile).join(name));
    let newest = built.iter().filter_map(|path| Some((path.metadata().ok()?.modified().ok()?, path))).max();
    match newest {
        Some((_, path)) => path.clone(),
        None => panic!(
            "no {name} in {}: run `cargo build --release -p {package}` or set {variable}",
            target_dir().display()
        ),
    }
}
