//! The tables of times and ratios.

use super::aims::better;
use super::contenders::{CONTENDERS, OMPIO, PARIO_ON_MPICH, PARIO_ON_OPEN_MPI, PLAIN, ROMIO};
use super::options::Options;
use super::turns::{DIRECTIONS, Direction, Measured, Row};
use crate::numbers::Times;

pub fn legend(options: &Options) -> String {
    let files = if options.overwrite {
        "Each write goes over a file that has all its bytes already"
    } else {
        "Each write creates its file"
    };
    format!(
        "{files}; each read opens it again, page cache warm. Open, set_view, close are in no time.\n\
         Milliseconds, medians, from the common start of all ranks to the last rank's end.\n\
         /M: on MPICH; /O: on Open MPI. limit: as many processes move as many bytes by pwrite or pread,\n\
         contiguous, each its own part. Ratios: host / Pario, above 1 Pario is faster; median (quartiles)\n\
         over turns. better: the faster of ROMIO and OMPIO, over Pario/M and over Pario/O."
    )
}

pub fn show(measured: &Measured) {
    let job = &measured.job;
    for direction in DIRECTIONS {
        println!("\n{} ranks, {}, {}_all, {} turns", job.ranks, job.place, direction.label(), job.turns);
        print!("{:<13}{:>6}", "pattern", "MiB");
        CONTENDERS.iter().for_each(|contender| print!("{:>9}", contender.label));
        println!("{:>24}{:>24}{:>13}", "ROMIO / Pario/M", "OMPIO / Pario/O", "better");
        measured.rows.iter().for_each(|row| show_row(row, direction));
    }
    show_copy(&measured.rows);
}

fn show_row(row: &Row, direction: Direction) {
    print!("{:<13}{:>6.1}", row.pattern, row.bytes as f64 / f64::from(1 << 20));
    for contender in 0..CONTENDERS.len() {
        match row.median(direction, contender) {
            seconds if seconds.is_nan() => print!("{:>9}", "–"),
            seconds => print!("{:>9.2}", seconds * 1e3),
        }
    }
    for (host, pario) in [(ROMIO, PARIO_ON_MPICH), (OMPIO, PARIO_ON_OPEN_MPI)] {
        print!("{:>24}", row.ratios(direction, host, pario).as_ratio());
    }
    for (pario, width) in [(PARIO_ON_MPICH, 7), (PARIO_ON_OPEN_MPI, 6)] {
        let ratios = better(row, direction).map(|host| row.ratios(direction, host, pario));
        match ratios.map_or(f64::NAN, |ratios| ratios.median()) {
            ratio if ratio.is_nan() => print!("{:>width$}", "–"),
            ratio => print!("{ratio:>width$.2}"),
        }
    }
    for (contender, wrong) in row.wrong.iter().enumerate().filter(|(_, wrong)| **wrong > 0) {
        print!("  {}: wrong data in {wrong}", CONTENDERS[contender].label);
    }
    println!();
}

/// How fast memory and plain files are, over all patterns.
fn show_copy(rows: &[Row]) {
    let speed = |seconds: &dyn Fn(&Row) -> f64| {
        let mut speeds = Times::default();
        rows.iter().for_each(|row| speeds.add(row.bytes as f64 / seconds(row) / f64::from(1 << 30)));
        speeds.median()
    };
    let copy = speed(&|row| row.copy.median());
    if !copy.is_nan() {
        let [write, read] = DIRECTIONS.map(|direction| speed(&|row| row.median(direction, PLAIN)));
        println!("limits, GiB/s of all ranks: memcpy {copy:.1}, pwrite {write:.1}, pread {read:.1}");
    }
}
