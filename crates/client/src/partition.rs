//! A partition as programs use it, and requests that commands send to its servers.

use std::path::Path;
use std::sync::Arc;

use pario_runtime::time::Instant;
use pario_types::{AccessDefaults, Epoch, FileId, PartitionId, ServerId};
use pario_wire::message::{Inode, LocalPart, ServerStatus, StorageSpace};
use pario_wire::{Reply, Request};

use crate::client_cache::{Tier1, TierOptions};
use crate::client_core::{ClientCore, Options, unexpected};
use crate::connection::target::{ByName, Resolve, Target};
use crate::error::Result;
use crate::metadata::shared_counter::Counter;

/// A partition. Clones share their connections, and threads may use one at the same time. The client connects to a server
/// at its first use, and again whenever the connection breaks.
#[derive(Clone)]
pub struct Partition {
    pub(crate) core: Arc<ClientCore>,
}

impl Partition {
    /// Opens the partition of that name in a registry, whose directory is given.
    pub fn open_by_name(registry: &Path, name: &str, options: Options) -> Result<Partition> {
        Partition::connect(ByName { registry: registry.to_owned(), name: name.to_owned() }, options)
    }

    /// The same, with the deadline that the partition's description has instead of that of the options.
    pub fn open_as_described(registry: &Path, name: &str, options: Options) -> Result<Partition> {
        let by_name = ByName { registry: registry.to_owned(), name: name.to_owned() };
        let (entry, target) = by_name.look()?;
        let options = Options { deadline: entry.description.settings().deadline, ..options };
        Partition::at(by_name, target, options)
    }

    /// Whether the partition of that name is down, or a part of it, as far as the registry knows.
    pub fn is_stopped(registry: &Path, name: &str) -> Result<bool> {
        let by_name = ByName { registry: registry.to_owned(), name: name.to_owned() };
        by_name.look().map(|(entry, _)| !entry.is_up())
    }

    /// Opens the partition whose servers have these addresses, which do not change.
    pub fn connect_to(target: Target, options: Options) -> Result<Partition> {
        Partition::connect(target, options)
    }

    /// Opens the partition that `resolver` looks up.
    pub fn connect(resolver: impl Resolve + 'static, options: Options) -> Result<Partition> {
        let target = resolver.resolve()?;
        Partition::at(resolver, target, options)
    }

    fn at(resolver: impl Resolve + 'static, target: Target, options: Options) -> Result<Partition> {
        let core = Arc::new(ClientCore::new(Arc::new(resolver), target, options)?);
        let since = Instant::now();
        let deadline = since + options.deadline;
        core.acquire(core.metadata, deadline)?.connect(since, deadline)?;
        Ok(Partition { core })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.core.name
    }

    /// Its id, which no other partition ever has.
    pub fn id(&self) -> PartitionId {
        self.core.target().partition
    }

    /// Its servers. `pario scale` may change the set; the client notices that when it needs another server, and when it connects to one
    /// that knows a later set.
    pub fn servers(&self) -> impl Iterator<Item = ServerId> + use<> {
        self.core.servers()
    }

    /// The version of the set of its servers.
    pub fn epoch(&self) -> Epoch {
        self.core.target().epoch
    }

    /// The server with the name space.
    pub fn metadata_server(&self) -> ServerId {
        self.core.metadata
    }

    /// Those of its servers that are on this host.
    pub fn local_servers(&self) -> Vec<ServerId> {
        let (target, far) = (self.core.target(), self.core.options.far);
        self.servers().filter(|server| target.is_local(*server, far)).collect()
    }

    /// Whether a server's cache is mapped into this process: it is on the same host and has been used.
    pub fn is_mapped(&self, server: ServerId) -> bool {
        self.core.connections.get(server).pool().is_some()
    }

    /// What its description says about accesses to its files, where a program says nothing else.
    pub fn access_defaults(&self) -> AccessDefaults {
        self.core.target().access
    }

    /// The options of tier 1 that its description has.
    pub fn tier_options(&self) -> TierOptions {
        let AccessDefaults { tier1_size, tier1_high, tier1_low, .. } = self.access_defaults();
        TierOptions { bytes: tier1_size, high: tier1_high, low: tier1_low, ..TierOptions::default() }
    }

    /// The cache of its files in this process's own memory.
    pub fn tier1(&self) -> &Tier1 {
        self.core.tier1.get_or_init(Tier1::new)
    }

    /// The space on the storage of all servers together.
    pub fn statfs(&self) -> Result<StorageSpace> {
        let rooms = self.rooms()?;
        Ok(rooms.iter().fold(StorageSpace::default(), |sum, room| StorageSpace {
            total: sum.total.saturating_add(room.total),
            free: sum.free.saturating_add(room.free),
            used: sum.used.saturating_add(room.used),
            parts: sum.parts.saturating_add(room.parts),
        }))
    }

    /// The space on the storage of each server. Servers that share a file system each report all of its space.
    pub fn rooms(&self) -> Result<Vec<StorageSpace>> {
        self.core.refresh()?;
        let requests: Vec<_> = self.servers().map(|server| (server, Request::StorageSpace)).collect();
        let replies = self.core.call_all(&requests)?;
        let room = |((server, _), reply): (&(ServerId, Request), Reply)| match reply {
            Reply::StorageSpace(room) => Ok(room),
            other => Err(unexpected(*server, &Request::StorageSpace, &other)),
        };
        requests.iter().zip(replies).map(room).collect()
    }

    /// Returns the status that a server reports.
    pub fn status(&self, server: ServerId) -> Result<ServerStatus> {
        self.ask(server, &Request::Status, |reply| match reply {
            Reply::Status(status) => Ok(*status),
            other => Err(Box::new(other)),
        })
    }

    /// Checks that a server answers.
    pub fn ping(&self, server: ServerId) -> Result<()> {
        self.ask(server, &Request::Ping, done)
    }

    /// Makes all servers store everything on their media.
    pub fn sync(&self) -> Result<()> {
        self.core.refresh()?;
        let all = Request::Sync { file: FileId(0), durable: true };
        let requests: Vec<_> = self.servers().map(|server| (server, all.clone())).collect();
        self.core.call_all(&requests).map(|_| ())
    }

    /// Makes a server store everything and end.
    pub fn shutdown(&self, server: ServerId) -> Result<()> {
        self.ask(server, &Request::Shutdown, done)
    }

    /// Compares stored blocks of a file on a server with their checksums, from a block on. Returns the damaged ones, and
    /// the block at which to continue.
    pub fn verify(
        &self,
        server: ServerId,
        file: FileId,
        from: u64,
        most: u64,
    ) -> Result<(Vec<u64>, Option<u64>)> {
        self.ask(server, &Request::VerifyBlocks { file, from, most }, |reply| match reply {
            Reply::Verified { damaged, next } => Ok((damaged, next)),
            other => Err(Box::new(other)),
        })
    }

    /// Returns the end of a server's part of a file; fails if the part is lost.
    pub fn part_end(&self, server: ServerId, file: FileId) -> Result<u64> {
        self.ask(server, &Request::End { file }, |reply| match reply {
            Reply::End { end } => Ok(end),
            other => Err(Box::new(other)),
        })
    }

    /// Accepts blocks as they are stored.
    pub fn accept(&self, server: ServerId, file: FileId, blocks: Vec<u64>) -> Result<()> {
        self.ask(server, &Request::AcceptBlocks { file, blocks }, done)
    }

    /// Returns parts of files on a server, in order of the files' ids, and whether there are more.
    pub fn list_parts(&self, server: ServerId, after: FileId, most: u32) -> Result<(Vec<LocalPart>, bool)> {
        self.ask(server, &Request::ListParts { after, most }, |reply| match reply {
            Reply::Parts { parts, more } => Ok((parts, more)),
            other => Err(Box::new(other)),
        })
    }

    /// Removes parts of files from a server: those that no name refers to any more.
    pub fn remove_parts(&self, server: ServerId, files: Vec<FileId>) -> Result<()> {
        self.ask(server, &Request::RemoveParts { files }, done)
    }

    /// Returns files and directories in order of their ids, and whether there are more.
    pub fn list_inodes(&self, after: FileId, most: u32) -> Result<(Vec<Inode>, bool)> {
        self.ask(self.core.metadata, &Request::ListInodes { after, most }, |reply| match reply {
            Reply::Inodes { inodes, more } => Ok((inodes, more)),
            other => Err(Box::new(other)),
        })
    }

    /// Returns a counter that programs share, at one of the servers, such as the first of a file.
    pub fn counter(&self, server: ServerId, key: u128) -> Counter {
        Counter::new(&self.core, server, key)
    }

    /// Sends a request, and extracts the expected reply.
    fn ask<T>(
        &self,
        server: ServerId,
        request: &Request,
        take: impl FnOnce(Reply) -> std::result::Result<T, Box<Reply>>,
    ) -> Result<T> {
        take(self.core.call(server, request)?).map_err(|other| unexpected(server, request, &other))
    }
}

impl std::fmt::Debug for Partition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Partition")
            .field("name", &self.name())
            .field("id", &self.id())
            .finish_non_exhaustive()
    }
}

fn done(reply: Reply) -> std::result::Result<(), Box<Reply>> {
    match reply {
        Reply::Done => Ok(()),
        other => Err(Box::new(other)),
    }
}
