//! How fast strided memory is packed: Pario's loops (an example of the buffer crate) and, beside them, each
//! host's `MPI_Pack` of the same pieces. One process, memory only.

use crate::host::HOSTS;
use crate::place;
use crate::program::{self, Outcome};
use crate::setup;

pub fn run() -> Outcome {
    setup::compilers_and_mpis()?;
    program::run(program::cargo().args([
        "run",
        "--release",
        "-p",
        "pario-buffer",
        "--example",
        "bench_view",
    ]))?;
    for host in HOSTS {
        let pack = host.compile("xtask/bench/pack.c", &place::target().join("bench"))?;
        println!("\n{}: MPI_Pack and MPI_Unpack of a vector, gap = piece, 8 MiB of data", host.label);
        for line in program::stdout(host.launch(1).arg(&pack))?.lines().filter_map(Line::parse) {
            let gib = |rate: f64| rate / f64::from(1 << 30);
            println!(
                "{:>6} B  pack {:>6.2} GiB/s  unpack {:>6.2} GiB/s",
                line.piece,
                gib(line.pack),
                gib(line.unpack)
            );
        }
    }
    Ok(())
}

/// `pack 64 pack=1.5e9 unpack=1.5e9`
struct Line {
    piece: u64,
    pack: f64,
    unpack: f64,
}

impl Line {
    fn parse(line: &str) -> Option<Line> {
        let mut words = line.strip_prefix("pack ")?.split_whitespace();
        Some(Line {
            piece: words.next()?.parse().ok()?,
            pack: words.next()?.strip_prefix("pack=")?.parse().ok()?,
            unpack: words.next()?.strip_prefix("unpack=")?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Line;

    #[test]
    fn a_line_of_the_program_is_read() {
        let line = Line::parse("pack 64 pack=2.675e+09 unpack=2.5e+09").expect("a good line");
        assert_eq!((line.piece, line.pack, line.unpack), (64, 2.675e9, 2.5e9));
        assert!(Line::parse("pack 64").is_none());
    }
}
