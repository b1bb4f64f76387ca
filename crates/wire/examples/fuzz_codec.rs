//! Decodes damaged messages:
//! `cargo run -p pario-wire --example fuzz_codec -- SEED COUNT`.
//! A panic is a bug in the codec; the same seed reproduces it.

#[path = "../tests/samples/fuzz.rs"]
mod fuzz;
#[path = "../tests/samples/mod.rs"]
mod samples;

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let (Some(Ok(seed)), Some(Ok(count)), None) = (arguments.next(), arguments.next(), arguments.next())
    else {
        eprintln!("usage: fuzz_codec SEED COUNT");
        std::process::exit(2);
    };
    let accepted = fuzz::run(seed, count);
    println!("seed {seed}: {count} tried, {accepted} were messages, no complaint");
}
