//! The view of an open file.

use std::sync::Arc;

use pario_mpi_host::{Host, TypeHandle};
use pario_types::{ErrorKind, Offset, Pos};
use pario_view::{Pattern, View};

use crate::datarep::Datarep;
use crate::error::{Error, Result};

/// A compiled file view. Using it needs no call of the host MPI.
pub(crate) struct FileView {
    /// The displacement that the program passed, or the offset that MPI_DISPLACEMENT_CURRENT meant.
    pub disp: Offset,
    /// The bytes of the file that the view selects, in order.
    pub view: Arc<View>,
    /// The size of one etype in the file.
    pub etype_size: u64,
    /// The extent of one etype in the file. The standard demands that it is equal on all ranks.
    pub etype_extent: i64,
    /// The data representation.
    pub rep: Datarep,
}

impl FileView {
    /// The view after open: all bytes.
    pub fn bytes() -> FileView {
        FileView {
            disp: Offset(0),
            view: Arc::new(View::contiguous(Offset(0))),
            etype_size: 1,
            etype_extent: 1,
            rep: Datarep::Native,
        }
    }

    /// Checks and compiles a view (MPI-4.1, 14.3).
    pub fn new(
        host: &Host,
        disp: Offset,
        etype: TypeHandle,
        filetype: TypeHandle,
        rep: Datarep,
        writable: bool,
    ) -> Result<FileView> {
        let bad = |text| Err(Error::Usage(ErrorKind::Type, text));
        let unit = file_pattern(host, etype, &rep)?;
        let tile = file_pattern(host, filetype, &rep)?;
        if unit.size() == 0 {
            return bad("the etype has size zero");
        }
        if tile.size() % unit.size() != 0 {
            return bad("the filetype is not made of whole etypes");
        }
        if !tile.is_monotone() {
            return bad("the filetype's displacements must be nonnegative and never decrease");
        }
        if writable && tile.has_overlap() {
            return bad("the filetype overlaps itself, which only a file opened for reading may have");
        }
        if tile.size() > 0 && tile.extent() <= 0 {
            return bad("the filetype's extent must be positive");
        }
        Ok(FileView {
            disp,
            view: Arc::new(View::new(disp, tile)),
            etype_size: unit.size(),
            etype_extent: unit.extent(),
            rep,
        })
    }

    /// The view position of an offset in etypes.
    pub fn pos(&self, etypes: i64) -> Result<Pos> {
        let etypes = u64::try_from(etypes)
            .map_err(|_| Error::Value(ErrorKind::Arg, "the offset must not be negative", etypes))?;
        etypes.checked_mul(self.etype_size).and_then(|bytes| Pos(0).checked_add(bytes)).ok_or(Error::Value(
            ErrorKind::Arg,
            "the offset lies beyond the largest file",
            etypes as i64,
        ))
    }

    /// The number of the first etype after the last byte of a file of this size (MPI_SEEK_END).
    pub fn end(&self, file_size: u64) -> i64 {
        self.view.rank(Offset(file_size)).0.div_ceil(self.etype_size) as i64
    }
}

/// The layout of a datatype in a file with this representation.
pub(crate) fn file_pattern(host: &Host, datatype: TypeHandle, rep: &Datarep) -> Result<Pattern> {
    match rep {
        Datarep::Native | Datarep::Internal => Ok(host.layout(datatype)?.native.clone()),
        Datarep::External32 => Ok(host.external(datatype)?),
        Datarep::User(_, conversion) => {
            let mut failed = None;
            let tree =
                host.decode_sized(datatype, &mut |predefined| match conversion.extent(predefined) {
                    Ok(extent) => u32::try_from(extent).unwrap_or(0),
                    Err(code) => {
                        failed.get_or_insert(code);
                        0
                    }
                })?;
            match failed {
                Some(code) => Err(Error::UserFunction(code)),
                None => Ok(Pattern::external(&tree)?),
            }
        }
    }
}
