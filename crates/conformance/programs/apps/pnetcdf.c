/* PnetCDF: a fixed and a record variable, collective, independent and nonblocking puts, then a second
 * opening that checks everything. */
#include "check.h"
#include <pnetcdf.h>

enum { ROWS = 24, COLUMNS = 30, RECORDS = 3 };

#define NC(call)                                                                                           \
    do {                                                                                                   \
        int rc_ = (call);                                                                                  \
        if (rc_ != NC_NOERR) FAIL("%s: %s", #call, ncmpi_strerror(rc_));                                   \
    } while (0)

static int grid, lone, series;

static void define(int file)
{
    int row, column, time, dims[3];
    NC(ncmpi_put_att_text(file, NC_GLOBAL, "title", 7, "pnetcdf"));
    NC(ncmpi_def_dim(file, "time", NC_UNLIMITED, &time));
    NC(ncmpi_def_dim(file, "row", ROWS, &row));
    NC(ncmpi_def_dim(file, "column", COLUMNS, &column));
    dims[0] = time, dims[1] = row, dims[2] = column;
    NC(ncmpi_def_var(file, "grid", NC_INT, 2, dims + 1, &grid));
    NC(ncmpi_def_var(file, "lone", NC_DOUBLE, 1, dims + 1, &lone));
    NC(ncmpi_def_var(file, "series", NC_INT, 3, dims, &series));
    NC(ncmpi_enddef(file));
}

/* This rank's band of columns. */
static void band(MPI_Offset *start, MPI_Offset *count)
{
    start[0] = 0, count[0] = ROWS;
    start[1] = COLUMNS * me / ranks;
    count[1] = COLUMNS * (me + 1) / ranks - start[1];
}

static void fill(int *data, const MPI_Offset *start, const MPI_Offset *count, int salt)
{
    for (MPI_Offset i = 0; i < count[0] * count[1]; i++)
        data[i] = value((start[0] + i / count[1]) * COLUMNS + start[1] + i % count[1], salt);
}

static void write_grid(int file)
{
    MPI_Offset start[2], count[2];
    int data[ROWS * COLUMNS];
    band(start, count);
    fill(data, start, count, 1);
    NC(ncmpi_put_vara_int_all(file, grid, start, count, data));
}

static void write_lone(int file)
{
    NC(ncmpi_begin_indep_data(file));
    for (MPI_Offset row = me; row < ROWS; row += ranks) {
        double x = row + 0.5;
        NC(ncmpi_put_var1_double(file, lone, &row, &x));
    }
    NC(ncmpi_end_indep_data(file));
}

/* All records at once: several pending puts, one collective wait. */
static void write_series(int file)
{
    static int data[RECORDS][ROWS * COLUMNS];
    int requests[RECORDS], statuses[RECORDS];
    MPI_Offset start[3], count[3];
    band(start + 1, count + 1);
    count[0] = 1;
    for (int r = 0; r < RECORDS; r++) {
        start[0] = r;
        fill(data[r], start + 1, count + 1, 10 + r);
        NC(ncmpi_iput_vara_int(file, series, start, count, data[r], &requests[r]));
    }
    NC(ncmpi_wait_all(file, RECORDS, requests, statuses));
    for (int r = 0; r < RECORDS; r++) EQUAL(statuses[r], NC_NOERR);
}

/* Rows this time, so that each rank checks what others wrote. */
static void check(int file)
{
    MPI_Offset start[3] = {0}, count[3] = {1}, length;
    int got[ROWS * COLUMNS], expected[ROWS * COLUMNS], dim;
    double line[ROWS];
    NC(ncmpi_inq_varid(file, "grid", &grid));
    NC(ncmpi_inq_varid(file, "lone", &lone));
    NC(ncmpi_inq_varid(file, "series", &series));
    NC(ncmpi_inq_dimid(file, "time", &dim));
    NC(ncmpi_inq_dimlen(file, dim, &length));
    EQUAL(length, RECORDS);
    start[1] = ROWS * me / ranks, start[2] = 0;
    count[1] = ROWS * (me + 1) / ranks - start[1], count[2] = COLUMNS;
    const size_t bytes = sizeof(int) * count[1] * COLUMNS;
    NC(ncmpi_get_vara_int_all(file, grid, start + 1, count + 1, got));
    fill(expected, start + 1, count + 1, 1);
    EXPECT(memcmp(got, expected, bytes) == 0);
    for (int r = 0; r < RECORDS; r++) {
        int request, status;
        start[0] = r;
        NC(ncmpi_iget_vara_int(file, series, start, count, got, &request));
        NC(ncmpi_wait_all(file, 1, &request, &status));
        EQUAL(status, NC_NOERR);
        fill(expected, start + 1, count + 1, 10 + r);
        EXPECT(memcmp(got, expected, bytes) == 0);
    }
    NC(ncmpi_get_var_double_all(file, lone, line));
    for (int i = 0; i < ROWS; i++) EXPECT(line[i] == i + 0.5);
}

int main(int argc, char **argv)
{
    int file;
    begin(&argc, &argv);
    NC(ncmpi_create(MPI_COMM_WORLD, argv[1], NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &file));
    define(file);
    write_grid(file);
    write_lone(file);
    write_series(file);
    NC(ncmpi_close(file));
    NC(ncmpi_open(MPI_COMM_WORLD, argv[1], NC_NOWRITE, MPI_INFO_NULL, &file));
    check(file);
    NC(ncmpi_close(file));
    return finish();
}
