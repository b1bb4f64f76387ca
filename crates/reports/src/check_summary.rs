//! The findings of a check of a partition.

use crate::text;
use pario_check::{CheckFinding, CheckReport, Inconsistency};
use pario_types::short_size;
use serde_json::{Value, json};
use std::ops::Range;

/// A check for people.
pub fn check_text(name: &str, servers: u64, report: &CheckReport) -> String {
    let mut words: String = report.findings.iter().map(|finding| format!("{finding}\n")).collect();
    words += &format!(
        "partition {name}: {} and {} checked, {} of bytes in {} on {}\n",
        text::count(report.files, "file"),
        text::count(report.directories, "directory"),
        short_size(report.bytes),
        text::count(report.parts, "part"),
        text::count(servers, "server"),
    );
    let found = report.findings.len() as u64;
    let repaired = report.findings.iter().filter(|finding| finding.repaired).count();
    words += &match (found, report.errors.is_empty()) {
        (0, true) => "nothing is wrong\n".to_owned(),
        (0, false) => "nothing wrong was found, but not all could be checked\n".to_owned(),
        _ => format!("{}, {repaired} repaired\n", text::count(found, "finding")),
    };
    words
}

/// A check for programs.
pub fn check_json(name: &str, report: &CheckReport) -> Value {
    let errors: Vec<String> = report.errors.iter().map(ToString::to_string).collect();
    json!({
        "partition": name,
        "files": report.files,
        "directories": report.directories,
        "parts": report.parts,
        "bytes": report.bytes,
        "findings": report.findings.iter().map(finding_object).collect::<Value>(),
        "troubles": errors,
    })
}

/// A finding for programs.
fn finding_object(finding: &CheckFinding) -> Value {
    let pairs = |bytes: &[Range<u64>]| -> Value {
        bytes.iter().map(|range| json!([range.start, range.end])).collect()
    };
    let mut value = match &finding.inconsistency {
        Inconsistency::Damaged { server, blocks, bytes } => {
            json!({ "server": server.0, "blocks": blocks, "bytes": pairs(bytes) })
        }
        Inconsistency::Copies { bytes } => json!({ "bytes": pairs(bytes) }),
        Inconsistency::Orphan { server, len } | Inconsistency::Stray { server, len } => {
            json!({ "server": server.0, "held": len })
        }
        Inconsistency::Size { recorded, held } => json!({ "believed": recorded, "held": held }),
        Inconsistency::Truncation { size } => json!({ "size": size }),
    };
    value["fault"] = json!(finding.inconsistency.word());
    value["file"] = json!(finding.file.to_string());
    value["path"] = json!(finding.path);
    value["repaired"] = json!(finding.repaired);
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use pario_types::{FileId, ServerId};

    #[test]
    fn findings_are_objects_for_programs() {
        let inconsistency =
            Inconsistency::Damaged { server: ServerId(1), blocks: vec![0], bytes: vec![0..10, 20..30] };
        let finding = CheckFinding { file: FileId(255), path: None, inconsistency, repaired: false };
        assert_eq!(finding_object(&finding)["bytes"][1][1], 30);
    }

    #[test]
    fn the_last_lines_sum_up() {
        let report =
            CheckReport { files: 1, directories: 2, parts: 3, bytes: 2048, ..CheckReport::default() };
        let words = check_text("one", 2, &report);
        assert_eq!(
            words,
            "partition one: 1 file and 2 directories checked, 2.0K of bytes in 3 parts on 2 servers\n\
             nothing is wrong\n"
        );
    }
}
