/* How fast the host MPI copies strided memory: MPI_Pack and MPI_Unpack of a vector with equal pieces and gaps.
 *
 * usage: pack
 *
 * Prints a line per piece size, the median of several rounds in bytes of data per second:
 *   pack 64 pack=1.5e9 unpack=1.5e9
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 8 << 20, ROUNDS = 15 };

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *times) {
    qsort(times, ROUNDS, sizeof *times, ascending);
    return times[ROUNDS / 2];
}

static void measure(int piece, char *strided, char *packed) {
    MPI_Datatype vector;
    MPI_Type_vector(BYTES / piece, piece, 2 * piece, MPI_BYTE, &vector);
    MPI_Type_commit(&vector);
    double pack[ROUNDS], unpack[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        int at = 0;
        double start = MPI_Wtime();
        MPI_Pack(strided, 1, vector, packed, BYTES, &at, MPI_COMM_SELF);
        double middle = MPI_Wtime();
        at = 0;
        MPI_Unpack(packed, BYTES, &at, strided, 1, vector, MPI_COMM_SELF);
        pack[round] = middle - start;
        unpack[round] = MPI_Wtime() - middle;
    }
    printf("pack %d pack=%.3e unpack=%.3e\n", piece, BYTES / median(pack), BYTES / median(unpack));
    MPI_Type_free(&vector);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    char *strided = malloc(2 * (size_t)BYTES), *packed = malloc(BYTES);
    if (!strided || !packed) return 1;
    memset(strided, 1, 2 * (size_t)BYTES);
    memset(packed, 2, BYTES);
    int pieces[] = {8, 64, 4096};
    for (int i = 0; i < 3; i++) measure(pieces[i], strided, packed);
    free(packed);
    free(strided);
    MPI_Finalize();
    return 0;
}
