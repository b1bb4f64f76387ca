//! Which models there are, and who writes what in them: the known numbers, and that every byte is written once.

use pario_io_models::{Bin, GridError, Model, ModelGrid, ProcessShare, Spot};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

fn grid(nodes: u32, ppn: u32) -> ModelGrid {
    ModelGrid::new(nodes, ppn, u64::from(nodes * ppn) * 65536, 65536).expect("sound")
}

fn bins(models: &[Model]) -> BTreeMap<Bin, usize> {
    let mut bins = BTreeMap::new();
    for model in models {
        *bins.entry(model.bin()).or_default() += 1;
    }
    bins
}

#[test]
fn there_are_as_many_models_as_the_method_says() {
    for (nodes, ppn, count) in [(1, 1, 1), (1, 2, 3), (2, 2, 9), (4, 4, 36), (8, 8, 100), (32, 16, 315)] {
        let models = grid(nodes, ppn).models();
        assert_eq!(models.len(), count, "{nodes} x {ppn}");
        assert_eq!(models.iter().collect::<BTreeSet<_>>().len(), count);
    }
}

#[test]
fn the_large_grid_has_55_cells_and_12_models_in_the_fullest() {
    let bins = bins(&grid(32, 16).models());
    assert_eq!(bins.len(), 55);
    let fullest: Vec<_> = bins.iter().filter(|(_, count)| **count >= 12).collect();
    assert_eq!(fullest, [(&Bin { procs: 6, per_file: 3 }, &12)]);
}

#[test]
fn the_example_of_four_files_on_four_nodes_has_eight_writers_a_file() {
    let model = Model::new(4, 8, 4, 4).expect("sound");
    assert_eq!((model.procs_per_file(), model.files()), (8, 4));
    let writers = model.spots().filter(|spot| model.share(*spot, 1 << 20).file == 0);
    let writers: Vec<_> = writers.map(|spot| (spot.node, spot.core)).collect();
    assert_eq!(writers, [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1), (3, 0), (3, 1)]);
}

#[test]
fn common_models_have_their_names() {
    let name = |nodes, ppn, files, shared| Model::new(nodes, ppn, files, shared).and_then(Model::common_name);
    assert_eq!(name(1, 1, 1, 1), Some("serial"));
    assert_eq!(name(2, 4, 4, 1), Some("file per process"));
    assert_eq!(name(2, 4, 1, 2), Some("single shared file"));
    assert_eq!(name(2, 4, 1, 1), Some("file per node"));
    assert_eq!(name(2, 4, 2, 1), None);
    assert_eq!(Model::new(2, 4, 8, 1), None);
    assert_eq!(Model::new(2, 4, 1, 4), None);
    assert_eq!(Model::new(3, 4, 1, 1), None);
}

#[test]
fn what_cannot_be_is_refused_with_a_way_out() {
    assert_eq!(ModelGrid::new(3, 4, 1 << 20, 1), Err(GridError::NotAPower { what: "nodes", number: 3 }));
    assert_eq!(
        ModelGrid::new(2, 0, 1 << 20, 1),
        Err(GridError::NotAPower { what: "processes per node", number: 0 })
    );
    assert!(matches!(ModelGrid::new(1 << 15, 1 << 15, 1 << 40, 1), Err(GridError::TooMany(_))));
    let uneven = |size, stripe| ModelGrid::new(2, 2, size, stripe).expect_err("uneven").to_string();
    assert_eq!(
        uneven(1000000, 65536),
        "1000000 bytes do not make whole stripes of 64 KiB for each of 4 processes: take 768 KiB, take 1 MiB or a \
         smaller stripe"
    );
    for (size, stripe) in [(0, 65536), (65536, 0), (u64::MAX, 65536), (1, u64::MAX)] {
        assert!(uneven(size, stripe).contains("stripe"));
    }
}

fn any_model() -> impl Strategy<Value = Model> {
    (0u8..6, 0u8..6)
        .prop_flat_map(|(a, b)| (Just(a), Just(b), 0..=b, 0..=a))
        .prop_map(|(a, b, k, j)| Model::from_logs(a, b, k, j).expect("sound"))
}

proptest! {
    #[test]
    fn every_byte_of_every_file_is_written_by_one(model in any_model(), stripes in 1u64..4) {
        let size = u64::from(model.procs()) * stripes * 512;
        let mut files: BTreeMap<u32, Vec<ProcessShare>> = BTreeMap::new();
        for spot in model.spots() {
            prop_assert!(model.has(spot));
            let share = model.share(spot, size);
            files.entry(share.file).or_default().push(share);
        }
        prop_assert_eq!(files.len() as u32, model.files());
        prop_assert_eq!(files.keys().copied().max(), Some(model.files() - 1));
        let mut total = 0;
        for shares in files.values_mut() {
            prop_assert_eq!(shares.len() as u32, model.procs_per_file());
            shares.sort();
            for (share, place) in shares.iter().zip(0u64..) {
                prop_assert_eq!((share.offset, share.len), (place * stripes * 512, stripes * 512));
                total += share.len;
            }
        }
        prop_assert_eq!(total, size);
    }

    #[test]
    fn the_file_of_a_process_follows_the_formula(model in any_model()) {
        let (c, f, m) = (model.ppn(), model.files_per_node(), model.shared_nodes());
        for node in 0..model.nodes() {
            for core in 0..c {
                let wanted = node / m * f + core / (c / f);
                prop_assert_eq!(model.share(Spot { node, core }, 1 << 30).file, wanted);
            }
        }
    }

    #[test]
    fn processes_are_counted_node_by_node(model in any_model()) {
        let spots: Vec<Spot> = model.spots().collect();
        prop_assert!(spots.is_sorted());
        for (spot, number) in spots.iter().zip(0u32..) {
            prop_assert_eq!(model.number(*spot), number);
        }
        let beyond = [Spot { node: model.nodes(), core: 0 }, Spot { node: 0, core: model.ppn() }];
        prop_assert!(!beyond.iter().any(|spot| model.has(*spot)));
        prop_assert_eq!(model.procs(), model.files() * model.procs_per_file());
    }
}
