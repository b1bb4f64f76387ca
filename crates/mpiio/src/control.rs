//! The calls on an open file that move no data: view, pointers, size, hints, atomic mode, sync.

use std::sync::Arc;

use pario_mpi_host::TypeHandle;
use pario_types::AccessTuning;
use pario_types::{ErrorKind, Offset};

use crate::datarep::Datarep;
use crate::error::{Error, Result};
use crate::file::{MpiFile, ViewTypes};
use crate::file_group::MustMatch;
use crate::file_view::{FileView, file_pattern};
use crate::info::{HINTS_DIFFER, apply_info, common_digest, if_develop};

/// The displacement argument of MPI_File_set_view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Displacement {
    /// A number of bytes.
    Bytes(i64),
    /// MPI_DISPLACEMENT_CURRENT: the position of the shared pointer.
    Current,
}

/// The arguments of MPI_File_set_view.
pub struct ViewRequest {
    /// The start of the view.
    pub disp: Displacement,
    /// The etype, or the error in the argument.
    pub etype: Result<TypeHandle>,
    /// The filetype, or the error in the argument.
    pub filetype: Result<TypeHandle>,
    /// The name of the data representation, or the error in the argument.
    pub datarep: Result<String>,
    /// The hints of the info argument, or the error in it.
    pub info: Result<Vec<(String, String)>>,
}

/// The view in force, for MPI_File_get_view.
pub struct ViewInForce {
    /// The displacement in bytes.
    pub disp: i64,
    /// A datatype that the caller owns, unless it is a named one.
    pub etype: TypeHandle,
    /// A datatype that the caller owns, unless it is a named one.
    pub filetype: TypeHandle,
    /// The name of the data representation.
    pub datarep: String,
}

/// The origin of a seek.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whence {
    /// From the start of the view.
    Set,
    /// From the pointer.
    Current,
    /// From the end of the file.
    End,
}

impl MpiFile {
    /// Sets the view. Collective: one agreement, and a second one only if the shared pointer has been used.
    pub fn set_view(self: &Arc<MpiFile>, request: ViewRequest) -> Result<()> {
        let mine = self.prepare_view(request);
        let (extent, rep, holes) = match &mine {
            Ok((file_view, ..)) => {
                (file_view.etype_extent, file_view.rep.fingerprint(), !file_view.view.is_contiguous())
            }
            Err(_) => (0, 0, false),
        };
        let hints = match &mine {
            Ok((_, _, info)) => if_develop(|| self.digest_with(info)),
            Err(_) => 0,
        };
        let same = [
            MustMatch(hints, HINTS_DIFFER),
            MustMatch(extent as u64, "the etype's extent of MPI_File_set_view differs between ranks"),
            MustMatch(rep, "the data representation of MPI_File_set_view differs between ranks"),
        ];
        let restart = mine.as_ref().is_ok_and(|(_, _, info)| self.shipping_changes_with(info));
        let mut most =
            [u64::from(holes && self.amode().write), u64::from(self.shared.touched()), u64::from(restart)];
        let (file_view, given, info) = self.group.agree_on(mine, &same, &mut most)?;
        let host = self.host();
        let types =
            ViewTypes { etype: host.own_type(given.etype)?, filetype: host.own_type(given.filetype)? };
        self.group.share_view(&file_view.view)?;
        self.set_file_view(file_view);
        let old = std::mem::replace(&mut *self.types.lock(), types);
        host.release_type(old.etype)?;
        host.release_type(old.filetype)?;
        self.change_hints(|hints| apply_info(hints, &info, self.group.rank == 0));
        self.apply_prefetch_info(&info);
        self.retune(|now| AccessTuning { peers_sieve: most[0] > 0, ..now });
        if most[2] > 0 {
            self.restart_shipping()?;
        }
        self.restart_shared(most[1] > 0)
    }

    /// Checks this rank's arguments and compiles the view. Changes nothing.
    #[allow(clippy::type_complexity, reason = "used once, taken apart at once")]
    fn prepare_view(&self, request: ViewRequest) -> Result<(FileView, ViewTypes, Vec<(String, String)>)> {
        let disp = self.displacement(request.disp)?;
        let (etype, filetype) = (request.etype?, request.filetype?);
        let rep = Datarep::named(&request.datarep?)?;
        self.no_split()?;
        let file_view = FileView::new(self.host(), disp, etype, filetype, rep, self.amode().write)?;
        Ok((file_view, ViewTypes { etype, filetype }, request.info?))
    }

    fn displacement(&self, disp: Displacement) -> Result<Offset> {
        match (disp, self.amode().sequential) {
            (Displacement::Current, true) => {
                let file_view = self.file_view();
                let at = file_view.pos(self.shared_position()?)?;
                Ok(file_view.view.select(at).unwrap_or(file_view.disp))
            }
            (Displacement::Bytes(_), true) => Err(Error::Usage(
                ErrorKind::Arg,
                "a file opened with MPI_MODE_SEQUENTIAL needs MPI_DISPLACEMENT_CURRENT as displacement",
            )),
            (Displacement::Current, false) => Err(Error::Usage(
                ErrorKind::Arg,
                "MPI_DISPLACEMENT_CURRENT needs a file opened with MPI_MODE_SEQUENTIAL",
            )),
            (Displacement::Bytes(bytes), false) => u64::try_from(bytes)
                .map(Offset)
                .map_err(|_| Error::Value(ErrorKind::Arg, "the displacement must not be negative", bytes)),
        }
    }

    /// Resets the shared pointer to the start of the view. Collective.
    fn restart_shared(&self, used: bool) -> Result<()> {
        if !used {
            self.shared.rebase_untouched();
            return Ok(());
        }
        self.group.root_bcast(|| {
            self.shared.store(0)?;
            Ok([])
        })?;
        Ok(())
    }

    /// The view in force. The caller frees derived datatypes.
    pub fn view(&self) -> Result<ViewInForce> {
        let file_view = self.file_view();
        let types = self.types.lock();
        Ok(ViewInForce {
            disp: file_view.disp.0 as i64,
            etype: self.host().own_type(types.etype)?,
            filetype: self.host().own_type(types.filetype)?,
            datarep: file_view.rep.name().to_string(),
        })
    }

    /// The extent of a datatype in this file's representation.
    pub fn type_extent(&self, datatype: TypeHandle) -> Result<i64> {
        Ok(file_pattern(self.host(), datatype, &self.file_view().rep)?.extent())
    }

    /// Moves the individual pointer.
    pub fn seek(&self, offset: i64, whence: Whence) -> Result<()> {
        self.not_sequential("a file opened with MPI_MODE_SEQUENTIAL cannot be sought")?;
        let target = self.target(offset, whence, || Ok(self.individual_pointer()))?;
        self.set_individual_pointer(target);
        Ok(())
    }

    /// Moves the shared pointer. Collective, with equal arguments.
    pub fn seek_shared(&self, offset: i64, whence: Result<Whence>) -> Result<()> {
        let code = whence.as_ref().map_or(0, |w| *w as u64);
        let mine = self.not_sequential("a file opened with MPI_MODE_SEQUENTIAL cannot be sought").and(whence);
        let same = [
            MustMatch(offset as u64, "the offset of MPI_File_seek_shared differs between ranks"),
            MustMatch(code, "the whence of MPI_File_seek_shared differs between ranks"),
        ];
        let whence = self.group.agree_on(mine, &same, &mut [])?;
        self.group.root_bcast(|| {
            let target = self.target(offset, whence, || self.shared_position())?;
            self.shared.store(target as u64)?;
            Ok([])
        })?;
        Ok(())
    }

    fn target(&self, offset: i64, whence: Whence, current: impl FnOnce() -> Result<i64>) -> Result<i64> {
        let base = match whence {
            Whence::Set => 0,
            Whence::Current => current()?,
            Whence::End => self.file_view().end(self.storage()?.size()?),
        };
        base.checked_add(offset).filter(|target| *target >= 0).ok_or(Error::Value(
            ErrorKind::Arg,
            "the seek would end before the start or beyond the largest file",
            offset,
        ))
    }

    /// The individual pointer, in etypes.
    pub fn position(&self) -> Result<i64> {
        self.not_sequential("a file opened with MPI_MODE_SEQUENTIAL has no individual pointer")?;
        Ok(self.individual_pointer())
    }

    /// The shared pointer, in etypes, for MPI_File_get_position_shared.
    pub fn position_shared(&self) -> Result<i64> {
        self.not_sequential("the position in a file opened with MPI_MODE_SEQUENTIAL cannot be asked for")?;
        self.shared_position()
    }

    fn shared_position(&self) -> Result<i64> {
        i64::try_from(self.shared.load()?)
            .map_err(|_| Error::Usage(ErrorKind::Arg, "the shared file pointer lies beyond the largest file"))
    }

    /// The absolute byte offset of an offset in the view.
    pub fn byte_offset(&self, etypes: i64) -> Result<i64> {
        let file_view = self.file_view();
        let at = file_view.pos(etypes)?;
        Ok(file_view.view.select(at).unwrap_or(file_view.disp).0 as i64)
    }

    fn not_sequential(&self, text: &'static str) -> Result<()> {
        if self.amode().sequential {
            Err(Error::Usage(ErrorKind::UnsupportedOperation, text))
        } else {
            Ok(())
        }
    }

    fn writable(&self) -> Result<()> {
        if self.amode().write {
            Ok(())
        } else {
            Err(Error::Usage(ErrorKind::ReadOnly, "the file was opened for reading only"))
        }
    }

    /// The size of the file in bytes.
    pub fn size(&self) -> Result<i64> {
        Ok(self.storage()?.size()? as i64)
    }

    /// Sets the size of the file. Collective, with equal sizes.
    pub fn set_size(&self, size: i64) -> Result<()> {
        self.resize(size, "the size of MPI_File_set_size differs between ranks", |size| {
            Ok(self.storage()?.set_size(size)?)
        })
    }

    /// Allocates storage for the first `size` bytes. Collective, with equal sizes.
    pub fn preallocate(&self, size: i64) -> Result<()> {
        let text = "the size of MPI_File_preallocate differs between ranks";
        self.resize(size, text, |size| Ok(self.storage()?.preallocate(size)?))
    }

    fn resize(&self, size: i64, unequal: &'static str, change: impl FnOnce(u64) -> Result<()>) -> Result<()> {
        self.note_bytes(size as u64);
        let mine = self
            .writable()
            .and(self.not_sequential("the size of a file opened with MPI_MODE_SEQUENTIAL cannot be set"))
            .and(
                u64::try_from(size)
                    .map_err(|_| Error::Value(ErrorKind::Arg, "the size must not be negative", size)),
            );
        let size = self.group.agree_on(mine, &[MustMatch(size as u64, unequal)], &mut [])?;
        if self.collective().cache.is_some() {
            let ready =
                self.opened().map_or(Ok(()), |storage| storage.prepare_resize(size)).map_err(Error::from);
            self.group.agree(ready)?;
        }
        self.group.root_bcast(|| {
            change(size)?;
            Ok([])
        })?;
        Ok(())
    }

    /// Forces all data that this rank wrote to storage. Collective: all ranks learn of a failure on any rank.
    pub fn sync(&self) -> Result<()> {
        self.quiesce();
        self.barrier_if_shipping()?;
        let mine = self.no_split().and(self.take_deferred_error()).and_then(|()| match self.amode().write {
            true => self.sync_mine(),
            // The standard allows sync on a file opened for reading, which has nothing to force.
            false => Ok(()),
        });
        self.group.agree(mine)
    }

    /// Forces this rank's data to storage, if this rank has opened the file.
    pub(crate) fn sync_mine(&self) -> Result<()> {
        match self.opened() {
            Some(storage) => Ok(storage.sync()?),
            None => Ok(()),
        }
    }

    /// Sets or clears atomic mode. Collective, with equal flags.
    pub fn set_atomicity(&self, on: bool) -> Result<()> {
        let same = [MustMatch(u64::from(on), "the flag of MPI_File_set_atomicity differs between ranks")];
        self.group.agree_on(Ok(()), &same, &mut [])?;
        self.retune(|now| AccessTuning { atomic: on, ..now });
        // Agents that lock the whole file would block the range locks of atomic mode.
        let differs = self.hints(|hints| self.shipping_changes(hints));
        if differs { self.restart_shipping() } else { Ok(()) }
    }

    /// Applies the hints of an info object. Collective.
    pub fn set_info(&self, info: Result<Vec<(String, String)>>) -> Result<()> {
        let digest = info.as_ref().map_or(0, |info| if_develop(|| self.digest_with(info)));
        let mut restart = [u64::from(info.as_ref().is_ok_and(|info| self.shipping_changes_with(info)))];
        let info = self.group.agree_on(info, &[MustMatch(digest, HINTS_DIFFER)], &mut restart)?;
        self.change_hints(|hints| apply_info(hints, &info, self.group.rank == 0));
        self.apply_prefetch_info(&info);
        if restart[0] > 0 { self.restart_shipping() } else { Ok(()) }
    }

    /// Whether these hints change data shipping.
    fn shipping_changes_with(&self, info: &[(String, String)]) -> bool {
        if info.is_empty() {
            return false;
        }
        let mut hints = self.hints(Clone::clone);
        apply_info(&mut hints, info, false);
        self.shipping_changes(&hints)
    }

    /// A digest of the hints that must be equal on all ranks, after these are applied.
    fn digest_with(&self, info: &[(String, String)]) -> u64 {
        let mut hints = self.hints(Clone::clone);
        apply_info(&mut hints, info, false);
        common_digest(&hints)
    }

    /// Every hint in force with its value, defaults included.
    pub fn info(&self) -> Vec<(String, String)> {
        self.hints(|hints| hints.in_force().map(|(name, value, _)| (name.to_string(), value)).collect())
    }
}
