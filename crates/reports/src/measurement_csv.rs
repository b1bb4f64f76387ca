//! Measurements as comma-separated values: a row for each run of a model, a first row with the names of the columns.
//!
//! Reading goes by those names and takes the columns that were measured; what follows from them (processes,
//! throughput and so on) is there for people and spreadsheets and is computed again.

use crate::csv_text::csv_row;
use csv::StringRecord;
use pario_io_models::{Measurement, Metric, Model, ModelOp, Series};
use std::str::FromStr;

const COLUMNS: [&str; 21] = [
    "target",
    "io",
    "op",
    "nodes_are",
    "most_nodes",
    "most_ppn",
    "repetition",
    "nodes",
    "ppn",
    "files_per_node",
    "shared_nodes",
    "procs",
    "procs_per_file",
    "files",
    "size",
    "bytes_per_proc",
    "open_seconds",
    "seconds",
    "throughput",
    "efficiency",
    "per_node",
];

/// The reason why a text holds no measurements.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("row {row}: {why}")]
pub struct MeasurementCsvError {
    /// Which row, from 1.
    pub row: usize,
    /// The error in it.
    pub why: String,
}

/// The first row.
pub fn head() -> String {
    csv_row(COLUMNS)
}

/// The row of a measurement.
pub fn line(measurement: &Measurement) -> String {
    csv_row(row(measurement))
}

/// The measurements as text.
pub fn write(measurements: &[Measurement]) -> String {
    head() + &measurements.iter().map(line).collect::<String>()
}

fn row(measurement: &Measurement) -> [String; COLUMNS.len()] {
    let Measurement { series, model, repetition, size, open_seconds, seconds, most, real_nodes } =
        measurement;
    let [throughput, efficiency, per_node] = Metric::ALL.map(|metric| measurement.value(metric).to_string());
    [
        series.target.clone(),
        series.io.clone(),
        series.op.word().to_owned(),
        if *real_nodes { "hosts" } else { "virtual" }.to_owned(),
        most.0.to_string(),
        most.1.to_string(),
        repetition.to_string(),
        model.nodes().to_string(),
        model.ppn().to_string(),
        model.files_per_node().to_string(),
        model.shared_nodes().to_string(),
        model.procs().to_string(),
        model.procs_per_file().to_string(),
        model.files().to_string(),
        size.to_string(),
        (size / u64::from(model.procs())).to_string(),
        open_seconds.to_string(),
        seconds.to_string(),
        throughput,
        efficiency,
        per_node,
    ]
}

/// The measurements in a text.
pub fn read(text: &str) -> Result<Vec<Measurement>, MeasurementCsvError> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text.as_bytes());
    let mut rows = reader.records().zip(1..).map(|(record, row)| {
        record.map(|fields| (row, fields)).map_err(|e| MeasurementCsvError { row, why: e.to_string() })
    });
    let nothing = || MeasurementCsvError { row: 1, why: "there is nothing".to_owned() };
    let (_, head) = rows.next().ok_or_else(nothing)??;
    rows.map(|row| {
        let (row, fields) = row?;
        let of_row = |why| MeasurementCsvError { row, why };
        if fields.len() != head.len() {
            let (found, wanted) = (fields.len(), head.len());
            return Err(of_row(format!("{found} fields where the first row has {wanted}")));
        }
        measurement(&Fields { head: &head, fields: &fields }).map_err(of_row)
    })
    .collect()
}

struct Fields<'a> {
    head: &'a StringRecord,
    fields: &'a StringRecord,
}

impl Fields<'_> {
    fn text(&self, name: &str) -> Result<&str, String> {
        let place = self.head.iter().position(|column| column == name);
        Ok(&self.fields[place.ok_or_else(|| format!("there is no column {name}"))?])
    }

    fn number<T: FromStr>(&self, name: &str) -> Result<T, String> {
        let text = self.text(name)?;
        text.parse().map_err(|_| format!("{name} cannot be {text:?}"))
    }

    /// Seconds, above `least` or equal to it.
    fn seconds(&self, name: &str, least: f64) -> Result<f64, String> {
        let seconds: f64 = self.number(name)?;
        let sound = seconds.is_finite() && seconds >= least;
        if sound { Ok(seconds) } else { Err(format!("{name} cannot be {seconds}")) }
    }
}

fn measurement(fields: &Fields) -> Result<Measurement, String> {
    let op = fields.text("op")?;
    let op =
        ModelOp::ALL.into_iter().find(|known| known.word() == op).ok_or(format!("op cannot be {op:?}"))?;
    let real_nodes = match fields.text("nodes_are")? {
        "hosts" => true,
        "virtual" => false,
        other => return Err(format!("nodes_are cannot be {other:?}")),
    };
    let model = Model::new(
        fields.number("nodes")?,
        fields.number("ppn")?,
        fields.number("files_per_node")?,
        fields.number("shared_nodes")?,
    );
    Ok(Measurement {
        series: Series { target: fields.text("target")?.to_owned(), io: fields.text("io")?.to_owned(), op },
        model: model
            .ok_or("there is no such model: nodes, ppn, files_per_node and shared_nodes do not fit")?,
        repetition: fields.number("repetition")?,
        size: fields.number("size")?,
        open_seconds: fields.seconds("open_seconds", 0.0)?,
        seconds: fields.seconds("seconds", f64::MIN_POSITIVE)?,
        most: (fields.number("most_nodes")?, fields.number("most_ppn")?),
        real_nodes,
    })
}
