//! The table of open files, by handle and by Fortran number.
//!
//! A handle is a number with the width of a pointer (`MPI_File` is a pointer in every MPI) that is never dereferenced:
//! bits 0–15 are the slot plus one, bits 16–31 the generation of the slot, the bits above a mark. So a stale, foreign
//! or invented handle is recognised without access to memory that may not exist.

use parking_lot::RwLock;
use std::sync::Arc;

use pario_types::ErrorKind;

use crate::error::{Error, Result};
use crate::file::MpiFile;

const MARK: usize = 0x5041_5249; // "PARI"
const MARK_SHIFT: u32 = 32;
const MAX_FILES: usize = 0xffff;

struct Slot {
    generation: u16,
    file: Option<Arc<MpiFile>>,
}

static TABLE: RwLock<Vec<Slot>> = RwLock::new(Vec::new());

fn table() -> parking_lot::RwLockReadGuard<'static, Vec<Slot>> {
    TABLE.read()
}

fn table_mut() -> parking_lot::RwLockWriteGuard<'static, Vec<Slot>> {
    TABLE.write()
}

fn handle(slot: usize, generation: u16) -> usize {
    MARK << MARK_SHIFT | usize::from(generation) << 16 | (slot + 1)
}

fn slot_of(handle: usize) -> Option<(usize, u16)> {
    if handle >> MARK_SHIFT != MARK {
        return None;
    }
    let slot = (handle & 0xffff).checked_sub(1)?;
    Some((slot, (handle >> 16) as u16))
}

/// Adds an open file to the table and returns its handle.
pub fn insert(file: Arc<MpiFile>) -> Result<usize> {
    let mut slots = table_mut();
    let free = slots.iter().position(|slot| slot.file.is_none());
    let slot = match free {
        Some(slot) => slot,
        None if slots.len() < MAX_FILES => {
            slots.push(Slot { generation: 0, file: None });
            slots.len() - 1
        }
        None => return Err(Error::Usage(ErrorKind::NoMem, "65535 files are open; close some first")),
    };
    slots[slot].file = Some(file);
    Ok(handle(slot, slots[slot].generation))
}

/// The open file of a handle.
pub fn get(raw: usize) -> Result<Arc<MpiFile>> {
    find(raw).ok_or(Error::Usage(ErrorKind::File, "the file handle is not that of an open file"))
}

fn find(raw: usize) -> Option<Arc<MpiFile>> {
    let (slot, generation) = slot_of(raw)?;
    let slots = table();
    let slot = slots.get(slot)?;
    if slot.generation != generation {
        return None;
    }
    slot.file.clone()
}

/// Removes a file from the table. Its handle is invalid from now on.
pub fn remove(raw: usize) {
    let Some((slot, generation)) = slot_of(raw) else { return };
    let mut slots = table_mut();
    if let Some(slot) = slots.get_mut(slot)
        && slot.generation == generation
    {
        slot.file = None;
        slot.generation = slot.generation.wrapping_add(1);
    }
}

/// The Fortran number of an open file; 0 (MPI_FILE_NULL in every host's Fortran) for anything else.
pub fn to_fortran(raw: usize) -> i32 {
    match (find(raw), slot_of(raw)) {
        (Some(_), Some((slot, _))) => slot as i32 + 1,
        _ => 0,
    }
}

/// The handle of a Fortran number, if a file with this number is open.
pub fn from_fortran(number: i32) -> Option<usize> {
    let slot = usize::try_from(number).ok()?.checked_sub(1)?;
    let slots = table();
    let entry = slots.get(slot)?;
    entry.file.as_ref().map(|_| handle(slot, entry.generation))
}

/// All open files.
pub(crate) fn all() -> Vec<Arc<MpiFile>> {
    table().iter().filter_map(|slot| slot.file.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_handles_are_rejected() {
        for raw in [0, 1, usize::MAX, MARK << MARK_SHIFT, 0x7fff_1234_5678] {
            assert_eq!(get(raw).err().map(|e| e.kind()), Some(ErrorKind::File), "{raw:#x}");
            assert_eq!(to_fortran(raw), 0);
        }
        assert_eq!(slot_of(handle(7, 9)), Some((7, 9)));
        assert_eq!(from_fortran(0), None);
        assert_eq!(from_fortran(-1), None);
        assert_eq!(from_fortran(i32::MAX), None);
    }
}
