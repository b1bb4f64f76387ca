/* Places beyond 2^31 and 2^32 on a sparse file: explicit offsets, displacements, seeks, filetypes whose tiles
 * are larger than 4 GiB, sizes; with an MPI 4 host the _c forms too. Little data, far apart. */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include "check.h"
#include <fcntl.h>
#include <unistd.h>

enum { N = 256 };
static const MPI_Offset GIB = (MPI_Offset)1 << 30;

static int32_t data[N], got[N];

static void fill(int salt)
{
    memset(got, 0, sizeof got);
    for (int i = 0; i < N; i++) data[i] = value(i, 100 * salt + me);
}

static void settle(MPI_File file)
{
    MUST(MPI_File_sync(file));
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    MUST(MPI_File_sync(file));
}

static void same(void)
{
    EXPECT(memcmp(data, got, sizeof data) == 0);
}

/* 1 KiB per rank at 5 GiB in a view of bytes. */
static void far_offsets(MPI_File file)
{
    MPI_Status status;
    MPI_Offset at = 5 * GIB + me * (MPI_Offset)sizeof data, position, size;
    fill(1);
    MUST(MPI_File_write_at(file, at, data, N, MPI_INT32_T, &status));
    COUNT(status, MPI_INT32_T, N);
    settle(file);
    MUST(MPI_File_get_size(file, &size));
    EQUAL(size, 5 * GIB + ranks * (MPI_Offset)sizeof data);
    MUST(MPI_File_seek(file, at, MPI_SEEK_SET));
    MUST(MPI_File_read(file, got, N, MPI_INT32_T, &status));
    COUNT(status, MPI_INT32_T, N);
    same();
    MUST(MPI_File_get_position(file, &position));
    EQUAL(position, at + (MPI_Offset)sizeof data);
    MUST(MPI_File_seek(file, -3 * GIB, MPI_SEEK_CUR));
    MUST(MPI_File_get_position(file, &position));
    EQUAL(position, at + (MPI_Offset)sizeof data - 3 * GIB);
}

/* A displacement beyond 4 GiB under an interleaved view, collectively. */
static void far_displacement(MPI_File file)
{
    MPI_Datatype view;
    MPI_Status status;
    MPI_Offset byte, displacement = 6 * GIB + me * (MPI_Offset)sizeof(int32_t);
    MUST(MPI_Type_create_resized(MPI_INT32_T, 0, (MPI_Aint)sizeof(int32_t) * ranks, &view));
    MUST(MPI_Type_commit(&view));
    MUST(MPI_File_set_view(file, displacement, MPI_INT32_T, view, "native", MPI_INFO_NULL));
    fill(2);
    MUST(MPI_File_write_all(file, data, N, MPI_INT32_T, &status));
    COUNT(status, MPI_INT32_T, N);
    settle(file);
    MUST(MPI_File_read_at_all(file, 0, got, N, MPI_INT32_T, &status));
    COUNT(status, MPI_INT32_T, N);
    same();
    MUST(MPI_File_get_byte_offset(file, (MPI_Offset)3 << 31, &byte));
    EQUAL(byte, displacement + ((MPI_Offset)3 << 31) * (MPI_Offset)sizeof(int32_t) * ranks);
    MPI_Type_free(&view);
}

/* Four integers per tile of 5 GiB: the view's own stream is short, the file is far. */
static void far_tiles(MPI_File file)
{
    MPI_Datatype four, view;
    MPI_Status status;
    MPI_Offset byte;
    MUST(MPI_Type_contiguous(4, MPI_INT32_T, &four));
    MUST(MPI_Type_create_resized(four, 0, 5 * GIB, &view));
    MUST(MPI_Type_commit(&view));
    MUST(MPI_File_set_view(file, 7 * GIB + me * 4 * (MPI_Offset)sizeof(int32_t), MPI_INT32_T, view, "native",
                           MPI_INFO_NULL));
    fill(3);
    MUST(MPI_File_write_at(file, 2, data, 8, MPI_INT32_T, &status)); /* three tiles: 2 + 4 + 2 */
    COUNT(status, MPI_INT32_T, 8);
    settle(file);
    MUST(MPI_File_read_at(file, 2, got, 8, MPI_INT32_T, &status));
    COUNT(status, MPI_INT32_T, 8);
    EXPECT(memcmp(data, got, 8 * sizeof *data) == 0);
    MUST(MPI_File_get_byte_offset(file, 9, &byte));
    EQUAL(byte, 7 * GIB + me * 4 * (MPI_Offset)sizeof(int32_t) + 2 * 5 * GIB + (MPI_Offset)sizeof(int32_t));
    MPI_Type_free(&four), MPI_Type_free(&view);
}

static void far_counts(MPI_File file)
{
#if MPI_VERSION >= 4
    MPI_Datatype view;
    MPI_Status status;
    MPI_Count count = -1;
    MPI_Offset at = 5 * GIB + ((MPI_Offset)1 << 20) + me * (MPI_Offset)sizeof data;
    MUST(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    fill(4);
    MUST(MPI_File_write_at_c(file, at, data, N, MPI_INT32_T, &status));
    MUST(MPI_Get_count_c(&status, MPI_INT32_T, &count));
    EQUAL(count, N);
    settle(file);
    MUST(MPI_File_read_at_all_c(file, at, got, N, MPI_INT32_T, &status));
    same();
    /* a type with a count of its own beyond 2^31, of which only the start is used */
    MUST(MPI_Type_vector_c((MPI_Count)3 << 31, 1, 2, MPI_INT32_T, &view));
    MUST(MPI_Type_commit(&view));
    MUST(MPI_File_set_view(file, at, MPI_INT32_T, view, "native", MPI_INFO_NULL));
    MUST(MPI_File_read_at_c(file, 0, got, N / 2, MPI_INT32_T, &status));
    for (int i = 0; i < N / 2; i++) EQUAL(got[i], data[2 * i]);
    MPI_Type_free(&view);
#else
    (void)file;
#endif
}

/* A digest of the file's nonzero words and their places, skipping holes: it stands for a byte-for-byte
 * comparison of files too long to read in full. */
static void digest(const char *name)
{
    int plain = open(name, O_RDONLY);
    if (plain < 0) FAIL("cannot open %s", name);
    uint64_t sum = 0;
    off_t at = 0;
    while ((at = lseek(plain, at, SEEK_DATA)) >= 0) {
        int32_t words[1024];
        ssize_t n = pread(plain, words, sizeof words, at);
        if (n <= 0) FAIL("cannot read %s at %lld", name, (long long)at);
        memset((char *)words + n, 0, sizeof words - n);
        for (int i = 0; i < 1024; i++)
            if (words[i]) sum = sum * 31 + (uint64_t)(at / 4 + i) * 1000003 + (uint32_t)words[i];
        at += n;
    }
    printf("digest %016llx, %lld bytes\n", (unsigned long long)sum, (long long)lseek(plain, 0, SEEK_END));
    close(plain);
}

int main(int argc, char **argv)
{
    MPI_File file;
    MPI_Offset size;
    begin(&argc, &argv);
    MUST(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    far_offsets(file);
    far_displacement(file);
    settle(file);
    if (me == 0) digest(argv[1]);
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    /* Not for the hosts alone: MPICH 4.0.2 leaves stray bytes in the holes of such a view and cannot decode
     * types of more than 2^31 elements; Open MPI 4.1.4 now and then reads short. */
    if (argc > 2 && strcmp(argv[2], "all") == 0) {
        far_tiles(file);
        far_counts(file);
    }
    MUST(MPI_File_set_size(file, 9 * GIB + 5));
    MUST(MPI_File_get_size(file, &size));
    EQUAL(size, 9 * GIB + 5);
    MUST(MPI_File_close(&file));
    return finish();
}
