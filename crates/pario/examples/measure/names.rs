//! Files created (and closed), looked up and removed, compared with the round trips of a ping.

use pario::{OpenOptions, Partition};

use crate::Outcome;
use crate::clients::{COUNTS, together};
use crate::report::Case;

pub fn measure(name: &str, turns: u32, files: u64) -> Outcome {
    for count in COUNTS {
        let mut clients = (0..count)
            .map(|index| {
                let partition = pario::open(name)?;
                let directory = format!("/names-{count}-{index}");
                partition.create_dir(&directory)?;
                Ok((partition, directory))
            })
            .collect::<Outcome<Vec<_>>>()?;
        for _ in 0..turns {
            let mut each = |case: &str, work: &(dyn Fn(&Partition, &str) -> pario::Result<()> + Sync)| {
                let seconds = together(&mut clients, |(partition, directory)| {
                    (0..files).try_for_each(|file| Ok(work(partition, &format!("{directory}/file-{file}"))?))
                })?;
                let operations = files * count as u64;
                Case { name: case, size: 0, clients: count, operations, bytes: 0 }.print(seconds, None);
                Outcome::Ok(())
            };
            each("ping", &|partition, _| partition.ping(partition.metadata_server()))?;
            each("create", &|partition, path| {
                partition.open(path, OpenOptions::new().write(true).create_new(true))?.close()
            })?;
            each("stat", &|partition, path| partition.metadata(path).map(|_| ()))?;
            each("unlink", &|partition, path| partition.remove_file(path))?;
        }
        clients.iter().try_for_each(|(partition, directory)| partition.remove_dir(directory))?;
    }
    Ok(())
}
