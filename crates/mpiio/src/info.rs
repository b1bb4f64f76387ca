//! The hints of info objects, and their comparison between ranks.

use pario_hints::{ApplyOutcome, HintSource, Hints};
use pario_types::fnv1a;

use crate::env::{env, warn};

/// The error text if hints that must be equal are not.
pub(crate) const HINTS_DIFFER: &str = "hints that must be the same on all ranks differ";

/// Applies the hints of an info object. `warns`: prints a line for each refused value; one rank does so.
pub(crate) fn apply_info(hints: &mut Hints, info: &[(String, String)], warns: bool) {
    for (name, value) in info {
        if let ApplyOutcome::Refused(refusal) = hints.apply(HintSource::Info, name, value)
            && warns
        {
            warn(&refusal.to_string());
        }
    }
}

/// A digest that ranks compare only in develop mode; else 0.
pub(crate) fn if_develop(digest: impl FnOnce() -> u64) -> u64 {
    if env().develop { digest() } else { 0 }
}

/// A digest of the hints in force that must be equal on all ranks.
pub(crate) fn common_digest(hints: &Hints) -> u64 {
    let common = |name: &str| pario_hints::find(name).is_some_and(|entry| entry.same_on_all_ranks);
    let mut text = String::new();
    for (name, value, _) in hints.in_force().filter(|(name, ..)| common(name)) {
        text.push_str(name);
        text.push('=');
        text.push_str(&value);
        text.push(';');
    }
    fnv1a(text.bytes())
}
