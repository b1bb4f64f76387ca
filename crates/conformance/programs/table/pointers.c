/* File pointers and the end of the file: clauses 7, 8, 10 and 18. */
#include "check.h"

/* Clause 7: a pointer moves by what was asked for, when the access starts. */
static void pointers_move_by_request(void)
{
    int got[20];
    MPI_Status st;
    MPI_Request request;
    MPI_Datatype view = holed(2, 3);
    CLAUSE("7", "pointers advance at initiation by the requested amount, also at the end of the file");
    spit_ints("request", 30); /* through the view: 20 etypes */
    MPI_File fh = open_all("request", MPI_MODE_RDWR);
    OK(MPI_File_set_view(fh, 0, MPI_INT, view, "native", MPI_INFO_NULL));
    OK(MPI_File_read(fh, got, 3, MPI_INT, &st));
    SAME(position(fh), 3);
    OK(MPI_File_read_at(fh, 10, got, 3, MPI_INT, &st));
    SAME(position(fh), 3);
    OK(MPI_File_iread(fh, got, 4, MPI_INT, &request));
    SAME(position(fh), 7); /* not yet waited for */
    OK(MPI_Wait(&request, &st));
    SAME(count_of(&st, MPI_INT), 4);
    SAME(position(fh), 7);
    OK(MPI_File_seek(fh, 18, MPI_SEEK_SET));
    OK(MPI_File_read(fh, got, 10, MPI_INT, &st)); /* two are there */
    SAME(count_of(&st, MPI_INT), 2);
    SAME(got[0], 27);
    SAME(got[1], 28);
    SAME(position(fh), 28);
    OK(MPI_File_read(fh, got, 10, MPI_INT, &st)); /* none is there */
    SAME(count_of(&st, MPI_INT), 0);
    SAME(position(fh), 38);
    OK(MPI_File_read_all(fh, got, 5, MPI_INT, &st));
    SAME(count_of(&st, MPI_INT), 0);
    SAME(position(fh), 43);
    OK(MPI_File_iread(fh, got, 5, MPI_INT, &request));
    SAME(position(fh), 48);
    OK(MPI_Wait(&request, &st));
    SAME(count_of(&st, MPI_INT), 0);
    OK(MPI_File_iread_all(fh, got, 5, MPI_INT, &request));
    SAME(position(fh), 53);
    OK(MPI_Wait(&request, &st));
    OK(MPI_File_read_all_begin(fh, got, 5, MPI_INT));
    SAME(position(fh), 58);
    OK(MPI_File_read_all_end(fh, got, &st));
    SAME(count_of(&st, MPI_INT), 0);
    SAME(position(fh), 58);
    /* A buffer datatype of five ints over an etype of one. */
    MPI_Datatype five;
    MPI_Type_contiguous(5, MPI_INT, &five);
    MPI_Type_commit(&five);
    OK(MPI_File_seek(fh, 1, MPI_SEEK_SET));
    OK(MPI_File_read(fh, got, 2, five, &st));
    SAME(count_of(&st, five), 2);
    SAME(position(fh), 11);
    MPI_Type_free(&five);
    /* The shared pointer, too. */
    OK(MPI_File_seek_shared(fh, 19, MPI_SEEK_SET));
    OK(MPI_File_read_shared(fh, got, 4, MPI_INT, &st));
    barrier();
    SAME(shared_position(fh), 19 + 4 * ranks);
    barrier();
    OK(MPI_File_iread_shared(fh, got, 4, MPI_INT, &request));
    OK(MPI_Wait(&request, &st));
    SAME(count_of(&st, MPI_INT), 0);
    barrier();
    SAME(shared_position(fh), 19 + 8 * ranks);
    barrier();
    OK(MPI_File_read_ordered(fh, got, 1 + rank, MPI_INT, &st));
    SAME(count_of(&st, MPI_INT), 0);
    SAME(shared_position(fh), 19 + 8 * ranks + ranks * (ranks + 1) / 2);
    OK(MPI_File_close(&fh));
    MPI_Type_free(&view);
    END_CLAUSE();
}

/* Clause 8: a read that meets the end of the file is a success with the count it got. */
static void short_reads_succeed(void)
{
    int got[60];
    MPI_Status st;
    MPI_Request request;
    CLAUSE("8", "reads past the end succeed with the actual count, collective and strided ones included");
    spit_ints("short", 10);
    MPI_File fh = open_all("short", MPI_MODE_RDONLY);
    OK(MPI_File_read_at(fh, 24, got, 10, MPI_INT, &st));
    SAME(count_of(&st, MPI_INT), 4);
    OK(MPI_File_read_at(fh, 38, got, 10, MPI_BYTE, &st));
    SAME(count_of(&st, MPI_BYTE), 2);
    OK(MPI_File_read_at(fh, 40, got, 10, MPI_BYTE, &st));
    SAME(count_of(&st, MPI_BYTE), 0);
    OK(MPI_File_read_at(fh, 1LL << 40, got, 10, MPI_BYTE, &st));
    SAME(count_of(&st, MPI_BYTE), 0);
    /* Half an int at the end: elements, not whole items. */
    OK(MPI_File_read_at(fh, 34, got, 2, MPI_INT, &st));
    int bytes = -1;
    MPI_Get_elements(&st, MPI_BYTE, &bytes);
    SAME(bytes, 6);
    CHECK(count_of(&st, MPI_INT) == MPI_UNDEFINED, "one int and a half counts as %d", count_of(&st, MPI_INT));

    MPI_Datatype view = holed(1, 2);
    OK(MPI_File_set_view(fh, 4, MPI_INT, view, "native", MPI_INFO_NULL)); /* ints 1, 3, 5, 7, 9 */
    memset(got, 0xff, sizeof got);
    OK(MPI_File_read_at(fh, 1, got, 50, MPI_INT, &st));
    SAME(count_of(&st, MPI_INT), 4);
    SAME(got[3], 9);
    SAME(got[4], -1);
    OK(MPI_File_read_at_all(fh, 3, got, 50, MPI_INT, &st));
    SAME(count_of(&st, MPI_INT), 2);
    SAME(got[1], 9);
    OK(MPI_File_iread_at(fh, 4, got, 3, MPI_INT, &request));
    OK(MPI_Wait(&request, &st));
    SAME(count_of(&st, MPI_INT), 1);
    OK(MPI_File_iread_at_all(fh, 4, got, 3, MPI_INT, &request));
    OK(MPI_Wait(&request, &st));
    SAME(count_of(&st, MPI_INT), 1);
    OK(MPI_File_read_at_all_begin(fh, 2, got, 7, MPI_INT));
    OK(MPI_File_read_at_all_end(fh, got, &st));
    SAME(count_of(&st, MPI_INT), 3);
    /* Memory with holes: what is not read is not touched. */
    MPI_Datatype memory;
    MPI_Type_vector(6, 1, 3, MPI_INT, &memory);
    MPI_Type_commit(&memory);
    memset(got, 0xff, sizeof got);
    OK(MPI_File_read_at_all(fh, 2, got, 1, memory, &st));
    MPI_Get_elements(&st, MPI_INT, &bytes);
    SAME(bytes, 3);
    for (int i = 0; i < 18; i++)
        SAME(got[i], i % 3 == 0 && i < 9 ? 5 + 2 * (i / 3) : -1);
    MPI_Type_free(&memory);
    /* Each rank reads another part; the last ones get less or nothing. */
    OK(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    OK(MPI_File_read_at_all(fh, 6 * rank, got, 6, MPI_INT, &st));
    SAME(count_of(&st, MPI_INT), rank == 0 ? 6 : rank == 1 ? 4 : 0);
    OK(MPI_File_read_ordered(fh, got, 6, MPI_INT, &st));
    SAME(count_of(&st, MPI_INT), rank == 0 ? 6 : rank == 1 ? 4 : 0);
    OK(MPI_File_close(&fh));
    MPI_Type_free(&view);
    END_CLAUSE();
}

/* Clause 10: MODE_APPEND is about where pointers begin, no more. */
static void append_sets_pointers(void)
{
    int value, on_disk[40];
    CLAUSE("10", "MPI_MODE_APPEND sets the initial pointers only, it is not O_APPEND");
    spit_ints("append", 10);
    MPI_File fh = open_all("append", MPI_MODE_RDWR | MPI_MODE_APPEND);
    SAME(position(fh), 40);
    SAME(shared_position(fh), 40);
    barrier();
    value = 1000;
    if (rank == 0)
        OK(MPI_File_write_at(fh, 4, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    value = 100 + rank;
    OK(MPI_File_write_ordered(fh, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    SAME(shared_position(fh), 40 + 4 * ranks);
    SAME(position(fh), 40);
    settle(fh);
    SAME(slurp("append", on_disk, sizeof on_disk), 40 + 4 * ranks);
    SAME(on_disk[1], 1000);
    for (int r = 0; r < ranks; r++)
        SAME(on_disk[10 + r], 100 + r);
    barrier();
    OK(MPI_File_seek(fh, 8, MPI_SEEK_SET));
    value = 2000;
    if (rank == 0)
        OK(MPI_File_write(fh, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    settle(fh);
    SAME(slurp("append", on_disk, sizeof on_disk), 40 + 4 * ranks);
    SAME(on_disk[2], 2000);
    OK(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    SAME(position(fh), 0);
    SAME(shared_position(fh), 0);
    OK(MPI_File_close(&fh));
    MPI_Offset end = 40 + 4 * ranks;
    /* An empty or new file begins at 0; append with a sequential file writes at the end. */
    fh = open_all("append-new", MPI_MODE_WRONLY | MPI_MODE_CREATE | MPI_MODE_APPEND);
    SAME(position(fh), 0);
    OK(MPI_File_close(&fh));
    fh = open_all("append", MPI_MODE_WRONLY | MPI_MODE_APPEND | MPI_MODE_SEQUENTIAL);
    value = 300 + rank;
    OK(MPI_File_write_ordered(fh, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_close(&fh));
    SAME(slurp("append", on_disk, sizeof on_disk), end + 4 * ranks);
    SAME(on_disk[end / 4 + rank], 300 + rank);
    END_CLAUSE();
}

/* Clause 18: ordered access. */
static void ordered_is_in_rank_order(void)
{
    int data[8], on_disk[128];
    MPI_Status st;
    CLAUSE("18", "ordered access is in rank order");
    MPI_File fh = open_all("ordered", MPI_MODE_RDWR | MPI_MODE_CREATE);
    MPI_Datatype view = holed(2, 3);
    OK(MPI_File_set_view(fh, 0, MPI_INT, view, "native", MPI_INFO_NULL));
    int at = 0;
    for (int round = 0; round < 3; round++) {
        int mine = (rank + round) % 3; /* 0, 1 or 2 ints: ranks differ, some write nothing */
        for (int i = 0; i < mine; i++)
            data[i] = 1000 * round + 10 * rank + i + 1;
        if (round == 1) {
            OK(MPI_File_write_ordered_begin(fh, data, mine, MPI_INT));
            OK(MPI_File_write_ordered_end(fh, data, &st));
        } else {
            OK(MPI_File_write_ordered(fh, data, mine, MPI_INT, &st));
        }
        SAME(count_of(&st, MPI_INT), mine);
        settle(fh);
        memset(on_disk, 0, sizeof on_disk);
        slurp("ordered", on_disk, sizeof on_disk);
        for (int r = 0; r < ranks; r++)
            for (int i = 0; i < (r + round) % 3; i++, at++)
                SAME(on_disk[at / 2 * 3 + at % 2], 1000 * round + 10 * r + i + 1);
        SAME(shared_position(fh), at);
        barrier();
    }
    OK(MPI_File_seek_shared(fh, 0, MPI_SEEK_SET));
    OK(MPI_File_read_ordered(fh, data, rank % 3, MPI_INT, &st));
    for (int i = 0; i < rank % 3; i++)
        SAME(data[i], 10 * rank + i + 1);
    OK(MPI_File_read_ordered_begin(fh, data, (rank + 1) % 3, MPI_INT));
    OK(MPI_File_read_ordered_end(fh, data, &st));
    for (int i = 0; i < (rank + 1) % 3; i++)
        SAME(data[i], 1000 + 10 * rank + i + 1);
    OK(MPI_File_close(&fh));
    MPI_Type_free(&view);

    /* Shared access: any order, but no two ranks get the same place, and none is left out. */
    fh = open_all("shared", MPI_MODE_RDWR | MPI_MODE_CREATE);
    OK(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    enum { EACH = 20 };
    for (int i = 0; i < EACH; i++) {
        int value = rank * EACH + i + 1;
        MPI_Request request;
        if (i % 2) {
            OK(MPI_File_write_shared(fh, &value, 1, MPI_INT, &st));
        } else {
            OK(MPI_File_iwrite_shared(fh, &value, 1, MPI_INT, &request));
            OK(MPI_Wait(&request, &st));
        }
    }
    settle(fh);
    SAME(slurp("shared", on_disk, sizeof on_disk), 4 * EACH * ranks);
    char seen[EACH * 8 + 1] = {0};
    int last[8] = {0};
    for (int k = 0; k < EACH * ranks; k++) {
        int value = on_disk[k], from = (value - 1) / EACH;
        CHECK(value >= 1 && value <= EACH * ranks && !seen[value], "place %d holds %d", k, value);
        if (value >= 1 && value <= EACH * ranks) {
            seen[value] = 1;
            CHECK(value > last[from], "rank %d's writes are out of order", from);
            last[from] = value;
        }
    }
    OK(MPI_File_close(&fh));
    END_CLAUSE();
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    pointers_move_by_request();
    short_reads_succeed();
    append_sets_pointers();
    ordered_is_in_rank_order();
    return finish();
}
