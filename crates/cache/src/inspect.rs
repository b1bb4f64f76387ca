//! The content of a pool's file that no server serves: for tools, which do not change it.

use crate::error::{Error, Result};
use crate::geometry::{AT_BOOT, AT_MAGIC, AT_PARTITION, AT_SERVER, HEADER, PoolIdentity};
use crate::memory::PoolMemory;
use crate::state::{DIRTY, FLUSHING, VALID};
use pario_shm::{ExclusiveLock, PidScope, Segment};
use pario_types::{PartitionId, ServerId};
use std::path::Path;
use std::sync::atomic::Ordering;

/// The result of inspecting the file of a pool.
#[derive(Debug)]
pub enum Inspection {
    /// A server serves it.
    Served,
    /// No server serves it.
    Left(Leftover),
}

/// A pool that no server serves. No server can adopt it as long as this value exists.
#[derive(Debug)]
pub struct Leftover {
    /// The owner of the pool; `None` if its server was killed before the pool was complete. Then it was never used.
    pub identity: Option<PoolIdentity>,
    /// Bytes in blocks that are not stored. 0 if the pool is of another boot: nothing in it can be used.
    pub unsaved: u64,
    /// The pool is of another boot of this host, or of another host: unsynced writes in it are lost.
    pub is_lost: bool,
    /// The random number of this pool; 0 if it was never complete.
    pub mark: u64,
    _claim: ExclusiveLock,
}

impl Leftover {
    fn incomplete(claim: ExclusiveLock) -> Leftover {
        Leftover { identity: None, unsaved: 0, is_lost: false, mark: 0, _claim: claim }
    }
}

/// Inspects the file of a pool.
///
/// # Errors
/// [`Error::NotAPool`] for a pool of another version, of which nothing is known.
pub fn inspect(path: &Path) -> Result<Inspection> {
    let failed = |what| move |error| Error::System { what, path: path.into(), error };
    let Some(claim) = ExclusiveLock::try_acquire(path).map_err(failed("lock"))? else {
        return Ok(Inspection::Served);
    };
    let length = pario_runtime::fs::metadata(path).map_err(failed("look at"))?.len();
    if length < HEADER as u64 {
        return Ok(Inspection::Left(Leftover::incomplete(claim)));
    }
    let segment = Segment::open_file(path).map_err(failed("open"))?;
    // The magic number is written last.
    if segment.len() > AT_MAGIC + 8 && segment.word(AT_MAGIC).load(Ordering::Acquire) == 0 {
        return Ok(Inspection::Left(Leftover::incomplete(claim)));
    }
    let memory = PoolMemory::open(segment)?;
    let partition = memory.wide(AT_PARTITION);
    let server = u16::try_from(memory.header(AT_SERVER).peek())
        .map_err(|_| Error::NotAPool("its server has an impossible number"))?;
    let identity = Some(PoolIdentity { partition: PartitionId(partition), server: ServerId(server) });
    let dirty = |slot: &u32| {
        let state = memory.state(*slot).get();
        state & VALID != 0 && state & (DIRTY | FLUSHING) != 0
    };
    let origin = PidScope::current().map_err(failed("tell the machine's boot for"))?;
    let is_lost = memory.wide(AT_BOOT) != origin.boot;
    let unsaved = if is_lost {
        0
    } else {
        (0..memory.geometry.slots).filter(dirty).map(|slot| u64::from(memory.end(slot))).sum()
    };
    Ok(Inspection::Left(Leftover { identity, unsaved, is_lost, mark: memory.mark(), _claim: claim }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Geometry, Lookup, Pool};
    use pario_types::FileId;

    #[test]
    fn inspecting_a_pool_counts_its_dirty_blocks_and_changes_nothing() {
        let path = std::env::temp_dir().join(format!("pario-inspect-{}", std::process::id()));
        let identity = PoolIdentity { partition: PartitionId(7), server: ServerId(3) };
        let geometry = Geometry { block: 4096, slots: 8, ledgers: 1 };
        let pool = Pool::create(&path, geometry, identity).unwrap();
        assert!(matches!(inspect(&path).unwrap(), Inspection::Served));
        for (block, bytes) in [(0, 4096), (1, 100), (2, 0)] {
            let Lookup::Fill(fill) = pool.get(FileId(1), block) else { panic!("an empty pool has room") };
            let pin = fill.done(0);
            if bytes > 0 {
                pin.write(0, &vec![1; bytes]).unwrap();
            }
        }
        drop(pool);
        for _ in 0..2 {
            let Inspection::Left(left) = inspect(&path).unwrap() else { panic!("nobody serves it") };
            assert_eq!((left.identity, left.unsaved), (Some(identity), 4196));
            assert!(matches!(Pool::adopt(&path, identity), Err(Error::InUse(_))));
        }
        let (pool, adopted) = Pool::adopt(&path, identity).unwrap();
        assert_eq!(adopted.dirty, 2);
        pool.discard().unwrap();
        std::fs::write(&path, vec![0; 8192]).unwrap();
        let Inspection::Left(left) = inspect(&path).unwrap() else { panic!("nobody serves it") };
        assert_eq!((left.identity, left.unsaved), (None, 0));
        drop(left);
        std::fs::write(&path, vec![1; 8192]).unwrap();
        assert!(matches!(inspect(&path), Err(Error::NotAPool(_))));
        std::fs::remove_file(&path).unwrap();
    }
}
