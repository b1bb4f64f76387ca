//! `pario run` with real programs of both MPI families and with launchers made up for the purpose. An empty
//! library stands in for libpario.so: what is tested is who gets it, not what it does.

mod bench;

use bench::{Bench, text};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

/// Prints what it was given, ends with the code in its first argument, or by a signal if that is negative.
const REPORTER: &str = r#"
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    int code = argc > 1 ? atoi(argv[1]) : 0, ranks;
    const char *preload = getenv("LD_PRELOAD"), *stats = getenv("PARIO_STATS");
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    printf("ranks=%d preload=%s stats=%s\n", ranks, preload ? preload : "none", stats ? stats : "none");
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    if (code < 0) raise(-code);
    MPI_Finalize();
    return code;
}
"#;

const FAMILIES: [(&str, &str); 2] = [("mpicc.mpich", "mpiexec.mpich"), ("mpicc.openmpi", "mpiexec.openmpi")];

#[test]
fn a_dry_run_shows_the_command_of_either_family() {
    let bench = Bench::new("dry_run");
    let library = bench.library();
    for (compiler, launcher) in FAMILIES {
        let program = bench.compile(compiler, REPORTER, &["-o", compiler]);
        let output =
            bench.pario(&["run", "--dry-run", "-n", "3", "--stats", "--"]).arg(&program).arg("a b").output();
        let output = output.expect("pario runs");
        assert!(output.status.success(), "{}", text(&output.stderr));
        let set = match launcher {
            "mpiexec.mpich" => format!("-genv LD_PRELOAD {library} -genv PARIO_STATS 1 -genv PARIO_JOB "),
            _ => format!("-x LD_PRELOAD={library} -x PARIO_STATS=1 -x PARIO_JOB="),
        };
        let shown = text(&output.stdout);
        let last = shown.lines().last().unwrap_or("");
        assert!(last.contains(&format!("{launcher} -n 3 {set}")), "{shown}");
        assert!(last.ends_with(&format!("{} 'a b'", program.display())), "{shown}");
        let family =
            if launcher.ends_with("mpich") { "MPICH (libmpich.so" } else { "Open MPI (libmpi.so.40" };
        assert!(shown.contains(family), "{shown}");
    }
}

#[test]
fn ranks_get_the_library_and_the_exit_code_comes_back() {
    let bench = Bench::new("ranks");
    let library = bench.library();
    let other = bench.compile("gcc", "int other;", &["-shared", "-fPIC", "-o", "libother.so"]);
    for (compiler, _) in FAMILIES {
        let program = bench.compile(compiler, REPORTER, &["-o", compiler]);
        let mut command = bench.pario(&["run", "-n", "2", "--stats"]);
        let output = command.arg(&program).arg("7").env("LD_PRELOAD", &other).output().expect("pario runs");
        let line = format!("ranks=2 preload={}:{library} stats=1", other.display());
        assert_eq!(text(&output.stdout).lines().filter(|l| **l == line).count(), 2, "{output:?}");
        assert_eq!(output.status.code(), Some(7), "{output:?}");
        let output =
            bench.pario(&["run", "--host-io", "-n", "2"]).arg(&program).output().expect("pario runs");
        assert!(text(&output.stdout).contains("ranks=2 preload=none stats=none"), "{output:?}");
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    }
}

#[test]
fn a_killed_rank_ends_the_run_as_the_launcher_says() {
    let bench = Bench::new("killed");
    bench.library();
    for (compiler, launcher) in FAMILIES {
        let program = bench.compile(compiler, REPORTER, &["-o", compiler]);
        let mut direct = std::process::Command::new(launcher);
        direct.args(["-n", "1"]).arg(&program).arg("-9").stdin(Stdio::null());
        direct.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
        let direct = direct.output().expect("the launcher runs");
        let output = bench.pario(&["run", "-n", "1"]).arg(&program).arg("-9").output().expect("pario runs");
        assert_eq!(output.status, direct.status, "{launcher}");
        assert!(!output.status.success());
    }
}

#[test]
fn an_mpi_behind_another_library_is_found() {
    let bench = Bench::new("behind");
    bench.library();
    let inner = "#include <mpi.h>\nint inner(void) { int on; return MPI_Initialized(&on); }";
    bench.compile("mpicc.mpich", inner, &["-shared", "-fPIC", "-o", "libinner.so"]);
    let outer = "int inner(void); int main(void) { return inner(); }";
    let program = bench.compile("gcc", outer, &["-L.", "-Wl,-rpath,$ORIGIN", "-o", "outer", "-linner"]);
    let output = bench.pario(&["run", "--dry-run"]).arg(program).output().expect("pario runs");
    let shown = text(&output.stdout);
    assert!(shown.contains("MPICH (libmpich.so") && shown.contains("libinner.so"), "{output:?}");
}

#[test]
fn python_is_asked_for_mpi4py() {
    let bench = Bench::new("python");
    bench.library();
    let module = "#include <mpi.h>\nvoid *world(void) { return MPI_COMM_WORLD; }";
    let module = bench.compile("mpicc.openmpi", module, &["-shared", "-fPIC", "-o", "MPI.so"]);
    let python = bench.script("python3", &format!("printf 'mpi4py at %s' {}", module.display()));
    let script = bench.file("analysis", &format!("#!{} -u\nimport mpi4py\n", python.display()));
    for program in [python, script] {
        let output = bench.pario(&["run", "--dry-run"]).arg(program).output().expect("pario runs");
        assert!(text(&output.stdout).contains("Open MPI (libmpi.so.40"), "{output:?}");
    }
    // The package from PyPI has loaded the MPI of its own environment, whose launcher is there as well.
    let bin = bench.path("venv/bin");
    let lib = bench.path("venv/lib");
    std::fs::create_dir_all(&bin).and_then(|()| std::fs::create_dir_all(&lib)).expect("new directories");
    let own = bench.compile(
        "gcc",
        "int MPI_Init(void) { return 0; }",
        &["-shared", "-fPIC", "-o", "venv/lib/libmpi.so.12"],
    );
    bench.script("venv/bin/mpiexec.hydra", "echo HYDRA");
    let said = format!("printf 'mpi4py at %s\\nlibrary at %s' {} {}", module.display(), own.display());
    let python = bench.script("venv/bin/python3", &said);
    let output = bench.pario(&["run", "--dry-run"]).arg(python).output().expect("pario runs");
    let shown = text(&output.stdout);
    assert!(shown.contains(&format!("MPICH (libmpi.so.12: {}", own.display())), "{output:?}");
    assert!(shown.contains("venv/bin/mpiexec.hydra -n "), "{output:?}");
    let bare = bench.script("python3.9", "echo no mpi4py");
    let output = bench.pario(&["run", "--dry-run"]).arg(bare).output().expect("pario runs");
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("has no mpi4py; say --mpi"), "{output:?}");
}

#[test]
fn trouble_before_the_start_is_one_line_and_a_code() {
    let bench = Bench::new("trouble");
    let program = bench.compile("mpicc.mpich", REPORTER, &["-o", "program"]);
    let program = program.to_str().expect("a path");
    let plain = bench.path("plain.txt");
    std::fs::write(&plain, "text").expect("written");
    let plain = plain.to_str().expect("a path");
    let script = bench.script("wrapper.sh", "exit 0");
    let script = script.to_str().expect("a path");
    let cases: [(&[&str], i32, &str); 9] = [
        (&["run", program], 125, "libpario.so not found"),
        (&["run", "--host-io", "no-such-program"], 127, "\"no-such-program\" not found"),
        (&["run", "--host-io", "./no/such/program"], 127, "not found"),
        (&["run", "--host-io", plain], 126, "not an executable"),
        (&["run", "--host-io", script], 125, "it is a script; say --mpi"),
        (&["run", "--host-io", "ls"], 125, "no MPI library"),
        (
            &["run", "--host-io", "--launcher", "no-launcher", program],
            127,
            "launcher \"no-launcher\" not found",
        ),
        (
            &["run", "--host-io", "--launcher", "mpiexec.openmpi", program],
            125,
            "does not start programs of MPICH",
        ),
        (&["run", "--host-io", "-n", "0", program], 2, "invalid value '0'"),
    ];
    for (arguments, code, words) in cases {
        let output = bench.pario(arguments).output().expect("pario runs");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
        assert!(code == 2 || said.lines().count() == 1, "{arguments:?}: {said}");
    }
    let mut command = bench.pario(&["run", program]);
    let output = command.env("PARIO_LIB", "/no/such/libpario.so").output().expect("pario runs");
    assert!(text(&output.stderr).contains("PARIO_LIB names /no/such/libpario.so"), "{output:?}");
    let fixed = bench.compile("gcc", "int main(void) { return 0; }", &["-static", "-o", "fixed"]);
    let output = bench.pario(&["run", "--mpi", "mpich"]).arg(fixed).output().expect("pario runs");
    assert!(text(&output.stderr).contains("statically linked"), "{output:?}");
}

#[test]
fn the_launcher_itself_is_not_preloaded() {
    let bench = Bench::new("not_preloaded");
    let library = bench.library();
    let launcher = bench.script("launch", "echo \"own=${LD_PRELOAD-none}\"; printf '%s\\n' \"$*\"");
    let run = || {
        let mut command =
            bench.pario(&["run", "--mpi", "mpich", "-n", "2", "--launcher-arg=--fast", "--launcher"]);
        let output = command.arg(&launcher).args(["ls", "-l"]).output().expect("pario runs");
        let said = text(&output.stdout);
        let before = format!("own=none\n-n 2 --fast env LD_PRELOAD={library} PARIO_JOB=");
        let job = said.strip_prefix(&before).and_then(|rest| rest.strip_suffix(" ls -l\n"));
        job.unwrap_or_else(|| panic!("{output:?}")).to_owned()
    };
    assert_ne!(run(), run(), "every start is a program of its own");
}

#[test]
fn a_launcher_killed_by_a_signal_is_died_like() {
    let bench = Bench::new("died_like");
    let launcher = bench.script("launch", "[ \"$1\" = --version ] || kill -KILL $$");
    let mut command = bench.pario(&["run", "--host-io", "--mpi", "mpich", "--launcher"]);
    let status = command.arg(launcher).arg("ls").status().expect("pario runs");
    assert_eq!(status.signal(), Some(9));
}

#[test]
fn signals_reach_the_launcher() {
    let bench = Bench::new("signals");
    // The launcher ends with the signal's number, once it has said that it is ready and been signalled.
    let launcher = bench.script(
        "launch",
        "[ \"$1\" = --version ] && exit\nfor s in 1 2 10 12 15; do trap \"exit $s\" $s; done\necho ready\nread line\n",
    );
    for signal in ["HUP", "INT", "USR1", "USR2", "TERM"] {
        let mut command = bench.pario(&["run", "--host-io", "--mpi", "mpich", "--launcher"]);
        command.arg(&launcher).arg("ls").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut pario = command.spawn().expect("pario runs");
        let mut line = String::new();
        let mut output = BufReader::new(pario.stdout.take().expect("piped"));
        output.read_line(&mut line).expect("readable");
        assert_eq!(line, "ready\n");
        let kill =
            std::process::Command::new("kill").arg(format!("-{signal}")).arg(pario.id().to_string()).status();
        assert!(kill.expect("kill runs").success());
        let input = pario.stdin.take();
        let status = pario.wait().expect("pario ends");
        let number = [("HUP", 1), ("INT", 2), ("USR1", 10), ("USR2", 12), ("TERM", 15)];
        let number = number.iter().find(|(name, _)| *name == signal).map(|&(_, n)| n);
        assert_eq!(status.code(), number, "{signal}");
        drop(input.map(|mut i| i.flush()));
    }
}
