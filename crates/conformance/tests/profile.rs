//! A real program is profiled, and the plan knows which bytes of a view each rank used.

use std::process::Command;
use std::time::Duration;

use pario_conformance::{BOTH, SourceKind, compile_text, execute, libpario, pario, scratch};

/// Each rank writes eight blocks of 4 KiB in turns through a view, and reads the first 100 bytes.
const PROGRAM: &str = r#"
#include <mpi.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    int rank, ranks;
    MPI_File file;
    MPI_Datatype turns;
    char *data = calloc(8, 4096);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_File_open(MPI_COMM_WORLD, "out.dat", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    MPI_Type_vector(8, 4096, 4096 * ranks, MPI_BYTE, &turns);
    MPI_Type_commit(&turns);
    MPI_File_set_view(file, 4096 * rank, MPI_BYTE, turns, "native", MPI_INFO_NULL);
    MPI_File_write_all(file, data, 8 * 4096, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
    MPI_File_read_at(file, 0, data, 100, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_Type_free(&turns);
    MPI_File_close(&file);
    MPI_Finalize();
    return 3;
}
"#;

#[test]
fn the_plan_of_a_profiled_program_follows_its_views() {
    for host in BOTH {
        let program = compile_text(host, "turns.c", PROGRAM, SourceKind::C, &[]);
        let dir = scratch();
        let run = |arguments: &[&str]| {
            let mut command = Command::new(pario());
            command.args(arguments).current_dir(dir.path()).env("PARIO_LIB", libpario());
            execute(command, Duration::from_secs(60))
        };
        let profiled = run(&["profile", "-n", "2", "--", program.to_str().expect("a path")]);
        assert_eq!(profiled.code(), Some(3), "{}", profiled.stderr);
        assert!(profiled.stderr.contains("2 of 2 ranks used MPI-IO"), "{}", profiled.stderr);
        assert!(profiled.stderr.contains("recording cost"), "{}", profiled.stderr);
        assert!(dir.join("out.dat").is_file(), "the program ran");

        let plan = run(&["plan", "pario-trace"]);
        assert!(plan.success(), "{}", plan.stderr);
        // Rank 0's first block has a part that rank 1 reads.
        assert!(plan.stdout.starts_with("17 chunks, 1 file and 2 processes"), "{}", plan.stdout);
        assert!(plan.stdout.contains("0+100, 100+3996, 8192+4096, 16384+4096"), "{}", plan.stdout);
        let advice = run(&["advise", "pario-trace"]);
        assert!(advice.stdout.contains("no advice"), "{} {}", advice.stdout, advice.stderr);
    }
}
