//! A nonblocking read into GPU memory. Its bytes go to the GPU when the program completes its request, on the program's thread.

use std::sync::{Arc, OnceLock};

use pario_buffer::BounceBuffer;
use pario_mpi_host::Pending;

use crate::env::warn;
use crate::file::MpiFile;

/// A read in progress, and the host memory that it fills.
pub(crate) struct DeviceRead {
    file: Arc<MpiFile>,
    read: Arc<dyn Pending>,
    copy: Arc<BounceBuffer>,
    bytes: OnceLock<u64>,
}

impl DeviceRead {
    pub fn new(file: Arc<MpiFile>, read: Arc<dyn Pending>, copy: Arc<BounceBuffer>) -> DeviceRead {
        DeviceRead { file, read, copy, bytes: OnceLock::new() }
    }

    /// The number of bytes, after they are in GPU memory.
    fn finish(&self, bytes: u64) -> u64 {
        *self.bytes.get_or_init(|| match self.copy.copy_back() {
            Ok(()) => bytes,
            Err(error) => {
                warn(&format!("{}: {error}", self.file.path.display()));
                self.file.record_deferred_error(error.kind());
                0
            }
        })
    }
}

impl Pending for DeviceRead {
    fn poll(&self) -> Option<u64> {
        self.read.poll().map(|bytes| self.finish(bytes))
    }

    fn wait(&self) -> u64 {
        self.finish(self.read.wait())
    }
}
