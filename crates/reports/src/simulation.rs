//! Results of simulations: a table, CSV and JSON.

use crate::csv_text;
use crate::table::{Align, TextTable};
use pario_simulate::{
    ClaimResult, Error, Machine, Outcome, PartitionOutcome, PartitionStrategy, Setup, Workload, run,
    run_partition,
};
use serde_json::{Map, Value, json};

/// One simulated run and its result: a row of the table, a point of a curve.
pub struct SimulationPoint {
    pub(crate) workload: String,
    write: bool,
    pub(crate) servers: u16,
    pub(crate) result: SimulationResult,
}

pub(crate) enum SimulationResult {
    /// On a file system, with this lock protocol and this partitioning.
    FileSystem(&'static str, &'static str, Box<Outcome>),
    /// On a partition, with this strategy.
    Partition(&'static str, Box<PartitionOutcome>),
}

impl SimulationPoint {
    /// Simulates a run on a file system.
    pub fn file_system(setup: &Setup, work: &Workload) -> Result<SimulationPoint, Error> {
        let outcome = Box::new(run(setup, work)?);
        let result = SimulationResult::FileSystem(setup.protocol.word(), setup.method.name(), outcome);
        Ok(SimulationPoint {
            workload: work.name.clone(),
            write: setup.write,
            servers: setup.servers,
            result,
        })
    }

    /// Simulates a run on a partition.
    pub fn partition(
        setup: &Setup,
        strategy: PartitionStrategy,
        shared: bool,
        work: &Workload,
    ) -> Result<SimulationPoint, Error> {
        let staged = Box::new(run_partition(setup, strategy, shared, work)?);
        let result = SimulationResult::Partition(strategy.word(), staged);
        Ok(SimulationPoint {
            workload: work.name.clone(),
            write: setup.write,
            servers: setup.servers,
            result,
        })
    }

    pub(crate) fn op(&self) -> &'static str {
        if self.write { "write" } else { "read" }
    }

    pub(crate) fn procs(&self) -> u32 {
        match &self.result {
            SimulationResult::FileSystem(_, _, outcome) => outcome.ranks,
            SimulationResult::Partition(_, staged) => staged.ranks,
        }
    }

    pub(crate) fn bandwidth(&self) -> f64 {
        match &self.result {
            SimulationResult::FileSystem(_, _, outcome) => outcome.bandwidth_mib_s(),
            SimulationResult::Partition(_, staged) => staged.bandwidth_mib_s(),
        }
    }

    /// The curve that it belongs to: a partitioning or a strategy.
    pub(crate) fn curve(&self) -> &'static str {
        match &self.result {
            SimulationResult::FileSystem(_, method, _) => method,
            SimulationResult::Partition(strategy, _) => strategy,
        }
    }

    /// Names and values, in order.
    fn fields(&self) -> Map<String, Value> {
        let mut map = Map::new();
        let mut put = |name: &str, value: Value| {
            map.insert(name.to_owned(), value);
        };
        put("workload", json!(self.workload));
        match &self.result {
            SimulationResult::FileSystem(protocol, method, o) => {
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
            SimulationResult::Partition(strategy, s) => {
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
                put("narrowest", json!(s.bottleneck().0));
                put("narrowest_share", json!(s.bottleneck().1));
                for (name, ns) in &s.used {
                    put(&format!("{}_busy_seconds", name.replace(' ', "_")), json!(*ns as f64 / 1e9));
                }
            }
        }
        map
    }
}

/// Results as a table.
pub fn simulation_table(points: &[SimulationPoint]) -> String {
    match points.first().map(|point| &point.result) {
        Some(SimulationResult::Partition(..)) => partition_table(points),
        _ => file_system_table(points),
    }
}

fn file_system_table(points: &[SimulationPoint]) -> String {
    use Align::{Left, Right};
    let alignments = [Left, Left, Left, Right, Right, Right, Right, Right, Right, Right, Right, Right];
    let head = [
        "protocol",
        "op",
        "partition",
        "procs",
        "aggr.",
        "MiB/s",
        "I/O phase",
        "lock req.",
        "conflicts",
        "revoc.",
        "messages",
        "interleaved",
    ];
    let mut table = TextTable::with_head(&alignments, &head);
    for point in points {
        let SimulationResult::FileSystem(protocol, method, o) = &point.result else { continue };
        table.row(vec![
            (*protocol).into(),
            point.op().into(),
            (*method).into(),
            o.ranks.to_string(),
            o.aggregators.to_string(),
            format!("{:.0}", o.bandwidth_mib_s()),
            format!("{:.0} %", o.io_share * 100.0),
            o.locks.requests.to_string(),
            o.locks.conflicts.to_string(),
            o.locks.revocations.to_string(),
            o.messages.all().to_string(),
            format!("{:.0}", o.interleaved as f64 / f64::from(point.servers)),
        ]);
    }
    table.text(0)
}

fn partition_table(points: &[SimulationPoint]) -> String {
    use Align::{Left, Right};
    let alignments = [Left, Left, Right, Right, Right, Right, Right, Right, Left];
    let head = [
        "strategy",
        "op",
        "procs",
        "aggr.",
        "servers",
        "open s",
        "MiB/s",
        "served MiB/s",
        "in use for the largest part",
    ];
    let mut table = TextTable::with_head(&alignments, &head);
    for point in points {
        let SimulationResult::Partition(strategy, s) = &point.result else { continue };
        let (name, share) = s.bottleneck();
        table.row(vec![
            (*strategy).into(),
            point.op().into(),
            s.ranks.to_string(),
            s.aggregators.to_string(),
            point.servers.to_string(),
            format!("{:.3}", s.opened.seconds()),
            format!("{:.0}", s.bandwidth_mib_s()),
            format!("{:.0}", s.served_mib_s()),
            format!("{name} ({:.0} %)", share * 100.0),
        ]);
    }
    table.text(0)
}

/// Results as JSON.
pub fn simulation_json(points: &[SimulationPoint]) -> String {
    let rows: Vec<Value> = points.iter().map(|point| Value::Object(point.fields())).collect();
    format!("{:#}\n", Value::Array(rows))
}

/// Results as CSV.
pub fn simulation_csv(points: &[SimulationPoint]) -> String {
    let Some(first) = points.first() else { return String::new() };
    let header: Vec<String> = first.fields().keys().cloned().collect();
    let cell = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    csv_text(&header, points.iter().map(|point| point.fields().values().map(cell).collect::<Vec<_>>()))
}

/// The numbers of the simulated machine, as a table.
pub fn machine_table() -> String {
    let mut table = TextTable::with_head(
        &[Align::Left, Align::Right, Align::Left, Align::Left],
        &["name", "value", "unit", "what"],
    );
    for number in Machine::NUMBERS {
        let about = number.about.trim().to_owned();
        table.row(vec![number.name.into(), number.value.to_string(), number.unit.into(), about]);
    }
    table.text(0)
}

/// Which conclusions hold on which machines, in words or as JSON.
pub fn sensitivity_text(held: &[ClaimResult], json: bool) -> String {
    if json {
        let rows = held.iter().map(|held| {
            let fails = held.fails.iter().map(|(name, figures)| json!({"machine": name, "figures": figures}));
            json!({
                "claim": held.claim.name, "text": held.claim.text, "machines": held.of,
                "holds": held.of - held.fails.len(), "fails": fails.collect::<Vec<_>>(),
            })
        });
        return format!("{:#}\n", Value::Array(rows.collect()));
    }
    let mut text = String::new();
    for ClaimResult { claim, of, fails } in held {
        let word = if fails.is_empty() { "robust" } else { "depends" };
        text += &format!(
            "{word}: {} (holds on {} of {of} machines)\n  {}\n",
            claim.name,
            of - fails.len(),
            claim.text
        );
        for (name, figures) in fails {
            text += &format!("  not with {name}: {figures}\n");
        }
    }
    text
}
