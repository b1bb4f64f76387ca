//! Tests of the lock manager and of client locks: against a naive manager, with many clients, and by counted traffic.

mod clients;
mod naive;
mod traffic;
