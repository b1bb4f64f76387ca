//! The meaning of a file name: an ordinary path, or a path on a partition.

use std::path::{Component, Path, PathBuf};

use pario_types::ErrorKind;

use crate::env::Env;
use crate::error::{Error, Result};

/// ROMIO's prefixes for file systems. Pario strips them: a name means the same with and without them.
const PLAIN_PREFIXES: [&str; 6] = ["ufs:", "nfs:", "xfs:", "lustre:", "gpfs:", "panfs:"];

/// A parsed file name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileName {
    /// A path in an ordinary file system.
    Plain(PathBuf),
    /// A path on a partition.
    Partition {
        /// The name of the partition.
        partition: String,
        /// The absolute path on the partition.
        path: String,
    },
}

impl FileName {
    /// Parses a file name. `pario:partition/path`, `pario:/path` and paths below the mount point are files on a
    /// partition. All other names are paths of plain files. A prefix that names a file system changes nothing.
    pub fn parse(name: &Path, env: &Env) -> Result<FileName> {
        let text = name.as_os_str().as_encoded_bytes();
        if text.is_empty() {
            return Err(Error::Usage(ErrorKind::BadFile, "the file name is empty"));
        }
        let Some(name) = name.to_str() else { return Ok(FileName::Plain(name.to_path_buf())) };
        if let Some(rest) = name.strip_prefix("pario:") {
            let (partition, path) = rest.split_once('/').ok_or(Error::Usage(
                ErrorKind::BadFile,
                "a name on a partition is pario:partition/path, or pario:/path with PARIO_PARTITION set",
            ))?;
            return FileName::on(if partition.is_empty() { None } else { Some(partition) }, path, env);
        }
        let plain = PLAIN_PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name);
        match env.mount.as_deref().and_then(|mount| below(Path::new(plain), mount)) {
            Some(path) => FileName::on(None, &path, env),
            None => Ok(FileName::Plain(PathBuf::from(plain))),
        }
    }

    fn on(partition: Option<&str>, path: &str, env: &Env) -> Result<FileName> {
        let partition = partition.or(env.partition.as_deref()).ok_or(Error::Usage(
            ErrorKind::BadFile,
            "no partition is named: set PARIO_PARTITION, or use pario:partition/path",
        ))?;
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
        if parts.is_empty() || parts.contains(&"..") {
            return Err(Error::Usage(ErrorKind::BadFile, "this is no path of a file on a partition"));
        }
        Ok(FileName::Partition { partition: partition.to_owned(), path: format!("/{}", parts.join("/")) })
    }

    /// The name in reports, traces and hints.
    pub fn shown(&self) -> PathBuf {
        match self {
            FileName::Plain(path) => path.clone(),
            FileName::Partition { partition, path } => PathBuf::from(format!("pario:{partition}{path}")),
        }
    }
}

/// The part of a path below a directory. Compares names only; the directory need not exist.
fn below(path: &Path, mount: &Path) -> Option<String> {
    let whole = std::path::absolute(path).ok()?;
    let mut plain = PathBuf::new();
    for part in whole.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain.strip_prefix(mount).ok()?.to_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(name: &str, partition: Option<&str>, mount: Option<&str>) -> Result<FileName> {
        let env = Env::of(&|variable| match variable {
            "PARIO_PARTITION" => partition.map(String::from),
            "PARIO_MOUNT" => mount.map(String::from),
            _ => None,
        });
        FileName::parse(Path::new(name), &env)
    }

    #[test]
    fn file_system_prefixes_are_stripped() {
        let path = |name: &str| parse(name, Some("p"), Some("/mnt"));
        assert_eq!(path("ufs:/a/b").unwrap(), FileName::Plain("/a/b".into()));
        assert_eq!(path("lustre:c").unwrap(), FileName::Plain("c".into()));
        assert_eq!(path("ufs:/mnt/x").unwrap(), path("/mnt/x").unwrap());
        assert_eq!(path("a:b").unwrap(), FileName::Plain("a:b".into()));
        assert_eq!(path("").unwrap_err().kind(), ErrorKind::BadFile);
    }

    #[test]
    fn partitions_are_found_by_name_or_mount_point() {
        let on = |partition: &str, path: &str| FileName::Partition {
            partition: partition.into(),
            path: path.into(),
        };
        assert_eq!(parse("pario:s/x/y", None, None).unwrap(), on("s", "/x/y"));
        assert_eq!(parse("pario:/x", Some("q"), None).unwrap(), on("q", "/x"));
        assert_eq!(parse("pario:/x", None, None).unwrap_err().kind(), ErrorKind::BadFile);
        assert_eq!(parse("pario:x", Some("q"), None).unwrap_err().kind(), ErrorKind::BadFile);
        assert_eq!(parse("pario:s/../x", None, None).unwrap_err().kind(), ErrorKind::BadFile);
        assert_eq!(parse("/mnt/a//b", Some("q"), Some("/mnt")).unwrap(), on("q", "/a/b"));
        assert_eq!(
            parse("/mnt/../etc/b", Some("q"), Some("/mnt")).unwrap(),
            FileName::Plain("/mnt/../etc/b".into())
        );
        assert_eq!(parse("/mntx/b", Some("q"), Some("/mnt")).unwrap(), FileName::Plain("/mntx/b".into()));
        assert_eq!(parse("/mnt/b", None, Some("/mnt")).unwrap_err().kind(), ErrorKind::BadFile);
    }
}
