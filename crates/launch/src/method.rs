//! The command lines of launchers: from a node and a program to what has to be run here.

use crate::settings::LaunchSettings;
use pario_registry::Launcher;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// How a program is started on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaunchMethod {
    /// As a process of this host.
    Local,
    /// By `ssh`.
    Ssh,
    /// By Slurm's `srun`.
    Srun,
    /// By an MPI's `mpiexec`.
    Mpiexec,
}

impl LaunchMethod {
    /// The method for a node, as the partition's description wants it.
    pub fn choose(choice: Launcher, is_here: impl FnOnce() -> bool, in_slurm_job: bool) -> LaunchMethod {
        match choice {
            Launcher::Auto if is_here() => LaunchMethod::Local,
            Launcher::Auto if in_slurm_job => LaunchMethod::Srun,
            Launcher::Auto | Launcher::Ssh => LaunchMethod::Ssh,
            Launcher::Local => LaunchMethod::Local,
            Launcher::Srun => LaunchMethod::Srun,
            Launcher::Mpiexec => LaunchMethod::Mpiexec,
        }
    }

    /// The words of the command that starts the program on the node.
    pub fn command(self, node: &str, argv: &[OsString], settings: &LaunchSettings) -> Vec<OsString> {
        let words = |program: &[String], options: &[&str]| -> Vec<OsString> {
            program.iter().map(OsString::from).chain(options.iter().map(OsString::from)).collect()
        };
        match self {
            LaunchMethod::Local => argv.to_vec(),
            // Never a question on the terminal; a dead node is noticed. The other side's shell reads the
            // command, so it comes as one quoted word.
            LaunchMethod::Ssh => {
                let options = ["-o", "BatchMode=yes", "-o", "ConnectTimeout=20", "-T", "--", node];
                let mut command = words(&settings.ssh, &options);
                command.push(argv.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(OsStr::new(" ")));
                command
            }
            // The servers share the nodes of the job with the program that uses them.
            LaunchMethod::Srun => {
                let options = ["--overlap", "--nodes=1", "--ntasks=1", "--nodelist", node, "--"];
                words(&settings.srun, &options).into_iter().chain(argv.iter().cloned()).collect()
            }
            // These options mean the same to MPICH's and to Open MPI's.
            LaunchMethod::Mpiexec => {
                let options = ["-n", "1", "--host", node];
                words(&settings.mpiexec, &options).into_iter().chain(argv.iter().cloned()).collect()
            }
        }
    }
}

/// A word as a shell reads it. Arguments of a process have no NUL, the only byte that cannot be quoted.
fn quoted(word: &OsStr) -> OsString {
    let text = shlex::bytes::try_quote(word.as_bytes()).expect("an argument has no NUL");
    OsString::from_vec(text.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::process::Command;

    fn settings() -> LaunchSettings {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect();
        LaunchSettings {
            ssh: words("ssh -p 2222"),
            srun: words("srun"),
            mpiexec: words("mpiexec"),
            ..LaunchSettings::default()
        }
    }

    fn shown(method: LaunchMethod, argv: &[&str]) -> String {
        let argv: Vec<_> = argv.iter().map(OsString::from).collect();
        let words = method.command("n1", &argv, &settings());
        words.iter().map(|word| format!("[{}]", word.to_string_lossy())).collect()
    }

    #[test]
    fn each_launcher_gets_its_own_words() {
        let argv = ["/opt/my pario", "serve"];
        assert_eq!(shown(LaunchMethod::Local, &argv), "[/opt/my pario][serve]");
        assert_eq!(
            shown(LaunchMethod::Ssh, &argv),
            "[ssh][-p][2222][-o][BatchMode=yes][-o][ConnectTimeout=20][-T][--][n1]['/opt/my pario' serve]"
        );
        assert_eq!(
            shown(LaunchMethod::Srun, &argv),
            "[srun][--overlap][--nodes=1][--ntasks=1][--nodelist][n1][--][/opt/my pario][serve]"
        );
        assert_eq!(shown(LaunchMethod::Mpiexec, &argv), "[mpiexec][-n][1][--host][n1][/opt/my pario][serve]");
    }

    #[test]
    fn auto_is_local_then_slurm_then_ssh() {
        let choose = |choice, here, slurm| LaunchMethod::choose(choice, || here, slurm);
        assert_eq!(choose(Launcher::Auto, true, true), LaunchMethod::Local);
        assert_eq!(choose(Launcher::Auto, false, true), LaunchMethod::Srun);
        assert_eq!(choose(Launcher::Auto, false, false), LaunchMethod::Ssh);
        assert_eq!(choose(Launcher::Ssh, true, true), LaunchMethod::Ssh);
        assert_eq!(choose(Launcher::Local, false, false), LaunchMethod::Local);
        assert_eq!(choose(Launcher::Srun, true, false), LaunchMethod::Srun);
        assert_eq!(choose(Launcher::Mpiexec, true, true), LaunchMethod::Mpiexec);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20))]

        #[test]
        fn a_shell_reads_back_what_was_quoted(word in "[^\\x00]{0,20}") {
            let script = OsStr::new("printf %s ").to_owned();
            let mut script = script;
            script.push(quoted(OsStr::new(&word)));
            let output = Command::new("sh").arg("-c").arg(&script).output().expect("a shell");
            prop_assert_eq!(output.stdout, word.as_bytes());
        }
    }
}
