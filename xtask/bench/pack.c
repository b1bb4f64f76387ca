/* How fast the host MPI copies strided memory: MPI_Pack and MPI_Unpack of a vector with gaps as long as its
 * pieces, 16 MiB of data. The same layout, sizes and units as the rows "strided" of the example bench_view
 * in crates/buffer.
 *
 * Prints a line per piece size: nanoseconds per piece, median [lower..upper quartile].
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 16 << 20, WARM_UP = 2, ROUNDS = 15 };

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void show(double *seconds, int pieces) {
    qsort(seconds, ROUNDS, sizeof *seconds, ascending);
    double ns = 1e9 / pieces;
    char text[64];
    snprintf(text, sizeof text, "%.2f [%.2f..%.2f]", seconds[ROUNDS / 2] * ns, seconds[ROUNDS / 4] * ns,
             seconds[ROUNDS * 3 / 4] * ns);
    printf(" %26s", text);
}

static void measure(int piece, char *strided, char *packed) {
    int pieces = BYTES / piece;
    MPI_Datatype vector;
    MPI_Type_vector(pieces, piece, 2 * piece, MPI_BYTE, &vector);
    MPI_Type_commit(&vector);
    double pack[ROUNDS], unpack[ROUNDS];
    for (int round = -WARM_UP; round < ROUNDS; round++) {
        int at = 0;
        double start = MPI_Wtime();
        MPI_Pack(strided, 1, vector, packed, BYTES, &at, MPI_COMM_SELF);
        double middle = MPI_Wtime();
        at = 0;
        MPI_Unpack(packed, BYTES, &at, strided, 1, vector, MPI_COMM_SELF);
        double end = MPI_Wtime();
        if (round < 0) continue;
        pack[round] = middle - start;
        unpack[round] = end - middle;
    }
    printf("%6d %9d", piece, pieces);
    show(pack, pieces);
    show(unpack, pieces);
    printf("\n");
    MPI_Type_free(&vector);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    char *strided = malloc(2 * (size_t)BYTES), *packed = malloc(BYTES);
    if (!strided || !packed) return 1;
    memset(strided, 1, 2 * (size_t)BYTES);
    memset(packed, 2, BYTES);
    printf("%6s %9s %26s %26s\n", "piece", "pieces", "MPI_Pack", "MPI_Unpack");
    int pieces[] = {8, 64, 4096};
    for (int i = 0; i < 3; i++) measure(pieces[i], strided, packed);
    free(packed);
    free(strided);
    MPI_Finalize();
    return 0;
}
