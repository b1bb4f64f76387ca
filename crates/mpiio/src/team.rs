//! The ranks that opened a file together, and how they agree.
//!
//! Every collective call that is not a data access ends in one reduction in which all ranks learn whether
//! anyone failed, whether what must be equal is equal, and the largest of what each reports. So no rank
//! returns early, and none waits for one that has given up.

use std::sync::Mutex;

use pario_mpi_host::{Comm, Host, OwnedComm, Reduce};
use pario_units::ErrorKind;

use crate::error::{Error, Result};
use crate::worker::held;

/// The ranks of one open file: a duplicate of the communicator that the program gave.
pub(crate) struct Team {
    pub host: &'static Host,
    comm: Comm,
    owned: Mutex<Option<OwnedComm>>,
    pub rank: u32,
    pub size: u32,
}

/// A value that must be the same on all ranks, and what to say when it is not.
pub(crate) struct Same(pub u64, pub &'static str);

impl Team {
    /// Duplicates the communicator; collective.
    pub fn new(host: &'static Host, comm: Comm) -> Result<Team> {
        let owned = comm.dup()?;
        let comm = *owned;
        Ok(Team { host, comm, owned: Mutex::new(Some(owned)), rank: comm.rank()?, size: comm.size()? })
    }

    /// The communicator of this team, for the group of a file.
    pub fn comm(&self) -> Comm {
        self.comm
    }

    /// Gives the communicator back; collective.
    pub fn disband(&self) -> Result<()> {
        match held(&self.owned).take() {
            Some(owned) => Ok(owned.free()?),
            None => Ok(()),
        }
    }

    /// All ranks learn whether all succeeded, in one reduction.
    pub fn agree<T>(&self, mine: Result<T>) -> Result<T> {
        self.agree_on(mine, &[], &mut [])
    }

    /// As [`Team::agree`]; besides, the values of `same` must be equal everywhere (else
    /// [`ErrorKind::NotSame`]), and each word of `most` becomes the largest that any rank gave.
    ///
    /// Equality needs no second reduction: the largest of `x` and of `!x` tell the largest and smallest.
    pub fn agree_on<T>(&self, mine: Result<T>, same: &[Same], most: &mut [u64]) -> Result<T> {
        if self.size == 1 {
            return mine;
        }
        let code = mine.as_ref().map_or_else(|e| e.kind().code(), |_| 0);
        let mut words = vec![code];
        words.extend(same.iter().flat_map(|Same(value, _)| [*value, !*value]));
        words.extend_from_slice(most);
        self.comm.allreduce_u64(&mut words, Reduce::Max)?;
        let (pairs, rest) = words[1..].split_at(2 * same.len());
        most.copy_from_slice(rest);
        let mine = mine?;
        if let Some(kind) = ErrorKind::from_code(words[0]) {
            return Err(Error::Elsewhere(kind));
        }
        for (pair, Same(_, text)) in pairs.chunks_exact(2).zip(same) {
            if pair[0] != !pair[1] {
                return Err(Error::Usage(ErrorKind::NotSame, text));
            }
        }
        Ok(mine)
    }

    /// Rank 0 does `work`, and all ranks get its words or its error. `N` is the number of words.
    pub fn first_does<const N: usize>(&self, work: impl FnOnce() -> Result<[u64; N]>) -> Result<[u64; N]> {
        let mine = if self.rank == 0 { work() } else { Ok([0; N]) };
        if self.size == 1 {
            return mine;
        }
        let code = mine.as_ref().map_or_else(|e| e.kind().code(), |_| 0);
        let mut bytes = Vec::with_capacity(8 * (N + 1));
        bytes.extend_from_slice(&code.to_ne_bytes());
        for word in mine.as_ref().unwrap_or(&[0; N]) {
            bytes.extend_from_slice(&word.to_ne_bytes());
        }
        self.comm.bcast(&mut bytes, 0)?;
        mine?;
        let word = |i: usize| u64::from_ne_bytes(bytes[8 * i..8 * i + 8].try_into().expect("eight bytes"));
        match ErrorKind::from_code(word(0)) {
            Some(kind) => Err(Error::Elsewhere(kind)),
            None => Ok(std::array::from_fn(|i| word(i + 1))),
        }
    }

    /// The sum of `n` over the ranks before this one, and over all ranks.
    pub fn before_and_total(&self, n: u64) -> Result<(u64, u64)> {
        if self.size == 1 {
            return Ok((0, n));
        }
        let upto = self.comm.scan_sum_u64(n)?;
        let mut total = upto.to_ne_bytes();
        self.comm.bcast(&mut total, self.size - 1)?;
        Ok((upto - n, u64::from_ne_bytes(total)))
    }
}
