//! Tables of placed files: where a file's bytes are.
//!
//! A table may have megabytes. So it is asked for once, and the layouts that were made of the last ones stay; and who is told
//! a table by another process, or has told it to the metadata server himself, does not ask.

use std::sync::Mutex;

use pario_layout::{Layout, Striping, Table, TableId};
use pario_wire::{Reply, Request};

use crate::core::{Core, lock, unexpected};
use crate::error::Result;
use crate::partition::Partition;

/// Layouts that are remembered.
const MOST: usize = 16;

#[derive(Default)]
pub(crate) struct Tables {
    /// The last ones first.
    layouts: Mutex<Vec<(TableId, Layout)>>,
    /// The bytes of a table that a file is about to be opened with.
    told: Mutex<Option<(TableId, Vec<u8>)>>,
}

impl Core {
    /// Tells the metadata server a table by which files may be placed.
    pub fn put_table(&self, table: &Table) -> Result<()> {
        let bytes = table.to_bytes();
        let id = TableId::of(&bytes);
        self.call_with(self.metadata, &Request::PutTable { table: id }, &bytes, &mut [])?;
        *lock(&self.tables.told) = Some((id, bytes));
        Ok(())
    }

    /// Where the bytes of a file are.
    pub fn layout(&self, striping: Striping, table: Option<TableId>) -> Result<Layout> {
        let Some(table) = table else { return Ok(striping.into()) };
        let known = |(id, layout): &&(TableId, Layout)| *id == table && *layout.striping() == striping;
        if let Some((_, layout)) = lock(&self.tables.layouts).iter().find(known) {
            return Ok(layout.clone());
        }
        let told = lock(&self.tables.told).take_if(|(id, _)| *id == table);
        let bytes = told.map_or_else(|| self.get_table(table), |(_, bytes)| Ok(bytes))?;
        let found = Table::from_bytes(&bytes).ok().filter(|_| TableId::of(&bytes) == table);
        let layout = found.and_then(|found| Layout::placed(striping, found).ok());
        let wrong = || unexpected(self.metadata, &Request::GetTable { table }, &Reply::Data { end: 0 });
        let layout = layout.ok_or_else(wrong)?;
        let mut layouts = lock(&self.tables.layouts);
        layouts.insert(0, (table, layout.clone()));
        layouts.truncate(MOST);
        Ok(layout)
    }

    fn get_table(&self, table: TableId) -> Result<Vec<u8>> {
        let request = Request::GetTable { table };
        let mut bytes = vec![0; table.len as usize];
        match self.call_with(self.metadata, &request, &[], &mut bytes)? {
            Reply::Data { .. } => Ok(bytes),
            reply => Err(unexpected(self.metadata, &request, &reply)),
        }
    }
}

impl Partition {
    /// Whether a file that has this table could be opened without asking for the table.
    pub fn knows_table(&self, table: TableId) -> bool {
        let tables = &self.core.tables;
        let told = lock(&tables.told).as_ref().is_some_and(|(id, _)| *id == table);
        told || lock(&tables.layouts).iter().any(|(id, _)| *id == table)
    }

    /// The bytes of the table of a file that is opened next, from a process that has it. Bytes of no table do no harm: then
    /// it is asked for.
    pub fn tell_table(&self, bytes: Vec<u8>) {
        *lock(&self.core.tables.told) = Some((TableId::of(&bytes), bytes));
    }
}
