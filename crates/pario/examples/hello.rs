//! Writes a file to a partition and reads it back.
//!
//! ```text
//! pario up scratch.toml
//! cargo run --example hello -- scratch
//! ```

use pario::OpenOptions;

fn main() -> pario::Result<()> {
    let name = std::env::args().nth(1).unwrap_or_else(|| "scratch".into());
    let partition = pario::open(&name)?;
    let file =
        partition.open("/hello", OpenOptions::new().read(true).write(true).create(true).truncate(true))?;
    file.write_at(b"Hello from a partition!\n", 0)?;
    let mut text = vec![0; file.len()? as usize];
    file.read_exact_at(&mut text, 0)?;
    print!("{}", String::from_utf8_lossy(&text));
    file.close()
}
