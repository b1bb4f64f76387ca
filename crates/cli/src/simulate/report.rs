//! Results as text: a table for people, CSV and JSON for programs.

use super::point::{Point, Result};
use crate::files::table::{Side, Table};
use pario_simulate::{Held, Machine};
use serde_json::{Value, json};

pub fn table(points: &[Point]) -> String {
    match points.first().map(|point| &point.result) {
        Some(Result::Partition(..)) => partition_table(points),
        _ => file_system_table(points),
    }
}

fn file_system_table(points: &[Point]) -> String {
    use Side::{Left, Right};
    let sides = [Left, Left, Left, Right, Right, Right, Right, Right, Right, Right, Right, Right];
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
    let mut table = Table::with_head(&sides, &head);
    for point in points {
        let Result::FileSystem(protocol, method, o) = &point.result else { continue };
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

fn partition_table(points: &[Point]) -> String {
    use Side::{Left, Right};
    let sides = [Left, Left, Right, Right, Right, Right, Right, Right, Left];
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
    let mut table = Table::with_head(&sides, &head);
    for point in points {
        let Result::Partition(strategy, s) = &point.result else { continue };
        let (name, share) = s.narrowest();
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

pub fn json(points: &[Point]) -> String {
    let rows: Vec<Value> = points.iter().map(|point| Value::Object(point.fields())).collect();
    format!("{:#}\n", Value::Array(rows))
}

pub fn csv(points: &[Point]) -> String {
    let mut text = String::new();
    for (number, point) in points.iter().enumerate() {
        let fields = point.fields();
        if number == 0 {
            text += &fields.keys().cloned().collect::<Vec<_>>().join(",");
            text.push('\n');
        }
        let cell = |value: &Value| match value {
            Value::String(text) if text.contains([',', '"']) => format!("\"{}\"", text.replace('"', "\"\"")),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        text += &fields.values().map(cell).collect::<Vec<_>>().join(",");
        text.push('\n');
    }
    text
}

pub fn machine() -> String {
    let mut table = Table::with_head(
        &[Side::Left, Side::Right, Side::Left, Side::Left],
        &["name", "value", "unit", "what"],
    );
    for number in Machine::NUMBERS {
        let about = number.about.trim().to_owned();
        table.row(vec![number.name.into(), number.value.to_string(), number.unit.into(), about]);
    }
    table.text(0)
}

pub fn sensitivity(held: &[Held], json: bool) -> String {
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
    for Held { claim, of, fails } in held {
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
