//! Opening, closing and deleting files.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pario_hints::{Hints, Outcome, Source, Toggle};
use pario_mpi_host::{Comm, Host};
use pario_posix::counter::Place;
use pario_posix::{How, SharedCounter, StripingRequest, node};
use pario_trace::{FileReport, StatsTo, counters};
use pario_types::{ErrorKind, ServerId};

use crate::amode::{Amode, AmodeBits};
use crate::env::{env, say};
use crate::error::{Error, Result};
use crate::file::{File, Lazy, Parts};
use crate::handles;
use crate::name::Name;
use crate::placing::{Homes, share_table, table_words};
use crate::settings::{Collective, Facts, ships};
use crate::storage::{self, KeptPointer, Storage, counted};
use crate::team::{Same, Team};
use crate::tier::Tiered;
use crate::worker::held;

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

/// Opens a file on all ranks of `comm`. Collective; three short meetings: equal arguments, rank 0 has
/// created or opened it, everybody has.
pub fn open(host: &'static Host, comm: Comm, request: OpenRequest) -> Result<Arc<File>> {
    let team = Team::join(host, comm)?;
    match open_with(&team, request) {
        Ok((parts, ship)) => {
            counters().opens.add(1);
            let file = Arc::new(File::new(parts));
            file.team.share_view(&file.window().view)?;
            if ship && let Err(e) = file.reship() {
                drop(file.stop_shipping());
                file.team.clone().leave();
                return Err(e);
            }
            file.heed(&file.hints(Clone::clone));
            Ok(file)
        }
        Err(e) => {
            team.leave();
            Err(e)
        }
    }
}

/// What the file is made of, and whether some rank wants data shipping.
fn open_with(team: &Arc<Team>, request: OpenRequest) -> Result<(Parts, bool)> {
    let raw_amode = request.raw_amode;
    let checked = (|| {
        let amode = request.bits.check()?;
        let name = Name::parse(&request.name?, env())?;
        Ok((amode, name, request.info?))
    })();
    let same = [
        Same(raw_amode as u32 as u64, "the access mode of MPI_File_open differs between ranks"),
        Same(
            develop(|| checked.as_ref().map_or(0, |(_, name, _): &Checked| path_digest(&name.shown()))),
            "the file name of MPI_File_open differs between ranks",
        ),
    ];
    let mut planned = [u64::from(env().plan.is_some())];
    let (amode, name, info) = team.agree_on(checked, &same, &mut planned)?;
    let path = name.shown();
    let on_partition = matches!(name, Name::Partition { .. });

    let mut hints = env().hints();
    hints.set_filename(&path.to_string_lossy());
    if team.rank == 0 {
        env().complain_once();
    }
    apply_info(&mut hints, &info, team.rank == 0);
    if team.rank == 0 && !on_partition && matches!(hints.strategy(), "client-directed" | "server-directed") {
        say(&format!(
            "hint pario_strategy={}: this needs a partition; on a plain file it means auto",
            hints.strategy()
        ));
    }
    if team.rank == 0 && hints.strategy() == "client-directed" && hints.tier1() == Toggle::Disable {
        say("hint pario_strategy=client-directed: with pario_tier1=disable it means two-phase");
    }
    hints.seal();

    let how = How {
        read: amode.read,
        write: amode.write,
        create: false,
        exclusive: false,
        mode: hints.file_perm().unwrap_or(0o666),
        striping: None,
    };
    let begin = match hints.schedule() {
        "fixed" => 0,
        "random" => node::random_id().map_or(team.rank, |id| id as u32),
        _ => team.rank,
    };
    let homes = match on_partition && amode.create && planned[0] > 0 {
        true => Some(Homes::gather(team, &name)?),
        false => None,
    };
    let (mut first, mut pointer) = (None, None);
    let words = team.first_does(|| {
        let (striping, word) = (striping(&hints), team.shared_word());
        let how = How { create: amode.create, exclusive: amode.exclusive, striping, ..how.clone() };
        let table = homes.as_ref().and_then(|homes| homes.table(&name));
        let storage = Storage::open(&name, &how, begin, table)?;
        let refusal = storage.plain().and_then(|plain| plain.striping_outcome().complaint());
        if let Some(line) = refusal {
            say(&format!("{}: {line}", path.display()));
        }
        let start = if amode.append { storage.size()? } else { 0 };
        let id = node::random_id().map_err(|_| NO_RANDOM)?;
        word.word().store(0, Ordering::SeqCst);
        let keeper = storage.keeper().unwrap_or_default();
        if !team.is_on_one_node() {
            pointer = KeptPointer::make(&name, keeper, id)?;
        }
        let [kind, block, stripe, servers] = Facts::of(&storage).words();
        let kept = storage.retained().unwrap_or(0);
        let [hash_high, hash_low, len] = table_words(&storage);
        first = Some(storage);
        let [id, kept] = [id, kept].map(|n| [(n >> 64) as u64, n as u64]);
        let [keeper, program] = [keeper.0.into(), storage::program()];
        let [id_high, id_low, kept_high, kept_low] = [id[0], id[1], kept[0], kept[1]];
        Ok([
            id_high, id_low, start, keeper, kind, block, stripe, servers, kept_high, kept_low, program,
            hash_high, hash_low, len,
        ])
    })?;
    let [high, low, start, keeper, kind, block, stripe, servers, kept_high, kept_low, program, table @ ..] =
        words;
    storage::belong_to(program);
    let id = u128::from(high) << 64 | u128::from(low);
    let facts = Facts::from_words([kind, block, stripe, servers]);
    let collective = Collective::new(&hints, &facts, team);
    if facts.placed && team.size > 1 {
        share_table(team, &name, table, first.as_ref())?;
    }
    let later = hints.no_indep_rw() && !collective.write.aggregators.contains(&team.rank);
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
    if let (0, Some(why)) = (team.rank, refusal) {
        let asked = |name: &str, value: &str| say(&format!("hint {name}={value}: {} {why}", path.display()));
        match (hints.strategy(), hints.tier1()) {
            ("client-directed", _) => asked("pario_strategy", "client-directed"),
            (_, Toggle::Enable) => asked("pario_tier1", "enable"),
            _ => {}
        }
    }
    let mine = mine.and_then(|storage| {
        storage.iter().for_each(|storage| storage.settle_at_home(team));
        if pointer.is_none() && !team.is_on_one_node() {
            pointer = KeptPointer::find(&name, ServerId(keeper as u16), id)?;
        }
        Ok(storage)
    });
    let same = [Same(develop(|| common_digest(&hints)), UNEQUAL_HINTS)];
    let far = mine.as_ref().is_ok_and(|storage| storage.as_ref().is_some_and(|storage| !storage.is_near()));
    let mut most = [u64::from(ships(&hints) && team.size > 1), u64::from(far)];
    let storage = team.agree_on(mine, &same, &mut most)?;
    let [ship, far] = most;
    let facts = Facts { near: far == 0, ..facts };
    let collective = Collective::new(&hints, &facts, team);
    let tier = collective.tier.map(|tier| {
        // Who kept blocks in an earlier open goes on with them, if it is the same processes with the same blocks.
        let mapping = team.mapping(&collective.write.aggregators, tier.block);
        let first = if kept_low == mapping { kept_high } else { high };
        Arc::new(Tiered::new(u128::from(first) << 64 | u128::from(mapping), &tier))
    });
    let storage = storage.map(|mut storage| {
        storage.keep(tier.clone());
        storage
    });
    let place = match team.size {
        1 => Place::own(),
        _ if team.is_on_one_node() => Place::Memory(team.shared_word()),
        _ => match pointer {
            Some(pointer) => Place::Kept(Box::new(pointer)),
            None => Place::beside(&path, id),
        },
    };
    let parts = Parts {
        team: team.clone(),
        amode,
        raw_amode,
        storage: Lazy::new(name, how, begin, storage, tier),
        path,
        facts,
        collective: Arc::new(collective),
        shared: SharedCounter::new(place, start),
        hints,
        start: start as i64,
    };
    Ok((parts, ship > 0))
}

const NO_RANDOM: Error = Error::Usage(ErrorKind::Intern, "/dev/urandom cannot be read");
pub(crate) const UNEQUAL_HINTS: &str = "hints that must be the same on all ranks differ";

/// How a new file shall be striped, if the hints say anything about it.
fn striping(hints: &Hints) -> Option<StripingRequest> {
    let (unit, count, first) = (hints.striping_unit(), hints.striping_factor(), hints.start_iodevice());
    let asked = unit.is_some() || count.is_some() || first.is_some();
    asked.then_some(StripingRequest { unit, count, first })
}

/// A digest that ranks compare in develop mode only.
pub(crate) fn develop(digest: impl FnOnce() -> u64) -> u64 {
    if env().develop { digest() } else { 0 }
}

fn path_digest(path: &Path) -> u64 {
    digest(path.as_os_str().as_encoded_bytes())
}

/// The arguments of an open, if they are good.
type Checked = (Amode, Name, Vec<(String, String)>);

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
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// Takes the hints of an info object; a refusal is told once, by rank 0.
pub(crate) fn apply_info(hints: &mut Hints, info: &[(String, String)], speak: bool) {
    for (name, value) in info {
        if let Outcome::Refused(refusal) = hints.apply(Source::Info, name, value)
            && speak
        {
            say(&refusal.to_string());
        }
    }
}

/// Closes the file of a handle, which is invalid afterwards whatever happens. Collective.
pub fn close(handle: usize) -> Result<()> {
    let file = handles::get(handle)?;
    handles::remove(handle);
    // The program had to complete its accesses; should one be left, its bytes are not lost.
    file.quiesce();
    let unfinished = file.take_split(|_| Ok(())).map(|split| split.ticket.take());
    let met = file.meet_if_shipped();
    let mine = met
        .and(file.take_late_error())
        .and(unfinished.unwrap_or(Ok(0)).map(drop))
        .and_then(|()| if file.must_sync_at_close() { file.sync_mine() } else { Ok(()) })
        .and(file.settle_mine());
    let mut used_pointer = [u64::from(file.shared.touched())];
    let outcome = file.team.agree_on(mine, &[], &mut used_pointer);
    // All ranks have come here, so no agent is needed any more.
    let stopped = file.stop_shipping();
    let outcome = outcome.and(stopped).and(file.leave_nothing(used_pointer[0] > 0));
    let outcome = outcome.and(file.free_view_types()).and(file.report());
    file.team.clone().leave();
    outcome
}

impl File {
    /// At close: what this rank wrote is stored, or it hears why not.
    fn settle_mine(&self) -> Result<()> {
        match self.opened() {
            Some(storage) => {
                let stays = !self.amode().delete_on_close;
                counted(&self.stats, || storage.settle(self.amode().write, stays, &self.stats))
            }
            None => Ok(()),
        }
    }

    fn must_sync_at_close(&self) -> bool {
        self.amode().write && self.hints(Hints::close_sync)
    }

    /// Reports what was done to the file, if the user wants to know. Collective.
    fn report(&self) -> Result<()> {
        let to = &env().stats;
        if *to == StatsTo::Off {
            return Ok(());
        }
        let numbers = self.stats.numbers();
        let (sums, peaks) = match self.team.size {
            1 => (numbers.clone(), numbers),
            _ => self.team.sums_and_peaks(&numbers)?,
        };
        if self.team.rank == 0 {
            let path = self.path.to_string_lossy();
            let report = FileReport::reduced(&path, self.team.size, &sums, &peaks, self.stats.decisions());
            if let Err(e) = to.deliver(&report) {
                say(&format!("the statistics of {path} cannot be written: {e}"));
            }
        }
        Ok(())
    }

    /// Removes what the open file left behind, and the file itself if it was to be deleted. All ranks have
    /// stopped using both.
    fn leave_nothing(&self, pointer_used: bool) -> Result<()> {
        let delete = self.amode().delete_on_close;
        if !pointer_used && !delete {
            return Ok(());
        }
        self.team.first_does(|| {
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
        let types = held(&self.types);
        self.host().release_type(types.etype)?;
        Ok(self.host().release_type(types.filetype)?)
    }
}

/// Deletes a file by name. Not collective.
pub fn delete(name: Result<PathBuf>) -> Result<()> {
    Storage::delete(&Name::parse(&name?, env())?)
}

/// Waits for everything under way on every open file; for programs that finish without closing.
pub fn settle_all() {
    handles::all().iter().for_each(|file| file.quiesce());
}
