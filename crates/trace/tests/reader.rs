//! Readers and arbitrary bytes: complete entries are returned from any file, and nothing panics.

use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use pario_trace::{Actor, Record, Recorder, TraceEnding, TraceReadError, TraceReader, TraceSetup, TracedOp};
use proptest::prelude::*;

/// A good trace of ten operations on two files, and then of a run of ten on the first.
fn good() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("good");
        let _ = std::fs::remove_dir_all(&dir);
        let setup = TraceSetup::parse("all").expect("good").expect("a trace");
        let recorder = Recorder::start(&TraceSetup { dir: dir.clone(), ..setup }, Actor::Task, 0, 1);
        let files = [recorder.file("a"), recorder.file("b")];
        for n in 0..10 {
            let record = Record::new(TracedOp::Read, Some(&files[n % 2]), recorder.now(), recorder.now());
            recorder.record(&Record { offset: n as u64, end: n as u64 + 8, len: 8, moved: 8, ..record });
        }
        (10..20).for_each(|n| recorder.plain(TracedOp::Write.into(), &files[0], n, 1, recorder.now()));
        recorder.finish().expect("written");
        std::fs::read(dir.join("task-0.ptrace")).expect("read back")
    })
}

/// Operations and end of a file with these bytes.
fn read(bytes: &[u8]) -> Result<(Vec<u64>, TraceEnding), TraceReadError> {
    let mut reader = TraceReader::new(bytes, Path::new("test"))?;
    let offsets = reader.by_ref().map(|event| event.offset).collect();
    Ok((offsets, reader.ending().expect("an end").clone()))
}

#[test]
fn other_files_and_other_versions_are_refused_by_name() {
    for bytes in [&b""[..], b"PARIOTRC", &[0; 100]] {
        assert!(matches!(read(bytes), Err(TraceReadError::NotATrace(_))));
    }
    let mut newer = good().to_vec();
    newer[8] = 4;
    let error = read(&newer).unwrap_err();
    assert!(error.to_string().contains("version 4"), "{error}");
}

/// Version 2 is the format without a counter and without runs.
#[test]
fn files_of_version_2_are_read() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("version-2");
    let _ = std::fs::remove_dir_all(&dir);
    let setup = TraceSetup::parse("all,clock=system").expect("good").expect("a trace");
    let recorder = Recorder::start(&TraceSetup { dir: dir.clone(), ..setup }, Actor::Task, 0, 1);
    let began = Instant::now();
    for n in 0..9u64 {
        let [start, over] = [n, n + 3].map(|ms| recorder.at(began + Duration::from_millis(ms)));
        let record = Record::new(TracedOp::Read, None, start, over);
        recorder.record(&Record { offset: 7 * n * n, end: 7 * n * n + 8, len: 8, moved: 8, ..record });
    }
    recorder.finish().expect("written");
    let mut bytes = std::fs::read(dir.join("task-0.ptrace")).expect("read back");
    assert_eq!(std::mem::replace(&mut bytes[8], 2), 3);
    let events: Vec<_> = TraceReader::new(&bytes[..], Path::new("test")).expect("a trace").collect();
    assert_eq!(
        events.iter().map(|event| event.offset).collect::<Vec<_>>(),
        [0, 7, 28, 63, 112, 175, 252, 343, 448]
    );
    assert!(events.iter().all(|event| event.took_ns == 3_000_000));
    assert!(events.windows(2).all(|two| two[1].start_ns - two[0].start_ns == 1_000_000));
}

#[test]
fn entries_of_later_versions_are_skipped_and_longer_ones_read() {
    let bytes = good();
    let mut first = usize::from(u16::from_le_bytes([bytes[12], bytes[13]]));
    while bytes[first + 2] != 2 {
        first += usize::from(bytes[first]);
    }
    let mut later = bytes[..first].to_vec();
    later.extend([6, 0, 99, 0, 1, 2]);
    later.push(bytes[first] + 8);
    later.extend(&bytes[first + 1..first + 72]);
    later.extend([0; 8]);
    later.extend(&bytes[first + 72..]);
    assert_eq!(read(&later).unwrap(), ((0..20).collect(), TraceEnding::Finished));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_cut_file_gives_its_whole_entries(cut in 0usize..2000) {
        let cut = cut.min(good().len());
        if let Ok((offsets, ending)) = read(&good()[..cut]) {
            prop_assert_eq!(&offsets, &(0..offsets.len() as u64).collect::<Vec<_>>());
            prop_assert_eq!(ending == TraceEnding::Finished, cut == good().len());
        }
    }

    #[test]
    fn random_bytes_break_nothing(bytes in prop::collection::vec(any::<u8>(), 0..500)) {
        let _ = read(&bytes);
        let mut after_header = good()[..usize::from(good()[12])].to_vec();
        after_header.extend(bytes);
        prop_assert!(read(&after_header).is_ok());
    }

    #[test]
    fn changed_bytes_break_nothing(changes in prop::collection::vec((0usize..2000, any::<u8>()), 1..20)) {
        let mut bytes = good().to_vec();
        for (at, byte) in changes {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        let _ = read(&bytes);
    }
}
