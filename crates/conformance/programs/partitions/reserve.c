/* Reserves room on a partition whose storage is small.
 *
 *   reserve DIRECTORY ENOUGH TOO_MUCH
 *
 * MPI_File_preallocate of ENOUGH MiB succeeds, changes no byte and gives the file that size; all of it can be written
 * afterwards. One of TOO_MUCH MiB gives MPI_ERR_NO_SPACE on every rank, at once, and what was written stays.
 */
#include "../apps/check.h"

enum { MIB = 1 << 20 };

static void write_or_check(MPI_File f, int64_t mib, int checks)
{
    int32_t *data = zeroed(MIB), *found = zeroed(MIB);
    for (int i = 0; i < MIB / 4; i++) data[i] = value(mib * MIB + i, 0);
    if (!checks) {
        MUST(MPI_File_write_at(f, mib * MIB, data, MIB, MPI_BYTE, MPI_STATUS_IGNORE));
    } else {
        MUST(MPI_File_read_at(f, mib * MIB, found, MIB, MPI_BYTE, MPI_STATUS_IGNORE));
        EXPECT(memcmp(found, data, MIB) == 0);
    }
    free(data);
    free(found);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    if (argc != 4) FAIL("usage: %s DIRECTORY ENOUGH TOO_MUCH", argv[0]);
    int64_t enough = atoi(argv[2]), too_much = atoi(argv[3]);
    char path[4096];
    MPI_File f;
    MPI_Offset size;
    snprintf(path, sizeof path, "%s/file", argv[1]);
    MUST(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f));
    write_or_check(f, me, 0);
    MUST(MPI_File_sync(f));
    MUST(MPI_File_preallocate(f, enough * MIB));
    MUST(MPI_File_get_size(f, &size));
    EQUAL(size, enough * MIB);
    write_or_check(f, me, 1);
    /* A smaller one changes nothing. */
    MUST(MPI_File_preallocate(f, MIB));
    MUST(MPI_File_get_size(f, &size));
    EQUAL(size, enough * MIB);
    double start = MPI_Wtime();
    int code = MPI_File_preallocate(f, too_much * MIB), class = MPI_SUCCESS;
    MPI_Error_class(code, &class);
    printf("rank %d: %s at preallocate, longest call %.1f s\n", me,
           class == MPI_ERR_NO_SPACE ? "no-space" : "another", MPI_Wtime() - start);
    fflush(stdout);
    for (int64_t mib = me; mib < enough; mib += ranks) write_or_check(f, mib, 0);
    MUST(MPI_File_sync(f));
    for (int64_t mib = me; mib < enough; mib += ranks) write_or_check(f, mib, 1);
    MUST(MPI_File_close(&f));
    return finish();
}
