//! A shipper's connection to one agent, with the views that the agent has received over it.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use pario_view::{View, ViewHash};

use crate::address::AgentAddress;
use crate::error::Error;
use crate::frame::{self, SLOTS, ShippingHello, ShippingRequest, WELCOME};
use crate::stream::{AgentStream, Input, input};

/// One connection.
pub struct AgentConnection {
    pub rank: u32,
    pub stream: Arc<AgentStream>,
    pub input: Input,
    /// The views that the agent holds for this connection, each with the time of its last use.
    views: Vec<(ViewHash, u64)>,
    uses: u64,
}

impl AgentConnection {
    /// Connects from `node` to the agent of a rank and presents the secret.
    pub fn open(
        rank: u32,
        address: &AgentAddress,
        node: u64,
        hello: ShippingHello,
        deadline: Duration,
    ) -> Result<AgentConnection, Error> {
        let failed = |cause| Error::connection(rank, cause, deadline);
        let stream = Arc::new(AgentStream::connect(address, node, deadline).map_err(failed)?);
        let mut input = input(&stream);
        stream.send(&hello.to_bytes()).map_err(failed)?;
        let mut welcome = [0; WELCOME];
        input.read_exact(&mut welcome).map_err(failed)?;
        match frame::is_refusal(&welcome) {
            Some(false) => Ok(AgentConnection { rank, stream, input, views: Vec::new(), uses: 0 }),
            Some(true) => Err(Error::Refused { rank }),
            None => Err(Error::Garbled { rank, what: "not an agent, or one of another version" }),
        }
    }

    /// Sends a view unless the agent has it; returns its slot, and whether it was sent.
    pub fn send_view(
        &mut self,
        view: &View,
        hash: ViewHash,
        deadline: Duration,
    ) -> Result<(u8, bool), Error> {
        self.uses += 1;
        if let Some(slot) = self.views.iter().position(|known| known.0 == hash) {
            self.views[slot].1 = self.uses;
            return Ok((slot as u8, false));
        }
        let slot = match self.views.len() {
            SLOTS => (0..SLOTS).min_by_key(|&slot| self.views[slot].1).unwrap_or(0),
            free => free,
        };
        let rank = self.rank;
        let bytes = view.to_bytes();
        let header = ShippingRequest::View { slot: slot as u8, body: bytes.len() as u32 }.to_bytes();
        let sent = self.stream.send(&[&header[..], &bytes].concat());
        sent.map_err(|cause| Error::connection(rank, cause, deadline))?;
        match self.views.get_mut(slot) {
            Some(known) => *known = (hash, self.uses),
            None => self.views.push((hash, self.uses)),
        }
        Ok((slot as u8, true))
    }
}
