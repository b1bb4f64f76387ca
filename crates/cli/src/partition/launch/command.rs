//! The command lines of launchers: from a node and a program to what has to be run here.

use crate::env::Environment;
use pario_registry::Launcher;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// A way to start a program on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// As a process of this host.
    Local,
    /// By `ssh`.
    Ssh,
    /// By Slurm's `srun`.
    Srun,
    /// By an MPI's `mpiexec`.
    Mpiexec,
}

impl Way {
    /// The way for a node, as the partition's description wants it.
    pub fn choose(choice: Launcher, is_here: impl FnOnce() -> bool, in_slurm_job: bool) -> Way {
        match choice {
            Launcher::Auto if is_here() => Way::Local,
            Launcher::Auto if in_slurm_job => Way::Srun,
            Launcher::Auto | Launcher::Ssh => Way::Ssh,
            Launcher::Local => Way::Local,
            Launcher::Srun => Way::Srun,
            Launcher::Mpiexec => Way::Mpiexec,
        }
    }

    /// The words of the command that starts the program on the node.
    pub fn command(self, node: &str, argv: &[OsString], env: &Environment) -> Vec<OsString> {
        let words = |program: &[String], options: &[&str]| -> Vec<OsString> {
            program.iter().map(OsString::from).chain(options.iter().map(OsString::from)).collect()
        };
        match self {
            Way::Local => argv.to_vec(),
            // Never a question on the terminal; a dead node is noticed. The other side's shell reads the
            // command, so it comes as one quoted word.
            Way::Ssh => {
                let options = ["-o", "BatchMode=yes", "-o", "ConnectTimeout=20", "-T", "--", node];
                let mut command = words(&env.ssh, &options);
                command.push(argv.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(OsStr::new(" ")));
                command
            }
            // The servers share the nodes of the job with the program that uses them.
            Way::Srun => {
                let options = ["--overlap", "--nodes=1", "--ntasks=1", "--nodelist", node, "--"];
                words(&env.srun, &options).into_iter().chain(argv.iter().cloned()).collect()
            }
            // These options mean the same to MPICH's and to Open MPI's.
            Way::Mpiexec => {
                let options = ["-n", "1", "--host", node];
                words(&env.mpiexec, &options).into_iter().chain(argv.iter().cloned()).collect()
            }
        }
    }
}

/// A word as a shell reads it: bare if nothing in it is special, else in quotes.
fn quoted(word: &OsStr) -> OsString {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+=:,@%".contains(byte);
    let bytes = word.as_bytes();
    if !bytes.is_empty() && bytes.iter().all(plain) {
        return word.to_owned();
    }
    let mut text = vec![b'\''];
    for &byte in bytes {
        match byte {
            b'\'' => text.extend(b"'\\''"),
            other => text.push(other),
        }
    }
    text.push(b'\'');
    OsString::from_vec(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::process::Command;

    fn env() -> Environment {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect();
        Environment {
            ssh: words("ssh -p 2222"),
            srun: words("srun"),
            mpiexec: words("mpiexec"),
            ..Environment::default()
        }
    }

    fn shown(way: Way, argv: &[&str]) -> String {
        let argv: Vec<_> = argv.iter().map(OsString::from).collect();
        let words = way.command("n1", &argv, &env());
        words.iter().map(|word| format!("[{}]", word.to_string_lossy())).collect()
    }

    #[test]
    fn each_launcher_gets_its_own_words() {
        let argv = ["/opt/my pario", "serve"];
        assert_eq!(shown(Way::Local, &argv), "[/opt/my pario][serve]");
        assert_eq!(
            shown(Way::Ssh, &argv),
            "[ssh][-p][2222][-o][BatchMode=yes][-o][ConnectTimeout=20][-T][--][n1]['/opt/my pario' serve]"
        );
        assert_eq!(
            shown(Way::Srun, &argv),
            "[srun][--overlap][--nodes=1][--ntasks=1][--nodelist][n1][--][/opt/my pario][serve]"
        );
        assert_eq!(shown(Way::Mpiexec, &argv), "[mpiexec][-n][1][--host][n1][/opt/my pario][serve]");
    }

    #[test]
    fn auto_is_local_then_slurm_then_ssh() {
        let choose = |choice, here, slurm| Way::choose(choice, || here, slurm);
        assert_eq!(choose(Launcher::Auto, true, true), Way::Local);
        assert_eq!(choose(Launcher::Auto, false, true), Way::Srun);
        assert_eq!(choose(Launcher::Auto, false, false), Way::Ssh);
        assert_eq!(choose(Launcher::Ssh, true, true), Way::Ssh);
        assert_eq!(choose(Launcher::Local, false, false), Way::Local);
        assert_eq!(choose(Launcher::Srun, true, false), Way::Srun);
        assert_eq!(choose(Launcher::Mpiexec, true, true), Way::Mpiexec);
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
