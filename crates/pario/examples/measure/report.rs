//! The printed lines.

use crate::Outcome;

/// A measurement.
pub struct Case<'a> {
    pub name: &'a str,
    /// Bytes of each access.
    pub size: usize,
    pub clients: usize,
    pub operations: u64,
    pub bytes: u64,
}

impl Case<'_> {
    pub fn print(&self, seconds: f64, limit: Option<f64>) {
        let Case { name, size, clients, operations, bytes } = self;
        let limit = limit.map_or_else(|| "-".into(), |limit| limit.to_string());
        println!("measured {name} {size} {clients} {operations} {bytes} {seconds} {limit}");
    }

    /// Measures both with the same state; the order changes from turn to turn.
    pub fn beside<S: ?Sized>(
        &self,
        turn: u32,
        state: &mut S,
        pario: impl FnOnce(&mut S) -> Outcome<f64>,
        limit: impl FnOnce(&mut S) -> Outcome<f64>,
    ) -> Outcome {
        let (seconds, limit) = if turn.is_multiple_of(2) {
            let seconds = pario(state)?;
            (seconds, limit(state)?)
        } else {
            let limit = limit(state)?;
            (pario(state)?, limit)
        };
        self.print(seconds, Some(limit));
        Ok(())
    }
}

/// Checks that the bytes read are the bytes written.
pub fn same(read: &[u8], written: &[u8], what: &str) -> Outcome {
    if read == written { Ok(()) } else { Err(format!("{what}: wrong bytes were read").into()) }
}
