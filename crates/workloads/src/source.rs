//! The C sources of `pario-workload`, as they were when this crate was built.

/// (file name, text) of each file, in the order of their names.
pub const FILES: &[(&str, &str)] = &[
    ("btio.c", include_str!("../c/btio.c")),
    ("coll_perf.c", include_str!("../c/coll_perf.c")),
    ("describe.c", include_str!("../c/describe.c")),
    ("describe.h", include_str!("../c/describe.h")),
    ("fft.c", include_str!("../c/fft.c")),
    ("flash.c", include_str!("../c/flash.c")),
    ("jacobi.c", include_str!("../c/jacobi.c")),
    ("json.c", include_str!("../c/json.c")),
    ("json.h", include_str!("../c/json.h")),
    ("main.c", include_str!("../c/main.c")),
    ("mandelbrot.c", include_str!("../c/mandelbrot.c")),
    ("options.c", include_str!("../c/options.c")),
    ("options.h", include_str!("../c/options.h")),
    ("pattern.c", include_str!("../c/pattern.c")),
    ("pattern.h", include_str!("../c/pattern.h")),
    ("plan.c", include_str!("../c/plan.c")),
    ("plan.h", include_str!("../c/plan.h")),
    ("regions.c", include_str!("../c/regions.c")),
    ("report.c", include_str!("../c/report.c")),
    ("report.h", include_str!("../c/report.h")),
    ("run.c", include_str!("../c/run.c")),
    ("run.h", include_str!("../c/run.h")),
    ("s3d.c", include_str!("../c/s3d.c")),
    ("scattered.c", include_str!("../c/scattered.c")),
    ("seismic.c", include_str!("../c/seismic.c")),
    ("store.c", include_str!("../c/store.c")),
    ("store.h", include_str!("../c/store.h")),
    ("tile.c", include_str!("../c/tile.c")),
    ("types.c", include_str!("../c/types.c")),
    ("types.h", include_str!("../c/types.h")),
    ("workload.c", include_str!("../c/workload.c")),
    ("workload.h", include_str!("../c/workload.h")),
];

#[cfg(test)]
mod tests {
    use super::FILES;

    #[test]
    fn no_file_is_forgotten() {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/c");
        let mut there: Vec<String> = std::fs::read_dir(dir)
            .expect("the directory of the sources")
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
            .collect();
        there.sort();
        let known: Vec<&str> = FILES.iter().map(|(name, _)| *name).collect();
        assert_eq!(there, known);
    }
}
