//! A run: every model, as often as asked, in every place.

use super::crew::{Crew, Stop};
use super::error::Error;
use super::message::{Order, Start, Step, VERSION};
use super::place::{Directory, Place};
use crate::env::Environment;
use crate::files::progress::{Display, Meter};
use crate::files::session::Session;
use pario_io_models::{Grid, Measurement, Model, Op, Series, median};
use pario_launch::{NodeLauncher, host};
use std::ffi::OsString;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// How often an empty order is timed.
const RESTS: u64 = 5;

/// What to run.
pub struct Plan<'a> {
    pub grid: Grid,
    /// Directories, as the user wrote them.
    pub targets: &'a [OsString],
    /// Real hosts; none for virtual nodes on this one.
    pub hosts: &'a [String],
    pub launcher: NodeLauncher,
    pub reads: bool,
    pub fsync: bool,
    pub repeat: u32,
    pub transfer: u64,
    pub patience: Duration,
    pub progress: bool,
}

/// What came of it.
pub struct Outcome {
    pub measurements: Vec<Measurement>,
    /// How long an order to do nothing takes all processes: what lies below it cannot be measured.
    pub order_seconds: Option<f64>,
    /// Why it ended early, if it did.
    pub stop: Option<Stop>,
}

impl Plan<'_> {
    /// How many measurements there will be.
    pub fn measurements(&self) -> usize {
        self.grid.models().len() * self.targets.len() * self.repeat as usize * self.ops()
    }

    fn ops(&self) -> usize {
        if self.reads { 2 } else { 1 }
    }

    /// Runs it. `keep` gets each measurement as soon as it is made.
    pub fn run(&self, env: &Environment, keep: &mut dyn FnMut(&Measurement) -> Result<(), Error>) -> Outcome {
        let mut outcome = Outcome { measurements: Vec::new(), order_seconds: None, stop: None };
        let mut session = Session::of_tool(env);
        let done = self.places(env).and_then(|places| {
            let directories = self.make(&places, &mut session)?;
            let done = self.run_in(&places, env, &mut outcome, keep);
            directories.into_iter().for_each(|directory| {
                if let Err(error) = directory.clear() {
                    eprintln!("pario: {error}");
                }
            });
            done
        });
        outcome.stop = done.err();
        outcome
    }

    fn places(&self, env: &Environment) -> Result<Vec<Place>, Stop> {
        let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let name = format!("pario-io-models-{}-{}-{}", host::name(), std::process::id(), time.as_nanos());
        let places = self.targets.iter().map(|target| Place::fresh(target, &name, env));
        Ok(places.collect::<Result<_, _>>()?)
    }

    /// The run's directories, made where there is room.
    fn make(&self, places: &[Place], session: &mut Session) -> Result<Vec<Directory>, Stop> {
        let mut directories = Vec::new();
        for place in places {
            let directory = place.enter(session)?;
            let (free, size) = (directory.free()?, self.grid.size());
            if free < size {
                return Err(Stop::Failed(Error::NoRoom { target: place.target(), free, size }));
            }
            directories.push(directory);
        }
        for (made, directory) in directories.iter().enumerate() {
            if let Err(error) = directory.make() {
                directories[..made].iter().for_each(|directory| drop(directory.clear()));
                return Err(error.into());
            }
        }
        Ok(directories)
    }

    fn run_in(
        &self,
        places: &[Place],
        env: &Environment,
        outcome: &mut Outcome,
        keep: &mut dyn FnMut(&Measurement) -> Result<(), Error>,
    ) -> Result<(), Stop> {
        let start = Start {
            version: VERSION,
            first_node: 0,
            nodes: self.grid.nodes(),
            core: self.grid.ppn(),
            places: places.to_vec(),
            home: env.home.clone(),
            size: self.grid.size(),
            transfer: self.transfer,
            fsync: self.fsync,
        };
        let mut crew = Crew::start(&start, self.hosts, &self.launcher, self.patience)?;
        let done = self.run_with(&mut crew, places, outcome, keep);
        crew.dismiss();
        done
    }

    fn run_with(
        &self,
        crew: &mut Crew,
        places: &[Place],
        outcome: &mut Outcome,
        keep: &mut dyn FnMut(&Measurement) -> Result<(), Error>,
    ) -> Result<(), Stop> {
        let models = self.grid.models();
        let all = Model::new(self.grid.nodes(), self.grid.ppn(), 1, 1).expect("a grid has whole powers");
        let rests = (0..RESTS).map(|turn| crew.order(&Order::new(Step::Rest, 0, all, turn)));
        outcome.order_seconds = Some(median(&rests.collect::<Result<Vec<_>, _>>()?));
        // What comes first anywhere pays for memory and free blocks that all others find; it is not measured.
        (0..places.len()).try_for_each(|place| self.one(crew, all, place, 0).map(|_| ()))?;

        let meter = Arc::new(Meter::default());
        meter.expect(self.grid.size().saturating_mul(self.measurements() as u64));
        meter.settle();
        let _display = Display::start(Arc::clone(&meter), self.progress);
        let mut turn = 0;
        for repetition in 1..=self.repeat {
            for model in &models {
                for (number, place) in places.iter().enumerate() {
                    turn += 1;
                    let series = |op| Series { target: place.target(), io: place.io().to_owned(), op };
                    for (op, open_seconds, seconds) in self.one(crew, *model, number, turn)? {
                        meter.add(self.grid.size());
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
                        keep(&measurement).map_err(Stop::Failed)?;
                        outcome.measurements.push(measurement);
                    }
                }
            }
        }
        Ok(())
    }

    /// One run of one model: what was done, seconds for the opens, seconds for the bytes. Nothing of it counts
    /// unless the contents are right.
    fn one(
        &self,
        crew: &mut Crew,
        model: Model,
        place: usize,
        turn: u64,
    ) -> Result<Vec<(Op, f64, f64)>, Stop> {
        let mut order = |step| crew.order(&Order::new(step, place, model, turn));
        let mut measured = Vec::new();
        let mut timed = |op, open, transfer| -> Result<(), Stop> {
            let opening = order(open)?;
            // A clock has its steps: nothing takes no time.
            measured.push((op, opening, order(transfer)?.max(1e-9)));
            Ok(())
        };
        timed(Op::Write, Step::Open, Step::Write)?;
        if self.reads {
            timed(Op::Read, Step::Reopen, Step::Read)?;
        }
        order(Step::Check)?;
        order(Step::Remove)?;
        Ok(measured)
    }
}
