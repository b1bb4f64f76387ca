//! Files from open to removal: opens and closes, sizes, orphans.

use std::collections::HashMap;

use pario_layout::{Layout, PlacementMap, PlacementMapId};
use pario_types::{ClientId, FileId, RequestId, Stamp};

use crate::attributes::OpenedFile;
use crate::change::Change;
use crate::error::Error;
use crate::inodes::Body;
use crate::names::bits;
use crate::namespace::{Caller, Namespace, READ, WRITE};
use crate::opens::{OpenCounts, Opens, Recent, ReleasedFiles};
use crate::requests::Outcome;
use crate::tables::Tables;
use pario_metadata::{CloseReport, CreateMode, FileSize, LayoutRequest, OpenAccess};

impl Namespace {
    /// Opens a file, or creates and opens it. A file whose truncation is not yet resolved is busy for new writers; readers
    /// can open it.
    pub fn open_file(
        &mut self,
        path: &str,
        access: OpenAccess,
        create: CreateMode,
        mode: u32,
        layout_request: LayoutRequest,
        by: Caller,
    ) -> Result<OpenedFile, Error> {
        let opened = self.open_or_create(path, access, create, mode, layout_request, by);
        self.end_repetition(by.client);
        opened
    }

    fn open_or_create(
        &mut self,
        path: &str,
        access: OpenAccess,
        create: CreateMode,
        mode: u32,
        layout_request: LayoutRequest,
        by: Caller,
    ) -> Result<OpenedFile, Error> {
        match self.opens.recent(by.client, by.request) {
            Some(Recent::OpenedFile { file, created }) => return self.opened(file, created),
            Some(Recent::Closed { .. }) => return Err(Error::OtherRequest { request: by.request.0 }),
            None => {}
        }
        self.opens.room(by.client)?;
        match self.done(by) {
            Some(Outcome::About(file)) if self.taken.contains(&file) => return Err(Error::Gone { file }),
            Some(Outcome::About(file)) if self.inode(file)?.size().is_some() => {
                return self.count_open(file, access, true, by);
            }
            Some(_) => return Err(Error::OtherRequest { request: by.request.0 }),
            None => {}
        }
        let place = self.walk(path)?;
        if let Some(file) = place.found {
            let inode = self.inode(file)?;
            if create == CreateMode::Exclusive {
                return Err(Error::Exists { path: path.into() });
            }
            if inode.entries().is_some() {
                return Err(Error::IsADirectory { path: path.into() });
            }
            for (asked, bit) in [(access.reads(), READ), (access.writes(), WRITE)] {
                if asked {
                    self.permit(inode, bit, path)?;
                }
            }
            return self.count_open(file, access, false, by);
        }
        if create == CreateMode::Never {
            return Err(Error::NotFound { path: path.into() });
        }
        self.permit_change(place)?;
        let table = layout_request.table;
        if let Some(table) = table.filter(|table| self.state.tables.bytes(*table).is_none()) {
            return Err(Error::NoTable { hash: table.hash });
        }
        let file = FileId(self.state.next);
        let (striping, writing) = (self.striping_for(file, layout_request)?, access.writes());
        let (parent, name, mode) = (place.parent, place.name, bits(mode));
        self.commit(by, Change::Create { parent, file, mode, writing, striping, table, name })?;
        self.opens.open((by.client, file), access, true, by.now, by.now);
        self.opens.remember(by.client, by.request, Recent::OpenedFile { file, created: true });
        self.opened(file, true)
    }

    /// Stores a table by which files can be placed from now on.
    pub fn put_table(&mut self, table: PlacementMapId, bytes: &[u8], now: Stamp) -> Result<(), Error> {
        if self.state.tables.bytes(table).is_some() {
            return Ok(());
        }
        let found = PlacementMap::from_bytes(bytes).ok().filter(|_| PlacementMapId::of(bytes) == table);
        let striping = self.striping_for(FileId(0), LayoutRequest::default())?;
        if found.and_then(|found| Layout::placed(striping, found).ok()).is_none() {
            return Err(Error::BadTable { servers: striping.servers() });
        }
        let by = Caller { client: ClientId(0), request: RequestId(0), now };
        Tables::parts(table, bytes).try_for_each(|part| self.commit_part(by, Change::Table(part)))
    }

    /// Returns a table's bytes.
    pub fn table(&self, table: PlacementMapId) -> Result<&[u8], Error> {
        self.state.tables.bytes(table).ok_or(Error::NoTable { hash: table.hash })
    }

    fn opened(&self, file: FileId, created: bool) -> Result<OpenedFile, Error> {
        Ok(OpenedFile { attributes: self.attributes(file)?, created })
    }

    /// NamespaceCounts one more open of a file that exists.
    fn count_open(
        &mut self,
        file: FileId,
        access: OpenAccess,
        created: bool,
        by: Caller,
    ) -> Result<OpenedFile, Error> {
        let inode = self.inode(file)?;
        let modified = inode.times.modified;
        let known = matches!(inode.size(), Some(FileSize::Known(_)));
        if access.writes() {
            self.contend(file, by.client, by.now)?;
            if known {
                self.commit_own(by.now, Change::Writing { file })?;
            }
        }
        self.ready.remove(&file);
        self.opens.open((by.client, file), access, known, modified, by.now);
        self.opens.remember(by.client, by.request, Recent::OpenedFile { file, created });
        self.opened(file, created)
    }

    /// Ends one of the client's opens of the file: one for writing if `wrote` has the writer's report. A writer that
    /// reports no size leaves it unknown.
    pub fn close(&mut self, file: FileId, wrote: Option<CloseReport>, by: Caller) -> Result<(), Error> {
        match self.opens.recent(by.client, by.request) {
            Some(Recent::Closed { file: closed }) if closed == file => return Ok(()),
            Some(_) => return Err(Error::OtherRequest { request: by.request.0 }),
            None => {}
        }
        self.end_repetition(by.client);
        let modified = self.inode(file)?.times.modified;
        let plan = self.opens.plan_close(by.client, file, wrote, modified);
        let mut plan = plan.ok_or(Error::NotOpen { file })?;
        if self.state.truncations.contains_key(&file) {
            plan.size = None;
        }
        let named = !self.state.orphans.contains(&file);
        if named && (plan.size.is_some() || plan.modified.is_some()) {
            self.commit_own(by.now, Change::Settle { file, size: plan.size, modified: plan.modified })?;
        }
        self.opens.close(by.client, file, plan);
        self.opens.remember(by.client, by.request, Recent::Closed { file });
        if plan.last_writer && (plan.size.is_none() || !named) {
            self.forget_size(file);
        }
        self.abandon_truncations(|client| client == by.client);
        if self.opens.held(by.client, file) == OpenCounts::default() {
            self.queue_if_orphan(file);
        }
        Ok(())
    }

    /// After a reconnect: the client has these files open, once each per entry, and no others. An unanswered open is not
    /// among them, an unanswered close still counts as open. If the client is going to repeat a request that created a file, the file is not removed
    /// before that, even if it has lost its name. Returns the files that no longer exist.
    pub fn reopen(
        &mut self,
        client: ClientId,
        files: &[(FileId, OpenAccess)],
        repeated: RequestId,
        now: Stamp,
    ) -> Result<Vec<FileId>, Error> {
        self.end_repetition(client);
        if let Some(Outcome::About(file)) = self.done(Caller { client, request: repeated, now })
            && !self.taken.contains(&file)
        {
            self.ready.remove(&file);
            self.repeated.insert(client, file);
        }
        Opens::check(files.len())?;
        let (mut held, mut gone) = (HashMap::<FileId, OpenCounts>::new(), Vec::new());
        for (file, access) in files {
            let size = self.state.inodes.get(*file).and_then(|inode| inode.size());
            match size.filter(|_| !self.taken.contains(file)) {
                None => gone.push(*file),
                Some(size) => {
                    if access.writes() {
                        self.contend_reopened(*file, client, now)?;
                        if matches!(size, FileSize::Known(_)) {
                            self.commit_own(now, Change::Writing { file: *file })?;
                        }
                    }
                    held.entry(*file).or_default().add(*access);
                }
            }
        }
        for file in held.keys() {
            self.ready.remove(file);
        }
        let left = self.opens.replace(client, held);
        self.clean_up(client, left);
        Ok(gone)
    }

    /// The client is gone, and with it all its opens.
    pub fn client_gone(&mut self, client: ClientId) {
        let left = self.opens.replace(client, HashMap::new());
        self.clean_up(client, left);
        self.end_repetition(client);
        self.aborted.retain(|(of, _), _| *of != client);
    }

    fn clean_up(&mut self, client: ClientId, left: ReleasedFiles) {
        for file in left.unwritten {
            self.forget_size(file);
        }
        self.abandon_truncations(|of| of == client);
        for file in left.files {
            self.queue_if_orphan(file);
        }
    }

    /// The client has repeated its request, or will not do it any more.
    fn end_repetition(&mut self, client: ClientId) {
        if let Some(file) = self.repeated.remove(&client) {
            self.queue_if_orphan(file);
        }
    }

    /// Drops the size that was computed so far.
    fn forget_size(&mut self, file: FileId) {
        let unsure = self.state.ask();
        self.state.set_size(file, unsure).expect("an open file is there");
    }

    /// A nameless file that no client has open can be removed.
    pub(crate) fn queue_if_orphan(&mut self, file: FileId) {
        if self.state.orphans.contains(&file)
            && (self.opens.of(file) == 0 || pario_runtime::is_planted("removed-while-open"))
            && !self.grace
            && !self.taken.contains(&file)
            && !self.repeated.values().any(|created| *created == file)
        {
            self.ready.insert(file);
        }
    }

    /// Takes a size that a client computed by asking all servers, after attributes with this `seen`. Returns whether it is
    /// still valid and was taken.
    pub fn report_size(&mut self, file: FileId, size: u64, seen: u64, now: Stamp) -> Result<bool, Error> {
        if size > i64::MAX as u64 {
            return Err(Error::TooLarge { size });
        }
        let current = self.inode(file)?.size() == Some(FileSize::Ask { seen });
        let quiet =
            self.opens.writers(file) == 0 && !self.state.truncations.contains_key(&file) && !self.grace;
        if current && quiet {
            self.commit_own(now, Change::Settle { file, size: Some(size), modified: None })?;
        }
        Ok(current && quiet)
    }

    /// Clients of the previous server have had enough time to reconnect: no client has open what has not been opened again.
    pub fn end_grace_period(&mut self) {
        self.grace = false;
        for file in self.state.orphans.clone() {
            self.queue_if_orphan(file);
        }
        self.abandon_truncations(|_| true);
    }

    /// Returns files without name and opens, whose stripes are to be removed from their servers. They are not returned
    /// again until [`Namespace::retry_orphan`].
    pub fn take_orphans(&mut self, most: usize) -> Vec<(FileId, Layout)> {
        let mut orphans = Vec::new();
        while orphans.len() < most {
            let Some(file) = self.ready.pop_first() else { break };
            self.taken.insert(file);
            if let Some(layout) = self.layout_of(file) {
                orphans.push((file, layout));
            }
        }
        orphans
    }

    /// Returns the location of a file's bytes.
    pub(crate) fn layout_of(&self, file: FileId) -> Option<Layout> {
        let Body::File { striping, .. } = self.state.inodes.get(file)?.body else { return None };
        let table = self.state.tables.of(file).and_then(|table| self.state.tables.bytes(table));
        let table = table.and_then(|bytes| PlacementMap::from_bytes(bytes).ok());
        let placed = table.and_then(|table| Layout::placed(striping, table).ok());
        Some(placed.unwrap_or_else(|| Layout::from(striping)))
    }

    /// Some stripes of an orphan could not be removed: it is tried again.
    pub fn retry_orphan(&mut self, file: FileId) {
        if self.taken.remove(&file) {
            self.queue_if_orphan(file);
        }
    }

    /// All stripes of an orphan that was taken are removed.
    pub fn reaped(&mut self, file: FileId, now: Stamp) -> Result<(), Error> {
        if !self.taken.contains(&file) {
            return Err(Error::Gone { file });
        }
        self.commit_own(now, Change::Reaped { file })?;
        self.taken.remove(&file);
        Ok(())
    }
}
