//! Prefetching from several servers, each with its own limit, against a list.

#![allow(clippy::single_range_in_vec_init, reason = "lists of ranges that happen to have one")]

mod fake;

use std::ops::Range;

use fake::{Fake, Setup};
use pario_client::{ErrorKind, File, OpenOptions, Partition};
use proptest::prelude::*;

const SETUP: Setup = Setup { servers: 3, stripe: 100, slots: 16, tcp: &[] };

fn open(partition: &Partition) -> File {
    let mut options = OpenOptions::new();
    partition.open("/file", options.read(true).write(true).create(true)).expect("opened")
}

/// The local ranges of file ranges, server by server, found byte by byte.
fn local(file: &File, ranges: &[Range<u64>]) -> Vec<Vec<(u64, u64)>> {
    let mut all = vec![Vec::new(); 3];
    for range in ranges {
        let mut here: Vec<Vec<u64>> = vec![Vec::new(); 3];
        for byte in range.clone() {
            let stripe = byte / SETUP.stripe;
            here[(stripe as usize + usize::from(file.striping().first())) % 3]
                .push(stripe / 3 * SETUP.stripe + byte % SETUP.stripe);
        }
        for (server, bytes) in here.into_iter().enumerate().filter(|(_, bytes)| !bytes.is_empty()) {
            all[server].push((bytes[0], bytes.len() as u64));
        }
    }
    all
}

fn kept(fake: &Fake) -> Vec<Vec<(u64, u64)>> {
    let sorted = |mut ranges: Vec<(u64, u64)>| {
        ranges.sort_unstable();
        ranges
    };
    fake.kept()
        .into_iter()
        .map(|all| sorted(all.iter().map(|range| (range.at, range.len)).collect()))
        .collect()
}

/// Prefetches, or forgets some of the accepted ranges.
#[derive(Clone, Debug)]
enum Act {
    Prefetch(Vec<Range<u64>>),
    Forget(Vec<prop::sample::Index>),
}

fn act() -> impl Strategy<Value = Act> {
    let range = (0u64..1500, 0u64..500).prop_map(|(at, len)| at..at + len);
    prop_oneof![
        prop::collection::vec(range, 0..6).prop_map(Act::Prefetch),
        prop::collection::vec(any::<prop::sample::Index>(), 0..4).prop_map(Act::Forget),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn servers_keep_exactly_the_ranges_that_they_accepted(
        acts in prop::collection::vec(act(), 1..12), most in prop::collection::vec(0usize..6, 3), close: bool,
    ) {
        let fake = Fake::start(SETUP);
        fake.take_ranges(&most);
        let partition = fake.connect();
        let file = open(&partition);
        let mut taken: Vec<Range<u64>> = Vec::new();
        for act in acts {
            match act {
                Act::Prefetch(ranges) => {
                    // As many as all servers have space for.
                    let fits = |count: &usize| {
                        let all: Vec<_> = taken.iter().chain(&ranges[..*count]).cloned().collect();
                        local(&file, &all).iter().zip(&most).all(|(kept, most)| kept.len() <= *most)
                    };
                    let expected = (0..=ranges.len()).take_while(fits).last();
                    let got = file.prefetch(&ranges).unwrap();
                    prop_assert_eq!(Some(got), expected);
                    taken.extend_from_slice(&ranges[..got]);
                }
                Act::Forget(which) => {
                    let mut gone = vec![9000..9001];
                    for index in which {
                        if !taken.is_empty() {
                            gone.push(taken.swap_remove(index.index(taken.len())));
                        }
                    }
                    file.forget(&gone).unwrap();
                }
            }
            let mut expected = local(&file, &taken);
            expected.iter_mut().for_each(|ranges| ranges.sort_unstable());
            prop_assert_eq!(kept(&fake), expected);
        }
        // A file that is closed, or dropped, keeps no ranges.
        if close { file.close().unwrap() } else { drop(file) }
        prop_assert_eq!(kept(&fake), vec![Vec::new(); 3]);
    }
}

#[test]
fn prefetching_beyond_any_file_or_from_a_write_only_file_is_refused() {
    let fake = Fake::start(SETUP);
    let partition = fake.connect();
    let file = open(&partition);
    assert_eq!(file.prefetch(&[0..u64::MAX]).unwrap_err().kind(), ErrorKind::Arg);
    assert_eq!(file.prefetch(&[]).unwrap(), 0);
    let mut options = OpenOptions::new();
    let writer = partition.open("/file", options.write(true)).unwrap();
    assert_eq!(writer.prefetch(&[0..1]).unwrap_err().kind(), ErrorKind::Access);
}

#[test]
fn only_blocks_that_were_read_are_at_hand() {
    let fake = Fake::start(Setup { stripe: 4096, ..SETUP });
    let partition = fake.connect();
    let file = open(&partition);
    file.write_at(&[5; 40_000], 0).unwrap();
    let other = open(&fake.connect());
    assert!(!other.is_at_hand(0..1));
    other.read_exact_at(&mut [0; 20_000], 3000).unwrap();
    assert!(other.is_at_hand(0..23_000), "its blocks were seen");
    assert!(!other.is_at_hand(20_000..40_000));
    let far = Fake::start(Setup { slots: 0, ..SETUP });
    let file = open(&far.connect());
    file.write_at(&[5; 1000], 0).unwrap();
    assert!(!file.is_at_hand(0..10), "nothing is mapped");
}

#[test]
fn try_lock_does_not_wait() {
    let fake = Fake::start(SETUP);
    let partition = fake.connect();
    let file = open(&partition);
    let lock = file.try_lock(0..100, true).unwrap().expect("it is free");
    assert!(file.try_lock(0..100, true).unwrap().is_none());
    lock.unlock().unwrap();
    drop(file.try_lock(0..100, false).unwrap().expect("it is free again"));
    assert!(file.try_lock(0..100, false).unwrap().is_some(), "dropping it let it go");
}
