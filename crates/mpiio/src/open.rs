//! Opening, closing and deleting files.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pario_hints::{Hints, Outcome, Source};
use pario_mpi_host::{Comm, Host};
use pario_posix::counter::Place;
use pario_posix::{How, SharedCounter, StripingRequest, node};
use pario_trace::{FileReport, StatsTo, counters};
use pario_units::ErrorKind;

use crate::amode::{Amode, AmodeBits};
use crate::env::{env, say};
use crate::error::{Error, Result};
use crate::file::{File, Lazy, Parts, open_plain};
use crate::handles;
use crate::settings::{Collective, Facts, ships};
use crate::team::{Same, Team};
use crate::worker::held;

/// Prefixes by which programs name an ordinary file system to ROMIO; all mean a plain file.
const PLAIN_PREFIXES: [&str; 6] = ["ufs:", "nfs:", "xfs:", "lustre:", "gpfs:", "panfs:"];

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
        let path = plain_path(&request.name?)?;
        Ok((amode, path, request.info?))
    })();
    let same = [
        Same(raw_amode as u32 as u64, "the access mode of MPI_File_open differs between ranks"),
        Same(
            develop(|| checked.as_ref().map_or(0, |(_, path, _): &Checked| path_digest(path))),
            "the file name of MPI_File_open differs between ranks",
        ),
    ];
    let (amode, path, info) = team.agree_on(checked, &same, &mut [])?;

    let mut hints = env().hints();
    hints.set_filename(&path.to_string_lossy());
    if team.rank == 0 {
        env().complain_once();
    }
    apply_info(&mut hints, &info, team.rank == 0);
    if team.rank == 0 && matches!(hints.strategy(), "client-directed" | "server-directed") {
        say(&format!(
            "hint pario_strategy={}: this needs a partition; on a plain file it means auto",
            hints.strategy()
        ));
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
    let mut first = None;
    let words = team.first_does(|| {
        let (striping, word) = (striping(&hints), team.shared_word());
        let how = How { create: amode.create, exclusive: amode.exclusive, striping, ..how.clone() };
        let plain = open_plain(&path, &how)?;
        if let Some(line) = plain.striping_outcome().complaint() {
            say(&format!("{}: {line}", path.display()));
        }
        let start = if amode.append { plain.size()? } else { 0 };
        let id = node::random_id().map_err(|_| NO_RANDOM)?;
        word.word().store(0, Ordering::SeqCst);
        let [kind, block, stripe, servers] = Facts::of(&plain).words();
        first = Some(plain);
        Ok([(id >> 64) as u64, id as u64, start, kind, block, stripe, servers])
    })?;
    let [high, low, start, kind, block, stripe, servers] = words;
    let id = u128::from(high) << 64 | u128::from(low);
    let facts = Facts::from_words([kind, block, stripe, servers]);
    let collective = Collective::new(&hints, &facts, team);
    let later = hints.no_indep_rw() && !collective.write.aggregators.contains(&team.rank);
    let mine = match first {
        Some(plain) => Ok(Some(plain)),
        None if later => Ok(None),
        None => open_plain(&path, &how).map(Some),
    };
    let same = [Same(develop(|| common_digest(&hints)), UNEQUAL_HINTS)];
    let mut ship = [u64::from(ships(&hints) && team.size > 1)];
    let plain = team.agree_on(mine, &same, &mut ship)?;
    let place = match team.size {
        1 => Place::own(),
        _ if team.is_on_one_node() => Place::Memory(team.shared_word()),
        _ => Place::beside(&path, id),
    };
    let parts = Parts {
        team: team.clone(),
        amode,
        raw_amode,
        plain: Lazy::new(path.clone(), how, plain),
        path,
        facts,
        shared: SharedCounter::new(place, start),
        hints,
        start: start as i64,
    };
    Ok((parts, ship[0] > 0))
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
type Checked = (Amode, PathBuf, Vec<(String, String)>);

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

/// The path of a plain file, without a prefix that names its file system.
fn plain_path(name: &Path) -> Result<PathBuf> {
    let text = name.as_os_str().as_encoded_bytes();
    if text.is_empty() {
        return Err(Error::Usage(ErrorKind::BadFile, "the file name is empty"));
    }
    if text.starts_with(b"pario:") {
        return Err(Error::Usage(
            ErrorKind::UnsupportedOperation,
            "names that start with pario: mean files on a partition, which this version does not have",
        ));
    }
    let Some(name) = name.to_str() else { return Ok(name.to_path_buf()) };
    let plain = PLAIN_PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name);
    Ok(PathBuf::from(plain))
}

/// Closes the file of a handle, which is invalid afterwards whatever happens. Collective.
pub fn close(handle: usize) -> Result<()> {
    let file = handles::get(handle)?;
    handles::remove(handle);
    // The program had to complete its accesses; should one be left, its bytes are not lost.
    file.quiesce();
    let unfinished = file.take_split(|_| Ok(())).map(|split| split.ticket.take());
    let mine = file
        .take_late_error()
        .and(unfinished.unwrap_or(Ok(0)).map(drop))
        .and_then(|()| if file.must_sync_at_close() { file.sync_mine() } else { Ok(()) });
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
                pario_posix::delete(&self.path)?;
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
    Ok(pario_posix::delete(&plain_path(&name?)?)?)
}

/// Waits for everything under way on every open file; for programs that finish without closing.
pub fn settle_all() {
    handles::all().iter().for_each(|file| file.quiesce());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_of_file_systems_are_not_part_of_the_name() {
        let path = |name: &str| plain_path(Path::new(name));
        assert_eq!(path("ufs:/a/b").unwrap(), Path::new("/a/b"));
        assert_eq!(path("lustre:c").unwrap(), Path::new("c"));
        assert_eq!(path("a:b").unwrap(), Path::new("a:b"));
        assert_eq!(path("").unwrap_err().kind(), ErrorKind::BadFile);
        assert_eq!(path("pario:p/x").unwrap_err().kind(), ErrorKind::UnsupportedOperation);
    }
}
