/* Independent access through strided, irregular and structured views: ranks interleave record by record,
 * memory is strided too, requests begin and end in the middle of tiles. */
#include "check.h"

enum { RECORDS = 300, PIECE = 3, IRREGULAR = 40 };

static MPI_Datatype committed(MPI_Datatype type)
{
    MUST(MPI_Type_commit(&type));
    return type;
}

/* Pieces of PIECE integers, one piece per rank in turn. */
static void interleaved(MPI_File file)
{
    MPI_Datatype piece, view, every_second;
    MPI_Status status;
    MPI_Offset position;
    const int n = RECORDS * PIECE;
    MUST(MPI_Type_contiguous(PIECE, MPI_INT32_T, &piece));
    MUST(MPI_Type_create_resized(piece, 0, (MPI_Aint)sizeof(int32_t) * PIECE * ranks, &view));
    MUST(MPI_Type_vector(PIECE, 1, 2, MPI_INT32_T, &every_second));
    piece = committed(piece), view = committed(view), every_second = committed(every_second);
    MPI_Offset displacement = (MPI_Offset)sizeof(int32_t) * PIECE * me;
    MUST(MPI_File_set_view(file, displacement, MPI_INT32_T, view, "native", MPI_INFO_NULL));

    int32_t *data = zeroed(sizeof *data * n), *wide = zeroed(sizeof *wide * 2 * n);
    for (int i = 0; i < n; i++) data[i] = value((int64_t)i * ranks + me, 3);
    /* a first part at the individual pointer, ending inside a piece */
    MUST(MPI_File_write(file, data, 100, MPI_INT32_T, &status));
    COUNT(status, MPI_INT32_T, 100);
    MUST(MPI_File_get_position(file, &position));
    EQUAL(position, 100);
    /* the next from strided memory, then the rest at an explicit offset */
    for (int i = 0; i < 30 * PIECE; i++) wide[(i / PIECE) * (2 * PIECE - 1) + (i % PIECE) * 2] = data[100 + i];
    MUST(MPI_File_write(file, wide, 30, every_second, &status));
    COUNT(status, MPI_INT32_T, 30 * PIECE);
    int done = 100 + 30 * PIECE;
    MUST(MPI_File_write_at(file, done, data + done, n - done, MPI_INT32_T, &status));
    COUNT(status, MPI_INT32_T, n - done);

    MUST(MPI_File_sync(file));
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    MUST(MPI_File_sync(file));
    int32_t *got = zeroed(sizeof *got * n);
    MUST(MPI_File_seek(file, 7, MPI_SEEK_SET));
    MUST(MPI_File_read(file, got, n - 7, MPI_INT32_T, &status));
    COUNT(status, MPI_INT32_T, n - 7);
    EXPECT(memcmp(got, data + 7, sizeof *got * (n - 7)) == 0);
    /* the neighbour's records */
    int other = (me + 1) % ranks;
    displacement = (MPI_Offset)sizeof(int32_t) * PIECE * other;
    MUST(MPI_File_set_view(file, displacement, MPI_INT32_T, view, "native", MPI_INFO_NULL));
    MUST(MPI_File_read_at(file, 11, got, n - 11, MPI_INT32_T, &status));
    for (int i = 0; i < n - 11; i++) EQUAL(got[i], value((int64_t)(i + 11) * ranks + other, 3));
    free(data), free(wide), free(got);
    MPI_Type_free(&piece), MPI_Type_free(&view), MPI_Type_free(&every_second);
}

/* Blocks of 1, 2, 3, … integers at growing distances, the ranks' blocks one after the other. */
static void irregular(MPI_File file, MPI_Offset base)
{
    int lengths[IRREGULAR], places[IRREGULAR], n = 0, end = 0;
    for (int i = 0; i < IRREGULAR; i++) {
        lengths[i] = 1 + i % 5;
        places[i] = end + me * lengths[i];
        n += lengths[i];
        end += ranks * lengths[i];
    }
    MPI_Datatype list, view;
    MPI_Status status;
    MUST(MPI_Type_indexed(IRREGULAR, lengths, places, MPI_INT32_T, &list));
    MUST(MPI_Type_create_resized(list, 0, (MPI_Aint)sizeof(int32_t) * end, &view));
    view = committed(view);
    MUST(MPI_File_set_view(file, base, MPI_INT32_T, view, "native", MPI_INFO_NULL));
    int32_t *data = zeroed(sizeof *data * 4 * n), *got = zeroed(sizeof *got * 4 * n);
    for (int i = 0; i < 4 * n; i++) data[i] = value(i, 5 + me);
    MUST(MPI_File_write_at(file, 0, data, n / 2, MPI_INT32_T, &status));
    MUST(MPI_File_write_at(file, n / 2, data + n / 2, 4 * n - n / 2, MPI_INT32_T, &status));
    COUNT(status, MPI_INT32_T, 4 * n - n / 2);
    MUST(MPI_File_read_at(file, 0, got, 4 * n, MPI_INT32_T, &status));
    COUNT(status, MPI_INT32_T, 4 * n);
    EXPECT(memcmp(got, data, sizeof *got * 4 * n) == 0);
    free(data), free(got);
    MPI_Type_free(&list), MPI_Type_free(&view);
}

struct particle {
    double place[3];
    int32_t id;
    char tag[4];
};

/* Records of mixed types with padding in memory, as etype and as memory type. */
static void records(MPI_File file, MPI_Offset base)
{
    struct particle p[50], got[50];
    int lengths[3] = {3, 1, 4};
    MPI_Aint places[3] = {offsetof(struct particle, place), offsetof(struct particle, id),
                          offsetof(struct particle, tag)};
    MPI_Datatype types[3] = {MPI_DOUBLE, MPI_INT32_T, MPI_CHAR}, loose, record, view;
    MPI_Status status;
    MUST(MPI_Type_create_struct(3, lengths, places, types, &loose));
    MUST(MPI_Type_create_resized(loose, 0, sizeof(struct particle), &record));
    record = committed(record);
    MUST(MPI_Type_create_resized(record, 0, (MPI_Aint)sizeof(struct particle) * ranks, &view));
    view = committed(view);
    memset(p, 0, sizeof p);
    for (int i = 0; i < 50; i++) {
        for (int d = 0; d < 3; d++) p[i].place[d] = i + 0.25 * d + me;
        p[i].id = value(i, 9 + me);
        snprintf(p[i].tag, sizeof p[i].tag, "r%d", me);
    }
    MUST(MPI_File_set_view(file, base + (MPI_Offset)sizeof(struct particle) * me, record, view, "native",
                           MPI_INFO_NULL));
    MUST(MPI_File_write(file, p, 50, record, &status));
    COUNT(status, record, 50);
    MUST(MPI_File_seek(file, -20, MPI_SEEK_CUR));
    memset(got, 0, sizeof got);
    MUST(MPI_File_read(file, got, 20, record, &status));
    COUNT(status, record, 20);
    EXPECT(memcmp(got, p + 30, 20 * sizeof *got) == 0);
    MPI_Type_free(&loose), MPI_Type_free(&record), MPI_Type_free(&view);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_File file;
    MUST(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    interleaved(file);
    irregular(file, 100000);
    records(file, 200000);
    MUST(MPI_File_close(&file));
    return finish();
}
