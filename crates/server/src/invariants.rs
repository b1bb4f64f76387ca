//! The invariants of a server's locks and name space, which simulations check between steps.

use std::path::Path;
use std::sync::Arc;

use pario_runtime::simulation::file_system;
use pario_runtime::simulation::invariants::{Depth, watch};

use crate::core::Core;
use crate::metadata::Inner;

/// Checks the server from now on.
pub(crate) fn watch_server(core: &Arc<Core>) {
    watch("range locks", core, |core, depth| core.locks.check_invariants(depth));
    if core.metadata.is_some() {
        watch("name space", core, check_names);
    }
}

fn check_names(core: &Core, depth: Depth) -> Result<(), String> {
    let Some(metadata) = &core.metadata else { return Ok(()) };
    let read = |path: &Path| file_system::content_for_check(path);
    let check = |inner: &Inner| {
        inner.space.check_invariants()?;
        match depth {
            Depth::Quick => Ok(()),
            // The name space learns of data that the disk has dropped at the next sync.
            Depth::Complete if file_system::has_lost_data() => Ok(()),
            Depth::Complete => inner.space.check_replay(&read),
            Depth::Idle if inner.space.counts().open_files > 0 => {
                Err("files are open without clients".to_owned())
            }
            Depth::Idle => Ok(()),
        }
    };
    metadata.inner.inspect(check).unwrap_or(Ok(()))
}
