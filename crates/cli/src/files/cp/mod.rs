//! `pario cp`: copies files into, out of and within partitions, in parallel.
//!
//! A walk over the sources (`walk`) brings files to threads (`crew`), which copy each in pieces (`copy`).
//! Whether a side is on this host or in a partition matters in `side` only.

mod copy;
mod crew;
mod limit;
mod ranges;
mod side;
mod state;
mod walk;

use super::address::{Address, Spot};
use super::error::Error;
use super::placing::{self, Placing};
use super::progress::{Display, Meter};
use super::session::Session;
use super::tally::failures;
use super::{print, text};
use crate::env::Environment;
use clap::Args;
use copy::Settings;
use crew::{Crew, Outcome};
use limit::Limit;
use pario_registry::parse_size;
use serde_json::json;
use side::{Kind, Layout};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use walk::Walk;

pub use side::Side;

/// Copy files into, out of and within partitions.
#[derive(Args)]
#[command(after_help = NOTES)]
pub struct Arguments {
    /// Directories with all that is in them
    #[arg(short = 'r', short_alias = 'R', long)]
    recursive: bool,
    /// What links to directories lead to as well, within directories
    #[arg(short = 'L', long)]
    dereference: bool,
    /// Go on where an interrupted copy was, and leave files alone that have been copied
    #[arg(long)]
    resume: bool,
    /// Bring each copy to the medium before it gets its name
    #[arg(long)]
    sync: bool,
    /// Show how far it is, also if the output is no terminal
    #[arg(long)]
    progress: bool,
    /// Say in JSON what was done
    #[arg(long)]
    json: bool,
    /// Threads that copy [default: the number of cores, at most 8]
    #[arg(short = 'j', long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// Bytes that a thread copies at a time
    #[arg(long, value_name = "SIZE", default_value = "4M", value_parser = chunk)]
    chunk: u64,
    /// The most bytes per second, such as 100M, so that others get their share
    #[arg(long, value_name = "SIZE", value_parser = size)]
    limit: Option<u64>,
    /// Stripe size of new files in a partition [default: the partition's]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    stripe_size: Option<u64>,
    /// Over how many servers new files in a partition are striped [default: all]
    #[arg(long, value_name = "N")]
    stripe_count: Option<u16>,
    #[command(flatten)]
    placing: placing::Options,
    /// What to copy, and then the name of the copy or the directory to put it into
    #[arg(value_name = "PATH", required = true, num_args = 2..)]
    paths: Vec<OsString>,
}

/// The usual `--chunk`.
const CHUNK: u64 = 4 << 20;

const NOTES: &str = "\
Paths are NAME:/path or pario:NAME/path; everything else is a path of this
host (as is ufs:path). A directory without a name of its own, such as . or
scratch:/, stands for what is in it.

A copy keeps the mode and the times of its source, and holes stay holes. It
is written as .NAME.pario-part and gets its name when it is complete. If it is
interrupted, 'pario cp --resume' with the same paths goes on from there,
provided that the source has the same size and time as before.

Examples:
  pario cp input.dat scratch:/                 into the partition scratch
  pario cp -r scratch:/out results             out of it, a whole directory
  pario cp -r --resume scratch:/out results    the same, after an interruption
  pario cp scratch:/a other:/b                 from one partition to another
  pario cp --plan sim.plan input.dat scratch:/ as a plan has it

Exit code: 0 all copied, 1 something could not be, 2 wrong arguments.";

fn size(text: &str) -> Result<u64, String> {
    parse_size(text).filter(|size| *size > 0).ok_or_else(|| "not a size; examples: 65536, 64K, 4M".to_owned())
}

fn chunk(text: &str) -> Result<u64, String> {
    let range = (64 << 10)..=(1 << 30);
    size(text)?;
    parse_size(text).filter(|size| range.contains(size)).ok_or_else(|| "allowed are 64K to 1G".to_owned())
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments, env: &Environment) -> Result<ExitCode, Error> {
    let mut session = Session::of_files(env);
    let pairs = pairs(arguments, &mut session)?;
    let placing = placing(arguments, &pairs, &session)?;
    let all = transfer(arguments, pairs, placing, || false)?;
    Ok(if all { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Arguments {
    /// Whole trees, and everything else as it is without options.
    fn trees(paths: Vec<OsString>) -> Arguments {
        Arguments {
            recursive: true,
            dereference: false,
            resume: false,
            sync: false,
            progress: false,
            json: false,
            jobs: None,
            chunk: CHUNK,
            limit: None,
            stripe_size: None,
            stripe_count: None,
            placing: placing::Options::default(),
            paths,
        }
    }
}

/// For other commands: copies trees into a directory, as this command does; whether all of it was copied.
/// What was not has been said.
pub fn copy_into(
    sources: &[PathBuf],
    target: &Spot,
    by: &placing::Options,
    env: &Environment,
    stop: fn() -> bool,
) -> Result<bool, Error> {
    let mut paths: Vec<_> = sources.iter().map(|path| prefixed("ufs:", path.as_os_str())).collect();
    paths.push(format!("pario:{}{}", target.partition, target.path).into());
    let arguments = Arguments { placing: by.clone(), ..Arguments::trees(paths) };
    let mut session = Session::of_files(env);
    let pairs = pairs(&arguments, &mut session)?;
    let placing = placing(&arguments, &pairs, &session)?;
    transfer(&arguments, pairs, placing, stop)
}

/// The same with a name for each copy.
pub fn copy_as(pairs: Vec<(Side, PathBuf)>, stop: fn() -> bool) -> Result<bool, Error> {
    let pairs = pairs.into_iter().map(|(source, target)| (source, behind_link(Side::Here(target))));
    transfer(&Arguments::trees(Vec::new()), pairs.collect(), None, stop)
}

fn prefixed(prefix: &str, text: &OsStr) -> OsString {
    let mut whole = OsString::from(prefix);
    whole.push(text);
    whole
}

/// Copies each to its name, as the arguments say; whether all of it was copied.
fn transfer(
    arguments: &Arguments,
    pairs: Vec<(Side, Side)>,
    placing: Option<Placing>,
    stop: fn() -> bool,
) -> Result<bool, Error> {
    let meter = Arc::new(Meter::default());
    let settings = Settings {
        chunk: arguments.chunk,
        resume: arguments.resume,
        sync: arguments.sync,
        follow: arguments.dereference,
        layout: Layout {
            stripe: arguments.stripe_size.unwrap_or(0),
            count: arguments.stripe_count.unwrap_or(0),
            table: None,
        },
        placing,
        limit: arguments.limit.map(Limit::new),
        meter: Arc::clone(&meter),
        moved: AtomicU64::new(0),
        stop,
    };
    let since = Instant::now();
    let display = Display::start(Arc::clone(&meter), arguments.progress);
    let crew = Crew::new(&settings, &display);
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let jobs = arguments.jobs.map_or(cores.min(8), NonZeroUsize::get);
    let mut walk = Walk::new(&crew, &settings, arguments.recursive);
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| crew.work());
        }
        for (source, target) in pairs {
            if !walk.copy(source, target) {
                break;
            }
        }
        settings.meter.settle();
        crew.complete();
    });
    let directories = walk.finish();
    let outcome = crew.outcome();
    let shown = display.is_shown();
    drop(display);
    report(arguments, &outcome, directories, settings.moved.load(Relaxed), since.elapsed(), shown)
}

/// The plan by which copies in a partition are placed.
fn placing(
    arguments: &Arguments,
    pairs: &[(Side, Side)],
    session: &Session<'_>,
) -> Result<Option<Placing>, Error> {
    match pairs.first() {
        _ if arguments.placing.plan.is_none() => Ok(None),
        Some((_, Side::There(partition, _))) => arguments.placing.on(&session.entry(partition.name())?),
        _ => Err(Error::Refused("--plan".to_owned(), "files of this host are not placed by a plan")),
    }
}

/// Each source, and what its copy is to be called.
fn pairs(arguments: &Arguments, session: &mut Session<'_>) -> Result<Vec<(Side, Side)>, Error> {
    let mut sides = Vec::new();
    for path in &arguments.paths {
        sides.push(side(path, session)?);
    }
    let target = sides.pop().expect("two at least");
    let slash = arguments.paths.last().is_some_and(|text| text.as_bytes().ends_with(b"/"));
    let found = target.info()?;
    let into = found.is_some_and(|info| info.kind == Kind::Directory);
    if !into && (sides.len() > 1 || (slash && !arguments.recursive)) {
        let why = "no directory; 'mkdir' or 'pario mkdir' makes one";
        return Err(Error::Refused(target.show(), why));
    }
    let mut names = BTreeSet::new();
    let mut pairs = Vec::new();
    for source in sides {
        let name = source.name();
        if into
            && let Some(name) = &name
            && !names.insert(name.clone())
        {
            let why = "two of that name are to go into the same directory";
            return Err(Error::Refused(source.show(), why));
        }
        let target = match name.filter(|_| into) {
            Some(name) => target.join(&name)?,
            None => target.clone(),
        };
        let target = behind_link(target);
        if is_within(&target, &source) {
            let why = "a directory cannot be copied into itself";
            return Err(Error::RefusedBoth(source.show(), target.show(), why));
        }
        pairs.push((source, target));
    }
    Ok(pairs)
}

fn side(text: &OsStr, session: &mut Session<'_>) -> Result<Side, Error> {
    Ok(match Address::parse(text, session.usual())? {
        Address::Here(path) => Side::Here(path),
        Address::There(Spot { partition, path }) => Side::There(session.partition(&partition)?, path),
    })
}

/// A copy takes the place of the file that a link leads to, not that of the link.
fn behind_link(target: Side) -> Side {
    match &target {
        Side::Here(path) if target.is_link() => path.canonicalize().map_or(target, Side::Here),
        _ => target,
    }
}

/// Whether the first would be in the second, a directory.
fn is_within(inner: &Side, outer: &Side) -> bool {
    match (inner, outer) {
        (Side::Here(inner), Side::Here(outer)) => {
            let parent = inner.parent().filter(|parent| !parent.as_os_str().is_empty());
            let real = inner.canonicalize().or_else(|_| parent.unwrap_or(Path::new(".")).canonicalize());
            let (Ok(inner), Ok(outer)) = (real, outer.canonicalize()) else { return false };
            outer.is_dir() && inner.starts_with(outer)
        }
        (Side::There(one, inner), Side::There(other, outer)) => {
            let below = Path::new(inner).starts_with(outer) && inner != outer;
            one.id() == other.id() && (below || outer == "/")
        }
        _ => false,
    }
}

fn report(
    arguments: &Arguments,
    outcome: &Outcome,
    directories: u64,
    moved: u64,
    took: Duration,
    shown: bool,
) -> Result<bool, Error> {
    if arguments.json {
        let object = json!({
            "files": outcome.copied,
            "bytes": outcome.bytes,
            "directories": directories,
            "unchanged": outcome.unchanged,
            "moved_bytes": moved,
            "seconds": took.as_secs_f64(),
            "failures": outcome.failures,
            "kept": outcome.kept,
            "failed": failures(&outcome.failed),
        });
        print(&format!("{object:#}\n"))?;
    } else if shown {
        let rate = moved as f64 / took.as_secs_f64().max(1e-3);
        let copied = text::count(outcome.copied, "file");
        let unchanged = match outcome.unchanged {
            0 => String::new(),
            count => format!(", {} copied before", text::count(count, "file")),
        };
        let (bytes, seconds) = (text::short_size(outcome.bytes), took.as_secs_f64());
        let rate = text::short_size(rate as u64);
        eprintln!("copied {copied}, {bytes} in {seconds:.1} s ({rate}/s){unchanged}");
    }
    if outcome.stopped {
        eprintln!("pario: the rest was not tried");
    }
    if outcome.kept > 0 {
        let kept = text::count(outcome.kept, "file");
        eprintln!("pario: what was copied of {kept} is kept: 'pario cp --resume' goes on from there");
    }
    Ok(outcome.failures == 0)
}
