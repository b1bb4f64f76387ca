//! A file that is a vector of bytes: naive, slow and right, and it counts what it is asked.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, RwLock};

use pario_buffer::UserBuffer;
use pario_domain::LockProtocol;
use pario_file_backend::{BackendError, FileBackend, RangeLock, StorageFacts};
use pario_types::AccessTuning;
use pario_types::{ErrorKind, Pos};
use pario_view::View;

/// Ranges that may be ready at a time; more are refused.
const MOST_READY: usize = 3;

#[derive(Default)]
pub struct Memory {
    bytes: RwLock<Vec<u8>>,
    held: Mutex<Held>,
    /// Ranges that are ready, and how many were, were refused and were released in all.
    ready: Mutex<Vec<Range<u64>>>,
    pub taken: AtomicU64,
    pub refused: AtomicU64,
    pub released: AtomicU64,
    /// Locks asked for.
    pub locks: AtomicU64,
}

#[derive(Default)]
struct Held {
    agents: usize,
    other_process: bool,
}

/// One handle, as a rank has it.
pub struct Handle(pub Arc<Memory>);

impl Memory {
    pub fn with(bytes: &[u8]) -> Arc<Memory> {
        Arc::new(Memory { bytes: RwLock::new(bytes.to_vec()), ..Memory::default() })
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.bytes.read().unwrap().clone()
    }

    /// Another process takes a range lock, or releases it; returns whether that succeeded.
    pub fn lock_for_myself(&self, lock: bool) -> bool {
        let mut held = self.held.lock().unwrap();
        let may = !lock || held.agents == 0;
        held.other_process = lock && may;
        may
    }

    pub fn is_nothing_ready(&self) -> bool {
        self.ready.lock().unwrap().is_empty()
    }
}

fn check(view: &View, at: Pos, len: u64) -> Result<(), BackendError> {
    match len == 0 || view.bounds(at, len).is_some() {
        true => Ok(()),
        false => {
            Err(BackendError { kind: ErrorKind::Arg, errno: None, at: None, done: 0, text: "beyond".into() })
        }
    }
}

impl FileBackend for Handle {
    fn read(
        &self,
        view: &View,
        at: Pos,
        buf: &UserBuffer,
        buf_at: u64,
        len: u64,
        _: &AccessTuning,
    ) -> Result<u64, BackendError> {
        check(view, at, len)?;
        let bytes = self.0.bytes.read().unwrap();
        for done in 0..len {
            let offset = view.cursor(Pos(at.0 + done), 1).next_piece(1).unwrap().offset as usize;
            let Some(byte) = bytes.get(offset) else { return Ok(done) };
            buf.unpack(buf_at + done, &[*byte]);
        }
        Ok(len)
    }

    fn write(
        &self,
        view: &View,
        at: Pos,
        buf: &UserBuffer,
        buf_at: u64,
        len: u64,
        _: &AccessTuning,
    ) -> Result<u64, BackendError> {
        check(view, at, len)?;
        let mut bytes = self.0.bytes.write().unwrap();
        for done in 0..len {
            let offset = view.cursor(Pos(at.0 + done), 1).next_piece(1).unwrap().offset as usize;
            if bytes.len() <= offset {
                bytes.resize(offset + 1, 0);
            }
            buf.pack(buf_at + done, &mut bytes[offset..=offset]);
        }
        Ok(len)
    }

    fn prefetch(&self, ranges: &[Range<u64>]) -> usize {
        let memory = &self.0;
        let mut ready = memory.ready.lock().unwrap();
        let taken = ranges.len().min(MOST_READY.saturating_sub(ready.len()));
        ready.extend_from_slice(&ranges[..taken]);
        memory.taken.fetch_add(taken as u64, Relaxed);
        memory.refused.fetch_add((ranges.len() - taken) as u64, Relaxed);
        taken
    }

    fn release(&self, ranges: &[Range<u64>]) {
        let memory = &self.0;
        let mut ready = memory.ready.lock().unwrap();
        for range in ranges {
            let index = ready.iter().position(|one| one == range).expect("released what is ready");
            ready.remove(index);
        }
        memory.released.fetch_add(ranges.len() as u64, Relaxed);
    }

    fn write_window(
        &self,
        parts: &[(u64, &[u8])],
        _: bool,
        _: bool,
        _: &AccessTuning,
    ) -> Result<(), BackendError> {
        let mut bytes = self.0.bytes.write().unwrap();
        for (at, from) in parts {
            let end = *at as usize + from.len();
            let size = bytes.len().max(end);
            bytes.resize(size, 0);
            bytes[*at as usize..end].copy_from_slice(from);
        }
        Ok(())
    }

    fn size(&self) -> Result<u64, BackendError> {
        Ok(self.0.bytes.read().unwrap().len() as u64)
    }

    fn set_size(&self, size: u64) -> Result<(), BackendError> {
        self.0.bytes.write().unwrap().resize(size as usize, 0);
        Ok(())
    }

    fn sync(&self) -> Result<(), BackendError> {
        Ok(())
    }

    fn facts(&self) -> StorageFacts {
        StorageFacts {
            protocol: LockProtocol::Local,
            local: true,
            memory: true,
            partition: false,
            placed: false,
            tier1: false,
            near: false,
            block: 1,
            stripe: 0,
            servers: 0,
        }
    }

    fn lock_whole_file(&self) -> Result<Option<Box<dyn RangeLock>>, BackendError> {
        self.0.locks.fetch_add(1, Relaxed);
        let mut held = self.0.held.lock().unwrap();
        if held.other_process {
            return Ok(None);
        }
        held.agents += 1;
        Ok(Some(Box::new(Handle(self.0.clone()))))
    }
}

impl RangeLock for Handle {
    fn release(self: Box<Self>) -> Result<(), BackendError> {
        self.0.held.lock().unwrap().agents -= 1;
        Ok(())
    }
}
