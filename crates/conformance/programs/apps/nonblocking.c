/* Every nonblocking form, completed in every way: Wait, Waitall, Waitany, Test, Testsome. */
#include "check.h"

enum { N = 400, PARTS = 6 };

static int32_t data[PARTS][N], got[PARTS][N];
static MPI_Request requests[PARTS];
static MPI_Status statuses[PARTS];

static void complete_all(void)
{
    MUST(MPI_Waitall(PARTS, requests, statuses));
    for (int i = 0; i < PARTS; i++) COUNT(statuses[i], MPI_INT32_T, N);
}

static void complete_some(void)
{
    int left = PARTS, done, which[PARTS];
    while (left > 0) {
        MUST(MPI_Testsome(PARTS, requests, &done, which, statuses));
        EXPECT(done != MPI_UNDEFINED);
        for (int i = 0; i < done; i++) COUNT(statuses[i], MPI_INT32_T, N);
        left -= done;
    }
    for (int i = 0; i < PARTS; i++) EXPECT(requests[i] == MPI_REQUEST_NULL);
}

static void complete_any(void)
{
    for (int left = PARTS; left > 0; left--) {
        int which;
        MPI_Status status;
        MUST(MPI_Waitany(PARTS, requests, &which, &status));
        EXPECT(which >= 0 && which < PARTS);
        COUNT(status, MPI_INT32_T, N);
    }
}

static void complete_each(void)
{
    for (int i = PARTS - 1; i >= 0; i--) {
        int done = 0;
        MPI_Status status;
        while (!done) MUST(MPI_Test(&requests[i], &done, &status));
        COUNT(status, MPI_INT32_T, N);
    }
}

static void fill(int salt)
{
    memset(got, 0, sizeof got);
    for (int i = 0; i < PARTS; i++)
        for (int j = 0; j < N; j++) data[i][j] = value((int64_t)i * N + j, 100 * salt + me);
}

static void settle(MPI_File file)
{
    MUST(MPI_File_sync(file));
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    MUST(MPI_File_sync(file));
}

/* The file is a row of areas; in each, ranks interleave in blocks of 16 integers. */
static void area(MPI_File file, int number)
{
    MPI_Datatype block, view;
    const MPI_Offset bytes = (MPI_Offset)sizeof(int32_t) * PARTS * N * ranks;
    MUST(MPI_Type_contiguous(16, MPI_INT32_T, &block));
    MUST(MPI_Type_create_resized(block, 0, (MPI_Aint)sizeof(int32_t) * 16 * ranks, &view));
    MUST(MPI_Type_commit(&view));
    MUST(MPI_File_set_view(file, number * bytes + (MPI_Offset)sizeof(int32_t) * 16 * me, MPI_INT32_T, view,
                           "native", MPI_INFO_NULL));
    MPI_Type_free(&block);
    MPI_Type_free(&view); /* the file keeps what it needs */
}

static void same(void)
{
    EXPECT(memcmp(data, got, sizeof data) == 0);
}

static void individual(MPI_File file)
{
    MPI_Offset position;
    fill(1);
    for (int i = 0; i < PARTS; i++) {
        MUST(MPI_File_iwrite(file, data[i], N, MPI_INT32_T, &requests[i]));
        MUST(MPI_File_get_position(file, &position)); /* moved when started, not when done */
        EQUAL(position, (i + 1) * N);
    }
    complete_all();
    settle(file);
    MUST(MPI_File_seek(file, 0, MPI_SEEK_SET));
    for (int i = 0; i < PARTS; i++) MUST(MPI_File_iread(file, got[i], N, MPI_INT32_T, &requests[i]));
    complete_some();
    same();
}

static void explicit_offsets(MPI_File file)
{
    fill(2);
    for (int i = PARTS - 1; i >= 0; i--)
        MUST(MPI_File_iwrite_at(file, i * N, data[i], N, MPI_INT32_T, &requests[i]));
    complete_some();
    settle(file);
    for (int i = 0; i < PARTS; i++)
        MUST(MPI_File_iread_at(file, i * N, got[i], N, MPI_INT32_T, &requests[i]));
    complete_any();
    same();
}

static void collective(MPI_File file)
{
    fill(3);
    for (int i = 0; i < PARTS; i++) MUST(MPI_File_iwrite_all(file, data[i], N, MPI_INT32_T, &requests[i]));
    complete_all();
    settle(file);
    MUST(MPI_File_seek(file, 0, MPI_SEEK_SET));
    for (int i = 0; i < PARTS; i++) MUST(MPI_File_iread_all(file, got[i], N, MPI_INT32_T, &requests[i]));
    complete_each();
    same();
}

static void collective_at(MPI_File file)
{
    fill(4);
    for (int i = 0; i < PARTS; i++)
        MUST(MPI_File_iwrite_at_all(file, i * N, data[i], N, MPI_INT32_T, &requests[i]));
    complete_each();
    settle(file);
    for (int i = 0; i < PARTS; i++)
        MUST(MPI_File_iread_at_all(file, i * N, got[i], N, MPI_INT32_T, &requests[i]));
    complete_all();
    same();
}

/* The shared pointer needs one view for all; turns make the order known. */
static void shared(MPI_File file, int number)
{
    const MPI_Offset bytes = (MPI_Offset)sizeof(int32_t) * PARTS * N * ranks;
    MUST(MPI_File_set_view(file, number * bytes, MPI_INT32_T, MPI_INT32_T, "native", MPI_INFO_NULL));
    fill(5);
    for (int turn = 0; turn < ranks; turn++) {
        if (turn == me) {
            for (int i = 0; i < PARTS; i++)
                MUST(MPI_File_iwrite_shared(file, data[i], N, MPI_INT32_T, &requests[i]));
            complete_all();
        }
        MUST(MPI_Barrier(MPI_COMM_WORLD));
    }
    settle(file);
    MUST(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    for (int turn = 0; turn < ranks; turn++) {
        if (turn == me) {
            for (int i = 0; i < PARTS; i++)
                MUST(MPI_File_iread_shared(file, got[i], N, MPI_INT32_T, &requests[i]));
            complete_all();
        }
        MUST(MPI_Barrier(MPI_COMM_WORLD));
    }
    same();
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_File file;
    MUST(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    area(file, 0);
    individual(file);
    area(file, 1);
    explicit_offsets(file);
    area(file, 2);
    collective(file);
    area(file, 3);
    collective_at(file);
    shared(file, 4);
    MUST(MPI_File_close(&file));
    return finish();
}
