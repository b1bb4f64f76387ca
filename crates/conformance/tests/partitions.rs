//! Whole partitions, from outside: real servers started by `pario up`, real sockets, real `kill -9`.
//!
//! Most of these are trials: random operations from a seed, whose results a flat model knows beforehand. A few
//! seeds are tried each time; `PARIO_TRIALS=200` tries that many more, and `PARIO_SEED=7` only that one. Every
//! failure names its seed. Whatever a test does, when it ends there must be no process, no socket and no memory
//! of its partition left.

mod partition;
