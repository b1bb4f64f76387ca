//! The name of the job that a rank belongs to, from the launcher. All ranks of the job have the same name, and no
//! other rank has it.
//!
//! Most launchers set a variable. Hydra, the launcher of MPICH, does not. Its proxy, an ancestor process of the ranks
//! on every node, has the address of `mpiexec` on its command line, which serves as the name. If no launcher is
//! recognised, the ranks agree on a number when they first open a file together (`storage::join_program`).

/// The number of ancestor processes that are searched for the proxy. Scripts may run between the proxy and a rank.
const GENERATIONS: usize = 16;

/// The job name, from the environment and from the ancestors of this process.
pub(crate) fn job_name(set: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let hydra = || set("PMI_RANK").and_then(|_| hydra());
    let slurm = || Some(format!("{}.{}", set("SLURM_JOB_ID")?, set("SLURM_STEP_ID")?));
    // Hydra comes first, because another launcher may have started it.
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

/// The parent in a process's `stat`: the second word after the process name. The name may contain any character.
fn parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok().filter(|parent| *parent > 1)
}

/// The address of `mpiexec` in the command line of a Hydra proxy.
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
    fn the_job_name_comes_from_the_launchers_variables() {
        let slurm = [("SLURM_JOB_ID", "7"), ("SLURM_STEP_ID", "1")];
        assert_eq!((named(&[]), named(&slurm[..1])), (None, None));
        assert_eq!(named(&slurm), named(&[("PARIO_JOB", "7.1"), ("SLURM_JOB_ID", "9")]));
        assert_ne!(named(&slurm), named(&[("PMIX_NAMESPACE", "165675009")]));
        // A launcher that is not running.
        assert_eq!(named(&[("PMI_RANK", "0"), ("FLUX_JOB_ID", "f2")]), Some("f2".into()));
    }

    #[test]
    fn a_hydra_proxy_is_recognised_by_its_command_line() {
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

    /// Prints the name if another test started this one as a rank.
    #[test]
    fn prints_the_job_name_when_started_as_a_rank() {
        if std::env::var_os("PARIO_TEST_PRINT_JOB").is_some() {
            println!("program {:?}", job_name(&|name| std::env::var(name).ok()));
        }
    }

    #[test]
    fn the_ranks_of_a_launch_share_a_job_name() {
        let myself = std::env::current_exe().expect("a program knows its path");
        let exact = "launcher::tests::prints_the_job_name_when_started_as_a_rank";
        let own = std::env::temp_dir().join(format!("pario-job-{}", std::process::id()));
        std::fs::create_dir_all(&own).expect("there is room");
        let mut names = BTreeSet::new();
        let launchers =
            [("mpiexec.mpich", &[][..]), ("mpiexec.openmpi", &["--oversubscribe", "--allow-run-as-root"])];
        for (launcher, more) in [launchers[0], launchers[0], launchers[1]] {
            let mut launch = Command::new(launcher);
            // A script runs between the launcher and a rank.
            launch.args(more).args(["-n", "2", "sh", "-c", "\"$@\"; exit $?", "sh"]).arg(&myself);
            launch.args(["--exact", exact, "--nocapture"]).env("PARIO_TEST_PRINT_JOB", "1");
            // Open MPI's launchers share a directory by default, and may fail if several start at the same time.
            launch.env("OMPI_MCA_orte_tmpdir_base", &own);
            let output = launch.stdin(Stdio::null()).output().expect("both launchers are there");
            let lines = String::from_utf8_lossy(&output.stdout).into_owned();
            let lines: Vec<&str> =
                lines.lines().filter_map(|line| line.split_once("program Some(")).map(|at| at.1).collect();
            assert!(lines.len() == 2 && lines[0] == lines[1], "{launcher}: {output:?}");
            assert!(names.insert(lines[0].to_owned()), "two launches are one program: {names:?}");
        }
        let _ = std::fs::remove_dir_all(own);
    }
}
