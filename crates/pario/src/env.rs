//! The environment variables that programs with this crate share with the command `pario`.

use std::ffi::OsString;
use std::path::PathBuf;

/// Returns the directory of the user's registry of partitions.
pub(crate) fn registry() -> Option<PathBuf> {
    registry_from(std::env::var_os("PARIO_HOME"), std::env::var_os("HOME"))
}

fn registry_from(pario_home: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let set = |value: &OsString| !value.is_empty();
    let in_home = || home.filter(set).map(|home| PathBuf::from(home).join(".pario"));
    pario_home.filter(set).map(PathBuf::from).or_else(in_home)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_variable_is_none() {
        let from = |one: &str, other: &str| registry_from(Some(one.into()), Some(other.into()));
        assert_eq!(from("/here", "/home/me"), Some("/here".into()));
        assert_eq!(from("", "/home/me"), Some("/home/me/.pario".into()));
        assert_eq!(from("", ""), None);
    }
}
