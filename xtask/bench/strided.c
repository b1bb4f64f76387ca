/* Independent strided access: each rank writes its pieces in one MPI_File_write_at and reads them back in one
 * MPI_File_read_at, through a view made of an MPI vector.
 *
 * usage: strided DIRECTORY MIB_PER_RANK
 *
 * Two patterns, pieces of 64 B to 64 KiB:
 *   interleaved: piece after piece, the ranks take turns; a rank's gap is the others' pieces
 *   separate:    each rank has a region of its own, in which every second piece is its data and the rest gap
 *
 * Each measurement has a new file; start-up, open, set_view and close are not in the times. Prints a line per
 * measurement: seconds from the first rank's start to the last rank's end (on one machine all ranks have the
 * same clock) of write and read, and 1 if all data read was right:
 *   strided interleaved 64 0.012345 0.012345 1
 */
#define _POSIX_C_SOURCE 200809L
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SMALLEST = 64, LARGEST = 64 * 1024 };

static int rank, ranks;

static void check(int code, const char *what) {
    if (code == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(code, text, &length);
    fprintf(stderr, "strided: rank %d: %s: %s\n", rank, what, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Differs between ranks, patterns and pieces, and repeats with no power of two. */
static unsigned char value(size_t at, unsigned seed) {
    return (unsigned char)((at * 7 + at / 251 + (size_t)rank * 31 + seed) % 253);
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

static void measure(const char *dir, int interleaved, int piece, size_t bytes, unsigned char *data) {
    char path[4096];
    snprintf(path, sizeof path, "%s/strided-%d-%d", dir, interleaved, piece);
    int pieces = (int)(bytes / (size_t)piece);
    int stride = interleaved ? ranks * piece : 2 * piece;
    MPI_Offset start = interleaved ? (MPI_Offset)rank * piece : (MPI_Offset)rank * 2 * (MPI_Offset)bytes;
    MPI_Datatype vector;
    check(MPI_Type_vector(pieces, piece, stride, MPI_BYTE, &vector), "type_vector");
    check(MPI_Type_commit(&vector), "type_commit");

    MPI_File file;
    MPI_Status status;
    int mode = MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE;
    check(MPI_File_open(MPI_COMM_WORLD, path, mode, MPI_INFO_NULL, &file), "open");
    check(MPI_File_set_view(file, start, MPI_BYTE, vector, "native", MPI_INFO_NULL), "set_view");
    unsigned seed = (unsigned)piece + (unsigned)interleaved;
    for (size_t i = 0; i < bytes; i++) data[i] = value(i, seed);

    MPI_Barrier(MPI_COMM_WORLD);
    double begin = now();
    check(MPI_File_write_at(file, 0, data, (int)bytes, MPI_BYTE, &status), "write_at");
    double written = span(begin, now());

    check(MPI_File_sync(file), "sync"); /* others' writes are seen only after sync, barrier, sync */
    MPI_Barrier(MPI_COMM_WORLD);
    check(MPI_File_sync(file), "sync");
    memset(data, 255, bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    begin = now();
    check(MPI_File_read_at(file, 0, data, (int)bytes, MPI_BYTE, &status), "read_at");
    double read = span(begin, now());

    int right = 1, all_right;
    for (size_t i = 0; i < bytes; i++) right &= data[i] == value(i, seed);
    MPI_Allreduce(&right, &all_right, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    check(MPI_File_close(&file), "close");
    check(MPI_Type_free(&vector), "type_free");
    if (rank == 0)
        printf("strided %s %d %.6f %.6f %d\n", interleaved ? "interleaved" : "separate", piece, written, read,
               all_right);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int mib = argc == 3 ? atoi(argv[2]) : 0;
    if (mib < 1 || mib > 1024) {
        if (rank == 0) fprintf(stderr, "usage: strided DIRECTORY MIB_PER_RANK (1 to 1024)\n");
        MPI_Finalize();
        return 2;
    }
    size_t bytes = (size_t)mib << 20;
    unsigned char *data = malloc(bytes);
    if (!data) check(MPI_ERR_NO_MEM, "malloc");
    memset(data, 1, bytes);
    for (int interleaved = 1; interleaved >= 0; interleaved--)
        for (int piece = SMALLEST; piece <= LARGEST; piece *= 4)
            measure(argv[1], interleaved, piece, bytes, data);
    free(data);
    MPI_Finalize();
    return 0;
}
