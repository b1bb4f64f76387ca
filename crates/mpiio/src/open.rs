//! Opening files, in three agreements of all ranks.
//!
//! 1. *Arguments*: the arguments of all ranks are valid and equal where they must be.
//! 2. *Announcement*: rank 0 opens or creates the file and announces what it found ([`OpenAnnouncement`]).
//! 3. *Storage*: the other ranks open the file, and all ranks learn whether all succeeded.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pario_file_backend::StorageFacts;
use pario_hints::{Hints, Schedule};
use pario_layout::PlacementMap;
use pario_mpi_host::{Comm, Host};
use pario_partition_file::ClientCache;
use pario_posix::{PlainOpenOptions, StripingRequest};
use pario_trace::counters;
use pario_types::{AccessDefaults, ErrorKind, Strategy, Toggle, fnv1a};

use crate::amode::{Amode, AmodeBits};
use crate::env::{env, warn};
use crate::error::{Error, Result};
use crate::file::{LazyStorage, MpiFile, Parts};
use crate::file_group::{FileGroup, MustMatch};
use crate::file_name::FileName;
use crate::info::{HINTS_DIFFER, apply_info, common_digest, if_develop};
use crate::node;
use crate::open_announcement::{OpenAnnouncement, halves};
use crate::placement::{HomeServers, share_table};
use crate::settings::{CollectiveSettings, uses_data_shipping};
use crate::shared_counter::{CounterLocation, SharedCounter};
use crate::storage::{self, ServerSharedPointer, Storage};

/// The arguments of MPI_File_open.
pub struct OpenRequest {
    /// The file name, or the error in the argument.
    pub name: Result<PathBuf>,
    /// The mode bits, one by one.
    pub bits: AmodeBits,
    /// The mode bits as the program passed them.
    pub raw_amode: i32,
    /// The hints of the info argument, or the error in it.
    pub info: Result<Vec<(String, String)>>,
}

/// Opens a file on all ranks of `comm`. Collective.
pub fn open(host: &'static Host, comm: Comm, request: OpenRequest) -> Result<Arc<MpiFile>> {
    let group = FileGroup::acquire(host, comm)?;
    let opened = Opening::agree_on_arguments(&group, request).and_then(Opening::finish);
    let (parts, ships) = match opened {
        Ok(opened) => opened,
        Err(e) => {
            group.release();
            return Err(e);
        }
    };
    counters().opens.add(1);
    let file = Arc::new(MpiFile::new(parts));
    if let Some(activity) = file.group.activity() {
        activity.set_path(file.path.as_os_str().as_encoded_bytes());
    }
    file.group.share_view(&file.file_view().view)?;
    if ships && let Err(e) = file.restart_shipping() {
        drop(file.stop_shipping());
        file.group.clone().release();
        return Err(e);
    }
    file.apply_prefetch_hints(&file.hints(Clone::clone));
    Ok(file)
}

/// An open in progress: the arguments on which all ranks agree, and what follows from them on this rank.
struct Opening<'a> {
    group: &'a Arc<FileGroup>,
    amode: Amode,
    raw_amode: i32,
    name: FileName,
    path: PathBuf,
    hints: Hints,
    /// Whether some rank has a placement plan.
    planned: bool,
    /// The options of this rank's open of an existing file.
    how: PlainOpenOptions,
    /// The server with which this rank begins its accesses.
    first_server: u32,
}

/// The result of the announcement on one rank. Only rank 0 has storage and, on several nodes, a pointer.
struct Announced {
    announcement: OpenAnnouncement,
    storage: Option<Storage>,
    pointer: Option<ServerSharedPointer>,
}

impl<'a> Opening<'a> {
    /// The first agreement: valid arguments, and equal mode and name. Collective.
    fn agree_on_arguments(group: &'a Arc<FileGroup>, request: OpenRequest) -> Result<Opening<'a>> {
        let raw_amode = request.raw_amode;
        let checked = (|| {
            let amode = request.bits.check()?;
            let given = request.name?;
            let name = FileName::parse(&given, env())?;
            Ok((amode, (name, given), request.info?))
        })();
        let name_digest = if_develop(|| match &checked {
            Ok((_, (name, _), _)) => fnv1a(name.shown().as_os_str().as_encoded_bytes().iter().copied()),
            Err(_) => 0,
        });
        let same = [
            MustMatch(raw_amode as u32 as u64, "the access mode of MPI_File_open differs between ranks"),
            MustMatch(name_digest, "the file name of MPI_File_open differs between ranks"),
        ];
        let mut planned = [u64::from(env().plan.is_some())];
        let (amode, (name, given), info) = group.agree_on(checked, &same, &mut planned)?;
        let hints = resolve_hints(&name, &given, &info, group.rank == 0);
        let how = PlainOpenOptions {
            read: amode.read,
            write: amode.write,
            create: false,
            exclusive: false,
            mode: hints.file_perm().unwrap_or(0o666),
            striping: None,
        };
        let first_server = match hints.schedule() {
            Schedule::Fixed => 0,
            Schedule::Random => node::random_id().map_or(group.rank, |id| id as u32),
            Schedule::Staggered => group.rank,
        };
        let path = name.shown();
        let planned = planned[0] > 0;
        Ok(Opening { group, amode, raw_amode, name, path, hints, planned, how, first_server })
    }

    /// The rest of the open. The flag of the result says whether some rank wants data shipping. Collective.
    fn finish(mut self) -> Result<(Parts, bool)> {
        let Announced { announcement, storage, mut pointer } = self.announce()?;
        storage::join_program(announcement.program);
        let facts = announcement.facts;
        self.warn_about_tier1(&facts);
        self.complete_hints(announcement.access);
        if let (Some(table), true) = (announcement.table, facts.placed && self.group.size > 1) {
            share_table(self.group, &self.name, table, storage.as_ref())?;
        }
        let mine = self.open_storage(&announcement, storage, &mut pointer);
        let (storage, facts, ships) = self.agree_on_storage(mine, facts)?;
        Ok((self.parts(&announcement, storage, pointer, facts), ships))
    }

    /// The second agreement: rank 0 opens or creates the file and announces it. Collective.
    fn announce(&self) -> Result<Announced> {
        let places = self.amode.create && self.planned && matches!(self.name, FileName::Partition { .. });
        let homes = if places { Some(HomeServers::gather(self.group, &self.name)?) } else { None };
        let mut opened = None;
        let words = self.group.root_bcast(|| {
            let (announcement, storage, pointer) = self.open_or_create(homes.as_ref())?;
            opened = Some((storage, pointer));
            Ok(announcement.encode())
        })?;
        let announcement = OpenAnnouncement::decode(words);
        let (storage, pointer) = opened.map_or((None, None), |(storage, pointer)| (Some(storage), pointer));
        Ok(Announced { announcement, storage, pointer })
    }

    /// Opens or creates the file; on rank 0 only.
    fn open_or_create(
        &self,
        homes: Option<&HomeServers>,
    ) -> Result<(OpenAnnouncement, Storage, Option<ServerSharedPointer>)> {
        let how = PlainOpenOptions {
            create: self.amode.create,
            exclusive: self.amode.exclusive,
            striping: striping(&self.hints),
            ..self.how.clone()
        };
        let table = homes.and_then(|homes| homes.table(&self.name));
        let storage = Storage::open(&self.name, &how, self.first_server, table)?;
        let refusal = storage.striping_complaint();
        if let Some(line) = refusal {
            warn(&format!("{}: {line}", self.path.display()));
        }
        let start = if self.amode.append { storage.size()? } else { 0 };
        let id = node::random_id().map_err(|_| NO_RANDOM)?;
        self.group.shared_word().word().store(0, Ordering::SeqCst);
        let pointer_server = storage.pointer_server().unwrap_or_default();
        let pointer = if self.group.is_on_one_node() {
            None
        } else {
            ServerSharedPointer::make(&self.name, pointer_server, id)?
        };
        let announcement = OpenAnnouncement {
            id,
            start,
            pointer_server,
            facts: storage.facts(),
            retained_team: storage.retained().unwrap_or(0),
            program: storage::program_number(),
            table: storage.table().map(PlacementMap::id),
            access: storage.access_defaults(),
        };
        Ok((announcement, storage, pointer))
    }

    /// Adds the hints of the partition file, which rank 0 has announced. From then on all hints are known.
    fn complete_hints(&mut self, access: Option<AccessDefaults>) {
        if let Some(access) = access {
            self.hints.apply_partition(&access);
        }
        self.hints.seal();
    }

    /// Opens the storage of this rank, unless rank 0 has opened it or the rank can open it later.
    fn open_storage(
        &self,
        announcement: &OpenAnnouncement,
        opened: Option<Storage>,
        pointer: &mut Option<ServerSharedPointer>,
    ) -> Result<Option<Storage>> {
        let settings = CollectiveSettings::new(&self.hints, &announcement.facts, self.group);
        let later = self.hints.no_indep_rw() && !settings.write.aggregators.contains(&self.group.rank);
        let storage = match opened {
            Some(storage) => Some(storage),
            None if later => None,
            None => Some(Storage::open(&self.name, &self.how, self.first_server, None)?),
        };
        if let Some(storage) = &storage {
            storage.read_near_home(self.group);
        }
        if pointer.is_none() && !self.group.is_on_one_node() {
            *pointer = ServerSharedPointer::find(&self.name, announcement.pointer_server, announcement.id)?;
        }
        Ok(storage)
    }

    /// The third agreement: all ranks have opened the file, with equal hints. Returns the facts that only all ranks
    /// together know, and whether some rank wants data shipping. Collective.
    fn agree_on_storage(
        &self,
        mine: Result<Option<Storage>>,
        facts: StorageFacts,
    ) -> Result<(Option<Storage>, StorageFacts, bool)> {
        let same = [MustMatch(if_develop(|| common_digest(&self.hints)), HINTS_DIFFER)];
        let far = matches!(&mine, Ok(Some(storage)) if !storage.is_near());
        let ships = uses_data_shipping(&self.hints) && self.group.size > 1;
        let mut most = [u64::from(ships), u64::from(far)];
        let storage = self.group.agree_on(mine, &same, &mut most)?;
        let [ships, far] = most;
        Ok((storage, StorageFacts { near: far == 0, ..facts }, ships > 0))
    }

    /// The parts of the open file.
    fn parts(
        self,
        announcement: &OpenAnnouncement,
        mut storage: Option<Storage>,
        pointer: Option<ServerSharedPointer>,
        facts: StorageFacts,
    ) -> Parts {
        let collective = CollectiveSettings::new(&self.hints, &facts, self.group);
        let cache = self.client_cache(announcement, &collective);
        if let Some(storage) = &mut storage {
            storage.set_client_cache(cache.clone());
            storage.set_network_buffer(self.hints.network_buffer());
        }
        let location = match self.group.size {
            1 => CounterLocation::private(),
            _ if self.group.is_on_one_node() => CounterLocation::Memory(self.group.shared_word()),
            _ => match pointer {
                Some(pointer) => CounterLocation::Server(Box::new(pointer)),
                None => CounterLocation::file_beside(&self.path, announcement.id),
            },
        };
        Parts {
            group: self.group.clone(),
            amode: self.amode,
            raw_amode: self.raw_amode,
            storage: LazyStorage::new(
                self.name,
                self.how,
                self.first_server,
                self.hints.network_buffer(),
                storage,
                cache,
            ),
            path: self.path,
            facts,
            collective: Arc::new(collective),
            shared: SharedCounter::new(location, announcement.start),
            hints: self.hints,
            start: announcement.start as i64,
        }
    }

    /// The tier 1 cache, if the settings have one. If the same processes cached the same blocks in an earlier open, they
    /// are the same team again and find their blocks.
    fn client_cache(
        &self,
        announcement: &OpenAnnouncement,
        collective: &CollectiveSettings,
    ) -> Option<Arc<ClientCache>> {
        let cache = collective.cache?;
        let owners = self.group.cache_owners_digest(&collective.write.aggregators, cache.block);
        let [retained, retained_owners] = halves(announcement.retained_team);
        let [new, _] = halves(announcement.id);
        let high = if retained_owners == owners { retained } else { new };
        Some(Arc::new(ClientCache::new(u128::from(high) << 64 | u128::from(owners), cache.tier_options())))
    }

    /// Says on rank 0 why hints that ask for tier 1 have no effect.
    fn warn_about_tier1(&self, facts: &StorageFacts) {
        let why = match (facts.partition, facts.placed, facts.tier1) {
            (true, true, _) => "is placed by a plan and not kept in tier 1",
            (true, false, false) => "is on a partition that has tier 1 switched off",
            _ => return,
        };
        let hint = match (self.hints.strategy(), self.hints.tier1()) {
            (Strategy::ClientDirected, _) => "pario_strategy=client-directed",
            (_, Toggle::Enable) => "pario_tier1=enable",
            _ => return,
        };
        if self.group.rank == 0 {
            warn(&format!("hint {hint}: {} {why}", self.path.display()));
        }
    }
}

const NO_RANDOM: Error = Error::Usage(ErrorKind::Intern, "the system has no random numbers");

/// The hints of the environment and of the info argument for a file that was opened under the name `given`. One rank `warns` about hints that have
/// no effect.
fn resolve_hints(name: &FileName, given: &Path, info: &[(String, String)], warns: bool) -> Hints {
    let mut hints = env().hints();
    hints.set_filename(&given.to_string_lossy());
    if warns {
        env().warn_once();
    }
    apply_info(&mut hints, info, warns);
    let strategy = hints.strategy();
    if warns
        && matches!(name, FileName::Plain(_))
        && matches!(strategy, Strategy::ClientDirected | Strategy::ServerDirected)
    {
        warn(&format!(
            "hint pario_strategy={}: this needs a partition; on a plain file it means auto",
            strategy.name()
        ));
    }
    if warns && strategy == Strategy::ClientDirected && hints.tier1() == Toggle::Disable {
        warn("hint pario_strategy=client-directed: with pario_tier1=disable it means two-phase");
    }
    hints
}

/// The striping of a new file that the hints ask for.
fn striping(hints: &Hints) -> Option<StripingRequest> {
    let (unit, count, first) = (hints.striping_unit(), hints.striping_factor(), hints.start_iodevice());
    let asked = unit.is_some() || count.is_some() || first.is_some();
    asked.then_some(StripingRequest { unit, count, first })
}
