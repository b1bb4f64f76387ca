//! Communicators: the few collectives that file operations need, on bytes and 64-bit numbers.

use crate::error::HostError;
use crate::handles::Host;
use std::ffi::{c_int, c_void};

/// A communicator of the host. Copying it copies the handle.
#[derive(Clone, Copy)]
pub struct Comm {
    host: &'static Host,
    raw: usize,
}

/// A communicator that this library created. Freeing is collective, so it is explicit: dropping the value frees
/// nothing.
#[derive(Debug)]
pub struct OwnedComm(Comm);

/// The operation of `allreduce_u64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduce {
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// The sum, modulo 2^64.
    Sum,
    /// Bitwise or.
    Bor,
}

impl Comm {
    pub(crate) fn new(host: &'static Host, raw: usize) -> Comm {
        Comm { host, raw }
    }

    /// The value that crosses the C boundary.
    pub fn raw(self) -> usize {
        self.raw
    }

    /// The host this communicator belongs to.
    pub fn host(self) -> &'static Host {
        self.host
    }

    /// This process's rank.
    pub fn rank(self) -> Result<u32, HostError> {
        let mut rank = 0;
        // SAFETY: a handle by value; writes one int.
        self.host.check("MPI_Comm_rank", unsafe { (self.host.f.comm_rank)(self.raw, &mut rank) })?;
        Ok(rank as u32)
    }

    /// Number of processes (of the local group).
    pub fn size(self) -> Result<u32, HostError> {
        let mut size = 0;
        // SAFETY: a handle by value; writes one int.
        self.host.check("MPI_Comm_size", unsafe { (self.host.f.comm_size)(self.raw, &mut size) })?;
        Ok(size as u32)
    }

    /// Whether it is an intercommunicator, on which files cannot be opened.
    pub fn is_inter(self) -> Result<bool, HostError> {
        let mut flag = 0;
        // SAFETY: a handle by value; writes one int.
        let code = unsafe { (self.host.f.comm_test_inter)(self.raw, &mut flag) };
        self.host.check("MPI_Comm_test_inter", code)?;
        Ok(flag != 0)
    }

    /// Whether both have the same processes in the same order.
    pub fn is_congruent(self, other: Comm) -> Result<bool, HostError> {
        let mut result = 0;
        // SAFETY: handles by value; writes one int.
        let code = unsafe { (self.host.f.comm_compare)(self.raw, other.raw, &mut result) };
        self.host.check("MPI_Comm_compare", code)?;
        let n = &self.host.constants.number;
        Ok([n.ident, n.congruent].contains(&i64::from(result)))
    }

    /// A private duplicate of the communicator that returns errors. Collective.
    pub fn dup(self) -> Result<OwnedComm, HostError> {
        let mut raw = 0;
        // SAFETY: a handle by value; writes one handle into a zeroed word.
        self.host.check("MPI_Comm_dup", unsafe { (self.host.f.comm_dup)(self.raw, &mut raw) })?;
        Comm::new(self.host, self.host.handle(raw)).return_errors()
    }

    /// Makes a new communicator return errors.
    pub(crate) fn return_errors(self) -> Result<OwnedComm, HostError> {
        let return_errors = self.host.constants.handle.errors_return;
        // SAFETY: handles by value.
        let code = unsafe { (self.host.f.comm_set_errhandler)(self.raw, return_errors) };
        self.host.check("MPI_Comm_set_errhandler", code)?;
        Ok(OwnedComm(self))
    }

    /// Writes a new handle of the communicator's group to a C out-argument.
    ///
    /// # Safety
    /// `out` points to an `MPI_Group`.
    pub unsafe fn group(self, out: *mut c_void) -> Result<(), HostError> {
        let mut raw = 0;
        // SAFETY: a handle by value; writes one handle into a zeroed word.
        self.host.check("MPI_Comm_group", unsafe { (self.host.f.comm_group)(self.raw, &mut raw) })?;
        // SAFETY: the caller's.
        unsafe { self.host.store(out, self.host.handle(raw)) };
        Ok(())
    }

    /// Waits for all ranks.
    pub fn barrier(self) -> Result<(), HostError> {
        // SAFETY: a handle by value.
        self.host.check("MPI_Barrier", unsafe { (self.host.f.barrier)(self.raw) })
    }

    /// Copies `data` of rank `root` to all ranks; equally long everywhere.
    pub fn bcast(self, data: &mut [u8], root: u32) -> Result<(), HostError> {
        for part in data.chunks_mut(c_int::MAX as usize) {
            let (at, len) = (part.as_mut_ptr().cast::<c_void>(), part.len() as c_int);
            // SAFETY: the buffer is `len` bytes of ours.
            let code = unsafe { (self.host.f.bcast)(at, len, self.byte(), root as c_int, self.raw) };
            self.host.check("MPI_Bcast", code)?;
        }
        Ok(())
    }

    /// Combines `data` of all ranks element by element, in place.
    pub fn allreduce_u64(self, data: &mut [u64], how: Reduce) -> Result<(), HostError> {
        let h = &self.host.constants.handle;
        let op = match how {
            Reduce::Min => h.min,
            Reduce::Max => h.max,
            Reduce::Sum => h.sum,
            Reduce::Bor => h.bor,
        };
        let in_place = self.host.constants.number.in_place as usize as *const c_void;
        for part in data.chunks_mut(c_int::MAX as usize) {
            let (at, len) = (part.as_mut_ptr().cast::<c_void>(), part.len() as c_int);
            // SAFETY: the buffer is `len` 64-bit numbers of ours, replaced in place.
            let code = unsafe { (self.host.f.allreduce)(in_place, at, len, h.uint64, op, self.raw) };
            self.host.check("MPI_Allreduce", code)?;
        }
        Ok(())
    }

    /// The sum over this rank and all lower ones.
    pub fn scan_sum_u64(self, value: u64) -> Result<u64, HostError> {
        let h = &self.host.constants.handle;
        let mut sum = 0u64;
        let (from, to) = ((&raw const value).cast::<c_void>(), (&raw mut sum).cast::<c_void>());
        // SAFETY: both buffers are one 64-bit number of ours.
        let code = unsafe { (self.host.f.scan)(from, to, 1, h.uint64, h.sum, self.raw) };
        self.host.check("MPI_Scan", code)?;
        Ok(sum)
    }

    /// The `mine` of every rank, in rank order; the length is equal on all ranks.
    pub fn allgather_u64(self, mine: &[u64]) -> Result<Vec<u64>, HostError> {
        let uint64 = self.host.constants.handle.uint64;
        let mut all = vec![0u64; mine.len() * self.size()? as usize];
        let len = c_int::try_from(mine.len()).map_err(|_| HostError::Contents("more than 2^31 numbers"))?;
        let (from, to) = (mine.as_ptr().cast::<c_void>(), all.as_mut_ptr().cast::<c_void>());
        // SAFETY: `len` numbers are read; the result has room for `len` of each rank.
        let code = unsafe { (self.host.f.allgather)(from, len, uint64, to, len, uint64, self.raw) };
        self.host.check("MPI_Allgather", code)?;
        Ok(all)
    }

    /// The `mine` of every rank, in rank order; the length is equal on all ranks.
    pub fn allgather(self, mine: &[u8]) -> Result<Vec<u8>, HostError> {
        let mut all = vec![0u8; mine.len() * self.size()? as usize];
        let len = c_int::try_from(mine.len()).map_err(|_| HostError::Contents("more than 2^31 bytes"))?;
        let (from, to) = (mine.as_ptr().cast::<c_void>(), all.as_mut_ptr().cast::<c_void>());
        // SAFETY: `len` bytes are read; the result has room for `len` of each rank.
        let code = unsafe { (self.host.f.allgather)(from, len, self.byte(), to, len, self.byte(), self.raw) };
        self.host.check("MPI_Allgather", code)?;
        Ok(all)
    }

    pub(crate) fn byte(self) -> usize {
        self.host.constants.handle.byte
    }
}

impl std::fmt::Debug for Comm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Comm({:#x})", self.raw)
    }
}

impl OwnedComm {
    /// Frees the communicator. Collective.
    pub fn free(self) -> Result<(), HostError> {
        let host = self.0.host;
        let mut raw = self.0.raw;
        // SAFETY: a handle variable of ours, overwritten with the null handle.
        host.check("MPI_Comm_free", unsafe { (host.f.comm_free)(&mut raw) })
    }
}

impl std::ops::Deref for OwnedComm {
    type Target = Comm;

    fn deref(&self) -> &Comm {
        &self.0
    }
}
