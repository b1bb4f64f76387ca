//! The invariants of tier 1, which hold whenever no thread holds its lock. Tests and simulations check it.

use super::ranges::Ranges;
use super::state::{Block, State};

/// Checks tier 1 of this process in simulations.
#[cfg(pario_simulation)]
pub(super) fn watch(shared: &std::sync::Arc<super::Shared>) {
    use pario_runtime::simulation::invariants::watch;
    watch("tier 1", shared, |shared, _| shared.state.inspect(State::check_invariants).unwrap_or(Ok(())));
}

impl State {
    /// Memory is accounted for, and dirty bytes are valid and belong to open files. A process may have dirty bytes without knowing a lease for
    /// them: while a server is unreachable it drops its leases and keeps the bytes, which the server accepts or refuses later
    /// ([`super::mailbox`]).
    pub fn check_invariants(&self) -> Result<(), String> {
        let (mut memory, mut dirty_bytes) = (0, 0);
        for (key, file) in &self.files {
            for (index, block) in &file.blocks {
                let wrong = |why: &str| Err(format!("block {index} of {key:?} {why}: {}", describe(block)));
                let is_dirty = !block.dirty.is_empty();
                memory += block.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64);
                dirty_bytes += if is_dirty { file.block } else { 0 };
                if let Err(why) = check_block(block, file.block) {
                    return wrong(why);
                }
                if self.is_listed(block, (*key, *index)) != (is_dirty, block.bytes.is_some() && !is_dirty) {
                    return wrong("is in another list of blocks than its bytes say");
                }
                if is_dirty && file.servers.is_none() {
                    return wrong("is dirty, but its file is not open");
                }
            }
        }
        if dirty_bytes != self.dirty_bytes {
            return Err(format!("{dirty_bytes} bytes are dirty, but {} are counted", self.dirty_bytes));
        }
        if memory > self.used {
            return Err(format!("blocks have {memory} bytes, but {} are counted", self.used));
        }
        Ok(())
    }
}

fn check_block(block: &Block, size: u64) -> Result<(), &'static str> {
    let is_within = |ranges: &Ranges, end| ranges.span().is_none_or(|span| span.end <= end);
    if !is_within(&block.valid, size) || block.reach > size {
        return Err("has bytes beyond its size");
    }
    if !block.dirty.iter().all(|range| block.valid.contains(&range)) {
        return Err("has dirty bytes that are not valid");
    }
    match &block.bytes {
        None if !block.valid.is_empty() => Err("has valid bytes without memory"),
        Some(bytes) if bytes.len() as u64 != size => Err("has memory of another size"),
        _ => Ok(()),
    }
}

fn describe(block: &Block) -> String {
    let Block { valid, dirty, reach, staging, pins, .. } = block;
    format!("valid {valid:?}, dirty {dirty:?}, reach {reach}, staging {staging}, {pins} pins")
}
