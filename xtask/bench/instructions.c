/* Repeats one MPI-IO operation, so that the instructions of two runs with different counts can be subtracted.
 *
 * usage: instructions OPERATION PATH COUNT
 *
 * Operations
 *   write     independent writes of 4 KiB in a file of 1 MiB that was written before
 *   read      independent reads of the same
 *   set-view  MPI_File_set_view with the view of the pattern bt
 *   bt        collective writes of the pattern bt (patterns.h) over the same bytes
 *   bt-alone  the same by one rank, with the part that rank 0 of four has
 *
 * Set-up, which every run does once: the file is written, and the operation is done once.
 */
#include "patterns.h"

enum { ACCESS = 4096, BLOCKS = 256 };

static MPI_File open_file(const char *path) {
    MPI_File file;
    check(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file), "open");
    return file;
}

static void small_accesses(MPI_File file, int reading, long count) {
    unsigned char *data = allocate(ACCESS);
    memset(data, 1, ACCESS);
    for (long i = 0; i < BLOCKS; i++)
        check(MPI_File_write_at(file, i * ACCESS, data, ACCESS, MPI_BYTE, MPI_STATUS_IGNORE), "write_at");
    for (long i = 0; i < count; i++) {
        MPI_Offset offset = i % BLOCKS * ACCESS;
        if (reading) check(MPI_File_read_at(file, offset, data, ACCESS, MPI_BYTE, MPI_STATUS_IGNORE), "read_at");
        else check(MPI_File_write_at(file, offset, data, ACCESS, MPI_BYTE, MPI_STATUS_IGNORE), "write_at");
    }
    free(data);
}

static void set_views(MPI_File file, long count) {
    struct plan plan = make("bt", 0);
    for (long i = 0; i <= count; i++)
        check(MPI_File_set_view(file, plan.call[0].start, MPI_BYTE, plan.call[0].file, "native", MPI_INFO_NULL),
              "set_view");
    drop(&plan);
}

static void collective_writes(MPI_File file, long count) {
    struct plan plan = make("bt", 0);
    struct access *call = &plan.call[0];
    unsigned char *data = allocate(plan.memory_bytes);
    memset(data, rank + 1, plan.memory_bytes);
    check(MPI_File_set_view(file, call->start, MPI_BYTE, call->file, "native", MPI_INFO_NULL), "set_view");
    for (long i = 0; i <= count; i++)
        check(MPI_File_write_at_all(file, 0, data, call->count, call->memory, MPI_STATUS_IGNORE), "write_at_all");
    free(data);
    drop(&plan);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    check_system(argc == 4, "usage: instructions OPERATION PATH COUNT");
    const char *operation = argv[1];
    long count = atol(argv[3]);
    MPI_File file = open_file(argv[2]);
    if (strcmp(operation, "write") == 0) small_accesses(file, 0, count);
    else if (strcmp(operation, "read") == 0) small_accesses(file, 1, count);
    else if (strcmp(operation, "set-view") == 0) set_views(file, count);
    else if (strcmp(operation, "bt") == 0) collective_writes(file, count);
    else if (strcmp(operation, "bt-alone") == 0) {
        check_system(ranks == 1, "bt-alone: one rank");
        ranks = 4;
        collective_writes(file, count);
    }
    else check_system(0, operation);
    check(MPI_File_close(&file), "close");
    if (rank == 0) check(MPI_File_delete(argv[2], MPI_INFO_NULL), "delete");
    MPI_Finalize();
    return 0;
}
