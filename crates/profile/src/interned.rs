//! Strings that come again and again, each kept once.

use std::collections::HashMap;
use std::sync::Arc;

/// Numbers strings from 0 in the order in which they come.
#[derive(Debug, Default)]
pub struct Interned {
    numbers: HashMap<Arc<str>, u32>,
    strings: Vec<Arc<str>>,
    /// Most strings come several times in a row.
    last: u32,
}

impl Interned {
    /// The string's number.
    pub fn number(&mut self, string: &str) -> u32 {
        if self.strings.get(self.last as usize).is_some_and(|last| **last == *string) {
            return self.last;
        }
        self.last = match self.numbers.get(string) {
            Some(&number) => number,
            None => {
                let (number, string) = (self.strings.len() as u32, Arc::<str>::from(string));
                self.numbers.insert(string.clone(), number);
                self.strings.push(string);
                number
            }
        };
        self.last
    }

    /// All strings, by number.
    pub fn strings(&self) -> &[Arc<str>] {
        &self.strings
    }
}
