//! Advice on a program's file accesses, for people and for programs.

use crate::text::printable;
use pario_profile::advice::Advice;
use serde_json::{Value, json};

/// Advice for people.
pub fn advice_text(advice: &[Advice]) -> String {
    if advice.is_empty() {
        return "no advice: nothing in this profile looks wrong\n".to_owned();
    }
    let mut text = String::new();
    for (number, Advice { topic, severity, file, evidence, remedy, pario }) in advice.iter().enumerate() {
        let file = file.as_deref().map_or(String::new(), |file| format!("  {}", printable(file)));
        let gap = if number == 0 { "" } else { "\n" };
        text += &format!(
            "{gap}{severity}: {topic}{file}\n  seen:  {evidence}\n  do:    {remedy}\n  pario: {pario}\n"
        );
    }
    text
}

/// Advice for programs.
pub fn advice_object(advice: &[Advice]) -> Value {
    let one = |advice: &Advice| {
        let Advice { topic, severity, file, evidence, remedy, pario } = advice;
        json!({
            "topic": topic.word(),
            "severity": severity.word(),
            "file": file,
            "evidence": evidence,
            "remedy": remedy,
            "pario": pario,
        })
    };
    json!({ "advice": advice.iter().map(one).collect::<Vec<_>>() })
}
