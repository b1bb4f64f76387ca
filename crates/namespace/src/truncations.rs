//! Truncations: a file is truncated on all its servers between a begin and an end.
//!
//! Each truncation has an id of its own; ids only grow. The client that began it sends the id to every server of the file.
//! A server applies an id at most once, and no id after a larger one. If the client does not reach the end, because it is
//! gone or has aborted, the caller of [`Namespace::take_truncations`] resolves the truncation at the servers:
//!
//! - If no other client could have written since the begin, it is *completed*, with the same id.
//! - Otherwise it is *fenced*: no server applies it any more. Later writes of other clients stay.
//!
//! Until it is resolved the file is busy for new writers, so that a truncation that can be completed stays so.

use pario_layout::Layout;
use pario_types::{ClientId, FileId, Stamp, TruncationId};

use crate::change::Change;
use crate::error::Error;
use crate::namespace::{Caller, Namespace};
use crate::state::Truncation;

/// A truncation whose client is gone or has aborted it.
#[derive(Clone, Debug, PartialEq)]
pub struct UnfinishedTruncation {
    /// The file.
    pub file: FileId,
    /// The id of the truncation.
    pub truncation: TruncationId,
    /// The location of the file's bytes.
    pub layout: Layout,
    /// The size to truncate it to on all servers; `None`: it has to be fenced on all servers.
    pub complete: Option<u64>,
}

impl Namespace {
    /// The client, which has the file open for writing, is about to truncate it to this size on all its servers. A file has
    /// at most one truncation under way.
    pub fn begin_truncate(&mut self, file: FileId, size: u64, by: Caller) -> Result<TruncationId, Error> {
        let current = self.state.truncations.get(&file).copied();
        if self.repeated(by)? {
            let mine = current.filter(|truncation| truncation.client == by.client && !truncation.is_left);
            return mine.map(|truncation| truncation.id).ok_or(Error::TruncationLost { file });
        }
        if size > i64::MAX as u64 {
            return Err(Error::TooLarge { size });
        }
        if self.opens.held(by.client, file).writing == 0 {
            return Err(Error::NotOpen { file });
        }
        if current.is_some() {
            return Err(Error::BeingTruncated { file });
        }
        let aborted = self.aborted.get(&(by.client, file));
        if by.request.0 != 0 && aborted.is_some_and(|abort| by.request < *abort) {
            return Err(Error::TruncationLost { file });
        }
        let truncation = TruncationId(self.state.next_truncation);
        let contended = self.opens.has_other_writers(by.client, file);
        self.commit(by, Change::BeginTruncate { file, size, truncation, contended })?;
        self.opens.truncated(by.client, file);
        Ok(truncation)
    }

    /// All servers have applied the truncation.
    pub fn end_truncate(&mut self, file: FileId, truncation: TruncationId, by: Caller) -> Result<(), Error> {
        if self.repeated(by)? {
            return Ok(());
        }
        let is_its = |current: &Truncation| {
            current.id == truncation && current.client == by.client && !current.is_left
        };
        if !self.state.truncations.get(&file).is_some_and(is_its) {
            return Err(Error::TruncationLost { file });
        }
        self.commit(by, Change::EndTruncate { file })?;
        self.opens.truncated(by.client, file);
        Ok(())
    }

    /// The client could not complete it, or (id 0) does not know whether it has begun: the truncation is never completed.
    /// Returns whether it is over, so that no server applies it any more; if not, the client has to ask again.
    pub fn abort_truncate(
        &mut self,
        file: FileId,
        truncation: TruncationId,
        by: Caller,
    ) -> Result<bool, Error> {
        let last = self.aborted.entry((by.client, file)).or_default();
        *last = by.request.max(*last);
        let Some(current) = self.state.truncations.get(&file).copied() else { return Ok(true) };
        let is_its = match truncation {
            TruncationId(0) => current.client == by.client,
            id => current.id == id,
        };
        if !is_its {
            return Ok(true);
        }
        if !current.contended && !self.resolving.contains(&file) {
            self.commit_own(by.now, Change::ContendTruncate { file })?;
        }
        if let Some(current) = self.state.truncations.get_mut(&file) {
            current.is_left = true;
        }
        Ok(false)
    }

    /// Returns truncations to resolve on their files' servers. They are not returned again until
    /// [`Namespace::retry_truncation`].
    pub fn take_truncations(&mut self) -> Vec<UnfinishedTruncation> {
        let left = self.state.truncations.iter().filter(|(_, truncation)| truncation.is_left);
        // An orphan that no client has open is removed as a whole.
        let is_doomed = |file| self.state.orphans.contains(file) && self.opens.of(*file) == 0;
        let free = left.filter(|(file, _)| !self.resolving.contains(file) && !is_doomed(file));
        let found = free.filter_map(|(file, truncation)| {
            let (file, truncation, layout) = (*file, *truncation, self.layout_of(*file)?);
            let complete = (!truncation.contended).then_some(truncation.size);
            Some(UnfinishedTruncation { file, truncation: truncation.id, layout, complete })
        });
        let found: Vec<_> = found.collect();
        self.resolving.extend(found.iter().map(|unfinished| unfinished.file));
        found
    }

    /// A truncation could not be resolved on all servers: it is tried again.
    pub fn retry_truncation(&mut self, file: FileId) {
        self.resolving.remove(&file);
    }

    /// A truncation that was taken is completed or fenced on all servers.
    pub fn truncation_resolved(
        &mut self,
        file: FileId,
        truncation: TruncationId,
        now: Stamp,
    ) -> Result<(), Error> {
        // The file may have been removed meanwhile.
        if self.state.truncations.get(&file).is_some_and(|current| current.id == truncation) {
            self.commit_own(now, Change::EndTruncate { file })?;
        }
        self.resolving.remove(&file);
        Ok(())
    }

    /// A client is about to open the file for writing. If it is not the one that truncates the file, that truncation must
    /// not be completed any more.
    pub(crate) fn contend(&mut self, file: FileId, client: ClientId, now: Stamp) -> Result<(), Error> {
        match self.state.truncations.get(&file) {
            Some(truncation) if truncation.is_left => Err(Error::BeingTruncated { file }),
            _ => self.contend_reopened(file, client, now),
        }
    }

    /// The same for a client that already has the file open for writing and reports it.
    pub(crate) fn contend_reopened(
        &mut self,
        file: FileId,
        client: ClientId,
        now: Stamp,
    ) -> Result<(), Error> {
        match self.state.truncations.get(&file) {
            Some(truncation) if truncation.client != client && !truncation.contended => {
                self.commit_own(now, Change::ContendTruncate { file })
            }
            _ => Ok(()),
        }
    }

    /// Clients have closed files, or are gone: truncations whose client (among these) no longer has the file open for
    /// writing have to be resolved.
    pub(crate) fn abandon_truncations(&mut self, is_concerned: impl Fn(ClientId) -> bool) {
        for (file, truncation) in &mut self.state.truncations {
            let writes = self.opens.held(truncation.client, *file).writing > 0;
            truncation.is_left |= is_concerned(truncation.client) && !writes;
        }
    }
}
