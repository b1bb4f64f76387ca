//! From a configuration to a running server, and to its end.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use pario_cache::{Adopted, Geometry, Identity, Pool};
use pario_store::{Faulty, FileStore, Store};
use pario_transport::{Address, Listener, Tuning};

use crate::config::Config;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::leases::Past;
use crate::names::Names;
use crate::peers::FORWARDERS;
use crate::status::Counters;
use crate::sys;
use crate::tier::Tier;

/// Clients of this host that may have the pool mapped at a time.
const LEDGERS: u32 = 256;

/// The number of the last pool of which everything was stored, for clients that wrote to it.
const RETIRED: &str = "retired";

/// A running server.
pub struct Server {
    core: Arc<Core>,
    threads: Vec<JoinHandle<()>>,
    socket: PathBuf,
    started: Started,
}

/// What a starter wants to know.
#[derive(Clone, Debug)]
pub struct Started {
    /// The door for this host.
    pub unix: Address,
    /// The door for other hosts.
    pub tcp: Option<Address>,
    /// What was found in the pool of a predecessor.
    pub adopted: Option<Adopted>,
}

impl Server {
    /// Starts all threads; clients can connect when this returns.
    pub fn start(config: Config) -> Result<Server> {
        let store = FileStore::open(&config.directory, config.block as usize, store_identity(&config))?;
        let store: Box<dyn Store> = match config.store_delay.is_zero() {
            true => Box::new(store),
            false => Box::new(Faulty::slow(store, config.store_delay)),
        };
        let (tier, adopted, past) = tier(&config, store)?;
        let before = read_retired(&config.directory);
        let unit = u64::from(tier.pool.geometry().block);
        let past = past.or_else(|| Past::of(&config.directory, before, unit)).unwrap_or_default();
        Past::remove(&config.directory);
        tier.pool.set_watermarks(config.high_water, config.low_water);
        let names = match config.server == config.metadata {
            true => Some(Names::open(&config)?),
            false => None,
        };
        let socket = config.run_directory.join("socket");
        let unix = Address::Unix(socket.clone());
        let tuning = Tuning::default();
        let mut listeners = vec![Listener::bind(&unix, tuning)?];
        let mut tcp = None;
        if let Some((host, port)) = config.listen {
            let listener = Listener::bind(&Address::Tcp(host.to_string(), port), tuning)?;
            tcp = Some(listener.address().clone());
            listeners.push(listener);
        }
        let workers = config.workers.max(1);
        let core = Arc::new(Core::new(config, tier, names, listeners, before, past)?);
        let mut server =
            Server { core, threads: Vec::new(), socket, started: Started { unix, tcp, adopted } };
        for index in 0..workers {
            server.spawn(format!("worker {index}"), |core| core.work())?;
        }
        for index in 0..FORWARDERS {
            server.spawn(format!("forwarder {index}"), |core| core.peers.run(core))?;
        }
        server.spawn("flusher".into(), |core| {
            // Who finds the pool full stores by itself, and does not wait for this.
            sys::step_back();
            core.tier.run_flusher(&core.stop, &core.counters);
        })?;
        server.spawn("pages".into(), |core| {
            sys::step_back();
            core.tier.run_pages(&core.stop);
        })?;
        server.spawn("prefetcher".into(), |core| core.tier.run_prefetcher(&core.stop, &core.counters))?;
        if server.core.names.is_some() {
            server.spawn("reaper".into(), |core| {
                core.names.as_ref().expect("looked above").reap(core);
            })?;
        }
        Ok(server)
    }

    /// Where it is.
    pub fn started(&self) -> &Started {
        &self.started
    }

    /// Tells it where the partition's servers are, in their order.
    pub fn set_peers(&self, addresses: Vec<Vec<Address>>) {
        self.core.peers.set_addresses(addresses);
    }

    /// Waits until somebody shuts the server down, and cleans up.
    pub fn wait(mut self) -> Result<()> {
        for thread in self.threads.drain(..) {
            // A panic was printed where it happened; the other threads end in order.
            let _ = thread.join();
        }
        // Nothing is lost if this fails; the next start removes it.
        let _ = std::fs::remove_file(&self.socket);
        let finished = self.core.is_ending();
        match Arc::into_inner(self.core) {
            Some(core) if finished => {
                core.leases.bequeath(&core.config.directory);
                discard(core.tier.pool, &core.config.directory)?;
                Past::remove(&core.config.run_directory);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Everything to storage, then the end: what a `Shutdown` request does.
    pub fn shut_down(self) -> Result<()> {
        self.core.finish()?;
        self.core.ring();
        self.wait()
    }

    /// Ends without writing anything to storage, as a kill does, but for the process going on.
    #[doc(hidden)]
    pub fn abandon(self) -> Result<()> {
        self.core.ring();
        self.wait()
    }

    /// No worker begins anything as long as what this gives is held.
    #[doc(hidden)]
    pub fn hold(&self) -> impl Drop + '_ {
        self.core.hold()
    }

    fn spawn(&mut self, name: String, life: impl FnOnce(&Core) + Send + 'static) -> Result<()> {
        let core = self.core.clone();
        let thread = std::thread::Builder::new().name(name).spawn(move || life(&core));
        self.threads.push(thread.map_err(|e| Error::System("starting a thread", e))?);
        Ok(())
    }
}

/// The pool over its store: a predecessor's if it left one, with who had leased what in it, else a new one. One of another
/// size is emptied into the store first; and one of which that is not known, because clients know their way around in it who
/// may have lost their leases.
fn tier(config: &Config, store: Box<dyn Store>) -> Result<(Tier, Option<Adopted>, Option<Past>)> {
    let identity = Identity { partition: config.partition, server: config.server };
    let path = config.run_directory.join("pool");
    let geometry = Geometry { block: config.block, slots: config.slots(), ledgers: LEDGERS };
    let (mut store, mut adopted, mut last) = (store, None, None);
    if path.exists() {
        let (pool, found) = Pool::adopt(&path, identity)?;
        adopted = Some(found);
        let same = pool.geometry() == geometry;
        let past = Past::of(&config.run_directory, pool.mark(), config.block.into());
        let tier = Tier::new(pool, store);
        if same && past.is_some() {
            return Ok((tier, adopted, past));
        }
        tier.retire(&Counters::new())?;
        discard(tier.pool, &config.directory)?;
        (store, last) = (tier.store, past);
    }
    Ok((Tier::new(Pool::create(&path, geometry, identity)?, store), adopted, last))
}

/// Removes a pool of which everything is stored, and notes that it was so.
fn discard(pool: Pool, directory: &Path) -> Result<()> {
    let (file, fresh) = (directory.join(RETIRED), directory.join("retired.new"));
    let noted = std::fs::write(&fresh, format!("{:016x}\n", pool.mark()));
    noted.and_then(|()| std::fs::rename(&fresh, &file)).map_err(|e| Error::System("noting the end", e))?;
    Ok(pool.discard()?)
}

/// The last pool that was removed so; 0 if there was none.
fn read_retired(directory: &Path) -> u64 {
    let text = std::fs::read_to_string(directory.join(RETIRED)).unwrap_or_default();
    u64::from_str_radix(text.trim(), 16).unwrap_or(0)
}

fn store_identity(config: &Config) -> pario_store::Identity {
    pario_store::Identity { partition: config.partition, server: config.server }
}
