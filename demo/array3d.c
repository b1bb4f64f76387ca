/* A 3-D array of ints, distributed in blocks over the ranks, written to one file and read back.
 *
 * Each rank owns one block; the file holds the whole array in C order, so a block is many short pieces of
 * the file. A subarray datatype as file view says which, and two collective calls move the data:
 * MPI_File_write_all and MPI_File_read_all. It is an ordinary MPI program and knows nothing about Pario.
 *
 * usage: array3d FILE EDGE REPEATS
 *
 * Prints one line; times are in seconds, from the first rank's start to the last rank's end, averaged over the
 * repeats. (So it has to run on one machine, where all ranks have the same clock.)
 *   array3d ranks=4 edge=256 repeats=3 bytes=67108864 write=0.1 read=0.1 total=0.2
 * "total" is the time from open to close, of the write and of the read together. The exit code is 1 if a
 * value read is not the value written.
 */
#define _POSIX_C_SOURCE 200809L
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { DIMS = 3 };

static int rank;

static void check(int code, const char *what) {
    if (code == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(code, text, &length);
    fprintf(stderr, "array3d: rank %d: %s: %s\n", rank, what, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* From the first rank's start to the last rank's end. Collective. */
static double span(double start, double end) {
    double mine[2] = {-start, end}, all[2];
    MPI_Allreduce(mine, all, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return all[1] + all[0];
}

/* One rank's share of the array. */
struct block {
    int edge;          /* of the whole array */
    int start[DIMS];
    int size[DIMS];
    int count;         /* ints in it */
};

static struct block share(int edge, int ranks) {
    struct block b = {.edge = edge, .count = 1};
    int grid[DIMS] = {0, 0, 0};
    MPI_Dims_create(ranks, DIMS, grid);
    int rest = rank;
    for (int d = DIMS - 1; d >= 0; d--) {
        int at = rest % grid[d];
        rest /= grid[d];
        b.start[d] = (int)((long long)edge * at / grid[d]);
        b.size[d] = (int)((long long)edge * (at + 1) / grid[d]) - b.start[d];
        b.count *= b.size[d];
    }
    return b;
}

/* The value at a place depends on the place and the repeat, so that stale or misplaced data is seen. */
static int value(const struct block *b, int i, int j, int k, int repeat) {
    unsigned index = ((unsigned)(b->start[0] + i) * (unsigned)b->edge + (unsigned)(b->start[1] + j)) *
                         (unsigned)b->edge + (unsigned)(b->start[2] + k);
    return (int)(index ^ ((unsigned)repeat * 0x9e3779b9u));
}

static void fill(const struct block *b, int *data, int repeat) {
    for (int i = 0; i < b->size[0]; i++)
        for (int j = 0; j < b->size[1]; j++)
            for (int k = 0; k < b->size[2]; k++) *data++ = value(b, i, j, k, repeat);
}

static long mismatches(const struct block *b, const int *data, int repeat) {
    long wrong = 0;
    for (int i = 0; i < b->size[0]; i++)
        for (int j = 0; j < b->size[1]; j++)
            for (int k = 0; k < b->size[2]; k++) wrong += *data++ != value(b, i, j, k, repeat);
    return wrong;
}

static void expect_count(MPI_Status *status, const struct block *b, const char *what) {
    int moved;
    MPI_Get_count(status, MPI_INT, &moved);
    if (moved == b->count) return;
    fprintf(stderr, "array3d: rank %d: %s moved %d of %d ints\n", rank, what, moved, b->count);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

struct times {
    double move, total;
};

/* Opens the file with the block as view, moves all data once and closes. */
static struct times move(const char *path, const struct block *b, MPI_Datatype view, int *data, int write) {
    MPI_File file;
    MPI_Status status;
    MPI_Barrier(MPI_COMM_WORLD);
    double before = now();
    int mode = write ? MPI_MODE_CREATE | MPI_MODE_WRONLY : MPI_MODE_RDONLY;
    check(MPI_File_open(MPI_COMM_WORLD, path, mode, MPI_INFO_NULL, &file), "open");
    check(MPI_File_set_view(file, 0, MPI_INT, view, "native", MPI_INFO_NULL), "set_view");
    MPI_Barrier(MPI_COMM_WORLD);
    double start = now();
    if (write)
        check(MPI_File_write_all(file, data, b->count, MPI_INT, &status), "write_all");
    else
        check(MPI_File_read_all(file, data, b->count, MPI_INT, &status), "read_all");
    double end = now();
    expect_count(&status, b, write ? "write_all" : "read_all");
    check(MPI_File_close(&file), "close");
    double after = now();
    return (struct times){span(start, end), span(before, after)};
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int edge = argc == 4 ? atoi(argv[2]) : 0, repeats = argc == 4 ? atoi(argv[3]) : 0;
    if (edge < ranks || edge > 1290 || repeats < 1) {
        if (rank == 0) fprintf(stderr, "usage: array3d FILE EDGE REPEATS (EDGE from the ranks to 1290)\n");
        MPI_Finalize();
        return 2;
    }
    const char *path = argv[1];
    struct block b = share(edge, ranks);
    int whole[DIMS] = {edge, edge, edge};
    MPI_Datatype view;
    MPI_Type_create_subarray(DIMS, whole, b.size, b.start, MPI_ORDER_C, MPI_INT, &view);
    MPI_Type_commit(&view);
    int *data = malloc((size_t)b.count * sizeof *data);
    if (!data) check(MPI_ERR_NO_MEM, "malloc");

    double written = 0, read = 0, total = 0;
    long wrong = 0, wrong_anywhere;
    for (int repeat = 0; repeat < repeats; repeat++) {
        fill(&b, data, repeat);
        struct times out = move(path, &b, view, data, 1);
        for (int i = 0; i < b.count; i++) data[i] = -1;
        struct times in = move(path, &b, view, data, 0);
        written += out.move / repeats;
        read += in.move / repeats;
        total += (out.total + in.total) / repeats;
        wrong += mismatches(&b, data, repeat);
    }
    MPI_Allreduce(&wrong, &wrong_anywhere, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0 && wrong_anywhere)
        fprintf(stderr, "array3d: %ld values read differ from those written\n", wrong_anywhere);
    if (rank == 0)
        printf("array3d ranks=%d edge=%d repeats=%d bytes=%lld write=%.6f read=%.6f total=%.6f\n", ranks, edge,
               repeats, (long long)edge * edge * edge * (long long)sizeof(int), written, read, total);
    free(data);
    MPI_Type_free(&view);
    MPI_Finalize();
    return wrong_anywhere != 0;
}
