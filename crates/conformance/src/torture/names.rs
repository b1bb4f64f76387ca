//! Which names a directory may have, given what its one worker at a time did to it.
//!
//! All states that are possible are kept. A call that returned success leaves those in which it could succeed, each
//! with the change; one that returned an error, or never returned, may have happened or not, and doubles them.

use std::collections::BTreeMap;

use super::history::{Call, CallOutcome, Nanos, Op};

/// The possible states of a directory.
#[derive(Clone, Debug)]
pub struct Names {
    worlds: Vec<World>,
}

type World = BTreeMap<String, Entry>;

/// A file with a name: its number, if it is known to contain it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    number: u64,
    /// Whether its content is certain to be there, and from when on also after the loss of a host.
    filled: bool,
    durable: Nanos,
}

impl Default for Names {
    fn default() -> Names {
        Names { worlds: vec![World::new()] }
    }
}

/// The state after a call, or the error that it must return in a state.
fn apply(world: &World, op: &Op) -> Result<World, &'static str> {
    let mut next = world.clone();
    match op {
        Op::Create { name, .. } if world.contains_key(name) => return Err("FileExists"),
        Op::Create { name, number } => {
            next.insert(name.clone(), Entry { number: *number, filled: false, durable: Nanos::MAX });
        }
        Op::Rename { from, to } => {
            let entry = next.remove(from).ok_or("NoSuchFile")?;
            next.insert(to.clone(), entry);
        }
        Op::Remove { name } => {
            next.remove(name).ok_or("NoSuchFile")?;
        }
        _ => {}
    }
    Ok(next)
}

/// Whether it changes names.
pub fn is_change(op: &Op) -> bool {
    matches!(op, Op::Create { .. } | Op::Rename { .. } | Op::Remove { .. })
}

/// The content of a new file.
pub fn content(number: u64) -> [u8; 16] {
    let mut bytes = [0x5a; 16];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes
}

impl Names {
    /// Applies a call; the reason if its outcome is impossible.
    pub fn take(&mut self, call: &Call, losses: &[Nanos]) -> Result<(), String> {
        let before = self.worlds.clone();
        match (&call.op, &call.outcome) {
            (op, outcome) if is_change(op) => self.change(op, outcome.as_ref()),
            (Op::Fill { name, number }, outcome) => {
                let filled = matches!(outcome, Some(CallOutcome::Done));
                self.each(name, *number, |entry| entry.filled |= filled);
            }
            (Op::CloseNew { name }, Some(CallOutcome::Done)) => {
                let end = call.end.unwrap_or(Nanos::MAX);
                for world in &mut self.worlds {
                    world.get_mut(name).into_iter().for_each(|entry| entry.durable = entry.durable.min(end));
                }
            }
            (Op::List { .. }, Some(CallOutcome::Names(found))) => {
                self.worlds.retain(|world| matches(world, found, call.start, losses));
                // Bytes that were lost with a host do not come back.
                for (name, bytes) in found {
                    for entry in self.worlds.iter_mut().filter_map(|world| world.get_mut(name)) {
                        entry.filled &= bytes == &content(entry.number);
                    }
                }
            }
            _ => {}
        }
        self.worlds.dedup();
        if !self.worlds.is_empty() {
            return Ok(());
        }
        let mut text = format!("{} gave {}\n  the directory may have been:\n", call.op, spell(&call.outcome));
        for world in before.iter().take(8) {
            text += &format!("    {world:?}\n");
        }
        self.worlds = before;
        Err(text)
    }

    /// The last state that was seen is on storage now.
    pub fn settle(&mut self) {
        for world in &mut self.worlds {
            world.values_mut().for_each(|entry| entry.durable = 0);
        }
    }

    fn each(&mut self, name: &str, number: u64, change: impl Fn(&mut Entry)) {
        for world in &mut self.worlds {
            world.get_mut(name).into_iter().filter(|entry| entry.number == number).for_each(&change);
        }
    }

    fn change(&mut self, op: &Op, outcome: Option<&CallOutcome>) {
        let mut worlds = Vec::new();
        for world in &self.worlds {
            match (apply(world, op), outcome) {
                (Ok(next), Some(CallOutcome::Done)) => worlds.push(next),
                (Err(_), Some(CallOutcome::Done)) => {}
                (Err(wanted), Some(CallOutcome::Failed { kind, .. })) if kind == wanted => {
                    worlds.push(world.clone())
                }
                // Where it could have been done, it cannot fail for such a reason.
                (_, Some(CallOutcome::Failed { kind, .. }))
                    if ["FileExists", "NoSuchFile"].contains(&&**kind) => {}
                (Ok(next), _) => worlds.extend([world.clone(), next]),
                (Err(_), _) => worlds.push(world.clone()),
            }
        }
        worlds.sort_by_key(|world| format!("{world:?}"));
        worlds.dedup();
        self.worlds = worlds;
    }
}

fn spell(outcome: &Option<CallOutcome>) -> String {
    outcome.as_ref().map_or_else(|| "nothing".into(), ToString::to_string)
}

/// Whether a directory in this state can look like that.
fn matches(world: &World, found: &[(String, Vec<u8>)], at: Nanos, losses: &[Nanos]) -> bool {
    let fits = |(name, bytes): &(String, Vec<u8>)| {
        let Some(entry) = world.get(name) else { return false };
        let all = content(entry.number);
        let lost = losses.iter().any(|loss| *loss < at && *loss < entry.durable);
        match entry.filled && !lost {
            true => bytes == &all,
            // As far as it came, in pieces on several servers.
            false => bytes.len() <= all.len() && bytes.iter().zip(all).all(|(a, b)| *a == b || *a == 0),
        }
    };
    world.len() == found.len() && found.iter().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(op: Op, outcome: Option<CallOutcome>) -> Call {
        Call { worker: 1, slot: 0, op, start: 1, end: Some(2), outcome }
    }

    fn failed(kind: &str) -> Option<CallOutcome> {
        Some(CallOutcome::Failed { kind: kind.into(), text: String::new() })
    }

    fn create(name: &str, number: u64) -> Op {
        Op::Create { name: name.into(), number }
    }

    fn list(names: &[(&str, u64)]) -> Call {
        let names = names.iter().map(|(name, number)| (name.to_string(), content(*number).to_vec()));
        call(Op::List { slot: 0 }, Some(CallOutcome::Names(names.collect())))
    }

    #[test]
    fn acknowledged_changes_of_names_must_be_visible() {
        let mut names = Names::default();
        for op in [create("a", 1), Op::Fill { name: "a".into(), number: 1 }] {
            names.take(&call(op, Some(CallOutcome::Done)), &[]).expect("it can be done");
        }
        assert!(names.take(&list(&[]), &[]).is_err());
        assert!(names.take(&list(&[("a", 2)]), &[]).is_err());
        names.take(&list(&[("a", 1)]), &[]).expect("that is it");
        assert!(names.take(&call(create("a", 2), Some(CallOutcome::Done)), &[]).is_err());
        names.take(&call(create("a", 2), failed("FileExists")), &[]).expect("it is there");
    }

    #[test]
    fn failed_or_unfinished_changes_of_names_may_be_visible() {
        let mut names = Names::default();
        names.take(&call(create("a", 1), None), &[]).expect("either");
        let remove = Op::Remove { name: "b".into() };
        assert!(names.take(&call(remove, Some(CallOutcome::Done)), &[]).is_err(), "it never was");
        names.take(&call(create("b", 2), failed("Unreachable")), &[]).expect("either");
        names.take(&list(&[("b", 2)]), &[]).expect("one of four");
        assert!(names.take(&list(&[("a", 1), ("b", 2)]), &[]).is_err(), "it was seen not to be");
    }

    #[test]
    fn content_that_was_lost_with_a_host_is_not_expected_again() {
        let mut names = Names::default();
        let (name, number) = ("a".to_owned(), 7);
        let done = Some(CallOutcome::Done);
        names.take(&call(Op::Create { name: name.clone(), number }, done.clone()), &[]).unwrap();
        names.take(&call(Op::Fill { name: name.clone(), number }, done), &[]).unwrap();
        let list = |start, bytes: &[u8]| {
            let outcome = Some(CallOutcome::Names(vec![(name.clone(), bytes.to_vec())]));
            Call { worker: 1, slot: 0, op: Op::List { slot: 0 }, start, end: Some(start + 1), outcome }
        };
        assert!(names.take(&list(5, &[]), &[]).is_err(), "nothing was lost");
        names.take(&list(20, &[]), &[10]).unwrap();
        names.settle();
        names.take(&list(30, &[]), &[]).unwrap();
    }
}
