//! The table of hints, one hint in full, and the verdicts on a hint file.

use pario_hints::{
    ApplyOutcome, HintEntry, HintFamily, HintLine, HintSource, HintStatus, Hints, InvalidLine, find,
    parse_hint_file, suggest, table, wrap,
};
use serde_json::{Value, json};

/// All hints, in lines of this width.
pub fn hint_table(width: usize) -> String {
    let longest = |column: fn(&HintEntry) -> usize| table().iter().map(column).max().unwrap_or(0);
    let names = longest(|e| e.name.len());
    let defaults = longest(|e| default(e).len());
    let statuses = longest(|e| e.status.word().len());
    let indent = 2 + names + 2 + defaults + 2 + statuses + 2;
    let mut text = String::new();
    for family in HintFamily::ALL {
        text += &format!("{}{}\n", if text.is_empty() { "" } else { "\n" }, family.title());
        for entry in table().iter().filter(|e| e.family == family) {
            let (name, default, status) = (entry.name, default(entry), entry.status.word());
            text += &format!("  {name:names$}  {default:defaults$}  {status:statuses$}  ");
            text += &wrap(entry.doc, width.saturating_sub(indent)).join(&format!("\n{:indent$}", ""));
            text.push('\n');
        }
    }
    text += "\nactive: honoured now. accepted: checked, kept and returned, without effect yet.\n";
    text + "pario hints NAME tells the allowed values of a hint.\n"
}

/// One hint in full, in lines of this width.
pub fn hint_details(entry: &HintEntry, width: usize) -> String {
    let mut text = format!("{}\n", entry.name);
    for line in wrap(entry.doc, width - 2) {
        text += &format!("  {line}\n");
    }
    let mut rows = vec![("allowed", entry.kind.allowed()), ("default", default(entry))];
    rows.push(("status", entry.status.word().to_owned()));
    if !entry.aliases.is_empty() {
        rows.push(("aliases", entry.aliases.join(", ")));
    }
    if entry.fixed_at_open {
        rows.push(("set", "when the file is opened; ignored later".to_owned()));
    }
    if entry.same_on_all_ranks {
        rows.push(("ranks", "the same value on all".to_owned()));
    }
    rows.push(("family", entry.family.title().to_owned()));
    text.push('\n');
    for (label, value) in rows {
        text += &format!("  {label:8} {}\n", wrap(&value, width - 11).join(&format!("\n{:11}", "")));
    }
    text
}

fn default(entry: &HintEntry) -> String {
    entry.default_text().unwrap_or_else(|| "unset".to_owned())
}

/// A hint for programs.
pub fn hint_object(entry: &HintEntry) -> Value {
    json!({
        "name": entry.name,
        "aliases": entry.aliases,
        "family": entry.family.title(),
        "type": entry.kind.name(),
        "allowed": entry.kind.allowed(),
        "default": entry.default.map(|value| entry.kind.format(value)),
        "status": entry.status.word(),
        "fixed_at_open": entry.fixed_at_open,
        "same_on_all_ranks": entry.same_on_all_ranks,
        "read_only": entry.read_only,
        "meaning": entry.doc,
    })
}

/// The verdict on one line of a hint file.
struct LineVerdict {
    line: usize,
    word: &'static str,
    text: String,
    bad: bool,
}

/// The verdict on each line of a hint file, for people or for programs, and whether a line is wrong.
pub fn checked_hint_file(text: &str, as_json: bool) -> (String, bool) {
    let (good, bad) = parse_hint_file(text);
    let mut hints = Hints::new();
    let mut verdicts: Vec<LineVerdict> = good.iter().map(|line| judge(&mut hints, line)).collect();
    verdicts.extend(bad.iter().map(skipped));
    verdicts.sort_by_key(|v| v.line);
    let is_wrong = verdicts.iter().any(|v| v.bad);
    if as_json {
        let all = verdicts.iter().map(|v| json!({"line": v.line, "verdict": v.word, "text": v.text}));
        return (format!("{:#}\n", all.collect::<Value>()), is_wrong);
    }
    let mut out: String =
        verdicts.iter().map(|v| format!("{:>4}: {:8}  {}\n", v.line, v.word, v.text)).collect();
    if verdicts.is_empty() {
        out.push_str("no hints in the file\n");
    }
    (out, is_wrong)
}

fn judge(hints: &mut Hints, line: &HintLine) -> LineVerdict {
    let HintLine { line, name, value } = line;
    let (word, text, bad) = match hints.apply(HintSource::HintFile, name, value) {
        ApplyOutcome::Accepted => {
            let (canonical, waits) =
                find(name).map_or((name.as_str(), false), |e| (e.name, e.status == HintStatus::Accepted));
            let value = hints.get(name).map_or_else(|| value.clone(), |(value, _)| value);
            let note = if waits { " (no effect yet)" } else { "" };
            ("accepted", format!("{canonical} = {value}{note}"), false)
        }
        ApplyOutcome::Unknown => {
            let near = suggest(name).map_or_else(String::new, |near| format!("; is {near} meant?"));
            (
                "unknown",
                format!("{} is no hint of Pario and would be ignored{near}", name.escape_debug()),
                false,
            )
        }
        ApplyOutcome::Ignored(why) => ("ignored", format!("{name} {why}"), false),
        ApplyOutcome::Refused(refusal) => ("refused", refusal.to_string(), true),
    };
    LineVerdict { line: *line, word, text, bad }
}

fn skipped(bad: &InvalidLine) -> LineVerdict {
    let text = format!("{}: {}", bad.text.escape_debug(), bad.error);
    LineVerdict { line: bad.line, word: "skipped", text, bad: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_listing_keeps_to_the_width() {
        for width in [60, 80, 100, 140] {
            let texts = table().iter().map(|e| hint_details(e, width)).chain([hint_table(width)]);
            for line in texts.collect::<String>().lines() {
                assert!(line.chars().count() <= width.max(80), "{width}: {line}");
            }
        }
    }

    #[test]
    fn typing_mistakes_find_their_hint() {
        assert_eq!(suggest("cb_node"), Some("cb_nodes"));
        assert_eq!(suggest("romio_ds_raed"), Some("romio_ds_read"));
        assert_eq!(suggest("nc_align"), None);
    }

    #[test]
    fn every_line_of_a_checked_file_gets_a_verdict() {
        let (text, _) =
            checked_hint_file("cb_nodes 4\nstripe_size 64k\nromio_ds_read maybe\ncb_node 1\nodd\n", false);
        let words: Vec<_> = text.lines().map(|l| l.split_whitespace().nth(1).unwrap_or("")).collect();
        assert_eq!(words, ["accepted", "accepted", "refused", "unknown", "skipped"]);
        assert!(text.contains("striping_unit = 65536"));
        assert!(text.contains("is cb_nodes meant?"));
    }
}
