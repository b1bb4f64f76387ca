//! The page `docs/HINTS.md`, generated from the table.

use crate::hint_type::HintType;
use crate::sources::{SYSTEM_HINT_FILE, VARIABLES};
use crate::table::{HintEntry, HintFamily, HintStatus, table};
use pario_types::spell_size;
use std::fmt::Write;

const WIDTH: usize = 100;

/// The contents of `docs/HINTS.md`.
pub fn markdown() -> String {
    let mut page = String::new();
    page.push_str("# Hints\n\n<!-- Generated from the hint table in crates/hints; do not edit. -->\n");
    para(&mut page, INTRODUCTION);
    page.push_str("\n## Where hints come from\n");
    para(&mut page, SOURCES);
    page.push_str("\n| variable | holds |\n|---|---|\n");
    for (name, what) in VARIABLES {
        let _ = writeln!(page, "| `{name}` | {what} |");
    }
    para(
        &mut page,
        &format!("If neither variable names a hint file, `{SYSTEM_HINT_FILE}` is read if it exists."),
    );
    para(&mut page, FILE_FORMAT);
    page.push_str(EXAMPLE);
    para(&mut page, PARTITION_FILE);
    page.push_str("\n| key of a partition file | hint |\n|---|---|\n");
    for (key, hint) in PARTITION_KEYS {
        let _ = writeln!(page, "| `{key}` | {hint} |");
    }
    page.push_str("\n## Values\n");
    para(&mut page, VALUES);
    page.push_str("\n## The table\n");
    para(&mut page, STATUS);
    for family in HintFamily::ALL {
        overview(&mut page, family);
    }
    page.push_str("\n## What each does\n");
    for entry in table() {
        details(&mut page, entry);
    }
    page
}

const INTRODUCTION: &str = "A hint tells Pario how a file will be used or how it should be treated. Hints change speed and data \
    placement, never what a correct program reads. As the MPI standard demands, an unknown hint is ignored. \
    A value that a hint does not allow is refused with one line on standard error, and the value in force \
    does not change. `MPI_File_get_info` returns every hint in force. `pario hints` prints this table, \
    `pario hints NAME` one entry, and `pario hints --check FILE` checks a hint file.";

const SOURCES: &str = "From the strongest to the weakest: the info object that the program passes to `MPI_File_open`, \
    `MPI_File_set_view` or `MPI_File_set_info`; the variable `PARIO_HINTS`; the hint file; for a file on a \
    partition, the partition file; the default. As in ROMIO, the program's own request wins. The variable, \
    which is set for one run, wins over the file, which serves many runs.";

const PARTITION_FILE: &str = "A partition file sets the hints of all files of the partition that no stronger source sets. Its keys \
    may change at each start of the partition.";

/// The keys of partition files that set hints, and the hints.
const PARTITION_KEYS: [(&str, &str); 6] = [
    ("strategy", "`pario_strategy`"),
    ("network_buffer", "`pario_network_buffer`"),
    ("tier1_size", "`pario_tier1_size`"),
    ("tier1_high_water", "`pario_tier1_high`"),
    ("tier1_low_water", "`pario_tier1_low`"),
    ("tier1", "`off` sets `pario_tier1` to `disable`, and no other source can change that"),
];

const FILE_FORMAT: &str = "A hint file has one hint per line: the name, blanks, the value. A `#` starts a comment. Invalid lines \
    are reported and skipped. Of two lines for the same hint the first counts. The format is ROMIO's, and \
    ROMIO and Pario can share one file: Pario ignores hints that only ROMIO has.";

const EXAMPLE: &str = "\n```\n# scattered reads, large memory\nromio_ds_read       enable\nind_rd_buffer_size  64M\n\
    ```\n\n```\nPARIO_HINTS=\"romio_ds_read=enable;ind_rd_buffer_size=64M\" pario run -n 4 -- ./program\n```\n";

const VALUES: &str = "Sizes are in bytes. The suffixes k, M, G and T, in any case and with or without B or iB, are powers of \
    1024, so 64M is 64 MiB. Words may be in any case. Hints are returned in one format: sizes as plain \
    numbers of bytes, words in lower case, permissions as four octal digits.";

const STATUS: &str = "*Active* hints have an effect. *Accepted* hints are checked, kept and returned by `MPI_File_get_info`, \
    and have no effect yet; their text says what they are kept for. An entry marked *at open* counts only \
    when the file is opened and is ignored later. An entry marked *same* must have the same value on all \
    ranks.";

fn overview(page: &mut String, family: HintFamily) {
    let _ = write!(page, "\n### {}\n\n", family.title());
    page.push_str("| hint | type | default | status | marks |\n|---|---|---|---|---|\n");
    for entry in table().iter().filter(|e| e.family == family) {
        let default = entry.default_text().map_or("unset".to_owned(), |d| format!("`{d}`"));
        let marks = entry.marks().join(", ");
        let (name, kind, status) = (entry.name, entry.kind.name(), entry.status.word());
        let _ = writeln!(
            page,
            "| [`{name}`](#{}) | {kind} | {default} | {status} | {marks} |",
            name.to_lowercase()
        );
    }
}

fn details(page: &mut String, entry: &HintEntry) {
    let _ = write!(page, "\n### {}\n", entry.name);
    para(page, entry.doc);
    let _ = write!(page, "\n- allowed: {}\n", entry.kind.allowed());
    if !entry.aliases.is_empty() {
        let _ = writeln!(page, "- also called: {}", entry.aliases.join(", "));
    }
    if entry.status == HintStatus::Accepted {
        page.push_str("- accepted, without effect yet\n");
    }
}

impl HintEntry {
    /// The default for display; sizes have units.
    pub fn default_text(&self) -> Option<String> {
        let spelled = self.kind.format(self.default?);
        Some(match (self.kind, spelled.parse()) {
            (HintType::Size { .. }, Ok(bytes)) => spell_size(bytes),
            _ => spelled,
        })
    }

    /// The short marks in tables: `at open`, `same`, `returned only`.
    pub fn marks(&self) -> Vec<&'static str> {
        let marks = [
            (self.fixed_at_open, "at open"),
            (self.same_on_all_ranks, "same"),
            (self.read_only, "returned only"),
        ];
        marks.into_iter().filter_map(|(on, mark)| on.then_some(mark)).collect()
    }
}

fn para(page: &mut String, text: &str) {
    page.push('\n');
    for line in wrap(text, WIDTH) {
        page.push_str(&line);
        page.push('\n');
    }
}

/// Wraps text into lines of at most `width` characters; a longer word gets a line of its own.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut used = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        match lines.last_mut() {
            Some(line) if used + 1 + length <= width => {
                line.push(' ');
                line.push_str(word);
                used += 1 + length;
            }
            _ => {
                lines.push(word.to_owned());
                used = length;
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_wrapped_between_words() {
        assert_eq!(wrap("aa bb ccc", 5), ["aa bb", "ccc"]);
        assert_eq!(wrap("aaaaaaaa b", 3), ["aaaaaaaa", "b"]);
        assert!(wrap("  ", 3).is_empty());
    }

    #[test]
    fn every_hint_is_on_the_page() {
        let page = markdown();
        for entry in table() {
            assert!(page.contains(&format!("\n### {}\n", entry.name)), "{}", entry.name);
        }
    }
}
