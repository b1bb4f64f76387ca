//! Tests of the lease table: a simulation with property tests, and single cases.

mod table_cases;
mod table_model;
