//! The workloads and their presets, with the bytes that each writes computed from the papers' descriptions rather than from
//! the program's patterns. Tests compare both.

/// A workload.
#[derive(Debug)]
pub struct WorkloadInfo {
    /// Its name.
    pub name: &'static str,
    /// Its accesses.
    pub about: &'static str,
    /// Whether the number of steps can be chosen.
    pub steps: bool,
    /// The numbers of ranks that it supports.
    pub ranks: Ranks,
    /// Its sizes, `small` first.
    pub presets: &'static [Preset],
}

/// The numbers of ranks that a workload supports, unless they are too many for its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ranks {
    /// Any.
    Any,
    /// 1, 4, 9, 16, …
    Square,
    /// 1, 2, 4, 8, …
    PowerOfTwo,
}

/// A size of a workload.
#[derive(Debug)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// Its amount of data, and its source.
    pub about: &'static str,
    written: fn(u64) -> u64,
}

impl Preset {
    /// Bytes that all of so many ranks write, intermediate files included.
    pub fn written(&self, ranks: u64) -> u64 {
        (self.written)(ranks)
    }
}

impl Ranks {
    /// Whether it includes this number.
    pub fn allow(self, ranks: u32) -> bool {
        match self {
            Ranks::Any => ranks > 0,
            Ranks::Square => ranks > 0 && ranks.isqrt().pow(2) == ranks,
            Ranks::PowerOfTwo => ranks.is_power_of_two(),
        }
    }
}

/// The workload of that name.
pub fn workload(name: &str) -> Option<&'static WorkloadInfo> {
    WORKLOADS.iter().find(|known| known.name == name)
}

const MIB: u64 = 1 << 20;

/// Values in the blocks of so many ranks of FLASH, if a block has this many: 80, 81 or 82 blocks a rank.
const fn flash_values(ranks: u64, block: u64) -> u64 {
    let mut blocks = 0;
    let mut rank = 0;
    while rank < ranks {
        blocks += 80 + rank % 3;
        rank += 1;
    }
    blocks * block
}

/// A checkpoint of 24 variables in double precision, and 4 in single precision at centres and at corners.
const fn flash(ranks: u64, cells: u64) -> u64 {
    let corners = cells + 1;
    24 * 8 * flash_values(ranks, cells * cells * cells)
        + 4 * 4 * flash_values(ranks, cells * cells * cells)
        + 4 * 4 * flash_values(ranks, corners * corners * corners)
}

/// Arrays of points of five doubles.
const fn bt(edge: u64, arrays: u64) -> u64 {
    arrays * edge * edge * edge * 5 * 8
}

/// Checkpoints with 11, 3, 1 and 1 doubles a point.
const fn s3d(ranks: u64, edge: u64, checkpoints: u64) -> u64 {
    checkpoints * ranks * edge * edge * edge * (11 + 3 + 1 + 1) * 8
}

/// All workloads.
pub const WORKLOADS: &[WorkloadInfo] = &[
    WorkloadInfo {
        name: "coll_perf",
        about: "a 3-D array of ints in blocks over all ranks",
        steps: true,
        ranks: Ranks::Any,
        presets: &[
            Preset {
                name: "small",
                about: "24 x 24 x 24 ints a rank, twice",
                written: |ranks| 2 * ranks * 4 * 24_u64.pow(3),
            },
            Preset {
                name: "medium",
                about: "160 x 160 x 160 ints a rank, twice",
                written: |ranks| 2 * ranks * 4 * 160_u64.pow(3),
            },
            Preset {
                name: "fdp-128",
                about: "128 x 128 x 128 ints a rank, ten times (file-domain partitioning, IV.A)",
                written: |ranks| 10 * ranks * 8 * MIB,
            },
            Preset {
                name: "fdp-100",
                about: "100 x 100 x 100 ints a rank, ten times: aligned with nothing (the same)",
                written: |ranks| 10 * ranks * 4_000_000,
            },
        ],
    },
    WorkloadInfo {
        name: "btio",
        about: "a cube of points in diagonal cells, with ghost points in memory; square numbers of ranks",
        steps: true,
        ranks: Ranks::Square,
        presets: &[
            Preset {
                name: "small",
                about: "12 x 12 x 12 points, 5 arrays (class S)",
                written: |_| bt(12, 5),
            },
            Preset { name: "medium", about: "64 x 64 x 64 points, 5 arrays", written: |_| bt(64, 5) },
            Preset {
                name: "bt-A",
                about: "class A: 64 x 64 x 64 points, 40 arrays",
                written: |_| bt(64, 40),
            },
            Preset {
                name: "bt-B",
                about: "class B: 102 x 102 x 102 points, 40 arrays (AHPIOS runs have --steps 5)",
                written: |_| bt(102, 40),
            },
            Preset {
                name: "bt-C",
                about: "class C: 162 x 162 x 162 points, 40 arrays",
                written: |_| bt(162, 40),
            },
        ],
    },
    WorkloadInfo {
        name: "flash",
        about: "FLASH I/O: 24 variables of 80 to 82 blocks a rank to a checkpoint and two plot files",
        steps: true,
        ranks: Ranks::Any,
        presets: &[
            Preset { name: "small", about: "blocks of 4 x 4 x 4 cells", written: |ranks| flash(ranks, 4) },
            Preset { name: "medium", about: "blocks of 8 x 8 x 8 cells", written: |ranks| flash(ranks, 8) },
            Preset {
                name: "fdp",
                about: "32 x 32 x 32 cells: 20 to 20.5 MiB a rank and variable (file-domain partitioning, IV.C)",
                written: |ranks| flash(ranks, 32),
            },
        ],
    },
    WorkloadInfo {
        name: "s3d",
        about: "checkpoints of four arrays over a 3-D grid, with 11, 3, 1 and 1 doubles a point",
        steps: true,
        ranks: Ranks::Any,
        presets: &[
            Preset {
                name: "small",
                about: "12 x 12 x 12 points a rank, 2 checkpoints",
                written: |ranks| s3d(ranks, 12, 2),
            },
            Preset {
                name: "medium",
                about: "50 x 50 x 50 points a rank, 2 checkpoints",
                written: |ranks| s3d(ranks, 50, 2),
            },
            Preset {
                name: "fdp",
                about: "50 x 50 x 50 points, 10 times: 15.26 MiB a rank each (file-domain partitioning, IV.D)",
                written: |ranks| s3d(ranks, 50, 10),
            },
        ],
    },
    WorkloadInfo {
        name: "tile",
        about: "a 2-D file of bytes in tiles that may overlap",
        steps: true,
        ranks: Ranks::Any,
        presets: &[
            Preset {
                name: "small",
                about: "tiles of 256 rows of 1000 bytes that overlap by 10 rows and 32 bytes",
                written: |ranks| ranks * 256 * 1000,
            },
            Preset {
                name: "medium",
                about: "tiles of 4096 rows of 4 KiB that overlap by 16 rows and 128 bytes",
                written: |ranks| ranks * 16 * MIB,
            },
            Preset {
                name: "ahpios",
                about: "1 GiB in rows of 4 KiB for any number of ranks (AHPIOS, table 3)",
                written: |_| 1024 * MIB,
            },
            Preset {
                name: "profile",
                about: "32 KiB a rank, 2 KiB of it shared with the next (profile-guided partitioning)",
                written: |ranks| ranks * 32 * 1024,
            },
        ],
    },
    WorkloadInfo {
        name: "contiguous",
        about: "a large contiguous region a rank, in one independent call, synced",
        steps: true,
        ranks: Ranks::Any,
        presets: &[
            Preset { name: "small", about: "1 MiB a rank", written: |ranks| ranks * MIB },
            Preset { name: "medium", about: "32 MiB a rank", written: |ranks| ranks * 32 * MIB },
            Preset {
                name: "gpfs",
                about: "333 MiB a rank (MPI-IO/GPFS, 4.2.1)",
                written: |ranks| ranks * 333 * MIB,
            },
        ],
    },
    WorkloadInfo {
        name: "discontiguous",
        about: "blocks of 1 KiB dealt out at random, by datatype views, synced",
        steps: false,
        ranks: Ranks::Any,
        presets: &[
            Preset {
                name: "small",
                about: "512 KiB a rank, in views of 1 MiB",
                written: |ranks| ranks * MIB / 2,
            },
            Preset { name: "medium", about: "16 MiB a rank, in one view", written: |ranks| ranks * 16 * MIB },
            Preset {
                name: "gpfs",
                about: "333 MiB a rank, in views of 2 GiB (MPI-IO/GPFS, 4.2.2)",
                written: |ranks| ranks * 333 * MIB,
            },
        ],
    },
    WorkloadInfo {
        name: "partitioning",
        about: "blocks dealt out at random, an independent call each, with the hints for file partitioning",
        steps: false,
        ranks: Ranks::Any,
        presets: &[
            Preset { name: "small", about: "64 blocks of 8 KiB a rank", written: |ranks| ranks * 64 * 8192 },
            Preset {
                name: "medium",
                about: "2000 blocks of 8 KiB a rank",
                written: |ranks| ranks * 2000 * 8192,
            },
            Preset {
                name: "gpfs",
                about: "10,000 blocks of 8 KiB a rank (MPI-IO/GPFS, 4.2.3)",
                written: |ranks| ranks * 10_000 * 8192,
            },
        ],
    },
    WorkloadInfo {
        name: "ranges",
        about: "short pieces within blocks dealt out at random, with the hints for data shipping",
        steps: false,
        ranks: Ranks::Any,
        presets: &[
            Preset {
                name: "small",
                about: "8 blocks of 64 KiB a rank, 16 pieces of 1 KiB in each",
                written: |ranks| ranks * 8 * 16 * 1024,
            },
            Preset {
                name: "medium",
                about: "100 blocks of 256 KiB a rank, 4 pieces of 1 KiB in each",
                written: |ranks| ranks * 100 * 4 * 1024,
            },
            Preset {
                name: "gpfs",
                about: "100 blocks of 256 KiB a rank, 16 pieces of 1 KiB in each (MPI-IO/GPFS, 4.2.4)",
                written: |ranks| ranks * 100 * 16 * 1024,
            },
        ],
    },
    WorkloadInfo {
        name: "perf",
        about: "ROMIO's perf: a block at an offset by rank, once without and once with sync",
        steps: true,
        ranks: Ranks::Any,
        presets: &[
            Preset {
                name: "small",
                about: "256 KiB a rank, to each of two files",
                written: |ranks| 2 * ranks * MIB / 4,
            },
            Preset {
                name: "medium",
                about: "4 MiB a rank, to each of two files",
                written: |ranks| 2 * ranks * 4 * MIB,
            },
            Preset {
                name: "profile",
                about: "1 MiB a rank, to each of two files (profile-guided partitioning)",
                written: |ranks| 2 * ranks * MIB,
            },
        ],
    },
    WorkloadInfo {
        name: "mandelbrot",
        about: "a picture computed by columns, band by band, and read by rows",
        steps: true,
        ranks: Ranks::Any,
        presets: &[
            Preset { name: "small", about: "600 x 600 pixels", written: |_| 600 * 600 },
            Preset { name: "medium", about: "4096 x 4096 pixels: 16 MiB", written: |_| 16 * MIB },
            Preset {
                name: "profile",
                about: "16384 x 16384 pixels: 256 MiB (profile-guided partitioning)",
                written: |_| 256 * MIB,
            },
        ],
    },
    WorkloadInfo {
        name: "jacobi",
        about: "out-of-core Jacobi sweeps between two files, in blocks with halo",
        steps: true,
        ranks: Ranks::Any,
        presets: &[
            Preset {
                name: "small",
                about: "256 x 128 points, 2 sweeps",
                written: |_| (1 + 2) * 256 * 128 * 8,
            },
            Preset {
                name: "medium",
                about: "2048 x 1024 points: 16 MiB a file, 4 sweeps",
                written: |_| (1 + 4) * 16 * MIB,
            },
            Preset {
                name: "profile",
                about: "4096 x 2048 points: 64 MiB a file, 1 sweep (profile-guided partitioning)",
                written: |_| (1 + 1) * 64 * MIB,
            },
        ],
    },
    WorkloadInfo {
        name: "fft",
        about: "out-of-core Fourier transform: columns to rows in three passes; powers of two of ranks",
        steps: false,
        ranks: Ranks::PowerOfTwo,
        presets: &[
            Preset { name: "small", about: "65,536 numbers", written: |_| 4 * 65_536 * 8 },
            Preset { name: "medium", about: "4 Mi numbers: 32 MiB a file", written: |_| 4 * 32 * MIB },
            Preset {
                name: "profile",
                about: "1 Mi numbers: 8 MiB a file (profile-guided partitioning)",
                written: |_| 4 * 8 * MIB,
            },
        ],
    },
    WorkloadInfo {
        name: "seismic",
        about: "traces written 96 KiB a call and read 2 KiB a call, by other ranks",
        steps: false,
        ranks: Ranks::Any,
        presets: &[
            Preset { name: "small", about: "32 chunks of 96 KiB", written: |_| 3 * MIB },
            Preset { name: "medium", about: "1024 chunks of 96 KiB: 96 MiB", written: |_| 96 * MIB },
            Preset {
                name: "profile",
                about: "16384 chunks of 96 KiB: 1.6 GB (profile-guided partitioning)",
                written: |_| 1536 * MIB,
            },
        ],
    },
];
