//! How fast a partition is, beside what the machine does without one.
//!
//! The program is `crates/pario/examples/measure`, which says what each measurement is. It does Pario's part and
//! the limit's (memcpy, a plain file, a plain stream of the same bytes) right after each other and again in every
//! turn, so that a slow minute of the machine hits both, and a share is that of one turn.

mod aims;
pub(super) mod network;
mod options;
mod rows;
pub(super) mod site;

use crate::place;
use crate::program::{self, Outcome};

use network::{Between, Network};
use options::{Options, Part, Runs};
use rows::Rows;
use site::{Partition, Site};

pub fn run(arguments: &[String]) -> Outcome {
    let options = match Options::parse(arguments)? {
        Runs::Help => {
            print!("{}", options::HELP);
            return Ok(());
        }
        Runs::With(options) => options,
    };
    program::run(program::cargo().args(["build", "--release", "-p", "pario-cli"]))?;
    program::run(program::cargo().args(["build", "--release", "-p", "pario", "--example", "measure"]))?;
    println!("\n{}\n{}", legend(&options), super::load());
    let site = Site::create(&place::target().join("bench/partition"), &place::binary())?;
    for part in &options.parts {
        match part {
            Part::Local => local(&site, &options)?,
            Part::Tcp => tcp(&site, &options)?,
            Part::Flush => flush(&site, &options)?,
            Part::Names => names(&site, &options)?,
        }
    }
    Ok(())
}

fn legend(options: &Options) -> String {
    let Options { servers, turns, .. } = options;
    format!(
        "Partitions of {servers} server(s) on this host, {turns} turns. Clients are threads, each with connections \
         and a mapping\nof its own. GiB/s and µs per access of Pario are medians; the limit is the same without \
         Pario. share: limit's\ntime / Pario's time, 1 is as fast as the limit; median (quartiles) over turns."
    )
}

/// What a part of the bench gets from the program.
fn measure(partition: &Partition<'_>, arguments: &[String]) -> Outcome<Rows> {
    Rows::parse(&program::stdout(partition.measure().args(arguments))?)
}

fn words<const N: usize>(words: [&dyn ToString; N]) -> Vec<String> {
    words.iter().map(|word| word.to_string()).collect()
}

fn local(site: &Site, options: &Options) -> Outcome {
    let turns = options.turns;
    let large = site.up("large", options.servers, &["cache=256M"], &Between::Nothing)?;
    let rows = measure(&large, &words([&"hits", &large.name(), &turns]))?;
    rows.show("Shared memory, blocks in the cache (write-new: put there by the write)", "memcpy");
    aims::hits(&rows);
    drop(large);
    let cache = format!("cache={}M", 32 / options.servers.min(32));
    let small = site.up("small", options.servers, &[&cache], &Between::Nothing)?;
    let plain = site.dir().display();
    let rows = measure(&small, &words([&"misses", &small.name(), &turns, &plain]))?;
    rows.show("Shared memory, blocks not in the cache, stripe files in the page cache", "plain file");
    Ok(())
}

fn tcp(site: &Site, options: &Options) -> Outcome {
    stream(site, options, &Between::Loopback)?;
    match Network::create() {
        Ok(network) => stream(site, options, &Between::Veth(&network)),
        Err(why) => {
            println!("\nTCP between network namespaces: SKIPPED, {why}");
            Ok(())
        }
    }
}

/// Both ends of the measurement are where `between` says.
fn stream(site: &Site, options: &Options, between: &Between<'_>) -> Outcome {
    let listen = format!("listen={}", between.server());
    let partition = site.up("streams", options.servers, &["cache=256M", &listen], between)?;
    let peer = site.peer(between)?;
    let target = partition.target()?;
    let rows = measure(&partition, &words([&"tcp", &target, &options.turns, &peer.address]))?;
    rows.show(&format!("TCP {}, blocks in the cache", between.label()), "plain stream");
    aims::streams(&rows, between.label());
    Ok(())
}

fn flush(site: &Site, options: &Options) -> Outcome {
    let settings = ["cache=256M", "high_water=100%", "low_water=50%"];
    let partition = site.up("dirty", options.servers, &settings, &Between::Nothing)?;
    // Nearly all of the caches: a block more than they have would be a flush before its time.
    let mib = 240 * u64::from(options.servers);
    let plain = site.dir().display();
    let rows = measure(&partition, &words([&"flush", &partition.name(), &options.turns, &plain, &mib]))?;
    let title =
        format!("{mib} MiB of dirty blocks to the disk of the build (flush: to the system, as close does)");
    rows.show(&title, "plain file");
    Ok(())
}

fn names(site: &Site, options: &Options) -> Outcome {
    let partition = site.up("names", options.servers, &[], &Between::Nothing)?;
    let rows = measure(&partition, &words([&"names", &partition.name(), &options.turns, &options.files()]))?;
    rows.show_rates(
        "Names (create: and close; ping: a mere round trip), operations of all clients per second",
    );
    Ok(())
}
