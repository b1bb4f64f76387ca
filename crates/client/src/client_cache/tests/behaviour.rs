//! Single behaviours of the client cache, also when servers fail.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use pario_types::{ErrorKind, ServerId};

use super::super::state::{MailboxState, State};
use super::super::{Shared, TierFile, TierOptions};
use super::world::{FILE, SimulatedServers};

const BLOCK: u64 = 256;

/// Blocks are staged by the watermarks, or on request.
fn options(blocks: u64) -> TierOptions {
    TierOptions { bytes: blocks * BLOCK, block: BLOCK, high: 50, low: 25, settle: Duration::from_secs(1000) }
}

fn one(blocks: u64) -> (Arc<SimulatedServers>, Arc<Shared>, TierFile) {
    let (world, shared) = (SimulatedServers::new(BLOCK, 2), Shared::new());
    let file = world.open(&shared, 1, &options(blocks));
    (world, shared, file)
}

fn wait_while(shared: &Shared, is_so: impl Fn(&State) -> bool) {
    let mut state = shared.lock();
    while is_so(&state) {
        state = shared.wait(state, Duration::from_millis(20));
    }
}

/// Whether the first server may grant leases.
fn believes(state: &State) -> bool {
    let file = &state.files[&(1, FILE)];
    let held = [file.leases.get(&ServerId(0)), file.suspended.get(&ServerId(0))];
    held.into_iter().flatten().any(|held| !held.is_empty())
}

fn byte(world: &SimulatedServers, at: u64) -> Option<u8> {
    world.bytes().get(at as usize).copied()
}

#[test]
fn a_part_of_a_block_is_written_without_reading_it() {
    let (world, shared, file) = one(8);
    world.write(0, &[1; 300]);
    file.write_at(&[2; 10], 100).expect("written");
    file.write_at(&[3; 10], 110).expect("written");
    assert_eq!(shared.lock().counters.fetched_blocks, 0);
    let mut bytes = [0; 30];
    assert_eq!(file.read_at(&mut bytes[..20], 100).expect("read"), 20);
    assert_eq!(shared.lock().counters.fetched_blocks, 0);
    assert_eq!(file.read_at(&mut bytes, 95).expect("read"), 30);
    assert_eq!(shared.lock().counters.fetched_blocks, 1);
    assert_eq!(bytes[..], [&[1; 5][..], &[2; 10], &[3; 10], &[1; 5]].concat());
    file.flush().expect("flushed");
    let counters = shared.lock().counters;
    assert_eq!((counters.staged_blocks, counters.staged_bytes), (1, 20), "only what was written is staged");
    assert_eq!(file.end(), 120);
}

#[test]
fn blocks_that_are_read_together_are_fetched_together() {
    let (world, shared, file) = one(16);
    world.write(0, &[1; 8 * BLOCK as usize]);
    let (mut bytes, reads) = ([0; 4 * 100], world.state().reads);
    let places = (0..4).map(|i| 2 * i * BLOCK + 50);
    let mut segments: Vec<_> = places.zip(bytes.chunks_mut(100)).collect();
    assert_eq!(file.read_vectored_at(&mut segments).expect("read"), 400);
    assert_eq!((world.state().reads - reads, shared.lock().counters.fetched_blocks), (1, 4));
    assert_eq!(bytes, [1; 400]);
}

#[test]
fn blocks_of_servers_on_this_host_are_not_cached_when_they_are_only_read() {
    let (world, shared, file) = one(16);
    world.set(|state| state.near = true);
    world.write(0, &[1; 300]);
    file.write_at(&[2; 10], 100).expect("written");
    let mut bytes = [9; 400];
    let mut segments: Vec<_> = [90, 256, 700].into_iter().zip(bytes.chunks_mut(150)).collect();
    assert_eq!(file.read_vectored_at(&mut segments).expect("read"), 150 + 44);
    assert_eq!(bytes[..30], [&[1; 10][..], &[2; 10], &[1; 10]].concat());
    assert_eq!(bytes[150..194], [1; 44]);
    assert_eq!(bytes[194..], [0; 206]);
    let state = shared.lock();
    assert_eq!((state.used, state.counters.fetched_blocks), (BLOCK, 1), "only what was written");
}

#[test]
fn a_block_with_too_many_dirty_ranges_is_staged_early() {
    let (world, shared, file) = one(8);
    world.write(0, &[9; 256]);
    for at in (0..200).step_by(2) {
        file.write_at(&[at as u8], at).expect("written");
        assert!(shared.lock().file((1, FILE)).blocks[&0].dirty.len() <= 64);
    }
    file.flush().expect("flushed");
    let counters = shared.lock().counters;
    assert_eq!((counters.fetched_blocks, counters.staged_blocks, counters.staged_bytes), (0, 2, 100));
    let expected: Vec<u8> = (0..256).map(|at| if at < 200 && at % 2 == 0 { at as u8 } else { 9 }).collect();
    assert_eq!(world.bytes(), expected);
}

/// No other client requests the blocks of a process whose connection breaks: it continues with them, also with the clean
/// ones.
#[test]
fn cached_blocks_survive_a_broken_connection() {
    let (world, shared, file) = one(8);
    world.write(0, &[9; 512]);
    file.read_at(&mut [0; 256], 0).expect("read");
    file.write_at(&[1; 100], 256).expect("written");
    world.set(|state| state.late = true);
    world.kill(1, ServerId(0));
    wait_while(&shared, |state| {
        matches!(state.mailboxes.get(&(1, ServerId(0))), Some(MailboxState::Up { .. }))
    });
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut bytes = [0; 356];
            assert_eq!(file.read_at(&mut bytes, 0).expect("read"), 356);
            bytes
        });
        world.set(|state| state.late = false);
        assert_eq!(reader.join().expect("no panic"), *[&[9; 256][..], &[1; 100]].concat());
    });
    file.flush().expect("nothing is lost");
    assert_eq!(world.read(256, 100), [1; 100]);
}

/// A lease is used only until the time for which the server has confirmed it.
#[test]
fn a_lease_that_the_server_may_have_revoked_is_not_used() {
    let (world, shared, file) = one(8);
    world.write(0, &[1; 256]);
    world.set(|state| state.good = Some(Duration::ZERO));
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut bytes = [0; 256];
            file.read_at(&mut bytes, 0).map(|_| bytes)
        });
        // The reader has the lease and waits for the server to confirm it.
        wait_while(&shared, |state| !believes(state));
        // One step: if the mailbox attached again before the write, the write would recall the new lease. A reader that loses its
        // lease several times reads from the servers, and that read may precede the write.
        world.cut_off_and_write(1, ServerId(0), 0, &[2; 256]);
        world.set(|state| state.good = None);
        assert_eq!(reader.join().expect("no panic").expect("read"), [2; 256]);
    });
    let counters = shared.lock().counters;
    assert_eq!((counters.leases, counters.recalls, counters.direct), (2, 0, 0), "{counters:?}");
    file.close(false).expect("nothing was written");
}

#[test]
fn staging_goes_from_the_high_watermark_to_the_low_one_oldest_first() {
    let (world, shared, file) = one(8);
    for index in 0..4 {
        file.write_at(&[1; BLOCK as usize], index * BLOCK).expect("written");
    }
    file.write_at(&[2], 0).expect("written");
    assert_eq!(shared.lock().counters.staged_blocks, 0, "half of the memory may be dirty");
    file.write_at(&[1; BLOCK as usize], 4 * BLOCK).expect("written");
    wait_while(&shared, |state| state.dirty_bytes > 2 * BLOCK);
    wait_while(&shared, |state| state.files[&(1, FILE)].blocks.values().any(|block| block.staging));
    let state = shared.lock();
    let dirty: Vec<u64> = state.dirty_in_order().map(|((_, index), ..)| index).collect();
    let (last, rest) = dirty.split_last().expect("some are dirty");
    assert_eq!((*last, rest.len() <= 1), (4, true), "those stay that were modified last: {dirty:?}");
    drop(state);
    assert_eq!(byte(&world, BLOCK), Some(1));
}

#[test]
fn a_block_that_is_not_modified_for_a_while_is_staged() {
    let (world, shared) = (SimulatedServers::new(BLOCK, 2), Shared::new());
    let file = world.open(&shared, 1, &TierOptions { settle: Duration::from_millis(1), ..options(100) });
    file.write_at(&[1; 10], 0).expect("written");
    world.wait_while(|state| state.writes == 0);
    assert_eq!(world.bytes(), [1; 10]);
    drop(file);
}

#[test]
fn writing_waits_for_servers_only_if_all_memory_is_dirty() {
    let (world, shared, file) = one(8);
    world.set(|state| state.slow = true);
    for index in 0..8 {
        file.write_at(&[index as u8; BLOCK as usize], index * BLOCK).expect("written");
    }
    assert_eq!(shared.lock().counters.waited_ns, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| file.write_at(&[8; BLOCK as usize], 8 * BLOCK).expect("written"));
        wait_while(&shared, |state| state.memory_waiters == 0);
        world.set(|state| state.slow = false);
    });
    assert!(shared.lock().counters.waited_ns > 0);
    file.flush().expect("flushed");
    let counters = shared.lock().counters;
    assert!(counters.peak_bytes <= 8 * BLOCK, "{counters:?}");
    assert!((0..9).all(|index| byte(&world, index * BLOCK) == Some(index as u8)));
}

#[test]
fn bytes_that_cannot_be_stored_stay_dirty_and_are_reported() {
    let (world, shared, file) = one(4);
    world.set(|state| state.broken = true);
    for index in 0..4 {
        file.write_at(&[1; BLOCK as usize], index * BLOCK).expect("there is memory");
    }
    let error = file.write_at(&[1; BLOCK as usize], 4 * BLOCK).expect_err("there is none");
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    let error = file.flush().expect_err("nothing can be stored");
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    assert!(error.to_string().contains("there is no room"), "{error}");
    assert_eq!(shared.lock().dirty_bytes, 4 * BLOCK);
    world.set(|state| state.broken = false);
    file.flush().expect("it can again");
    assert_eq!(world.bytes(), [1; 4 * BLOCK as usize]);
    file.write_at(&[2], 0).expect("written");
    world.set(|state| state.broken = true);
    let error = file.close(true).expect_err("it cannot be stored");
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    assert_eq!(shared.lock().used, 0);
}

#[test]
fn a_lease_request_that_meets_a_cut_off_is_repeated() {
    let (world, _shared, file) = one(4);
    world.set(|state| state.refuses_lease = true);
    file.write_at(&[1; 100], 0).expect("written");
    file.flush().expect("stored");
    assert!(!world.state().refuses_lease, "the request came");
    assert_eq!(world.read(0, 100), [1; 100]);
}

#[test]
fn a_drop_that_cannot_stage_reports_the_loss_to_the_file() {
    let (world, _shared, file) = one(4);
    file.write_at(&[1; 100], 0).expect("written");
    drop(file);
    assert_eq!(world.state().reported_losses, 0);
    assert_eq!(world.read(0, 100), [1; 100]);
    let (world, _shared, file) = one(4);
    file.write_at(&[1; 100], 0).expect("written");
    world.set(|state| state.broken = true);
    drop(file);
    assert_eq!(world.state().reported_losses, 1);
}

/// A process that cannot store recalled bytes releases them all the same, and reports it. The rest stays.
#[test]
fn a_recall_does_not_wait_for_bytes_that_cannot_be_stored() {
    let (world, _shared, file) = one(4);
    file.write_at(&[1; 100], 0).expect("written");
    file.write_at(&[1; 100], 2 * BLOCK).expect("written");
    world.set(|state| state.broken = true);
    assert_eq!(world.read(0, 100), b"");
    file.flush().expect_err("it cannot be stored");
    world.set(|state| state.broken = false);
    let error = file.flush().expect_err("some of it is lost");
    assert!(error.to_string().contains("is lost"), "{error}");
    file.flush().expect("it was told");
    assert_eq!(world.read(2 * BLOCK, 200), [1; 100]);
    assert_eq!(byte(&world, 0), Some(0));
}

/// Blocks alternate between two servers; the process is disconnected from one of them.
#[test]
fn dirty_bytes_of_a_process_that_lost_its_lease_are_lost_and_reported() {
    let (world, shared, file) = one(8);
    file.write_at(&[1; 4 * BLOCK as usize], 0).expect("written");
    world.cut_off(1, ServerId(1));
    wait_while(&shared, |state| state.files[&(1, FILE)].lost.is_none());
    world.write(BLOCK, &[2; BLOCK as usize]);
    let error = file.flush().expect_err("some of it is lost");
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    assert!(error.to_string().contains("server 1 let them go on"), "{error}");
    assert_eq!([0, 1, 2].map(|index| byte(&world, index * BLOCK)), [Some(1), Some(2), Some(1)]);
    file.flush().expect("it was told");
    // It then continues as if nothing had happened.
    let mut bytes = [0; 2 * BLOCK as usize];
    assert_eq!(file.read_at(&mut bytes, 0).expect("read"), bytes.len());
    assert_eq!((bytes[0], bytes[BLOCK as usize]), (1, 2));
    file.write_at(&[3; 4 * BLOCK as usize], 0).expect("written");
    file.close(false).expect("closed");
    assert_eq!(world.bytes(), [3; 4 * BLOCK as usize]);
}

/// No server accepted the bytes, and when one does, other clients have had access.
#[test]
fn dirty_bytes_are_not_staged_after_another_program_got_the_range() {
    let (world, shared, file) = one(8);
    file.write_at(&[1; 100], 0).expect("written");
    world.set(|state| (state.broken, state.mute) = (true, true));
    world.kill(1, ServerId(0));
    wait_while(&shared, believes);
    assert_eq!(shared.lock().dirty_bytes, BLOCK, "it is kept");
    world.write(0, &[2; 100]);
    world.set(|state| (state.broken, state.mute) = (false, false));
    // For this block a new mailbox is needed.
    file.write_at(&[3; 10], 2 * BLOCK).expect("written");
    let error = file.flush().expect_err("some of it is lost");
    assert!(error.to_string().contains("is lost"), "{error}");
    assert_eq!(world.read(0, 100), [2; 100]);
    assert_eq!(byte(&world, 2 * BLOCK), Some(3));
}

/// The same where no other client has had access meanwhile.
#[test]
fn dirty_bytes_are_staged_later_if_no_other_program_got_the_range() {
    let (world, shared, file) = one(8);
    file.write_at(&[1; 100], 0).expect("written");
    world.set(|state| (state.broken, state.mute) = (true, true));
    world.kill(1, ServerId(0));
    wait_while(&shared, believes);
    world.set(|state| (state.broken, state.mute) = (false, false));
    file.flush().expect("it is still its own");
    assert_eq!(world.read(0, 100), [1; 100]);
}

#[test]
fn recalls_wait_for_a_hold() {
    let (world, shared, file) = one(4);
    world.write(0, &[1; 1000]);
    let hold = file.hold(10..600).expect("held");
    let leases = shared.lock().counters.leases;
    let is_read = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(world.read(500, 2), [2, 2]);
            is_read.store(true, Ordering::Relaxed);
        });
        wait_while(&shared, |state| state.counters.recalls == 0);
        let mut bytes = [0; 590];
        assert_eq!(file.read_at(&mut bytes, 10).expect("read"), 590);
        bytes.fill(2);
        file.write_at(&bytes, 10).expect("written");
        assert!(!is_read.load(Ordering::Relaxed));
        assert_eq!(shared.lock().counters.leases, leases, "nothing of it was taken away");
        drop(hold);
    });
    assert_eq!(byte(&world, 9), Some(1));
}

/// The recall of a lease may arrive before the lease.
#[test]
fn a_lease_that_is_recalled_before_its_reply_arrives_is_not_used() {
    let (world, shared, file) = one(4);
    world.write(0, &[1; 100]);
    world.set(|state| state.late_leases = true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            world.wait_while(|state| state.grants == 0);
            // It may arrive after the writer, which asks again.
            assert_eq!(world.read(0, 100)[10..], [1; 90]);
        });
        file.write_at(&[2; 10], 0).expect("written");
    });
    assert!(shared.lock().counters.leases >= 2, "it was asked for again");
    file.flush().expect("flushed");
    assert_eq!(world.read(0, 10), [2; 10]);
}

/// Bytes that were fetched under a lease are useless under the next one.
#[test]
fn bytes_fetched_under_an_earlier_lease_are_discarded() {
    let (world, shared, file) = one(4);
    world.write(0, &[1; 256]);
    world.set(|state| state.slow_reads = true);
    let mut bytes = [0; 256];
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| file.read_at(&mut bytes, 0).expect("read"));
        world.wait_while(|state| state.waiting == 0);
        world.write(0, &[2; 256]);
        file.write_at(&[3; 10], 0).expect("written");
        world.set(|state| state.slow_reads = false);
        assert_eq!(reader.join().expect("no panic"), 256);
    });
    let expected = [&[3; 10][..], &[2; 246]].concat();
    assert_eq!(bytes[..], expected);
    file.read_at(&mut bytes, 0).expect("read");
    assert_eq!(bytes[..], expected);
    assert!(shared.lock().counters.recalls > 0);
}

#[test]
fn truncated_bytes_are_never_staged() {
    let (world, shared, file) = one(8);
    file.write_at(&[1; 700], 0).expect("written");
    file.cut(50);
    assert_eq!(file.end(), 50);
    file.flush().expect("flushed");
    assert_eq!(world.bytes(), [1; 50]);
    let mut bytes = [9; 100];
    assert_eq!(file.read_at(&mut bytes, 0).expect("read"), 50);
    assert_eq!(shared.lock().used, BLOCK);
}

#[test]
fn clean_blocks_stay_cached_for_the_same_team() {
    let (world, shared, file) = one(8);
    file.write_at(&[1; 600], 0).expect("written");
    file.close(true).expect("closed");
    assert_eq!(world.bytes(), [1; 600]);
    let file = world.open(&shared, 1, &options(8));
    let before = shared.lock().counters;
    let mut bytes = [0; 600];
    assert_eq!(file.read_at(&mut bytes, 0).expect("read"), 600);
    assert_eq!(bytes, [1; 600]);
    let after = shared.lock().counters;
    assert_eq!((after.fetched_blocks, after.leases), (before.fetched_blocks, before.leases));
    file.close(true).expect("closed");
    // They stay until another client requests them.
    world.write(0, &[2; 600]);
    assert_eq!(shared.lock().files.len(), 0);
}

#[test]
fn a_smaller_memory_limit_evicts_blocks() {
    let (world, shared, file) = one(8);
    file.write_at(&[1; 8 * BLOCK as usize], 0).expect("written");
    file.close(true).expect("closed");
    assert_eq!(shared.lock().used, 8 * BLOCK);
    let file = world.open(&shared, 1, &options(3));
    assert_eq!(shared.lock().used, 3 * BLOCK);
    let mut bytes = [0; 8 * BLOCK as usize];
    assert_eq!(file.read_at(&mut bytes, 0).expect("read"), bytes.len());
    assert_eq!((bytes, shared.lock().used), ([1; 8 * BLOCK as usize], 3 * BLOCK));
}

#[test]
fn threads_end_when_nothing_is_cached() {
    let (world, shared, file) = one(8);
    file.write_at(&[1; 600], 0).expect("written");
    assert!(shared.lock().has_staging_thread && !shared.lock().mailboxes.is_empty());
    drop(file);
    assert_eq!(world.bytes(), [1; 600], "who drops it has not lost anything");
    wait_while(&shared, |state| state.has_staging_thread || !state.mailboxes.is_empty());
}

#[test]
fn invalid_cache_options_are_refused() {
    let (world, shared, _file) = one(8);
    let servers = |options: TierOptions, team| world.try_open(&shared, team, &options).map(|_| ());
    for bad in [
        TierOptions { block: 100, ..options(8) },
        TierOptions { bytes: BLOCK, ..options(8) },
        TierOptions { low: 60, ..options(8) },
        TierOptions { high: 101, ..options(8) },
    ] {
        assert_eq!(servers(bad, 2).expect_err("refused").kind(), ErrorKind::Amode);
    }
    assert_eq!(servers(options(8), 1).expect_err("it is open").kind(), ErrorKind::Amode);
    servers(options(8), 2).expect("another team may");
}

/// All threads increment the same bytes at the same time. No increment is lost.
#[test]
fn concurrent_increments_by_two_teams_and_another_program_add_up() {
    const ROUNDS: u8 = 200;
    for stingy in [false, true] {
        let world = SimulatedServers::new(16, 2);
        world.set(|state| state.stingy = stingy);
        world.write(0, &[0; 128]);
        let options = TierOptions { bytes: 64, block: 16, settle: Duration::ZERO, ..TierOptions::default() };
        let start = Barrier::new(4);
        std::thread::scope(|scope| {
            for (team, first) in [(1, 0), (1, 1), (2, 0)] {
                let (world, start) = (&world, &start);
                scope.spawn(move || {
                    let shared = Shared::new();
                    let file = world.open(&shared, team, &options);
                    start.wait();
                    for round in 0..ROUNDS {
                        // The processes of team 1 take turns, block by block; team 2 takes several at once.
                        let at = u64::from(round % 4) * 32 + first * 16;
                        let len = if team == 1 { 16 } else { 40.min(128 - at) };
                        let mut bytes = vec![0; len as usize];
                        let hold = file.hold(at..at + len).expect("held");
                        assert_eq!(file.read_at(&mut bytes, at).expect("read"), bytes.len());
                        bytes[..16].iter_mut().for_each(|count| *count += 1);
                        file.write_at(&bytes, at).expect("written");
                        drop(hold);
                    }
                    file.close(false).expect("closed");
                });
            }
            start.wait();
            for round in 0..ROUNDS {
                world.count_up(u64::from(round % 8) * 16..u64::from(round % 8) * 16 + 16);
            }
        });
        let total: u64 = world.bytes().iter().map(|count| u64::from(*count)).sum();
        assert_eq!(total, 16 * 4 * u64::from(ROUNDS));
    }
}
