/* What recording costs: many writes and reads of 4 KiB in a file that stays in the page cache.
 *
 * profile DIR OPERATIONS: so many per rank, writes and reads in turns of a batch each. The time of a batch is that of
 * the rank's own thread on a processor, so that others' work does not count. Prints, for rank 0, the median of a write and of a
 * read in nanoseconds, and the largest peak of memory of any rank in KiB:
 * profile WRITE READ PEAK
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SIZE = 4096, BLOCKS = 8192, BATCH = 25000 };

static double processor_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static long peak_kib(void) {
    char line[256];
    long peak = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (strncmp(line, "VmHWM:", 6) == 0) peak = atol(line + 6);
    if (status) fclose(status);
    return peak;
}

int main(int argc, char **argv) {
    int rank;
    MPI_File file;
    char path[4096], *data = calloc(1, SIZE);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc != 3 || atol(argv[2]) < 2 * BATCH) MPI_Abort(MPI_COMM_WORLD, 2);
    long batches = atol(argv[2]) / BATCH;
    double *times[2] = {calloc(batches, sizeof(double)), calloc(batches, sizeof(double))};
    long count[2] = {0, 0};
    snprintf(path, sizeof path, "%s/rank-%d", argv[1], rank);
    MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    MPI_File_set_size(file, (MPI_Offset)SIZE * BLOCKS);
    for (long batch = 0; batch < batches; batch++) {
        int reading = batch % 2;
        double begun = processor_ns();
        for (long i = 0; i < BATCH; i++) {
            MPI_Offset offset = (MPI_Offset)((batch / 2 * BATCH + i) % BLOCKS) * SIZE;
            if (reading)
                MPI_File_read_at(file, offset, data, SIZE, MPI_BYTE, MPI_STATUS_IGNORE);
            else
                MPI_File_write_at(file, offset, data, SIZE, MPI_BYTE, MPI_STATUS_IGNORE);
        }
        times[reading][count[reading]++] = (processor_ns() - begun) / BATCH;
    }
    MPI_File_close(&file);
    long peak = peak_kib(), largest;
    MPI_Reduce(&peak, &largest, 1, MPI_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
    for (int k = 0; k < 2; k++) qsort(times[k], count[k], sizeof(double), by_size);
    if (rank == 0) printf("profile %.1f %.1f %ld\n", times[0][count[0] / 2], times[1][count[1] / 2], largest);
    MPI_Finalize();
    return 0;
}
