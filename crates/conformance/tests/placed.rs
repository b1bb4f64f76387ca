//! Unmodified programs that run by plan: their files have the same bytes as on the host alone, on the servers that the plan names.

mod pattern;
mod table;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use pario_conformance::partition::{NAME, Site, TestPartition};
use pario_conformance::{
    BOTH, HostMpi, Hosts, ProgramRun, Scratch, SourceKind, compile_text, execute, libpario, pario, scratch,
};
use pattern::{PLAIN, Setting, compare_placed};
use table::{all_hold, table_run};

/// Rank 0 writes a header that all ranks read, each rank a part of its own, shorter than that of the rank before, and all ranks
/// a log, three times.
const PROGRAM: &str = r#"
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#define PART 300000
#define HEAD 70000
int main(int argc, char **argv) {
    int rank, ranks, len, wrong = 0;
    MPI_File file;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    len = PART - 1000 * rank;
    unsigned char *part = malloc(PART), *head = malloc(HEAD), *back = malloc(PART);
    wrong |= MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    for (int round = 0; round < 3; round++) {
        MPI_Offset mine = HEAD + (MPI_Offset)rank * PART, log = HEAD + (MPI_Offset)ranks * PART;
        for (int i = 0; i < PART; i++) part[i] = (i * 7 + rank * 13 + round) % 251;
        for (int i = 0; i < HEAD; i++) head[i] = (i * 3 + round) % 250 + 1;
        if (rank == 0) wrong |= MPI_File_write_at(file, 0, head, HEAD, MPI_BYTE, MPI_STATUS_IGNORE);
        wrong |= MPI_File_write_at(file, mine, part, len, MPI_BYTE, MPI_STATUS_IGNORE);
        log += 100 * ((rank + round) % ranks);
        wrong |= MPI_File_write_at(file, log, part, 100, MPI_BYTE, MPI_STATUS_IGNORE);
        wrong |= MPI_File_sync(file);
        MPI_Barrier(MPI_COMM_WORLD);
        wrong |= MPI_File_sync(file);
        wrong |= MPI_File_read_at(file, 0, back, HEAD, MPI_BYTE, MPI_STATUS_IGNORE);
        wrong |= memcmp(back, head, HEAD) != 0;
        wrong |= MPI_File_read_at(file, mine, back, len, MPI_BYTE, MPI_STATUS_IGNORE);
        wrong |= memcmp(back, part, len) != 0;
        MPI_Barrier(MPI_COMM_WORLD);
    }
    wrong |= MPI_File_close(&file);
    MPI_Finalize();
    return wrong != 0;
}
"#;

const RANKS: u64 = 4;

/// Bytes of all parts, and of the holes between them.
const PARTS: u64 = RANKS * 300_000 - HOLES;
const HOLES: u64 = 6000;

#[test]
fn a_profiled_program_runs_by_its_plan() {
    for host in BOTH {
        let program = compile_text(host, "placed.c", PROGRAM, SourceKind::C, &[]);
        let program = program.to_str().expect("a path");
        let (dir, partition) = (scratch(), TestPartition::up(4, 65536, "4M"));
        let run = |arguments: &[&str]| {
            let mut command = Command::new(pario());
            command.args(arguments).current_dir(dir.path());
            command.env("PARIO_LIB", libpario()).env("PARIO_HOME", partition.home());
            execute(command, Duration::from_secs(60))
        };
        let succeed = |arguments: &[&str]| {
            let output = run(arguments);
            assert!(output.success(), "{arguments:?}: {}", output.stderr);
            output.stdout
        };
        let ranks = &RANKS.to_string()[..];
        succeed(&["run", "--host-io", "-n", ranks, "--", program, "out.dat"]);
        let bytes = std::fs::read(dir.join("out.dat")).expect("the host's file");
        succeed(&["profile", "-n", ranks, "--", program, "out.dat"]);
        succeed(&["plan", "pario-trace", "--out", "sim.plan"]);

        let by_plan = ["run", "--partition", "trial", "--no-mount", "--plan", "sim.plan", "-n"];
        succeed(&[&by_plan, &[ranks, "--", program, "pario:/out.dat"][..]].concat());
        assert!(partition.cat("/out.dat") == bytes, "{host:?}: the file is not the host's");
        let told = |path: &str| -> serde_json::Value {
            let told = partition.pario(&["stat", "--json", path]);
            serde_json::from_str::<serde_json::Value>(&told).expect("JSON")[0]["layout"].clone()
        };
        let layout = told("trial:/out.dat");
        assert_eq!(layout["placed"]["local"], PARTS, "{layout}");
        assert_eq!(layout["placed"]["copied"], 70_000, "{layout}");
        assert_eq!(layout["placed"]["central"], HOLES + RANKS * 100, "{layout}");
        let servers = layout["servers"].as_array().expect("a list");
        assert_eq!(servers.len() as u64, RANKS);
        let bytes_of = |server: &serde_json::Value| server["bytes"].as_u64().expect("a number");
        assert!(servers.iter().all(|server| (367_000..376_500).contains(&bytes_of(server))), "{layout}");
        partition.pario(&["check", "trial"]);

        if host == HostMpi::OpenMpi {
            continue;
        }

        // Servers that the user names, an input that is placed, and the file as it comes out again.
        let named = "0=3,1=3,2=3,3=3";
        let named =
            ["run", "--servers", "4", "--no-mount", "--plan", "sim.plan", "--place", named, "-n", ranks];
        let staged = ["--in", "out.dat", "--out", "out.dat", "--to", "back", "--", program, "pario:/out.dat"];
        succeed(&[&named[..], &staged[..]].concat());
        assert!(std::fs::read(dir.join("back/out.dat")).expect("a result") == bytes);
        partition.pario(&["rm", "trial:/out.dat"]);
        let plan = dir.join("sim.plan").to_string_lossy().into_owned();
        let source = dir.join("out.dat").to_string_lossy().into_owned();
        partition.pario(&["cp", "--plan", &plan, "--place", "0=3,1=3,2=3,3=3", &source, "trial:/"]);
        assert!(partition.cat("/out.dat") == bytes);
        let layout = told("trial:/out.dat");
        assert_eq!(layout["placed"]["local"], PARTS + 70_000, "{layout}");
        partition.pario(&["rm", "trial:/out.dat"]);

        // A plan for others does not count, and it is said; the program runs.
        let output = run(&[&by_plan, &["2", "--", program, "pario:/out.dat"][..]].concat());
        assert!(output.success(), "{}", output.stderr);
        assert!(output.stderr.contains("--rescale-to ranks=2"), "{}", output.stderr);
        assert!(told("trial:/out.dat")["placed"].is_null());
    }
}

/// Two ranks take turns in a file, and each goes from its last piece to its first: every word says where it belongs.
const BACKWARDS: &str = r#"
#include <mpi.h>
#include <stdint.h>
#define WORDS 12500
#define PIECES 20
int main(int argc, char **argv) {
    int rank, wrong = 0;
    static uint64_t piece[WORDS];
    MPI_File file;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    wrong |= MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    for (int i = PIECES - 2 + rank; i >= 0; i -= 2) {
        for (int k = 0; k < WORDS; k++) piece[k] = 1 + (uint64_t)i * WORDS + k;
        MPI_Offset at = (MPI_Offset)i * sizeof piece;
        wrong |= MPI_File_write_at(file, at, piece, sizeof piece, MPI_BYTE, MPI_STATUS_IGNORE);
    }
    wrong |= MPI_File_sync(file);
    wrong |= MPI_File_close(&file);
    MPI_Finalize();
    return wrong != 0;
}
"#;

/// An access to the pieces of a rank in the order of the profiled run needs one block after the other of the storage of its server.
#[test]
fn blocks_are_stored_in_the_order_of_the_profiled_run() {
    const PIECE: u64 = 12_500;
    let program = compile_text(HostMpi::Mpich, "backwards.c", BACKWARDS, SourceKind::C, &[]);
    let program = program.to_str().expect("a path");
    let (dir, partition) = (scratch(), TestPartition::up(2, 65536, "4M"));
    let succeed = |arguments: &[&str]| {
        let mut command = Command::new(pario());
        command.args(arguments).current_dir(dir.path());
        command.env("PARIO_LIB", libpario()).env("PARIO_HOME", partition.home());
        let output = execute(command, Duration::from_secs(60));
        assert!(output.success(), "{arguments:?}: {}", output.stderr);
        output.stdout
    };
    succeed(&["profile", "-n", "2", "--", program, "out.dat"]);
    succeed(&["plan", "pario-trace", "--out", "sim.plan"]);
    let run =
        ["run", "--partition", NAME, "--no-mount", "--plan", "sim.plan", "--place", "0=0,1=1", "-n", "2"];
    succeed(&[&run[..], &["--", program, "pario:/out.dat"]].concat());
    let bytes = std::fs::read(dir.join("out.dat")).expect("the program's file");
    assert!(partition.cat("/out.dat") == bytes, "the file is not the same");

    let told: serde_json::Value =
        serde_json::from_str(&succeed(&["stat", "--json", "trial:/out.dat"])).expect("JSON");
    assert_eq!(told[0]["layout"]["placed"]["by_first_use"], true, "{told}");
    for server in 0..2 {
        let stored = ordered_blocks(&partition.data(server));
        let word = |at: usize| u64::from_le_bytes(stored[at..at + 8].try_into().expect("eight bytes"));
        let words: Vec<u64> = (0..stored.len()).step_by(8).map(word).collect();
        // All of this rank's pieces, from the last to the first, and within each the words in their order.
        let used = (0..10).rev().flat_map(|turn| {
            let piece = 2 * turn + u64::from(server);
            1 + piece * PIECE..1 + (piece + 1) * PIECE
        });
        let place: std::collections::HashMap<u64, usize> = words.iter().copied().zip(0..).collect();
        let mut touched = std::collections::HashSet::new();
        for word in used {
            let block = place[&word] * 8 / BLOCK;
            if touched.insert(block) {
                assert_eq!(block, touched.len() - 1, "server {server}, word {word}");
            }
        }
        assert_eq!(touched.len(), (10 * PIECE as usize * 8).div_ceil(BLOCK));
    }
}

/// Bytes of the blocks of a partition that does not say.
const BLOCK: usize = 64 << 10;

/// The only file of ordered blocks below a server's data, without the order that it begins with.
fn ordered_blocks(data: &Path) -> Vec<u8> {
    let directories = std::fs::read_dir(data.join("parts")).expect("a store has parts");
    let files =
        directories.flat_map(|fan| std::fs::read_dir(fan.expect("a name").path()).expect("a directory"));
    let paths = files.map(|file| file.expect("a name").path());
    let found: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "ordered")).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    // This order is shorter than a block.
    std::fs::read(&found[0]).expect("it can be read").split_off(BLOCK)
}

/// Each rank's part is on the server of its host, wherever that is in the list of servers.
#[test]
fn placed_chunks_are_on_the_nodes_of_their_ranks() {
    let Some(hosts) = Hosts::new(3).map(Arc::new) else { return };
    let host = HostMpi::OpenMpi;
    let (dir, program) = (scratch(), compile_text(host, "placed.c", PROGRAM, SourceKind::C, &[]));
    let pario = |arguments: &[&str]| {
        let mut command = Command::new(pario());
        command.args(arguments).current_dir(dir.path()).env("PARIO_LIB", libpario());
        let output = execute(command, Duration::from_secs(60));
        assert!(output.success(), "{arguments:?}: {}", output.stderr);
    };
    pario(&["profile", "-n", "3", "--", program.to_str().expect("a path"), "out.dat"]);
    pario(&["plan", "pario-trace", "--out", "sim.plan"]);
    let partition = TestPartition::at(&hosts, &[2, 1, 3], "stripe_size = 65536\ncache = \"4M\"\n");
    let site = Site { partition: &partition, hints: "striping_factor=1;start_iodevice=2", nodes: &[] };
    // The file, by plan or not; how many bytes went to servers and back in messages.
    let run = |name: &str, plan: &str| {
        let run = ProgramRun::new(host, 3, &program).arg(format!("pario:{NAME}/{name}")).preload(true);
        let run = run.on(&site, Path::new("/nowhere")).at(&hosts, &[1, 2, 3]).env("PARIO_STATS", "json");
        let reports = run.env("PARIO_PLAN", plan).run().expect_success().reports();
        reports.iter().map(|report| report.total("server_bytes")).sum::<u64>()
    };
    let by_plan = run("out.dat", &dir.join("sim.plan").to_string_lossy());
    let without = run("striped", "");
    assert!(by_plan < without / 4, "{by_plan} and {without} bytes in messages");
    eprintln!("{by_plan} bytes in messages by plan, {without} without");
    let bytes = std::fs::read(dir.join("out.dat")).expect("the program's file");
    assert!(partition.cat("/out.dat") == bytes, "the file is not the same");
    let told = partition.pario(&["stat", "--json", "trial:/out.dat"]);
    let told =
        serde_json::from_str::<serde_json::Value>(&told).expect("JSON")[0]["layout"]["servers"].clone();
    for (server, host, held) in [(0, "host2", 369_000), (1, "host1", 370_000), (2, "host3", 368_000 + 3300)] {
        let found = told.as_array().expect("a list").iter().find(|found| found["server"] == server);
        let found = found.expect("it keeps something");
        assert_eq!((&found["host"], &found["bytes"]), (&host.into(), &held.into()), "{told}");
    }
}

/// A plan of any file: chunks of all lengths, each with another kind of placement, and first used in an order far from that
/// of the file.
fn any_plan(dir: &Scratch, ranks: u32) -> PathBuf {
    let list = |numbers: &[u32]| numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let all: Vec<u32> = (0..ranks).collect();
    let mut text = String::from("version = 1\nfrom = \"nobody\"\nprocesses = [\n");
    all.iter().for_each(|rank| text += &format!("  {{ label = \"{rank}\" }},\n"));
    text += "]\ngroups = [\n";
    for writers in [&[][..], &[0], &all] {
        text += &format!("  {{ users = [{}], writers = [{}] }},\n", list(&all), list(writers));
    }
    text += "]\n[[file]]\nname = \"*\"\nchunks = [\n";
    let mut offset = 0;
    for order in 0..400 {
        let length = [1, 17, 4096, 300, 10_000, 65_536, 1000][order % 7];
        let (placement, group) = match order % 5 {
            0 => ("\"duplicate\"".to_owned(), 0),
            1 => ("\"broadcast\"".to_owned(), 1),
            2 => ("\"central\"".to_owned(), 2),
            _ => (format!("\"local\", home = {}", order as u32 % ranks), 2),
        };
        text += &format!(
            "  {{ offset = {offset}, length = {length}, placement = {placement}, group = {group}, \
             order = {}, read = 0, written = 0, moved = 0 }},\n",
            order * 7 % 400
        );
        offset += length + order % 3 * 50;
    }
    let path = dir.join("any.plan");
    std::fs::write(&path, text + "]\n").expect("a scratch directory takes new files");
    path
}

/// Clauses of the standard, on files with bytes of all kinds of placement.
#[track_caller]
fn clauses(host: HostMpi, ranks: u32, program: &str, hints: &str, nodes: &[u32], place: &str) {
    let (dir, partition) = (scratch(), TestPartition::up(3, 4096, "4M"));
    let site = Site { partition: &partition, hints, nodes };
    let (files, plan) = (scratch(), any_plan(&dir, ranks));
    let run = table_run(host, ranks, program, &files).on(&site, files.path());
    let run = run.env("PARIO_PLAN", &plan.to_string_lossy()).env("PARIO_PLACE", place);
    let output = run.run();
    all_hold(&output);
    assert!(!output.stderr.contains("does not count"), "{output}");
}

#[test]
fn atomic_mode() {
    clauses(HostMpi::Mpich, 2, "atomic", "", &[], "");
}

#[test]
fn collective_opens_by_all_and_by_some_ranks() {
    clauses(HostMpi::OpenMpi, 2, "opens", "", &[], "0=2");
}

#[test]
fn collective_calls_over_nodes() {
    let hints = "pario_strategy=two-phase;cb_buffer_size=8192";
    clauses(HostMpi::Mpich, 4, "collective", hints, &[0, 0, 1, 1], "node0=0,node1=2");
}

#[test]
fn pointers() {
    clauses(HostMpi::OpenMpi, 3, "pointers", "", &[0, 1, 1], "1=1");
}

/// Bytes of these are the host's.
const SHAPES: &[&str] = &[
    "block3d:size=13,calls=2",
    "random:size=30,piece=64,op=splitat,calls=2,cut=1",
    "strided:size=50,piece=1,mem=spread,old=1",
    "holes:size=20,piece=1000,op=iall,calls=2,old=1",
    "ordered:size=100,op=ordered,old=1",
];

const SETTINGS: &[Setting] = &[
    PLAIN,
    Setting { hints: "pario_strategy=data-shipping", nodes: &[] },
    Setting { hints: "pario_strategy=two-phase", nodes: &[0, 1] },
];

#[test]
fn shapes() {
    let (dir, partition) = (scratch(), TestPartition::up(3, 65536, "2M"));
    let plan = any_plan(&dir, 2);
    let outputs = compare_placed(&partition, HostMpi::OpenMpi, 2, SHAPES, SETTINGS, |run| {
        run.env("PARIO_PLAN", &plan.to_string_lossy()).env("PARIO_PLACE", "node1=2")
    });
    assert!(outputs.iter().all(|output| !output.stderr.contains("does not count")), "{}", outputs[0]);
}
