//! The contenders of a comparison, and the arguments of `pario run` that start each of them.

use std::ffi::OsString;
use std::fmt;
use std::path::Path;

/// An I/O implementation that Pario is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rival {
    /// The MPI library's own MPI-IO.
    Host,
    /// Open MPI's copy of ROMIO.
    Romio,
    /// Open MPI's OMPIO.
    Ompio,
    /// No MPI-IO: each rank calls pwrite and pread for each of its pieces.
    Posix,
}

/// Where Pario's files are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParioStorage {
    /// In a directory.
    PlainFiles,
    /// On a partition that is made for each run.
    Partition,
}

/// A contender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contender {
    /// Another implementation.
    Rival(Rival),
    /// Pario.
    Pario {
        /// The storage of its files.
        storage: ParioStorage,
        /// The value of the hint `pario_strategy`.
        strategy: Option<String>,
    },
}

/// The inputs of a run besides the contender.
#[derive(Clone, Copy, Debug)]
pub struct RunSetting<'a> {
    /// The program `pario-workload`.
    pub program: &'a Path,
    /// The directory of its files, or of the partition's data.
    pub dir: &'a Path,
    /// The file of its results.
    pub json: &'a Path,
    /// The number of servers of a partition.
    pub servers: u16,
}

/// All contenders: the baseline first, Pario last.
pub fn contenders(rivals: &[Rival], storages: &[ParioStorage], strategies: &[String]) -> Vec<Contender> {
    let asked: Vec<Option<String>> = match strategies {
        [] => vec![None],
        some => some.iter().cloned().map(Some).collect(),
    };
    let mut all: Vec<Contender> = rivals.iter().copied().map(Contender::Rival).collect();
    for &storage in storages {
        all.extend(asked.iter().map(|strategy| Contender::Pario { storage, strategy: strategy.clone() }));
    }
    all
}

/// The order of the contenders in a round. Each runs once, and each round begins with another one.
pub fn order(contenders: usize, round: usize) -> impl Iterator<Item = usize> {
    (0..contenders).map(move |i| (i + round) % contenders)
}

impl Contender {
    /// The arguments of `pario` that run a workload.
    pub fn arguments(
        &self,
        setting: &RunSetting,
        workload: &str,
        preset: &str,
        ranks: u32,
        more: &[String],
    ) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec!["run".into(), "-n".into(), ranks.to_string().into()];
        let mut after: Vec<OsString> = Vec::new();
        let mut dir = setting.dir.as_os_str().to_owned();
        match self {
            Contender::Rival(rival) => {
                words.push("--host-io".into());
                let component = match rival {
                    Rival::Romio => Some("romio321"),
                    Rival::Ompio => Some("ompio"),
                    Rival::Host | Rival::Posix => None,
                };
                let mca = component.map(|name| ["--mca", "io", name]);
                words.extend(mca.into_iter().flatten().map(|word| format!("--launcher-arg={word}").into()));
                if *rival == Rival::Posix {
                    after.push("--posix".into());
                }
            }
            Contender::Pario { storage, strategy } => {
                if *storage == ParioStorage::Partition {
                    words.extend([
                        "--servers".into(),
                        setting.servers.to_string().into(),
                        "--no-keep".into(),
                    ]);
                    words.extend(["--storage".into(), dir]);
                    dir = "pario:/".into();
                }
                if let Some(strategy) = strategy {
                    after.extend(["--hint".into(), format!("pario_strategy={strategy}").into()]);
                }
            }
        }
        words.extend(["--".into(), setting.program.into(), workload.into()]);
        words.extend(["--preset".into(), preset.into(), "--dir".into(), dir]);
        words.extend(["--json".into(), setting.json.into()]);
        words.extend(after);
        words.extend(more.iter().map(Into::into));
        words
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Contender::Rival(rival) => f.write_str(match rival {
                Rival::Host => "host",
                Rival::Romio => "romio",
                Rival::Ompio => "ompio",
                Rival::Posix => "posix",
            }),
            Contender::Pario { storage, strategy } => {
                f.write_str(if *storage == ParioStorage::Partition {
                    "pario on a partition"
                } else {
                    "pario"
                })?;
                strategy.as_ref().map_or(Ok(()), |strategy| write!(f, ", {strategy}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(contender: &Contender) -> String {
        let place = |path| Path::new(path);
        let setting = RunSetting { program: place("/w"), dir: place("/d"), json: place("/j"), servers: 3 };
        let words = contender.arguments(&setting, "btio", "small", 4, &["--sync".to_owned()]);
        words.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn each_contender_has_its_own_arguments() {
        let all = contenders(
            &[Rival::Host, Rival::Romio, Rival::Posix],
            &[ParioStorage::PlainFiles, ParioStorage::Partition],
            &["two-phase".to_owned()],
        );
        let lines: Vec<String> = all.iter().map(words).collect();
        let rest = "-- /w btio --preset small --dir";
        assert_eq!(lines[0], format!("run -n 4 --host-io {rest} /d --json /j --sync"));
        let mca = "--launcher-arg=--mca --launcher-arg=io --launcher-arg=romio321";
        assert_eq!(lines[1], format!("run -n 4 --host-io {mca} {rest} /d --json /j --sync"));
        assert_eq!(lines[2], format!("run -n 4 --host-io {rest} /d --json /j --posix --sync"));
        let hint = "--hint pario_strategy=two-phase --sync";
        assert_eq!(lines[3], format!("run -n 4 {rest} /d --json /j {hint}"));
        assert_eq!(
            lines[4],
            format!("run -n 4 --servers 3 --no-keep --storage /d {rest} pario:/ --json /j {hint}")
        );
        assert_eq!(all[4].to_string(), "pario on a partition, two-phase");
        assert_eq!(contenders(&[Rival::Host], &[ParioStorage::PlainFiles], &[])[1].to_string(), "pario");
    }

    proptest! {
        #[test]
        fn all_run_in_each_round_and_begin_it_in_turn(n in 1usize..9, rounds in 1usize..30) {
            let mut firsts = vec![0; n];
            for round in 0..rounds {
                let mut seen: Vec<usize> = order(n, round).collect();
                firsts[seen[0]] += 1;
                seen.sort_unstable();
                prop_assert!(seen.iter().copied().eq(0..n));
            }
            let (most, least) = (firsts.iter().max().copied(), firsts.iter().min().copied());
            prop_assert!(most.unwrap_or(0) - least.unwrap_or(0) <= 1);
        }
    }
}
