//! A run: every model, with all repetitions, in every directory.

use crate::error::Error;
use crate::model_directory::{ModelDirectory, OpenDirectory};
use crate::model_hosts::{HostLauncher, ModelHosts, Stop};
use crate::orders::{MESSAGE_VERSION, ModelOrder, ModelStep, WorkerStart};
use pario_copy::Connections;
use pario_io_models::{Measurement, Model, ModelGrid, ModelOp, Series, median};
use pario_types::Progress;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// How often an empty order is timed.
const EMPTY_ORDERS: u64 = 5;

/// The program to run.
pub struct ModelRun<'a> {
    /// The models.
    pub grid: ModelGrid,
    /// Directories, as the user wrote them.
    pub targets: &'a [OsString],
    /// Hosts; without any, all nodes are virtual, on this host.
    pub hosts: &'a [String],
    /// Starts the workers.
    pub launcher: &'a dyn HostLauncher,
    /// Whether reads are measured as well.
    pub reads: bool,
    /// Whether the time of a write includes a sync.
    pub fsync: bool,
    /// The number of runs of each model.
    pub repeat: u32,
    /// The bytes that a process writes or reads by one call.
    pub transfer: u64,
    /// The most time that a step may take.
    pub timeout: Duration,
    /// The directory of the registry of partitions.
    pub home: Option<PathBuf>,
    /// The partition of `pario:/path`.
    pub default_partition: Option<String>,
}

/// The result of a run.
pub struct ModelRunOutcome {
    /// The measurements so far.
    pub measurements: Vec<Measurement>,
    /// The time of an order to do nothing; shorter times cannot be measured.
    pub order_seconds: Option<f64>,
    /// Directories that could not be removed.
    pub left_behind: Vec<Error>,
    /// Why the run ended early, if it did.
    pub stop: Option<Stop>,
}

/// Receives each measurement as soon as it is made.
type Sink<'a> = dyn FnMut(&Measurement) -> Result<(), Error> + 'a;

impl ModelRun<'_> {
    /// The number of measurements of a complete run.
    pub fn measurements(&self) -> usize {
        let ops = if self.reads { 2 } else { 1 };
        self.grid.models().len() * self.targets.len() * self.repeat as usize * ops
    }

    /// Runs all models. `sink` gets each measurement as soon as it is made.
    pub fn run(&self, progress: &dyn Progress, sink: &mut Sink<'_>) -> ModelRunOutcome {
        let mut outcome = ModelRunOutcome {
            measurements: Vec::new(),
            order_seconds: None,
            left_behind: Vec::new(),
            stop: None,
        };
        let mut connections =
            Connections::for_metadata(self.home.as_deref(), self.default_partition.as_deref());
        let done = self.directories().and_then(|directories| {
            let made = self.make(&directories, &mut connections)?;
            let done = self.run_in(&directories, progress, &mut outcome, sink);
            let removed = made.into_iter().filter_map(|directory| directory.remove_all().err());
            outcome.left_behind = removed.map(Error::from).collect();
            done
        });
        outcome.stop = done.err();
        outcome
    }

    fn directories(&self) -> Result<Vec<ModelDirectory>, Stop> {
        let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let (host, pid) = (self.launcher.this_host(), std::process::id());
        let name = format!("pario-io-models-{host}-{pid}-{}", time.as_nanos());
        let default = self.default_partition.as_deref();
        let directories = self.targets.iter().map(|target| ModelDirectory::new(target, &name, default));
        Ok(directories.collect::<Result<_, _>>()?)
    }

    /// Makes the run's directories, if there is space for the files.
    fn make(
        &self,
        directories: &[ModelDirectory],
        connections: &mut Connections,
    ) -> Result<Vec<OpenDirectory>, Stop> {
        let mut open = Vec::new();
        for directory in directories {
            let opened = directory.open(connections)?;
            let (free, size) = (opened.free()?, self.grid.size());
            if free < size {
                return Err(Stop::Failed(Error::NoSpace { target: directory.target(), free, size }));
            }
            open.push(opened);
        }
        for (made, directory) in open.iter().enumerate() {
            if let Err(error) = directory.make() {
                open[..made].iter().for_each(|directory| drop(directory.remove_all()));
                return Err(error.into());
            }
        }
        Ok(open)
    }

    fn run_in(
        &self,
        directories: &[ModelDirectory],
        progress: &dyn Progress,
        outcome: &mut ModelRunOutcome,
        sink: &mut Sink<'_>,
    ) -> Result<(), Stop> {
        let start = WorkerStart {
            version: MESSAGE_VERSION,
            first_node: 0,
            nodes: self.grid.nodes(),
            core: self.grid.ppn(),
            directories: directories.to_vec(),
            home: self.home.clone(),
            size: self.grid.size(),
            transfer: self.transfer,
            fsync: self.fsync,
        };
        let mut hosts = ModelHosts::start(&start, self.hosts, self.launcher, self.timeout)?;
        let done = self.run_on(&mut hosts, directories, progress, outcome, sink);
        hosts.end();
        done
    }

    fn run_on(
        &self,
        hosts: &mut ModelHosts<'_>,
        directories: &[ModelDirectory],
        progress: &dyn Progress,
        outcome: &mut ModelRunOutcome,
        sink: &mut Sink<'_>,
    ) -> Result<(), Stop> {
        let models = self.grid.models();
        let all = Model::new(self.grid.nodes(), self.grid.ppn(), 1, 1).expect("a grid has whole powers");
        let empty =
            (0..EMPTY_ORDERS).map(|turn| hosts.execute(&ModelOrder::new(ModelStep::Rest, 0, all, turn)));
        outcome.order_seconds = Some(median(&empty.collect::<Result<Vec<_>, _>>()?));
        // The first model in a directory pays for memory and free blocks that the others find; it is not measured.
        (0..directories.len()).try_for_each(|number| self.run_model(hosts, all, number, 0).map(|_| ()))?;

        progress.expect(self.grid.size().saturating_mul(self.measurements() as u64));
        progress.total_known();
        let mut turn = 0;
        for repetition in 1..=self.repeat {
            for model in &models {
                for (number, directory) in directories.iter().enumerate() {
                    turn += 1;
                    let series =
                        |op| Series { target: directory.target(), io: directory.io().to_owned(), op };
                    for (op, open_seconds, seconds) in self.run_model(hosts, *model, number, turn)? {
                        progress.advance(self.grid.size());
                        let measurement = Measurement {
                            series: series(op),
                            model: *model,
                            repetition,
                            size: self.grid.size(),
                            open_seconds,
                            seconds,
                            most: (self.grid.nodes(), self.grid.ppn()),
                            real_nodes: !self.hosts.is_empty(),
                        };
                        sink(&measurement).map_err(Stop::Failed)?;
                        outcome.measurements.push(measurement);
                    }
                }
            }
        }
        Ok(())
    }

    /// Runs one model once; returns for each operation the seconds of the opens and of the data transfer. Nothing is
    /// measured unless the contents are right.
    fn run_model(
        &self,
        hosts: &mut ModelHosts<'_>,
        model: Model,
        directory: usize,
        turn: u64,
    ) -> Result<Vec<(ModelOp, f64, f64)>, Stop> {
        let mut execute = |step| hosts.execute(&ModelOrder::new(step, directory, model, turn));
        let mut measured = Vec::new();
        let mut timed = |op, open, transfer| -> Result<(), Stop> {
            let opening = execute(open)?;
            // The clock has a resolution: no transfer takes no time.
            measured.push((op, opening, execute(transfer)?.max(1e-9)));
            Ok(())
        };
        timed(ModelOp::Write, ModelStep::Open, ModelStep::Write)?;
        if self.reads {
            timed(ModelOp::Read, ModelStep::Reopen, ModelStep::Read)?;
        }
        execute(ModelStep::Check)?;
        execute(ModelStep::Remove)?;
        Ok(measured)
    }
}
