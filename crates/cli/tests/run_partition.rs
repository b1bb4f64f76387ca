//! `pario run` on partitions: real servers, and a launcher made up for the purpose that starts one rank, a shell script
//! which uses `pario` itself on the files of the partition.

mod bench;

use bench::{Bench, text};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Notes what there is of the partition, so that the test knows what must not be there afterwards.
const NOTES: &str = r#"
printf '%s\n' "$PARIO_HOME" "$PARIO_PARTITION" "$PARIO_MOUNT" > variables
pario list --json | sed -n 's/.*"id": "\(.*\)".*/\1/p' > id
pario status "$PARIO_PARTITION" --json | sed -n 's/.*"pid": \([0-9]*\).*/\1/p' > pids
"#;

struct Site {
    bench: Bench,
}

impl Site {
    fn new(name: &str) -> Site {
        let bench = Bench::new(&format!("run-partition-{name}"));
        bench.library();
        bench.script("launch", "[ \"$1\" = --version ] && exit; shift 2; exec \"$@\"");
        std::fs::create_dir(bench.path("tmp")).expect("a directory");
        Site { bench }
    }

    /// `pario run` of a script that first notes what there is.
    fn run(&self, options: &[&str], script: &str) -> Command {
        let program = self.bench.script("program", &format!("{NOTES}\n{script}"));
        let launcher = self.bench.path("launch");
        let mut command = self.pario(&["run", "--mpi", "mpich", "-n", "1", "--launcher"]);
        command.arg(launcher).args(options).arg("--").arg(program);
        command
    }

    fn pario(&self, arguments: &[&str]) -> Command {
        let mut command = self.with_path(self.bench.pario(arguments));
        command.env("TMPDIR", self.bench.path("tmp")).env("PARIO_HOME", self.bench.path("home"));
        for name in ["PARIO_PARTITION", "PARIO_MOUNT", "PARIO_RUN", "PARIO_STORAGE", "SLURM_JOB_ID"] {
            command.env_remove(name);
        }
        command
    }

    /// The command, with `pario` in its `PATH`.
    fn with_path(&self, mut command: Command) -> Command {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let paths = std::iter::once(self.bench.path("bin")).chain(std::env::split_paths(&path));
        command.env("PATH", std::env::join_paths(paths).expect("a path"));
        command
    }

    fn output(&self, options: &[&str], script: &str) -> Output {
        self.run(options, script).output().expect("pario runs")
    }

    /// What it prints, if it does what it should.
    fn good(&self, arguments: &[&str]) -> String {
        let output = self.pario(arguments).output().expect("pario runs");
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    fn lines(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.bench.path(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// What servers have in memory.
    fn run_directory(&self) -> PathBuf {
        let user = std::fs::metadata("/proc/self").expect("a process").uid();
        PathBuf::from(format!("/dev/shm/pario-{user}/{}", self.lines("id")[0]))
    }

    /// Nothing is left of the partition that the script noted.
    fn assert_nothing_left(&self, servers: usize) {
        let (variables, pids) = (self.lines("variables"), self.lines("pids"));
        assert_eq!((variables.len(), pids.len()), (3, servers), "{variables:?} {pids:?}");
        assert_eq!(variables[0], self.bench.path("home").to_str().expect("text"));
        assert!(!self.good(&["list"]).contains(&variables[1]), "{variables:?}");
        assert_eq!(std::fs::read_dir(self.bench.path("tmp")).expect("there").count(), 0);
        for inner in ["secrets", "locks", "logs"] {
            let left = std::fs::read_dir(self.bench.path("home").join(inner)).into_iter().flatten().count();
            assert_eq!(left, 0, "{inner}");
        }
        assert!(!self.run_directory().exists());
        for pid in pids {
            await_that(&format!("process {pid} ends"), || !is_alive(&pid));
        }
    }
}

/// Whether there is such a process, other than one that has ended and waits to be noticed.
fn is_alive(pid: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z') && !line.contains('X'))
}

fn await_that(what: &str, mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn signal(process: &Child, name: &str) {
    let kill = Command::new("kill").arg(format!("-{name}")).arg(process.id().to_string()).status();
    assert!(kill.expect("kill runs").success());
}

#[test]
fn a_run_has_a_partition_of_its_own() {
    let site = Site::new("whole");
    std::fs::create_dir_all(site.bench.path("data/deep")).expect("a directory");
    std::fs::write(site.bench.path("data/deep/in"), "input").expect("written");
    std::fs::write(site.bench.path("more"), "more").expect("written");
    let script = r#"
test "$(pario cat pario:/data/deep/in)$(pario cat $PARIO_PARTITION:/more)" = inputmore || exit 9
pario mkdir pario:/out pario:/out/a
for name in out/a/x.nc out/y.nc out/z.txt log; do echo "$name" > own; pario cp own "pario:/$name"; done
test ! -e "$PARIO_MOUNT" && echo done"#;
    let options =
        ["--servers", "2", "--cache", "1M", "--stripe-size", "64k", "--no-mount", "--in", "data", "more"];
    let options = [&options[..], &["--out", "**/*.nc", "/log", "--to", "results/new"]].concat();
    let output = site.output(&options, script);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stderr);
    assert_eq!(text(&output.stdout), "done\n");
    // One of the program's files was not wanted; the inputs are not the program's.
    assert!(
        said.starts_with("pario: 1 file of 10 B (/out/z.txt) that no --out took: removed with "),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
    for name in ["out/a/x.nc", "out/y.nc", "log"] {
        assert_eq!(site.lines(&format!("results/new/{name}")), [name]);
    }
    assert!(!site.bench.path("results/new/out/z.txt").exists());
    site.assert_nothing_left(2);
}

#[test]
fn a_program_sees_its_partition_as_a_directory() {
    if !Path::new("/dev/fuse").exists() {
        eprintln!("skipped: there is no /dev/fuse");
        return;
    }
    let site = Site::new("mounted");
    std::fs::write(site.bench.path("input"), "input").expect("written");
    let script = r#"
test "$(cat "$PARIO_MOUNT/input")" = input || exit 9
echo result > "$PARIO_MOUNT/result"; pario cat pario:/result; echo "$PARIO_MOUNT" > mount"#;
    let options = ["--servers", "2", "--in", "input", "--out", "result", "--to", "results"];
    let output = site.output(&options, script);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!((text(&output.stdout).as_str(), text(&output.stderr).as_str()), ("result\n", ""));
    assert_eq!(site.lines("results/result"), ["result"]);
    assert!(!Path::new(&site.lines("mount")[0]).exists());
    site.assert_nothing_left(2);

    // Where it cannot be mounted the program runs all the same, and whoever asks is told.
    let options = ["--servers", "1", "--in", "input", "--mount", ".", "--verbose"];
    let output = site.output(&options, "echo done");
    assert_eq!(text(&output.stdout), "done\n", "{}", text(&output.stderr));
    let said = text(&output.stderr);
    let name = &site.lines("variables")[1];
    assert!(said.contains(&format!("pario: partition {name} is not mounted: cannot mount at ")), "{said}");
    site.assert_nothing_left(1);
}

#[test]
fn a_dry_run_does_nothing() {
    let site = Site::new("dry");
    let options = ["--servers", "2", "--mount", "/fast", "--out", "x", "--to", "results", "--dry-run"];
    let output = site.output(&options, "exit 3");
    let shown = text(&output.stdout);
    for words in [
        "# partition run-",
        ", made for this run in ",
        " PARIO_MOUNT=/fast ",
        ":/x is copied to results\n# then: partition run-",
    ] {
        assert!(output.status.success() && shown.contains(words), "{shown}");
    }
    assert_eq!(std::fs::read_dir(site.bench.path("tmp")).expect("there").count(), 0);
    assert!(!site.bench.path("results").exists() && !site.bench.path("variables").exists());
}

/// The commands that a line says, in the order of their quotes.
fn commands(line: &str) -> Vec<String> {
    line.split('\'').skip(1).step_by(2).map(str::to_owned).collect()
}

impl Site {
    /// Runs a command that a line said, exactly as it is.
    fn shell(&self, command: &str) {
        let mut shell = self.with_path(Command::new("sh"));
        shell.args(["-c", command]).current_dir(self.bench.path("")).env_remove("PARIO_HOME");
        let output = shell.output().expect("a shell");
        assert!(output.status.success(), "{command}: {}", text(&output.stderr));
    }

    /// The partition is kept as the line says: all commands work on it, those of the line as they are.
    #[track_caller]
    fn assert_kept(&self, line: &str, target: &str, files: &[(&str, &str)], servers: usize) {
        let name = self.lines("variables")[1].clone();
        let [copy, erase] = &commands(line)[..] else { panic!("{line}") };
        // Its servers have stored everything and ended.
        let listed = self.good(&["list"]);
        assert!(listed.contains(&format!("{name}  down")), "{listed}");
        assert!(!self.run_directory().exists());
        self.shell(copy);
        for (file, wanted) in files {
            assert_eq!(self.lines(&format!("{target}/{file}").replace("NAME", &name)), [*wanted], "{line}");
        }
        let (file, _) = files[0];
        self.good(&["stat", &format!("{name}:/{file}")]);
        self.good(&["rm", &format!("{name}:/{file}")]);
        self.good(&["down", &name]);
        self.good(&["up", &name]);
        assert!(!self.good(&["ls", &format!("{name}:/")]).contains(file));
        self.shell(erase);
        self.assert_nothing_left(servers);
    }
}

#[test]
fn a_program_that_fails_loses_no_result() {
    let site = Site::new("fails");
    let script = "echo part > own; pario cp own pario:/part; pario cp own pario:/more; exit 7";
    let out = ["--servers", "1", "--out", "part", "none", "--to", "results"];
    let output = site.output(&out, script);
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(7), 1), "{said}");
    assert!(said.contains("1 file of 5 B (/more) on partition run-"), "{said}");
    assert!(said.contains("kept, because none: nothing in the partition matches it"), "{said}");
    assert_eq!(site.lines("results/part"), ["part"]);
    site.assert_kept(&said, "results", &[("more", "part")], 1);

    // Without a copy.
    for options in
        [&["--servers", "2"][..], &["--servers", "2", "--out", "part", "--to", "again", "--out-on-success"]]
    {
        let output = site.output(options, script);
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), said.lines().count()), (Some(7), 1), "{said}");
        assert!(said.contains("2 files of 10 B (/more, /part) on partition run-"), "{said}");
        assert!(said.contains("kept, because the program ended with exit code 7;"), "{said}");
        let target = if options.len() == 2 { "NAME" } else { "again" };
        assert!(!site.bench.path("again/part").exists());
        site.assert_kept(&said, target, &[("more", "part"), ("part", "part")], 2);
    }

    // With all that there is: --out-always is the default, and still an option.
    for option in [&[][..], &["--out-always"]] {
        let options = [&["--servers", "1", "--out", "*", "--to", "all"], option].concat();
        let output = site.output(&options, script);
        assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(7), ""));
        assert_eq!(site.lines("all/part"), ["part"]);
        std::fs::remove_dir_all(site.bench.path("all")).expect("removed");
        site.assert_nothing_left(1);
    }

    // A program that writes nothing leaves nothing.
    let output = site.output(&["--servers", "1"], "exit 3");
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(3), ""));
    site.assert_nothing_left(1);
}

#[test]
fn files_are_kept_on_request_and_counted_otherwise() {
    let site = Site::new("keep");
    std::fs::write(site.bench.path("input"), "input").expect("written");
    let script = "echo 42 > own; pario cp own pario:/answer";
    let output = site.output(&["--servers", "2", "--keep", "--in", "input"], script);
    let said = text(&output.stderr);
    assert!(output.status.success() && said.lines().count() == 1, "{said}");
    assert!(said.starts_with("pario: 1 file of 3 B (/answer) on partition run-"), "{said}");
    assert!(said.contains("kept, because of --keep;"), "{said}");
    let name = &site.lines("variables")[1];
    assert!(said.contains(&format!("/pario-{name}.0")), "it says where: {said}");
    site.assert_kept(&said, "NAME", &[("answer", "42"), ("input", "input")], 2);

    let output = site.output(&["--servers", "1", "--no-keep"], &format!("{script}; exit 4"));
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(4), ""));
    site.assert_nothing_left(1);

    // An input that the program changed is its result, too.
    let output = site.output(&["--servers", "1", "--in", "input"], "echo 4 > own; pario cp own pario:/input");
    let said = text(&output.stderr);
    assert!(output.status.success() && said.contains("1 file of 2 B (/input) that no --out took"), "{said}");
    site.assert_nothing_left(1);
}

#[test]
fn results_that_cannot_be_copied_are_kept() {
    let site = Site::new("kept");
    let script = "echo 42 > own; pario cp own pario:/answer; rmdir results; echo file > results";
    let output = site.output(&["--servers", "2", "--out", "answer", "--to", "results"], script);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{said}");
    let last = said.lines().last().expect("a line");
    assert!(last.contains("(/answer) on partition run-") && last.contains("kept, because "), "{said}");
    site.assert_kept(last, "NAME", &[("answer", "42")], 2);

    // What was to be there and is not.
    std::fs::remove_file(site.bench.path("results")).expect("a file");
    let output = site.output(&["--servers", "1", "--out", "*.nc", "--to", "results"], "true");
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(125), 1), "{said}");
    assert!(
        said.contains("not all results are in results: *.nc: nothing in the partition matches it"),
        "{said}"
    );
    site.assert_nothing_left(1);
}

/// Starts a run whose program says when it is ready.
fn start(site: &Site, options: &[&str], script: &str) -> Child {
    let mut command = site.run(options, script);
    let mut pario = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("pario runs");
    let mut line = String::new();
    let stdout = pario.stdout.as_mut().expect("piped");
    BufReader::new(stdout).read_line(&mut line).expect("readable");
    assert_eq!(line, "ready\n");
    pario
}

#[test]
fn an_interrupted_run_is_answered_and_loses_no_result() {
    let site = Site::new("interrupted");
    for (name, number) in [("INT", 2), ("TERM", 15)] {
        // Nothing was written.
        let options = ["--servers", "2", "--out", "x", "--to", "results", "--out-on-success"];
        let pario = start(&site, &options, "echo ready; exec sleep 600");
        signal(&pario, name);
        let output = pario.wait_with_output().expect("pario ends");
        assert_eq!(output.status.signal(), Some(number));
        site.assert_nothing_left(2);

        // The answer comes while the program goes on.
        let script = r#"trap : INT TERM; echo part > own; pario cp own pario:/part; echo ready
while test ! -e go; do sleep 0.02; done; exit 9"#;
        let mut pario = start(&site, &["--servers", "1"], script);
        signal(&pario, name);
        let mut answer = String::new();
        let mut stderr = BufReader::new(pario.stderr.take().expect("piped"));
        stderr.read_line(&mut answer).expect("readable");
        assert!(
            answer.starts_with("pario: interrupted; waiting for the program to end; files that it"),
            "{answer}"
        );
        std::fs::write(site.bench.path("go"), "").expect("written");
        let mut said = String::new();
        std::io::Read::read_to_string(&mut stderr, &mut said).expect("readable");
        assert_eq!(pario.wait().expect("pario ends").code(), Some(9), "{said}");
        assert!(
            said.contains("1 file of 5 B (/part)") && said.contains("because the run was interrupted"),
            "{said}"
        );
        site.assert_kept(&said, "NAME", &[("part", "part")], 1);
        std::fs::remove_file(site.bench.path("go")).expect("removed");

        // The results of --out are copied.
        let script = "echo part > own; pario cp own pario:/part; echo ready; exec sleep 600";
        let pario = start(&site, &["--servers", "1", "--out", "part", "--to", "results"], script);
        signal(&pario, name);
        let output = pario.wait_with_output().expect("pario ends");
        assert_eq!(output.status.signal(), Some(number));
        let said = text(&output.stderr);
        assert!(said.lines().count() == 1 && said.contains("then results are copied to results"), "{said}");
        assert_eq!(site.lines("results/part"), ["part"]);
        std::fs::remove_dir_all(site.bench.path("results")).expect("removed");
        site.assert_nothing_left(1);
    }
}

/// Slurm may send SIGTERM to all processes of a job, also to the servers.
#[test]
fn results_are_copied_although_the_servers_got_sigterm_too() {
    let site = Site::new("servers-too");
    let script = r#"trap '' TERM; echo part > own; pario cp own pario:/part; echo ready
while test ! -e go; do sleep 0.02; done"#;
    let pario = start(&site, &["--servers", "2", "--out", "part", "--to", "results"], script);
    let pids = site.lines("pids");
    assert_eq!(pids.len(), 2);
    for pid in &pids {
        assert!(Command::new("kill").args(["-TERM", pid]).status().expect("kill runs").success());
    }
    signal(&pario, "TERM");
    for pid in &pids {
        await_that("the servers end", || !is_alive(pid));
    }
    std::fs::write(site.bench.path("go"), "").expect("written");
    let output = pario.wait_with_output().expect("pario ends");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(site.lines("results/part"), ["part"], "{}", text(&output.stderr));
    site.assert_nothing_left(2);
}

/// A run that is killed leaves its partition, which all commands know.
#[test]
fn the_partition_of_a_killed_run_is_in_the_registry() {
    let site = Site::new("killed");
    let script = "echo part > own; pario cp own pario:/part; echo $$ > shell; echo ready; exec sleep 600";
    let mut pario = start(&site, &["--servers", "1", "--no-mount"], script);
    pario.kill().expect("killed");
    pario.wait().expect("it has ended");
    let name = site.lines("variables")[1].clone();
    let listed = site.good(&["list"]);
    assert!(listed.contains(&format!("{name}  up")), "{listed}");
    assert_eq!(site.good(&["cat", &format!("{name}:/part")]), "part\n");
    site.good(&["down", "--erase", &name]);
    site.assert_nothing_left(1);
    let shell = &site.lines("shell")[0];
    assert!(Command::new("kill").arg(shell).status().expect("kill runs").success());
}

/// The program does not end, and the copy is not complete in time: both are ended, and it is said what is not copied.
#[test]
fn after_sigterm_a_run_ends_in_time() {
    let site = Site::new("in-time");
    let script = r#"trap '' TERM
head -c 9437184 /dev/urandom > own; pario cp own pario:/large; echo small > own; pario cp own pario:/small
echo ready; while :; do sleep 0.05; done"#;
    // Each block of the storage takes a while, and the cache has room for few of them.
    let mut command = site
        .run(&["--servers", "1", "--cache", "1M", "--grace", "6", "--out", "*", "--to", "results"], script);
    command.env("PARIO_STORE_DELAY_US", "50000").stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut pario = command.spawn().expect("pario runs");
    let mut line = String::new();
    BufReader::new(pario.stdout.as_mut().expect("piped")).read_line(&mut line).expect("readable");
    assert_eq!(line, "ready\n");
    signal(&pario, "TERM");
    let output = pario.wait_with_output().expect("pario ends");
    let said = text(&output.stderr);
    assert_eq!(output.status.signal(), Some(9), "the launcher was killed: {said}");
    let kept = said.lines().find(|line| line.contains("kept, because")).unwrap_or_else(|| panic!("{said}"));
    assert!(kept.contains("there was not enough time after SIGTERM") && kept.contains("(/large"), "{said}");
    let [copy, erase] = &commands(kept)[..] else { panic!("{kept}") };
    site.shell(copy);
    assert_eq!(std::fs::metadata(site.bench.path("results/large")).expect("there").len(), 9 << 20);
    assert_eq!(site.lines("results/small"), ["small"]);
    site.shell(erase);
    site.assert_nothing_left(1);
}

#[test]
fn what_cannot_start_leaves_nothing() {
    let site = Site::new("cannot");
    // No host has so much memory.
    let output = site.output(&["--servers", "2", "--cache", "16T"], "true");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("did not start"), "{said}");
    assert_eq!(std::fs::read_dir(site.bench.path("tmp")).expect("there").count(), 0);
    assert!(!site.bench.path("variables").exists());

    // Two inputs of one name.
    std::fs::create_dir(site.bench.path("other")).expect("a directory");
    std::fs::write(site.bench.path("other/bin"), "").expect("written");
    let output = site.output(&["--servers", "1", "--in", "bin", "other/bin"], "true");
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(125), 1), "{said}");
    assert!(said.contains("the program was not started") && said.contains("two of that name"), "{said}");
    assert_eq!(std::fs::read_dir(site.bench.path("tmp")).expect("there").count(), 0);

    let output = site.output(&["--partition", "nobody"], "true");
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("no partition is called nobody"), "{output:?}");
}

/// A partition of `pario up`, which is down.
fn standing(name: &str) -> Site {
    let site = Site::new(name);
    let place = format!("servers = {:?}\n", site.bench.path("data"));
    std::fs::write(site.bench.path("part.conf"), place).expect("written");
    site.good(&["up", "./part.conf"]);
    site.good(&["down", "part"]);
    site
}

#[test]
fn a_standing_partition_comes_up_and_stays() {
    let site = standing("standing");
    let script = "pario cp variables pario:/x; exit 5";
    // Twice: down, and up.
    for _ in 0..2 {
        let output = site.output(&["--partition", "part"], script);
        assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(5), ""));
        let variables = site.lines("variables");
        assert_eq!(variables[..2], [site.bench.path("home").to_str().expect("text"), "part"]);
    }
    let output = site.output(&["--partition", "part", "--out", "nothing", "--to", "results"], "true");
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(125) && said.contains("'pario cp -r part:/PATH results'"), "{said}");
    assert!(site.good(&["list"]).contains("part  up"));
    assert!(site.good(&["ls", "part:/"]).contains('x'));
    site.good(&["down", "part", "--forget"]);
}

/// The library starts partitions like this within MPI programs, whose launchers wait for the end of their descriptors.
#[test]
fn servers_that_a_program_starts_do_not_hold_its_descriptors() {
    let site = standing("descriptors");
    let held = site.bench.path("held");
    let mut shell = site.with_path(Command::new("sh"));
    shell.args(["-c", "exec 9>held; exec pario up --autostart part"]).current_dir(site.bench.path(""));
    let output = shell.env("PARIO_HOME", site.bench.path("home")).output().expect("a shell");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let status = site.good(&["status", "part", "--json"]);
    let pids = status.lines().filter_map(|line| line.trim().strip_prefix("\"pid\": "));
    let pids: Vec<&str> = pids.map(|pid| pid.trim_end_matches(',')).collect();
    assert!(!pids.is_empty(), "{status}");
    for pid in pids {
        let open = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs").flatten();
        let paths: Vec<PathBuf> = open.filter_map(|entry| std::fs::read_link(entry.path()).ok()).collect();
        assert!(!paths.is_empty() && !paths.contains(&held), "{paths:?}");
    }
    site.good(&["down", "part", "--forget"]);
}

#[test]
fn a_mount_that_is_there_is_used_and_left() {
    if !Path::new("/dev/fuse").exists() {
        eprintln!("skipped: there is no /dev/fuse");
        return;
    }
    let site = standing("left");
    std::fs::create_dir(site.bench.path("m")).expect("a directory");
    site.good(&["up", "part"]);
    site.good(&["mount", "part", "m"]);
    let run = |partition: &[&str], script: &str| {
        let output = site.output(&[&["--mount", "m"], partition].concat(), script);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    assert_eq!(run(&["--partition", "part"], "echo x > m/file; pario cat pario:/file"), "");
    assert_eq!(std::fs::read_to_string(site.bench.path("m/file")).expect("read"), "x\n");
    // Of another partition it is said, because the program would take it for its own.
    let said = run(&["--servers", "1"], "pario ls pario:/");
    assert!(said.contains(" is not mounted: something is mounted at "), "{said}");
    site.good(&["umount", "m"]);
    site.good(&["down", "part", "--forget"]);
}

#[test]
fn an_interrupt_before_the_start_keeps_the_program_from_starting() {
    let site = standing("early");
    // As long as the partition is locked it does not come up.
    let registry = pario_registry::Registry::open(&site.bench.path("home")).expect("a registry");
    let lock = registry.lock_partition("part", Duration::from_secs(1)).expect("a lock");
    let options = ["--partition", "part", "--in", "part.conf", "--out", "x", "--to", "results"];
    let mut pario = site.run(&options, "true").spawn().expect("pario runs");
    // It is made once signals are handled.
    await_that("the directory for results is made", || site.bench.path("results").exists());
    signal(&pario, "INT");
    drop(lock);
    assert_eq!(pario.wait().expect("pario ends").signal(), Some(2));
    assert!(!site.bench.path("variables").exists());
    assert_eq!(site.good(&["ls", "part:/"]), "");
    site.good(&["down", "part", "--forget"]);
}
