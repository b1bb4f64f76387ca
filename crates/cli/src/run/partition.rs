//! The options of a run for its partition, and the partition that they select.
//!
//! A *standing* partition is one of the registry; it is brought up if need be and left as it is. One *on demand* is
//! made for this run (`pario_launch::OnDemandPartition`) and removed afterwards, or kept.

use super::Error;
use crate::env::{Environment, HOME, MOUNT, PARTITION};
use crate::files::placing;
use crate::size_argument::size;
use clap::{ArgGroup, Args};
use pario_copy::GlobPattern;
use pario_launch::{OnDemandPartition, OnDemandRequest, host, node_names, plain_path};
use pario_registry::Structure;
use pario_reports::text::count;
use pario_types::format_size;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::time::Duration;

/// The seconds between a SIGTERM and the kill, as Slurm has it by default.
const GRACE: u64 = 30;

/// So many directories of servers are named.
const MOST_NAMED: usize = 3;

/// Which partition, and what goes into it and out of it.
#[derive(Args)]
#[group(skip)]
#[command(next_help_heading = "Options for a run on a partition")]
#[command(group = ArgGroup::new("where").args(["partition", "servers", "servers_per_node"]).conflicts_with("host_io"))]
pub struct Options {
    /// Use this partition, and bring it up if it is down
    #[arg(long, value_name = "NAME")]
    partition: Option<String>,
    /// Use a partition made for this run, with so many servers, spread over the nodes of the Slurm job or of --hosts, else on this host
    #[arg(long, value_name = "N")]
    servers: Option<NonZeroU16>,
    /// The same with so many servers on each of these nodes
    #[arg(long, value_name = "N")]
    servers_per_node: Option<NonZeroU16>,
    /// The nodes of its servers, such as n0,n1 or n[0-3] [default: those of the Slurm job, else this host]
    #[arg(long, value_name = "NODES", conflicts_with = "partition", value_parser = nodes)]
    hosts: Option<NodeList>,
    /// Where its servers keep their data on each node [default: PARIO_STORAGE, else TMPDIR, else /tmp]
    #[arg(long, value_name = "DIR", conflicts_with = "partition")]
    storage: Option<PathBuf>,
    /// Memory that each of its servers uses as cache, such as 1G [default: 256M]
    #[arg(long, value_name = "SIZE", conflicts_with = "partition", value_parser = size)]
    cache: Option<u64>,
    /// Stripe size of its files
    #[arg(long, value_name = "SIZE", conflicts_with = "partition", value_parser = size)]
    stripe_size: Option<u64>,
    /// Paths below this directory, which need not exist, are on the partition [default: a fresh name]
    #[arg(long, value_name = "DIR")]
    mount: Option<PathBuf>,
    /// Do not mount the partition there: only MPI-IO sees it
    #[arg(long)]
    no_mount: bool,
    /// Files and directories to copy into the partition's root before the run
    #[arg(long = "in", value_name = "PATH", num_args = 1..)]
    inputs: Vec<PathBuf>,
    /// Copy these files out of the partition after the run, however it ends: paths there, also with *, ?, [a-z] and **
    #[arg(long = "out", value_name = "PATTERN", num_args = 1.., requires = "to")]
    #[arg(value_parser = GlobPattern::parse)]
    outputs: Vec<GlobPattern>,
    /// Where to copy it to
    #[arg(long, value_name = "DIR", requires = "outputs")]
    to: Option<PathBuf>,
    /// Copy it only if the program succeeds
    #[arg(long, requires = "outputs")]
    out_on_success: bool,
    /// Copy it also if the program fails, as is the default
    #[arg(long, requires = "outputs", conflicts_with = "out_on_success", hide = true)]
    out_always: bool,
    /// Keep a partition made for this run with all its files, and say how to get at them
    #[arg(long, conflicts_with = "partition")]
    keep: bool,
    /// Remove it in any case, without a word: its files are of no use after the run
    #[arg(long, conflicts_with_all = ["partition", "keep"])]
    no_keep: bool,
    /// The time between a SIGTERM and the kill, as the batch system has it [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86400))]
    grace: Option<u64>,
    /// By which plan its new files are placed.
    #[command(flatten)]
    pub placing: placing::Options,
}

/// Nodes that the user names.
#[derive(Clone, Debug)]
struct NodeList(Vec<String>);

fn nodes(text: &str) -> Result<NodeList, String> {
    node_names(text).map(NodeList).ok_or_else(|| "no list of nodes such as n0,n1 or n[0-3]".to_owned())
}

/// The first word that names a file on a partition without the partition's name.
fn nameless_file(words: &[OsString]) -> Option<&OsString> {
    words.iter().find(|word| {
        let text = word.to_string_lossy();
        text.match_indices("pario:/").any(|(at, _)| {
            let before = text[..at].chars().next_back();
            !before.is_some_and(|before| before.is_alphanumeric() || matches!(before, '_' | '-' | '.'))
        })
    })
}

/// A run's partition: decided, but nothing done yet.
#[derive(Debug)]
pub struct Job {
    /// Its name.
    pub name: String,
    /// Where it is registered.
    pub home: PathBuf,
    /// Below this, paths are on it.
    pub mount: PathBuf,
    /// Whether it is to be mounted there, so that not only MPI-IO sees it.
    pub is_mounted: bool,
    /// Where it comes from.
    pub place: Place,
    /// Files and directories to copy into it.
    pub inputs: Vec<PathBuf>,
    /// The plan by which they are placed.
    pub placing: placing::Options,
    /// Files to copy out of it.
    pub results: Option<Results>,
    /// When it is kept with all its files, if it was made for this run.
    pub keep: Keep,
    /// The time between a SIGTERM and the kill.
    pub grace: Duration,
    /// The argument of the program because of which it is made, if no option asks for it.
    pub because_of: Option<String>,
}

/// Where a run's partition comes from.
#[derive(Debug)]
pub enum Place {
    /// It exists, and stays.
    Standing,
    /// It is made for this run and removed after it.
    OnDemand(Box<OnDemandPartition>),
}

/// When a partition that was made for a run is kept after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Always.
    Always,
    /// If only it has files that the program wrote, and the run did not end well.
    Results,
    /// Never.
    Never,
}

/// Files to copy out of a partition.
#[derive(Debug)]
pub struct Results {
    /// Which files.
    pub patterns: Vec<GlobPattern>,
    /// To which directory.
    pub to: PathBuf,
    /// Only if the program succeeds.
    pub on_success: bool,
}

impl Options {
    /// The run's partition, if it uses one. `words` are the program's arguments, and `fresh` is a word that nobody else has.
    pub fn job(&self, words: &[OsString], env: &Environment, fresh: &str) -> Result<Option<Job>, Error> {
        let is_named = self.partition.is_some() || self.servers.is_some() || self.servers_per_node.is_some();
        let nameless = if is_named || env.partition.is_some() { None } else { nameless_file(words) };
        let (name, place) = match &self.partition {
            Some(name) => (name.clone(), Place::Standing),
            None if is_named || nameless.is_some() => {
                let made = self.on_demand(env, fresh)?;
                (made.name().to_owned(), Place::OnDemand(Box::new(made)))
            }
            None => return self.about_partition().map_or(Ok(None), |option| Err(Error::NoPartition(option))),
        };
        let because_of = nameless.map(|word| word.to_string_lossy().into_owned());
        let home = plain_path(env.home.as_deref().ok_or(crate::partition::Error::NoHome)?)?;
        for path in &self.inputs {
            path.metadata().map_err(Error::needed("read", path))?;
        }
        let mount = match self.mount.as_ref().or(env.mount.as_ref()) {
            Some(named) => plain_path(named)?,
            None => plain_path(&env.temporary)?.join(format!("pario-{fresh}")),
        };
        let results = self.to.as_ref().map(|to| {
            let (patterns, to) = (self.outputs.clone(), to.clone());
            Results { patterns, to, on_success: self.out_on_success }
        });
        let (is_mounted, inputs, placing) = (!self.no_mount, self.inputs.clone(), self.placing.clone());
        let keep = match (self.keep, self.no_keep) {
            (true, _) => Keep::Always,
            (false, true) => Keep::Never,
            (false, false) => Keep::Results,
        };
        let grace = Duration::from_secs(self.grace.unwrap_or(GRACE));
        Ok(Some(Job {
            name,
            home,
            mount,
            is_mounted,
            place,
            inputs,
            placing,
            results,
            keep,
            grace,
            because_of,
        }))
    }

    /// An option that speaks of a partition, if there is one.
    fn about_partition(&self) -> Option<&'static str> {
        let given = [
            ("--hosts", self.hosts.is_some()),
            ("--storage", self.storage.is_some()),
            ("--cache", self.cache.is_some()),
            ("--stripe-size", self.stripe_size.is_some()),
            ("--mount", self.mount.is_some()),
            ("--no-mount", self.no_mount),
            ("--in", !self.inputs.is_empty()),
            ("--out", !self.outputs.is_empty()),
            ("--keep", self.keep),
            ("--no-keep", self.no_keep),
            ("--grace", self.grace.is_some()),
        ];
        given.into_iter().find(|(_, is_given)| *is_given).map(|(option, _)| option)
    }

    /// The partition that is made for this run. By default it has one server on each node.
    fn on_demand(&self, env: &Environment, fresh: &str) -> Result<OnDemandPartition, Error> {
        let nodes = self.nodes(env)?;
        let storage = self.storage.as_deref().or(env.storage.as_deref()).unwrap_or(&env.temporary);
        let servers = match (self.servers, self.servers_per_node) {
            (Some(servers), _) => Some(servers),
            (None, each) => {
                let count = u16::try_from(nodes.len().max(1)).ok().and_then(NonZeroU16::new);
                count.and_then(|count| count.checked_mul(each.unwrap_or(NonZeroU16::MIN)))
            }
        };
        let servers = servers.ok_or(Error::TooManyServers)?;
        let (cache, stripe_size) = (self.cache, self.stripe_size);
        let request = OnDemandRequest { storage, nodes: &nodes, servers, cache, stripe_size };
        Ok(OnDemandPartition::new(&request, fresh)?)
    }

    /// The nodes of its servers; none if that is this host alone.
    fn nodes(&self, env: &Environment) -> Result<Vec<String>, Error> {
        let nodes = match (&self.hosts, &env.slurm_nodes) {
            (Some(NodeList(nodes)), _) => return Ok(nodes.clone()),
            (None, Some(list)) => node_names(list).ok_or_else(|| Error::SlurmNodes(list.clone()))?,
            (None, None) => return Ok(Vec::new()),
        };
        match &nodes[..] {
            [only] if host::is_here(only) => Ok(Vec::new()),
            _ => Ok(nodes),
        }
    }
}

impl Job {
    /// The variables that tell the ranks about it.
    pub fn variables(&self) -> [(&'static str, OsString); 3] {
        [
            (HOME, self.home.clone().into()),
            (PARTITION, self.name.clone().into()),
            (MOUNT, self.mount.clone().into()),
        ]
    }

    /// The environment in which the commands on partitions find it.
    pub fn environment(&self, env: &Environment) -> Environment {
        Environment { home: Some(self.home.clone()), partition: Some(self.name.clone()), ..env.clone() }
    }

    /// The line about a partition that no option asks for.
    pub fn announcement(&self) -> Option<String> {
        let (Some(word), Place::OnDemand(made)) = (&self.because_of, &self.place) else { return None };
        let servers = servers_text(made.description.structure());
        Some(format!(
            "partition {} is made for this run, because {word} names none: {servers}; --servers, --servers-per-node or \
             --partition choose another",
            self.name
        ))
    }

    /// The steps before the program starts, for the user.
    pub fn before(&self) -> Vec<String> {
        let name = &self.name;
        let mut notes = vec![match &self.place {
            Place::Standing => format!("partition {name}, brought up if it is down"),
            Place::OnDemand(made) => {
                let description = &made.description;
                let structure = description.structure();
                format!(
                    "partition {name}, made for this run in {}: {}, cache {} each, stripes of {}",
                    self.directories(),
                    servers_text(structure),
                    format_size(description.settings().cache),
                    format_size(structure.stripe_size),
                )
            }
        }];
        notes.push(format!("on it: pario:/path, and paths below {}", self.mount.display()));
        if self.is_mounted {
            notes.push("mounted there for the time of the run, if FUSE is available".to_owned());
        }
        notes.extend(
            self.inputs.iter().map(|path| format!("before: {} is copied to {name}:/", path.display())),
        );
        notes
    }

    /// The steps after its end, for the user.
    pub fn after(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(Results { patterns, to, on_success }) = &self.results {
            let when = if *on_success { "success" } else { "its end" };
            let path = |pattern: &GlobPattern| pattern.to_string().trim_start_matches('/').to_owned();
            let out = |pattern| {
                format!("after {when}: {}:/{} is copied to {}", self.name, path(pattern), to.display())
            };
            notes.extend(patterns.iter().map(out));
        }
        if let Place::OnDemand(_) = self.place {
            let what = match self.keep {
                Keep::Always => "is kept",
                Keep::Results => "is removed, or kept if the program fails and only it has results",
                Keep::Never => "is removed",
            };
            notes.push(format!("then: partition {} {what}", self.name));
        }
        notes
    }

    /// The directories of the servers of a partition on demand; the first ones if there are many.
    pub fn directories(&self) -> String {
        let Place::OnDemand(made) = &self.place else { return String::new() };
        let servers = &made.description.structure().servers;
        let some: Vec<String> = servers.iter().take(MOST_NAMED).map(ToString::to_string).collect();
        format!("{}{}", some.join(", "), if servers.len() > MOST_NAMED { ", …" } else { "" })
    }
}

/// How many servers, and where.
fn servers_text(structure: &Structure) -> String {
    let servers = count(structure.servers.len() as u64, "server");
    let nodes: BTreeSet<&str> =
        structure.servers.iter().filter_map(|resource| resource.node.as_deref()).collect();
    match nodes.len() {
        0 => format!("{servers} on this host"),
        1..=MOST_NAMED => format!("{servers} on {}", nodes.into_iter().collect::<Vec<_>>().join(", ")),
        many => format!("{servers} on {many} nodes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Run {
        #[arg(long)]
        host_io: bool,
        #[arg(required = true, trailing_var_arg = true)]
        command: Vec<String>,
        #[command(flatten)]
        options: Options,
    }

    fn parse(words: &str) -> Result<Options, clap::Error> {
        let run = Run::try_parse_from(format!("run {words}").split_whitespace());
        run.map(|run| {
            assert!(!run.host_io || run.options.partition.is_none());
            assert_eq!(run.command, ["app"]);
            run.options
        })
    }

    fn env() -> Environment {
        Environment { home: Some("/h".into()), temporary: std::env::temp_dir(), ..Environment::default() }
    }

    fn job(words: &str) -> Job {
        parse(words).expect("options").job(&[], &env(), "f00").expect("a job").expect("a partition")
    }

    #[test]
    fn options_that_make_no_sense_together_are_refused() {
        for words in [
            "--partition p --servers 2 app",
            "--host-io --partition p app",
            "--host-io --servers 2 app",
            "--servers 0 app",
            "--servers 2 --cache much app",
            "--partition p --cache 1M app",
            "--partition p --stripe-size 1M app",
            "--storage /tmp app",
            "--mount /m app",
            "--no-mount app",
            "--in a -- app",
            "--out a --to b app",
            "--servers 2 --out a -- app",
            "--servers 2 --to b app",
            "--servers 2 --out-always app",
            "--servers 2 --out-on-success app",
            "--servers 2 --out a --to b --out-always --out-on-success app",
            "--partition p --keep app",
            "--keep app",
            "--servers 2 --keep --no-keep app",
            "--grace 5 app",
            "--servers 1 --servers-per-node 1 app",
            "--hosts n0 app",
            "--partition p --hosts n0 app",
            "--servers 2 --hosts n[ app",
            "--servers 2 --out ../a --to b app",
            // The program has to be separated from the paths that are copied.
            "--servers 2 --in a app",
        ] {
            let refused = parse(words).map(|options| options.job(&[], &env(), "f00").map(|_| ()));
            assert!(!matches!(refused, Ok(Ok(()))), "{words}");
            // With a file that needs a partition most of them make sense.
            if let Ok(Err(error)) = refused {
                assert!(matches!(error, Error::NoPartition(_)) && error.exit_code() == 2, "{words}: {error}");
                let job = parse(words).expect("options").job(&["pario:/x".into()], &env(), "f00");
                assert!(job.is_ok_and(|job| job.is_some()) || words.contains("--in a"), "{words}");
            }
        }
        assert!(parse("app").expect("fine").job(&[], &env(), "f00").expect("fine").is_none());
        assert!(parse("--servers 1 --out a b --to c --in d e -- app").is_ok());
    }

    #[test]
    fn a_standing_partition_is_where_the_registry_is() {
        let job = job("--partition scratch --mount /m/x/../y/. app");
        assert!(matches!(job.place, Place::Standing) && job.results.is_none());
        let [home, partition, mount] = job.variables().map(|(_, value)| value);
        assert_eq!((home, partition, mount), ("/h".into(), "scratch".into(), "/m/y".into()));
        assert!(job.is_mounted && !self::job("--partition scratch --no-mount app").is_mounted);
        let homeless = Environment::default();
        assert!(parse("--partition p app").expect("fine").job(&[], &homeless, "f00").is_err());
    }

    #[test]
    fn a_partition_on_demand_is_registered_like_others_and_has_fresh_directories() {
        let job = job("--servers 2 --storage / --cache 1M --stripe-size 64k app");
        let Place::OnDemand(made) = &job.place else { panic!() };
        let description = &made.description;
        assert_eq!((job.name.as_str(), &job.home), ("run-f00", &PathBuf::from("/h")));
        let structure = description.structure();
        let dirs: Vec<_> = structure.servers.iter().map(ToString::to_string).collect();
        assert_eq!(dirs, ["/pario-run-f00.0", "/pario-run-f00.1"]);
        assert_eq!(job.directories(), "/pario-run-f00.0, /pario-run-f00.1");
        assert_eq!((description.settings().cache, structure.stripe_size), (1 << 20, 64 << 10));
        assert!(job.mount.ends_with("pario-f00"));
    }

    /// The servers of the partition that these options and variables lead to.
    fn servers(words: &str, slurm: Option<&str>) -> String {
        let env = Environment { slurm_nodes: slurm.map(Into::into), storage: Some("/fast".into()), ..env() };
        let job = parse(words).expect("options").job(&[], &env, "f00").expect("a job").expect("a partition");
        let Place::OnDemand(made) = &job.place else { panic!() };
        let all: Vec<_> = made.description.structure().servers.iter().map(ToString::to_string).collect();
        all.join(" ").replace("/pario-run-f00", "")
    }

    #[test]
    fn servers_are_spread_over_the_nodes_of_the_job_or_of_the_user() {
        let both = "--servers 3 --hosts n[0-1] --storage /s app";
        assert_eq!(servers(both, None), "n0:/s.0 n1:/s.1 n0:/s.2");
        assert_eq!(servers(both, Some("x[1-9]")), "n0:/s.0 n1:/s.1 n0:/s.2");
        assert_eq!(
            servers("--servers-per-node 2 app", Some("n[8-9]")),
            "n8:/fast.0 n9:/fast.1 n8:/fast.2 n9:/fast.3"
        );
        assert_eq!(servers("--servers-per-node 1 --hosts ::1 app", None), "::1:/fast.0");
        // A job on this host alone needs no network.
        let here = host::name();
        assert_eq!(servers("--servers-per-node 2 --storage / app", Some(&here)), ".0 .1");
        assert_eq!(servers("--servers-per-node 2 --storage / app", None), ".0 .1");
        let text = job("--servers-per-node 1 --hosts n[0-3] app").before().join(" ");
        assert!(text.contains("4 servers on 4 nodes"), "{text}");
        let env = Environment { slurm_nodes: Some("n[".into()), ..env() };
        let error = parse("--servers 1 app").expect("options").job(&[], &env, "f00").expect_err("no nodes");
        assert!(error.to_string().contains("SLURM_JOB_NODELIST") && error.exit_code() == 125, "{error}");
    }

    #[test]
    fn a_file_without_a_partition_gets_one() {
        let job = |word: &str, words: &str, env: &Environment| {
            let words = parse(words).expect("options").job(&[word.into()], env, "f00");
            words.expect("fine").map(|job| job.announcement().unwrap_or_default())
        };
        for word in ["pario:/out", "--output=pario:/out", "'pario:/a b'", "a,pario:/b"] {
            let said = job(word, "app", &env()).expect(word);
            assert!(said.contains(&format!("because {word} names none: 1 server on this host;")), "{said}");
        }
        for word in ["pario:p/out", "out", "mypario:/out", "pario:"] {
            assert!(job(word, "app", &env()).is_none(), "{word}");
        }
        assert_eq!(job("pario:/out", "--servers 2 app", &env()).as_deref(), Some(""));
        let named = Environment { partition: Some("p".into()), ..env() };
        assert!(job("pario:/out", "app", &named).is_none());
        let slurm = Environment { slurm_nodes: Some("n[1-4]".into()), ..env() };
        assert!(job("pario:/out", "app", &slurm).expect("one").contains("4 servers on 4 nodes"));
    }

    #[test]
    fn what_is_not_there_shows_before_anything_is_done() {
        for words in ["--servers 1 --storage /no/such app", "--servers 1 --storage /etc/passwd app"] {
            let error = parse(words).expect("fine").job(&[], &env(), "f00").expect_err(words);
            assert!(error.to_string().contains("as storage") && error.exit_code() == 125, "{error}");
        }
        let error = parse("--partition p --in /no/such -- app").expect("fine").job(&[], &env(), "f00");
        assert!(error.expect_err("no input").to_string().contains("cannot read /no/such"));
        let error = parse("--servers 1 --stripe-size 1 app").expect("fine").job(&[], &env(), "f00");
        assert_eq!(error.expect_err("too small").exit_code(), 2);
    }

    #[test]
    fn all_of_it_is_told_beforehand() {
        let job = job("--servers 1 --in / --out *.nc /sub --to results -- app");
        let notes = [job.before(), job.after()].concat().join("\n");
        for words in [
            "1 server on this host, cache 256M each",
            "before: / is copied to run-f00:/",
            "after its end: run-f00:/*.nc is copied to results",
            "after its end: run-f00:/sub is copied to results",
            "then: partition run-f00 is removed, or kept if",
        ] {
            assert!(notes.contains(words), "{notes}");
        }
    }
}
