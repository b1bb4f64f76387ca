//! Tests of the name space from outside, on a disk in memory that can stop, fail, fill up or lose power.

mod crashes;
mod disk;
mod evidence;
mod faults;
mod histories;
mod model;
mod random;
mod repeats;
mod rules;
mod sizes;
mod tables;
mod truncations;
