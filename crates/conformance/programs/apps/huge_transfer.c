/* One request of more than 2^31 bytes, written and read back. Memory is one small segment mapped over and
 * over, so that the request is long but the machine need not be large. An MPI 4 host takes the count as it
 * is; an older one takes 1 MiB pieces. */
#define _GNU_SOURCE
#include "check.h"
#include <sys/mman.h>
#include <unistd.h>

static const size_t SEGMENT = (size_t)16 << 20, TOTAL = ((size_t)1 << 31) + ((size_t)16 << 20);

static char *repeated(int32_t **segment)
{
    int memory = memfd_create("segment", 0);
    if (memory < 0 || ftruncate(memory, (off_t)SEGMENT) != 0) FAIL("no shared memory");
    char *all = mmap(NULL, TOTAL, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) FAIL("no address space");
    for (size_t at = 0; at < TOTAL; at += SEGMENT)
        if (mmap(all + at, SEGMENT, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory, 0) == MAP_FAILED)
            FAIL("cannot map at %zu", at);
    *segment = (int32_t *)all;
    return all;
}

static void counted(MPI_Status *status)
{
    MPI_Count n = -1;
    MUST(MPI_Get_elements_x(status, MPI_BYTE, &n));
    EQUAL(n, TOTAL);
}

int main(int argc, char **argv)
{
    MPI_File file;
    MPI_Status status;
    MPI_Offset size;
    int32_t *segment;
    begin(&argc, &argv);
    char *memory = repeated(&segment);
    const size_t n = SEGMENT / sizeof *segment;
    for (size_t i = 0; i < n; i++) segment[i] = value((int64_t)i, 1);
    MUST(MPI_File_open(MPI_COMM_SELF, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                       MPI_INFO_NULL, &file));
#if MPI_VERSION >= 4
    MUST(MPI_File_write_at_c(file, 0, memory, (MPI_Count)TOTAL, MPI_BYTE, &status));
    counted(&status);
    memset(segment, 0, SEGMENT);
    MUST(MPI_File_read_at_c(file, 0, memory, (MPI_Count)TOTAL, MPI_BYTE, &status));
#else
    MPI_Datatype mebibyte;
    MUST(MPI_Type_contiguous(1 << 20, MPI_BYTE, &mebibyte));
    MUST(MPI_Type_commit(&mebibyte));
    MUST(MPI_File_write_at(file, 0, memory, (int)(TOTAL >> 20), mebibyte, &status));
    counted(&status);
    memset(segment, 0, SEGMENT);
    MUST(MPI_File_read_at(file, 0, memory, (int)(TOTAL >> 20), mebibyte, &status));
    MPI_Type_free(&mebibyte);
#endif
    counted(&status);
    for (size_t i = 0; i < n; i++) EQUAL(segment[i], value((int64_t)i, 1));
    MUST(MPI_File_get_size(file, &size));
    EQUAL(size, TOTAL);
    MUST(MPI_File_close(&file));
    return finish();
}
