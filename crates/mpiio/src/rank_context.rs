//! The context of one rank in an access: the file, the other ranks, and how values are converted.
//!
//! It runs an access of this rank by itself, and it is the [`CollectiveIo`] of collective accesses.

use std::sync::Arc;

use pario_buffer::lend;
use pario_mpi_host::{Message, TypeHandle};
use pario_two_phase::{AccessRequest, CollectiveIo, NodeMessages, WindowFile};
use pario_types::ErrorKind;
use pario_view::View;

use crate::access::ValueCoding;
use crate::convert;
use crate::data_shipping::ShippingSession;
use crate::error::{Error, Result};
use crate::file::MpiFile;
use crate::storage::count_server_requests;

/// The file of an access and the other ranks, as one rank uses them.
pub(crate) struct RankContext {
    pub file: Arc<MpiFile>,
    /// Whether this rank caches the windows that it accesses.
    pub owned: bool,
    pub coder: ValueCoding,
    pub base: usize,
    pub datatype: TypeHandle,
}

impl NodeMessages for RankContext {
    type Error = Error;
    type Transfer = Message;

    fn allgather(&mut self, mine: &[u64]) -> Result<Message> {
        self.file.stats.host_calls.add(1);
        self.file.group.messages().allgather(mine)
    }

    fn send(&mut self, to: u32, bytes: Vec<u8>) -> Result<Message> {
        self.file.stats.host_calls.add(1);
        self.file.group.messages().send(to, bytes)
    }

    fn receive(&mut self, from: u32, len: usize) -> Result<Message> {
        self.file.stats.host_calls.add(1);
        self.file.group.messages().receive(from, len)
    }

    fn test(&mut self, transfer: &mut Message) -> Result<Option<Vec<u8>>> {
        Ok(transfer.test()?)
    }
}

impl CollectiveIo for RankContext {
    fn kind(error: &Error) -> ErrorKind {
        error.kind()
    }

    fn file(&mut self) -> Result<WindowFile<'_>> {
        let backend = &**self.file.storage()?;
        Ok(WindowFile { backend, tuning: self.file.tuning(), exclusive: self.owned })
    }

    fn access_independently(&mut self, job: &AccessRequest) -> Result<u64> {
        self.run(job, self.shipping_session().as_deref())
    }

    fn view_of(&mut self, rank: u32, hash: u128) -> Result<Arc<View>> {
        self.file.group.views.lock().get(&hash).cloned().ok_or(Error::Value(
            ErrorKind::Intern,
            "the view of another rank is not known here",
            i64::from(rank),
        ))
    }
}

impl RankContext {
    /// Moves the bytes of one access by this rank alone.
    pub(crate) fn run(
        &self,
        task: &AccessRequest,
        shipping_session: Option<&ShippingSession>,
    ) -> Result<u64> {
        count_server_requests(&self.file.stats, || {
            if task.write { self.write(task, shipping_session) } else { self.read(task, shipping_session) }
        })
    }

    /// Data shipping, where it is on and fit for this access.
    pub(crate) fn shipping_session(&self) -> Option<Arc<ShippingSession>> {
        let fits = matches!(self.coder, ValueCoding::Plain) && !self.file.tuning().atomic;
        fits.then(|| self.file.shipping_session()).flatten()
    }

    fn read(&self, task: &AccessRequest, shipping_session: Option<&ShippingSession>) -> Result<u64> {
        let AccessRequest { view, at, len, buffer, .. } = task;
        let tuning = self.file.tuning();
        let storage = self.file.storage()?;
        match &self.coder {
            ValueCoding::Plain => match shipping_session {
                Some(shipping_session) => {
                    Ok(shipping_session.shipper.read(view, *at, buffer, 0, *len, &tuning)?)
                }
                None => Ok(storage.read(view, *at, buffer, 0, *len, &tuning)?),
            },
            ValueCoding::External => convert::read_external(&**storage, view, *at, *len, buffer, &tuning),
            ValueCoding::User(conversion, items) => {
                let mut staged = convert::scratch(*len)?;
                let got = lend(&mut staged, |memory| storage.read(view, *at, memory, 0, *len, &tuning))?;
                // A short read converts the values that are complete. Their number is exact only if all values have
                // the same size.
                let items = if got == *len { *items } else { scaled(*items, got, *len) };
                conversion.read(self.base, self.datatype, items, &mut staged).map_err(Error::UserFunction)?;
                Ok(if got == *len { buffer.len() } else { scaled(buffer.len(), got, *len) })
            }
        }
    }

    fn write(&self, task: &AccessRequest, shipping_session: Option<&ShippingSession>) -> Result<u64> {
        let AccessRequest { view, at, len, buffer, .. } = task;
        let tuning = self.file.tuning();
        let storage = self.file.storage()?;
        match &self.coder {
            ValueCoding::Plain => match shipping_session {
                Some(shipping_session) => {
                    Ok(shipping_session.shipper.write(view, *at, buffer, 0, *len, &tuning)?)
                }
                None => Ok(storage.write(view, *at, buffer, 0, *len, &tuning)?),
            },
            ValueCoding::External => convert::write_external(&**storage, view, *at, *len, buffer, &tuning),
            ValueCoding::User(conversion, items) => {
                let mut staged = convert::scratch(*len)?;
                conversion
                    .write(self.base, self.datatype, *items, &mut staged)
                    .map_err(Error::UserFunction)?;
                lend(&mut staged, |memory| storage.write(view, *at, memory, 0, *len, &tuning))?;
                Ok(buffer.len())
            }
        }
    }
}

/// `n · got / len`, rounded down.
fn scaled(n: u64, got: u64, len: u64) -> u64 {
    (u128::from(n) * u128::from(got)).checked_div(u128::from(len)).unwrap_or(0) as u64
}
