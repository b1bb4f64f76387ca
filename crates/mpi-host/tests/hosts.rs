//! C programs on each installed host MPI, calling this crate through the `probe` example.

use pario_mpi_host::{AbiFamily, Constants};
use std::path::{Path, PathBuf};
use std::process::Command;

struct HostMpi {
    name: &'static str,
    family: AbiFamily,
    cc: PathBuf,
    run: Vec<PathBuf>,
}

/// The MPI that `cargo xtask test-mpis` has installed, if it runs this test.
fn installed() -> Option<HostMpi> {
    let at = std::env::var_os("PARIO_TEST_MPI").filter(|at| !at.is_empty()).map(PathBuf::from)?;
    let (name, family, cc, options): (_, _, _, &[&str]) = match std::env::var("PARIO_TEST_MPI_KIND")
        .unwrap_or_default()
        .as_str()
    {
        "openmpi" => {
            ("installed-openmpi", AbiFamily::OpenMpi, "mpicc", &["--allow-run-as-root", "--oversubscribe"])
        }
        "standard-abi" => ("installed-standard-abi", AbiFamily::Standard, "mpicc_abi", &[]),
        _ => ("installed-mpich", AbiFamily::Mpich, "mpicc", &[]),
    };
    let bin = at.join("bin");
    let mut run = vec![bin.join("mpiexec")];
    run.extend(options.iter().chain(&["-n"]).map(PathBuf::from));
    Some(HostMpi { name, family, cc: bin.join(cc), run })
}

/// The hosts of this machine, and MPICH's library of the standard ABI where `cargo xtask setup` could install it.
fn hosts() -> Vec<HostMpi> {
    if let Some(installed) = installed() {
        return vec![installed];
    }
    let words = |words: &[&str]| words.iter().map(PathBuf::from).collect();
    let mut hosts = vec![
        HostMpi {
            name: "mpich",
            family: AbiFamily::Mpich,
            cc: "mpicc.mpich".into(),
            run: words(&["mpiexec.mpich", "-n"]),
        },
        HostMpi {
            name: "openmpi",
            family: AbiFamily::OpenMpi,
            cc: "mpicc.openmpi".into(),
            run: words(&["mpiexec.openmpi", "--allow-run-as-root", "--oversubscribe", "-n"]),
        },
    ];
    match std::env::var_os("PARIO_TEST_STANDARD_ABI").filter(|at| !at.is_empty()).map(PathBuf::from) {
        Some(at) => hosts.push(HostMpi {
            name: "standard-abi",
            family: AbiFamily::Standard,
            cc: at.join("bin/mpicc_abi"),
            run: vec![at.join("bin/mpiexec"), "-n".into()],
        }),
        None => eprintln!("PARIO_TEST_STANDARD_ABI is empty: the standard ABI is not tested"),
    }
    hosts
}

fn output(command: &mut Command) -> String {
    let shown = format!("{command:?}");
    let out =
        command.output().unwrap_or_else(|e| panic!("{shown}: {e}; `cargo xtask setup` installs the MPIs"));
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{shown}: {}\n{text}{}", out.status, String::from_utf8_lossy(&out.stderr));
    text
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c")
}

fn scratch(host: &HostMpi, name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(host.name);
    std::fs::create_dir_all(&dir).unwrap();
    dir.join(name)
}

/// The probe library, which cargo builds before it runs tests.
fn probe() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(2).unwrap().join("examples/libprobe.so")
}

fn compile(host: &HostMpi, source: &Path, program: &Path, more: &[&str]) {
    let mut cc = Command::new(&host.cc);
    cc.args(["-std=gnu11", "-Wall", "-Wno-deprecated-declarations", "-g", "-I"]).arg(sources());
    output(cc.arg(source).args(more).arg("-o").arg(program).arg(probe()));
}

fn run(host: &HostMpi, ranks: u32, program: &Path, args: &[&str]) -> String {
    // A hang is a failure, not an endless test.
    let mut exec = Command::new("timeout");
    exec.arg("120").args(&host.run).arg(ranks.to_string()).arg(program).args(args);
    output(exec.env("OMPI_MCA_btl_vader_single_copy_mechanism", "none"))
}

fn program(host: &HostMpi, name: &str) -> PathBuf {
    let program = scratch(host, name);
    compile(host, &sources().join(format!("{name}.c")), &program, &[]);
    program
}

#[test]
fn decoded_datatypes_select_the_bytes_that_the_host_moves() {
    for host in &hosts() {
        let types = program(host, "types");
        for seed in ["0", "1"] {
            let said = run(host, 1, &types, &["400", seed]);
            let compared: u32 = said.split(' ').nth(1).unwrap().parse().unwrap();
            assert!(compared > 250, "{said}");
        }
    }
}

#[test]
fn requests_complete_in_every_way() {
    for host in &hosts() {
        let requests = program(host, "requests");
        assert_eq!(run(host, 2, &requests, &[]).matches("requests good").count(), 2);
        assert_eq!(run(host, 2, &requests, &["threads"]).matches("requests good").count(), 2);
    }
}

#[test]
fn communicators_infos_and_statuses_work() {
    for host in &hosts() {
        let said = run(host, 2, &program(host, "objects"), &[]);
        assert_eq!(said.matches("objects good").count(), 2);
        assert_eq!(said.matches("hook good").count(), 2);
    }
}

#[test]
fn bad_handles_are_errors() {
    for host in &hosts() {
        assert!(run(host, 1, &program(host, "invalid"), &[]).contains("invalid good"));
    }
}

#[test]
fn a_privately_loaded_mpi_is_found() {
    for host in &hosts() {
        let (plugin, loader) = (scratch(host, "plugin.so"), scratch(host, "loader"));
        let mut cc = Command::new(&host.cc);
        cc.args(["-std=gnu11", "-shared", "-fPIC", "-I"]).arg(sources());
        output(cc.arg(sources().join("plugin.c")).arg("-o").arg(&plugin));
        output(Command::new("cc").arg(sources().join("loader.c")).arg("-o").arg(&loader));
        let mut exec = Command::new(&host.run[0]);
        exec.args(&host.run[1..]).arg("1").args(["env"]).arg(format!("LD_PRELOAD={}", probe().display()));
        assert!(output(exec.arg(&loader).arg(&plugin)).contains("plugin good"));
    }
}

/// Every constant of the crate against the header, in a process of that host.
#[test]
fn constants_match_the_header() {
    for host in &hosts() {
        let constants = Constants::of(host.family);
        let types: Vec<&str> = constants.named.iter().map(|t| t.0).collect();
        // Without a call to MPI the program would not be linked with it.
        let mut text =
            String::from("#include \"probe.h\"\nint main(int argc, char **argv)\n{\n    int bad = 0;\n");
        text += "    MPI_Init(&argc, &argv);\n";
        for (name, _) in constants.all().into_iter().filter(|c| !absent(host, c.0)) {
            // Optional types, and a name of MPI 4, are macros that a build may lack; the rest must be there.
            match types.contains(&name) || name == "MPI_ERRORS_ABORT" {
                true => text += &format!("#ifdef {name}\n    SAME({name})\n#endif\n"),
                false => text += &format!("    SAME({name})\n"),
            }
        }
        text += "    printf(\"%d differ\\n\", bad);\n    MPI_Finalize();\n    return bad != 0;\n}\n";
        let source = scratch(host, "constants.c");
        std::fs::write(&source, text).unwrap();
        let program = scratch(host, "constants");
        compile(host, &source, &program, &["-w"]);
        assert!(run(host, 1, &program, &[]).contains("0 differ"));
    }
}

/// Names of MPI-1 that Open MPI's header replaces by a compile-time error.
fn absent(host: &HostMpi, name: &str) -> bool {
    host.family == AbiFamily::OpenMpi
        && (["MPI_LB", "MPI_UB"].contains(&name) || (name.starts_with("MPI_COMBINER") && is_legacy(name)))
}

fn is_legacy(combiner: &str) -> bool {
    combiner.ends_with("_INTEGER") && !combiner.contains("F90")
}
