//! Threads write the tiles of one matrix, each through a view of its own; then the rows are checked.
//!
//! ```text
//! cargo run --release --example parallel_write -- scratch
//! ```

use pario::{File, Offset, OpenOptions, Pos, view};

/// The numbers of the matrix in each direction, and of a tile.
const SIZE: u64 = 1024;
const TILE: u64 = 512;
const NUMBER: u64 = 8;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let name = std::env::args().nth(1).unwrap_or_else(|| "scratch".into());
    let partition = pario::open(&name)?;
    let file = partition.open("/matrix", OpenOptions::new().read(true).write(true).create(true))?;
    let start = std::time::Instant::now();
    std::thread::scope(|scope| {
        let tiles = (0..SIZE / TILE).flat_map(|row| (0..SIZE / TILE).map(move |column| (row, column)));
        let writers: Vec<_> = tiles
            .map(|tile| {
                scope.spawn({
                    let file = &file;
                    move || write_tile(file, tile).map_err(|e| e.to_string())
                })
            })
            .collect();
        writers.into_iter().try_for_each(|writer| writer.join().expect("no panic"))
    })?;
    file.sync()?;
    let megabytes = (SIZE * SIZE * NUMBER) as f64 / 1e6;
    println!("{megabytes:.1} MB in {:.1} ms", start.elapsed().as_secs_f64() * 1e3);

    let mut row = vec![0; (SIZE * NUMBER) as usize];
    for number in 0..SIZE {
        file.read_exact_at(&mut row, number * SIZE * NUMBER)?;
        let values =
            row.chunks(NUMBER as usize).map(|bytes| u64::from_le_bytes(bytes.try_into().expect("8 bytes")));
        assert!(values.eq((0..SIZE).map(|column| number * SIZE + column)), "row {number}");
    }
    println!("every number is where it should be");
    file.close()?;
    Ok(())
}

/// Every number is its own index in the matrix.
fn write_tile(file: &File, (row, column): (u64, u64)) -> Result<(), Box<dyn std::error::Error>> {
    let tile = view::subarray(Offset(0), &[SIZE, SIZE], &[TILE, TILE], &[row * TILE, column * TILE], NUMBER)?;
    let values = (0..TILE * TILE).map(|i| (row * TILE + i / TILE) * SIZE + column * TILE + i % TILE);
    let bytes: Vec<u8> = values.flat_map(u64::to_le_bytes).collect();
    file.write_view(&tile, Pos(0), &bytes)?;
    Ok(())
}
