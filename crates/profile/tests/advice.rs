//! A clean program gets no advice, and one with one fault gets that advice and no other.

use pario_profile::advice::{Advice, Hinted, Numbers, ProfileFacts, Topic, advise, overlaps};
use pario_profile::{Collector, TracedProcess};
use pario_trace::{Pace, PointerKind, TraceEvent, TracedCall, TracedOp, TracedPieces};

const K: u64 = 1 << 10;
const M: u64 = 1 << 20;

/// A program's accesses, and the expected advice.
struct Program {
    numbers: Numbers,
    collector: Collector,
    aggregators: Vec<(String, u32)>,
    hinted: Hinted,
    nodes: u32,
}

impl Program {
    fn new() -> Program {
        let (numbers, collector) = (Numbers::default(), Collector::new(false));
        Program { numbers, collector, aggregators: Vec::new(), hinted: Hinted::default(), nodes: 1 }
    }

    fn call(&mut self, rank: u32, op: TracedOp, collective: bool, offset: u64, len: u64) {
        let who =
            TracedProcess { label: rank.to_string().into(), node: format!("n{}", rank % self.nodes).into() };
        let event = TraceEvent {
            call: TracedCall { op, place: PointerKind::At, collective, pace: Pace::Blocking },
            file: Some("f".into()),
            offset,
            end: offset + len,
            len,
            moved: len,
            start_ns: 0,
            took_ns: 10,
            errno: 0,
            kind: None,
            class: 0,
            on_behalf_of: None,
            pieces: TracedPieces::All,
        };
        self.numbers.add(&who, &event);
        self.collector.add(&who, &event).expect("taken");
    }

    fn advice(self) -> Vec<Advice> {
        let profile = self.collector.finish().expect("accesses");
        let overlaps: Vec<_> = profile.files.iter().map(|name| &**name).zip(overlaps(&profile)).collect();
        advise(&ProfileFacts {
            numbers: &self.numbers,
            overlaps: &overlaps,
            aggregators: &self.aggregators,
            hinted: &self.hinted,
        })
    }

    fn topics(self) -> Vec<Topic> {
        let advice = self.advice();
        for one in &advice {
            let texts = [&one.evidence, &one.remedy, &one.pario];
            assert!(texts.iter().all(|text| !text.is_empty() && !text.contains('\n')), "{one:?}");
            assert!(
                one.evidence.contains(|c: char| c.is_ascii_digit()) || one.topic == Topic::Hints,
                "{one:?}"
            );
        }
        advice.iter().map(|one| one.topic).collect()
    }
}

/// Four ranks; each sets a view, and in each step all write a block of their own with a collective call.
fn clean() -> Program {
    let mut program = Program::new();
    for rank in 0..4 {
        program.call(rank, TracedOp::SetView, true, 0, 0);
    }
    for step in 0..200 {
        for rank in 0..4 {
            program.call(rank, TracedOp::Write, true, (4 * step + u64::from(rank)) * 64 * K, 64 * K);
        }
    }
    for rank in 0..4 {
        program.call(rank, TracedOp::Read, true, u64::from(rank) * 200 * 64 * K, 200 * 64 * K);
    }
    program
}

#[test]
fn clean_programs_get_none() {
    assert_eq!(clean().topics(), []);
    // Each rank by itself, but each in one part of its own, in large aligned accesses.
    let mut parts = Program::new();
    for rank in 0..4 {
        for step in 0..200 {
            parts.call(rank, TracedOp::Write, false, u64::from(rank) * 200 * M + step * M, M);
        }
    }
    assert_eq!(parts.topics(), []);
    // A few small accesses to a header, by one rank.
    let mut header = clean();
    (0..50).for_each(|field| header.call(0, TracedOp::Write, false, (1 << 40) + field * 8, 8));
    assert_eq!(header.topics(), []);
}

#[test]
fn each_fault_gets_its_own_advice() {
    let mut small = Program::new();
    for rank in 0..4 {
        for step in 0..300 {
            small.call(rank, TracedOp::Write, false, u64::from(rank) * M + step * 100, 100);
        }
    }
    assert_eq!(small.topics(), [Topic::Small]);

    let mut misaligned = Program::new();
    for rank in 0..4 {
        for step in 0..100 {
            misaligned.call(rank, TracedOp::Write, false, u64::from(rank) * 200 * M + step * M + 512, M);
        }
    }
    assert_eq!(misaligned.topics(), [Topic::Misaligned]);

    let mut random = Program::new();
    for rank in 0..4u64 {
        for step in 0..200 {
            // A permutation of the blocks of the rank's part.
            random.call(
                rank as u32,
                TracedOp::Write,
                false,
                rank * 256 * M + (step * step * 7 + step * 3) % 211 * M,
                M,
            );
        }
    }
    assert_eq!(random.topics(), [Topic::Random]);

    let mut again = Program::new();
    for rank in 0..4 {
        for _ in 0..5 {
            again.call(rank, TracedOp::Read, false, u64::from(rank) * 4 * M, 4 * M);
        }
    }
    assert_eq!(again.topics(), [Topic::Redundant]);

    let mut copies = Program::new();
    (0..8).for_each(|rank| copies.call(rank, TracedOp::Read, false, 0, 16 * M));
    assert_eq!(copies.topics(), [Topic::Redundant]);

    let mut imbalanced = Program::new();
    for rank in 0..4 {
        let len = if rank == 2 { 64 * M } else { M };
        imbalanced.call(rank, TracedOp::Write, false, u64::from(rank) * 64 * M, len);
    }
    assert_eq!(imbalanced.topics(), [Topic::Imbalanced]);

    let mut independent = Program::new();
    for step in 0..100 {
        for rank in 0..4 {
            independent.call(rank, TracedOp::Write, false, (4 * step + u64::from(rank)) * 16 * K, 16 * K);
        }
    }
    assert_eq!(independent.topics(), [Topic::Independent]);

    let mut churn = clean();
    for rank in 0..4 {
        (0..200).for_each(|_| churn.call(rank, TracedOp::SetView, true, 0, 0));
    }
    assert_eq!(churn.topics(), [Topic::ViewChurn]);
}

#[test]
fn aggregators_and_hints_are_compared_with_what_is_done() {
    for (nodes, aggregators, wanted) in
        [(1, 1, &[][..]), (4, 4, &[]), (4, 1, &[Topic::Aggregators]), (1, 9, &[Topic::Aggregators])]
    {
        let mut program = Program { nodes, ..Program::new() };
        for rank in 0..4 {
            program.call(rank, TracedOp::Write, true, u64::from(rank) * M, M);
        }
        program.aggregators.push(("f".to_owned(), aggregators));
        assert_eq!(program.topics(), wanted, "{nodes} nodes, {aggregators} aggregators");
    }
    let told = [
        Hinted { cb_write_off: true, ..Hinted::default() },
        Hinted { cb_nodes: Some(5), ..Hinted::default() },
        Hinted { refused: vec!["cb_nodes=many".to_owned()], ..Hinted::default() },
    ];
    for hinted in told {
        let program = Program { hinted, ..clean() };
        assert_eq!(program.topics(), [Topic::Hints]);
    }
    let fine = Hinted { cb_nodes: Some(4), no_independent: true, ..Hinted::default() };
    assert_eq!(Program { hinted: fine, ..clean() }.topics(), []);
    let mut broken = Program { hinted: Hinted { no_independent: true, ..Hinted::default() }, ..clean() };
    broken.call(0, TracedOp::Write, false, 0, M);
    assert_eq!(broken.topics(), [Topic::Hints]);
}
