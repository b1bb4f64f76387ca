//! The processes of a server: signals, panics, logs that fail, servers that hang, starts that fail for a while.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use pario::{OpenOptions, Options};
use pario_types::ServerId;

use super::processes::ProcessHandle;
use super::site::{Route, Shape, Site, connect, connect_with, run_directory};
use super::{soon, within};

/// Bytes of a file that fits into the servers' memory.
const BYTES: usize = 4_000_000;

/// Nothing is stored by itself: the cache is larger than the data, and storage is slow.
fn shape(servers: u16) -> Shape {
    Shape { cache: 16 << 20, ..Shape::new(servers) }
}

fn supervisors(site: &Site) -> Vec<ProcessHandle> {
    let all = site.processes().into_iter();
    all.filter(|process| process.command().ends_with("serve --part supervisor")).collect()
}

fn log(site: &Site, server: u16) -> String {
    fs::read_to_string(site.home().join(format!("logs/trial.{server}.log"))).unwrap_or_default()
}

#[test]
fn a_signalled_server_stores_everything_and_exits() {
    let site = Site::new(shape(3));
    for (round, signal) in (0..).zip(["-TERM", "-INT", "-HUP"]) {
        site.start_slow(3000);
        let path = format!("/{round}");
        let bytes = site.write(&path, BYTES);
        let entry = site.entry();
        let begun = Instant::now();
        site.server_processes().into_iter().for_each(|process| process.signal(signal));
        // More signals do not shorten it.
        site.server_processes().into_iter().for_each(|process| process.signal("-TERM"));
        within(Duration::from_secs(25), "all processes are gone", || site.processes().is_empty());
        assert!(begun.elapsed() < Duration::from_secs(30), "a batch system kills after that");
        assert!(!run_directory(&entry).exists(), "{}", run_directory(&entry).display());
        let log = log(&site, 0);
        assert!(log.contains("stores everything and ends") && !log.contains("died"), "{log}");
        let list = site.succeed(&["list"]);
        assert!(list.contains(" down "), "{list}");
        site.start();
        site.expect_there(&path, &bytes);
        site.stop();
    }
}

#[test]
fn a_supervisor_forwards_a_signal_and_waits() {
    let site = Site::new(shape(2));
    site.start_slow(3000);
    let bytes = site.write("/file", BYTES);
    let supervisors = supervisors(&site);
    assert_eq!(supervisors.len(), 2);
    supervisors.iter().for_each(|process| process.signal("-TERM"));
    within(Duration::from_secs(25), "the supervisors are gone", || {
        supervisors.iter().all(|one| one.is_gone())
    });
    assert_eq!(site.server_processes(), [], "a supervisor did not wait for its server");
    assert!(!run_directory(&site.entry()).exists());
    site.start();
    site.expect_there("/file", &bytes);
}

#[test]
fn data_that_a_signalled_server_cannot_store_stays_in_its_pool() {
    let site = Site::up(shape(2));
    let parts = |server| site.data(server).join("parts");
    for server in 0..2 {
        fs::rename(parts(server), site.path(&format!("parts{server}"))).expect("it is there");
    }
    let bytes = site.write("/file", BYTES);
    let entry = site.entry();
    site.server_processes().into_iter().for_each(|process| process.signal("-TERM"));
    soon("all processes are gone", || site.processes().is_empty());
    for server in 0..2u16 {
        assert!(run_directory(&entry).join(format!("{server}/pool")).exists());
        let log = log(&site, server);
        assert!(log.contains("ended without storing everything"), "{log}");
        fs::rename(site.path(&format!("parts{server}")), parts(server)).expect("it is there");
    }
    site.start();
    site.expect_there("/file", &bytes);
    site.stop();
    site.start();
    site.expect_there("/file", &bytes);
}

#[test]
fn a_panic_in_any_thread_ends_the_server_and_loses_nothing() {
    let site = Site::new(shape(2));
    let told = site.path("panics");
    fs::create_dir(&told).expect("a new directory");
    let mut up = site.pario(&["up", &site.file().to_string_lossy()]);
    let output = up.env("PARIO_TEST_PANICS", &told).output().expect("pario runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // The reaper first: after another's end it waits for clients to say what they have open.
    for thread in ["reaper", "worker", "flusher"] {
        let path = format!("/{thread}");
        let before = site.server_processes();
        fs::write(told.join(thread), "").expect("a directory takes files");
        // The flusher looks when there is much to store; the reaper when a file is removed.
        let bytes = site.write(&path, BYTES);
        site.write("/removed", BYTES);
        // It may be the server that panics which should answer; the client asks its successor then.
        let _ = site.client().remove_file("/removed");
        soon(&format!("the {thread} panics"), || !told.join(thread).exists());
        soon("a server is replaced", || {
            let now = site.server_processes();
            now.len() == 2 && now != before
        });
        site.expect_there(&path, &bytes);
    }
    let logs = log(&site, 0) + &log(&site, 1);
    assert_eq!(logs.matches("a thread failed, and so the server ends").count(), 3, "{logs}");
}

#[test]
fn a_server_continues_without_a_writable_log() {
    let site = Site::new(shape(1));
    site.start();
    site.stop();
    let log = site.home().join("logs/trial.0.log");
    fs::remove_file(&log).expect("it was written");
    std::os::unix::fs::symlink("/dev/full", &log).expect("a new link");
    site.start();
    let bytes = site.write("/file", BYTES);
    let server = site.process(ServerId(0)).expect("it runs");
    let threads =
        |process: ProcessHandle| fs::read_dir(format!("/proc/{}/task", process.0)).expect("there").count();
    let before = threads(server);
    let client = site.client();
    for round in 1..=20u64 {
        // Each of these is worth a line of the log, and none is like the one before.
        let mut intruder =
            UnixStream::connect(run_directory(&site.entry()).join("0/socket")).expect("it listens");
        intruder.write_all(&[round as u8; 64]).expect("it takes it");
        soon("it is refused", || client.status(ServerId(0)).expect("it answers").traffic.refused >= round);
    }
    assert_eq!((site.process(ServerId(0)), threads(server)), (Some(server), before));
    site.expect_there("/file", &bytes);
}

#[test]
fn a_server_that_hangs_is_replaced_and_loses_nothing() {
    let site = Site::up(Shape { more: "deadline = 1".into(), ..shape(1) });
    let bytes = site.write("/file", BYTES);
    let server = site.process(ServerId(0)).expect("it runs");
    server.stop();
    within(Duration::from_secs(60), "another server runs", || {
        site.process(ServerId(0)).is_some_and(|process| process != server)
    });
    assert!(log(&site, 0).contains("gave no sign of life"), "{}", log(&site, 0));
    soon("it serves", || site.try_pario(&["stat", "trial:/file"]).status.success());
    site.expect_there("/file", &bytes);
}

/// Kills the server, and takes its port before its supervisor can start another.
fn take_port(site: &Site) -> TcpListener {
    let tcp = site.entry().running[&ServerId(0)].tcp.clone().expect("it listens");
    let supervisor = supervisors(site)[0];
    supervisor.stop();
    assert!(site.kill(ServerId(0)));
    let taken = TcpListener::bind(&tcp).expect("it is free");
    let failures = || log(site, 0).matches("could not be started").count();
    let before = failures();
    supervisor.go_on();
    within(Duration::from_secs(30), "a start fails", || failures() > before);
    taken
}

#[test]
fn a_server_waits_until_its_port_is_free() {
    let site = Site::up(Shape { more: "listen = 127.0.0.1".into(), ..shape(1) });
    let bytes = site.write("/file", BYTES);
    let taken = take_port(&site);
    assert!(site.process(ServerId(0)).is_none() && supervisors(&site).len() == 1);
    drop(taken);
    within(Duration::from_secs(30), "the server is back", || site.process(ServerId(0)).is_some());
    site.expect_there("/file", &bytes);
}

#[test]
fn down_and_up_work_while_a_server_waits_to_be_started() {
    let site = Site::up(Shape { more: "listen = 127.0.0.1".into(), ..shape(1) });
    let bytes = site.write("/file", BYTES);
    let waiting = supervisors(&site)[0];
    let taken = take_port(&site);
    // The one that waits makes way, and the partition is up on another port.
    site.start();
    soon("there is one supervisor", || waiting.is_gone() && supervisors(&site).len() == 1);
    site.expect_there("/file", &bytes);
    drop(taken);
    let taken = take_port(&site);
    // At its address another program listens, which does not answer.
    site.succeed(&["down", "trial", "--timeout", "8"]);
    drop(taken);
    soon("nobody starts it any more", || site.processes().is_empty());
    site.start();
    site.expect_there("/file", &bytes);
}

/// The server closes connections that send nothing, oldest first, and serves clients.
#[test]
fn silent_connections_do_not_exclude_clients() {
    let site = Site::new(Shape { more: "listen = 127.0.0.1".into(), ..shape(1) });
    let mut up = site.command(&[], std::path::Path::new("sh"));
    up.args(["-c", "ulimit -n 256 && exec \"$0\" up \"$1\""])
        .arg(pario_conformance::pario())
        .arg(site.file());
    let output = up.output().expect("a shell runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let server = site.process(ServerId(0)).expect("it runs");
    let far = site.far_client();
    let tcp = site.entry().running[&ServerId(0)].tcp.clone().expect("it listens");
    let mut silent = Vec::new();
    for round in 0..5 {
        // The connections of the previous round end after those of this round are open.
        let more: Vec<_> =
            (0..400).map(|_| std::net::TcpStream::connect(&tcp).expect("it listens")).collect();
        silent = more;
        let path = format!("/{round}");
        let bytes = site.write(&path, BYTES);
        site.expect_there(&path, &bytes);
        let file = far.open(&path, OpenOptions::new().read(true)).expect("it is served, too");
        assert_eq!(file.len().expect("it answers"), bytes.len() as u64);
        drop(site.far_client());
    }
    let open = || fs::read_dir(format!("/proc/{}/fd", server.0)).expect("it runs").count();
    assert!(open() < 200, "{} descriptors are in use", open());
    let before = server.ticks();
    // CPU time can only be measured over a time in which nothing is requested.
    std::thread::sleep(Duration::from_secs(1));
    assert!(server.ticks() - before < 20, "{} ticks of a hundred for nothing", server.ticks() - before);
    assert_eq!(site.process(ServerId(0)), Some(server));
    drop(silent);
}

/// The environment variable that makes another start of this program hold a lock. It names the file to create then.
const HOLDS: &str = "PARIO_TEST_HOLDS";

/// The work of that process.
fn a_process_that_holds_a_lock(said: &std::ffi::OsStr) {
    let home = std::env::var_os("PARIO_HOME").expect("the site says where it is");
    let client = connect(home.as_ref(), Route::Local).expect("it is up");
    let file = client.open("/file", OpenOptions::new().read(true).write(true)).expect("it is there");
    let _lock = file.lock(0..100, true).expect("it is free");
    fs::write(said, "held").expect("the test is there");
    // The test kills this process.
    loop {
        std::thread::park();
    }
}

#[test]
fn waiting_for_the_lock_of_a_stopped_process_ends_at_the_deadline() {
    if let Some(said) = std::env::var_os(HOLDS) {
        return a_process_that_holds_a_lock(&said);
    }
    let site = Site::up(Shape { more: "deadline = 3".into(), ..shape(1) });
    site.write("/file", BYTES);
    let held = site.path("held");
    let mut holder = site.again(
        &[],
        "partition::server_lifecycle::waiting_for_the_lock_of_a_stopped_process_ends_at_the_deadline",
    );
    let mut holder = holder.env(HOLDS, &held).spawn().expect("this program runs");
    within(Duration::from_secs(30), "it holds the lock", || held.exists());
    let process = ProcessHandle(holder.id());
    process.stop();
    let client = site.client();
    let file = client.open("/file", OpenOptions::new().read(true).write(true)).expect("it is there");
    let begun = Instant::now();
    let error = file.lock(50..60, false).err().expect("it is held").to_string();
    // A generous limit: the lock is not waited for without end.
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    assert!(error.contains(&format!("process {} of this host", process.0)), "{error}");
    // A dead process holds no lock.
    holder.kill().and_then(|()| holder.wait().map(drop)).expect("it can be ended");
    soon("the lock is free", || file.lock(50..60, false).is_ok());
}

/// A sync may take minutes where storage is slow, but not because its server does nothing at all.
#[test]
fn a_sync_gives_up_on_a_stopped_server_long_before_it_would_on_slow_storage() {
    let site = Site::up(Shape { more: "supervise = false\n".into(), ..shape(1) });
    let minutes = Duration::from_secs(300);
    let options = Options { deadline: Duration::from_secs(3), flush_deadline: minutes, ..Options::default() };
    let client = connect_with(&site.home(), Route::Local, options).expect("it is up");
    let file = client.open("/file", OpenOptions::new().write(true).create(true)).expect("a new file");
    file.write_at(&[7; 100_000], 0).expect("there is room");
    let server = site.process(ServerId(0)).expect("it runs");
    server.stop();
    let begun = Instant::now();
    let outcome = file.sync();
    let took = begun.elapsed();
    server.go_on();
    // A generous limit, far from the deadline of a sync.
    assert!(outcome.is_err() && took < minutes / 3, "{outcome:?} after {took:?}");
    file.sync().expect("the server goes on, and nothing is lost");
}

/// While it works on its storage, however slowly, a server is waited for.
#[test]
fn a_sync_waits_for_slow_storage_much_longer_than_for_other_answers() {
    let site = Site::new(shape(1));
    site.start_slow(60_000);
    let options = Options { deadline: Duration::from_secs(1), ..Options::default() };
    let client = connect_with(&site.home(), Route::Local, options).expect("it is up");
    let file = client.open("/file", OpenOptions::new().write(true).create(true)).expect("a new file");
    file.write_at(&vec![7; 4 << 20], 0).expect("there is room");
    // 64 blocks: nearly four seconds.
    file.sync().expect("it takes its time");
}
