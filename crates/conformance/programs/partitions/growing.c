/* A program that goes on while servers are added to its partition.
 *
 *     growing DIRECTORY-OF-FILES DIRECTORY-OF-MARKS ROUNDS
 *
 * In each round the ranks write a new file through interleaved views, and more of a file that is open all the time. They read both
 * again and compare. Between two rounds rank 0 creates the mark `done.R` and all wait until there is a mark `go.R`.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { PIECE = 3000, PIECES = 40, WAIT_S = 60 };

static int failures;

static void check(int code, const char *what)
{
    if (code != MPI_SUCCESS) {
        char text[MPI_MAX_ERROR_STRING];
        int length;
        MPI_Error_string(code, text, &length);
        fprintf(stderr, "%s: %s\n", what, text);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static unsigned char value(int round, int rank, int at)
{
    return (unsigned char)(1 + (round * 31 + rank * 7 + at * 13 + at / 251) % 250);
}

/* Writes the rank's pieces of a round, and compares them with what can be read afterwards. */
static void write_and_read(MPI_File file, MPI_Offset start, int round, int rank, int ranks)
{
    static unsigned char bytes[PIECE * PIECES], back[PIECE * PIECES];
    MPI_Datatype pieces;
    for (int at = 0; at < PIECE * PIECES; at++)
        bytes[at] = value(round, rank, at);
    MPI_Type_vector(PIECES, PIECE, PIECE * ranks, MPI_BYTE, &pieces);
    MPI_Type_commit(&pieces);
    check(MPI_File_set_view(file, start + (MPI_Offset)rank * PIECE, MPI_BYTE, pieces, "native", MPI_INFO_NULL), "set_view");
    check(MPI_File_write_at_all(file, 0, bytes, PIECE * PIECES, MPI_BYTE, MPI_STATUS_IGNORE), "write_at_all");
    check(MPI_File_sync(file), "sync");
    check(MPI_File_read_at_all(file, 0, back, PIECE * PIECES, MPI_BYTE, MPI_STATUS_IGNORE), "read_at_all");
    for (int at = 0; at < PIECE * PIECES; at++)
        failures += back[at] != bytes[at];
    MPI_Type_free(&pieces);
}

static void wait_for(const char *marks, int round)
{
    char name[4096];
    time_t until = time(NULL) + WAIT_S;
    snprintf(name, sizeof name, "%s/done.%d", marks, round);
    FILE *mark = fopen(name, "w");
    if (mark)
        fclose(mark);
    snprintf(name, sizeof name, "%s/go.%d", marks, round);
    while (access(name, F_OK) != 0 && time(NULL) < until)
        usleep(2000);
}

int main(int argc, char **argv)
{
    int rank, ranks;
    char name[4096];
    MPI_File all, one;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 4)
        MPI_Abort(MPI_COMM_WORLD, 2);
    int rounds = atoi(argv[3]), create = MPI_MODE_CREATE | MPI_MODE_RDWR;
    snprintf(name, sizeof name, "%s/all", argv[1]);
    check(MPI_File_open(MPI_COMM_WORLD, name, create, MPI_INFO_NULL, &all), "open all");
    for (int round = 0; round < rounds; round++) {
        snprintf(name, sizeof name, "%s/round%d", argv[1], round);
        check(MPI_File_open(MPI_COMM_WORLD, name, create, MPI_INFO_NULL, &one), "open one");
        write_and_read(one, 0, round, rank, ranks);
        write_and_read(all, (MPI_Offset)round * PIECE * PIECES * ranks, round, rank, ranks);
        check(MPI_File_close(&one), "close one");
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0)
            wait_for(argv[2], round);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    check(MPI_File_close(&all), "close all");
    MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s\n", failures ? "failed" : "passed");
    MPI_Finalize();
    return failures != 0;
}
