//! Plans against a model that looks at every byte, and against the paper's figure and table.

use pario_placement::{ChunkHolder, Placement, PlacementPlan, PlanSummary, ProcessId};
use pario_profile::{Broadcast, Collector, Profile, ProfiledAccess, Rule, csv::Csv, make};
use proptest::prelude::*;
use std::collections::BTreeMap;

const PLAIN: Rule = Rule { dominance: None, broadcast: Broadcast::Always };
const CHEAPER: Rule = Rule { dominance: None, broadcast: Broadcast::IfCheaper };

fn plan(table: &str, rule: Rule) -> PlacementPlan {
    let mut collector = Collector::new(false);
    for row in Csv::new(table.as_bytes()).expect("a table") {
        let (who, event) = row.expect("a row");
        collector.add(&who, &event).expect("taken");
    }
    make(&collector.finish().expect("a profile"), rule, "a table")
}

/// A chunk in words: `offset+length placement users`.
fn words(plan: &PlacementPlan) -> Vec<String> {
    let word = |(_, _, chunk): (usize, _, &pario_placement::Chunk)| {
        let users: Vec<&str> = plan.group(chunk).users.iter().map(|&user| plan.label(user)).collect();
        format!("{}+{} {} {}", chunk.offset, chunk.length, chunk.placement.word(), users.join(""))
    };
    plan.chunks().map(word).collect()
}

/// The paper's first figure: processes w to z, chunks a to j of ten bytes each.
const FIGURE: &str = include_str!("figure.csv");

#[test]
fn the_figure_gives_five_partitions() {
    let plan = plan(FIGURE, PLAIN);
    assert_eq!(
        words(&plan),
        [
            "0+10 local w",
            "10+10 broadcast wx",
            "20+10 local w",
            "30+10 local x",
            "40+10 central xy",
            "50+10 local x",
            "60+10 local y",
            "70+10 duplicate yz",
            "80+10 local z",
            "91+9 local z",
        ]
    );
    let partitions: Vec<(ChunkHolder, String)> = plan
        .partitions()
        .into_iter()
        .map(|partition| {
            (partition.holder, partition.chunks.iter().map(|&n| char::from(b'a' + n as u8)).collect())
        })
        .collect();
    let of = |number| ChunkHolder::Process(ProcessId(number));
    let wanted = [(of(0), "cba"), (of(1), "bfd"), (of(2), "gh"), (of(3), "hji"), (ChunkHolder::Central, "e")];
    assert_eq!(partitions, wanted.map(|(holder, chunks)| (holder, chunks.to_owned())));

    let summary = PlanSummary::of(&plan);
    assert_eq!((summary.chunks, summary.accessed, summary.saved()), (10, 129, 99));
    // Of the writes of b, and all of e; c, f, h and j are only read.
    assert_eq!((summary.moved, summary.laid_out), (10 + 20, 10 + 10 + 20 + 9));
    let w = summary.processes[0];
    assert_eq!((w.local, w.duplicate, w.broadcast, w.central), (20, 0, 10, 0));
    assert_eq!((summary.processes[1].central, summary.processes[3].duplicate), (10, 10));
}

#[test]
fn the_table_in_all_its_rows() {
    let rows = [
        (&["w read"][..], "local"),
        (&["w write"], "local"),
        (&["w read", "w write", "w read"], "local"),
        (&["w read", "x read"], "duplicate"),
        (&["w read", "x read", "y read"], "duplicate"),
        (&["w write", "x read"], "broadcast"),
        (&["w read", "x read", "x write"], "broadcast"),
        (&["w write", "w write", "x read", "y read"], "broadcast"),
        (&["w write", "x write"], "central"),
        (&["w write", "x write", "y read"], "central"),
        (&["w write", "x read", "x write", "y write"], "central"),
    ];
    for (accesses, placement) in rows {
        let table: String = accesses
            .iter()
            .map(|access| access.split_once(' ').expect("two words"))
            .map(|(process, op)| format!("{process},f,5,7,{op},0\n"))
            .collect();
        let plan = plan(&table, PLAIN);
        assert_eq!((plan.files[0].chunks.len(), plan.files[0].chunks[0].placement.word()), (1, placement));
    }
}

#[test]
fn neighbours_with_one_signature_are_one_chunk() {
    // Touching, overlapping, read here and written there by a writer; a gap and another writer part them.
    let table = "0,f,0,4,write,5\n0,f,4,4,write,1\n0,f,6,4,read,0\n0,f,11,1,write,9\n1,f,11,2,read,2\n1,g,0,1,read,7\n";
    assert_eq!(
        words(&plan(table, PLAIN)),
        ["0+8 local 0", "8+2 local 0", "11+1 broadcast 01", "12+1 local 1", "0+1 local 1"]
    );
    let order: Vec<u64> = plan(table, PLAIN).chunks().map(|(_, _, chunk)| chunk.order).collect();
    assert_eq!(order, [0, 1, 2, 3, 4], "what is first used at the same time stays in the order of offsets");
}

#[test]
fn a_dominant_process_gets_the_chunk_only_if_asked_for() {
    let mut table = "1,f,0,100,write,0\n".to_owned();
    for time in 1..=9 {
        table += &format!("0,f,0,100,write,{time}\n");
    }
    assert_eq!(words(&plan(&table, PLAIN)), ["0+100 central 01"]);
    let dominated = |least| plan(&table, Rule { dominance: Some(least), ..PLAIN });
    assert_eq!(words(&dominated(0.95)), ["0+100 central 01"]);
    let plan = dominated(0.9);
    assert_eq!(plan.files[0].chunks[0].placement, Placement::Local(ProcessId(0)));
    assert_eq!((PlanSummary::of(&plan).accessed, PlanSummary::of(&plan).moved), (1000, 100));
    // Many small accesses against one large one: by bytes the one, by count the other, so neither.
    let mut table = "1,f,0,100,read,0\n".to_owned();
    (0..50).for_each(|at| table += &format!("0,f,{at},1,write,1\n"));
    assert_eq!(words(&crate::plan(&table, Rule { dominance: Some(0.6), ..PLAIN }))[0], "0+50 broadcast 01");
}

#[test]
fn what_is_read_no_more_than_it_is_sent_stays_with_its_writer_if_asked_for() {
    let placed = |table: &str| {
        let plan = plan(table, CHEAPER);
        let chunk = plan.files[0].chunks[0];
        (chunk.placement, chunk.moved)
    };
    let at_1 = Placement::Local(ProcessId(1));
    assert_eq!(placed("0,f,0,100,read,9\n1,f,0,100,write,0\n"), (at_1, 100), "once written, once read");
    assert_eq!(
        placed("0,f,0,100,read,9\n1,f,0,100,write,0\n1,f,0,100,read,1\n2,f,0,100,read,9\n"),
        (at_1, 200),
        "what the writer reads itself costs nothing"
    );
    let again = "0,f,0,100,read,8\n0,f,0,100,read,9\n1,f,0,100,write,0\n";
    assert_eq!(placed(again), (Placement::Broadcast, 100), "read twice, sent once");
    let bit_by_bit = "0,f,0,50,read,8\n0,f,50,50,read,9\n1,f,0,100,write,0\n";
    assert_eq!(placed(bit_by_bit), (Placement::Broadcast, 100), "sent in one access, read in two");
    // Of each chunk of these one access reads; but one writes all of them, or all are read by one.
    let parts =
        |whole: &str, part: &str| format!("0,f,0,50,{part},9\n2,f,50,50,{part},9\n1,f,0,100,{whole},0\n");
    assert_eq!(placed(&parts("write", "read")), (Placement::Broadcast, 50));
    assert_eq!(placed(&parts("read", "write")), (Placement::Local(ProcessId(0)), 50));
    assert_eq!(placed("0,f,0,100,read,8\n1,f,0,100,read,9\n"), (Placement::Duplicate, 0));
    assert_eq!(placed("0,f,0,100,write,8\n1,f,0,100,write,9\n"), (Placement::Central, 200));
}

/// Users of a byte, by process: whether it writes; and the first use.
type Byte = (BTreeMap<u32, bool>, u64, u64, u64);

fn by_bytes(accesses: &[ProfiledAccess], file: u32) -> Vec<(u64, u64, Byte)> {
    let mut bytes: BTreeMap<u64, Byte> = BTreeMap::new();
    for access in accesses.iter().filter(|access| access.file() == file) {
        for at in access.offset..access.end {
            let (users, first, read, written) =
                bytes.entry(at).or_insert_with(|| (BTreeMap::new(), u64::MAX, 0, 0));
            *users.entry(access.process).or_default() |= access.is_write();
            *first = (*first).min(access.time);
            *(if access.is_write() { written } else { read }) += 1;
        }
    }
    let mut runs: Vec<(u64, u64, Byte)> = Vec::new();
    for (at, byte) in bytes {
        match runs.last_mut() {
            Some((offset, length, run)) if *offset + *length == at && run.0 == byte.0 => {
                *length += 1;
                *run = (byte.0, run.1.min(byte.1), run.2 + byte.2, run.3 + byte.3);
            }
            _ => runs.push((at, 1, byte)),
        }
    }
    runs
}

fn accesses() -> impl Strategy<Value = Vec<ProfiledAccess>> {
    let one = (0u32..5, 0u32..2, 0u64..60, 1u64..20, any::<bool>(), 0u64..30).prop_map(
        |(process, file, offset, len, write, time)| {
            ProfiledAccess::new(process, file, offset, offset + len, write, time)
        },
    );
    prop::collection::vec(one, 1..40)
}

fn profile(accesses: Vec<ProfiledAccess>) -> Profile {
    let process =
        |label: u32| pario_placement::PlannedProcess { label: label.to_string(), node: String::new() };
    Profile {
        processes: (0..5).map(process).collect(),
        files: vec!["f".into(), "g".into()],
        accesses,
        idle: 0,
    }
}

proptest! {
    #[test]
    fn a_sweep_finds_what_every_byte_says(accesses in accesses()) {
        let plan = make(&profile(accesses.clone()), PLAIN, "");
        let mut by_time = Vec::new();
        for file in 0..2 {
            let model = by_bytes(&accesses, file);
            let chunks = &plan.files[file as usize].chunks;
            prop_assert_eq!(chunks.len(), model.len());
            for (chunk, (offset, length, (users, first, read, written))) in chunks.iter().zip(model) {
                prop_assert_eq!((chunk.offset, chunk.length), (offset, length));
                prop_assert_eq!((chunk.read, chunk.written), (read, written));
                let group = plan.group(chunk);
                let is_writer = |user: &ProcessId| group.writers.contains(user);
                let found: BTreeMap<u32, bool> = group.users.iter().map(|user| (user.0, is_writer(user))).collect();
                let writers = users.values().filter(|&&writes| writes).count();
                let word = match (users.len(), writers) {
                    (1, _) => "local",
                    (_, 0) => "duplicate",
                    (_, 1) => "broadcast",
                    _ => "central",
                };
                prop_assert_eq!((chunk.placement.word(), found), (word, users));
                by_time.push(((first, file, offset), chunk.order));
            }
        }
        by_time.sort();
        prop_assert!(by_time.iter().map(|(_, order)| *order).eq(0..by_time.len() as u64));
        prop_assert_eq!(PlacementPlan::from_text(&plan.to_text()), Ok(plan));
    }

    #[test]
    fn copies_that_have_to_be_cheaper_are(accesses in accesses()) {
        let (plain, cheaper) = (profile(accesses.clone()), profile(accesses.clone()));
        let (plain, cheaper) = (make(&plain, PLAIN, ""), make(&cheaper, CHEAPER, ""));
        for ((_, file, always), (.., chunk)) in plain.chunks().zip(cheaper.chunks()) {
            let number = plain.files.iter().position(|other| other.name == file.name).expect("its own") as u32;
            let group = plain.group(always);
            let writer = group.writers.first().filter(|_| always.placement == Placement::Broadcast);
            let Some(&writer) = writer else {
                prop_assert_eq!(always, chunk);
                continue;
            };
            let reads = |at: u64, access: &&ProfiledAccess| {
                let here = access.file() == number && (access.offset..access.end).contains(&at);
                here && access.process != writer.0
            };
            let each = always.offset..always.end();
            let fetched: u64 = each.map(|at| accesses.iter().filter(|a| reads(at, a)).count() as u64).sum();
            // The part of the accesses here, in units of which any access has a whole number.
            let part = |access: &ProfiledAccess| {
                let here = access.end.min(always.end()).saturating_sub(access.offset.max(always.offset));
                if access.file() == number { here * (232_792_560 / (access.end - access.offset)) } else { 0 }
            };
            let parts = |wanted: &dyn Fn(&&ProfiledAccess) -> bool| -> u64 {
                accesses.iter().filter(wanted).map(part).sum()
            };
            let (reads, writes) = (parts(&|a| a.process != writer.0), parts(&|a| a.is_write()));
            let is_few = reads <= writes * (group.users.len() as u64 - 1);
            let (placement, moved) = match fetched <= always.moved && is_few {
                true => (Placement::Local(writer), fetched),
                false => (Placement::Broadcast, always.moved),
            };
            prop_assert_eq!((chunk.placement, chunk.moved), (placement, moved));
        }
        prop_assert!(PlanSummary::of(&cheaper).moved <= PlanSummary::of(&plain).moved);
        prop_assert_eq!(PlacementPlan::from_text(&cheaper.to_text()), Ok(cheaper));
    }

    #[test]
    fn a_dominant_process_is_the_one_that_counting_finds(accesses in accesses(), least in 0.5f64..1.0) {
        let plan = make(&profile(accesses.clone()), Rule { dominance: Some(least), ..PLAIN }, "");
        for file in 0..2 {
            for chunk in &plan.files[file as usize].chunks {
                let touching = accesses
                    .iter()
                    .filter(|a| a.file() == file && a.offset < chunk.end() && a.end > chunk.offset);
                let mut by_process: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
                for access in touching {
                    let (count, bytes) = by_process.entry(access.process).or_default();
                    *count += 1;
                    *bytes += access.end.min(chunk.end()) - access.offset.max(chunk.offset);
                }
                let counts: u64 = by_process.values().map(|(count, _)| count).sum();
                let bytes: u64 = by_process.values().map(|(_, bytes)| bytes).sum();
                prop_assert_eq!(bytes, chunk.read + chunk.written);
                let share = |(count, part): &(u64, u64)| {
                    (*count as f64 / counts as f64).min(*part as f64 / bytes as f64)
                };
                // Of two equal halves neither dominates.
                let dominant = by_process.iter().find(|(_, weight)| share(weight) >= least.max(0.5 + 1e-9));
                match (dominant, chunk.placement) {
                    (Some((&process, weight)), placement) => {
                        prop_assert_eq!(placement, Placement::Local(ProcessId(process)));
                        prop_assert_eq!(chunk.moved, bytes - weight.1);
                    }
                    (None, Placement::Local(_)) => prop_assert!(least < 0.5 + 1e-9),
                    (None, _) => (),
                }
            }
        }
    }
}
