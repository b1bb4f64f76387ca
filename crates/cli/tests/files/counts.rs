//! Lock traffic three times: worked out by hand, as the servers of a running partition count it, and as it comes out of the
//! simulation. Programs keep blocks in tier 1 and so lease them; each access ends, and is stored, before the next one begins.
//! They reach servers as other hosts do: on the same host what is in a server's memory is accessed without its knowledge.

use crate::site::Site;
use pario_client::{OpenOptions, Options, Partition, TierFile, TierOptions};
use pario_domain::PartitioningMethod;
use pario_simulate::{FileSpan, Machine, Protocol, RecordedCalls, Setup, Workload, run};
use pario_types::FileId;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

const STRIPE: u64 = 65536;
const LISTEN: &str = "listen = 127.0.0.1";

/// Requests, grants, conflicts, revocations.
type Counts = [u64; 4];

/// Which units of a file are written, one after the other. Unit `u` is written by program `u % programs`.
struct Accesses<'a> {
    programs: u64,
    units: &'a [u64],
}

/// What all servers of the partition have counted so far, as `pario status` tells it.
fn told(site: &Site, what: &str, names: [&str; 4]) -> Counts {
    let status = site.json(&["status", "part", "--json"]);
    let servers = status[0]["servers"].as_array().expect("servers").clone();
    names.map(|name| {
        let of = |server: &serde_json::Value| server[what][name].as_u64().expect("a number");
        servers.iter().map(of).sum()
    })
}

fn counted(site: &Site) -> Counts {
    told(site, "leases", ["requests", "grants", "conflicts", "revocations"])
}

/// By real programs on real servers; `path` is not there yet.
fn real(site: &Site, path: &str, accesses: &Accesses<'_>) -> Counts {
    let before = counted(site);
    let options = Options { far: true, ..Options::default() };
    let clients: Vec<Partition> = (0..accesses.programs)
        .map(|_| Partition::open_by_name(&site.bench.path("home"), "part", options).expect("it is up"))
        .collect();
    let files: Vec<_> = clients
        .iter()
        .map(|client| {
            client.open(path, OpenOptions::new().read(true).write(true).create(true)).expect("opened")
        })
        .collect();
    let kept: Vec<TierFile> = (1..)
        .zip(clients.iter().zip(&files))
        .map(|(team, (client, file))| {
            client.tier1().open(file, team, &TierOptions::default()).expect("there is memory")
        })
        .collect();
    for unit in accesses.units {
        let writer = &kept[(unit % accesses.programs) as usize];
        writer.write_at(&[*unit as u8; STRIPE as usize], unit * STRIPE).expect("written");
        writer.flush().expect("stored");
    }
    let after = counted(site);
    kept.into_iter().for_each(|kept| kept.close(false).expect("closed"));
    [0, 1, 2, 3].map(|one| after[one] - before[one])
}

/// By the simulation.
fn simulated(servers: u16, accesses: &Accesses<'_>) -> Counts {
    let mut recorded = RecordedCalls::new(accesses.programs as u32);
    for unit in accesses.units {
        let span = FileSpan { lo: unit * STRIPE, hi: (unit + 1) * STRIPE, len: STRIPE };
        recorded.call(FileId(1), [((unit % accesses.programs) as u32, span)]);
    }
    let work = Workload::recorded("accesses", recorded).expect("there are some");
    let setup = Setup {
        protocol: Protocol::Lease,
        method: PartitioningMethod::StaticCyclic,
        servers,
        stripe: STRIPE,
        buffer: STRIPE,
        machine: Machine { processes_per_node: 1, ..Machine::default() },
        ..Setup::default()
    };
    let locks = run(&setup, &work).expect("a sound setup").locks;
    [locks.requests, locks.grants, locks.conflicts, locks.revocations]
}

/// Each write is stored, and passes the lock manager for that, which makes one request of it. What is left are the leases.
fn leases(counts: Counts, accesses: &Accesses<'_>) -> [u64; 3] {
    let [requests, grants, conflicts, revocations] = counts;
    assert_eq!(requests, grants);
    [requests - accesses.units.len() as u64, conflicts, revocations]
}

#[test]
fn a_partition_counts_what_the_simulation_counts() {
    let site = Site::new("counts", 1, LISTEN);
    let check = |path, units: &[u64], by_hand| {
        let accesses = Accesses { programs: 2, units };
        assert_eq!(leases(real(&site, path, &accesses), &accesses), by_hand, "{path} in reality");
        assert_eq!(leases(simulated(1, &accesses), &accesses), by_hand, "{path} in the simulation");
    };
    // The first program gets all of the file. Each time the other one gives up what lies beyond what it keeps.
    check("/in turn", &[0, 1, 2, 3, 4, 5], [6, 5, 5]);
    // The second gets what lies beyond the first one's blocks, and from then on both are at home.
    check("/apart", &[0, 2, 4, 101, 103, 6, 8, 105, 10], [2, 1, 1]);
    // The first keeps blocks on both sides of each that the second wants, and gives up no more than that.
    check("/between", &[0, 2, 4, 6, 1, 3, 5, 2, 4], [4, 3, 3]);
}

#[test]
fn that_is_so_for_any_accesses() {
    let site = Site::new("any-counts", 2, LISTEN);
    let mut runner =
        TestRunner::new(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(16) });
    let mut number = 0;
    let any = std::cell::RefCell::new(&mut number);
    let cases = (2u64..4, prop::collection::vec(0u64..14, 1..20));
    let checked = runner.run(&cases, |(programs, units)| {
        **any.borrow_mut() += 1;
        let path = format!("/{}", any.borrow());
        let accesses = Accesses { programs, units: &units };
        prop_assert_eq!(real(&site, &path, &accesses), simulated(2, &accesses));
        Ok(())
    });
    checked.unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn range_locks_are_counted() {
    let site = Site::new("range-counts", 1, "");
    let open =
        || Partition::open_by_name(&site.bench.path("home"), "part", Options::default()).expect("it is up");
    let [one, other] = [open(), open()].map(|client| {
        client.open("/file", OpenOptions::new().read(true).write(true).create(true)).expect("opened")
    });
    let held = one.lock(0..10, true).expect("locked");
    let shared = one.try_lock(20..30, false).expect("an answer").expect("it can be had");
    // Both are in the way, and it is not waited for; a shared one is in nobody's way who reads.
    assert!(other.try_lock(5..25, true).expect("an answer").is_none());
    let reader = other.try_lock(25..40, false).expect("an answer").expect("it can be had");
    drop((held, shared, reader));
    drop(other.lock(0..40, true).expect("locked"));
    let names = ["requests", "grants", "conflicts", "waits"];
    assert_eq!(told(&site, "range_locks", names), [5, 4, 2, 1]);
    assert_eq!(counted(&site), [0; 4], "nobody leases");
}
