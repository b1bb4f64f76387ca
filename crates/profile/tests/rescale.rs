//! A rescaled plan equals the plan from a profile at that size.

use pario_placement::{PlacementPlan, PlanSummary, PlannedProcess};
use pario_profile::rescale::{Ratio, RescaleError, RescaleTarget, Trend, between, rescale, shown};
use pario_profile::{Profile, ProfiledAccess, Rule, make};
use proptest::prelude::*;

/// A program: rank 0 writes a header that all read, and then in each round each rank writes its own chunk and, behind it,
/// a note that all ranks read.
#[derive(Clone, Copy, Debug)]
struct Program {
    header: u64,
    ranks: u32,
    rounds: u64,
    chunk: u64,
    note: u64,
    /// Bytes behind the last whole round.
    rest: u64,
}

impl Program {
    fn turn(&self) -> u64 {
        self.chunk + self.note
    }

    fn end(&self) -> u64 {
        self.header + self.rounds * u64::from(self.ranks) * self.turn() + self.rest
    }

    fn plan(&self) -> PlacementPlan {
        let mut accesses = Vec::new();
        let end = self.end();
        let mut add = |rank: u32, from: u64, to: u64, write: bool, time: u64| {
            if from < to.min(end) {
                accesses.push(ProfiledAccess::new(rank, 0, from, to.min(end), write, time));
            }
        };
        add(0, 0, self.header, true, 0);
        (0..self.ranks).for_each(|rank| add(rank, 0, self.header, false, 1));
        let ranks = u64::from(self.ranks);
        for number in 0..=(self.rounds + 1) * ranks {
            let (rank, from, time) =
                ((number % ranks) as u32, self.header + number * self.turn(), 2 + 2 * number);
            add(rank, from, from + self.chunk, true, time);
            (0..self.ranks)
                .for_each(|reader| add(reader, from + self.chunk, from + self.turn(), false, time + 1));
        }
        let process = |rank: u32| PlannedProcess { label: rank.to_string(), node: String::new() };
        let processes = (0..self.ranks).map(process).collect();
        make(&Profile { processes, files: vec!["f".into()], accesses, idle: 0 }, Rule::default(), "")
    }
}

/// A plan as far as it does not depend on the numbers of groups.
fn words(plan: &PlacementPlan) -> (Vec<String>, Vec<String>, PlanSummary) {
    let chunk = |(_, file, chunk): (usize, &pario_placement::PlannedFile, &pario_placement::Chunk)| {
        let (group, name) = (plan.group(chunk), &file.name);
        format!("{name} {} {} {:?} {group:?}", chunk.offset, chunk.length, chunk.placement)
    };
    let partitions = plan.partitions().iter().map(|partition| format!("{partition:?}")).collect();
    (plan.chunks().map(chunk).collect(), partitions, PlanSummary::of(plan))
}

fn to(size: Ratio) -> RescaleTarget {
    RescaleTarget { size, ranks: None }
}

proptest! {
    #[test]
    fn more_chunks_are_those_of_a_larger_run(
        header in 0u64..9, ranks in 2u32..5, chunk in 1u64..9, note in 0u64..4,
        rounds in 2u64..4, rest in 0u64..40, more in 1u64..7, new_ranks in 2u32..6,
    ) {
        let rest = rest % (u64::from(ranks) * (chunk + note));
        let small = Program { header, ranks, rounds, chunk, note, rest };
        let large = Program { rounds: more, ..small };
        let ratio = Ratio { to: large.end(), of: small.end() };
        let plan = small.plan();
        prop_assert_eq!(shown(&plan), Ok(Trend::MoreChunks));
        let scaled = rescale(&plan, Trend::MoreChunks, to(ratio)).expect("regular");
        prop_assert_eq!(words(&scaled), words(&large.plan()));
        prop_assert_eq!(PlacementPlan::from_text(&scaled.to_text()), Ok(scaled.clone()));

        let other = Program { ranks: new_ranks, rest: rest % (u64::from(new_ranks) * (chunk + note)), ..large };
        let target = RescaleTarget { size: Ratio { to: other.end(), of: small.end() }, ranks: Some(new_ranks) };
        let scaled = rescale(&plan, Trend::MoreChunks, target).expect("regular");
        prop_assert_eq!(words(&scaled), words(&other.plan()));
    }

    #[test]
    fn larger_chunks_are_those_of_a_larger_run(
        ranks in 2u32..6, rounds in 1u64..4, chunk in 1u64..9, note in 0u64..4, factor in 2u64..6, new_ranks in 2u32..6,
    ) {
        let small = Program { header: 0, ranks, rounds, chunk: 60 * chunk, note: 60 * note, rest: 0 };
        let large = Program { chunk: factor * small.chunk, note: factor * small.note, ..small };
        let plan = small.plan();
        let wanted = if rounds == 1 { Trend::LargerChunks } else { Trend::MoreChunks };
        prop_assert_eq!(shown(&plan), Ok(wanted));
        let scaled = rescale(&plan, Trend::LargerChunks, to(Ratio { to: factor, of: 1 })).expect("regular");
        prop_assert_eq!(words(&scaled), words(&large.plan()));
        // Two profiles show it for certain.
        prop_assert_eq!(between(&large.plan(), &plan), Ok(Trend::LargerChunks));

        let shrunk = |bytes: u64| bytes * factor * u64::from(ranks) / u64::from(new_ranks);
        let other = Program { ranks: new_ranks, chunk: shrunk(small.chunk), note: shrunk(small.note), ..small };
        let target = RescaleTarget { size: Ratio { to: factor, of: 1 }, ranks: Some(new_ranks) };
        let scaled = rescale(&plan, Trend::LargerChunks, target).expect("regular");
        let mut wanted = words(&other.plan());
        // 60 is a multiple of every number of ranks here, so that nothing is cut off.
        wanted.2.moved = words(&scaled).2.moved;
        prop_assert_eq!(words(&scaled), wanted);
    }

    #[test]
    fn two_profiles_show_more_chunks(ranks in 2u32..5, rounds in 2u64..5, more in 1u64..5) {
        let small = Program { header: 5, ranks, rounds, chunk: 7, note: 0, rest: 3 };
        let large = Program { rounds: rounds + more, ..small };
        prop_assert_eq!(between(&small.plan(), &large.plan()), Ok(Trend::MoreChunks));
    }

    #[test]
    fn nothing_panics(
        accesses in prop::collection::vec((0u32..3, 0u32..2, 0u64..40, 1u64..9, any::<bool>(), 0u64..9), 1..30),
        to in 0u64..200, of in 1u64..50, ranks in prop::option::of(0u32..5), larger in any::<bool>(),
    ) {
        let access = |(process, file, offset, len, write, time)| {
            ProfiledAccess::new(process, file, offset, offset + len, write, time)
        };
        let accesses: Vec<ProfiledAccess> = accesses.into_iter().map(access).collect();
        let process = |rank: u32| PlannedProcess { label: rank.to_string(), node: String::new() };
        let files = vec!["f".into(), "g".into()];
        let profile = Profile { processes: (0..3).map(process).collect(), files, accesses, idle: 0 };
        let plan = make(&profile, Rule::default(), "");
        let _ = (shown(&plan), between(&plan, &plan));
        let trend = if larger { Trend::LargerChunks } else { Trend::MoreChunks };
        if let Ok(scaled) = rescale(&plan, trend, RescaleTarget { size: Ratio { to, of }, ranks }) {
            prop_assert_eq!(PlacementPlan::from_text(&scaled.to_text()), Ok(scaled));
        }
    }
}

fn program(ranks: u32, accesses: &[(u32, u64, u64, u64)]) -> PlacementPlan {
    let access =
        |&(rank, from, to, time): &(u32, u64, u64, u64)| ProfiledAccess::new(rank, 0, from, to, true, time);
    let process = |rank: u32| PlannedProcess { label: rank.to_string(), node: String::new() };
    let accesses = accesses.iter().map(access).collect();
    let profile =
        Profile { processes: (0..ranks).map(process).collect(), files: vec!["f".into()], accesses, idle: 0 };
    make(&profile, Rule::default(), "")
}

#[test]
fn what_shows_no_trend_is_refused_and_it_is_said_why() {
    let twice = to(Ratio { to: 2, of: 1 });
    let f = || "f".to_owned();
    // Parts of different sizes.
    let irregular = program(3, &[(0, 0, 10, 0), (1, 10, 15, 1), (2, 15, 30, 2)]);
    assert_eq!(shown(&irregular), Err(RescaleError::Irregular(f())));
    assert_eq!(rescale(&irregular, Trend::MoreChunks, twice), Err(RescaleError::Irregular(f())));
    // One chunk says nothing.
    assert_eq!(shown(&program(1, &[(0, 0, 10, 0)])), Err(RescaleError::Nothing));
    // Rounds, but used from the end.
    let backwards = program(2, &[(0, 0, 5, 9), (1, 5, 10, 8), (0, 10, 15, 1), (1, 15, 20, 0)]);
    let process = "0".to_owned();
    assert_eq!(
        rescale(&backwards, Trend::MoreChunks, twice),
        Err(RescaleError::OutOfOrder { file: f(), process })
    );
    // Neighbours share a chunk.
    let overlap = program(2, &[(0, 0, 6, 0), (1, 5, 10, 1)]);
    let target = RescaleTarget { size: Ratio::ONE, ranks: Some(4) };
    assert_eq!(rescale(&overlap, Trend::LargerChunks, target), Err(RescaleError::NotByRank(f())));
    let rounds = program(2, &[(0, 0, 5, 0), (1, 5, 10, 0), (0, 10, 15, 1), (1, 15, 20, 1)]);
    assert_eq!(between(&rounds, &rounds), Err(RescaleError::SameSize));
    assert_eq!(between(&rounds, &irregular), Err(RescaleError::NoTrend(f())));
    let huge = to(Ratio { to: u64::MAX, of: 1 });
    assert_eq!(rescale(&rounds, Trend::MoreChunks, huge), Err(RescaleError::TooLarge(f())));
    assert_eq!(
        rescale(&rounds, Trend::LargerChunks, to(Ratio { to: 1, of: 100 })),
        Err(RescaleError::TooSmall(f()))
    );
    let named = PlacementPlan {
        processes: vec![PlannedProcess { label: "w".to_owned(), node: String::new() }; 2],
        ..rounds
    };
    assert_eq!(rescale(&named, Trend::MoreChunks, target), Err(RescaleError::NotRanks));
    assert!(!RescaleError::Irregular(f()).to_string().contains('\n'));
}
