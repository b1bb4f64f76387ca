//! Several processes on one registry, and one that is killed while it changes it. Each process is the test program again, which
//! executes the test that started it; the variable [`HOME`] tells the test that it is the child.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pario_registry::{Description, Registry};

const HOME: &str = "PARIO_TEST_REGISTRY";
const ROUNDS: u64 = 15;

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("registry-{name}"));
        let _ = std::fs::remove_dir_all(&dir);
        Scratch(dir)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn description(name: &str) -> Description {
    Description::parse("servers = ['/d']", Some(name)).expect("sound")
}

/// Starts this program again as the child of that test.
fn start(test: &str, home: &Path) -> Child {
    let own = std::env::current_exe().expect("a program");
    let mut command = Command::new(own);
    command.args(["--exact", test]).env(HOME, home).stdout(Stdio::null());
    command.spawn().expect("started")
}

/// The registry of the parent, in a child.
fn registry_of_child() -> Option<Registry> {
    let home = std::env::var_os(HOME)?;
    Some(Registry::open(Path::new(&home)).expect("opened"))
}

fn create_and_change(registry: &Registry) {
    for round in 0..ROUNDS {
        let name = format!("p{}-{round}", std::process::id());
        registry.create(&description(&name), "here").expect("created");
        registry.update("shared", |_| ()).expect("changed");
    }
}

fn change_until_killed(registry: &Registry) -> ! {
    loop {
        registry.update("shared", |_| ()).expect("changed");
    }
}

#[test]
fn concurrent_processes_lose_no_change() {
    if let Some(registry) = registry_of_child() {
        return create_and_change(&registry);
    }
    let scratch = Scratch::new("processes");
    let registry = Registry::open(&scratch.0).expect("opened");
    registry.create(&description("shared"), "here").expect("created");
    let children: Vec<_> = (0..3).map(|_| start("concurrent_processes_lose_no_change", &scratch.0)).collect();
    for mut child in children {
        assert!(child.wait().expect("ended").success());
    }
    assert_eq!(registry.list().expect("read").len() as u64, 3 * ROUNDS + 1);
    assert_eq!(registry.get("shared").expect("there").generation, 3 * ROUNDS);
}

#[test]
fn a_killed_process_leaves_a_sound_registry_and_no_lock() {
    if let Some(registry) = registry_of_child() {
        change_until_killed(&registry);
    }
    let scratch = Scratch::new("killed");
    let registry = Registry::open(&scratch.0).expect("opened");
    registry.create(&description("shared"), "here").expect("created");
    for _ in 0..8 {
        let before = registry.get("shared").expect("there").generation;
        let mut child = start("a_killed_process_leaves_a_sound_registry_and_no_lock", &scratch.0);
        let begun = Instant::now();
        while registry.get("shared").expect("readable at any time").generation < before + 3 {
            assert!(begun.elapsed() < Duration::from_secs(60), "the process does nothing");
        }
        child.kill().expect("killed");
        child.wait().expect("ended");
        let found = registry.get("shared").expect("whole").generation;
        let after = registry.update("shared", |_| ()).expect("not locked").generation;
        assert_eq!(after, found + 1);
    }
}
