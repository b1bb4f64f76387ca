//! How results are shown: tables and numbers for terminals, CSV for programs, HTML pages with SVG charts, and the
//! progress of long work.
//!
//! Every command writes its output with the same few parts, so that columns, sizes and times look alike everywhere. Each
//! larger report (comparisons, simulations, profiles) is a module over them.
//! The crates behind this one do the work: tables are laid out by `comfy-table`, CSV is quoted by `csv`, pages are
//! `askama` templates (in `templates/`, escaped by default), and progress lines are drawn by `indicatif`.
#![forbid(unsafe_code)]

mod advice;
mod check_summary;
mod chunk_explanation;
mod color;
mod comparison;
mod csv_text;
mod distribution;
mod file_description;
mod file_listing;
mod hint_table;
pub mod measurement_csv;
mod model_charts;
mod model_page;
mod models;
mod page;
mod partition_list;
mod partition_metrics;
mod partition_status;
mod perfetto;
mod plan_summary;
mod profile_page;
mod progress;
mod rank_activity;
mod simulation;
mod simulation_charts;
mod storage_space;
mod table;
pub mod text;
mod trace_events;
mod trace_summary;

pub use advice::{advice_object, advice_text};
pub use check_summary::{check_json, check_text};
pub use chunk_explanation::write_chunk_explanation;
pub use comparison::{
    MeasuredChange, changes_text, comparison_page, comparison_text, last_run_text, measured_changes,
};
pub use csv_text::csv_text;
pub use distribution::Distribution;
pub use file_description::{file_description, file_description_json};
pub use file_listing::{ListingStyle, disk_usage_json, disk_usage_text, listing_json, listing_text};
pub use hint_table::{checked_hint_file, hint_details, hint_object, hint_table};
pub use measurement_csv::MeasurementCsvError;
pub use model_charts::model_charts;
pub use model_page::model_page;
pub use models::{
    measurement_notes, measurements_object, measurements_text, planned_model, planned_models_table,
};
pub use partition_list::{orphaned_pool_text, partition_list_json, partition_list_text};
pub use partition_metrics::partition_metrics;
pub use partition_status::{RequestRates, partition_status_json, partition_status_text};
pub use perfetto::PerfettoTrace;
pub use plan_summary::{write_plan_json, write_plan_summary};
pub use profile_page::{Timeline, profile_page};
pub use progress::ProgressDisplay;
pub use rank_activity::rank_activity_text;
pub use simulation::{
    SimulationPoint, machine_table, sensitivity_text, simulation_csv, simulation_json, simulation_table,
};
pub use simulation_charts::{simulation_page, simulation_svg};
pub use storage_space::{storage_space_json, storage_space_text};
pub use table::{Align, TextTable, columns};
pub use trace_events::{profile_object, trace_heading, trace_line, trace_object};
pub use trace_summary::TraceSummary;
