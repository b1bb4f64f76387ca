/* Writes a file in collective calls, and says how long the calls took and how long the close did.
 *
 *   staged FILE BYTES CALLS
 *
 * Each call writes BYTES bytes by all ranks together, in pieces of 4 KiB in turn.
 */
#include "../apps/check.h"

enum { PIECE = 4096 };

int main(int argc, char **argv)
{
    MPI_File f;
    MPI_Datatype piece, type;
    begin(&argc, &argv);
    if (argc != 4) FAIL("usage: %s FILE BYTES CALLS", argv[0]);
    int mine = atoi(argv[2]) / ranks, calls = atoi(argv[3]);
    EQUAL(mine % PIECE, 0);
    int32_t *data = zeroed((size_t)mine);
    MUST(MPI_Type_contiguous(PIECE, MPI_BYTE, &piece));
    MUST(MPI_Type_create_resized(piece, 0, ranks * PIECE, &type));
    MUST(MPI_Type_commit(&type));
    MUST(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f));
    MUST(MPI_File_set_view(f, (MPI_Offset)me * PIECE, MPI_BYTE, type, "native", MPI_INFO_NULL));
    double took[2] = {0, 0}, most[2];
    for (int call = 0; call < calls; call++) {
        for (int i = 0; i < mine / 4; i++) data[i] = value((int64_t)call * mine + i, me);
        MUST(MPI_Barrier(MPI_COMM_WORLD));
        double start = MPI_Wtime();
        MUST(MPI_File_write_all(f, data, mine, MPI_BYTE, MPI_STATUS_IGNORE));
        took[0] += MPI_Wtime() - start;
    }
    double start = MPI_Wtime();
    MUST(MPI_File_close(&f));
    took[1] = MPI_Wtime() - start;
    MUST(MPI_Reduce(took, most, 2, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD));
    if (me == 0) printf("writes %.6f s, close %.6f s\n", most[0], most[1]);
    /* The written bytes can be read. */
    int32_t *found = zeroed((size_t)mine);
    MUST(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDONLY, MPI_INFO_NULL, &f));
    MUST(MPI_File_set_view(f, (MPI_Offset)me * PIECE, MPI_BYTE, type, "native", MPI_INFO_NULL));
    for (int call = 0; call < calls; call++) {
        MUST(MPI_File_read_all(f, found, mine, MPI_BYTE, MPI_STATUS_IGNORE));
        for (int i = 0; i < mine / 4; i++) EQUAL(found[i], value((int64_t)call * mine + i, me));
    }
    MUST(MPI_File_close(&f));
    return finish();
}
