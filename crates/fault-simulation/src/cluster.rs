//! The servers of a history: started, watched and started again.

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use pario_client::Target;
use pario_runtime::fs;
use pario_runtime::simulation::process::{self, HostId, SimulatedPid};
use pario_runtime::simulation::scheduler;
use pario_server::{Config, PoolConfig, Server, ServerFaults, ShutdownHandle, ViewCacheConfig};
use pario_transport::Address;
use pario_types::{AccessDefaults, Epoch, PartitionId, ServerId};
use pario_wire::Secret;

use crate::client::Resolver;
use crate::managed::Managed;
use crate::plan::{BLOCK, Plan};

const PARTITION: PartitionId = PartitionId(7);

/// The first port of servers.
const PORT: u16 = 7000;

/// How long a server may take to start.
const START: Duration = Duration::from_secs(60);

/// The pause before a server that did not start is started again; it doubles each time.
const FIRST_PAUSE: Duration = Duration::from_millis(5);

/// A server as the test driver sees it.
#[derive(Clone, Default)]
struct Running {
    process: Option<SimulatedPid>,
    shutdown: Option<ShutdownHandle>,
    /// Whether clients can connect.
    is_up: bool,
    /// Why it ended by itself.
    failure: Option<String>,
    /// How often it did not start, one time after the other, and when it may be started again.
    failed_starts: u32,
    not_before: u64,
}

impl Running {
    /// A server that has ended.
    fn end(&mut self, failure: Option<String>) {
        let (failed_starts, not_before) = match (self.is_up, &failure) {
            (false, Some(_)) => {
                let pause = FIRST_PAUSE * 2u32.pow(self.failed_starts.min(8));
                (self.failed_starts + 1, scheduler::now() + pause.as_nanos() as u64)
            }
            _ => (self.failed_starts, self.not_before),
        };
        *self = Running { failure, failed_starts, not_before, ..Running::default() };
    }
}

/// All servers.
pub struct Cluster {
    plan: Plan,
    running: Rc<RefCell<Vec<Running>>>,
    /// Commands and supervisors start and end the servers.
    pub managed: Option<Managed>,
}

/// The host of a server or client.
pub fn host_of(index: usize, plan: &Plan) -> HostId {
    HostId(1 + index as u32 % plan.hosts)
}

impl Cluster {
    pub fn new(plan: &Plan) -> Cluster {
        let managed = plan.managed.then(|| Managed::new(plan));
        let running = Rc::new(RefCell::new(vec![Running::default(); usize::from(plan.servers)]));
        Cluster { plan: plan.clone(), running, managed }
    }

    /// Addresses as a process of a host sees them.
    fn addresses(&self, host: HostId) -> Vec<Vec<Address>> {
        let address = |server: u16| {
            let there = host_of(server.into(), &self.plan);
            let tcp = Address::Tcp(format!("10.0.0.{}", there.0), PORT + server);
            let unix = Address::Unix(self.run_directory(server).join("socket"));
            if there == host { vec![unix, tcp] } else { vec![tcp] }
        };
        (0..self.plan.servers).map(address).collect()
    }

    fn run_directory(&self, server: u16) -> PathBuf {
        PathBuf::from(format!("/dev/shm/pario/{server}"))
    }

    fn data_directory(&self, server: u16) -> PathBuf {
        PathBuf::from(format!("/disk/{server}"))
    }

    /// The partition as clients of a host find it.
    pub fn resolver(&self, host: HostId) -> Resolver {
        if self.managed.is_some() {
            return Managed::resolver();
        }
        let target = self.target(host);
        Arc::new(move || Ok(target.clone()))
    }

    fn target(&self, host: HostId) -> Target {
        Target {
            name: "simulated".into(),
            partition: PARTITION,
            secret: Secret::new([9; 32]),
            servers: self.addresses(host),
            epoch: Epoch(0),
            metadata: ServerId(0),
            access: AccessDefaults { tier1: self.plan.tier1, ..AccessDefaults::default() },
        }
    }

    fn config(&self, server: u16) -> Config {
        let plan = &self.plan;
        let directory = self.data_directory(server);
        let host = host_of(server.into(), plan);
        let address = IpAddr::V4(Ipv4Addr::new(10, 0, 0, host.0 as u8));
        Config {
            partition: PARTITION,
            server: ServerId(server),
            servers: plan.servers,
            epoch: Epoch(0),
            metadata: ServerId(0),
            secret: Secret::new([9; 32]),
            encryption: false,
            made: false,
            directory,
            run_directory: self.run_directory(server),
            listen: (plan.hosts > 1).then_some((address, PORT + server)),
            stripe: plan.stripe,
            pool: PoolConfig {
                block: BLOCK,
                bytes: plan.slots * u64::from(BLOCK),
                high_water: (plan.slots / 2) as u32,
                low_water: (plan.slots / 4) as u32,
            },
            views: ViewCacheConfig { most: 16, bytes: 1 << 16 },
            workers: plan.workers,
            fair: true,
            lease: Duration::from_secs(1),
            grace: Duration::from_secs(2),
            deadline: Duration::from_secs(4),
            faults: ServerFaults::default(),
        }
    }

    /// Sees to it that servers that do not run are started soon.
    pub fn tend(&self) {
        match &self.managed {
            Some(managed) => managed.tend(),
            None => (0..self.plan.servers).for_each(|server| self.start(server)),
        }
    }

    /// Keeps all servers running for some time.
    pub fn supervise(&self, time: Duration) -> Result<(), String> {
        if self.managed.is_some() {
            scheduler::sleep(time);
            return self.bring_up();
        }
        let until = scheduler::now() + time.as_nanos() as u64;
        while scheduler::now() < until {
            self.bring_up()?;
            scheduler::sleep(Duration::from_secs(1));
        }
        self.bring_up()
    }

    /// Starts a server that does not run.
    fn start(&self, server: u16) {
        let index = usize::from(server);
        if self.process(index).is_some() || self.running.borrow()[index].not_before > scheduler::now() {
            return;
        }
        let host = host_of(index, &self.plan);
        let (mut config, addresses, running) =
            (self.config(server), self.addresses(host), Rc::clone(&self.running));
        let main = move || {
            for path in [&config.directory, &config.run_directory] {
                fs::create_dir_all(path).expect("a directory of its own");
            }
            config.made = matches!(fs::exists(config.directory.join("format")), Ok(true));
            let outcome = Server::start(config).and_then(|server| {
                server.set_peers(addresses);
                {
                    let mut running = running.borrow_mut();
                    (running[index].shutdown, running[index].is_up) = (Some(server.shutdown_handle()), true);
                    running[index].failed_starts = 0;
                }
                scheduler::log("the server is up");
                server.wait()
            });
            let failure = outcome.err().map(|error| error.to_string());
            scheduler::log(format!("the server ended: {}", failure.as_deref().unwrap_or("in order")));
            running.borrow_mut()[index].end(failure);
        };
        let process = process::start_process(host, &format!("server {server}"), main);
        self.running.borrow_mut()[index].process = Some(process);
    }

    /// The process of a server, if it runs.
    pub fn process(&self, index: usize) -> Option<SimulatedPid> {
        let process = self.running.borrow()[index].process?;
        if process::has_threads(process) {
            return Some(process);
        }
        let mut running = self.running.borrow_mut();
        if running[index].process.is_some() {
            running[index].end(None);
        }
        None
    }

    /// Tells a server to store everything and end, as SIGTERM does.
    pub fn terminate(&self, index: usize) {
        let shutdown = self.running.borrow()[index].shutdown.clone();
        if let Some(shutdown) = shutdown {
            shutdown.shut_down();
        }
    }

    /// Starts all servers and waits until they serve.
    pub fn bring_up(&self) -> Result<(), String> {
        if let Some(managed) = &self.managed {
            return managed.bring_up();
        }
        let until = scheduler::now() + START.as_nanos() as u64;
        loop {
            (0..self.plan.servers).for_each(|server| self.start(server));
            let is_up = |index: usize| self.process(index).is_some() && self.running.borrow()[index].is_up;
            if (0..usize::from(self.plan.servers)).all(is_up) {
                return Ok(());
            }
            if scheduler::now() > until {
                let failures =
                    self.running.borrow().iter().map(|one| one.failure.clone()).collect::<Vec<_>>();
                return Err(format!("servers do not start: {failures:?}"));
            }
            scheduler::sleep(Duration::from_millis(5));
        }
    }
}
