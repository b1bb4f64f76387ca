//! Placement tables of placed files, cached by their ids.
//!
//! A table may have megabytes. So a client fetches it once and caches the most recent layouts. A client that got a table from
//! another process, or sent it to the metadata server itself, does not fetch it.

use pario_layout::{Layout, PlacementMap, PlacementMapId, Striping};
use pario_runtime::sync::Mutex;
use pario_wire::{Reply, Request};

use crate::client_core::{ClientCore, unexpected};
use crate::error::Result;
use crate::partition::Partition;

/// The number of cached layouts.
const MOST: usize = 16;

#[derive(Default)]
pub(crate) struct TableCache {
    /// The most recent ones first.
    layouts: Mutex<Vec<(PlacementMapId, Layout)>>,
    /// The bytes of the table of a file that is about to be opened.
    sent_table: Mutex<Option<(PlacementMapId, Vec<u8>)>>,
}

impl ClientCore {
    /// Sends the metadata server a table by which files can be placed.
    pub fn put_table(&self, table: &PlacementMap) -> Result<()> {
        let bytes = table.to_bytes();
        let id = PlacementMapId::of(&bytes);
        self.call_with(self.metadata, &Request::PutTable { table: id }, &bytes, &mut [])?;
        *self.tables.sent_table.lock() = Some((id, bytes));
        Ok(())
    }

    /// Returns the layout of a file.
    pub fn layout(&self, striping: Striping, table: Option<PlacementMapId>) -> Result<Layout> {
        let Some(table) = table else { return Ok(striping.into()) };
        let known = |(id, layout): &&(PlacementMapId, Layout)| *id == table && *layout.striping() == striping;
        if let Some((_, layout)) = self.tables.layouts.lock().iter().find(known) {
            return Ok(layout.clone());
        }
        let sent_table = self.tables.sent_table.lock().take_if(|(id, _)| *id == table);
        let bytes = sent_table.map_or_else(|| self.get_table(table), |(_, bytes)| Ok(bytes))?;
        let found = PlacementMap::from_bytes(&bytes).ok().filter(|_| PlacementMapId::of(&bytes) == table);
        let layout = found.and_then(|found| Layout::placed(striping, found).ok());
        let wrong = || unexpected(self.metadata, &Request::GetTable { table }, &Reply::Data { end: 0 });
        let layout = layout.ok_or_else(wrong)?;
        let mut layouts = self.tables.layouts.lock();
        layouts.insert(0, (table, layout.clone()));
        layouts.truncate(MOST);
        Ok(layout)
    }

    fn get_table(&self, table: PlacementMapId) -> Result<Vec<u8>> {
        let request = Request::GetTable { table };
        let mut bytes = vec![0; table.len as usize];
        match self.call_with(self.metadata, &request, &[], &mut bytes)? {
            Reply::Data { .. } => Ok(bytes),
            reply => Err(unexpected(self.metadata, &request, &reply)),
        }
    }
}

impl Partition {
    /// Whether a file with this table could be opened without a request for the table.
    pub fn knows_table(&self, table: PlacementMapId) -> bool {
        let tables = &self.core.tables;
        let sent_table = tables.sent_table.lock().as_ref().is_some_and(|(id, _)| *id == table);
        sent_table || tables.layouts.lock().iter().any(|(id, _)| *id == table)
    }

    /// Sets the bytes of the table of the next opened file, from a process that has it. Invalid bytes do no harm: then the
    /// client requests the table.
    pub fn tell_table(&self, bytes: Vec<u8>) {
        *self.core.tables.sent_table.lock() = Some((PlacementMapId::of(&bytes), bytes));
    }
}
