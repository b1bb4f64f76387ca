/* The shared file pointer: turns taken by rank, ordered collectives with unequal (and no) data, seeks, and a
 * free-for-all in which every record must land exactly once. */
#include "check.h"

enum { RECORD = 5, TURNS = 4, FREE = 25 };

static void fill(int32_t *record, int writer, int turn)
{
    for (int i = 0; i < RECORD; i++) record[i] = value(i, 100 * writer + turn);
}

static void settle(MPI_File file)
{
    MUST(MPI_File_sync(file));
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    MUST(MPI_File_sync(file));
}

/* Rank after rank, several times round: the order is known, so is the file. */
static void turns(MPI_File file)
{
    int32_t record[RECORD];
    MPI_Status status;
    MPI_Offset position;
    for (int turn = 0; turn < TURNS; turn++)
        for (int writer = 0; writer < ranks; writer++) {
            if (writer == me) {
                fill(record, me, turn);
                MUST(MPI_File_write_shared(file, record, RECORD, MPI_INT32_T, &status));
                COUNT(status, MPI_INT32_T, RECORD);
            }
            MUST(MPI_Barrier(MPI_COMM_WORLD));
        }
    MUST(MPI_File_get_position_shared(file, &position));
    EQUAL(position, TURNS * ranks * RECORD);
    settle(file);
    MUST(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    for (int turn = 0; turn < TURNS; turn++)
        for (int reader = 0; reader < ranks; reader++) {
            if (reader == me) {
                int32_t expected[RECORD];
                fill(expected, me, turn);
                MUST(MPI_File_read_shared(file, record, RECORD, MPI_INT32_T, &status));
                COUNT(status, MPI_INT32_T, RECORD);
                EXPECT(memcmp(record, expected, sizeof record) == 0);
            }
            MUST(MPI_Barrier(MPI_COMM_WORLD));
        }
}

/* Rank r writes r integers (rank 0 none), three times: an exclusive scan places them. */
static void ordered(MPI_File file)
{
    int32_t data[64], got[64];
    MPI_Status status;
    MPI_Offset begun, position;
    const int all = ranks * (ranks - 1) / 2;
    MUST(MPI_File_get_position_shared(file, &begun));
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i < me; i++) data[i] = value(i, 1000 * turn + me);
        MUST(MPI_File_write_ordered(file, data, me, MPI_INT32_T, &status));
        COUNT(status, MPI_INT32_T, me);
    }
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    MUST(MPI_File_get_position_shared(file, &position));
    EQUAL(position, begun + 3 * all);
    settle(file);
    MUST(MPI_File_seek_shared(file, begun + all, MPI_SEEK_SET));
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    MUST(MPI_File_read_ordered(file, got, me, MPI_INT32_T, &status));
    COUNT(status, MPI_INT32_T, me);
    for (int i = 0; i < me; i++) EQUAL(got[i], value(i, 1000 + me));
    /* the individual pointer has not moved */
    MUST(MPI_File_get_position(file, &position));
    EQUAL(position, 0);
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    MUST(MPI_File_seek_shared(file, begun + 3 * all, MPI_SEEK_SET));
}

/* Nobody waits for anybody: the order is open, but no record may be lost or torn. */
static void free_for_all(const char *name)
{
    MPI_File file;
    MPI_Status status;
    int32_t record[RECORD];
    MUST(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                       MPI_INFO_NULL, &file));
    for (int turn = 0; turn < FREE; turn++) {
        fill(record, me, turn);
        record[0] = me * FREE + turn;
        MUST(MPI_File_write_shared(file, record, RECORD, MPI_INT32_T, &status));
    }
    settle(file);
    MPI_Offset size;
    MUST(MPI_File_get_size(file, &size));
    EQUAL(size, (MPI_Offset)sizeof record * FREE * ranks);
    int n = FREE * ranks;
    int32_t *got = zeroed(sizeof record * n), *seen = zeroed(sizeof *seen * n);
    MUST(MPI_File_read_at_all(file, 0, got, size, MPI_BYTE, &status));
    for (int i = 0; i < n; i++) {
        int32_t *r = got + (size_t)i * RECORD, expected[RECORD];
        EXPECT(r[0] >= 0 && r[0] < n);
        EQUAL(seen[r[0]]++, 0);
        fill(expected, r[0] / FREE, r[0] % FREE);
        EXPECT(memcmp(r + 1, expected + 1, sizeof record - sizeof *r) == 0);
    }
    free(got), free(seen);
    MUST(MPI_File_close(&file));
}

int main(int argc, char **argv)
{
    char other[4096];
    begin(&argc, &argv);
    snprintf(other, sizeof other, "%s.free", argv[1]);
    MPI_File file;
    MUST(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    MUST(MPI_File_set_view(file, 32, MPI_INT32_T, MPI_INT32_T, "native", MPI_INFO_NULL));
    turns(file);
    ordered(file);
    MUST(MPI_File_close(&file));
    free_for_all(other);
    return finish();
}
