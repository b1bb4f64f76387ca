//! The partition file as a source of hints: it counts more than the defaults, and less than a hint file, `PARIO_HINTS` and the
//! info object. What is in force is what programs see, and what accesses do.

use std::collections::HashMap;

use pario_conformance::partition::{NAME, TestPartition};
use pario_conformance::{
    BOTH, HostMpi, ProgramRun, SourceKind, StatsReport, compile, scratch, workspace_dir,
};

const PLAIN: &str = "stripe_size = 65536\ncache = \"8M\"\nlisten = \"127.0.0.1\"\n";

/// What a run of the program saw.
struct Seen {
    hints: HashMap<String, String>,
    report: StatsReport,
}

impl Seen {
    #[track_caller]
    fn shows(&self, expected: &[(&str, &str)]) {
        for (name, value) in expected {
            assert_eq!(self.hints.get(*name).map(String::as_str), Some(*value), "{name}");
        }
    }
}

/// Runs the program with these hints of its info object, one rank as if on another host.
#[track_caller]
fn run(partition: &TestPartition, host: HostMpi, info: &[&str], environment: &[(&str, &str)]) -> Seen {
    let source = workspace_dir().join("crates/conformance/programs/partitions/in_force.c");
    let program = compile(host, source, SourceKind::C, &[]);
    let run = ProgramRun::new(host, 2, program).arg(format!("pario:{NAME}/f")).args(info.iter().copied());
    let run = run.preload(true).nodes(&[0, 1]).timeout(60).env("PARIO_STATS", "json");
    let run = run.env("PARIO_HOME", &partition.home().to_string_lossy());
    let output =
        environment.iter().fold(run, |run, (name, value)| run.env(name, value)).run().expect_success();
    assert!(output.stdout.contains("passed"), "{output}");
    let pair = |line: &str| line.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    let [report] = &output.reports()[..] else { panic!("one file: {output}") };
    Seen { hints: output.stdout.lines().filter_map(pair).collect(), report: report.clone() }
}

#[test]
fn a_partition_file_sets_hints_and_every_other_source_counts_more() {
    let partition = TestPartition::described(
        2,
        &format!(
            "{PLAIN}strategy = \"two-phase\"\nnetwork_buffer = \"16k\"\ntier1_size = \"1M\"\n\
             tier1_high_water = \"80%\"\ntier1_low_water = \"40%\"\n"
        ),
    );
    let file = scratch();
    let hints = file.join("hints");
    std::fs::write(&hints, "pario_tier1_size 2M\npario_tier1_high 70\n")
        .expect("a scratch directory takes files");
    for host in BOTH {
        let seen = run(&partition, host, &[], &[]);
        seen.shows(&[
            ("pario_strategy", "two-phase"),
            ("pario_network_buffer", "16384"),
            ("pario_tier1", "automatic"),
            ("pario_tier1_size", "1048576"),
            ("pario_tier1_high", "80"),
            ("pario_tier1_low", "40"),
        ]);
        assert!(seen.report.wrote_by("two-phase"), "{host:?}");
        let seen = run(
            &partition,
            host,
            &["pario_strategy", "independent"],
            &[
                ("PARIO_HINTS_FILE", &hints.to_string_lossy()),
                ("PARIO_HINTS", "pario_tier1_high=60;pario_network_buffer=1M"),
            ],
        );
        seen.shows(&[
            ("pario_strategy", "independent"),
            ("pario_network_buffer", "1048576"),
            ("pario_tier1_size", "2097152"),
            ("pario_tier1_high", "60"),
            ("pario_tier1_low", "40"),
        ]);
        assert!(!seen.report.wrote_by("two-phase"), "{host:?}");
    }
}

/// A rank of another host needs a message for each buffer of its data.
#[test]
fn the_network_buffer_limits_messages() {
    let requests = |more: &str, environment: &[(&str, &str)]| {
        let partition = TestPartition::described(1, &format!("{PLAIN}strategy = \"independent\"\n{more}"));
        BOTH.map(|host| run(&partition, host, &[], environment).report.total("server_requests"))
    };
    // Of 1 MiB that one rank writes and reads.
    let small = requests("network_buffer = 4096\n", &[]);
    let large = requests("network_buffer = 4096\n", &[("PARIO_HINTS", "pario_network_buffer=1M")]);
    assert!(small.iter().all(|requests| *requests >= 2 * 256), "{small:?}");
    assert!(large.iter().all(|requests| *requests < 100), "{large:?}");
}

/// Without a strategy of its own the program takes that of the partition; switched off, tier 1 stays off.
#[test]
fn a_partition_file_chooses_and_forbids_tier_1() {
    let partition = TestPartition::described(2, &format!("{PLAIN}strategy = \"client-directed\"\n"));
    for host in BOTH {
        let seen = run(&partition, host, &[], &[]);
        seen.shows(&[("pario_strategy", "client-directed"), ("pario_tier1_size", "67108864")]);
        assert!(seen.report.wrote_by("client-directed"), "{host:?}");
    }
    drop(partition);
    let partition = TestPartition::described(2, &format!("{PLAIN}tier1 = false\n"));
    for host in BOTH {
        let seen = run(&partition, host, &["pario_tier1", "enable"], &[]);
        seen.shows(&[("pario_tier1", "disable")]);
        assert!(!seen.report.wrote_by("client-directed"), "{host:?}");
    }
}
