//! A server's pool as this process uses it: mapped memory, and where in it blocks were last seen.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use pario_cache::{Guard, LedgerId, Mapped, Pending, SlotRef};
use pario_units::FileId;

/// Most places that are remembered.
const MOST_HINTS: usize = 1 << 20;

pub(crate) struct Local {
    mapped: Mapped,
    block: u64,
    /// Where blocks were last seen, by a hash of file and block: slot + 1 and generation, 0 if nothing is
    /// known. Two blocks may share a hint, and a hint may be old: a pin tells, since a slot says which block
    /// it holds.
    hints: Box<[AtomicU64]>,
}

impl Local {
    pub fn open(pool: OwnedFd, ledger: u32) -> Result<Local, pario_cache::Error> {
        let mapped = Mapped::open(pool, LedgerId(ledger))?;
        let geometry = mapped.geometry();
        let count = (geometry.slots as usize * 2).next_power_of_two().min(MOST_HINTS);
        let hints = std::iter::repeat_with(AtomicU64::default).take(count).collect();
        Ok(Local { mapped, block: u64::from(geometry.block), hints })
    }

    /// Bytes of a block.
    pub fn block(&self) -> u64 {
        self.block
    }

    /// Pins a block where it was last seen, if it is still there.
    #[inline]
    pub fn find(&self, file: FileId, block: u64) -> Option<Guard<'_>> {
        let hint = self.hint(file, block).load(Ordering::Relaxed);
        let slot = ((hint >> 32) as u32).checked_sub(1)?;
        self.mapped.pin(SlotRef { slot, generation: hint as u32 }, file, block).ok()
    }

    /// Reads bytes of a local part as long as their blocks are where they were, and within the local part.
    #[inline]
    pub fn read_hits(&self, file: FileId, at: u64, bytes: &mut [u8]) -> usize {
        let mut done = 0;
        while done < bytes.len() {
            let (block, within, len) = self.within(at + done as u64, bytes.len() - done);
            match self.find(file, block) {
                Some(guard) if within + len as u32 <= guard.end() => {
                    guard.read(within, &mut bytes[done..done + len])
                }
                _ => break,
            }
            done += len;
        }
        done
    }

    /// Writes bytes of a local part as long as their blocks are where they were.
    #[inline]
    pub fn write_hits(&self, file: FileId, at: u64, bytes: &[u8]) -> usize {
        let mut done = 0;
        while done < bytes.len() {
            let (block, within, len) = self.within(at + done as u64, bytes.len() - done);
            let Some(guard) = self.find(file, block) else { break };
            guard.write(within, &bytes[done..done + len]);
            done += len;
        }
        done
    }

    /// The block of a byte, where in it, and how many of `len` bytes are in it.
    #[inline]
    fn within(&self, at: u64, len: usize) -> (u64, u32, usize) {
        let within = at % self.block;
        (at / self.block, within as u32, (self.block - within).min(len as u64) as usize)
    }

    /// Pins a block where the server says it is, and remembers that.
    pub fn pin(&self, place: SlotRef, file: FileId, block: u64) -> Option<Guard<'_>> {
        let guard = self.mapped.pin(place, file, block).ok()?;
        self.remember(place, file, block);
        Some(guard)
    }

    /// Takes a block that the server lent to be filled.
    pub fn claim(&self, place: SlotRef, file: FileId, block: u64) -> Option<Pending<'_>> {
        self.mapped.claim(place, file, block).ok()
    }

    pub fn remember(&self, place: SlotRef, file: FileId, block: u64) {
        let hint = (u64::from(place.slot) + 1) << 32 | u64::from(place.generation);
        self.hint(file, block).store(hint, Ordering::Relaxed);
    }

    #[inline]
    fn hint(&self, file: FileId, block: u64) -> &AtomicU64 {
        // Neighbours stay neighbours; files are spread.
        let hash = file.0.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(20).wrapping_add(block);
        &self.hints[hash as usize & (self.hints.len() - 1)]
    }
}
