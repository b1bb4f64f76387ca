//! Client processes that are killed in the middle, and a server that is killed while they continue.
//!
//! Each client is this program again: [`Client::start`] makes it run a test that does the work of a client, [`child`], if
//! [`ROLE`] is set.

mod scene;

use pario_cache::{Adopted, BlockFlush, LedgerId, Lookup, PinError, Pool, PoolMapping, SlotRef};
use pario_types::{FileId, TruncationId};
use scene::{BLOCK, Dir, Store, WHO, create, load};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const FILE: FileId = FileId(6);
const ROLE: &str = "PARIO_CACHE_TEST_CLIENT";

/// A client process. It gets `ledger slot generation` in a line and prints `here` when it is ready.
struct Client {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Client {
    fn start(dir: &Dir, role: &str) -> Client {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "a_killed_readers_pins_end_and_leave_no_trace",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(ROLE, format!("{role} {}", dir.pool().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Client { child, stdin, stdout }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn tell(&mut self, ledger: LedgerId, place: SlotRef) {
        writeln!(self.stdin, "{} {} {}", ledger.0, place.slot, place.generation).unwrap();
    }

    fn wait_until_here(&mut self) {
        let mut line = String::new();
        while !line.ends_with("here\n") {
            line.clear();
            assert!(self.stdout.read_line(&mut line).unwrap() > 0, "the client ended early");
        }
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn child(role: &str) {
    let (role, path) = role.split_once(' ').unwrap();
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let numbers: Vec<u32> = line.split_whitespace().map(|word| word.parse().unwrap()).collect();
    let place = SlotRef { slot: numbers[1], generation: numbers[2] };
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mapped = PoolMapping::open(file.into(), LedgerId(numbers[0])).unwrap();
    let here = || {
        println!("here");
        std::io::stdout().flush().unwrap();
    };
    let forever = || loop {
        std::thread::park();
    };
    match role {
        "reads" => {
            let _guard = mapped.pin(place, FILE, 0).unwrap();
            here();
            forever();
        }
        "writes" => mapped
            .pin(place, FILE, 0)
            .unwrap()
            .write_with(0..BLOCK, |bytes| {
                bytes[..100].fill(b'w');
                here();
                forever();
            })
            .unwrap(),
        "fills" => mapped.claim(place, FILE, 0).unwrap().write_with(0..BLOCK, |bytes| {
            bytes[..100].fill(b'w');
            here();
            forever();
        }),
        // It increments its block until it is killed.
        "counts" => {
            let mut told = false;
            for number in 1u64.. {
                match mapped.pin(place, FILE, 0) {
                    Ok(guard) => guard.write(0, &[number; 512].map(u64::to_ne_bytes).concat()).unwrap(),
                    Err(refused) => assert_eq!(refused, PinError::Stale),
                }
                if number > 100 && !told {
                    told = true;
                    here();
                }
            }
        }
        other => panic!("no such role: {other}"),
    }
}

/// A pool of one slot that holds a clean block, and a client that has it pinned.
fn scene(role: &str) -> (Dir, Pool, LedgerId, Client) {
    let dir = Dir::new();
    let pool = create(&dir, 1, 2);
    let mut client = Client::start(&dir, role);
    let ledger = pool.take_ledger(client.pid()).unwrap();
    let place = match pool.get(FILE, 0) {
        Lookup::Fill(fill) if role == "fills" => fill.lend(ledger, false),
        Lookup::Fill(fill) => fill.done(BLOCK).slot_ref(),
        other => panic!("{other:?}"),
    };
    client.tell(ledger, place);
    client.wait_until_here();
    (dir, pool, ledger, client)
}

#[test]
fn a_killed_readers_pins_end_and_leave_no_trace() {
    if let Ok(role) = std::env::var(ROLE) {
        return child(&role);
    }
    let (_dir, pool, ledger, client) = scene("reads");
    assert!(matches!(pool.get(FILE, 1), Lookup::Full));
    pool.give_ledger(ledger);
    assert!(matches!(pool.get(FILE, 1), Lookup::Full), "it lives, and may read yet");
    client.kill();
    assert_eq!(pool.counters().pinned, 0);
    assert_eq!(pool.dirty(), 0);
    assert!(matches!(pool.get(FILE, 1), Lookup::Fill(_)));
}

#[test]
fn a_block_that_a_killed_writer_was_changing_is_dirty() {
    let (_dir, pool, ledger, client) = scene("writes");
    assert_eq!(pool.dirty(), 0);
    client.kill();
    pool.give_ledger(ledger);
    assert_eq!(pool.counters().dirty, 1);
    assert!(matches!(pool.get(FILE, 1), Lookup::Full), "not to be forgotten");
    assert_eq!(pool.next_dirty(1).len(), 1);
}

#[test]
fn a_slot_that_a_killed_client_was_filling_is_free() {
    let (_dir, pool, ledger, client) = scene("fills");
    assert!(matches!(pool.get(FILE, 0), Lookup::Busy));
    pool.give_ledger(ledger);
    assert!(matches!(pool.get(FILE, 0), Lookup::Busy), "it lives, and may publish yet");
    assert!(!pool.begin_truncation(FILE, 0).unwrap().ready());
    client.kill();
    assert!(matches!(pool.get(FILE, 0), Lookup::Fill(_)));
    assert!(pool.begin_truncation(FILE, 0).unwrap().ready());
}

#[test]
fn a_restarted_server_distinguishes_dead_clients_from_live_ones() {
    for role in ["reads", "writes", "fills"] {
        let (dir, pool, ledger, client) = scene(role);
        let pid = client.pid();
        drop(pool);
        let (pool, adopted) = Pool::adopt(&dir.pool(), WHO).unwrap();
        assert_eq!((adopted.valid, adopted.dirty, adopted.dropped), (u32::from(role != "fills"), 0, 0));
        assert!(matches!(pool.get(FILE, 1), Lookup::Full), "the client has it pinned");
        assert!(pool.resume_ledger(ledger, pid));
        drop(pool);
        client.kill();
        let (pool, adopted) = Pool::adopt(&dir.pool(), WHO).unwrap();
        let right = match role {
            "reads" => (1, 0, 0),
            "writes" => (1, 1, 0),
            _ => (0, 0, 1),
        };
        assert_eq!((adopted.valid, adopted.dirty, adopted.dropped), right, "{role}");
        assert_eq!(pool.counters().ledgers, 0);
    }
}

#[test]
fn a_writer_continues_while_servers_are_restarted() {
    let (dir, mut pool, ledger, client) = scene("counts");
    let store = Store::default();
    let mut last = 0;
    for _ in 0..60 {
        drop(pool);
        pool = Pool::adopt(&dir.pool(), WHO).unwrap().0;
        assert!(pool.resume_ledger(ledger, client.pid()));
        let number = first_number(&pool, &store);
        assert!(number >= last);
        last = number;
        store.flush(pool.next_dirty(1));
    }
    client.kill();
    pool.give_ledger(ledger);
    assert!(first_number(&pool, &store) > 100);
    store.flush(pool.next_dirty(1));
    let (mut cached, mut stored) = (vec![0; BLOCK as usize], vec![0; BLOCK as usize]);
    load(&pool, &store, FILE, 0).unwrap().read(0, &mut cached);
    store.read(FILE, 0, &mut stored);
    assert!(cached == stored, "what the killed writer left is what is stored");
}

fn first_number(pool: &Pool, store: &Store) -> u64 {
    let mut bytes = [0; 8];
    load(pool, store, FILE, 0).unwrap().read(0, &mut bytes);
    u64::from_ne_bytes(bytes)
}

/// A pool of four blocks of which the last two are dirty, one of them in part beyond a truncation that is recorded; the
/// pool's file as a killed server leaves it at that moment, and the pool itself.
fn in_the_middle_of_a_cut(dir: &Dir) -> Pool {
    let pool = create(dir, 8, 1);
    for block in 0..4 {
        let Lookup::Fill(mut fill) = pool.get(FILE, block) else { panic!("it is empty") };
        fill.bytes(0..BLOCK, |bytes| bytes.fill(b'o'));
        let pin = fill.done(BLOCK);
        if block >= 2 {
            pin.write(0, &[b'n'; BLOCK as usize]).unwrap();
        }
    }
    let mut truncation = pool.begin_truncation(FILE, 2 * u64::from(BLOCK) + 100).unwrap();
    assert!(truncation.ready() && truncation.record(TruncationId(9)));
    std::fs::copy(dir.pool(), dir.pool().with_extension("left")).unwrap();
    drop(truncation);
    drop(pool);
    std::fs::rename(dir.pool().with_extension("left"), dir.pool()).unwrap();
    Pool::adopt(&dir.pool(), WHO).unwrap().0
}

/// The pool's file as a server leaves it that is killed now.
fn adopt_as_it_is(dir: &Dir, pool: Pool) -> (Pool, Adopted) {
    std::fs::copy(dir.pool(), dir.pool().with_extension("left")).unwrap();
    drop(pool);
    std::fs::rename(dir.pool().with_extension("left"), dir.pool()).unwrap();
    Pool::adopt(&dir.pool(), WHO).unwrap()
}

#[test]
fn a_block_to_which_a_killed_server_was_writing_is_dirty_and_reaches_as_far_as_the_write() {
    for is_flushed_meanwhile in [false, true] {
        let dir = Dir::new();
        let pool = create(&dir, 8, 1);
        let Lookup::Fill(fill) = pool.get(FILE, 0) else { panic!("it is empty") };
        let pin = fill.done(0);
        let write = pin.begin_write();
        write.put(7, b"new");
        if is_flushed_meanwhile {
            pool.next_dirty(1).into_iter().for_each(BlockFlush::clean);
        }
        write.put(20, b"more");
        if is_flushed_meanwhile {
            pool.next_dirty(1).into_iter().for_each(BlockFlush::clean);
        }
        // Neither the write nor its pin ends before the server is killed.
        std::mem::forget(write);
        std::mem::forget(pin);
        let (pool, adopted) = adopt_as_it_is(&dir, pool);
        assert_eq!((adopted.valid, adopted.dirty), (1, 1));
        let Lookup::Hit(pin) = pool.get(FILE, 0) else { panic!("it is there") };
        assert_eq!(pin.end(), 24);
    }
}

#[test]
fn a_new_block_of_a_killed_server_is_dirty() {
    let dir = Dir::new();
    let pool = create(&dir, 8, 1);
    let Lookup::Fill(mut fill) = pool.get(FILE, 0) else { panic!("it is empty") };
    fill.bytes(0..BLOCK, |bytes| bytes.fill(b'n'));
    drop(fill.done_dirty(BLOCK));
    let (_pool, adopted) = adopt_as_it_is(&dir, pool);
    assert_eq!((adopted.valid, adopted.dirty), (1, 1));
}

/// The bytes of the file's blocks that are in the pool.
fn cached(pool: &Pool) -> Vec<Option<Vec<u8>>> {
    let read = |block| match pool.get(FILE, block) {
        Lookup::Hit(pin) => {
            let mut bytes = vec![0; BLOCK as usize];
            pin.read(0, &mut bytes);
            Some(bytes)
        }
        _ => None,
    };
    (0..4).map(read).collect()
}

#[test]
fn a_restarted_server_completes_or_rolls_back_an_interrupted_truncation_first() {
    let whole = |byte| Some(vec![byte; BLOCK as usize]);
    for is_applied in [false, true] {
        let dir = Dir::new();
        let pool = in_the_middle_of_a_cut(&dir);
        assert!(matches!(pool.get(FILE, 2), Lookup::Busy) && matches!(pool.get(FILE, 9), Lookup::Busy));
        assert!(pool.next_dirty(8).is_empty(), "nothing of it is stored");
        let mut truncations = pool.interrupted_truncations();
        assert!(pool.interrupted_truncations().is_empty(), "each is decided once");
        let [truncation] = &mut truncations[..] else { panic!("{truncations:?}") };
        assert_eq!((truncation.file(), truncation.truncation()), (FILE, Some(TruncationId(9))));
        if is_applied {
            truncation.finish()
        } else {
            truncation.roll_back()
        };
        drop(truncations);
        let mut last = whole(b'n').unwrap();
        if is_applied {
            last[100..].fill(0);
        }
        let after = if is_applied { None } else { whole(b'n') };
        assert_eq!(cached(&pool), [whole(b'o'), whole(b'o'), Some(last), after]);
        assert_eq!(pool.dirty(), if is_applied { 1 } else { 2 });
        drop(pool);
        assert!(Pool::adopt(&dir.pool(), WHO).unwrap().0.interrupted_truncations().is_empty());
    }
}

#[test]
fn a_truncation_that_is_rolled_back_keeps_dirty_blocks_and_drops_clean_ones() {
    let dir = Dir::new();
    let pool = in_the_middle_of_a_cut(&dir);
    pool.interrupted_truncations();
    for _ in 0..200 {
        let mut truncation = pool.begin_truncation(FILE, 0).unwrap();
        assert!(truncation.ready() && truncation.record(TruncationId(10)), "records are used again");
        truncation.roll_back();
    }
    let dirty = Some(vec![b'n'; BLOCK as usize]);
    assert_eq!(cached(&pool), [None, None, dirty.clone(), dirty]);
    assert_eq!(pool.dirty(), 2);
}
