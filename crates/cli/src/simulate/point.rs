//! One run and its result: a row of the table, a point of a curve.

use super::error::Error;
use pario_simulate::{Outcome, Setup, Staged, Strategy, Workload, run, run_partition};
use serde_json::{Map, Value, json};

pub struct Point {
    pub workload: String,
    pub write: bool,
    pub servers: u16,
    pub result: Result,
}

pub enum Result {
    /// On a file system: protocol and partitioning.
    FileSystem(&'static str, &'static str, Box<Outcome>),
    /// On a partition: strategy.
    Partition(&'static str, Box<Staged>),
}

impl Point {
    pub fn file_system(setup: &Setup, work: &Workload) -> std::result::Result<Point, Error> {
        let outcome = Box::new(run(setup, work)?);
        let result = Result::FileSystem(setup.protocol.word(), setup.method.name(), outcome);
        Ok(Point { workload: work.name.clone(), write: setup.write, servers: setup.servers, result })
    }

    pub fn partition(
        setup: &Setup,
        strategy: Strategy,
        shared: bool,
        work: &Workload,
    ) -> std::result::Result<Point, Error> {
        let staged = Box::new(run_partition(setup, strategy, shared, work)?);
        let result = Result::Partition(strategy.word(), staged);
        Ok(Point { workload: work.name.clone(), write: setup.write, servers: setup.servers, result })
    }

    pub fn op(&self) -> &'static str {
        if self.write { "write" } else { "read" }
    }

    pub fn procs(&self) -> u32 {
        match &self.result {
            Result::FileSystem(_, _, outcome) => outcome.ranks,
            Result::Partition(_, staged) => staged.ranks,
        }
    }

    pub fn bandwidth(&self) -> f64 {
        match &self.result {
            Result::FileSystem(_, _, outcome) => outcome.bandwidth_mib_s(),
            Result::Partition(_, staged) => staged.bandwidth_mib_s(),
        }
    }

    /// The curve that it belongs to: a partitioning or a strategy.
    pub fn curve(&self) -> &'static str {
        match &self.result {
            Result::FileSystem(_, method, _) => method,
            Result::Partition(strategy, _) => strategy,
        }
    }

    /// Names and values, in order.
    pub fn fields(&self) -> Map<String, Value> {
        let mut map = Map::new();
        let mut put = |name: &str, value: Value| {
            map.insert(name.to_owned(), value);
        };
        put("workload", json!(self.workload));
        match &self.result {
            Result::FileSystem(protocol, method, o) => {
                put("protocol", json!(protocol));
                put("partition", json!(method));
                put("op", json!(self.op()));
                put("procs", json!(o.ranks));
                put("aggregators", json!(o.aggregators));
                put("servers", json!(self.servers));
                put("bytes", json!(o.bytes));
                put("seconds", json!(o.time.seconds()));
                put("bandwidth_mib_s", json!(o.bandwidth_mib_s()));
                put("io_phase_share", json!(o.io_share));
                put("lock_requests", json!(o.locks.requests));
                put("lock_grants", json!(o.locks.grants));
                put("conflicts", json!(o.locks.conflicts));
                put("revocations", json!(o.locks.revocations));
                put("lock_waits", json!(o.locks.waits));
                put("messages", json!(o.messages.all()));
                put("exchange_messages", json!(o.messages.exchange));
                put("data_messages", json!(o.messages.data));
                put("lock_messages", json!(o.messages.locks));
                put("interleaved_per_server", json!(o.interleaved as f64 / f64::from(self.servers)));
                put("seeks", json!(o.seeks));
                put("read_ahead_wasted_bytes", json!(o.wasted));
            }
            Result::Partition(strategy, s) => {
                put("strategy", json!(strategy));
                put("op", json!(self.op()));
                put("procs", json!(s.ranks));
                put("aggregators", json!(s.aggregators));
                put("servers", json!(self.servers));
                put("bytes", json!(s.bytes));
                put("open_seconds", json!(s.opened.seconds()));
                put("seconds", json!(s.returned.seconds()));
                put("bandwidth_mib_s", json!(s.bandwidth_mib_s()));
                put("served_mib_s", json!(s.served_mib_s()));
                put("stored_seconds", json!(s.stored.seconds()));
                put("messages", json!(s.messages));
                put("narrowest", json!(s.narrowest().0));
                put("narrowest_share", json!(s.narrowest().1));
                for (name, ns) in &s.used {
                    put(&format!("{}_busy_seconds", name.replace(' ', "_")), json!(*ns as f64 / 1e9));
                }
            }
        }
        map
    }
}
