/* Parallel HDF5: hyperslabs by collective and by independent transfer, contiguous and chunked datasets,
 * an attribute, and a second opening that checks everything under another distribution. */
#include "check.h"
#include <hdf5.h>

enum { ROWS = 48, COLUMNS = 60 };

#define H5(call)                                                                                           \
    ({                                                                                                     \
        long long result_ = (long long)(call);                                                             \
        if (result_ < 0) FAIL("%s failed", #call);                                                         \
        result_;                                                                                           \
    })

static hid_t open_file(const char *name, int create)
{
    hid_t access = H5(H5Pcreate(H5P_FILE_ACCESS));
    H5(H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL));
    hid_t file = create ? H5(H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, access))
                        : H5(H5Fopen(name, H5F_ACC_RDONLY, access));
    H5(H5Pclose(access));
    return file;
}

static hid_t transfer(H5FD_mpio_xfer_t how)
{
    hid_t list = H5(H5Pcreate(H5P_DATASET_XFER));
    H5(H5Pset_dxpl_mpio(list, how));
    return list;
}

static hid_t new_dataset(hid_t file, const char *name, int chunked)
{
    hsize_t sizes[2] = {ROWS, COLUMNS}, chunk[2] = {10, 16};
    int32_t filler = -1;
    hid_t space = H5(H5Screate_simple(2, sizes, NULL)), list = H5(H5Pcreate(H5P_DATASET_CREATE));
    H5(H5Pset_obj_track_times(list, 0)); /* no dates: two runs make the same file */
    H5(H5Pset_fill_value(list, H5T_NATIVE_INT32, &filler));
    if (chunked) H5(H5Pset_chunk(list, 2, chunk));
    hid_t set = H5(H5Dcreate2(file, name, H5T_STD_I32LE, space, H5P_DEFAULT, list, H5P_DEFAULT));
    H5(H5Pclose(list));
    H5(H5Sclose(space));
    return set;
}

/* Every `ranks`-th row, from this rank's on; all columns but the last three. */
static hsize_t select_rows(hid_t space)
{
    hsize_t start[2] = {me, 0}, stride[2] = {ranks, 1}, block[2] = {1, 1};
    hsize_t count[2] = {(ROWS - me + ranks - 1) / ranks, COLUMNS - 3};
    H5(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, stride, count, block));
    return count[0] * count[1];
}

static void write_rows(hid_t set, int salt, H5FD_mpio_xfer_t how)
{
    hid_t space = H5(H5Dget_space(set)), list = transfer(how);
    hsize_t n = select_rows(space);
    hid_t memory = H5(H5Screate_simple(1, &n, NULL));
    int32_t *data = zeroed(n * sizeof *data);
    for (hsize_t i = 0; i < n; i++) {
        int row = me + (int)(i / (COLUMNS - 3)) * ranks, column = (int)(i % (COLUMNS - 3));
        data[i] = value(row * COLUMNS + column, salt);
    }
    H5(H5Dwrite(set, H5T_NATIVE_INT32, memory, space, list, data));
    free(data);
    H5(H5Sclose(memory)), H5(H5Sclose(space)), H5(H5Pclose(list));
}

/* A band of columns per rank: all ranks read the bytes of all ranks, and the untouched columns. */
static void check(hid_t file, const char *name, int salt, H5FD_mpio_xfer_t how)
{
    hid_t set = H5(H5Dopen2(file, name, H5P_DEFAULT)), space = H5(H5Dget_space(set)), list = transfer(how);
    hsize_t from = (hsize_t)COLUMNS * me / ranks, to = (hsize_t)COLUMNS * (me + 1) / ranks;
    hsize_t start[2] = {0, from}, count[2] = {ROWS, to - from};
    H5(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL));
    hid_t memory = H5(H5Screate_simple(2, count, NULL));
    int32_t *got = zeroed(ROWS * count[1] * sizeof *got);
    H5(H5Dread(set, H5T_NATIVE_INT32, memory, space, list, got));
    for (hsize_t i = 0; i < ROWS * count[1]; i++) {
        int row = (int)(i / count[1]), column = (int)(from + i % count[1]);
        EQUAL(got[i], column < COLUMNS - 3 ? value(row * COLUMNS + column, salt) : -1);
    }
    free(got);
    H5(H5Sclose(memory)), H5(H5Sclose(space)), H5(H5Pclose(list)), H5(H5Dclose(set));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int chunked;
        H5FD_mpio_xfer_t how;
    } sets[4] = {{"collective", 0, H5FD_MPIO_COLLECTIVE},
                 {"independent", 0, H5FD_MPIO_INDEPENDENT},
                 {"chunked collective", 1, H5FD_MPIO_COLLECTIVE},
                 {"chunked independent", 1, H5FD_MPIO_INDEPENDENT}};
    begin(&argc, &argv);
    hid_t file = open_file(argv[1], 1);
    for (int i = 0; i < 4; i++) {
        hid_t set = new_dataset(file, sets[i].name, sets[i].chunked);
        write_rows(set, i, sets[i].how);
        H5(H5Dclose(set));
    }
    hid_t scalar = H5(H5Screate(H5S_SCALAR));
    hid_t note = H5(H5Acreate2(file, "version", H5T_STD_I32LE, scalar, H5P_DEFAULT, H5P_DEFAULT));
    int32_t version = 7;
    H5(H5Awrite(note, H5T_NATIVE_INT32, &version));
    H5(H5Aclose(note)), H5(H5Sclose(scalar));
    H5(H5Fflush(file, H5F_SCOPE_GLOBAL));
    H5(H5Fclose(file));

    file = open_file(argv[1], 0);
    version = 0;
    note = H5(H5Aopen(file, "version", H5P_DEFAULT));
    H5(H5Aread(note, H5T_NATIVE_INT32, &version));
    EQUAL(version, 7);
    H5(H5Aclose(note));
    for (int i = 0; i < 4; i++) {
        check(file, sets[i].name, i, sets[i].how);
        check(file, sets[i].name, i, sets[3 - i].how);
    }
    H5(H5Fclose(file));
    return finish();
}
