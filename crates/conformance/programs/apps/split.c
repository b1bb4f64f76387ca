/* Split collectives: begin, do something else, end; in the three pointer flavours. */
#include "check.h"

enum { N = 500 };

static int32_t data[N], got[N];

static void fill(int salt)
{
    memset(got, 0, sizeof got);
    for (int i = 0; i < N; i++) data[i] = value(i, 100 * salt + me);
}

/* Something between begin and end that is no access to the file: messages of the program's own. */
static void meanwhile(void)
{
    int mine = me + 1, sum = 0;
    MUST(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    EQUAL(sum, ranks * (ranks + 1) / 2);
}

static void settle(MPI_File file)
{
    MUST(MPI_File_sync(file));
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    MUST(MPI_File_sync(file));
}

static void interleaved(MPI_File file, MPI_Offset displacement)
{
    MPI_Datatype view;
    MUST(MPI_Type_create_resized(MPI_INT32_T, 0, (MPI_Aint)sizeof(int32_t) * ranks, &view));
    MUST(MPI_Type_commit(&view));
    MUST(MPI_File_set_view(file, displacement + (MPI_Offset)sizeof(int32_t) * me, MPI_INT32_T, view, "native",
                           MPI_INFO_NULL));
    MPI_Type_free(&view);
}

static void individual(MPI_File file)
{
    MPI_Status status;
    MPI_Offset position;
    fill(1);
    MUST(MPI_File_write_all_begin(file, data, N, MPI_INT32_T));
    meanwhile();
    MUST(MPI_File_write_all_end(file, data, &status));
    COUNT(status, MPI_INT32_T, N);
    MUST(MPI_File_get_position(file, &position));
    EQUAL(position, N);
    settle(file);
    MUST(MPI_File_seek(file, 0, MPI_SEEK_SET));
    MUST(MPI_File_read_all_begin(file, got, N, MPI_INT32_T));
    meanwhile();
    MUST(MPI_File_read_all_end(file, got, &status));
    COUNT(status, MPI_INT32_T, N);
    EXPECT(memcmp(data, got, sizeof data) == 0);
}

static void explicit_offsets(MPI_File file)
{
    MPI_Status status;
    const int half = N / 2;
    fill(2);
    MUST(MPI_File_write_at_all_begin(file, half, data + half, N - half, MPI_INT32_T));
    MUST(MPI_File_write_at_all_end(file, data + half, &status));
    COUNT(status, MPI_INT32_T, N - half);
    MUST(MPI_File_write_at_all_begin(file, 0, data, half, MPI_INT32_T));
    meanwhile();
    MUST(MPI_File_write_at_all_end(file, data, &status));
    settle(file);
    MUST(MPI_File_read_at_all_begin(file, 0, got, N, MPI_INT32_T));
    meanwhile();
    MUST(MPI_File_read_at_all_end(file, got, &status));
    COUNT(status, MPI_INT32_T, N);
    EXPECT(memcmp(data, got, sizeof data) == 0);
}

static void ordered(MPI_File file)
{
    MPI_Status status;
    const int mine = N - me; /* unequal shares */
    fill(3);
    MUST(MPI_File_write_ordered_begin(file, data, mine, MPI_INT32_T));
    meanwhile();
    MUST(MPI_File_write_ordered_end(file, data, &status));
    COUNT(status, MPI_INT32_T, mine);
    settle(file);
    MUST(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    MUST(MPI_File_read_ordered_begin(file, got, mine, MPI_INT32_T));
    meanwhile();
    MUST(MPI_File_read_ordered_end(file, got, &status));
    COUNT(status, MPI_INT32_T, mine);
    EXPECT(memcmp(data, got, sizeof *data * mine) == 0);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    const MPI_Offset area = (MPI_Offset)sizeof(int32_t) * N * ranks;
    MPI_File file;
    MUST(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    interleaved(file, 0);
    individual(file);
    interleaved(file, area);
    explicit_offsets(file);
    MUST(MPI_File_set_view(file, 2 * area, MPI_INT32_T, MPI_INT32_T, "native", MPI_INFO_NULL));
    ordered(file);
    MUST(MPI_File_close(&file));
    return finish();
}
