/* Data representations, clause 23: external32 byte by byte, internal, and the user's own. */
#include <complex.h>
#include <stdbool.h>
#include <stddef.h>
#include <wchar.h>

#include "check.h"

static void expect_bytes(const char *name, const char *hex)
{
    unsigned char bytes[512];
    char got[1100] = "";
    long long n = slurp(name, bytes, sizeof bytes);
    for (long long i = 0; i < n; i++)
        sprintf(got + 2 * i, "%02x", bytes[i]);
    CHECK(strcmp(got, hex) == 0, "%s holds %s, wanted %s", name, got, hex);
}

/* Writes through external32 with `type` as etype, checks the bytes, reads back into `back`. */
static void trip(const char *name, MPI_Datatype type, const void *data, void *back, int count, const char *hex)
{
    MPI_Status st;
    MPI_Aint lb, extent;
    MPI_Type_get_extent(type, &lb, &extent);
    MPI_File fh = open_all(name, MPI_MODE_RDWR | MPI_MODE_CREATE);
    OK(MPI_File_set_view(fh, 0, type, type, "external32", MPI_INFO_NULL));
    OK(MPI_File_write_at_all(fh, 0, data, rank == 0 ? count : 0, type, &st));
    SAME(count_of(&st, type), rank == 0 ? count : 0);
    settle(fh);
    expect_bytes(name, hex);
    memset(back, 0x77, (size_t)count * (size_t)extent);
    OK(MPI_File_read(fh, back, count, type, &st));
    SAME(count_of(&st, type), count);
    SAME(position(fh), count);
    CHECK(memcmp(back, data, (size_t)count * (size_t)extent) == 0, "%s does not come back as it was", name);
    OK(MPI_File_read_at_all(fh, 1, back, count, type, &st)); /* one item beyond the end */
    SAME(count_of(&st, type), count - 1);
    OK(MPI_File_close(&fh));
}

#define TRIP(mpi, c, hex, ...) do { c d_[] = {__VA_ARGS__}, b_[sizeof d_ / sizeof *d_]; \
    trip(#mpi, mpi, d_, b_, (int)(sizeof d_ / sizeof *d_), hex); } while (0)

static void basic_types(void)
{
    CLAUSE("23", "external32: known bytes for the basic datatypes, and back");
    TRIP(MPI_INT, int, "00000001fffffffe01020304", 1, -2, 0x01020304);
    TRIP(MPI_UNSIGNED, unsigned, "deadbeef00000007", 0xdeadbeefu, 7u);
    TRIP(MPI_SHORT, short, "0102ffff", 0x0102, -1);
    TRIP(MPI_CHAR, char, "616263", 'a', 'b', 'c');
    TRIP(MPI_BYTE, unsigned char, "0102f0", 1, 2, 0xf0);
    TRIP(MPI_LONG, long, "00000005fffffffb7fffffff", 5, -5, 0x7fffffff);
    TRIP(MPI_UNSIGNED_LONG, unsigned long, "00000005ffffffff", 5, 0xffffffffu);
    TRIP(MPI_LONG_LONG, long long, "0102030405060708ffffffffffffffff", 0x0102030405060708LL, -1);
    TRIP(MPI_INT64_T, int64_t, "fffffffffffffff00000000000000001", -16, 1);
    TRIP(MPI_UINT16_T, uint16_t, "abcd0001", 0xabcd, 1);
    TRIP(MPI_FLOAT, float, "3fc00000c0000000", 1.5f, -2.0f);
    TRIP(MPI_DOUBLE, double, "3ff8000000000000c000000000000000", 1.5, -2.0);
    TRIP(MPI_C_BOOL, _Bool, "0100", 1, 0);
    TRIP(MPI_C_DOUBLE_COMPLEX, double _Complex, "3ff0000000000000c000000000000000", 1.0 - 2.0 * I);
    TRIP(MPI_OFFSET, MPI_Offset, "00000000000000090000010000000000", 9, 1LL << 40);
    END_CLAUSE();
}

static void external_extents(void)
{
    CLAUSE("23b", "get_type_extent follows the data representation; portable filetypes are scaled");
    const struct { MPI_Datatype type; int external; } sizes[] = {
        {MPI_CHAR, 1}, {MPI_SHORT, 2}, {MPI_INT, 4}, {MPI_LONG, 4}, {MPI_UNSIGNED_LONG, 4}, {MPI_LONG_LONG, 8},
        {MPI_FLOAT, 4}, {MPI_DOUBLE, 8}, {MPI_LONG_DOUBLE, 16}, {MPI_WCHAR, 2}, {MPI_C_BOOL, 1}, {MPI_AINT, 8},
        {MPI_OFFSET, 8}, {MPI_BYTE, 1}, {MPI_INT8_T, 1}, {MPI_C_FLOAT_COMPLEX, 8}};
    MPI_Aint extent, lb, native;
    MPI_Offset at;
    MPI_Status st;
    long data[6] = {10, 20, 30, -40, 50, 60}, back[12];
    MPI_File fh = open_all("extents", MPI_MODE_RDWR | MPI_MODE_CREATE);
    OK(MPI_File_set_view(fh, 0, MPI_LONG, MPI_LONG, "external32", MPI_INFO_NULL));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        OK(MPI_File_get_type_extent(fh, sizes[i].type, &extent));
        CHECK(extent == sizes[i].external, "datatype %d takes %ld bytes in external32, wanted %d", (int)i,
              (long)extent, sizes[i].external);
    }
    MPI_Datatype every_other, many;
    MPI_Type_contiguous(7, MPI_LONG, &many);
    OK(MPI_File_get_type_extent(fh, many, &extent));
    SAME(extent, 28);
    MPI_Type_free(&many);
    MPI_Type_vector(3, 1, 2, MPI_LONG, &every_other);
    MPI_Type_commit(&every_other);
    OK(MPI_File_get_type_extent(fh, every_other, &extent));
    SAME(extent, 20);
    OK(MPI_File_set_view(fh, 4, MPI_LONG, every_other, "external32", MPI_INFO_NULL));
    const int want[] = {4, 12, 20, 24, 32, 40};
    for (int i = 0; i < 6; i++) {
        OK(MPI_File_get_byte_offset(fh, i, &at));
        SAME(at, want[i]);
    }
    OK(MPI_File_write_at_all(fh, 0, data, rank == 0 ? 6 : 0, MPI_LONG, &st));
    settle(fh);
    expect_bytes("extents", "00000000" "0000000a00000000" "0000001400000000" "0000001e"
                            "ffffffd800000000" "0000003200000000" "0000003c");
    OK(MPI_File_seek(fh, 0, MPI_SEEK_END));
    SAME(position(fh), 6);
    /* Memory with holes is native, whatever the file is. */
    memset(back, 0x55, sizeof back);
    OK(MPI_File_read_at_all(fh, 1, back, 1, every_other, &st));
    SAME(back[0], 20);
    SAME(back[1], 0x5555555555555555);
    SAME(back[2], 30);
    SAME(back[4], -40);
    /* Byte displacements are taken as they are. */
    int lengths[] = {1, 1};
    MPI_Aint bytes[] = {0, 20};
    MPI_Datatype apart;
    MPI_Type_create_hindexed(2, lengths, bytes, MPI_LONG, &apart);
    MPI_Type_commit(&apart);
    OK(MPI_File_set_view(fh, 4, MPI_LONG, apart, "external32", MPI_INFO_NULL));
    OK(MPI_File_get_byte_offset(fh, 1, &at));
    SAME(at, 24);
    OK(MPI_File_read_at_all(fh, 0, back, 2, MPI_LONG, &st));
    SAME(back[0], 10);
    SAME(back[1], -40);
    OK(MPI_File_set_view(fh, 0, MPI_LONG, MPI_LONG, "native", MPI_INFO_NULL));
    OK(MPI_File_get_type_extent(fh, MPI_LONG, &extent));
    MPI_Type_get_extent(MPI_LONG, &lb, &native);
    SAME(extent, native);
    OK(MPI_File_close(&fh));
    MPI_Type_free(&apart);
    MPI_Type_free(&every_other);
    END_CLAUSE();
}

/* A record of int, double, char, long: packed in the file, padded in memory. */
static void records(void)
{
    struct record { int i; double d; char c; long l; } data[3], back[3];
    CLAUSE("23c", "external32: records are converted member by member, by every kind of access");
    int lengths[] = {1, 1, 1, 1};
    MPI_Aint memory[] = {offsetof(struct record, i), offsetof(struct record, d), offsetof(struct record, c),
                         offsetof(struct record, l)}, file[] = {0, 4, 12, 13};
    MPI_Datatype types[] = {MPI_INT, MPI_DOUBLE, MPI_CHAR, MPI_LONG}, raw, here, there;
    MPI_Type_create_struct(4, lengths, memory, types, &raw);
    MPI_Type_create_resized(raw, 0, sizeof(struct record), &here);
    MPI_Type_commit(&here);
    MPI_Type_free(&raw);
    MPI_Type_create_struct(4, lengths, file, types, &raw);
    MPI_Type_create_resized(raw, 0, 17, &there);
    MPI_Type_commit(&there);
    MPI_Type_free(&raw);
    memset(data, 0, sizeof data);
    for (int i = 0; i < 3; i++)
        data[i] = (struct record){i + 1, i + 0.5, (char)('x' + i), -1 - i};
    MPI_File fh = open_all("records", MPI_MODE_RDWR | MPI_MODE_CREATE);
    OK(MPI_File_set_view(fh, 0, there, there, "external32", MPI_INFO_NULL));
    MPI_Status st;
    MPI_Request request;
    if (rank == 0) {
        OK(MPI_File_write_at(fh, 0, data, 1, here, &st));
        SAME(count_of(&st, here), 1);
        OK(MPI_File_iwrite_at(fh, 1, data + 1, 1, here, &request));
        OK(MPI_Wait(&request, &st));
        SAME(count_of(&st, here), 1);
    }
    OK(MPI_File_write_at_all(fh, 2, data + 2, rank == 0, here, &st));
    settle(fh);
    expect_bytes("records", "00000001" "3fe0000000000000" "78" "ffffffff"
                            "00000002" "3ff8000000000000" "79" "fffffffe"
                            "00000003" "4004000000000000" "7a" "fffffffd");
    for (int way = 0; way < 4; way++) {
        memset(back, 0, sizeof back);
        if (way == 0)
            OK(MPI_File_read_at(fh, 0, back, 3, here, &st));
        if (way == 1)
            OK(MPI_File_read_at_all(fh, 0, back, 3, here, &st));
        if (way == 2) {
            OK(MPI_File_iread_at(fh, 0, back, 3, here, &request));
            OK(MPI_Wait(&request, &st));
        }
        if (way == 3) {
            OK(MPI_File_read_all_begin(fh, back, 3, here));
            OK(MPI_File_read_all_end(fh, back, &st));
        }
        SAME(count_of(&st, here), 3);
        for (int i = 0; i < 3; i++)
            CHECK(back[i].i == data[i].i && back[i].d == data[i].d && back[i].c == data[i].c &&
                  back[i].l == data[i].l, "record %d does not come back, way %d", i, way);
    }
    OK(MPI_File_close(&fh));
    MPI_Type_free(&here);
    MPI_Type_free(&there);
    /* Interleaved ints of all ranks, enough for several collective buffers. */
    enum { MANY = 50000 };
    int *ints = malloc(MANY * sizeof(int)), *again = malloc(MANY * sizeof(int));
    for (int i = 0; i < MANY; i++)
        ints[i] = rank * MANY + i;
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "cb_buffer_size", "65536");
    OK(MPI_File_open(MPI_COMM_WORLD, path("mixed"), MPI_MODE_RDWR | MPI_MODE_CREATE, info, &fh));
    MPI_Info_free(&info);
    MPI_Datatype mine;
    MPI_Type_vector(MANY / 5, 5, 5 * ranks, MPI_INT, &mine);
    MPI_Type_commit(&mine);
    OK(MPI_File_set_view(fh, 20 * rank, MPI_INT, mine, "external32", MPI_INFO_NULL));
    OK(MPI_File_write_all(fh, ints, MANY, MPI_INT, &st));
    SAME(count_of(&st, MPI_INT), MANY);
    OK(MPI_File_read_at_all(fh, 0, again, MANY, MPI_INT, &st));
    CHECK(memcmp(ints, again, MANY * sizeof(int)) == 0, "interleaved ints do not come back");
    OK(MPI_File_close(&fh));
    unsigned char first[40];
    slurp("mixed", first, sizeof first);
    SAME(first[19], 4);
    SAME(first[0] | first[1] | first[2] | first[3], 0);
    free(ints);
    free(again);
    MPI_Type_free(&mine);
    END_CLAUSE();
}

static void internal_representation(void)
{
    double data[4] = {1.25, -3, 1e300, 0}, back[4] = {0};
    MPI_Offset disp;
    MPI_Datatype etype, filetype;
    char rep[MPI_MAX_DATAREP_STRING + 1] = "";
    CLAUSE("23d", "internal: what was written comes back");
    MPI_File fh = open_all("internal", MPI_MODE_RDWR | MPI_MODE_CREATE);
    OK(MPI_File_set_view(fh, 0, MPI_DOUBLE, MPI_DOUBLE, "internal", MPI_INFO_NULL));
    OK(MPI_File_write_at_all(fh, 4 * rank, data, 4, MPI_DOUBLE, MPI_STATUS_IGNORE));
    OK(MPI_File_read_at_all(fh, 4 * rank, back, 4, MPI_DOUBLE, MPI_STATUS_IGNORE));
    CHECK(memcmp(data, back, sizeof data) == 0, "doubles do not come back");
    OK(MPI_File_get_view(fh, &disp, &etype, &filetype, rep));
    CHECK(strcmp(rep, "internal") == 0, "the data representation is %s", rep);
    OK(MPI_File_close(&fh));
    END_CLAUSE();
}

/* A representation of ints as `width` bytes, most significant first. */
struct wide { int width, calls, fail; };

static int store_wide(void *user, MPI_Datatype type, int count, void *file, MPI_Offset position, void *state)
{
    struct wide *w = state;
    (void)type;
    w->calls++;
    if (w->fail)
        return MPI_ERR_OTHER;
    for (int i = 0; i < count; i++) {
        long long value = ((int *)user)[position + i];
        for (int b = 0; b < w->width; b++)
            ((unsigned char *)file)[i * w->width + b] = (unsigned char)(value >> (8 * (w->width - 1 - b)));
    }
    return MPI_SUCCESS;
}

static int load_wide(void *user, MPI_Datatype type, int count, void *file, MPI_Offset position, void *state)
{
    struct wide *w = state;
    (void)type;
    w->calls++;
    if (w->fail)
        return MPI_ERR_OTHER;
    for (int i = 0; i < count; i++) {
        unsigned value = 0;
        for (int b = 0; b < w->width; b++)
            value = value << 8 | ((unsigned char *)file)[i * w->width + b];
        ((int *)user)[position + i] = (int)value;
    }
    return MPI_SUCCESS;
}

static int wide_extent(MPI_Datatype type, MPI_Aint *extent, void *state)
{
    MPI_Aint lb;
    if (type == MPI_INT) {
        *extent = ((struct wide *)state)->width;
        return MPI_SUCCESS;
    }
    return MPI_Type_get_extent(type, &lb, extent);
}

static void own_representations(void)
{
    static struct wide same = {4, 0, 0}, twice = {8, 0, 0}, broken = {4, 0, 1};
    static int data[20000], back[20000];
    MPI_Status st;
    MPI_Request request;
    MPI_Aint extent;
    CLAUSE("23e", "data representations of the user's own convert what is written and read");
    OK(MPI_Register_datarep("big4", load_wide, store_wide, wide_extent, &same));
    OK(MPI_Register_datarep("big8", load_wide, store_wide, wide_extent, &twice));
    OK(MPI_Register_datarep("broken", load_wide, store_wide, wide_extent, &broken));
    OK(MPI_Register_datarep("through", NULL, NULL, wide_extent, &same));
    GIVES(MPI_Register_datarep("big4", load_wide, store_wide, wide_extent, &same), MPI_ERR_DUP_DATAREP);
    GIVES(MPI_Register_datarep("external32", load_wide, store_wide, wide_extent, &same), MPI_ERR_DUP_DATAREP);
    for (int i = 0; i < 20000; i++)
        data[i] = i * 3 - 7;
    MPI_File fh = open_all("own", MPI_MODE_RDWR | MPI_MODE_CREATE);
    OK(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "big4", MPI_INFO_NULL));
    OK(MPI_File_write_at_all(fh, 0, data, rank == 0 ? 4 : 0, MPI_INT, &st));
    settle(fh);
    expect_bytes("own", "fffffff9fffffffcffffffff00000002");
    CHECK(rank != 0 || same.calls > 0, "the conversion function was not called");
    OK(MPI_File_get_type_extent(fh, MPI_INT, &extent));
    SAME(extent, 4);
    barrier();
    OK(MPI_File_set_size(fh, 0));
    OK(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "big8", MPI_INFO_NULL));
    OK(MPI_File_get_type_extent(fh, MPI_INT, &extent));
    SAME(extent, 8);
    OK(MPI_File_write_at_all(fh, 0, data + 2, rank == 0 ? 2 : 0, MPI_INT, &st));
    SAME(count_of(&st, MPI_INT), rank == 0 ? 2 : 0);
    settle(fh);
    expect_bytes("own", "ffffffffffffffff0000000000000002");
    OK(MPI_File_seek(fh, 0, MPI_SEEK_END));
    SAME(position(fh), 2);
    barrier();
    /* Many ints, a buffer datatype of three of them, every kind of access. */
    MPI_Datatype three;
    MPI_Type_contiguous(3, MPI_INT, &three);
    MPI_Type_commit(&three);
    MPI_Offset mine = rank * 20000;
    OK(MPI_File_write_at(fh, mine, data, 9999 / 3, three, &st));
    SAME(count_of(&st, three), 9999 / 3);
    OK(MPI_File_iwrite_at(fh, mine + 9999, data + 9999, 10001, MPI_INT, &request));
    OK(MPI_Wait(&request, &st));
    SAME(count_of(&st, MPI_INT), 10001);
    settle(fh);
    SAME(file_size(fh), 160000LL * ranks);
    OK(MPI_File_read_at_all(fh, mine, back, 20000, MPI_INT, &st));
    CHECK(memcmp(data, back, sizeof data) == 0, "ints do not come back");
    memset(back, 0, sizeof back);
    OK(MPI_File_seek(fh, mine, MPI_SEEK_SET));
    OK(MPI_File_iread(fh, back, 6666, three, &request));
    OK(MPI_Wait(&request, &st));
    SAME(count_of(&st, three), 6666);
    SAME(position(fh), mine + 19998);
    CHECK(memcmp(data, back, 19998 * sizeof(int)) == 0, "triples do not come back");
    OK(MPI_File_read_at(fh, 20000LL * ranks - 5, back, 50, MPI_INT, &st));
    SAME(count_of(&st, MPI_INT), 5);
    SAME(back[4], data[19999]);
    OK(MPI_File_close(&fh));
    MPI_Type_free(&three);
    END_CLAUSE();

    CLAUSE("23f", "a failing conversion function is MPI_ERR_CONVERSION; none at all is no conversion");
    fh = open_all("broken", MPI_MODE_RDWR | MPI_MODE_CREATE);
    OK(MPI_File_set_size(fh, 400));
    OK(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "broken", MPI_INFO_NULL));
    GIVES(MPI_File_write_at(fh, 0, data, 4, MPI_INT, &st), MPI_ERR_CONVERSION);
    GIVES(MPI_File_read_at(fh, 0, back, 4, MPI_INT, &st), MPI_ERR_CONVERSION);
    GIVES(MPI_File_write_at_all(fh, 0, data, 4, MPI_INT, &st), MPI_ERR_CONVERSION);
    GIVES(MPI_File_read_at_all(fh, 0, back, 4, MPI_INT, &st), MPI_ERR_CONVERSION);
    OK(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "through", MPI_INFO_NULL));
    OK(MPI_File_write_at_all(fh, 0, data, rank == 0 ? 4 : 0, MPI_INT, &st));
    settle(fh);
    OK(MPI_File_read_at_all(fh, 0, back, 4, MPI_INT, &st));
    SAME(back[3], data[3]);
    slurp("broken", back, 16);
    SAME(back[0], data[0]);
    OK(MPI_File_close(&fh));
    END_CLAUSE();
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    basic_types();
    external_extents();
    records();
    internal_representation();
    own_representations();
    return finish();
}
