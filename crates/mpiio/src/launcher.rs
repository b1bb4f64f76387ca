//! Which program a rank is of: a name that all ranks of a job share and no others, from what its launcher says.
//!
//! Most launchers warn it in a variable. Hydra, which starts the ranks of MPICH and its kin, does not; but on every node
//! its proxy, an ancestor of the ranks, is told where `mpiexec` listens. Where nothing is to be found ranks agree on a
//! number when they first open a file together (`storage::join_program`).

/// How far above a rank its proxy is looked for: scripts may stand between them.
const GENERATIONS: usize = 16;

/// The name, from the environment and from the processes above this one.
pub(crate) fn job_name(set: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let hydra = || set("PMI_RANK").and_then(|_| hydra());
    let slurm = || Some(format!("{}.{}", set("SLURM_JOB_ID")?, set("SLURM_STEP_ID")?));
    // Hydra before the others, which may have started it.
    set("PARIO_JOB")
        .or_else(hydra)
        .or_else(|| set("PMIX_NAMESPACE"))
        .or_else(slurm)
        .or_else(|| set("PALS_APID"))
        .or_else(|| set("FLUX_JOB_ID"))
}

fn hydra() -> Option<String> {
    let mut process = std::process::id();
    for _ in 0..GENERATIONS {
        process = parent(&std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?)?;
        let words = std::fs::read(format!("/proc/{process}/cmdline")).ok()?;
        if let Some(control) = control(&words) {
            return Some(format!("hydra {control}"));
        }
    }
    None
}

/// The parent in a process's `stat`: the second word after its name, which may hold anything.
fn parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok().filter(|parent| *parent > 1)
}

/// Where the `mpiexec` of a proxy listens, if this is the command line of one.
fn control(words: &[u8]) -> Option<String> {
    let mut words = words.split(|byte| *byte == 0);
    if !words.next()?.ends_with(b"hydra_pmi_proxy") {
        return None;
    }
    words.find(|word| *word == b"--control-port")?;
    Some(String::from_utf8_lossy(words.next()?).into_owned()).filter(|place| !place.is_empty())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::process::{Command, Stdio};

    use super::*;

    fn named(set: &[(&str, &str)]) -> Option<String> {
        job_name(&|name| set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).into()))
    }

    #[test]
    fn ranks_of_a_program_know_each_other_by_what_the_launcher_says() {
        let slurm = [("SLURM_JOB_ID", "7"), ("SLURM_STEP_ID", "1")];
        assert_eq!((named(&[]), named(&slurm[..1])), (None, None));
        assert_eq!(named(&slurm), named(&[("PARIO_JOB", "7.1"), ("SLURM_JOB_ID", "9")]));
        assert_ne!(named(&slurm), named(&[("PMIX_NAMESPACE", "165675009")]));
        // Of a launcher that is not there.
        assert_eq!(named(&[("PMI_RANK", "0"), ("FLUX_JOB_ID", "f2")]), Some("f2".into()));
    }

    #[test]
    fn a_proxy_is_known_by_its_command_line() {
        let words = b"/usr/bin/hydra_pmi_proxy\0--control-port\0n0:33609\0--rmk\0user\0";
        assert_eq!(control(words).as_deref(), Some("n0:33609"));
        for other in [
            &b""[..],
            b"sh\0--control-port\0n0:1\0",
            b"hydra_pmi_proxy\0--control-port",
            b"hydra_pmi_proxy\0",
        ] {
            assert_eq!(control(other), None);
        }
        assert_eq!(parent("41 (a ) b) S 40 41 0"), Some(40));
        assert_eq!((parent("1 (init) S 0 1"), parent("2 (x) S 1 1"), parent("")), (None, None, None));
    }

    /// Says the name to whoever started this test as a rank.
    #[test]
    fn a_rank_that_says_which_program_it_is_of() {
        if std::env::var_os("PARIO_TEST_SAYS").is_some() {
            println!("program {:?}", job_name(&|name| std::env::var(name).ok()));
        }
    }

    #[test]
    fn each_launch_has_a_name_that_its_ranks_share() {
        let myself = std::env::current_exe().expect("a program knows its path");
        let exact = "launcher::tests::a_rank_that_says_which_program_it_is_of";
        let own = std::env::temp_dir().join(format!("pario-job-{}", std::process::id()));
        std::fs::create_dir_all(&own).expect("there is room");
        let mut names = BTreeSet::new();
        let launchers =
            [("mpiexec.mpich", &[][..]), ("mpiexec.openmpi", &["--oversubscribe", "--allow-run-as-root"])];
        for (launcher, more) in [launchers[0], launchers[0], launchers[1]] {
            let mut launch = Command::new(launcher);
            // Between the launcher and a rank may stand a script.
            launch.args(more).args(["-n", "2", "sh", "-c", "\"$@\"; exit $?", "sh"]).arg(&myself);
            launch.args(["--exact", exact, "--nocapture"]).env("PARIO_TEST_SAYS", "1");
            // Launchers of Open MPI that start at the same time may fail over a directory that they share.
            launch.env("OMPI_MCA_orte_tmpdir_base", &own);
            let output = launch.stdin(Stdio::null()).output().expect("both launchers are there");
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            let said: Vec<&str> =
                said.lines().filter_map(|line| line.split_once("program Some(")).map(|at| at.1).collect();
            assert!(said.len() == 2 && said[0] == said[1], "{launcher}: {output:?}");
            assert!(names.insert(said[0].to_owned()), "two launches are one program: {names:?}");
        }
        let _ = std::fs::remove_dir_all(own);
    }
}
