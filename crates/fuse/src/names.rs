//! The map from inode numbers to paths.
//!
//! The kernel identifies files by inode number, servers by path. Inode numbers are the ids of the partition, which are
//! never reused. For each number that the kernel knows, this table has the directory and the name at its last lookup. Other
//! programs may have renamed it since: the kernel looks every name up again before it uses it, which corrects the table.

use std::collections::HashMap;

/// The number of the root directory, to the kernel as well as in partitions.
pub(crate) const ROOT: u64 = 1;

struct Node {
    /// Directory and name; `None` once the name is removed.
    place: Option<(u64, String)>,
    /// The kernel's lookup count: replies with this number, less what the kernel forgot.
    told: u64,
}

/// The files and directories that the kernel knows of.
#[derive(Default)]
pub(crate) struct Names {
    nodes: HashMap<u64, Node>,
    /// The inverse map: from directory and name to number.
    places: HashMap<(u64, String), u64>,
}

impl Names {
    /// The path of a number; `None` if it is not known, or has no name any more.
    pub fn path(&self, number: u64) -> Option<String> {
        let mut names = Vec::new();
        let mut at = number;
        while at != ROOT {
            // A concurrent rename by another program could make a cycle.
            if names.len() > self.nodes.len() {
                return None;
            }
            let (parent, name) = self.nodes.get(&at)?.place.as_ref()?;
            names.push(name.as_str());
            at = *parent;
        }
        names.reverse();
        Some(format!("/{}", names.join("/")))
    }

    /// The path of a name in a directory.
    pub fn path_in(&self, parent: u64, name: &str) -> Option<String> {
        self.path(parent).map(|path| format!("{}/{name}", path.trim_end_matches('/')))
    }

    /// Returns the directory of an inode; the root's is itself.
    pub fn parent(&self, number: u64) -> Option<u64> {
        if number == ROOT { Some(ROOT) } else { Some(self.nodes.get(&number)?.place.as_ref()?.0) }
    }

    /// The kernel learns that this name has this number.
    pub fn tell(&mut self, parent: u64, name: &str, number: u64) {
        if number == ROOT {
            return;
        }
        self.put(parent, name, number);
        self.nodes.get_mut(&number).expect("just put there").told += 1;
    }

    /// The kernel drops so many of its references to a number.
    pub fn forget(&mut self, number: u64, times: u64) {
        if let Some(node) = self.nodes.get_mut(&number) {
            node.told = node.told.saturating_sub(times);
            if node.told == 0 {
                self.unname(number);
                self.nodes.remove(&number);
            }
        }
    }

    /// The name is removed.
    pub fn remove(&mut self, parent: u64, name: &str) {
        if let Some(number) = self.places.get(&(parent, name.to_owned())) {
            self.unname(*number);
        }
    }

    /// A name replaces another; the inode that had the new name has none any more.
    pub fn rename(&mut self, from: (u64, &str), to: (u64, &str)) {
        match self.places.get(&(from.0, from.1.to_owned())) {
            Some(number) => self.put(to.0, to.1, *number),
            None => self.remove(to.0, to.1),
        }
    }

    /// Sets directory and name of a number, and removes both from earlier owners.
    fn put(&mut self, parent: u64, name: &str, number: u64) {
        let place = (parent, name.to_owned());
        if self.places.get(&place) == Some(&number) {
            return;
        }
        self.remove(parent, name);
        self.unname(number);
        self.places.insert(place.clone(), number);
        self.nodes.entry(number).or_insert(Node { place: None, told: 0 }).place = Some(place);
    }

    fn unname(&mut self, number: u64) {
        if let Some(place) = self.nodes.get_mut(&number).and_then(|node| node.place.take()) {
            self.places.remove(&place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Tell(u64, u8, u64),
        Forget(u64),
        Remove(u64, u8),
        Rename((u64, u8), (u64, u8)),
    }

    fn step() -> impl Strategy<Value = Step> {
        let place = (1u64..6, 0u8..4);
        prop_oneof![
            4 => (place.clone(), 2u64..8).prop_map(|((parent, name), number)| Step::Tell(parent, name, number)),
            1 => (2u64..8).prop_map(Step::Forget),
            1 => place.clone().prop_map(|(parent, name)| Step::Remove(parent, name)),
            2 => (place.clone(), place).prop_map(|(from, to)| Step::Rename(from, to)),
        ]
    }

    /// Directory and name, which may be removed; number; lookup count.
    type Row = (Option<(u64, String)>, u64, u64);

    /// The model.
    #[derive(Default)]
    struct Flat(Vec<Row>);

    impl Flat {
        fn unname(&mut self, place: &(u64, String)) {
            self.0.iter_mut().filter(|row| row.0.as_ref() == Some(place)).for_each(|row| row.0 = None);
        }

        fn path(&self, number: u64) -> Option<String> {
            let (mut at, mut path) = (number, String::new());
            for _ in 0..=self.0.len() {
                if at == ROOT {
                    return Some(if path.is_empty() { "/".into() } else { path });
                }
                let (parent, name) = self.0.iter().find(|row| row.1 == at)?.0.clone()?;
                (at, path) = (parent, format!("/{name}{path}"));
            }
            None
        }
    }

    proptest! {
        #[test]
        fn paths_are_those_of_a_flat_list(steps in prop::collection::vec(step(), 0..60)) {
            let (mut names, mut flat) = (Names::default(), Flat::default());
            let word = |name: u8| format!("n{name}");
            for step in steps {
                match step {
                    Step::Tell(parent, name, number) => {
                        names.tell(parent, &word(name), number);
                        let place = (parent, word(name));
                        flat.unname(&place);
                        match flat.0.iter_mut().find(|row| row.1 == number) {
                            Some(row) => (row.0, row.2) = (Some(place), row.2 + 1),
                            None => flat.0.push((Some(place), number, 1)),
                        }
                    }
                    Step::Forget(number) => {
                        names.forget(number, 1);
                        flat.0.iter_mut().filter(|row| row.1 == number).for_each(|row| row.2 -= 1);
                        flat.0.retain(|row| row.2 > 0);
                    }
                    Step::Remove(parent, name) => {
                        names.remove(parent, &word(name));
                        flat.unname(&(parent, word(name)));
                    }
                    Step::Rename(from, to) => {
                        names.rename((from.0, &word(from.1)), (to.0, &word(to.1)));
                        let (from, to) = ((from.0, word(from.1)), (to.0, word(to.1)));
                        if from != to {
                            flat.unname(&to);
                            let rows = flat.0.iter_mut().filter(|row| row.0.as_ref() == Some(&from));
                            rows.for_each(|row| row.0 = Some(to.clone()));
                        }
                    }
                }
                for number in 1..8 {
                    prop_assert_eq!(names.path(number), flat.path(number));
                }
                prop_assert_eq!(names.nodes.len(), flat.0.len());
                prop_assert_eq!(names.places.len(), flat.0.iter().filter(|row| row.0.is_some()).count());
            }
        }
    }

    #[test]
    fn a_directory_takes_what_is_in_it_along() {
        let mut names = Names::default();
        names.tell(ROOT, "a", 2);
        names.tell(2, "b", 3);
        names.rename((ROOT, "a"), (ROOT, "c"));
        assert_eq!(names.path(3).as_deref(), Some("/c/b"));
        assert_eq!(names.path_in(ROOT, "x").as_deref(), Some("/x"));
        assert_eq!(names.path_in(3, "x").as_deref(), Some("/c/b/x"));
        assert_eq!((names.parent(ROOT), names.parent(3), names.parent(9)), (Some(ROOT), Some(2), None));
    }
}
