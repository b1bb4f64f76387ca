//! Recorders and readers together: recorded operations are read back, and lost ones are counted.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pario_trace::{
    Actor, InView, Pace, PatternId, PointerKind, Record, Recorder, TraceEnding, TraceEvent, TraceMode,
    TraceSetup, TracedCall, TracedFile, TracedOp, TracedPieces, read,
};
use pario_types::ErrorKind;
use proptest::prelude::*;

fn setup(test: &str, text: &str) -> TraceSetup {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = std::fs::remove_dir_all(&dir);
    let setup = TraceSetup::parse(text).expect("a good setting").expect("a trace");
    TraceSetup { dir, ..setup }
}

fn events(path: PathBuf) -> (Vec<TraceEvent>, TraceEnding, u64) {
    let mut reader = read(&path).expect("a trace");
    let events = reader.by_ref().collect();
    (events, reader.ending().expect("an end").clone(), reader.lost())
}

fn write<'a>(recorder: &Recorder, file: &'a TracedFile, offset: u64, len: u64, moved: u64) -> Record<'a> {
    let now = recorder.now();
    Record { offset, end: offset + len, len, moved, ..Record::new(TracedOp::Write, Some(file), now, now) }
}

#[test]
fn every_field_comes_back() {
    let setup = TraceSetup { job: "job 7".to_owned(), ..setup("fields", "all,clock=system") };
    let recorder = Recorder::start(&setup, Actor::Agent, 3, 8);
    let file = recorder.file("dir/out \u{e4}.dat");
    let call = TracedCall { op: TracedOp::Read, place: PointerKind::At, collective: true, pace: Pace::Split };
    let start = Instant::now();
    recorder.record(&Record {
        offset: 10,
        end: 500,
        len: 200,
        moved: 100,
        errno: 28,
        kind: Some(ErrorKind::NoSpace),
        class: 36,
        on_behalf_of: Some(0),
        ..Record::new(call, Some(&file), recorder.at(start), recorder.at(start + Duration::from_micros(17)))
    });
    let later = recorder.at(start + Duration::from_secs(1));
    recorder.record(&Record::new(TracedOp::Open, None, later, later));
    recorder.finish().expect("written");

    let path = setup.dir.join("agent-3.ptrace");
    let header = read(&path).expect("a trace").header().clone();
    assert_eq!((header.actor, header.mode, header.rank, header.ranks), (Actor::Agent, TraceMode::All, 3, 8));
    assert_eq!((header.job.as_str(), header.pid), ("job 7", std::process::id()));
    let (events, ending, lost) = events(path);
    assert_eq!((events.len(), ending, lost), (2, TraceEnding::Finished, 0));
    let first = &events[0];
    assert_eq!((first.call, first.file.as_deref()), (call, Some("dir/out \u{e4}.dat")));
    assert_eq!((first.offset, first.end, first.len, first.moved), (10, 500, 200, 100));
    assert_eq!((first.errno, first.kind, first.class), (28, Some(ErrorKind::NoSpace), 36));
    assert_eq!((first.took_ns, first.on_behalf_of), (17_000, Some(0)));
    assert!(first.start_ns >= header.began_ns && first.is_failed() && first.is_short());
    assert_eq!((events[1].file.as_deref(), events[1].on_behalf_of), (None, None));
}

#[test]
fn mode_errors_keeps_the_failed_and_the_short_only_and_makes_no_file_without_them() {
    let setup = setup("errors", "errors");
    let recorder = Recorder::start(&setup, Actor::Task, 0, 1);
    let file = recorder.file("f");
    recorder.record(&write(&recorder, &file, 0, 5, 5));
    recorder.flush().expect("nothing to do");
    recorder.finish().expect("nothing to do");
    assert!(!setup.dir.exists());
    recorder.record(&write(&recorder, &file, 1, 5, 4));
    recorder.record(&Record { errno: 5, ..write(&recorder, &file, 2, 5, 5) });
    recorder.record(&Record { class: 32, ..write(&recorder, &file, 3, 5, 5) });
    recorder.record(&Record { kind: Some(ErrorKind::OtherRank), ..write(&recorder, &file, 4, 5, 5) });
    // Not finished: each record is in the file all the same.
    let (events, ending, _) = events(setup.dir.join("task-0.ptrace"));
    assert_eq!(events.iter().map(|e| e.offset).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert_eq!(ending, TraceEnding::Unfinished);
    assert!(ending.to_string().contains("without trailer"));
}

#[test]
fn accesses_below_the_smallest_offset_are_left_out() {
    let setup = setup("min", "all,min=100");
    let recorder = Recorder::start(&setup, Actor::Task, 0, 1);
    let file = recorder.file("f");
    for (offset, len) in [(0, 100), (50, 51), (99, 0), (100, 0), (200, 5)] {
        recorder.record(&write(&recorder, &file, offset, len, len));
    }
    recorder.record(&Record::new(TracedOp::Close, Some(&file), recorder.now(), recorder.now()));
    recorder.finish().expect("written");
    let (events, ..) = events(setup.dir.join("task-0.ptrace"));
    let kept: Vec<_> = events.iter().map(|e| (e.call.op.word(), e.offset)).collect();
    assert_eq!(kept, [("write", 50), ("write", 100), ("write", 200), ("close", 0)]);
}

#[test]
fn a_second_job_leaves_the_first_ones_trace_alone() {
    let setup = setup("jobs", "all");
    for job in 1..=3u64 {
        let recorder = Recorder::start(&setup, Actor::Task, 5, 6);
        recorder.record(&write(&recorder, &recorder.file("f"), job, 1, 1));
    }
    for (name, job) in [("task-5.ptrace", 1), ("task-5.2.ptrace", 2), ("task-5.3.ptrace", 3)] {
        let (events, ending, _) = events(setup.dir.join(name));
        assert_eq!((events.len(), events[0].offset, ending), (1, job, TraceEnding::Finished));
    }
}

#[test]
fn a_directory_that_cannot_be_made_costs_records_but_they_are_counted() {
    let setup = setup("no-directory", "errors");
    std::fs::write(&setup.dir, "in the way").expect("a file");
    let recorder = Recorder::start(&setup, Actor::Task, 0, 1);
    let file = recorder.file("f");
    recorder.record(&write(&recorder, &file, 0, 2, 1));
    assert!(recorder.finish().is_err());
    std::fs::remove_file(&setup.dir).expect("out of the way");
    recorder.record(&write(&recorder, &file, 7, 2, 1));
    assert!(recorder.finish().unwrap_err().to_string().contains("1 operations"));
    let (events, ending, lost) = events(setup.dir.join("task-0.ptrace"));
    assert_eq!((events.len(), events[0].offset, ending, lost), (1, 7, TraceEnding::Finished, 1));
    assert_eq!(events[0].file.as_deref(), Some("f"));
}

#[test]
fn recording_may_go_on_after_finish() {
    let setup = setup("again", "all");
    let recorder = Recorder::start(&setup, Actor::Task, 0, 1);
    let file = recorder.file("f");
    for offset in 0..3 {
        recorder.record(&write(&recorder, &file, offset, 1, 1));
        recorder.finish().expect("written");
        let (events, ending, _) = events(setup.dir.join("task-0.ptrace"));
        assert_eq!((events.len() as u64, ending), (offset + 1, TraceEnding::Finished));
    }
}

#[test]
fn threads_share_a_recorder_and_many_buffers_are_filled() {
    let setup = setup("threads", "all");
    let recorder = Recorder::start(&setup, Actor::Task, 0, 1);
    let long = recorder.file("n".repeat(5000));
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (recorder, long) = (&recorder, &long);
            scope.spawn(move || {
                let file = recorder.file(format!("file {thread}"));
                for n in 0..3000 {
                    recorder.plain(TracedOp::Write.into(), &file, thread << 32 | n, 8, recorder.now());
                    recorder.record(&write(recorder, long, n, 8, 8));
                }
            });
        }
    });
    recorder.finish().expect("written");
    let (events, ending, _) = events(setup.dir.join("task-0.ptrace"));
    assert_eq!((events.len(), ending), (24_000, TraceEnding::Finished));
    for thread in 0..4u64 {
        let name = format!("file {thread}");
        let mine = events.iter().filter(|e| e.file.as_deref() == Some(&name)).map(|e| e.offset);
        assert!(mine.eq((0..3000).map(|n| thread << 32 | n)));
    }
    assert_eq!(events.iter().filter(|e| e.file.as_deref().is_some_and(|f| f.len() == 4096)).count(), 12_000);
}

#[test]
fn two_recorders_may_speak_of_one_file() {
    let setup = setup("two", "all");
    let task = Recorder::start(&setup, Actor::Task, 0, 1);
    let agent = Recorder::start(&setup, Actor::Agent, 0, 1);
    let file = task.file("shared");
    for n in 0..4 {
        task.record(&write(&task, &file, n, 1, 1));
        agent.record(&write(&agent, &file, n, 1, 1));
    }
    task.finish().and(agent.finish()).expect("written");
    for name in ["task-0.ptrace", "agent-0.ptrace"] {
        let (events, ..) = events(setup.dir.join(name));
        assert!(events.len() == 4 && events.iter().all(|e| e.file.as_deref() == Some("shared")));
    }
}

#[test]
fn patterns_of_any_size_come_back_each_written_once() {
    let setup = setup("patterns", "all");
    let recorder = Recorder::start(&setup, Actor::Task, 0, 1);
    let file = recorder.file("out.dat");
    let sizes = [5, 32 << 10, (32 << 10) + 1, 200_000];
    let bytes = |size: usize| (0..size).map(|at| (at * 7 + size) as u8).collect::<Vec<u8>>();
    let patterns: Vec<PatternId> =
        sizes.iter().map(|&size| PatternId::new(bytes(size)).expect("small")).collect();
    for round in 0..3 {
        for pattern in &patterns {
            let view = Some(InView { pattern, disp: 8, at: round, len: 50 });
            recorder.record(&Record { end: 100, view, ..write(&recorder, &file, 0, 50, 50) });
        }
        recorder.record(&write(&recorder, &file, 0, 50, 50));
        // A gap, without its location.
        recorder.record(&Record { end: 100, ..write(&recorder, &file, 0, 50, 50) });
    }
    recorder.finish().expect("written");
    let path = setup.dir.join("task-0.ptrace");
    let all: usize = sizes.iter().sum();
    assert!(path.metadata().expect("a file").len() < (all + 10_000) as u64, "a pattern was written twice");
    let (events, ending, lost) = events(path);
    assert_eq!((events.len(), ending, lost), (18, TraceEnding::Finished, 0));
    for (number, event) in events.iter().enumerate() {
        let wanted = match number % 6 {
            4 => TracedPieces::All,
            5 => TracedPieces::Unsaid,
            which => TracedPieces::View {
                pattern: bytes(sizes[which]).into(),
                disp: 8,
                at: number as u64 / 6,
                len: 50,
            },
        };
        assert_eq!(event.pieces, wanted, "{number}");
    }
}

/// One operation of any kind, and whether the buffer is written before it.
type Drawn = (u8, (u64, u64, u64), (i64, u64), bool, bool);

fn drawn() -> impl Strategy<Value = Drawn> {
    let sizes = prop_oneof![0u64..100, Just(u64::from(u32::MAX)), Just(1 << 32), 0u64..1 << 40];
    let starts = prop_oneof![0i64..1000, -1_000_000i64..1_000_000, Just(3_000_000_000), Just(-2_200_000_000)];
    let took = prop_oneof![0u64..1000, Just(5_000_000_000)];
    (0u8..6, (0u64..1 << 50, sizes, 0u64..3), (starts, took), any::<bool>(), prop::bool::weighted(0.1))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Every encoding of an operation decodes to the same operation; plain ones may go through the thread buffer.
    #[test]
    fn any_operations_come_back(all in prop::collection::vec(drawn(), 1..60)) {
        let setup = setup("any", "all,clock=system");
        let recorder = Recorder::start(&setup, Actor::Task, 0, 1);
        let files = [recorder.file("a"), recorder.file("b")];
        // Long after the recorder's beginning, so that starts may lie before each other.
        let mut start = Instant::now() + Duration::from_secs(1000);
        let (mut wanted, mut segment) = (Vec::new(), 0);
        for &(what, (offset, len, short), (since, took), collective, flush) in &all {
            if flush {
                recorder.flush().expect("written");
                segment += 1;
            }
            start = if since < 0 { start - Duration::from_nanos(since.unsigned_abs()) } else { start + Duration::from_nanos(since as u64) };
            let call = TracedCall { op: TracedOp::ALL[usize::from(what)], place: PointerKind::At, collective, pace: Pace::Blocking };
            let file = files.get(usize::from(what % 3));
            let moved = len.saturating_sub(short);
            let (class, behalf) = (i32::from(what == 4), (what == 5).then_some(3));
            let (begun, over) = (recorder.at(start), recorder.at(start + Duration::from_nanos(took)));
            recorder.record(&Record { offset, end: offset + len, len, moved, class, on_behalf_of: behalf, ..Record::new(call, file, begun, over) });
            wanted.push((call, file.map(|_| what % 3), offset, len, moved, start, took, class, behalf, segment));
        }
        // Operations that wait together are put into the order of their ends.
        wanted.sort_by_key(|one| (one.9, one.5 + Duration::from_nanos(one.6)));
        recorder.finish().expect("written");
        let (events, ending, lost) = events(setup.dir.join("task-0.ptrace"));
        prop_assert_eq!((events.len(), ending, lost), (wanted.len(), TraceEnding::Finished, 0));
        let first = (events[0].start_ns, wanted[0].5);
        for (event, (call, file, offset, len, moved, start, took, class, behalf, _)) in events.iter().zip(wanted) {
            prop_assert_eq!((event.call, event.file.as_deref()), (call, file.map(|file| ["a", "b"][usize::from(file)])));
            prop_assert_eq!((event.offset, event.end, event.len, event.moved), (offset, offset + len, len, moved));
            prop_assert_eq!((event.took_ns, event.class, event.on_behalf_of), (took, class, behalf));
            let since = i128::from(event.start_ns) - i128::from(first.0);
            let wanted = if start >= first.1 { (start - first.1).as_nanos() as i128 } else { -((first.1 - start).as_nanos() as i128) };
            prop_assert_eq!(since, wanted);
        }
    }
}

/// The peak memory of this process, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

#[test]
fn five_million_operations_are_all_there_in_little_memory() {
    const OPERATIONS: u64 = 5_000_000;
    let setup = setup("many", "all");
    let recorder = Recorder::start(&setup, Actor::Task, 0, 1);
    let file = recorder.file("out.dat");
    let before = peak();
    for number in 0..OPERATIONS {
        recorder.plain(TracedOp::Write.into(), &file, number << 12, 4096, recorder.now());
    }
    recorder.finish().expect("nothing is lost");
    let path = setup.dir.join("task-0.ptrace");
    let mut reader = read(&path).expect("a trace");
    let mut count = 0;
    for event in reader.by_ref() {
        assert_eq!((event.offset, event.moved), (count << 12, 4096));
        count += 1;
    }
    assert_eq!((count, reader.lost(), reader.ending()), (OPERATIONS, 0, Some(&TraceEnding::Finished)));
    assert!(reader.cost_ns().is_some_and(|cost| cost > 0));
    let more = peak() - before;
    assert!(more < 4 << 20, "recording and reading took {more} bytes");
    assert!(path.metadata().expect("a file").len() < 9 * OPERATIONS);
    std::fs::remove_dir_all(&setup.dir).expect("removed");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Plain operations of one thread and others between them: all come back, in order, with their times.
    #[test]
    fn thread_buffer_and_list_are_merged_in_order(all in prop::collection::vec((0u8..8, 0u64..4, 1u64..20_000_000, any::<bool>()), 1..1500), clock in prop::bool::ANY) {
        let setup = setup("order", if clock { "all" } else { "all,clock=system" });
        let recorder = Recorder::start(&setup, Actor::Task, 0, 1);
        let file = recorder.file("a");
        let before = read(&setup.dir.join("task-0.ptrace")).expect("a trace").header().began_ns;
        let mut wanted = Vec::new();
        let mut offset = 0;
        for &(what, jump, len, flush) in &all {
            let start = recorder.now();
            match what {
                0 => recorder.record(&write(&recorder, &file, offset, len, len - 1)),
                _ => recorder.plain(TracedOp::Write.into(), &file, offset, len, start),
            }
            if what == 1 && flush {
                recorder.flush().expect("written");
            }
            wanted.push((offset, len));
            offset += if jump == 0 { len * 3 } else { len };
        }
        recorder.finish().expect("written");
        let (events, ending, lost) = events(setup.dir.join("task-0.ptrace"));
        prop_assert_eq!((ending, lost), (TraceEnding::Finished, 0));
        prop_assert_eq!(events.iter().map(|e| (e.offset, e.len)).collect::<Vec<_>>(), wanted);
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("later").as_nanos() as u64;
        prop_assert!(events.iter().all(|e| (before..now).contains(&e.end_ns())));
    }
}
