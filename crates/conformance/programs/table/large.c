/* Clause 25: offsets, extents, counts and totals beyond 2^31 and 2^32. Files are sparse, buffers are mapped
 * without being reserved, and one write of more than 2 GiB (argument `write`) repeats one small block. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/mman.h>

#include "check.h"

#define GIB (1LL << 30)

static long long elements(MPI_Status *st)
{
    MPI_Count count = -1;
    MPI_Get_elements_x(st, MPI_BYTE, &count);
    return count;
}

static void far_offsets(void)
{
    int data[4], back[4];
    MPI_Status st;
    CLAUSE("25", "offsets, displacements and extents beyond 2^31 and 2^32 work");
    MPI_File fh = open_all("far", MPI_MODE_RDWR | MPI_MODE_CREATE);
    const long long places[] = {2 * GIB - 8, 4 * GIB - 8, 5 * GIB, 1LL << 40};
    for (int p = 0; p < 4; p++) {
        for (int i = 0; i < 4; i++)
            data[i] = p * 100 + rank * 10 + i;
        long long at = places[p] + 16 * rank;
        OK(MPI_File_write_at_all(fh, at, data, 4, MPI_INT, &st));
        OK(MPI_File_read_at_all(fh, at, back, 4, MPI_INT, &st));
        CHECK(memcmp(data, back, sizeof data) == 0, "data at %lld does not come back", at);
        OK(MPI_File_seek(fh, at, MPI_SEEK_SET));
        OK(MPI_File_read(fh, back, 4, MPI_INT, &st));
        CHECK(memcmp(data, back, sizeof data) == 0, "data at pointer %lld does not come back", at);
        SAME(position(fh), at + 16);
    }
    settle(fh);
    SAME(file_size(fh), (1LL << 40) + 16 * ranks);
    OK(MPI_File_seek_shared(fh, 6 * GIB, MPI_SEEK_SET));
    data[0] = 77 + rank;
    OK(MPI_File_write_ordered(fh, data, 1, MPI_INT, &st));
    SAME(shared_position(fh), 6 * GIB + 4 * ranks);
    OK(MPI_File_read_at(fh, 6 * GIB + 4 * rank, back, 1, MPI_INT, &st));
    SAME(back[0], 77 + rank);
    barrier();
    OK(MPI_File_set_size(fh, 0));
    /* Tiles 3 GiB apart, from 5 GiB on. */
    MPI_Datatype tile;
    MPI_Offset at;
    MPI_Type_create_resized(MPI_INT, 0, 3 * GIB, &tile);
    MPI_Type_commit(&tile);
    OK(MPI_File_set_view(fh, 5 * GIB + 4 * rank, MPI_INT, tile, "native", MPI_INFO_NULL));
    OK(MPI_File_get_byte_offset(fh, 1000, &at));
    SAME(at, 5 * GIB + 4 * rank + 3000 * GIB);
    for (int i = 0; i < 4; i++)
        data[i] = rank * 10 + i;
    OK(MPI_File_write_all(fh, data, 4, MPI_INT, &st));
    settle(fh);
    SAME(file_size(fh), 14 * GIB + 4 * ranks);
    memset(back, 0, sizeof back);
    OK(MPI_File_read_at_all(fh, 0, back, 4, MPI_INT, &st));
    CHECK(memcmp(data, back, sizeof data) == 0, "data in far tiles does not come back");
    OK(MPI_File_read_at_all(fh, 2, back, 4, MPI_INT, &st));
    SAME(elements(&st), 8);
    SAME(back[1], data[3]);
    MPI_Type_free(&tile);
    /* 2^30 pieces in one filetype. */
    barrier();
    OK(MPI_File_set_size(fh, 0));
    MPI_Type_vector(1 << 30, 1, 2 * ranks, MPI_INT, &tile);
    MPI_Type_commit(&tile);
    OK(MPI_File_set_view(fh, 8 * rank, MPI_INT, tile, "native", MPI_INFO_NULL));
    OK(MPI_File_get_byte_offset(fh, (1 << 30) - 1, &at));
    SAME(at, 8 * rank + ((1LL << 30) - 1) * 8 * ranks);
    OK(MPI_File_get_byte_offset(fh, 1 << 30, &at)); /* the extent ends with the last int */
    SAME(at, 8 * rank + ((1LL << 30) - 1) * 8 * ranks + 4);
    OK(MPI_File_write_at_all(fh, 1 << 29, data, 4, MPI_INT, &st));
    settle(fh);
    OK(MPI_File_read_at_all(fh, 1 << 29, back, 4, MPI_INT, &st));
    CHECK(memcmp(data, back, sizeof data) == 0, "data in a filetype of 2^30 pieces does not come back");
    OK(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    OK(MPI_File_read_at(fh, (long long)(1 << 29) * 2 * ranks + 2 * rank, back, 1, MPI_INT, &st));
    SAME(back[0], data[0]);
    OK(MPI_File_close(&fh));
    barrier();
    if (rank == 0)
        unlink(path("far"));
    MPI_Type_free(&tile);
    END_CLAUSE();
}

/* A request far larger than the file: the count is what there was, the pointer moves by what was asked. */
static void huge_requests(void)
{
    enum { HAVE = 1 << 20 };
    static char bytes[HAVE];
    MPI_Status st;
    MPI_Request request;
    CLAUSE("25b", "counts and totals beyond 2^31 and 2^32 work, by derived datatypes and by _c forms");
    memset(bytes, 'q', sizeof bytes);
    spit("huge", bytes, sizeof bytes);
    size_t room = (size_t)(5 * GIB);
    char *memory = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(memory != MAP_FAILED, "cannot map 5 GiB");
    MPI_Datatype block, huge;
    MPI_Type_contiguous(4096, MPI_BYTE, &block);
    MPI_Type_contiguous(1 << 20, block, &huge); /* 4 GiB */
    MPI_Type_commit(&huge);
    MPI_File fh = open_all("huge", MPI_MODE_RDONLY);
    OK(MPI_File_read(fh, memory, 1, huge, &st));
    SAME(elements(&st), HAVE);
    SAME(memory[HAVE - 1], 'q');
    SAME(memory[HAVE], 0);
    SAME(position(fh), 4 * GIB);
    OK(MPI_File_seek(fh, 100, MPI_SEEK_SET));
    OK(MPI_File_read_all(fh, memory, 1, huge, &st));
    SAME(elements(&st), HAVE - 100);
    SAME(position(fh), 4 * GIB + 100);
    OK(MPI_File_iread(fh, memory, 1, huge, &request));
    OK(MPI_Wait(&request, &st));
    SAME(elements(&st), 0);
    SAME(position(fh), 8 * GIB + 100);
    barrier();
    OK(MPI_File_read_ordered(fh, memory, 1, huge, &st));
    SAME(elements(&st), rank == 0 ? HAVE : 0);
    SAME(shared_position(fh), 4 * GIB * ranks);
    MPI_Type_free(&huge);
    MPI_Type_free(&block);
    int (*read_at_c)(MPI_File, MPI_Offset, void *, MPI_Count, MPI_Datatype, MPI_Status *) =
        dlsym(RTLD_DEFAULT, "MPI_File_read_at_c");
    int (*read_all_c)(MPI_File, void *, MPI_Count, MPI_Datatype, MPI_Status *) =
        dlsym(RTLD_DEFAULT, "MPI_File_read_all_c");
    CHECK(read_at_c && read_all_c, "the large-count forms are not there");
    if (read_at_c && read_all_c) {
        OK(read_at_c(fh, 10, memory, 4 * GIB + 5, MPI_BYTE, &st));
        SAME(elements(&st), HAVE - 10);
        OK(MPI_File_seek(fh, 20 + rank, MPI_SEEK_SET));
        OK(read_all_c(fh, memory, 3 * GIB, MPI_BYTE, &st));
        SAME(elements(&st), HAVE - 20 - rank);
        SAME(position(fh), 3 * GIB + 20 + rank);
    }
    OK(MPI_File_close(&fh));
    munmap(memory, room);
    END_CLAUSE();
}

/* One write of 2 GiB and 8 KiB from one block of 4 KiB. */
static void huge_write(void)
{
    enum { BLOCK = 4096 };
    static char block[BLOCK], back[BLOCK];
    const long long total = 2 * GIB + 2 * BLOCK;
    MPI_Status st;
    CLAUSE("25c", "one write of more than 2^31 bytes writes them all and says so");
    for (int i = 0; i < BLOCK; i++)
        block[i] = (char)(i * 7);
    if (rank == 0) {
        MPI_Datatype repeated;
        MPI_Type_create_hvector((int)(total / BLOCK), BLOCK, 0, MPI_BYTE, &repeated);
        MPI_Type_commit(&repeated);
        MPI_File fh = MPI_FILE_NULL;
        OK(MPI_File_open(MPI_COMM_SELF, path("written"),
                         MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &fh));
        OK(MPI_File_write(fh, block, 1, repeated, &st));
        SAME(elements(&st), total);
        SAME(position(fh), total);
        SAME(file_size(fh), total);
        OK(MPI_File_read_at(fh, total - BLOCK, back, BLOCK, MPI_BYTE, &st));
        CHECK(memcmp(block, back, BLOCK) == 0, "the last block is wrong");
        OK(MPI_File_read_at(fh, 2 * GIB - BLOCK, back, BLOCK, MPI_BYTE, &st));
        CHECK(memcmp(block, back, BLOCK) == 0, "the block before 2^31 is wrong");
        OK(MPI_File_close(&fh));
        MPI_Type_free(&repeated);
    }
    END_CLAUSE();
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    far_offsets();
    huge_requests();
    if (argc > 2 && strcmp(argv[2], "write") == 0)
        huge_write();
    return finish();
}
