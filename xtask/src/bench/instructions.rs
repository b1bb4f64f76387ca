//! Instructions of a few operations, counted by valgrind's callgrind: a figure that a busy machine does not change.
//!
//! The program is `xtask/bench/instructions.c`. It runs twice with different numbers of operations; the difference is that of
//! the operations alone, without start-up. Only instructions inside `libpario.so` count, because a rank that waits
//! for another executes an arbitrary number of the host MPI's. The figure is the sum over all ranks and threads,
//! and the median of several such differences. Cases with one rank repeat to the instruction; with four ranks, Pario's own
//! waiting is in the figure as well, and the spread shows how much.
//!
//! `--against CHECKOUT` measures the release build of another checkout in the same way and shows the difference; `--of CHECKOUT`
//! measures it alone.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::partition::network::Between;
use super::partition::site::Site;
use crate::host::MPICH;
use crate::place;
use crate::program::{self, Failure, Outcome, at};
use crate::{setup, test};

const HELP: &str = "\
usage: cargo xtask bench instructions [--against CHECKOUT | --of CHECKOUT]

Counts instructions inside libpario.so by valgrind --tool=callgrind.
  --against CHECKOUT   also measures the release build of another checkout of the project (target/release in it)
  --of CHECKOUT        measures only that one, and builds nothing
";

/// Differences per case; the median counts.
const REPEATS: usize = 3;
/// The partition's name.
const PARTITION: &str = "large";

struct Case {
    label: &'static str,
    operation: &'static str,
    ranks: u32,
    on_partition: bool,
    /// The two numbers of operations whose difference is taken.
    counts: [u64; 2],
}

/// The strategy is fixed: `auto` decides by time, which valgrind changes.
const HINTS: &str = "PARIO_HINTS=pario_strategy=two-phase";

const CASES: &[Case] = &[
    Case {
        label: "cached 4 KiB write, partition",
        operation: "write",
        ranks: 1,
        on_partition: true,
        counts: [1000, 11000],
    },
    Case {
        label: "cached 4 KiB read, partition",
        operation: "read",
        ranks: 1,
        on_partition: true,
        counts: [1000, 11000],
    },
    Case {
        label: "4 KiB write, plain file",
        operation: "write",
        ranks: 1,
        on_partition: false,
        counts: [1000, 11000],
    },
    Case {
        label: "4 KiB read, plain file",
        operation: "read",
        ranks: 1,
        on_partition: false,
        counts: [1000, 11000],
    },
    Case {
        label: "set_view of one rank",
        operation: "set-view",
        ranks: 1,
        on_partition: false,
        counts: [20, 120],
    },
    Case { label: "set_view", operation: "set-view", ranks: 4, on_partition: false, counts: [20, 120] },
    Case {
        label: "BT collective write of one rank, plain file",
        operation: "bt-alone",
        ranks: 1,
        on_partition: false,
        counts: [2, 12],
    },
    Case {
        label: "BT collective write of one rank, partition",
        operation: "bt-alone",
        ranks: 1,
        on_partition: true,
        counts: [2, 12],
    },
    Case {
        label: "BT collective write, plain file",
        operation: "bt",
        ranks: 4,
        on_partition: false,
        counts: [2, 12],
    },
    Case {
        label: "BT collective write, partition",
        operation: "bt",
        ranks: 4,
        on_partition: true,
        counts: [2, 12],
    },
];

pub fn run(arguments: &[String]) -> Outcome {
    let this = Build { name: "this checkout", dir: place::target().join("release") };
    let other =
        |checkout: &String| Build { name: "the other", dir: Path::new(checkout).join("target/release") };
    let builds = match arguments {
        [] => vec![this],
        [option] if option == "--help" => {
            print!("{HELP}");
            return Ok(());
        }
        [option, checkout] if option == "--against" => vec![other(checkout), this],
        [option, checkout] if option == "--of" => vec![other(checkout)],
        _ => return Err(Failure::new(format!("wrong arguments\n{HELP}"))),
    };
    setup::compilers_and_mpis()?;
    if !program::works("valgrind", &["--version"]) {
        return Err(Failure::new("valgrind is not installed"));
    }
    if arguments.first().is_none_or(|option| option != "--of") {
        test::release_build()?;
    }
    let program = MPICH.compile("xtask/bench/instructions.c", &place::target().join("bench"))?;
    println!(
        "\nInstructions inside libpario.so per operation, all ranks together (MPICH, valgrind --tool=callgrind): \
         the difference\nof two runs divided by the difference of their counts, median of {REPEATS}. Spread: \
         (largest − smallest) / median.\n"
    );
    let mut columns = Vec::new();
    for build in &builds {
        columns.push(build.measure(&program)?);
    }
    show(&builds, &columns);
    Ok(())
}

/// A release build whose library and program are measured.
struct Build {
    name: &'static str,
    dir: PathBuf,
}

impl Build {
    fn measure(&self, program: &Path) -> Outcome<Vec<Sample>> {
        let site = Site::create(&place::target().join("bench/instructions"), &self.dir.join("pario"))?;
        let partition = site.up(PARTITION, 1, &["cache=256M"], &Between::Nothing)?;
        let home = partition.home();
        CASES
            .iter()
            .map(|case| {
                let mut differences = Vec::new();
                for _ in 0..REPEATS {
                    let [few, many] = case.counts;
                    let base = self.instructions(case, few, program, site.dir(), &home)?;
                    let all = self.instructions(case, many, program, site.dir(), &home)?;
                    differences.push(all.saturating_sub(base) as f64 / (many - few) as f64);
                }
                let sample = Sample::of(differences);
                println!("{}: {}: {sample}", self.name, case.label);
                Ok(sample)
            })
            .collect()
    }

    /// The instructions of one run inside the library, of all ranks.
    fn instructions(&self, case: &Case, count: u64, program: &Path, dir: &Path, home: &Path) -> Outcome<u64> {
        let profiles = dir.join("callgrind");
        at(&profiles, std::fs::create_dir_all(&profiles))?;
        let library = self.dir.join("libpario.so");
        let file = match case.on_partition {
            true => PathBuf::from(format!("pario:{PARTITION}/file")),
            false => dir.join("file"),
        };
        let mut command: Command = MPICH.launch(case.ranks);
        command.arg("env").arg(format!("LD_PRELOAD={}", library.display())).arg(HINTS);
        command.arg(format!("PARIO_HOME={}", home.display()));
        command.args(["valgrind", "--tool=callgrind", "--compress-strings=no", "--compress-pos=no"]);
        command.arg(format!("--callgrind-out-file={}", profiles.join("%p").display()));
        command.arg(program).arg(case.operation).arg(file).arg(count.to_string());
        program::stdout(&mut command)?;
        let mut sum = 0;
        for entry in at(&profiles, std::fs::read_dir(&profiles))? {
            let path = at(&profiles, entry)?.path();
            let text = at(&path, std::fs::read(&path))?;
            sum += inside_library(&String::from_utf8_lossy(&text));
        }
        at(&profiles, std::fs::remove_dir_all(&profiles))?;
        Ok(sum)
    }
}

/// The instructions that a callgrind profile with uncompressed names and positions attributes to the library itself. The line
/// after a `calls=` line is the cost of the callee, which is counted where the callee is.
fn inside_library(profile: &str) -> u64 {
    let mut sum = 0;
    let mut inside = false;
    let mut callee = false;
    for line in profile.lines() {
        if let Some(object) = line.strip_prefix("ob=") {
            inside = object.ends_with("/libpario.so");
        } else if line.starts_with("calls=") {
            callee = true;
        } else if line.starts_with(|first: char| first.is_ascii_digit()) {
            if inside && !callee {
                let cost = line.split(' ').nth(1).and_then(|cost| cost.parse::<u64>().ok());
                sum += cost.unwrap_or(0);
            }
            callee = false;
        }
    }
    sum
}

struct Sample {
    median: f64,
    /// (largest − smallest) / median.
    spread: f64,
}

impl Sample {
    fn of(mut values: Vec<f64>) -> Sample {
        values.sort_by(f64::total_cmp);
        let median = values[values.len() / 2];
        let spread = (values[values.len() - 1] - values[0]) / median;
        Sample { median, spread }
    }
}

impl std::fmt::Display for Sample {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.0} (spread {:.1} %)", self.median, 100.0 * self.spread)
    }
}

fn show(builds: &[Build], columns: &[Vec<Sample>]) {
    print!("\n{:<44}", "");
    builds.iter().for_each(|build| print!("{:>28}", build.name));
    println!();
    for (row, case) in CASES.iter().enumerate() {
        print!("{:<44}", case.label);
        columns.iter().for_each(|column| print!("{:>28}", column[row].to_string()));
        if let [before, now] = columns {
            print!("{:>+8.2} %", 100.0 * (now[row].median / before[row].median - 1.0));
        }
        println!();
    }
}

#[cfg(test)]
mod tests {
    use super::inside_library;

    #[test]
    fn only_the_library_itself_counts() {
        let profile = "events: Ir\n\nob=/x/libmpich.so\nfn=a\n0 7\ncob=/x/libpario.so\ncfn=b\ncalls=1 0\n0 100\n\n\
                       ob=/x/libpario.so\nfn=b\n3 5\ncfn=c\ncalls=2 9\n3 40\n4 6\n\nob=???\nfn=d\n0 9\n";
        assert_eq!(inside_library(profile), 11);
    }
}
