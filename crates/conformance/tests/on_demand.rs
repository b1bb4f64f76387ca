//! Partitions that start when programs need them: one that is down and that its first user starts, and those that `pario run` makes
//! for a run, on this host and on several hosts. (`programs/partitions/first_use.c` verifies the bytes.)

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use pario_conformance::partition::{NAME, TestPartition};
use pario_conformance::{
    BOTH, Front, HostMpi, Hosts, Output, ProgramRun, Scratch, SourceKind, compile, libpario, pario, scratch,
    workspace_dir,
};

fn first_use(host: HostMpi, ranks: u32) -> ProgramRun {
    let source = workspace_dir().join("crates/conformance/programs/partitions/first_use.c");
    ProgramRun::new(host, ranks, compile(host, source, SourceKind::C, &[]))
}

/// A program that runs `pario` so that the servers that it starts do not count as processes of the test's run.
fn starter(dir: &Scratch, before: &str) -> PathBuf {
    let path = dir.join("pario");
    let text = format!(
        "#!/bin/sh\nunset PARIO_TEST_RUN\ndir={}\npario={}\n{before}\nexec \"$pario\" \"$@\"\n",
        dir.path().display(),
        pario().display()
    );
    fs::write(&path, text).expect("a scratch directory takes files");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it can be executable");
    path
}

/// A run that starts the partition if it is down, with this program.
fn starting(partition: &TestPartition, host: HostMpi, program: &Path) -> ProgramRun {
    first_use(host, 4)
        .preload(true)
        .arg(format!("pario:{NAME}/file"))
        .env("PARIO_HOME", &partition.home().to_string_lossy())
        .env("PARIO_AUTOSTART", "1")
        .env("PARIO_PROGRAM", &program.to_string_lossy())
        .env("PARIO_VERBOSE", "1")
}

/// How often the registry's entry of the partition was changed.
fn changes(partition: &TestPartition) -> u64 {
    let text = fs::read(partition.home().join("registry.json")).expect("there is a registry");
    let registry: serde_json::Value = serde_json::from_slice(&text).expect("it is JSON");
    registry["partitions"][NAME]["generation"].as_u64().expect("a number")
}

#[track_caller]
fn passed(output: &Output) {
    assert!(output.success() && output.stdout.contains("passed"), "{output}");
    assert_eq!(output.left, 0, "processes are left: {output}");
}

#[test]
fn the_first_user_starts_a_partition_that_is_down_once() {
    let partition = TestPartition::up(2, 4096, "2M");
    partition.pario(&["down", NAME]);
    let before = changes(&partition);
    partition.pario(&["up", NAME]);
    let by_one_start = changes(&partition) - before;
    let dir = scratch();
    let starter = starter(&dir, "echo started >> \"$dir/starts\"");
    for host in BOTH {
        partition.pario(&["down", NAME]);
        let before = changes(&partition);
        // Four ranks that open files of their own at once.
        passed(&starting(&partition, host, &starter).run());
        assert_eq!(changes(&partition) - before, by_one_start, "it was not started once");
        assert!(fs::read_to_string(dir.join("starts")).expect("it was asked").lines().count() >= 1);
        // It stays, and others find it.
        let count = |dir: &Scratch| fs::read_to_string(dir.join("starts")).expect("there").lines().count();
        let asked = count(&dir);
        passed(&starting(&partition, host, &starter).run());
        assert_eq!(count(&dir), asked, "it was started though it was up");
        partition.pario(&["status", NAME]);
    }
}

#[test]
fn two_programs_that_come_first_at_once_share_one_start() {
    let partition = TestPartition::up(2, 4096, "2M");
    partition.pario(&["down", NAME]);
    let before = changes(&partition);
    partition.pario(&["up", NAME]);
    let by_one_start = changes(&partition) - before;
    partition.pario(&["down", NAME]);
    let dir = scratch();
    let starter = starter(&dir, "");
    let before = changes(&partition);
    let mut runs = BOTH.map(|host| starting(&partition, host, &starter));
    for (run, file) in runs.iter_mut().zip(["one", "two"]) {
        run.ranks = 2;
        run.args = vec![format!("pario:{NAME}/{file}").into()];
    }
    for output in ProgramRun::together([&runs[0], &runs[1]]) {
        passed(&output);
    }
    assert_eq!(changes(&partition) - before, by_one_start, "it was not started once");
}

/// The first command that starts the partition is killed while it holds the partition's lock: another takes over.
#[test]
fn a_start_that_is_killed_in_the_middle_is_made_again() {
    let partition = TestPartition::up(2, 4096, "2M");
    for host in BOTH {
        partition.pario(&["down", NAME]);
        let dir = scratch();
        let kill = format!(
            "if mkdir \"$dir/first\" 2>/dev/null; then\n\"$pario\" \"$@\" & \
             while [ ! -s \"{}/locks/{NAME}\" ]; do :; done\nkill -9 $!\nkill -9 $$\nfi",
            partition.home().display()
        );
        let starter = starter(&dir, &kill);
        passed(&starting(&partition, host, &starter).run());
        assert!(dir.join("first").exists());
        partition.pario(&["status", NAME]);
    }
}

#[test]
fn a_partition_that_cannot_start_is_one_clear_line() {
    let partition = TestPartition::up(1, 4096, "2M");
    partition.pario(&["down", NAME]);
    let (data, moved) = (partition.data(0), partition.data(9));
    fs::rename(&data, &moved).expect("it is there");
    let dir = scratch();
    let starter = starter(&dir, "");
    for host in BOTH {
        let output = starting(&partition, host, &starter).arg("refused").run().expect_success();
        assert!(output.stdout.contains("refused"), "{output}");
        let lines: Vec<&str> = output.stderr.lines().filter(|line| line.contains("is down")).collect();
        let wanted = format!("partition {NAME} is down and was not started: server 0 on ");
        assert!(!lines.is_empty() && lines.iter().all(|line| line.contains(&wanted)), "{output}");
    }
    fs::rename(&moved, &data).expect("it is there");
}

/// `pario run` with these options, on a registry and a storage of its own.
fn front(dir: &Scratch, options: &[&str]) -> Front {
    let words = ["run", "--no-mount"].iter().chain(options).map(OsString::from).collect();
    let env = vec![("PARIO_LIB", libpario()), ("PARIO_HOME", dir.join("home")), ("TMPDIR", dir.join("tmp"))];
    Front { words, env }
}

/// Nothing is in the registry.
#[track_caller]
fn assert_no_partition(dir: &Scratch) {
    let list = Command::new(pario()).args(["list", "--json"]).env("PARIO_HOME", dir.join("home")).output();
    let said = String::from_utf8_lossy(&list.expect("pario runs").stdout).into_owned();
    assert!(!said.contains("run-"), "{said}");
}

#[test]
fn a_file_name_without_a_partition_gets_a_temporary_one() {
    for host in BOTH {
        let dir = scratch();
        fs::create_dir(dir.join("tmp")).expect("a scratch directory takes directories");
        let mut run = first_use(host, 2).arg("pario:/out");
        run.by = Some(front(&dir, &[]));
        let output = run.run();
        passed(&output);
        let said: Vec<&str> =
            output.stderr.lines().filter(|line| line.contains("is made for this run")).collect();
        assert!(
            said.len() == 1 && said[0].contains("pario:/out names none: 1 server on this host;"),
            "{output}"
        );
        // Three files that nobody wanted.
        assert!(output.stderr.contains("3 files of "), "{output}");
        assert_eq!(fs::read_dir(dir.join("tmp")).expect("there").count(), 0, "{output}");
        assert_no_partition(&dir);
    }
}

/// Servers on each of two hosts, with their data in the memory of each, which other hosts cannot access.
#[test]
fn a_run_has_servers_on_every_host() {
    let Some(hosts) = Hosts::new(2).map(Arc::new) else { return };
    for host in BOTH {
        for options in [&["--servers-per-node", "1"][..], &["--servers", "3"]] {
            let dir = scratch();
            let options =
                [options, &["--hosts", "host[1-2]", "--storage", "/dev/shm", "--cache", "1M"]].concat();
            let mut by = front(&dir, &options);
            by.env.push(("PARIO_SSH", hosts.ssh().to_owned()));
            let mut run = first_use(host, 2).hosts(&hosts).arg("pario:/out");
            run.by = Some(by);
            let output = run.run();
            passed(&output);
            assert!(output.stderr.contains("3 files of "), "{output}");
            assert_eq!(hosts.remains(), Vec::<String>::new(), "left on the hosts: {output}");
            assert_no_partition(&dir);
        }
    }
}

/// A job of Slurm on three hosts: every server starts and ends by `srun`, without an option and with.
#[test]
fn a_slurm_job_has_servers_on_its_nodes() {
    let Some(hosts) = Hosts::new(3).map(Arc::new) else { return };
    for host in BOTH {
        for options in [&[][..], &["--servers-per-node", "1"]] {
            let dir = scratch();
            let mut by = front(&dir, options);
            let slurm = [("SLURM_JOB_ID", "7".into()), ("SLURM_JOB_NODELIST", "host[1-3]".into())];
            by.env.extend(slurm);
            by.env.extend([("PARIO_SRUN", hosts.srun().to_owned()), ("PARIO_STORAGE", "/dev/shm".into())]);
            let mut run = first_use(host, 3).hosts(&hosts).arg("pario:/out");
            run.by = Some(by);
            let before = hosts.srun_calls().len();
            let output = run.run();
            passed(&output);
            let is_said = output.stderr.contains("pario:/out names none: 3 servers on host1, host2, host3;");
            assert_eq!(is_said, options.is_empty(), "{output}");
            let calls = hosts.srun_calls().split_off(before);
            for node in ["host1", "host2", "host3"] {
                let start = format!("--overlap --nodes=1 --ntasks=1 --nodelist {node} -- ");
                let parts = ["attached", "task"].map(|part| {
                    let is_it = |call: &&String| call.starts_with(&start) && call.ends_with(part);
                    calls.iter().filter(is_it).count()
                });
                assert!(parts[0] == 1 && parts[1] >= 1, "{parts:?} {calls:?}");
            }
            assert_eq!(hosts.remains(), Vec::<String>::new(), "left on the hosts: {output}");
            assert_no_partition(&dir);
        }
    }
}

/// The commands that a line says, in the order of their quotes.
fn commands(output: &str) -> Vec<String> {
    let line = output.lines().find(|line| line.contains("kept, because")).unwrap_or_default();
    line.split('\'').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Runs a command exactly as `pario run` said it, on the head if there are hosts.
#[track_caller]
fn shell(dir: &Scratch, command: &str, hosts: Option<&Hosts>) {
    let mut words = hosts.map_or_else(Vec::new, |hosts| hosts.prefix(0));
    // Another host begins at its root directory.
    words.extend(["sh".into(), "-c".into(), format!("cd {} && {command}", dir.path().display())]);
    let mut shell = Command::new(&words[0]);
    shell.args(&words[1..]).env_remove("PARIO_HOME").env_remove("SLURM_JOB_ID");
    shell.envs(hosts.map(|hosts| ("PARIO_SSH", hosts.ssh())));
    let output = shell.output().expect("a shell");
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The size of each file that `first_use` writes.
const FILE: u64 = 50_000 * 4;

/// A program that aborts has its files kept, on this host and on several; the commands that the run says work as they are.
#[test]
fn the_results_of_a_program_that_aborts_are_kept() {
    let hosts = Hosts::new(2).map(Arc::new);
    for host in BOTH {
        for hosts in [None, hosts.as_ref()] {
            let dir = scratch();
            fs::create_dir(dir.join("tmp")).expect("a scratch directory takes directories");
            let spread = ["--servers-per-node", "1", "--hosts", "host1,host2", "--storage", "/dev/shm"];
            let mut by = front(&dir, if hosts.is_some() { &spread } else { &["--servers", "2"] });
            let mut run = first_use(host, 2).arg("pario:/out").arg("fails").dir(dir.path());
            if let Some(hosts) = hosts {
                by.env.push(("PARIO_SSH", hosts.ssh().to_owned()));
                run = run.hosts(hosts);
            }
            run.by = Some(by);
            let output = run.run();
            assert!(!output.success(), "{output}");
            assert!(
                output.stderr.contains("3 files of 781.2 KiB (/out.0, /out.1, /out.all) on partition"),
                "{output}"
            );
            let [copy, erase] = &commands(&output.stderr)[..] else { panic!("{output}") };
            let target = copy.rsplit(' ').next().expect("a word").to_owned();
            shell(&dir, copy, hosts.map(|hosts| &**hosts));
            for (name, size) in [("out.0", FILE), ("out.1", FILE), ("out.all", 2 * FILE)] {
                assert_eq!(fs::metadata(dir.join(&target).join(name)).expect("a copy").len(), size, "{name}");
            }
            shell(&dir, erase, hosts.map(|hosts| &**hosts));
            let left = hosts.map_or_else(Vec::new, |hosts| hosts.remains());
            assert_eq!(left, Vec::<String>::new(), "left on the hosts: {output}");
            assert_eq!(fs::read_dir(dir.join("tmp")).expect("there").count(), 0, "{output}");
            assert_no_partition(&dir);
        }
    }
}

/// SIGTERM and SIGINT to `pario run` while a real program waits: it ends, and the results are copied.
#[test]
fn the_results_of_an_interrupted_program_are_copied() {
    for host in BOTH {
        for signal in ["INT", "TERM"] {
            let dir = scratch();
            fs::create_dir(dir.join("tmp")).expect("a scratch directory takes directories");
            // The launcher is behind a script that sends the signal when the program waits.
            let script = "env --default-signal=INT \"$@\" > out.txt & run=$!\n\
                until grep -q written out.txt; do sleep 0.02; done\nkill -$SIGNAL $run; wait $run";
            let program = first_use(host, 2).program;
            let mut command = Command::new("sh");
            command.args(["-c", script, "sh"]).arg(pario()).args(["run", "--no-mount", "--servers", "1"]);
            command.args([
                "--out",
                "out.*",
                "--to",
                "results",
                "--mpi",
                host.name(),
                "-n",
                "2",
                "--launcher",
            ]);
            command.arg(host.mpiexec()).arg("--").arg(program).args(["pario:/out", "waits"]);
            command.envs(front(&dir, &[]).env);
            command.env("SIGNAL", signal).current_dir(dir.path());
            let output = pario_conformance::execute(command, std::time::Duration::from_secs(100));
            assert!(
                output.stderr.contains("pario: interrupted; waiting for the program to end; then"),
                "{output}"
            );
            assert!(!output.stderr.contains("kept, because"), "{output}");
            for (name, size) in [("out.0", FILE), ("out.1", FILE), ("out.all", 2 * FILE)] {
                let copy = dir.join("results").join(name);
                assert_eq!(fs::metadata(copy).map(|found| found.len()).ok(), Some(size), "{name}: {output}");
            }
            assert_eq!(output.left, 0, "processes are left: {output}");
            assert_eq!(fs::read_dir(dir.join("tmp")).expect("there").count(), 0, "{output}");
            assert_no_partition(&dir);
        }
    }
}
