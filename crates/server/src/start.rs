//! From a configuration to a running server, and to its end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pario_cache::{Adopted, Geometry, LostBlocks, Pool, PoolIdentity};
use pario_store::{FaultyStore, FileStore, Store};
use pario_transport::{Address, Listener, SocketOptions};

use crate::config::Config;
use crate::core::Core;
use crate::ending::{Ender, Outcome};
use crate::error::{Error, Result};
use crate::leases::Past;
use crate::names::Names;
use crate::peers::FORWARDERS;
use crate::pool_record::{PoolRecord, note_retired_pool, unretired_pool};
use crate::pulse::Pulse;
use crate::status::{Counters, log};
use crate::sys;
use crate::tier::Tier;

/// Clients of this host that may have the pool mapped at a time.
const LEDGERS: u32 = 256;

/// How long a server that ends waits for threads that are in the middle of a call to another server.
const CALLS: Duration = Duration::from_secs(1);

/// A running server.
pub struct Server {
    core: Arc<Core>,
    threads: Vec<JoinHandle<()>>,
    /// Threads that talk to other servers, and may be waiting for one.
    callers: Vec<JoinHandle<()>>,
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
        // Before the store, which takes a part of the limit.
        sys::raise_descriptor_limit();
        let store = FileStore::open(&config.directory, config.block as usize, store_identity(&config))?;
        let store: Box<dyn Store> = match config.store_delay.is_zero() {
            true => Box::new(store),
            false => Box::new(FaultyStore::slow(store, config.store_delay)),
        };
        let Found { tier, adopted, past, loss } = tier(&config, store)?;
        let mut record = PoolRecord::read(&config.directory);
        let unit = u64::from(tier.pool.geometry().block);
        let retired = record.retired();
        let past = past.or_else(|| Past::of(&config.directory, retired[0], unit)).unwrap_or_default();
        Past::remove(&config.directory);
        tier.pool.set_watermarks(config.high_water, config.low_water);
        let names = match config.server == config.metadata {
            true => Some(Names::open(&config, tier.store.highest_file_id())?),
            false => None,
        };
        let socket = config.run_directory.join("socket");
        let unix = Address::Unix(socket.clone());
        let tuning = SocketOptions::default();
        let mut listeners = vec![Listener::bind(&unix, tuning)?];
        let mut tcp = None;
        if let Some((host, port)) = config.listen {
            let listener = Listener::bind(&Address::Tcp(host.to_string(), port), tuning)?;
            tcp = Some(listener.address().clone());
            listeners.push(listener);
        }
        // Before anybody can write to the pool. If the medium is read-only, nothing that is written can be stored anyway.
        if let Err(error) = record.note_serving(&config.directory, tier.pool.mark()) {
            log(&format!("cannot note which cache is used in {}: {error}", config.directory.display()));
        }
        let workers = config.workers.max(1);
        let core = Arc::new(Core::new(config, tier, names, listeners, retired, past)?);
        loss.into_iter().for_each(|loss| core.counters.remember(loss));
        let mut server = Server {
            core,
            threads: vec![],
            callers: vec![],
            socket,
            started: Started { unix, tcp, adopted },
        };
        for index in 0..workers {
            server.spawn(format!("worker {index}"), |core| core.work())?;
        }
        for index in 0..FORWARDERS {
            server.spawn_caller(format!("forwarder {index}"), |core| core.peers.run(core))?;
        }
        server.spawn("flusher".into(), |core| {
            // Who finds the pool full stores by itself, and does not wait for this.
            sys::step_back();
            core.tier.run_flusher(&core.stop, &core.counters, || core.config.panic_if_told("flusher"));
        })?;
        server.spawn("pages".into(), |core| {
            sys::step_back();
            core.tier.run_pages(&core.stop);
        })?;
        server.spawn("prefetcher".into(), |core| core.tier.run_prefetcher(&core.stop, &core.counters))?;
        if server.core.names.is_some() {
            server.spawn_caller("reaper".into(), |core| {
                core.names.as_ref().expect("looked above").reap(core);
            })?;
        }
        server.spawn("closer".into(), Core::run_closer)?;
        Ok(server)
    }

    /// Where it is.
    pub fn started(&self) -> &Started {
        &self.started
    }

    /// Tells it where the partition's servers are, in their order.
    pub fn set_peers(&self, addresses: Vec<Vec<Address>>) {
        let is_here = |at: &&Vec<Address>| at.iter().any(|address| matches!(address, Address::Unix(_)));
        let here = addresses.iter().filter(is_here).count() as u64;
        self.core.peers.set_addresses(addresses);
        self.core.tier.share_medium(here, &self.core.counters);
    }

    /// What another thread, such as one that hears of signals, ends the server by.
    pub fn ender(&self) -> Ender {
        Ender(Arc::clone(&self.core.ending))
    }

    /// What shows whether the server's workers still do their work.
    pub fn pulse(&self) -> Pulse {
        self.core.pulse.clone()
    }

    /// Waits until somebody ends the server, and cleans up. If not everything could be stored, this says so, and the pool
    /// stays.
    pub fn wait(self) -> Result<()> {
        let Server { core, threads, callers, socket, .. } = self;
        threads.into_iter().for_each(join);
        // What another server is slow to answer must not keep this one from ending, and changes nothing here.
        let until = Instant::now() + CALLS;
        for caller in callers {
            while !caller.is_finished() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
            if caller.is_finished() {
                join(caller);
            }
        }
        // Nothing is lost if this fails; the next start removes it.
        let _ = std::fs::remove_file(socket);
        match core.ending.outcome() {
            Outcome::Drained => {
                core.names.as_ref().map_or(Ok(()), Names::close)?;
                core.leases.bequeath(&core.config.directory);
                discard(core.tier.pool.clone(), &core.config.directory)?;
                Past::remove(&core.config.run_directory);
                Ok(())
            }
            Outcome::Failed(failure) => Err(Error::Unsaved(failure, core.config.run_directory.join("pool"))),
            Outcome::Stopped => Ok(()),
        }
    }

    /// Everything to storage, then the end: what a signal does.
    pub fn shut_down(self) -> Result<()> {
        self.ender().end();
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
        let thread = thread(name, self.core.clone(), life)?;
        self.threads.push(thread);
        Ok(())
    }

    fn spawn_caller(&mut self, name: String, life: impl FnOnce(&Core) + Send + 'static) -> Result<()> {
        let thread = thread(name, self.core.clone(), life)?;
        self.callers.push(thread);
        Ok(())
    }
}

fn thread(
    name: String,
    core: Arc<Core>,
    life: impl FnOnce(&Core) + Send + 'static,
) -> Result<JoinHandle<()>> {
    let guarded = move || fail_as_a_process(move || life(&core));
    let spawned = std::thread::Builder::new().name(name).spawn(guarded);
    spawned.map_err(|e| Error::System("starting a thread", e))
}

/// What a thread of a server's process does. If it panics, the whole process ends: with fewer threads it would only look
/// alive. A successor adopts the pool.
pub fn fail_as_a_process(life: impl FnOnce()) {
    // Nobody sees what the panic leaves behind.
    if catch_unwind(AssertUnwindSafe(life)).is_err() {
        log("a thread failed, and so the server ends");
        std::process::abort();
    }
}

fn join(thread: JoinHandle<()>) {
    thread.join().expect("a thread that panics ends the process");
}

/// The pool over its store, and what was found of a predecessor's.
struct Found {
    tier: Tier,
    adopted: Option<Adopted>,
    /// Who had leased what in it.
    past: Option<Past>,
    /// What of it is lost, in words.
    loss: Option<String>,
}

/// The pool over its store: a predecessor's if it left one that can be used, else a new one. One of another size is emptied into
/// the store first; so is one of which it is not known who had leased what, because clients know their way around in it who may
/// have lost their leases, and one whose clients cannot be told alive from dead.
fn tier(config: &Config, store: Box<dyn Store>) -> Result<Found> {
    let identity = PoolIdentity { partition: config.partition, server: config.server };
    let path = config.run_directory.join("pool");
    let geometry = Geometry { block: config.block, slots: config.slots(), ledgers: LEDGERS };
    let (mut store, mut adopted, mut past, mut loss) = (store, None, None, None);
    if path.try_exists().map_err(|e| Error::System("looking for a predecessor's cache", e))? {
        match Pool::adopt(&path, identity) {
            Ok((pool, found)) => {
                adopted = Some(found);
                let same = pool.geometry() == geometry && !found.foreign && found.lost.is_none();
                past = Past::of(&config.run_directory, pool.mark(), config.block.into());
                let tier = Tier::new(pool, store, &config.directory);
                tier.resolve_interrupted_truncations();
                if same && past.is_some() {
                    return Ok(Found { tier, adopted, past, loss });
                }
                tier.retire(&Counters::new())?;
                match found.lost {
                    None => discard(tier.pool, &config.directory)?,
                    Some(lost) => {
                        // Who wrote to it must not believe that all of it is stored.
                        tier.pool.discard()?;
                        (past, loss) = (None, Some(cut_short(lost)));
                    }
                }
                store = tier.store;
            }
            Err(useless @ (pario_cache::Error::OtherBoot(_) | pario_cache::Error::Emptied(_))) => {
                std::fs::remove_file(&path).map_err(|e| Error::System("removing a useless cache", e))?;
                loss = Some(format!("{useless}: what was written to it and not synced is lost"));
            }
            Err(e) => return Err(e.into()),
        }
    }
    if loss.is_none() && adopted.is_none() && unretired_pool(&config.directory).is_some() {
        loss = Some(format!(
            "the cache of the last server is gone from {}: what was written to it and not synced may be lost",
            config.run_directory.display()
        ));
    }
    let tier = Tier::new(Pool::create(&path, geometry, identity)?, store, &config.directory);
    Ok(Found { tier, adopted, past, loss })
}

fn cut_short(LostBlocks { kept, dirty }: LostBlocks) -> String {
    format!(
        "another program cut the cache's file to {kept} bytes: what lay beyond and was not synced is lost, {dirty} blocks as \
         far as is known; programs that wrote it hear of that when they sync"
    )
}

/// Removes a pool of which everything is stored, and notes that it was so.
fn discard(pool: Pool, directory: &Path) -> Result<()> {
    let noted = note_retired_pool(directory, pool.mark());
    noted.map_err(|e| Error::System("noting the end", e))?;
    Ok(pool.discard()?)
}

fn store_identity(config: &Config) -> pario_store::StoreIdentity {
    pario_store::StoreIdentity { partition: config.partition, server: config.server }
}
