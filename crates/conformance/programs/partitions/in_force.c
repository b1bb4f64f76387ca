/* Shows the hints in force for a file of a partition, and writes to it in the way that they say.
 *
 *   in_force FILE [HINT VALUE]...
 *
 * The hints are those of the info object. Every rank compares what MPI_File_get_info returns with what rank 0 got.
 */
#include "../apps/check.h"

enum { BYTES = 1 << 20 };

static const char *const shown[] = {"pario_strategy",   "pario_network_buffer", "pario_tier1",
                                    "pario_tier1_size", "pario_tier1_high",     "pario_tier1_low"};

static void show(MPI_File f)
{
    MPI_Info info;
    MUST(MPI_File_get_info(f, &info));
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        char value[64] = "", first[64];
        int flag = 0;
        MUST(MPI_Info_get(info, shown[i], sizeof value - 1, value, &flag));
        EXPECT(flag);
        memcpy(first, value, sizeof first);
        MUST(MPI_Bcast(first, sizeof first, MPI_CHAR, 0, MPI_COMM_WORLD));
        EXPECT(strcmp(first, value) == 0);
        if (me == 0) printf("%s=%s\n", shown[i], value);
    }
    MUST(MPI_Info_free(&info));
}

int main(int argc, char **argv)
{
    static unsigned char data[BYTES], back[BYTES];
    MPI_File f;
    MPI_Info info;
    begin(&argc, &argv);
    MUST(MPI_Info_create(&info));
    for (int i = 2; i + 1 < argc; i += 2) MUST(MPI_Info_set(info, argv[i], argv[i + 1]));
    MUST(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, info, &f));
    MUST(MPI_Info_free(&info));
    show(f);
    for (int i = 0; i < BYTES; i++) data[i] = (unsigned char)(i * 31 + i / 257 + me);
    MUST(MPI_File_write_at_all(f, (MPI_Offset)me * BYTES, data, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
    MUST(MPI_File_sync(f));
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    MUST(MPI_File_read_at(f, (MPI_Offset)me * BYTES, back, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
    EXPECT(memcmp(data, back, BYTES) == 0);
    MUST(MPI_File_close(&f));
    return finish();
}
