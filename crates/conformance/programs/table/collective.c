/* Collective, split and nonblocking access: clauses 19 and 24, and requests in company. */
#include "check.h"

/* Clause 19: split collectives. */
static void split_collectives(void)
{
    int data[16], more[4] = {0}, on_disk[200];
    MPI_Status st;
    CLAUSE("19", "split collectives: one active per handle, no other collective access on it meanwhile");
    spit_ints("split", 100);
    MPI_File fh = open_all("split", MPI_MODE_RDWR), other = open_all("split", MPI_MODE_RDWR);
    MPI_Datatype mine = holed(1, ranks);
    OK(MPI_File_set_view(fh, 4 * rank, MPI_INT, mine, "native", MPI_INFO_NULL));
    OK(MPI_File_read_all_begin(fh, data, 8, MPI_INT));
    FAILS(MPI_File_read_all_begin(fh, more, 1, MPI_INT));
    FAILS(MPI_File_write_all_begin(fh, more, 1, MPI_INT));
    FAILS(MPI_File_read_all(fh, more, 1, MPI_INT, &st));
    FAILS(MPI_File_write_ordered(fh, more, 1, MPI_INT, &st));
    FAILS(MPI_File_read_at_all_end(fh, data, &st));
    FAILS(MPI_File_write_all_end(fh, data, &st));
    /* Independent access goes on, and so does another handle, split itself. */
    OK(MPI_File_read_at(fh, 2, more, 1, MPI_INT, &st));
    SAME(more[0], rank + 2 * ranks);
    OK(MPI_File_read_at_all_begin(other, 20, more, 2, MPI_INT));
    OK(MPI_File_read_at_all_end(other, more, &st));
    SAME(more[1], 6);
    OK(MPI_File_read_all_end(fh, data, &st));
    SAME(count_of(&st, MPI_INT), 8);
    for (int i = 0; i < 8; i++)
        SAME(data[i], rank + i * ranks);
    FAILS(MPI_File_read_all_end(fh, data, &st));
    /* Two handles at once, overlapping in time. */
    barrier();
    for (int i = 0; i < 8; i++)
        data[i] = -(rank + i * ranks);
    OK(MPI_File_write_at_all_begin(fh, 0, data, 8, MPI_INT));
    OK(MPI_File_read_at_all_begin(other, 320, more, 4, MPI_INT));
    OK(MPI_File_read_at_all_end(other, more, &st));
    SAME(more[3], 83);
    OK(MPI_File_write_at_all_end(fh, data, &st));
    settle(fh);
    SAME(slurp("split", on_disk, sizeof on_disk), 400);
    for (int i = 0; i < 100; i++)
        SAME(on_disk[i], i < 8 * ranks ? -i : i);
    OK(MPI_File_close(&other));
    OK(MPI_File_close(&fh));
    MPI_Type_free(&mine);
    END_CLAUSE();
}

/* Clause 24: nothing is a legal amount. */
static void nothing_at_all(void)
{
    int data[4] = {1, 2, 3, 4};
    MPI_Status st;
    MPI_Request request;
    CLAUSE("24", "a zero-size access is legal on any rank of a collective, so is a filetype of size zero");
    spit_ints("zero", 40);
    MPI_File fh = open_all("zero", MPI_MODE_RDWR);
    for (int idle = 0; idle < ranks; idle++) {
        int count = rank == idle ? 0 : 2;
        void *buf = rank == idle ? NULL : data;
        OK(MPI_File_read_at_all(fh, 8 * rank, buf, count, MPI_INT, &st));
        SAME(count_of(&st, MPI_INT), count);
        CHECK(rank == idle || (data[0] == 2 * rank && data[1] == 2 * rank + 1), "wrong data");
        OK(MPI_File_write_at_all(fh, 8 * rank, buf, count, MPI_INT, &st));
        SAME(count_of(&st, MPI_INT), count);
        OK(MPI_File_iwrite_at_all(fh, 8 * rank, buf, count, MPI_INT, &request));
        OK(MPI_Wait(&request, &st));
    }
    OK(MPI_File_write_all(fh, NULL, 0, MPI_INT, &st)); /* nobody has anything */
    OK(MPI_File_read_ordered(fh, NULL, 0, MPI_INT, &st));
    OK(MPI_File_write_shared(fh, NULL, 0, MPI_INT, &st));
    OK(MPI_File_iread(fh, NULL, 0, MPI_INT, &request));
    OK(MPI_Wait(&request, &st));
    SAME(count_of(&st, MPI_INT), 0);
    SAME(position(fh), 0);
    SAME(shared_position(fh), 0);
    /* A datatype of size zero, many times. */
    MPI_Datatype none, hole;
    MPI_Type_contiguous(0, MPI_INT, &none);
    MPI_Type_commit(&none);
    MPI_Type_create_resized(none, 0, 64, &hole);
    MPI_Type_commit(&hole);
    OK(MPI_File_write_at_all(fh, 0, data, 1000, none, &st));
    SAME(count_of(&st, MPI_BYTE), 0);
    /* The last rank sees nothing of the file; the others see all of it. */
    int blind = ranks - 1;
    MPI_Datatype types[] = {none, hole};
    for (int i = 0; i < 2; i++) {
        OK(MPI_File_set_view(fh, 0, MPI_INT, rank == blind ? types[i] : MPI_INT, "native", MPI_INFO_NULL));
        OK(MPI_File_read_at_all(fh, rank == blind ? 0 : rank, data, rank != blind, MPI_INT, &st));
        SAME(count_of(&st, MPI_INT), rank != blind);
        CHECK(rank == blind || data[0] == rank, "wrong data");
        OK(MPI_File_write_all(fh, data, 0, MPI_INT, &st));
        OK(MPI_File_seek(fh, 0, MPI_SEEK_END));
        SAME(position(fh), rank == blind ? 0 : 40);
        MPI_Offset at = -1;
        OK(MPI_File_get_byte_offset(fh, 0, &at));
        SAME(at, 0);
    }
    OK(MPI_File_close(&fh));
    SAME(size_on_disk("zero"), 160);
    MPI_Type_free(&none);
    MPI_Type_free(&hole);
    END_CLAUSE();
}

/* Requests: many at once, tested, waited for in any order, beside messages. */
static void requests(void)
{
    enum { MANY = 12, INTS = 200 };
    static int data[MANY][INTS], back[MANY][INTS];
    int on_disk[INTS], note = -1, flag;
    MPI_Request request[MANY + 2];
    MPI_Status st[MANY + 2], one;
    CLAUSE("requests", "many requests at once, completed in any way, beside messages");
    MPI_File fh = open_all("many", MPI_MODE_RDWR | MPI_MODE_CREATE);
    OK(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    int mine = rank * MANY * INTS;
    for (int i = 0; i < MANY; i++) {
        for (int k = 0; k < INTS; k++)
            data[i][k] = mine + i * INTS + k;
        OK(MPI_File_iwrite_at(fh, mine + i * INTS, data[i], INTS, MPI_INT, &request[i]));
    }
    MPI_Irecv(&note, 1, MPI_INT, (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD, &request[MANY]);
    MPI_Isend(&rank, 1, MPI_INT, (rank + 1) % ranks, 0, MPI_COMM_WORLD, &request[MANY + 1]);
    OK(MPI_Waitall(MANY + 2, request, st));
    SAME(note, (rank + ranks - 1) % ranks);
    for (int i = 0; i < MANY; i++) {
        SAME(count_of(&st[i], MPI_INT), INTS);
        CHECK(request[i] == MPI_REQUEST_NULL, "a request is left");
    }
    settle(fh);
    for (int i = 0; i < MANY; i++)
        OK(MPI_File_iread_at(fh, mine + i * INTS, back[i], INTS, MPI_INT, &request[i]));
    int index, left = MANY;
    for (; left > MANY / 2; left--) {
        OK(MPI_Waitany(MANY, request, &index, &one));
        CHECK(index >= 0 && index < MANY, "Waitany gives %d", index);
        SAME(count_of(&one, MPI_INT), INTS);
    }
    for (int i = 0; i < MANY; i++) {
        do
            OK(MPI_Test(&request[i], &flag, &one));
        while (!flag);
        CHECK(memcmp(back[i], data[i], sizeof data[i]) == 0, "request %d read something else", i);
    }
    /* Several pointers in flight: each starts where the last one was to end. */
    memset(back, 0, sizeof back);
    OK(MPI_File_seek(fh, mine, MPI_SEEK_SET));
    for (int i = 0; i < 3; i++)
        OK(MPI_File_iread(fh, back[i], INTS, MPI_INT, &request[i]));
    SAME(position(fh), mine + 3 * INTS);
    OK(MPI_Waitall(3, request, st));
    CHECK(memcmp(back, data, 3 * sizeof data[0]) == 0, "reads by pointer got something else");
    /* Nonblocking collectives, two in flight, waited for in reverse. */
    MPI_Datatype stripe;
    MPI_Type_vector(INTS / 4, 4, 4 * ranks, MPI_INT, &stripe);
    MPI_Type_commit(&stripe);
    OK(MPI_File_set_view(fh, 16 * rank, MPI_INT, stripe, "native", MPI_INFO_NULL));
    for (int k = 0; k < INTS; k++)
        data[0][k] = -rank - 1;
    OK(MPI_File_iwrite_all(fh, data[0], INTS / 2, MPI_INT, &request[0]));
    OK(MPI_File_iwrite_all(fh, data[0] + INTS / 2, INTS / 2, MPI_INT, &request[1]));
    SAME(position(fh), INTS);
    OK(MPI_Wait(&request[1], &one));
    SAME(count_of(&one, MPI_INT), INTS / 2);
    OK(MPI_Wait(&request[0], &one));
    SAME(count_of(&one, MPI_INT), INTS / 2);
    settle(fh);
    slurp("many", on_disk, sizeof on_disk);
    for (int k = 0; k < INTS; k++)
        SAME(on_disk[k], -(k / 4 % ranks) - 1);
    barrier();
    OK(MPI_File_iread_at_all(fh, 0, back[0], INTS, MPI_INT, &request[0]));
    do
        OK(MPI_Testall(1, request, &flag, st));
    while (!flag);
    SAME(count_of(&st[0], MPI_INT), INTS);
    CHECK(memcmp(back[0], data[0], sizeof data[0]) == 0, "a nonblocking collective read got something else");
    MPI_Type_free(&stripe);
    OK(MPI_File_close(&fh));
    END_CLAUSE();
}

/* Memory by absolute addresses, pairs, and the bounds of odd datatypes. */
static void odd_memory(void)
{
    int a[3] = {1, 2, 3}, b[5] = {4, 5, 6, 7, 8}, got[8] = {0};
    struct { double value; int index; } pairs[2] = {{1.5, 7}, {-2.5, 9}}, back[2] = {{0, 0}, {0, 0}};
    MPI_Status st;
    CLAUSE("memory", "MPI_BOTTOM with absolute addresses, pair datatypes and negative strides work as buffers");
    MPI_File fh = open_all("odd", MPI_MODE_RDWR | MPI_MODE_CREATE);
    int lengths[] = {3, 5};
    MPI_Aint at[2];
    MPI_Datatype parts[] = {MPI_INT, MPI_INT}, absolute;
    MPI_Get_address(a, &at[0]);
    MPI_Get_address(b, &at[1]);
    MPI_Type_create_struct(2, lengths, at, parts, &absolute);
    MPI_Type_commit(&absolute);
    MPI_Offset mine = rank * 100;
    OK(MPI_File_write_at_all(fh, mine, MPI_BOTTOM, 1, absolute, &st));
    SAME(count_of(&st, MPI_INT), 8);
    OK(MPI_File_read_at(fh, mine, got, 8, MPI_INT, &st));
    for (int i = 0; i < 8; i++)
        SAME(got[i], i + 1);
    memset(a, 0, sizeof a);
    memset(b, 0, sizeof b);
    OK(MPI_File_read_at_all(fh, mine, MPI_BOTTOM, 1, absolute, &st));
    SAME(a[2], 3);
    SAME(b[4], 8);
    MPI_Type_free(&absolute);
    OK(MPI_File_write_at(fh, mine + 40, pairs, 2, MPI_DOUBLE_INT, &st));
    SAME(count_of(&st, MPI_DOUBLE_INT), 2);
    OK(MPI_File_read_at(fh, mine + 40, back, 2, MPI_DOUBLE_INT, &st));
    CHECK(back[1].value == -2.5 && back[1].index == 9, "pairs do not come back");
    double value = 0;
    OK(MPI_File_read_at(fh, mine + 52, &value, 1, MPI_DOUBLE, &st)); /* 12 bytes a pair: no padding */
    CHECK(value == -2.5, "the second pair does not follow the first");
    MPI_Datatype backwards;
    MPI_Type_create_hvector(5, 1, -(MPI_Aint)sizeof(int), MPI_INT, &backwards);
    MPI_Type_commit(&backwards);
    OK(MPI_File_write_at_all(fh, mine, b + 4, 1, backwards, &st));
    OK(MPI_File_read_at_all(fh, mine, got, 5, MPI_INT, &st));
    for (int i = 0; i < 5; i++)
        SAME(got[i], 8 - i);
    MPI_Type_free(&backwards);
    OK(MPI_File_close(&fh));
    END_CLAUSE();
}

/* Large and small pieces, every rank another share, with and without the collective machinery. */
static void interleaved(void)
{
    CLAUSE("interleaved", "interleaved collective writes and reads give the same bytes with any hints");
    enum { PIECES = 300 };
    const char *modes[] = {"enable", "disable", "automatic"};
    for (int m = 0; m < 3; m++) {
        for (int piece = 1; piece <= 1000; piece = piece * 31 + 2) {
            MPI_Info info;
            MPI_Info_create(&info);
            MPI_Info_set(info, "romio_cb_write", modes[m]);
            MPI_Info_set(info, "romio_cb_read", modes[m]);
            MPI_Info_set(info, "cb_buffer_size", "65536");
            MPI_File fh = MPI_FILE_NULL;
            OK(MPI_File_open(MPI_COMM_WORLD, path("mixed"), MPI_MODE_RDWR | MPI_MODE_CREATE, info, &fh));
            MPI_Info_free(&info);
            MPI_Datatype view, bytes;
            MPI_Type_contiguous(piece, MPI_BYTE, &bytes);
            MPI_Type_create_resized(bytes, 0, (MPI_Aint)piece * (ranks + 1), &view);
            MPI_Type_commit(&view);
            OK(MPI_File_set_view(fh, 3 + (MPI_Offset)piece * rank, MPI_BYTE, view, "native", MPI_INFO_NULL));
            size_t mine = (size_t)piece * PIECES, all = mine * (size_t)(ranks + 1);
            unsigned char *out = malloc(mine), *in = calloc(1, mine), *disk = calloc(1, all + 3);
            for (size_t i = 0; i < mine; i++)
                out[i] = (unsigned char)(i * 7 + (size_t)rank * 41 + 1);
            MPI_Status st;
            OK(MPI_File_set_size(fh, 0));
            OK(MPI_File_write_all(fh, out, (int)mine, MPI_BYTE, &st));
            SAME(count_of(&st, MPI_BYTE), (int)mine);
            OK(MPI_File_read_at_all(fh, 0, in, (int)mine, MPI_BYTE, &st));
            SAME(count_of(&st, MPI_BYTE), (int)mine);
            CHECK(memcmp(in, out, mine) == 0, "%d-byte pieces, %s: other data comes back", piece, modes[m]);
            OK(MPI_File_close(&fh));
            long long size = slurp("mixed", disk, all + 3);
            SAME(size, 3 + (long long)(all - (size_t)piece));
            int wrong = 0;
            for (size_t i = 0; i + 3 < (size_t)size; i++) {
                size_t tile = i / ((size_t)piece * (size_t)(ranks + 1)), in_tile = i % ((size_t)piece * (size_t)(ranks + 1));
                size_t who = in_tile / (size_t)piece, k = tile * (size_t)piece + in_tile % (size_t)piece;
                unsigned char want = who == (size_t)ranks ? 0 : (unsigned char)(k * 7 + who * 41 + 1);
                wrong += disk[i + 3] != want;
            }
            CHECK(wrong == 0, "%d-byte pieces, %s: %d bytes in the file are wrong", piece, modes[m], wrong);
            barrier();
            free(out);
            free(in);
            free(disk);
            MPI_Type_free(&view);
            MPI_Type_free(&bytes);
        }
    }
    END_CLAUSE();
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    split_collectives();
    nothing_at_all();
    requests();
    odd_memory();
    interleaved();
    return finish();
}
