//! The paths of inodes. An inode has its own name and its parent.

use pario_client::Inode;
use pario_types::FileId;
use pario_wire::message::InodeKind;
use std::collections::BTreeMap;

/// All files and directories of a partition, by id.
pub type Inodes = BTreeMap<FileId, Inode>;

/// The path of a file or directory; `None` if it is removed, or its ancestors do not lead to the root.
pub fn path(inodes: &Inodes, file: FileId) -> Option<String> {
    let mut names: Vec<&str> = Vec::new();
    let mut inode = inodes.get(&file)?;
    // A cycle would be longer than the number of inodes.
    for _ in 0..=inodes.len() {
        if inode.name.is_empty() {
            let is_root = inode.attributes.kind == InodeKind::Directory;
            let path = names.iter().rev().fold(String::new(), |path, name| format!("{path}/{name}"));
            return is_root.then(|| if path.is_empty() { "/".to_owned() } else { path });
        }
        names.push(inode.name.as_str());
        inode = inodes.get(&inode.parent)?;
    }
    None
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use pario_layout::Striping;
    use pario_types::Stamp;
    use pario_wire::message::{Attributes, FileSize};

    /// An inode with these properties and no others.
    pub fn inode(file: u64, parent: u64, name: &str, kind: InodeKind) -> Inode {
        let attributes = Attributes {
            file: FileId(file),
            kind,
            mode: 0o644,
            size: FileSize::Known(0),
            accessed: Stamp(0),
            modified: Stamp(0),
            changed: Stamp(0),
            created: Stamp(0),
            striping: Striping::new(10, 2, 1, 3).expect("sound"),
            table: None,
            truncating: None,
            opens: 0,
            entries: 0,
        };
        Inode { parent: FileId(parent), name: name.to_owned(), attributes }
    }

    /// Inodes by number.
    pub fn inodes(all: Vec<Inode>) -> Inodes {
        all.into_iter().map(|inode| (inode.attributes.file, inode)).collect()
    }

    #[test]
    fn paths_lead_from_the_root() {
        let inodes = inodes(vec![
            inode(1, 0, "", InodeKind::Directory),
            inode(2, 1, "a", InodeKind::Directory),
            inode(3, 2, "b", InodeKind::File),
            inode(4, 0, "", InodeKind::File),
            inode(5, 9, "lost", InodeKind::File),
            inode(6, 7, "round", InodeKind::Directory),
            inode(7, 6, "and", InodeKind::Directory),
        ]);
        let of = |file| path(&inodes, FileId(file));
        assert_eq!(
            (of(1).as_deref(), of(2).as_deref(), of(3).as_deref()),
            (Some("/"), Some("/a"), Some("/a/b"))
        );
        assert_eq!((of(4), of(5), of(6), of(8)), (None, None, None, None));
    }
}
