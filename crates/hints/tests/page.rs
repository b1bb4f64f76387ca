//! The page in the documentation is the one the table writes. `UPDATE_DOCS=1` writes it anew.

use std::path::Path;

#[test]
fn docs_hints_md_is_the_tables() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/HINTS.md");
    let wanted = pario_hints::markdown();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("docs/");
        std::fs::write(&path, &wanted).expect("docs/HINTS.md written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == wanted, "docs/HINTS.md is out of date: run UPDATE_DOCS=1 cargo test -p pario-hints");
}
