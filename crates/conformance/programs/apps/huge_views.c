/* Views of very many pieces must cost no memory: a vector of 100 million pieces and a 4-D subarray of 10^9
 * elements. Resident memory and the heap are read before and after; then a little data goes through the
 * middle of each view, checked at its place in the file by plain reads. */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include "check.h"
#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

enum { N = 1000, LIMIT = 1 << 20 };

static long long resident(void)
{
    char line[256];
    long long kib = -1;
    FILE *status = fopen("/proc/self/status", "r");
    if (!status) FAIL("no /proc/self/status");
    while (fgets(line, sizeof line, status))
        if (sscanf(line, "VmRSS: %lld kB", &kib) == 1) break;
    fclose(status);
    return kib * 1024;
}

static long long heap(void)
{
    struct mallinfo2 info = mallinfo2();
    return (long long)(info.uordblks + info.hblkhd);
}

static void set(MPI_File file, MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype view)
{
    MUST(MPI_File_set_view(file, displacement, etype, view, "native", MPI_INFO_NULL));
}

/* The view is set with both memories measured around it. */
static void measured(MPI_File file, MPI_Datatype etype, MPI_Datatype view, const char *what)
{
    long long rss = resident(), used = heap();
    set(file, 0, etype, view);
    rss = resident() - rss, used = heap() - used;
    printf("%s: rank %d: resident +%lld, heap +%lld bytes\n", what, me, rss, used);
    fflush(stdout);
    if (rss >= LIMIT || used >= LIMIT) FAIL("%s: grew by %lld resident, %lld heap bytes", what, rss, used);
}

/* N integers of 8 bytes from view position `at` on, each checked by a plain read where it must lie. */
static void through(MPI_File file, int plain, MPI_Offset at, int salt)
{
    int64_t data[N], got[N];
    MPI_Status status;
    long long rss = resident();
    for (int i = 0; i < N; i++) data[i] = value(i, salt);
    MUST(MPI_File_write_at(file, at, data, N, MPI_INT64_T, &status));
    COUNT(status, MPI_INT64_T, N);
    MUST(MPI_File_read_at(file, at, got, N, MPI_INT64_T, &status));
    COUNT(status, MPI_INT64_T, N);
    EXPECT(memcmp(data, got, sizeof data) == 0);
    for (int i = 0; i < N; i++) {
        MPI_Offset byte;
        int64_t x = 0;
        MUST(MPI_File_get_byte_offset(file, at + i, &byte));
        if (pread(plain, &x, sizeof x, byte) != sizeof x) FAIL("no data at byte %lld", (long long)byte);
        EQUAL(x, data[i]);
    }
    rss = resident() - rss;
    if (rss >= 8 * LIMIT) FAIL("access through the view grew memory by %lld bytes", rss);
}

/* All ranks together through interleaved views of as many pieces each. */
static void together(const char *name, MPI_Datatype vector)
{
    int64_t data[N], got[N];
    /* Within the first tile: the first piece of one rank's next tile is the last of the other's first. */
    const MPI_Offset at = 99998000;
    MPI_File file;
    MPI_Status status;
    MUST(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                       MPI_INFO_NULL, &file));
    set(file, 8 * me, MPI_INT64_T, vector);
    long long rss = resident();
    for (int i = 0; i < N; i++) data[i] = value(i, 50 + me);
    MUST(MPI_File_write_at_all(file, at, data, N, MPI_INT64_T, &status));
    COUNT(status, MPI_INT64_T, N);
    MUST(MPI_File_read_at_all(file, at, got, N, MPI_INT64_T, &status));
    COUNT(status, MPI_INT64_T, N);
    EXPECT(memcmp(data, got, sizeof data) == 0);
    rss = resident() - rss;
    printf("collective: rank %d: resident +%lld bytes\n", me, rss);
    /* an aggregator may hold its collective buffer of 16 MiB, never the pieces */
    if (rss >= 64 * LIMIT) FAIL("collective access grew memory by %lld bytes", rss);
    MUST(MPI_File_close(&file));
}

int main(int argc, char **argv)
{
    MPI_File file;
    MPI_Datatype small, vector, block;
    char name[4096];
    begin(&argc, &argv);
    snprintf(name, sizeof name, "%s.%d", argv[1], me);
    MUST(MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                       MPI_INFO_NULL, &file));
    int plain = open(name, O_RDONLY);
    if (plain < 0) FAIL("cannot open %s", name);

    /* once with small ones, so that code and arenas are in memory before anything is measured */
    int sizes[4] = {400, 500, 200, 200}, parts[4] = {200, 250, 200, 100}, starts[4] = {100, 7, 0, 50};
    int few[4] = {4, 5, 4, 4}, fewer[4] = {2, 2, 4, 2}, from[4] = {1, 1, 0, 1};
    MUST(MPI_Type_vector(50, 1, 3, MPI_INT64_T, &small));
    MUST(MPI_Type_commit(&small));
    set(file, 8, MPI_INT64_T, small);
    through(file, plain, 0, 1);
    MPI_Type_free(&small);
    MUST(MPI_Type_create_subarray(4, few, fewer, from, MPI_ORDER_C, MPI_INT64_T, &small));
    MUST(MPI_Type_commit(&small));
    set(file, 8, MPI_INT64_T, small);
    through(file, plain, 0, 1);
    MPI_Type_free(&small);

    MUST(MPI_Type_vector(100000000, 1, 2, MPI_INT64_T, &vector));
    MUST(MPI_Type_commit(&vector));
    MUST(MPI_Type_create_subarray(4, sizes, parts, starts, MPI_ORDER_C, MPI_INT64_T, &block));
    MUST(MPI_Type_commit(&block));
    measured(file, MPI_INT64_T, vector, "vector of 100 million pieces");
    through(file, plain, 50000000, 2);
    through(file, plain, 99999500, 3); /* over the seam into the second tile */
    measured(file, MPI_INT64_T, block, "subarray of 10^9 elements");
    through(file, plain, 500000050, 4);
    through(file, plain, 999999500, 5);
    close(plain);
    MUST(MPI_File_close(&file));
    if (ranks <= 2) together(argv[1], vector); /* the vector has one hole between its pieces */
    MPI_Type_free(&vector), MPI_Type_free(&block);
    return finish();
}
