//! Tests of the name space from outside, on a disk in memory that can stop, fail, fill up or lose power.

mod crashes;
mod disk;
mod faults;
mod model;
mod random;
mod repeats;
mod rules;
mod sizes;
mod tables;
mod truncations;
