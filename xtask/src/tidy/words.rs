//! Words that must not return.
//!
//! Names come from the field (MPI-IO, file systems, databases), so that a reader who knows it understands them at first sight.
//! Metaphors of our own are listed here and count wherever they stand: in names, comments, messages and documents. In comments and
//! documents no sentence begins with a headless "Who", and a process is never "he".

use std::path::Path;

use super::baseline::Violation;
use crate::program::{Outcome, at};
use crate::source::{self, comments_only, shown};

/// Metaphors, each with the words to use instead. A plural in -s counts as well.
const METAPHORS: &[(&str, &str)] = &[
    ("agenda", "event queue"),
    ("asker", "client, origin of a request"),
    ("comer", "rank that arrives"),
    ("crew", "processes, workers"),
    ("door", "interface, backend, entry point"),
    ("errand", "request, task"),
    ("foresight", "prefetch"),
    ("ground", "context"),
    ("guest", "remote rank"),
    ("heed", "apply, obey"),
    ("keeper", "holder, owner"),
    ("lane", "pipeline, rounds of a domain"),
    ("lesson", "sample"),
    ("passage", "transfer, request"),
    ("person", "user, identity"),
    ("road", "plan, path"),
    ("seat", "rank's state, slot"),
    ("stranger", "other program, other client"),
    ("voyage", "transfer, request"),
    ("wish", "request, hint"),
];

const PRONOUNS: &[&str] = &["he", "him", "himself", "his"];

const HEADLESS: &[&str] = &["Who", "Whoever", "Whom", "Whose"];

/// The parts of a file's text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Comments are in it, and names.
    Code,
    Document,
}

/// One violation per place.
pub fn check() -> Outcome<Vec<Violation>> {
    let mut found = Vec::new();
    for path in source::files()? {
        let name = shown(&path);
        // These checks and their tests, and what earlier versions told their users.
        if name.starts_with("xtask/src/tidy/") || name == "CHANGELOG.md" {
            continue;
        }
        let Some(kind) = kind(&path) else { continue };
        let text = at(&path, std::fs::read_to_string(&path))?;
        found.extend(metaphors(&name, &text));
        found.extend(sentences(&name, &text, kind));
    }
    Ok(found)
}

fn kind(path: &Path) -> Option<Kind> {
    match path.extension()?.to_str()? {
        "rs" | "c" | "h" => Some(Kind::Code),
        "md" => Some(Kind::Document),
        _ => None,
    }
}

/// Metaphors anywhere in the text, as a word or as part of a name.
fn metaphors(file: &str, text: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        for word in parts_of_names(line) {
            let metaphor = METAPHORS.iter().find(|(name, _)| is_form_of(&word, name));
            let Some((name, instead)) = metaphor else { continue };
            let message = format!("{file}:{number}: `{word}` is a private metaphor; say {instead}");
            found.push(Violation { key: (*name).to_owned(), message });
        }
    }
    found
}

fn is_form_of(word: &str, name: &str) -> bool {
    let plural = word.strip_suffix("es").or_else(|| word.strip_suffix('s'));
    word == name || word.strip_suffix('s') == Some(name) || plural == Some(name)
}

/// The words of a line in lower case; `FileDomain` and `file_domain` are two.
fn parts_of_names(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut after_lower = false;
    for c in line.chars() {
        if !c.is_alphabetic() || (c.is_uppercase() && after_lower) {
            words.extend(Some(std::mem::take(&mut word)).filter(|word| !word.is_empty()));
        }
        if c.is_alphabetic() {
            word.extend(c.to_lowercase());
        }
        after_lower = c.is_lowercase();
    }
    words.extend(Some(word).filter(|word| !word.is_empty()));
    words
}

/// Pronouns and headless sentences in comments and documents.
fn sentences(file: &str, text: &str, kind: Kind) -> Vec<Violation> {
    let prose = match kind {
        Kind::Code => comments_only(text),
        Kind::Document => text.to_owned(),
    };
    let mut found = Vec::new();
    let mut begins = true;
    for (line, number) in prose.lines().zip(1..) {
        let line = line.trim_start().trim_start_matches(['/', '!', '*', '-', '>', '|']).trim_start();
        begins |= line.is_empty();
        for token in line.split_whitespace() {
            let word = token.trim_matches(|c: char| !c.is_alphanumeric());
            if PRONOUNS.contains(&word) {
                let message = format!("{file}:{number}: `{word}`: a process is it");
                found.push(Violation { key: "he".into(), message });
            }
            if begins && HEADLESS.contains(&word) && !is_question(&prose, number) {
                let message = format!("{file}:{number}: the sentence begins with a headless `{word}`");
                found.push(Violation { key: "who".into(), message });
            }
            begins = token.ends_with(['.', ';', '!', '?', ':']);
        }
    }
    found
}

/// The sentence that begins on this line ends with a question mark.
fn is_question(prose: &str, number: usize) -> bool {
    let rest: String = prose.lines().skip(number - 1).take(3).collect::<Vec<_>>().join(" ");
    let end = rest.find(". ").unwrap_or(rest.len());
    rest[..end].contains('?')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(found: &[Violation]) -> Vec<&str> {
        found.iter().map(|violation| violation.key.as_str()).collect()
    }

    #[test]
    fn metaphors_are_found_in_names_comments_and_messages() {
        let text =
            "struct ServerLane;\nfn open_doors() {}\n// The wishes of a client.\nlet a = \"no seat\";\n";
        assert_eq!(keys(&metaphors("a.rs", text)), ["lane", "door", "wish", "seat"]);
    }

    #[test]
    fn words_that_contain_a_metaphor_stay() {
        let text = "// In the background, a broad plan of the planes and indoor guesses.\nfn background() {}";
        assert_eq!(keys(&metaphors("a.rs", text)), Vec::<&str>::new());
    }

    #[test]
    fn headless_sentences_and_pronouns_are_found_in_comments_only() {
        let text = "/// Who waits gets his turn. Whoever else comes waits.\nlet who = \"Who is he\";\n";
        assert_eq!(keys(&sentences("a.rs", text, Kind::Code)), ["who", "he", "who"]);
    }

    #[test]
    fn questions_and_relative_clauses_stay() {
        let text = "Who may read it? The client who asked.\n";
        assert_eq!(keys(&sentences("a.md", text, Kind::Document)), Vec::<&str>::new());
    }
}
