//! The machine with ranks that really run at the same time: threads of one process at one table.

use pario_buffer::UserBuffer;
use pario_domain::Method;
use pario_two_phase::{
    Access, Call, Claim, Costs, Coverage, Job, Messages, Node, Outcome, Seat, Seating, Settings, Shape, Step,
    Strategy, World,
};
use pario_types::{ErrorKind, Offset, Pos};
use pario_view::View;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A file in memory; there are no other nodes.
#[derive(Clone)]
struct Disk(Arc<Mutex<Vec<u8>>>);

impl Messages for Disk {
    type Error = ErrorKind;
    type Transfer = ();

    fn gather(&mut self, _: &[u64]) -> Result<(), ErrorKind> {
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

impl World for Disk {
    type Guard = ();

    fn kind(error: &ErrorKind) -> ErrorKind {
        *error
    }

    fn read(&mut self, parts: &mut [(u64, &mut [u8])]) -> Result<usize, ErrorKind> {
        let disk = self.0.lock().unwrap();
        parts.iter_mut().for_each(|(at, to)| to.copy_from_slice(&disk[*at as usize..][..to.len()]));
        Ok(parts.iter().map(|(_, to)| to.len()).sum())
    }

    fn write(&mut self, parts: &[(u64, &[u8])], _: bool) -> Result<(), ErrorKind> {
        let mut disk = self.0.lock().unwrap();
        parts.iter().for_each(|(at, from)| disk[*at as usize..][..from.len()].copy_from_slice(from));
        Ok(())
    }

    fn is_hole(&mut self, _: Range<u64>) -> Result<bool, ErrorKind> {
        Ok(false)
    }

    fn try_lock(&mut self, _: Range<u64>) -> Result<Option<()>, ErrorKind> {
        Ok(Some(()))
    }

    fn direct(&mut self, _: &Job) -> Result<u64, ErrorKind> {
        unreachable!("windows are asked for")
    }

    fn view_of(&mut self, _: u32, _: u128) -> Result<Arc<View>, ErrorKind> {
        unreachable!("one node")
    }
}

const RANKS: u32 = 4;

/// Every rank accesses a contiguous part of its own, so that most have nothing in most windows and run ahead.
fn together(
    write: bool,
    part: u64,
    aggregators: Vec<u32>,
    (one_writer, owned): (bool, bool),
    disk: &Disk,
) -> Vec<Vec<u8>> {
    let node = Arc::new(Node::create(Shape { ranks: RANKS, locals: RANKS, capacity: 64 }).unwrap());
    let seating = Arc::new(Seating::by_key(&[0; RANKS as usize]));
    let coverage = Arc::new(Coverage::new(1));
    let (strategy, method, unit, servers, window) = (Strategy::Windows, Method::Even, 1, 1, 16);
    let direct_piece = u64::MAX;
    let settings =
        Settings { strategy, method, unit, servers, window, aggregators, direct_piece, one_writer, owned };
    let settings = Arc::new(settings);
    let rank_does = &|rank: u32| {
        let mut seat = Seat::new(node.clone(), rank, seating.clone());
        let view = Arc::new(View::contiguous(Offset(u64::from(rank) * part)));
        let call = Call { write, form: 0 };
        let cover = write.then_some(&*coverage);
        let claim = Claim::access(call, settings.digest(), &view, Pos(0), part, false, cover);
        let memory = (0..part).map(|i| if write { byte(u64::from(rank) * part + i) } else { 0 }).collect();
        let buffer = UserBuffer::of(Vec::leak(memory));
        let job = Job { write, view, at: Pos(0), len: part, buffer };
        let mut access = Access::new(claim, Some(job), settings.clone(), coverage.clone(), Costs::default());
        let mut world = disk.clone();
        loop {
            let seen = node.event();
            match access.step(&mut seat, &mut world).unwrap() {
                Step::Done(outcome) => {
                    assert!(matches!(outcome, Outcome::Moved(n) if n == part), "{outcome:?}");
                    break;
                }
                Step::Agreed => {}
                Step::Waiting => drop(node.sleep(seen, Duration::from_millis(1))),
            }
        }
        let mut memory = vec![0; part as usize];
        access.into_job().unwrap().buffer.pack(0, &mut memory);
        memory
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..RANKS).map(|rank| scope.spawn(move || rank_does(rank))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn byte(at: u64) -> u8 {
    (at / 16 * 7 + at % 16) as u8
}

/// Each rank's part has so many bytes; accesses are done so often.
fn write_and_read(part: u64, times: u32) {
    let all: Vec<u8> = (0..u64::from(RANKS) * part).map(byte).collect();
    for aggregators in [vec![0], vec![1, 3], vec![0, 1, 2, 3]] {
        for time in 0..times {
            let disk = Disk(Arc::new(Mutex::new(vec![0xEE; all.len()])));
            let owned = time % 3 == 2;
            together(true, part, aggregators.clone(), (time % 2 == 0, owned), &disk);
            assert!(*disk.0.lock().unwrap() == all, "written by {aggregators:?}");
            let read = together(false, part, aggregators.clone(), (false, owned), &disk);
            assert!(read.concat() == all, "read by {aggregators:?}");
        }
    }
}

#[test]
fn ranks_at_the_same_time_write_and_read_what_they_should() {
    write_and_read(4000, 6);
}

/// An aggregator that comes last to the last window must not leave the one before it unwritten.
#[test]
fn regression_the_end_of_a_lane_is_not_left_to_nobody() {
    write_and_read(20, 300);
}
