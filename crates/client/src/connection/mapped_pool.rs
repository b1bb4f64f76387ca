//! A server's pool in this process: the mapped memory, and hints on the slots in which blocks were last found.

use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use pario_cache::{BlockGuard, LedgerId, PendingFill, PoolMapping, SlotRef, hash};
use pario_types::FileId;

/// The largest number of remembered slots.
const MOST_HINTS: usize = 1 << 20;

pub(crate) struct MappedPool {
    mapped: PoolMapping,
    block: u64,
    /// Whether the pool's own directory is used.
    looks_up: bool,
    /// The slots in which this process last found blocks, by their hash. The pool's own directory lists only blocks that
    /// all clients may use, and not those leased to this client's team.
    hints: Box<[AtomicU64]>,
}

impl MappedPool {
    pub fn open(pool: OwnedFd, ledger: u32, looks_up: bool) -> Result<MappedPool, pario_cache::Error> {
        let mapped = PoolMapping::open(pool, LedgerId(ledger))?;
        let geometry = mapped.geometry();
        let count = (geometry.slots as usize * 2).next_power_of_two().min(MOST_HINTS);
        // The hints take more memory than a process may have; messages are used instead.
        let mut hints = Vec::new();
        hints.try_reserve_exact(count).map_err(|_| pario_cache::Error::Map(ErrorKind::OutOfMemory.into()))?;
        hints.resize_with(count, AtomicU64::default);
        let (block, hints) = (u64::from(geometry.block), hints.into_boxed_slice());
        Ok(MappedPool { mapped, block, looks_up, hints })
    }

    /// Bytes of a block.
    pub fn block(&self) -> u64 {
        self.block
    }

    /// Pins a block in the slot in which it was last found, if it is still there.
    #[inline]
    pub fn find(&self, file: FileId, block: u64) -> Option<BlockGuard<'_>> {
        let known = SlotRef::from_hint(self.hint(file, block).load(Ordering::Relaxed));
        let found = known.and_then(|place| self.mapped.pin(place, file, block).ok());
        let look_up = || self.mapped.look_up(file, block).filter(|_| self.looks_up);
        found.or_else(|| self.pin(look_up()?, file, block))
    }

    /// Reads bytes of a local part as long as their blocks are in the remembered slots, and within the local part.
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

    /// Writes bytes of a local part as long as their blocks are in the remembered slots, and stay there.
    #[inline]
    pub fn write_hits(&self, file: FileId, at: u64, bytes: &[u8]) -> usize {
        let mut done = 0;
        while done < bytes.len() {
            let (block, within, len) = self.within(at + done as u64, bytes.len() - done);
            let Some(guard) = self.find(file, block) else { break };
            if guard.write(within, &bytes[done..done + len]).is_err() {
                break;
            }
            done += len;
        }
        done
    }

    /// Returns the block of a byte, the offset in it, and the number of `len` bytes that are in it.
    #[inline]
    fn within(&self, at: u64, len: usize) -> (u64, u32, usize) {
        let within = at % self.block;
        (at / self.block, within as u32, (self.block - within).min(len as u64) as usize)
    }

    /// Pins a block in the slot that the server named, and remembers the slot.
    pub fn pin(&self, place: SlotRef, file: FileId, block: u64) -> Option<BlockGuard<'_>> {
        let guard = self.mapped.pin(place, file, block).ok()?;
        self.remember(place, file, block);
        Some(guard)
    }

    /// Takes a block that the server lent to this client to fill.
    pub fn claim(&self, place: SlotRef, file: FileId, block: u64) -> Option<PendingFill<'_>> {
        self.mapped.claim(place, file, block).ok()
    }

    pub fn remember(&self, place: SlotRef, file: FileId, block: u64) {
        self.hint(file, block).store(place.hint(), Ordering::Relaxed);
    }

    #[inline]
    fn hint(&self, file: FileId, block: u64) -> &AtomicU64 {
        &self.hints[hash(file, block) as usize & (self.hints.len() - 1)]
    }
}
