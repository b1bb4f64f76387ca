//! A running server, from its configuration to its end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pario_cache::{Adopted, Geometry, LostBlocks, Pool, PoolIdentity};
use pario_runtime::fs;
use pario_runtime::thread::JoinHandle;
use pario_runtime::time::Instant;
use pario_store::{FaultyStore, FileStore, Store};
use pario_transport::{Address, Listener, SocketOptions};
use pario_wire::message::ServerSet;

use crate::background::forwarders::FORWARDERS;
use crate::background::shutdown::{Outcome, ShutdownHandle};
use crate::config::Config;
use crate::core::Core;
use crate::counters::{Counters, log};
use crate::error::{Error, Result};
use crate::event_loop::worker_probe::WorkerProbe;
use crate::leases::PreviousLeases;
use crate::locks::memory_losses::MemoryLosses;
use crate::metadata::MetadataService;
use crate::pool::PoolTier;
use crate::pool::pool_record::{PoolRecord, note_retired_pool, unretired_pool};
use crate::sys;

/// The largest number of clients of this host that have the pool mapped.
const LEDGERS: u32 = 256;

/// How long a server that ends waits for threads that call another server.
const CALL_TIMEOUT: Duration = Duration::from_secs(1);

/// A running server.
pub struct Server {
    core: Arc<Core>,
    threads: Vec<JoinHandle<()>>,
    /// Threads that call other servers, and may be waiting for one.
    callers: Vec<JoinHandle<()>>,
    socket: PathBuf,
    started: Started,
}

/// The addresses of a started server, and what it found of its predecessor.
#[derive(Clone, Debug)]
pub struct Started {
    /// The address for clients of this host.
    pub unix: Address,
    /// The address for other hosts.
    pub tcp: Option<Address>,
    /// What the server found in the pool of its predecessor.
    pub adopted: Option<Adopted>,
}

impl Server {
    /// Starts all threads; clients can connect when this returns.
    pub fn start(config: Config) -> Result<Server> {
        // Before the store, which uses a part of the limit.
        sys::raise_descriptor_limit();
        let store = FileStore::open(&config.directory, config.pool.block as usize, store_identity(&config))?;
        let store: Box<dyn Store> = if config.faults.store_delay.is_zero() {
            Box::new(store)
        } else {
            Box::new(FaultyStore::slow(store, config.faults.store_delay))
        };
        let OpenedPool { tier, adopted, previous, loss } = open_pool(&config, store)?;
        let mut record = PoolRecord::read(&config.directory);
        let unit = u64::from(tier.pool.geometry().block);
        let retired = record.retired();
        let previous =
            previous.or_else(|| PreviousLeases::of(&config.directory, retired[0], unit)).unwrap_or_default();
        PreviousLeases::remove(&config.directory);
        tier.pool.set_watermarks(config.pool.high_water, config.pool.low_water);
        let is_metadata = config.server == config.metadata;
        let highest = tier.store.highest_file_id();
        let metadata = is_metadata.then(|| MetadataService::open(&config, highest)).transpose()?;
        let socket = config.run_directory.join("socket");
        let unix = Address::Unix(socket.clone());
        let listeners = bind(&config, &unix)?;
        let tcp = listeners.get(1).map(|listener| listener.address().clone());
        // Before clients can write to the pool. On a read-only medium nothing can be stored anyway.
        let losses = note_pool(&config.directory, &mut record, tier.pool.mark(), loss.is_some());
        let core = Arc::new(Core::new(config, tier, metadata, listeners, retired, previous, losses)?);
        #[cfg(pario_simulation)]
        crate::invariants::watch_server(&core);
        loss.into_iter().for_each(|loss| core.counters.record_error(loss));
        let mut server = Server {
            core,
            threads: vec![],
            callers: vec![],
            socket,
            started: Started { unix, tcp, adopted },
        };
        server.spawn_threads()?;
        Ok(server)
    }

    fn spawn_threads(&mut self) -> Result<()> {
        for index in 0..self.core.config.workers.max(1) {
            self.spawn(format!("worker {index}"), Core::run_worker)?;
        }
        for index in 0..FORWARDERS {
            self.spawn_caller(format!("forwarder {index}"), |core| core.peers.run_forwarder(core))?;
        }
        self.spawn("flusher".into(), |core| {
            // A request that finds the pool full stores blocks itself and does not wait for the flusher.
            sys::lower_priority();
            core.tier.run_flusher(&core.stop, &core.counters, || core.config.panic_if_requested("flusher"));
        })?;
        self.spawn("pages".into(), |core| {
            sys::lower_priority();
            core.tier.run_page_preparer(&core.stop);
        })?;
        self.spawn("prefetcher".into(), |core| core.tier.run_prefetcher(&core.stop, &core.counters))?;
        if self.core.metadata.is_some() {
            self.spawn_caller("reaper".into(), |core| {
                core.metadata.as_ref().expect("checked above").run_reaper(core);
            })?;
        }
        self.spawn("closer".into(), Core::run_closer)
    }

    /// The addresses of the server.
    pub fn started(&self) -> &Started {
        &self.started
    }

    /// Sets the addresses of the partition's servers, in their order.
    pub fn set_peers(&self, addresses: Vec<Vec<Address>>) {
        let is_here = |at: &&Vec<Address>| at.iter().any(|address| matches!(address, Address::Unix(_)));
        let here = addresses.iter().filter(is_here).count() as u64;
        self.core.peers.set_addresses(addresses);
        self.core.tier.share_medium(here, &self.core.counters);
    }

    /// Sets what records a new set of servers durably before this server uses it. Without it a set is used and not recorded.
    pub fn record_server_sets(
        &self,
        record: impl Fn(&ServerSet) -> std::result::Result<(), String> + Send + Sync + 'static,
    ) {
        self.core.server_sets.set(Box::new(record));
    }

    /// A handle by which another thread, such as one that receives signals, shuts the server down.
    pub fn shutdown_handle(&self) -> ShutdownHandle {
        ShutdownHandle(Arc::clone(&self.core.shutdown))
    }

    /// A probe that shows whether the server's workers still work.
    pub fn worker_probe(&self) -> WorkerProbe {
        self.core.event_loop.probe.clone()
    }

    /// Waits for the end of the server, and cleans up. If something could not be stored, this fails and leaves the pool.
    pub fn wait(self) -> Result<()> {
        let Server { core, threads, callers, socket, .. } = self;
        threads.into_iter().for_each(join);
        // A slow reply of another server does not delay the end, and has no effect here.
        let until = Instant::now() + CALL_TIMEOUT;
        for caller in callers {
            while !caller.is_finished() && Instant::now() < until {
                pario_runtime::thread::sleep(Duration::from_millis(1));
            }
            if caller.is_finished() {
                join(caller);
            }
        }
        // If this fails, the next start removes the socket.
        let _ = fs::remove_file(socket);
        match core.shutdown.outcome() {
            Outcome::Drained => {
                core.metadata.as_ref().map_or(Ok(()), MetadataService::close)?;
                core.leases.save_for_successor(&core.config.directory);
                discard(core.tier.pool.clone(), &core.config.directory)?;
                PreviousLeases::remove(&core.config.run_directory);
                Ok(())
            }
            Outcome::Failed(failure) => {
                let named = core.metadata.as_ref().map_or(Ok(()), MetadataService::save_names);
                named.unwrap_or_else(|error| log(&format!("the names could not be stored: {error}")));
                Err(Error::Unsaved(failure, core.config.run_directory.join("pool")))
            }
            Outcome::Stopped => Ok(()),
        }
    }

    /// Stores everything and ends the server, as a signal does.
    pub fn shut_down(self) -> Result<()> {
        self.shutdown_handle().shut_down();
        self.wait()
    }

    /// Ends the server without storing anything, as a kill does, while the process continues.
    #[doc(hidden)]
    pub fn abandon(self) -> Result<()> {
        self.core.stop_threads();
        self.wait()
    }

    /// No worker begins anything while the guard is held.
    #[doc(hidden)]
    pub fn pause_workers(&self) -> impl Drop + '_ {
        self.core.event_loop.pause_workers()
    }

    fn spawn(&mut self, name: String, run: impl FnOnce(&Core) + Send + 'static) -> Result<()> {
        let thread = thread(name, self.core.clone(), run)?;
        self.threads.push(thread);
        Ok(())
    }

    fn spawn_caller(&mut self, name: String, run: impl FnOnce(&Core) + Send + 'static) -> Result<()> {
        let thread = thread(name, self.core.clone(), run)?;
        self.callers.push(thread);
        Ok(())
    }
}

fn thread(name: String, core: Arc<Core>, run: impl FnOnce(&Core) + Send + 'static) -> Result<JoinHandle<()>> {
    let guarded = move || abort_on_panic(move || run(&core));
    let spawned = pario_runtime::thread::Builder::new().name(name).spawn(guarded);
    spawned.map_err(|e| Error::System("starting a thread", e))
}

/// Runs a thread of a server's process. If it panics, the whole process ends, because with fewer threads it would only seem to work. A
/// successor adopts the pool.
pub fn abort_on_panic(run: impl FnOnce()) {
    // The process aborts, so no code sees the state that the panic leaves.
    if catch_unwind(AssertUnwindSafe(run)).is_err() {
        log("a thread failed, and so the server ends");
        pario_runtime::abort();
    }
}

/// The listener for this host, and the one for other hosts if there is one.
fn bind(config: &Config, unix: &Address) -> Result<Vec<Listener>> {
    let options = SocketOptions::default();
    let mut listeners = vec![Listener::bind(unix, options)?];
    if let Some((host, port)) = config.listen {
        listeners.push(Listener::bind(&Address::Tcp(host.to_string(), port), options)?);
    }
    Ok(listeners)
}

fn join(thread: JoinHandle<()>) {
    thread.join().expect("a thread that panics ends the process");
}

/// The pool over its store, and the state of a predecessor's pool.
struct OpenedPool {
    tier: PoolTier,
    adopted: Option<Adopted>,
    /// The leases of the predecessor.
    previous: Option<PreviousLeases>,
    /// A description of lost blocks.
    loss: Option<String>,
}

/// Opens the pool over its store: the predecessor's, if it left one that can be used, otherwise a new one. A pool of another size is
/// stored and replaced; so is one whose leases are not known, because clients that may have lost their leases have mapped it, and one
/// for whose clients the server cannot tell whether they still exist.
fn open_pool(config: &Config, store: Box<dyn Store>) -> Result<OpenedPool> {
    let identity = PoolIdentity { partition: config.partition, server: config.server };
    let path = config.run_directory.join("pool");
    let geometry = Geometry { block: config.pool.block, slots: config.slots(), ledgers: LEDGERS };
    let (mut store, mut adopted, mut previous, mut loss) = (store, None, None, None);
    if fs::exists(&path).map_err(|e| Error::System("looking for a predecessor's cache", e))? {
        match Pool::adopt(&path, identity) {
            Ok((pool, found)) => {
                adopted = Some(found);
                let same = pool.geometry() == geometry && !found.foreign && found.lost.is_none();
                previous = PreviousLeases::of(&config.run_directory, pool.mark(), config.pool.block.into());
                let tier = PoolTier::new(pool, store, &config.directory);
                tier.resolve_interrupted_truncations();
                if same && previous.is_some() {
                    return Ok(OpenedPool { tier, adopted, previous, loss });
                }
                tier.retire(&Counters::new())?;
                match found.lost {
                    None => discard(tier.pool, &config.directory)?,
                    Some(lost) => {
                        // Its writers must not believe that all of it is stored.
                        tier.pool.discard()?;
                        (previous, loss) = (None, Some(describe_loss(lost)));
                    }
                }
                store = tier.store;
            }
            Err(useless @ (pario_cache::Error::OtherBoot(_) | pario_cache::Error::Emptied(_))) => {
                fs::remove_file(&path).map_err(|e| Error::System("removing a useless cache", e))?;
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
    let tier = PoolTier::new(Pool::create(&path, geometry, identity)?, store, &config.directory);
    Ok(OpenedPool { tier, adopted, previous, loss })
}

/// Notes which pool is used from now on, after the loss of the last one if it is gone. If a loss cannot be noted, the notes about the last
/// pool stay, so the next server notices it again.
fn note_pool(directory: &Path, record: &mut PoolRecord, mark: u64, is_lost: bool) -> MemoryLosses {
    let mut losses = MemoryLosses::open(directory);
    let is_lost = is_lost || record.unretired().is_some_and(|last| last != mark);
    let noted = if is_lost { losses.note_loss() } else { Ok(()) };
    if let Err(error) = noted.and_then(|()| record.note_serving(directory, mark)) {
        log(&format!("cannot note which cache is used in {}: {error}", directory.display()));
    }
    losses
}

fn describe_loss(LostBlocks { kept, dirty }: LostBlocks) -> String {
    format!(
        "another program cut the cache's file to {kept} bytes: what lay beyond and was not synced is lost, {dirty} blocks as \
         far as is known; programs that wrote it hear of that when they sync"
    )
}

/// Removes a pool of which everything is stored, and notes that.
fn discard(pool: Pool, directory: &Path) -> Result<()> {
    let noted = note_retired_pool(directory, pool.mark());
    noted.map_err(|e| Error::System("noting the end", e))?;
    Ok(pool.discard()?)
}

fn store_identity(config: &Config) -> pario_store::StoreIdentity {
    pario_store::StoreIdentity { partition: config.partition, server: config.server }
}
