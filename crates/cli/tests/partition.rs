//! `pario up`, `down` and `list` with a launcher made up for the purpose: it stands in for `ssh`, keeps up
//! its side of the conversation as a server would, and notes what it was given. What listens in its place is
//! the test itself.

#[allow(dead_code, reason = "other tests compile programs")]
mod bench;

use bench::{Bench, text};
use pario_transport::{HandshakeConfig, HandshakeStep, RecordReader, ServerHandshake, Stream, fresh_nonce};
use pario_types::ServerId;
use pario_wire::greeting::{Greeting, PREFIX, Prefix, Welcome};
use pario_wire::{Envelope, FrameDecoder, Reply, encode_reply};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Nodes with addresses that are set aside for documentation: certainly not this host.
const PARTITION: &str = "\
stripe_size = 64k
ahpfs_server = 203.0.113.1:/data
ahpfs_server = 203.0.113.2:/data
";

/// Its arguments end with `-- NODE COMMAND`. Notes what it is given in files that end with the node's last
/// digit. `$SERVE` says how the server goes on after its start message.
const SSH: &str = r#"
while [ "$1" != -- ]; do shift; done
id=${2##*.}
echo "$3" >> "$NOTES/commands$id"
read -r start && echo "$start" >> "$NOTES/start$id"
eval "$SERVE"
"#;

const GOOD: &str = r#"
echo 'Welcome to this node!'
echo '{"say":"ready","pid":77,"unix":"/run/s'$id'","tcp":"'$TCP'"}'
if read -r peers; then
    echo "$peers" >> "$NOTES/peers$id"
    echo '{"say":"serving"}'
else
    echo over >> "$NOTES/over$id"
fi
"#;

/// What a host says that has no pools.
const NOTHING: &str = r#"echo '{"say":"pools","pools":[],"in_use":[],"unretired":[]}'"#;

struct Site {
    bench: Bench,
    listener: Option<Listener>,
}

/// What listens in the servers' place: lets in who knows the secret, and says yes to everything.
struct Listener {
    address: SocketAddr,
    over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Listener {
    fn new(home: PathBuf) -> Listener {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let over = Arc::new(AtomicBool::new(false));
        let ended = over.clone();
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if ended.load(SeqCst) {
                    break;
                }
                // A client that disconnects in the middle of it only checked whether a server listens.
                let _ = stream.and_then(|mut stream| answer(&mut stream, &home));
            }
        });
        Listener { address, over, thread: Some(thread) }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.over.store(true, SeqCst);
        let _ = TcpStream::connect(self.address);
        let _ = self.thread.take().expect("it runs").join();
    }
}

fn answer(stream: &mut TcpStream, home: &Path) -> std::io::Result<()> {
    let registry = pario_registry::Registry::open(home).expect("a registry");
    let entry = registry.get("scratch").expect("a partition");
    let secret = registry.secret(entry.id).expect("a secret");
    let mut bytes = [0; 4096];
    let mut handshake: Option<ServerHandshake> = None;
    loop {
        let count = stream.read(&mut bytes)?;
        if count == 0 {
            return Ok(());
        }
        let handshake = handshake.get_or_insert_with(|| {
            let prefix = Prefix::decode(bytes[..PREFIX].try_into().expect("so long")).expect("a greeting");
            let Ok(Greeting::Hello { hello, .. }) = prefix.greeting(&bytes[PREFIX..count]) else {
                panic!("no hello")
            };
            let (partition, server, secret) = (entry.id, hello.server, secret.clone());
            let handshake_config = HandshakeConfig {
                partition,
                server,
                servers: 2,
                epoch: hello.epoch,
                secret,
                encryption: true,
            };
            ServerHandshake::new(
                Arc::new(handshake_config),
                "the test".into(),
                None,
                fresh_nonce().expect("random"),
            )
        });
        match handshake.feed(&bytes[..count]) {
            HandshakeStep::More => {}
            HandshakeStep::Send(answer) => stream.write_all(&answer)?,
            HandshakeStep::Accepted(accepted) => {
                let (block, metadata) = (65536, ServerId(0));
                let epoch = entry.epoch;
                let welcome = Welcome { block, metadata, epoch, cache: 1, retired: [0; 16], ledger: None };
                stream.write_all(&accepted.welcome(welcome))?;
                let (mut sealer, opener) = accepted.ends();
                let (mut reader, mut decoder) = (RecordReader::new(opener), FrameDecoder::new());
                let same = Stream::Tcp(stream.try_clone()?);
                let head = loop {
                    match reader.read(&same, decoder.space())? {
                        0 => return Ok(()),
                        count => {
                            if let Some(head) = decoder.advance(count).expect("a request") {
                                break head;
                            }
                        }
                    }
                };
                let mut reply = Vec::new();
                let to = Envelope::new(accepted.hello().server, head.id);
                encode_reply(&mut reply, to, &Reply::Done, 0).expect("it is short");
                return stream.write_all(&sealer.records(&reply));
            }
            HandshakeStep::Refused { error, .. } => panic!("{error}"),
        }
    }
}

impl Site {
    fn new(name: &str) -> Site {
        let bench = Bench::new(&format!("partition-{name}"));
        bench.script("ssh", SSH);
        std::fs::create_dir(bench.path("notes")).expect("a directory");
        std::fs::write(bench.path("scratch.conf"), PARTITION).expect("written");
        let listener = Listener::new(bench.path("home"));
        Site { bench, listener: Some(listener) }
    }

    fn pario(&self, serve: &str, arguments: &[&str]) -> Command {
        let mut command = self.bench.pario(arguments);
        let tcp =
            self.listener.as_ref().map_or("127.0.0.1:1".into(), |listener| listener.address.to_string());
        command.env("PARIO_HOME", self.bench.path("home")).env("PARIO_SSH", self.bench.path("ssh"));
        command.env("NOTES", self.bench.path("notes")).env("TCP", tcp).env("SERVE", serve);
        command.env("PARIO_RUN", self.bench.path("run")).env_remove("SLURM_JOB_ID");
        command
    }

    fn run(&self, serve: &str, arguments: &[&str]) -> Output {
        self.pario(serve, arguments).output().expect("pario runs")
    }

    /// The lines that were noted.
    fn notes(&self, name: &str) -> Vec<String> {
        let notes = std::fs::read_to_string(self.bench.path("notes").join(name)).unwrap_or_default();
        notes.lines().map(str::to_owned).collect()
    }

    fn list(&self) -> String {
        let output = self.run("", &["list"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    }
}

fn good(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// The one line of an error.
fn bad(output: &Output, code: i32) -> String {
    let line = text(&output.stderr);
    assert_eq!((output.status.code(), line.lines().count()), (Some(code), 1), "{line}");
    line
}

#[test]
fn a_partition_goes_up_once() {
    let site = Site::new("up_once");
    assert_eq!(site.list(), "no partitions ('pario up FILE' creates one)\n");
    let first = good(&site.run(GOOD, &["up", "scratch.conf"]));
    assert!(first.starts_with("partition scratch is up\n"), "{first}");
    assert!(first.contains("server 1  203.0.113.2  process 77  127.0.0.1:"), "{first}");
    let row = site.list().lines().nth(1).expect("a row").split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(row, "scratch up 2 64K 256M 203.0.113.1");

    // What the server was told, and how.
    let command = site.notes("commands2");
    assert!(command[0].ends_with("bin/pario serve --part front"), "{command:?}");
    let start: serde_json::Value = serde_json::from_str(&site.notes("start2")[0]).expect("JSON");
    assert_eq!((&start["server"], &start["made"], &start["port"]), (&1.into(), &false.into(), &0.into()));
    assert_eq!(start["description"]["servers"][1], "203.0.113.2:/data");
    assert_eq!(start["secret"].as_str().map(str::len), Some(64));
    let peers: serde_json::Value = serde_json::from_str(&site.notes("peers1")[0]).expect("JSON");
    assert_eq!(
        (&peers["peers"][1]["unix"], peers["peers"].as_array().map(Vec::len)),
        (&"/run/s2".into(), Some(2))
    );

    // By name and by file, it is there already.
    for argument in ["scratch", "scratch.conf", "./scratch.conf"] {
        let again = good(&site.run(GOOD, &["up", argument]));
        assert!(again.starts_with("partition scratch is already up\n"), "{again}");
    }
    assert_eq!(site.notes("start1").len(), 1);
    let again = good(&site.run(GOOD, &["up", "scratch", "--set", "cache=1G"]));
    assert!(again.ends_with("changed settings count from the next start of all its servers on\n"), "{again}");

    // What is fixed is fixed, also while it is up.
    std::fs::write(site.bench.path("scratch.conf"), PARTITION.replace("64k", "1M")).expect("written");
    let error = bad(&site.run(GOOD, &["up", "./scratch.conf"]), 1);
    assert!(
        error.contains("created with stripe_size = 64K, which is fixed; asked for is stripe_size = 1M"),
        "{error}"
    );
}

#[test]
fn several_who_start_a_partition_start_it_once() {
    let mut site = Site::new("up_together");
    let children: Vec<_> = (0..4)
        .map(|_| {
            site.pario(GOOD, &["up", "scratch.conf"]).stdout(Stdio::piped()).spawn().expect("pario runs")
        })
        .collect();
    let outputs: Vec<_> = children.into_iter().map(|child| child.wait_with_output().expect("ends")).collect();
    let said: Vec<_> = outputs.iter().map(good).collect();
    assert_eq!(
        said.iter().filter(|text| text.starts_with("partition scratch is up\n")).count(),
        1,
        "{said:?}"
    );
    assert_eq!((site.notes("start1").len(), site.notes("start2").len()), (1, 1));

    // Their servers gone, the next one starts them again, with data to be found.
    site.listener = None;
    good(&site.run(GOOD, &["up", "scratch", "--set", "cache=1G"]));
    let start: serde_json::Value = serde_json::from_str(&site.notes("start1")[1]).expect("JSON");
    assert_eq!((&start["made"], &start["description"]["cache"]), (&true.into(), &(1u64 << 30).into()));
}

#[test]
fn if_one_server_fails_none_is_left() {
    let mut site = Site::new("up_fails");
    let fails = |second: &str| format!("if [ $id = 2 ]; then {second}; exit 3; fi; {GOOD}");
    for (second, words) in [
        (r#"echo '{"say":"failed","why":"/data is full"}'"#, "did not start: /data is full"),
        ("echo 'no route to host' >&2", "did not start: it ended (no route to host)"),
        ("true", "did not start: it ended (exit status: 3)"),
        (r#"echo '{"say":"serving"}'"#, "did not start: it is not the same version of pario"),
    ] {
        let error = bad(&site.run(&fails(second), &["up", "scratch.conf"]), 1);
        assert!(error.contains("pario: server 1 on 203.0.113.2 ") && error.contains(words), "{error}");
    }
    // The other one got no peers but the end, each time.
    assert_eq!((site.notes("over1").len(), site.notes("peers1").len()), (4, 0));
    assert!(site.list().contains("down"), "{}", site.list());
    let silent = fails("cat > /dev/null");
    let error = bad(&site.run(&silent, &["up", "scratch.conf", "--timeout", "1"]), 1);
    assert!(error.contains("server 1 on 203.0.113.2 did not start: no word from it"), "{error}");
    // Nothing is fixed before the partition was up once.
    std::fs::write(site.bench.path("scratch.conf"), PARTITION.replace("64k", "1M")).expect("written");
    // Otherwise the listener would be taken for servers that their supervisors have started again.
    site.listener = None;
    let late = GOOD.replace(r#"echo '{"say":"serving"}'"#, "true");
    let error = bad(&site.run(&late, &["up", "scratch.conf"]), 1);
    assert!(error.contains("did not start: it ended"), "{error}");
}

#[test]
fn a_launcher_that_is_not_there_is_named() {
    let site = Site::new("no_launcher");
    let output = site.pario(GOOD, &["up", "scratch.conf"]).env("PARIO_SSH", "no-such-ssh -v").output();
    let error = bad(&output.expect("pario runs"), 1);
    assert!(error.contains("cannot run no-such-ssh: No such file"), "{error}");
}

#[test]
fn a_server_is_down_when_its_host_says_so() {
    let mut site = Site::new("down");
    let error = bad(&site.run("", &["down", "scratch"]), 1);
    assert!(error.contains("no partition is called scratch"), "{error}");
    good(&site.run(GOOD, &["up", "scratch.conf"]));
    site.listener = None;
    // Nobody answers, and nobody can say why: that is not the same as being stopped.
    let output = site.run("", &["down", "scratch"]);
    let error = text(&output.stderr);
    assert!(output.status.code() == Some(1) && error.contains("its host cannot be asked"), "{error}");
    let in_use = r#"echo '{"say":"pools","pools":[],"in_use":["/data"],"unretired":[]}'"#;
    let output = site.run(in_use, &["down", "scratch"]);
    let error = text(&output.stderr);
    assert!(output.status.code() == Some(1) && error.contains("it is alive and does not stop"), "{error}");
    assert!(site.list().contains("scratch  not answering"), "{}", site.list());
    let task: serde_json::Value = serde_json::from_str(&site.notes("start1")[2]).expect("JSON");
    assert_eq!(task["order"]["directories"][0], "/data");
    // Given up, it is still looked after.
    let said = good(&site.run("", &["down", "scratch", "--force"]));
    assert_eq!(said.matches("it counts as stopped").count(), 2, "{said}");
    assert_eq!(site.run("", &["down", "scratch"]).status.code(), Some(1));
    let said = good(&site.run(NOTHING, &["down", "scratch"]));
    assert!(
        said.starts_with("partition scratch is down\n") && said.contains("did not run any more"),
        "{said}"
    );
    assert!(site.list().contains("scratch  down"), "{}", site.list());
    good(&site.run("", &["down", "scratch", "--forget"]));
    assert!(site.list().starts_with("no partitions"), "{}", site.list());
    for left in ["secrets", "locks"] {
        assert_eq!(
            std::fs::read_dir(site.bench.path("home").join(left)).expect("there").count(),
            0,
            "{left}"
        );
    }
}

#[test]
fn mistakes_name_the_file_and_its_line() {
    let site = Site::new("mistakes");
    std::fs::write(site.bench.path("bad.conf"), "ahpfs_server = n0:/d\nchache = 1G\n").expect("written");
    let error = bad(&site.run("", &["up", "bad.conf"]), 2);
    assert_eq!(error, "pario: bad.conf: line 2: no key \"chache\"; is cache meant?\n");
    assert!(bad(&site.run("", &["up", "none"]), 1).contains("no partition is called none"));
    assert!(bad(&site.run("", &["up", "./none"]), 2).contains("cannot read the partition file ./none"));
    assert!(bad(&site.run("", &["up", "scratch.conf", "--set", "cache"]), 2).contains("is not KEY=VALUE"));
    assert!(
        bad(&site.run("", &["up", "scratch.conf", "--set", "cache=1"]), 2).contains("cache = \"1\"; allowed")
    );
    assert!(site.list().starts_with("no partitions"));
}

#[test]
fn the_example_is_a_partition_file() {
    let site = Site::new("example");
    let example = good(&site.run("", &["up", "--example"]));
    std::fs::write(site.bench.path("example.toml"), example).expect("written");
    // Nothing is wrong with it but what is asked for here.
    let error = bad(&site.run("", &["up", "example.toml", "--set", "workers=none"]), 2);
    assert!(error.contains("workers = \"none\""), "{error}");
}

#[test]
fn a_part_of_a_server_that_is_told_nonsense_says_so() {
    let site = Site::new("nonsense");
    for (input, words) in [("nonsense\n", "no start"), ("{}\n", "no start"), ("", "")] {
        for part in ["front", "supervisor", "attached"] {
            let mut command = site.pario("", &["serve", "--part", part]);
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("pario runs");
            let _ = child.stdin.take().expect("piped").write_all(input.as_bytes());
            let output = child.wait_with_output().expect("ends");
            assert_eq!(output.status.code(), Some(1), "{part} {input:?}");
            let said = text(&output.stdout);
            assert!(said.contains(words) && said.is_empty() == words.is_empty(), "{part} {input:?}: {said}");
        }
    }
    assert!(!Path::new(&site.bench.path("home")).exists());
}
