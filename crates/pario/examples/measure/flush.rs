//! Write-back of caches full of dirty data, compared with a plain file in the same place. Both files are new.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use pario::OpenOptions;

use crate::Outcome;
use crate::report::Case;

const PIECE: usize = 1 << 20;

pub fn measure(name: &str, turns: u32, dir: &Path, mib: u64) -> Outcome {
    let partition = pario::open(name)?;
    let piece = vec![7; PIECE];
    let plain_path = dir.join("plain");
    let bytes = mib << 20;
    for turn in 0..turns {
        // To the system, as close does; and to the medium.
        for (case, durable) in [("flush", false), ("sync", true)] {
            let case = Case { name: case, size: PIECE, clients: 1, operations: mib, bytes };
            let path = format!("/{}-{turn}", case.name);
            let file = partition.open(&path, OpenOptions::new().write(true).create_new(true))?;
            let pario = |()| {
                (0..bytes).step_by(PIECE).try_for_each(|at| file.write_at(&piece, at))?;
                let start = Instant::now();
                if durable { file.sync() } else { file.flush() }?;
                Ok(start.elapsed().as_secs_f64())
            };
            let plain = |()| {
                let start = Instant::now();
                let mut plain = fs::File::create(&plain_path)?;
                (0..mib).try_for_each(|_| plain.write_all(&piece))?;
                if durable {
                    plain.sync_data()?;
                }
                let seconds = start.elapsed().as_secs_f64();
                fs::remove_file(&plain_path)?;
                Ok(seconds)
            };
            case.beside(turn, &mut (), |_| pario(()), |_| plain(()))?;
            file.close()?;
            partition.remove_file(&path)?;
            // Data that was only flushed must not add to the time of the next measurement.
            partition.sync()?;
        }
    }
    Ok(())
}
