/* Every rank opens a file of its own on the partition, all at once and without the others, writes it and reads it; then all open
   one file together. Prints "passed", or why not.

   first_use PREFIX            the files are PREFIX.RANK and PREFIX.all
   first_use PREFIX refused    the first open fails
   first_use PREFIX fails      rank 1 aborts the program with code 7 afterwards
   first_use PREFIX waits      it says "written" and waits for a signal */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT 50000

static void check(int code, const char *what) {
    char text[MPI_MAX_ERROR_STRING];
    int length;
    if (code == MPI_SUCCESS)
        return;
    MPI_Error_string(code, text, &length);
    printf("%s: %s\n", what, text);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void use(MPI_Comm comm, const char *name, int rank, int place) {
    static int written[COUNT], found[COUNT];
    MPI_File file;
    MPI_Status status;
    MPI_Offset at = (MPI_Offset)place * COUNT * sizeof(int);
    for (int i = 0; i < COUNT; i++)
        written[i] = rank * COUNT + i;
    check(MPI_File_open(comm, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file), "open");
    check(MPI_File_write_at_all(file, at, written, COUNT, MPI_INT, &status), "write");
    check(MPI_File_sync(file), "sync");
    check(MPI_File_read_at_all(file, at, found, COUNT, MPI_INT, &status), "read");
    if (memcmp(written, found, sizeof written) != 0) {
        printf("rank %d read other bytes than it wrote\n", rank);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    check(MPI_File_close(&file), "close");
}

int main(int argc, char **argv) {
    int rank;
    char name[4096];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc > 2 && strcmp(argv[2], "refused") == 0) {
        MPI_File file;
        int code = MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
        if (rank == 0)
            puts(code == MPI_SUCCESS ? "opened" : "refused");
        MPI_Finalize();
        return 0;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    snprintf(name, sizeof name, "%s.%d", argv[1], rank);
    use(MPI_COMM_SELF, name, rank, 0);
    snprintf(name, sizeof name, "%s.all", argv[1]);
    use(MPI_COMM_WORLD, name, rank, rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (argc > 2 && strcmp(argv[2], "fails") == 0 && rank == 1)
        MPI_Abort(MPI_COMM_WORLD, 7);
    if (argc > 2 && rank == 0) {
        puts("written");
        fflush(stdout);
    }
    while (argc > 2)
        sleep(1);
    if (rank == 0)
        puts("passed");
    MPI_Finalize();
    return 0;
}
