//! The allowed edges between our crates, and a check that every `Cargo.toml` has these edges and no others, and that the code of
//! a crate uses each of them.
//!
//! This table and the map in `ARCHITECTURE.md` say the same; a new edge is a decision, not an accident.

use std::collections::BTreeSet;
use std::path::Path;

use crate::place;
use crate::program::{Outcome, at};
use crate::source::{self, code_only};
use crate::tidy::baseline::Violation;

/// A crate (directory in `crates`, package `pario-…`) and the crates of ours that it may depend on.
const EDGES: &[(&str, &[&str])] = &[
    ("types", &[]),
    ("hints", &["types"]),
    ("trace", &["types"]),
    ("view", &["types"]),
    ("layout", &["types", "view"]),
    ("metadata", &["types", "layout"]),
    ("placement", &["types", "layout"]),
    ("profile", &["types", "trace", "view", "placement"]),
    ("domain", &["types"]),
    ("storage-model", &[]),
    ("runtime", &["storage-model"]),
    ("shm", &["runtime"]),
    ("activity", &["shm"]),
    ("buffer", &["types", "view"]),
    ("file-backend", &["types", "view", "buffer", "domain"]),
    ("posix", &["types", "view", "buffer", "domain", "file-backend"]),
    ("two-phase", &["types", "view", "buffer", "domain", "file-backend", "shm"]),
    ("data-shipping", &["types", "view", "buffer", "domain", "file-backend", "posix"]),
    ("mpi-host", &["types", "view"]),
    ("wire", &["types", "layout", "metadata"]),
    ("transport", &["types", "wire", "runtime"]),
    ("registry", &["types", "runtime"]),
    ("cache", &["types", "shm", "runtime"]),
    ("locks", &["types"]),
    ("medium", &["storage-model", "runtime"]),
    ("store", &["types", "medium", "runtime"]),
    ("namespace", &["types", "layout", "metadata", "runtime"]),
    ("client", &["types", "view", "buffer", "layout", "wire", "transport", "cache", "registry", "runtime"]),
    ("copy", &["types", "placement", "registry", "client", "runtime"]),
    ("check", &["types", "layout", "wire", "client", "runtime"]),
    ("partition-file", &["types", "view", "buffer", "domain", "file-backend", "client"]),
    (
        "mpiio",
        &[
            "types",
            "hints",
            "trace",
            "view",
            "domain",
            "buffer",
            "file-backend",
            "posix",
            "partition-file",
            "two-phase",
            "data-shipping",
            "mpi-host",
            "layout",
            "placement",
            "client",
            "activity",
        ],
    ),
    ("simulate", &["types", "view", "domain", "layout", "locks", "two-phase"]),
    ("pario", &["client", "view"]),
    ("io-models", &["types"]),
    ("fuse", &["client"]),
    (
        "server",
        &["types", "layout", "locks", "wire", "transport", "cache", "store", "namespace", "shm", "runtime"],
    ),
    ("launch", &["types", "registry", "wire", "transport", "server", "runtime"]),
    ("capi", &["mpiio", "mpi-host", "buffer", "trace", "types"]),
    ("workloads", &[]),
    ("benchmarks", &["types", "client", "copy", "io-models", "workloads"]),
    (
        "reports",
        &[
            "types",
            "activity",
            "benchmarks",
            "check",
            "client",
            "copy",
            "hints",
            "io-models",
            "launch",
            "layout",
            "placement",
            "profile",
            "registry",
            "simulate",
            "trace",
            "wire",
            "workloads",
        ],
    ),
    (
        "cli",
        &[
            "types",
            "activity",
            "hints",
            "trace",
            "domain",
            "io-models",
            "reports",
            "copy",
            "check",
            "benchmarks",
            "simulate",
            "placement",
            "profile",
            "registry",
            "wire",
            "transport",
            "launch",
            "client",
            "workloads",
            "fuse",
        ],
    ),
    ("reference-model", &["view"]),
    (
        "conformance",
        &["reference-model", "types", "view", "pario", "registry", "transport", "wire", "workloads"],
    ),
    (
        "fault-simulation",
        &[
            "types",
            "view",
            "runtime",
            "wire",
            "transport",
            "registry",
            "client",
            "server",
            "launch",
            "check",
            "copy",
            "conformance",
        ],
    ),
];

/// What any crate may use in its own tests besides its allowed edges.
const IN_TESTS: &[&str] = &["reference-model", "medium"];

/// One line per edge that is not allowed, and per crate that this table does not know.
pub fn check() -> Outcome<Vec<String>> {
    let mut complaints = Vec::new();
    for name in crates()? {
        let manifest = place::root().join("crates").join(&name).join("Cargo.toml");
        let text = at(&manifest, std::fs::read_to_string(&manifest))?;
        match EDGES.iter().find(|(known, _)| *known == name) {
            Some((_, allowed)) => complaints.extend(forbidden(&name, &text, allowed)),
            None => complaints.push(format!("crates/{name}: not in the table of xtask/src/edges.rs")),
        }
    }
    Ok(complaints)
}

/// One violation per edge that the table allows and no `Cargo.toml` has, and per dependency that no code uses.
pub fn unused() -> Outcome<Vec<Violation>> {
    let mut found = Vec::new();
    for (name, allowed) in EDGES {
        let dir = place::root().join("crates").join(name);
        let manifest = dir.join("Cargo.toml");
        if !manifest.exists() {
            let message = format!("xtask/src/edges.rs: there is no crate `{name}`");
            found.push(Violation { key: (*name).to_owned(), message });
            continue;
        }
        let text = at(&manifest, std::fs::read_to_string(&manifest))?;
        let mut code = String::new();
        for path in source::files()?.iter().filter(|path| path.starts_with(&dir)) {
            if path.extension().is_some_and(|extension| extension == "rs") {
                code.push_str(&code_only(&at(path, std::fs::read_to_string(path))?));
            }
        }
        found.extend(unused_by(name, allowed, &text, &code));
    }
    Ok(found)
}

fn unused_by(name: &str, allowed: &[&str], manifest: &str, code: &str) -> Vec<Violation> {
    let dependencies: BTreeSet<String> =
        our_dependencies(manifest).into_iter().map(|(_, name)| name).collect();
    let words: BTreeSet<&str> = code.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let mut found = Vec::new();
    for permission in allowed.iter().filter(|permission| !dependencies.contains(**permission)) {
        let message = format!("xtask/src/edges.rs: nobody uses the permission {name} → {permission}");
        found.push(Violation { key: format!("{name}-{permission}"), message });
    }
    for dependency in dependencies {
        let package = if dependency == "pario" { dependency.clone() } else { format!("pario_{dependency}") };
        if !words.contains(package.replace('-', "_").as_str()) {
            let message = format!("crates/{name}/Cargo.toml: no code of {name} uses {dependency}");
            found.push(Violation { key: format!("{name}-{dependency}"), message });
        }
    }
    found
}

/// The names of all crates, sorted.
pub fn crates() -> Outcome<Vec<String>> {
    let dir = place::root().join("crates");
    let mut names = Vec::new();
    for entry in at(&dir, std::fs::read_dir(&dir))? {
        let path = at(&dir, entry)?.path();
        if path.join("Cargo.toml").is_file() {
            names.extend(path.file_name().and_then(|name| name.to_str()).map(String::from));
        }
    }
    names.sort();
    Ok(names)
}

fn forbidden(name: &str, manifest: &str, allowed: &[&str]) -> Vec<String> {
    let mut complaints = Vec::new();
    for (section, dependency) in our_dependencies(manifest) {
        let in_tests = section.ends_with("dev-dependencies") && IN_TESTS.contains(&dependency.as_str());
        if !allowed.contains(&dependency.as_str()) && !in_tests {
            complaints
                .push(format!("crates/{name}/Cargo.toml: [{section}] {name} → {dependency} is not allowed"));
        }
    }
    complaints
}

/// (section, crate) of each dependency on a crate of ours. Enough TOML for the ways cargo lets one write it:
/// a key in a `…dependencies` section, or a `[…dependencies.pario-x]` section.
fn our_dependencies(manifest: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut section = String::new();
    for line in manifest.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[') {
            section = header.trim_end_matches(']').to_string();
            if let Some((outer, package)) = section.rsplit_once('.') {
                let outer = outer.to_string();
                found.extend(ours(package).map(|name| (outer, name)));
            }
        } else if section.ends_with("dependencies") {
            let key = line.split(['=', '.', ' ']).next().unwrap_or_default();
            found.extend(ours(key).map(|name| (section.clone(), name)));
        }
    }
    found
}

fn ours(package: &str) -> Option<String> {
    let package = package.trim_matches('"');
    match package.strip_prefix("pario") {
        // The public crate has no further name.
        Some("") => Some(package.to_string()),
        Some(rest) => rest.strip_prefix('-').map(String::from),
        None => None,
    }
}

/// The crate that a file belongs to.
pub fn owner(path: &Path) -> Option<String> {
    let crates = place::root().join("crates");
    let inside = path.strip_prefix(crates).ok()?;
    inside.components().next().and_then(|first| first.as_os_str().to_str()).map(String::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "\
[package]
name = \"pario-view\"
[dependencies]
pario-types.workspace = true
pario-posix = { path = \"../posix\" }
libc.workspace = true
[target.'cfg(unix)'.dependencies.pario-buffer]
path = \"../buffer\"
[dev-dependencies]
pario-reference-model.workspace = true
pario-capi.workspace = true
";

    #[test]
    fn every_way_of_writing_a_dependency_is_seen() {
        let found: Vec<String> = our_dependencies(MANIFEST).into_iter().map(|(_, name)| name).collect();
        assert_eq!(found, ["types", "posix", "buffer", "reference-model", "capi"]);
    }

    #[test]
    fn only_unlisted_edges_are_forbidden() {
        let complaints = forbidden("view", MANIFEST, &["types"]);
        assert_eq!(complaints.len(), 3, "{complaints:?}");
        assert!(complaints.iter().all(|line| !line.contains("reference-model") && !line.contains("→ types")));
    }

    #[test]
    fn permissions_and_dependencies_that_nobody_uses_are_found() {
        let code = "use pario_types::X; pario_posix::f(); pario_buffer::g(); pario_reference_model::h();";
        let found = unused_by("view", &["types", "posix", "buffer", "shm"], MANIFEST, code);
        let keys: Vec<&str> = found.iter().map(|violation| violation.key.as_str()).collect();
        assert_eq!(keys, ["view-shm", "view-capi"]);
    }

    #[test]
    fn the_table_has_no_cycle() {
        let position = |name: &str| EDGES.iter().position(|(known, _)| *known == name);
        for (index, (name, allowed)) in EDGES.iter().enumerate() {
            for dependency in *allowed {
                assert!(position(dependency) < Some(index), "{name} comes before {dependency}");
            }
        }
    }
}
