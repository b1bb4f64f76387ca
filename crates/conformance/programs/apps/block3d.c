/* A 3-D array, one block per rank with ghost cells in memory, written collectively in both storage orders
 * behind a header; read back collectively under a cyclic distribution, so that every rank checks bytes that
 * others wrote. */
#include "check.h"

enum { X = 14, Y = 18, Z = 22, GHOST = 1, HEADER = 64 };
static const int sizes[3] = {X, Y, Z};

static int64_t place(int order, int x, int y, int z)
{
    return order == MPI_ORDER_C ? ((int64_t)x * Y + y) * Z + z : ((int64_t)z * Y + y) * X + x;
}

/* MPI_ORDER_* differ from one MPI to the next; the files must not. */
static int salt(int order)
{
    return order == MPI_ORDER_C ? 1 : 2;
}

/* This rank's share of a dimension: as even as can be. */
static void share(int size, int parts, int part, int *start, int *length)
{
    *start = (int)((int64_t)size * part / parts);
    *length = (int)((int64_t)size * (part + 1) / parts) - *start;
}

static void write_blocks(MPI_File file, MPI_Offset displacement, int order)
{
    int grid[3] = {0, 0, 0}, periods[3] = {0, 0, 0}, at[3], starts[3], counts[3], full[3];
    int inner[3] = {GHOST, GHOST, GHOST};
    MPI_Comm cart;
    MPI_Datatype memory, view;
    MPI_Status status;
    MUST(MPI_Dims_create(ranks, 3, grid));
    MUST(MPI_Cart_create(MPI_COMM_WORLD, 3, grid, periods, 0, &cart));
    MUST(MPI_Cart_coords(cart, me, 3, at));
    for (int d = 0; d < 3; d++) {
        share(sizes[d], grid[d], at[d], &starts[d], &counts[d]);
        full[d] = counts[d] + 2 * GHOST;
    }
    MUST(MPI_Type_create_subarray(3, sizes, counts, starts, order, MPI_INT32_T, &view));
    MUST(MPI_Type_create_subarray(3, full, counts, inner, order, MPI_INT32_T, &memory));
    MUST(MPI_Type_commit(&view));
    MUST(MPI_Type_commit(&memory));

    int32_t *block = zeroed(sizeof *block * full[0] * full[1] * full[2]);
    for (int x = 0; x < counts[0]; x++)
        for (int y = 0; y < counts[1]; y++)
            for (int z = 0; z < counts[2]; z++) {
                int i = x + GHOST, j = y + GHOST, k = z + GHOST;
                int cell = order == MPI_ORDER_C ? (i * full[1] + j) * full[2] + k
                                                : (k * full[1] + j) * full[0] + i;
                block[cell] = value(place(order, starts[0] + x, starts[1] + y, starts[2] + z), salt(order));
            }
    MUST(MPI_File_set_view(file, displacement, MPI_INT32_T, view, "native", MPI_INFO_NULL));
    MUST(MPI_File_write_all(file, block, 1, memory, &status));
    COUNT(status, MPI_INT32_T, counts[0] * counts[1] * counts[2]);
    free(block);
    MPI_Type_free(&view);
    MPI_Type_free(&memory);
    MPI_Comm_free(&cart);
}

static void read_cyclic(MPI_File file, MPI_Offset displacement, int order)
{
    int grid[3] = {0, 0, 0}, arguments[3] = {2, 3, MPI_DISTRIBUTE_DFLT_DARG}, size;
    int how[3] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK};
    MPI_Datatype view;
    MPI_Status status;
    MUST(MPI_Dims_create(ranks, 3, grid));
    MUST(MPI_Type_create_darray(ranks, me, 3, sizes, how, arguments, grid, order, MPI_INT32_T, &view));
    MUST(MPI_Type_commit(&view));
    MUST(MPI_Type_size(view, &size));
    int n = size / (int)sizeof(int32_t);
    int32_t *got = zeroed(size);
    MUST(MPI_File_set_view(file, displacement, MPI_INT32_T, view, "native", MPI_INFO_NULL));
    MUST(MPI_File_read_all(file, got, n, MPI_INT32_T, &status));
    COUNT(status, MPI_INT32_T, n);
    for (int i = 0; i < n; i++) {
        MPI_Offset byte;
        MUST(MPI_File_get_byte_offset(file, i, &byte));
        EQUAL(got[i], value((byte - displacement) / (int)sizeof(int32_t), salt(order)));
    }
    free(got);
    MPI_Type_free(&view);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    const MPI_Offset array = (MPI_Offset)sizeof(int32_t) * X * Y * Z;
    MPI_File file;
    MUST(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    if (me == 0) {
        char header[HEADER] = "block3d: two arrays, C order then Fortran order";
        MUST(MPI_File_write_at(file, 0, header, HEADER, MPI_CHAR, MPI_STATUS_IGNORE));
    }
    write_blocks(file, HEADER, MPI_ORDER_C);
    write_blocks(file, HEADER + array, MPI_ORDER_FORTRAN);
    MUST(MPI_File_close(&file));

    MUST(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    MPI_Offset size;
    MUST(MPI_File_get_size(file, &size));
    EQUAL(size, HEADER + 2 * array);
    read_cyclic(file, HEADER, MPI_ORDER_C);
    read_cyclic(file, HEADER + array, MPI_ORDER_FORTRAN);
    MUST(MPI_File_close(&file));
    return finish();
}
