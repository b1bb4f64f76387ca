//! The report on a file, in both its forms.

use pario_trace::{FileReport, FileStats, StatsTo, StrategyChoice};

fn report() -> FileReport {
    let stats = [FileStats::default(), FileStats::default()];
    for (rank, stats) in (0u64..).zip(&stats) {
        stats.collective_writes.add(3);
        stats.independent_reads.add(1);
        stats.written_bytes.add(3 << 20);
        stats.read_bytes.add(1 << 20);
        stats.pieces.add(100);
        stats.rounds.add(6);
        stats.host_calls.add(4);
        stats.copied_bytes.add(4 << 20);
        stats.exchange_ns.add(1_000_000 * (rank + 1));
        stats.io_ns.add(3_000_000 * (rank + 1));
        stats.window_bytes.see(4 << 20);
        for _ in 0..3 {
            let why = "the file system locks \"blocks\"";
            let (strategy, partitioning) = ("two-phase", "aligned");
            stats.decide(true, StrategyChoice { strategy, partitioning, aggregators: 2, why: why.into() });
        }
    }
    let numbers: Vec<_> = stats.iter().map(FileStats::numbers).collect();
    FileReport::fold("out\\x.dat", &numbers, stats[0].decisions())
}

#[test]
fn ranks_are_folded_by_the_meaning_of_each_number() {
    let report = report();
    assert_eq!((report.ranks, report.totals.written_bytes), (2, 6 << 20));
    assert_eq!((report.totals.window_bytes, report.largest.io_ns), (4 << 20, 6_000_000));
    assert_eq!((report.copies_per_byte(), report.io_share()), (Some(1.0), Some(0.75)));
    let nothing = FileReport::fold("x", &[], Default::default());
    assert_eq!((nothing.ranks, nothing.copies_per_byte(), nothing.io_share()), (0, None, None));
}

#[test]
fn the_text_says_what_was_chosen_and_why() {
    let text = report().to_string();
    assert_eq!(
        text.lines().collect::<Vec<_>>(),
        [
            "pario: file out\\x.dat, 2 ranks",
            "pario:   writes: 3 collective, 0 independent, 6.0 MiB",
            "pario:     3 × two-phase, aligned, 2 aggregators: the file system locks \"blocks\"",
            "pario:   reads: 0 collective, 2 independent, 2.0 MiB",
            "pario:   pieces 200, rounds 6, messages 0 (0 B), host-MPI operations 8",
            "pario:   copies per byte 1.00, exchange 0.002000 s, I/O 0.006000 s (slowest rank), \
             I/O-phase share 75 %",
            "pario:   read-modify-writes 0, lock requests 0, windows 4.0 MiB per node, errors 0",
        ]
    );
}

#[test]
fn the_json_is_one_line_with_everything_in_it() {
    let json = report().to_json();
    assert!(!json.contains('\n'));
    for part in [
        r#"{"file":"out\\x.dat","ranks":2,"copies_per_byte":1.0000,"io_share":0.7500,"totals":{"#,
        r#""totals":{"collective_reads":0,"collective_writes":6,"#,
        r#""largest":{"collective_reads":0,"collective_writes":3,"#,
        r#""decisions":{"read":[],"write":[{"strategy":"two-phase","partitioning":"aligned","#,
        r#""aggregators":2,"why":"the file system locks \"blocks\"","count":3}]}}"#,
    ] {
        assert!(json.contains(part), "{part} is not in {json}");
    }
}

#[test]
fn the_setting_is_understood_or_refused() {
    assert_eq!(StatsTo::parse("0"), Ok(StatsTo::Off));
    assert_eq!(StatsTo::parse("1"), Ok(StatsTo::Text));
    assert_eq!(StatsTo::parse("json"), Ok(StatsTo::Json));
    assert_eq!(StatsTo::parse("json:a/b"), Ok(StatsTo::JsonFile("a/b".into())));
    for wrong in ["xml", "json:"] {
        let line = StatsTo::parse(wrong).unwrap_err().to_string();
        assert!(line.contains("PARIO_STATS") && line.contains("json:FILE"), "{line}");
    }
}

#[test]
fn reports_are_appended_to_a_file() {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("stats.json");
    let _ = std::fs::remove_file(&path);
    let to = StatsTo::JsonFile(path.clone());
    to.deliver(&report()).expect("written");
    to.deliver(&report()).expect("written");
    let text = std::fs::read_to_string(&path).expect("read");
    assert_eq!(text.lines().collect::<Vec<_>>(), [report().to_json(), report().to_json()]);
    assert!(StatsTo::JsonFile("/no/such/dir/x".into()).deliver(&report()).is_err());
}
