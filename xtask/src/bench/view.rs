//! How fast strided memory is packed: Pario's loops (an example of the buffer crate) and, below them, each
//! host's `MPI_Pack` of the same vectors. One process, memory only; both print nanoseconds per piece.

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
        println!(
            "\n{}, the same vectors as in the rows \"strided\": median [quartiles] ns per piece",
            host.label
        );
        print!("{}", program::stdout(host.launch(1).arg(&pack))?);
    }
    Ok(())
}
