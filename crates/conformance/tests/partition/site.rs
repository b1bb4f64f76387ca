//! A place with a partition of its own: its registry, its servers' directories, its processes.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pario::{OpenOptions, Options, Partition, Target};
use pario_conformance::{Scratch, TmpfsMount, pario, scratch};
use pario_registry::{Entry, Registry};
use pario_transport::Address;
use pario_types::ServerId;
use pario_wire::Secret;

use super::dice::Dice;
use super::eventually;
use super::processes::ProcessHandle;

/// Marks the processes of a site.
const MARK: &str = "PARIO_TEST_SITE";

const NAME: &str = "trial";

/// How long clients wait in trials: far longer than a server takes to come back.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// The shape of a partition.
#[derive(Clone, Debug)]
pub struct Shape {
    pub servers: u16,
    pub stripe: u64,
    pub block: u64,
    /// Of each server.
    pub cache: u64,
    /// More lines of the partition file.
    pub more: String,
}

impl Shape {
    pub fn new(servers: u16) -> Shape {
        Shape { servers, stripe: 64 << 10, block: 64 << 10, cache: 2 << 20, more: String::new() }
    }
}

/// A partition that is up until this value is dropped; the drop fails if something was left behind.
pub struct Site {
    /// Goes before the directory that it is in.
    mounts: Vec<TmpfsMount>,
    dir: Scratch,
    mark: String,
    shape: Shape,
    /// The prefix of commands, which runs them on their host.
    pub prefix: Vec<String>,
    /// The program that starts servers on other nodes.
    pub ssh: Option<PathBuf>,
}

impl Site {
    /// A site whose partition has never been up; its servers take clients by TCP, too. Server `i` keeps its data in [`Site::data`]`(i)`.
    pub fn new(mut shape: Shape) -> Site {
        if !shape.more.contains("listen") {
            shape.more += "\nlisten = 127.0.0.1\n";
        }
        let nodes = vec![String::new(); usize::from(shape.servers)];
        Site::on(shape, &nodes)
    }

    /// The same with each server on a node; "" is this host.
    pub fn on(shape: Shape, nodes: &[String]) -> Site {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mark = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let (mounts, prefix, ssh) = (Vec::new(), Vec::new(), None);
        let site = Site { mounts, dir: scratch(), mark, shape, prefix, ssh };
        let mut text = format!(
            "stripe_size = {}\nblock_size = {}\ncache = {}\n{}\n",
            site.shape.stripe, site.shape.block, site.shape.cache, site.shape.more
        );
        for (server, node) in (0..).zip(nodes) {
            let colon = if node.is_empty() { "" } else { ":" };
            text += &format!("server = {node}{colon}{}\n", site.data(server).display());
        }
        fs::write(site.file(), text).expect("a scratch directory takes new files");
        site
    }

    /// A site whose partition is up.
    pub fn up(shape: Shape) -> Site {
        let site = Site::new(shape);
        site.start();
        site
    }

    pub fn servers(&self) -> impl Iterator<Item = ServerId> + use<> {
        (0..self.shape.servers).map(ServerId)
    }

    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Where a server keeps its data.
    pub fn data(&self, server: u16) -> PathBuf {
        self.dir.join(format!("data{server}"))
    }

    /// Gives a server that was never up storage of this size (as in `8m`). `false`: this process may not, which
    /// it says.
    pub fn mount(&mut self, server: u16, size: &str) -> bool {
        let mount = TmpfsMount::tmpfs(&self.data(server), size);
        self.mounts.extend(mount);
        !self.mounts.is_empty()
    }

    /// Makes that storage read-only, or not any more. Nobody may use it.
    pub fn remount(&self, how: &str) {
        for mount in &self.mounts {
            let mut remount = Command::new("mount");
            let remounted = remount.args(["-o", &format!("remount,{how}")]).arg(mount.path()).status();
            assert!(remounted.is_ok_and(|status| status.success()), "a mounted file system can be remounted");
        }
    }

    /// The partition file.
    pub fn file(&self) -> PathBuf {
        self.dir.join(format!("{NAME}.conf"))
    }

    pub fn home(&self) -> PathBuf {
        self.dir.join("home")
    }

    /// `pario` with these arguments.
    pub fn pario(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(&self.prefix, &pario());
        command.args(arguments);
        command
    }

    /// A program, with the way to where it runs and the site's environment.
    pub fn command(&self, prefix: &[String], program: &Path) -> Command {
        let words = prefix.iter().map(OsStr::new).chain([program.as_os_str()]).collect::<Vec<_>>();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]);
        command.env("PARIO_HOME", self.home()).env(MARK, &self.mark).env_remove("SLURM_JOB_ID");
        command.envs(self.ssh.iter().map(|program| ("PARIO_SSH", program)));
        command.current_dir(self.dir.path()).stdin(Stdio::null());
        command
    }

    /// This test program, started again to execute one of its tests.
    pub fn again(&self, prefix: &[String], test: &str) -> Command {
        let mut command = self.command(prefix, &std::env::current_exe().expect("a program knows its path"));
        command.args(["--exact", test, "--nocapture"]);
        command
    }

    pub fn try_pario(&self, arguments: &[&str]) -> Output {
        self.pario(arguments).output().expect("pario runs")
    }

    /// The same, and it has to succeed.
    #[track_caller]
    pub fn succeed(&self, arguments: &[&str]) -> String {
        let output = self.try_pario(arguments);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "pario {arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// `pario up`.
    #[track_caller]
    pub fn start(&self) -> String {
        self.succeed(&["up", &self.file().to_string_lossy()])
    }

    /// `pario up`, with storage that takes so much longer for every block.
    #[track_caller]
    pub fn start_slow(&self, delay_us: u32) {
        let mut up = self.pario(&["up", &self.file().to_string_lossy()]);
        let output = up.env("PARIO_STORE_DELAY_US", delay_us.to_string()).output().expect("pario runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Writes a file of this length, and neither syncs nor closes it; returns its bytes.
    #[track_caller]
    pub fn write(&self, path: &str, len: usize) -> Vec<u8> {
        write(&self.client(), path, len)
    }

    /// Checks that a file has exactly these bytes.
    #[track_caller]
    pub fn expect_there(&self, path: &str, bytes: &[u8]) {
        let mut back = vec![0; bytes.len() + 1];
        let file = self.client().open(path, OpenOptions::new().read(true)).expect("it is there");
        assert_eq!(file.read_at(&mut back, 0).expect("it can be read"), bytes.len());
        assert!(back[..bytes.len()] == *bytes, "{path} is not what was written");
    }

    /// `pario down`, after which nothing is left.
    #[track_caller]
    pub fn stop(&self) {
        let entry = self.entry();
        self.succeed(&["down", NAME]);
        self.expect_nothing_left(&entry);
    }

    #[track_caller]
    fn expect_nothing_left(&self, entry: &Entry) {
        let left = self.left_in_the_end(entry);
        assert!(left.is_empty(), "left behind: {left:?}");
    }

    /// Processes and files that are still there after a while: the last process of a server ends right after it has answered.
    fn left_in_the_end(&self, entry: &Entry) -> Vec<String> {
        let mut left = Vec::new();
        let _ = eventually(Duration::from_secs(5), || {
            left = self.left(entry);
            left.is_empty()
        });
        left
    }

    /// Processes and files that only a running partition has.
    fn left(&self, entry: &Entry) -> Vec<String> {
        let processes = self.processes().into_iter();
        let mut left: Vec<_> =
            processes.map(|process| format!("{process:?} {}", process.command())).collect();
        let directory = run_directory(entry);
        if directory.exists() {
            left.push(directory.display().to_string());
        }
        left
    }

    /// Every process of this site.
    pub fn processes(&self) -> Vec<ProcessHandle> {
        ProcessHandle::with(MARK, &self.mark)
    }

    /// All server processes.
    pub fn server_processes(&self) -> Vec<ProcessHandle> {
        let is_server = |process: &ProcessHandle| process.command().ends_with("serve --part server");
        self.processes().into_iter().filter(is_server).collect()
    }

    /// The process that is this server now; none while there is none.
    pub fn process(&self, server: ServerId) -> Option<ProcessHandle> {
        let data = self.data(server.0);
        self.server_processes().into_iter().find(|process| process.has_open_below(&data))
    }

    /// Ends a server; whether there was one.
    pub fn kill(&self, server: ServerId) -> bool {
        let Some(process) = self.process(server) else { return false };
        process.kill();
        // Until then it might be taken for one that runs.
        while !process.is_gone() {
            std::thread::yield_now();
        }
        true
    }

    /// Ends all servers and supervisors, until there is none.
    pub fn kill_all(&self) {
        // Supervisors first; but one may have started another server meanwhile.
        while let processes @ [_, ..] = &self.processes()[..] {
            let is_server = |process: &ProcessHandle| process.command().ends_with("server");
            let (servers, others): (Vec<_>, Vec<_>) = processes.iter().copied().partition(is_server);
            let killed: Vec<ProcessHandle> = others.into_iter().chain(servers).collect();
            killed.iter().copied().for_each(ProcessHandle::kill);
            // A process that ends has no environment any more while its sockets and locks are still there.
            while !killed.iter().all(|process| process.is_gone()) {
                std::thread::yield_now();
            }
        }
    }

    pub fn entry(&self) -> Entry {
        self.registry().get(NAME).expect("the partition is known")
    }

    fn registry(&self) -> Registry {
        Registry::open(&self.home()).expect("a registry")
    }

    pub fn secret(&self) -> Secret {
        self.registry().secret(self.entry().id).expect("a partition has a secret")
    }

    /// A client of this host.
    pub fn client(&self) -> Partition {
        connect(&self.home(), Route::Local).expect("the partition is up")
    }

    /// A client that comes as from another host.
    pub fn far_client(&self) -> Partition {
        connect(&self.home(), Route::Far).expect("the partition is up")
    }

    /// Prints the last lines of each server's log when a test has failed.
    fn logs(&self) -> String {
        let files = fs::read_dir(self.home().join("logs")).into_iter().flatten().flatten();
        let log = |path: PathBuf| {
            // A test may have put something without end there.
            let is_file = fs::metadata(&path).is_ok_and(|metadata| metadata.is_file());
            let bytes = if is_file { fs::read(&path).unwrap_or_default() } else { Vec::new() };
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let lines: Vec<&str> = text.lines().collect();
            format!("--- {}\n{}\n", path.display(), lines[lines.len().saturating_sub(40)..].join("\n"))
        };
        files.map(|file| log(file.path())).collect()
    }
}

/// Writes a file of this length through a client, and neither syncs nor closes it; returns its bytes.
#[track_caller]
pub fn write(client: &Partition, path: &str, len: usize) -> Vec<u8> {
    let bytes = Dice::new(path.len() as u64).bytes(len);
    let mut options = OpenOptions::new();
    let file = client.open(path, options.read(true).write(true).create(true)).expect("a new file");
    file.write_at(&bytes, 0).expect("there is room");
    bytes
}

/// A running partition's directory in memory.
pub fn run_directory(entry: &Entry) -> PathBuf {
    let user = format!("pario-{}", pario_transport::own_user());
    pario_registry::run_base(&std::env::temp_dir()).join(user).join(entry.id.to_string())
}

/// How a client gets in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Through the socket of its host, which gives it the pool.
    Local,
    /// By TCP.
    Far,
    /// By TCP and this port, where something passes everything on.
    By(u16),
    /// Whatever there is.
    Any,
}

/// A client of the site whose registry this is.
pub fn connect(home: &Path, route: Route) -> pario::Result<Partition> {
    connect_within(home, route, DEADLINE)
}

/// One that waits for so long.
pub fn connect_within(home: &Path, route: Route, deadline: Duration) -> pario::Result<Partition> {
    connect_with(home, route, Options { deadline, flush_deadline: deadline * 2, ..Options::default() })
}

/// One with these options.
pub fn connect_with(home: &Path, route: Route, options: Options) -> pario::Result<Partition> {
    let home = home.to_owned();
    let resolve = move || {
        let registry = Registry::open(&home)?;
        let entry = registry.get(NAME)?;
        let secret = registry.secret(entry.id)?;
        let mut target = Target::of_entry(&entry, secret)?;
        for addresses in &mut target.servers {
            addresses.retain(|address| match address {
                Address::Unix(_) => matches!(route, Route::Local | Route::Any),
                Address::Tcp(..) => route != Route::Local,
            });
            if let Route::By(port) = route {
                *addresses = vec![Address::Tcp("127.0.0.1".into(), port)];
            }
        }
        Ok(target)
    };
    Partition::connect(resolve, options)
}

impl Drop for Site {
    fn drop(&mut self) {
        let Ok(entry) = self.registry().get(NAME) else { return };
        let down = self.try_pario(&["down", NAME, "--force", "--timeout", "20"]);
        let left = self.left_in_the_end(&entry);
        // Nothing stays, also after a failure.
        self.kill_all();
        let _ = fs::remove_dir_all(run_directory(&entry));
        if std::thread::panicking() {
            eprintln!("{}", self.logs());
            return;
        }
        let why = String::from_utf8_lossy(&down.stderr);
        assert!(down.status.success() && left.is_empty(), "pario down: {why}, left behind: {left:?}");
    }
}
