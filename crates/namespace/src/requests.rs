//! Requests that were done, so that a repeated one is not done twice.
//!
//! Clients number their requests upwards and repeat only unanswered ones, so the last few of each client are enough.
//! Recovery rebuilds them, because every record of the journal names its request.

use std::collections::{HashMap, VecDeque};

use pario_types::{ClientId, FileId, RequestId};

/// The number of requests remembered for each client.
pub(crate) const PER_CLIENT: usize = 64;
/// The number of clients remembered; beyond it, the client that was silent longest is forgotten.
pub(crate) const CLIENTS: usize = 4096;

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is done and has no answer.
    Done,
    /// It created or changed this file or directory, and answered its attributes.
    About(FileId),
}

#[derive(Clone, Debug, Default)]
struct Client {
    last_use: u64,
    highest: u64,
    done: VecDeque<(RequestId, Outcome)>,
}

/// The last requests of all clients.
#[derive(Clone, Debug, Default)]
pub(crate) struct Requests {
    clients: HashMap<ClientId, Client>,
    uses: u64,
}

impl Requests {
    /// Returns the outcome of this request, if it was done.
    pub fn find(&self, client: ClientId, request: RequestId) -> Option<Outcome> {
        let client = self.clients.get(&client).filter(|client| request.0 <= client.highest)?;
        client.done.iter().rev().find(|(done, _)| *done == request).map(|(_, outcome)| *outcome)
    }

    /// Remembers a request that was done. Request 0 stands for none.
    pub fn remember(&mut self, client: ClientId, request: RequestId, outcome: Outcome) {
        if request == RequestId(0) {
            return;
        }
        self.uses += 1;
        let entry = self.clients.entry(client).or_default();
        entry.last_use = self.uses;
        entry.highest = entry.highest.max(request.0);
        if entry.done.len() == PER_CLIENT {
            entry.done.pop_front();
        }
        entry.done.push_back((request, outcome));
        if self.clients.len() > CLIENTS {
            let oldest = self.clients.iter().min_by_key(|(_, client)| client.last_use).map(|(id, _)| *id);
            self.clients.remove(&oldest.expect("there are clients"));
        }
    }

    /// Returns the clients, the longest silent first, with their requests in the order in which they were done.
    pub fn all(&self) -> Vec<(ClientId, &VecDeque<(RequestId, Outcome)>)> {
        let mut clients: Vec<_> = self.clients.iter().collect();
        clients.sort_by_key(|(_, client)| client.last_use);
        clients.into_iter().map(|(id, client)| (*id, &client.done)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_requests_of_a_client_are_remembered() {
        let mut requests = Requests::default();
        for n in 1..=PER_CLIENT as u64 + 1 {
            requests.remember(ClientId(7), RequestId(n), Outcome::About(FileId(n)));
        }
        assert_eq!(requests.find(ClientId(7), RequestId(1)), None);
        assert_eq!(requests.find(ClientId(7), RequestId(2)), Some(Outcome::About(FileId(2))));
        assert_eq!(requests.find(ClientId(7), RequestId(99)), None);
        assert_eq!(requests.find(ClientId(8), RequestId(2)), None);
    }

    #[test]
    fn the_longest_silent_client_is_forgotten() {
        let mut requests = Requests::default();
        for n in 0..CLIENTS as u128 {
            requests.remember(ClientId(n), RequestId(1), Outcome::Done);
        }
        requests.remember(ClientId(0), RequestId(2), Outcome::Done);
        requests.remember(ClientId(CLIENTS as u128), RequestId(1), Outcome::Done);
        assert_eq!(requests.find(ClientId(1), RequestId(1)), None);
        assert_eq!(requests.find(ClientId(0), RequestId(1)), Some(Outcome::Done));
        assert_eq!(requests.all().len(), CLIENTS);
        assert_eq!(requests.all()[0].0, ClientId(2));
    }
}
