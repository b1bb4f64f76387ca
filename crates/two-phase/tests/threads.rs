//! The machine with concurrent ranks: threads of one process that share one segment.

use pario_buffer::UserBuffer;
use pario_domain::PartitioningMethod;
use pario_file_backend::{BackendError, FileBackend, RangeLock, StorageFacts};
use pario_two_phase::{
    AccessMachine, AccessRequest, AccessStep, AccessSummary, CallKind, CollectiveIo, CollectiveOutcome,
    CostHistory, CoverageHash, NodeMap, NodeMessages, NodeSegment, RankState, SegmentShape, TransferStrategy,
    TwoPhaseSettings, WindowFile,
};
use pario_types::{AccessTuning, ErrorKind, Offset, Pos};
use pario_view::View;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A file in memory. There are no other nodes.
#[derive(Clone)]
struct Disk(Arc<Mutex<Vec<u8>>>);

impl NodeMessages for Disk {
    type Error = ErrorKind;
    type Transfer = ();

    fn allgather(&mut self, _: &[u64]) -> Result<(), ErrorKind> {
        unreachable!("one node")
    }

    fn send(&mut self, _: u32, _: Vec<u8>) -> Result<(), ErrorKind> {
        unreachable!("one node")
    }

    fn receive(&mut self, _: u32, _: usize) -> Result<(), ErrorKind> {
        unreachable!("one node")
    }

    fn test(&mut self, (): &mut ()) -> Result<Option<Vec<u8>>, ErrorKind> {
        unreachable!("one node")
    }
}

impl CollectiveIo for Disk {
    fn kind(error: &ErrorKind) -> ErrorKind {
        *error
    }

    fn file(&mut self) -> Result<WindowFile<'_>, ErrorKind> {
        Ok(WindowFile { backend: self, tuning: AccessTuning::default(), exclusive: false })
    }

    fn access_independently(&mut self, _: &AccessRequest) -> Result<u64, ErrorKind> {
        unreachable!("windows are asked for")
    }

    fn view_of(&mut self, _: u32, _: u128) -> Result<Arc<View>, ErrorKind> {
        unreachable!("one node")
    }
}

impl FileBackend for Disk {
    fn read_window(&self, parts: &mut [(u64, &mut [u8])], _: bool) -> Result<usize, BackendError> {
        let disk = self.0.lock().unwrap();
        parts.iter_mut().for_each(|(at, to)| to.copy_from_slice(&disk[*at as usize..][..to.len()]));
        Ok(parts.iter().map(|(_, to)| to.len()).sum())
    }

    fn write_window(
        &self,
        parts: &[(u64, &[u8])],
        _: bool,
        _: bool,
        _: &AccessTuning,
    ) -> Result<(), BackendError> {
        let mut disk = self.0.lock().unwrap();
        parts.iter().for_each(|(at, from)| disk[*at as usize..][..from.len()].copy_from_slice(from));
        Ok(())
    }

    fn read(
        &self,
        _: &View,
        _: Pos,
        _: &UserBuffer,
        _: u64,
        _: u64,
        _: &AccessTuning,
    ) -> Result<u64, BackendError> {
        unreachable!("these tests access windows only")
    }

    fn write(
        &self,
        _: &View,
        _: Pos,
        _: &UserBuffer,
        _: u64,
        _: u64,
        _: &AccessTuning,
    ) -> Result<u64, BackendError> {
        unreachable!("these tests access windows only")
    }

    fn lock_whole_file(&self) -> Result<Option<Box<dyn RangeLock>>, BackendError> {
        unreachable!("only agents lock the whole file")
    }

    fn size(&self) -> Result<u64, BackendError> {
        unreachable!("a collective access does not ask for the size")
    }

    fn set_size(&self, _: u64) -> Result<(), BackendError> {
        unreachable!("a collective access does not set the size")
    }

    fn sync(&self) -> Result<(), BackendError> {
        unreachable!("a collective access does not sync")
    }

    fn facts(&self) -> StorageFacts {
        unreachable!("the settings are given")
    }
}

const RANKS: u32 = 4;

/// Every rank accesses a contiguous part of its own. Most ranks have no bytes in most windows and run
/// ahead.
fn run_ranks(
    write: bool,
    part: u64,
    aggregators: Vec<u32>,
    (single_writer, exclusive_domains): (bool, bool),
    disk: &Disk,
) -> Vec<Vec<u8>> {
    let node =
        Arc::new(NodeSegment::create(SegmentShape { ranks: RANKS, locals: RANKS, capacity: 64 }).unwrap());
    let node_map = Arc::new(NodeMap::by_key(&[0; RANKS as usize]));
    let coverage = Arc::new(CoverageHash::new(1));
    let (strategy, method, unit, servers, window) =
        (TransferStrategy::TwoPhase, PartitioningMethod::Even, 1, 1, 16);
    let large_piece = u64::MAX;
    let settings = TwoPhaseSettings {
        strategy,
        method,
        unit,
        servers,
        window,
        aggregators,
        large_piece,
        single_writer,
        exclusive_domains,
    };
    let settings = Arc::new(settings);
    let run_rank = &|rank: u32| {
        let mut rank_state = RankState::new(node.clone(), rank, node_map.clone());
        let view = Arc::new(View::contiguous(Offset(u64::from(rank) * part)));
        let call = CallKind { write, form: 0 };
        let cover = write.then_some(&*coverage);
        let summary = AccessSummary::of_access(call, settings.digest(), &view, Pos(0), part, false, cover);
        let memory = (0..part).map(|i| if write { byte(u64::from(rank) * part + i) } else { 0 }).collect();
        let buffer = UserBuffer::of(Vec::leak(memory));
        let request = AccessRequest { write, view, at: Pos(0), len: part, buffer };
        let mut access = AccessMachine::new(
            summary,
            Some(request),
            settings.clone(),
            coverage.clone(),
            CostHistory::default(),
        );
        let mut io = disk.clone();
        loop {
            let seen = node.event();
            match access.step(&mut rank_state, &mut io).unwrap() {
                AccessStep::Done(outcome) => {
                    assert!(matches!(outcome, CollectiveOutcome::Moved(n) if n == part), "{outcome:?}");
                    break;
                }
                AccessStep::Agreed => {}
                AccessStep::Waiting => drop(node.sleep(seen, Duration::from_millis(1))),
            }
        }
        let mut memory = vec![0; part as usize];
        access.into_request().unwrap().buffer.pack(0, &mut memory);
        memory
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..RANKS).map(|rank| scope.spawn(move || run_rank(rank))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn byte(at: u64) -> u8 {
    (at / 16 * 7 + at % 16) as u8
}

/// Each rank has `part` bytes. The accesses are repeated `times` times.
fn write_and_read(part: u64, times: u32) {
    let all: Vec<u8> = (0..u64::from(RANKS) * part).map(byte).collect();
    for aggregators in [vec![0], vec![1, 3], vec![0, 1, 2, 3]] {
        for time in 0..times {
            let disk = Disk(Arc::new(Mutex::new(vec![0xEE; all.len()])));
            let exclusive_domains = time % 3 == 2;
            run_ranks(true, part, aggregators.clone(), (time % 2 == 0, exclusive_domains), &disk);
            assert!(*disk.0.lock().unwrap() == all, "written by {aggregators:?}");
            let read = run_ranks(false, part, aggregators.clone(), (false, exclusive_domains), &disk);
            assert!(read.concat() == all, "read by {aggregators:?}");
        }
    }
}

#[test]
fn concurrent_ranks_write_and_read_correctly() {
    write_and_read(4000, 6);
}

/// An aggregator that arrives last at the last window must not leave the window before it unwritten.
#[test]
fn regression_the_last_windows_of_a_domain_are_written() {
    write_and_read(20, 300);
}
