//! Opening, closing and deleting files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pario_hints::{Hints, Outcome, Source};
use pario_mpi_host::{Comm, Host};
use pario_posix::counter::{Page, Place};
use pario_posix::{How, PlainFile, SharedCounter, node};
use pario_trace::counters;
use pario_units::ErrorKind;

use crate::amode::{Amode, AmodeBits};
use crate::env::{env, say};
use crate::error::{Error, Result};
use crate::file::{File, Parts};
use crate::handles;
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
    let team = Team::new(host, comm)?;
    match open_with(&team, request) {
        Ok((plain, amode, raw_amode, path, hints, meeting)) => {
            counters().opens.add(1);
            let shared = SharedCounter::new(meeting.place, meeting.start);
            let start = meeting.start as i64;
            Ok(Arc::new(File::new(Parts { team, amode, raw_amode, path, plain, shared, hints, start })))
        }
        Err(e) => {
            team.disband()?;
            Err(e)
        }
    }
}

/// What the ranks learned from each other while opening.
struct Meeting {
    /// Where the pointers start, in bytes.
    start: u64,
    /// Where the shared pointer lies.
    place: Place,
}

type Opened = (PlainFile, Amode, i32, PathBuf, Hints, Meeting);

fn open_with(team: &Team, request: OpenRequest) -> Result<Opened> {
    let raw_amode = request.raw_amode;
    let checked = (|| {
        let amode = request.bits.check()?;
        let path = plain_path(&request.name?)?;
        Ok((amode, path, request.info?))
    })();
    let same = [Same(raw_amode as u32 as u64, "the access mode of MPI_File_open differs between ranks")];
    let (amode, path, info) = team.agree_on(checked, &same, &mut [])?;

    let mut hints = env().hints();
    hints.set_filename(&path.to_string_lossy());
    if team.rank == 0 {
        env().complain_once();
    }
    apply_info(&mut hints, &info, team.rank == 0);
    hints.seal();

    let how = How {
        read: amode.read,
        write: amode.write,
        create: false,
        exclusive: false,
        mode: hints.file_perm().unwrap_or(0o666),
    };
    let node = node::node_key();
    let mut first = None;
    // Kept until all ranks have mapped the page, or have failed.
    let mut page_name = None;
    let mut page = None;
    let [high, low, start, first_node] = team.first_does(|| {
        let how = How { create: amode.create, exclusive: amode.exclusive, ..how };
        let plain = PlainFile::open(&path, &how)?;
        let start = if amode.append { plain.size()? } else { 0 };
        first = Some(plain);
        let id = node::random_id().map_err(|_| NO_RANDOM)?;
        if team.size > 1 {
            (page, page_name) = Page::create(id).ok().unzip();
        }
        Ok([(id >> 64) as u64, id as u64, start, node])
    })?;
    let id = u128::from(high) << 64 | u128::from(low);
    if team.rank > 0 && node == first_node {
        page = Page::open(id).ok();
    }
    let mine = match first {
        Some(plain) => Ok(plain),
        None => PlainFile::open(&path, &how).map_err(Error::from),
    };
    let mut without_page = [u64::from(page.is_none())];
    let plain = team.agree_on(mine, &[], &mut without_page)?;
    drop(page_name);
    let place = match page {
        _ if team.size == 1 => Place::own(),
        Some(page) if without_page[0] == 0 => Place::Memory(page),
        _ => Place::beside(&path, id),
    };
    Ok((plain, amode, raw_amode, path, hints, Meeting { start, place }))
}

const NO_RANDOM: Error = Error::Usage(ErrorKind::Intern, "/dev/urandom cannot be read");

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
        .and_then(|()| if file.must_sync_at_close() { Ok(file.plain().sync()?) } else { Ok(()) });
    let mut used_pointer = [u64::from(file.shared.touched())];
    let outcome = file.team.agree_on(mine, &[], &mut used_pointer);
    let outcome = outcome.and(file.leave_nothing(used_pointer[0] > 0));
    outcome.and(file.free_view_types()).and(file.team.disband())
}

impl File {
    fn must_sync_at_close(&self) -> bool {
        self.amode().write && self.hints(Hints::close_sync)
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
