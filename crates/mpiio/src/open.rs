//! Opening, closing and deleting files.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pario_hints::{Hints, Outcome, Source, Toggle};
use pario_mpi_host::{Comm, Host};
use pario_posix::{PlainOpenOptions, StripingRequest};

use crate::node;
use crate::shared_counter::{CounterLocation, SharedCounter};
use pario_trace::{FileReport, StatsTo, counters};
use pario_types::{ErrorKind, ServerId};

use crate::amode::{Amode, AmodeBits};
use crate::client_cache::ClientCache;
use crate::env::{env, warn};
use crate::error::{Error, Result};
use crate::file::{File, LazyStorage, Parts};
use crate::file_group::{FileGroup, MustMatch};
use crate::file_name::FileName;
use crate::handles;
use crate::placement::{HomeServers, share_table, table_words};
use crate::settings::{CollectiveSettings, StorageFacts, uses_data_shipping};
use crate::storage::{self, ServerSharedPointer, Storage, counted};

/// What the program asked for in MPI_File_open.
pub struct OpenRequest {
    /// The file's name, or what is wrong with it.
    pub name: Result<PathBuf>,
    /// The mode bits, one by one.
    pub bits: AmodeBits,
    /// The mode bits as the program gave them.
    pub raw_amode: i32,
    /// The hints of the info argument, or what is wrong with it.
    pub info: Result<Vec<(String, String)>>,
}

/// Opens a file on all ranks of `comm`. CollectiveSettings; three short meetings: equal arguments, rank 0 has
/// created or opened it, everybody has.
pub fn open(host: &'static Host, comm: Comm, request: OpenRequest) -> Result<Arc<File>> {
    let group = FileGroup::acquire(host, comm)?;
    match open_with(&group, request) {
        Ok((parts, ship)) => {
            counters().opens.add(1);
            let file = Arc::new(File::new(parts));
            file.group.share_view(&file.file_view().view)?;
            if ship && let Err(e) = file.restart_shipping() {
                drop(file.stop_shipping());
                file.group.clone().release();
                return Err(e);
            }
            file.apply_prefetch_hints(&file.hints(Clone::clone));
            Ok(file)
        }
        Err(e) => {
            group.release();
            Err(e)
        }
    }
}

/// What the file is made of, and whether some rank wants data shipping.
fn open_with(group: &Arc<FileGroup>, request: OpenRequest) -> Result<(Parts, bool)> {
    let raw_amode = request.raw_amode;
    let checked = (|| {
        let amode = request.bits.check()?;
        let name = FileName::parse(&request.name?, env())?;
        Ok((amode, name, request.info?))
    })();
    let same = [
        MustMatch(raw_amode as u32 as u64, "the access mode of MPI_File_open differs between ranks"),
        MustMatch(
            if_develop(|| checked.as_ref().map_or(0, |(_, name, _): &Checked| path_digest(&name.shown()))),
            "the file name of MPI_File_open differs between ranks",
        ),
    ];
    let mut planned = [u64::from(env().plan.is_some())];
    let (amode, name, info) = group.agree_on(checked, &same, &mut planned)?;
    let path = name.shown();
    let on_partition = matches!(name, FileName::Partition { .. });

    let mut hints = env().hints();
    hints.set_filename(&path.to_string_lossy());
    if group.rank == 0 {
        env().warn_once();
    }
    apply_info(&mut hints, &info, group.rank == 0);
    if group.rank == 0 && !on_partition && matches!(hints.strategy(), "client-directed" | "server-directed") {
        warn(&format!(
            "hint pario_strategy={}: this needs a partition; on a plain file it means auto",
            hints.strategy()
        ));
    }
    if group.rank == 0 && hints.strategy() == "client-directed" && hints.tier1() == Toggle::Disable {
        warn("hint pario_strategy=client-directed: with pario_tier1=disable it means two-phase");
    }
    hints.seal();

    let how = PlainOpenOptions {
        read: amode.read,
        write: amode.write,
        create: false,
        exclusive: false,
        mode: hints.file_perm().unwrap_or(0o666),
        striping: None,
    };
    let begin = match hints.schedule() {
        "fixed" => 0,
        "random" => node::random_id().map_or(group.rank, |id| id as u32),
        _ => group.rank,
    };
    let homes = if on_partition && amode.create && planned[0] > 0 {
        Some(HomeServers::gather(group, &name)?)
    } else {
        None
    };
    let (mut first, mut pointer) = (None, None);
    let words = group.root_bcast(|| {
        let (striping, word) = (striping(&hints), group.shared_word());
        let how =
            PlainOpenOptions { create: amode.create, exclusive: amode.exclusive, striping, ..how.clone() };
        let table = homes.as_ref().and_then(|homes| homes.table(&name));
        let storage = Storage::open(&name, &how, begin, table)?;
        let refusal = storage.plain().and_then(|plain| plain.striping_outcome().complaint());
        if let Some(line) = refusal {
            warn(&format!("{}: {line}", path.display()));
        }
        let start = if amode.append { storage.size()? } else { 0 };
        let id = node::random_id().map_err(|_| NO_RANDOM)?;
        word.word().store(0, Ordering::SeqCst);
        let pointer_server = storage.pointer_server().unwrap_or_default();
        if !group.is_on_one_node() {
            pointer = ServerSharedPointer::make(&name, pointer_server, id)?;
        }
        let [kind, block, stripe, servers] = StorageFacts::of(&storage).encode();
        let kept = storage.retained().unwrap_or(0);
        let [hash_high, hash_low, len] = table_words(&storage);
        first = Some(storage);
        let [id, kept] = [id, kept].map(|n| [(n >> 64) as u64, n as u64]);
        let [pointer_server, program] = [pointer_server.0.into(), storage::program_number()];
        let [id_high, id_low, kept_high, kept_low] = [id[0], id[1], kept[0], kept[1]];
        Ok([
            id_high,
            id_low,
            start,
            pointer_server,
            kind,
            block,
            stripe,
            servers,
            kept_high,
            kept_low,
            program,
            hash_high,
            hash_low,
            len,
        ])
    })?;
    let [
        high,
        low,
        start,
        pointer_server,
        kind,
        block,
        stripe,
        servers,
        kept_high,
        kept_low,
        program,
        table @ ..,
    ] = words;
    storage::join_program(program);
    let id = u128::from(high) << 64 | u128::from(low);
    let facts = StorageFacts::decode([kind, block, stripe, servers]);
    let collective = CollectiveSettings::new(&hints, &facts, group);
    if facts.placed && group.size > 1 {
        share_table(group, &name, table, first.as_ref())?;
    }
    let later = hints.no_indep_rw() && !collective.write.aggregators.contains(&group.rank);
    let mine = match first {
        Some(storage) => Ok(Some(storage)),
        None if later => Ok(None),
        None => Storage::open(&name, &how, begin, None).map(Some),
    };
    let refusal = match (facts.partition, facts.placed, facts.tier1) {
        (true, true, _) => Some("is placed by a plan and not kept in tier 1"),
        (true, false, false) => Some("is on a partition that has tier 1 switched off"),
        _ => None,
    };
    if let (0, Some(why)) = (group.rank, refusal) {
        let asked = |name: &str, value: &str| warn(&format!("hint {name}={value}: {} {why}", path.display()));
        match (hints.strategy(), hints.tier1()) {
            ("client-directed", _) => asked("pario_strategy", "client-directed"),
            (_, Toggle::Enable) => asked("pario_tier1", "enable"),
            _ => {}
        }
    }
    let mine = mine.and_then(|storage| {
        storage.iter().for_each(|storage| storage.read_near_home(group));
        if pointer.is_none() && !group.is_on_one_node() {
            pointer = ServerSharedPointer::find(&name, ServerId(pointer_server as u16), id)?;
        }
        Ok(storage)
    });
    let same = [MustMatch(if_develop(|| common_digest(&hints)), HINTS_DIFFER)];
    let far = mine.as_ref().is_ok_and(|storage| storage.as_ref().is_some_and(|storage| !storage.is_near()));
    let mut most = [u64::from(uses_data_shipping(&hints) && group.size > 1), u64::from(far)];
    let storage = group.agree_on(mine, &same, &mut most)?;
    let [ship, far] = most;
    let facts = StorageFacts { near: far == 0, ..facts };
    let collective = CollectiveSettings::new(&hints, &facts, group);
    let cache = collective.cache.map(|cache| {
        // Who kept blocks in an earlier open goes on with them, if it is the same processes with the same blocks.
        let mapping = group.mapping(&collective.write.aggregators, cache.block);
        let first = if kept_low == mapping { kept_high } else { high };
        Arc::new(ClientCache::new(u128::from(first) << 64 | u128::from(mapping), &cache))
    });
    let storage = storage.map(|mut storage| {
        storage.set_client_cache(cache.clone());
        storage
    });
    let place = match group.size {
        1 => CounterLocation::private(),
        _ if group.is_on_one_node() => CounterLocation::Memory(group.shared_word()),
        _ => match pointer {
            Some(pointer) => CounterLocation::Server(Box::new(pointer)),
            None => CounterLocation::file_beside(&path, id),
        },
    };
    let parts = Parts {
        group: group.clone(),
        amode,
        raw_amode,
        storage: LazyStorage::new(name, how, begin, storage, cache),
        path,
        facts,
        collective: Arc::new(collective),
        shared: SharedCounter::new(place, start),
        hints,
        start: start as i64,
    };
    Ok((parts, ship > 0))
}

const NO_RANDOM: Error = Error::Usage(ErrorKind::Intern, "the system has no random numbers");
pub(crate) const HINTS_DIFFER: &str = "hints that must be the same on all ranks differ";

/// How a new file shall be striped, if the hints warn anything about it.
fn striping(hints: &Hints) -> Option<StripingRequest> {
    let (unit, count, first) = (hints.striping_unit(), hints.striping_factor(), hints.start_iodevice());
    let asked = unit.is_some() || count.is_some() || first.is_some();
    asked.then_some(StripingRequest { unit, count, first })
}

/// A digest that ranks compare in if_develop mode only.
pub(crate) fn if_develop(digest: impl FnOnce() -> u64) -> u64 {
    if env().develop { digest() } else { 0 }
}

fn path_digest(path: &Path) -> u64 {
    digest(path.as_os_str().as_encoded_bytes())
}

/// The arguments of an open, if they are good.
type Checked = (Amode, FileName, Vec<(String, String)>);

/// A digest of the hints in force that must be the same on all ranks.
pub(crate) fn common_digest(hints: &Hints) -> u64 {
    let common = |name: &str| pario_hints::find(name).is_some_and(|entry| entry.same_on_all_ranks);
    let mut text = String::new();
    for (name, value, _) in hints.in_force().filter(|(name, ..)| common(name)) {
        text.push_str(name);
        text.push('=');
        text.push_str(&value);
        text.push(';');
    }
    digest(text.as_bytes())
}

/// FNV-1a: the same in every process.
fn digest(bytes: &[u8]) -> u64 {
    pario_types::fnv1a(bytes.iter().copied())
}

/// Takes the hints of an info object; a refusal is told once, by rank 0.
pub(crate) fn apply_info(hints: &mut Hints, info: &[(String, String)], speak: bool) {
    for (name, value) in info {
        if let Outcome::Refused(refusal) = hints.apply(Source::Info, name, value)
            && speak
        {
            warn(&refusal.to_string());
        }
    }
}

/// Closes the file of a handle, which is invalid afterwards whatever happens. CollectiveSettings.
pub fn close(handle: usize) -> Result<()> {
    let file = handles::get(handle)?;
    handles::remove(handle);
    // The program had to complete its accesses; should one be left, its bytes are not lost.
    file.quiesce();
    let unfinished = file.take_split(|_| Ok(())).map(|split| split.completion.take());
    let met = file.barrier_if_shipping();
    let mine = met
        .and(file.take_deferred_error())
        .and(unfinished.unwrap_or(Ok(0)).map(drop))
        .and_then(|()| if file.must_sync_at_close() { file.sync_mine() } else { Ok(()) })
        .and(file.flush_at_close());
    let mut used_pointer = [u64::from(file.shared.touched())];
    let outcome = file.group.agree_on(mine, &[], &mut used_pointer);
    // All ranks have come here, so no agent is needed any more.
    let stopped = file.stop_shipping();
    let outcome = outcome.and(stopped).and(file.clean_up(used_pointer[0] > 0));
    let outcome = outcome.and(file.free_view_types()).and(file.report());
    file.group.clone().release();
    outcome
}

impl File {
    /// At close: what this rank wrote is stored, or it hears why not.
    fn flush_at_close(&self) -> Result<()> {
        match self.opened() {
            Some(storage) => {
                let stays = !self.amode().delete_on_close;
                counted(&self.stats, || storage.close(self.amode().write, stays, &self.stats))
            }
            None => Ok(()),
        }
    }

    fn must_sync_at_close(&self) -> bool {
        self.amode().write && self.hints(Hints::close_sync)
    }

    /// Reports what was done to the file, if the user wants to know. CollectiveSettings.
    fn report(&self) -> Result<()> {
        let to = &env().stats;
        if *to == StatsTo::Off {
            return Ok(());
        }
        let numbers = self.stats.numbers();
        let (sums, peaks) = match self.group.size {
            1 => (numbers.clone(), numbers),
            _ => self.group.reduce_sum_and_max(&numbers)?,
        };
        if self.group.rank == 0 {
            let path = self.path.to_string_lossy();
            let report = FileReport::reduced(&path, self.group.size, &sums, &peaks, self.stats.decisions());
            if let Err(e) = to.deliver(&report) {
                warn(&format!("the statistics of {path} cannot be written: {e}"));
            }
        }
        Ok(())
    }

    /// Removes what the open file left behind, and the file itself if it was to be deleted. All ranks have
    /// stopped using both.
    fn clean_up(&self, pointer_used: bool) -> Result<()> {
        let delete = self.amode().delete_on_close;
        if !pointer_used && !delete {
            return Ok(());
        }
        self.group.root_bcast(|| {
            if pointer_used {
                self.shared.remove()?;
            }
            if delete {
                Storage::delete(self.name())?;
            }
            Ok([])
        })?;
        Ok(())
    }

    fn free_view_types(&self) -> Result<()> {
        let types = self.types.lock();
        self.host().release_type(types.etype)?;
        Ok(self.host().release_type(types.filetype)?)
    }
}

/// Deletes a file by name. Not collective.
pub fn delete(name: Result<PathBuf>) -> Result<()> {
    Storage::delete(&FileName::parse(&name?, env())?)
}

/// Waits for everything under way on every open file; for programs that finish without closing.
pub fn quiesce_all() {
    handles::all().iter().for_each(|file| file.quiesce());
}
