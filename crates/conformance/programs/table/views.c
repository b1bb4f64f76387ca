/* Views: what an offset counts, how a filetype tiles the file, and what get_view and friends say of it. */
#include "check.h"

/* Clause 1: offsets count etypes that the view shows. */
static void offsets_skip_holes(void)
{
    int got[8];
    MPI_Status st;
    MPI_Datatype two_of_five = holed(2, 5);
    CLAUSE("1", "offsets count etypes visible in the view, holes are skipped");
    spit_ints("etypes", 100);
    MPI_File fh = open_all("etypes", MPI_MODE_RDWR);
    OK(MPI_File_set_view(fh, 12, MPI_INT, two_of_five, "native", MPI_INFO_NULL));
    OK(MPI_File_read_at(fh, 3, got, 4, MPI_INT, &st)); /* etypes 3, 4, 5, 6 */
    SAME(count_of(&st, MPI_INT), 4);
    const int want[] = {3 + 5 + 1, 3 + 10, 3 + 11, 3 + 15};
    for (int i = 0; i < 4; i++)
        SAME(got[i], want[i]);
    OK(MPI_File_read_at_all(fh, 3, got, 4, MPI_INT, &st));
    for (int i = 0; i < 4; i++)
        SAME(got[i], want[i]);

    /* An etype of two ints: offset 3 is the fourth pair. */
    MPI_Datatype pair, pairs;
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    MPI_Type_create_resized(pair, 0, 6 * sizeof(int), &pairs);
    MPI_Type_commit(&pairs);
    OK(MPI_File_set_view(fh, 4, pair, pairs, "native", MPI_INFO_NULL));
    OK(MPI_File_read_at(fh, 3, got, 4, MPI_INT, &st));
    const int want2[] = {1 + 18, 1 + 19, 1 + 24, 1 + 25};
    for (int i = 0; i < 4; i++)
        SAME(got[i], want2[i]);
    SAME(position(fh), 0);
    OK(MPI_File_seek(fh, 2, MPI_SEEK_SET));
    OK(MPI_File_read(fh, got, 2, MPI_INT, &st));
    SAME(got[0], 1 + 12);
    SAME(position(fh), 3);
    OK(MPI_File_close(&fh));
    MPI_Type_free(&two_of_five);
    MPI_Type_free(&pair);
    MPI_Type_free(&pairs);
    END_CLAUSE();
}

/* Clause 2: the filetype's extent is the tile; a lower bound shifts nothing. */
static void tiles_go_by_extent(void)
{
    int got[6];
    MPI_Datatype one, shifted;
    CLAUSE("2", "a view tiles by the filetype's extent, data is not shifted by the lower bound");
    spit_ints("tiles", 100);
    MPI_File fh = open_all("tiles", MPI_MODE_RDWR);
    /* Two ints at bytes 8 and 12; lower bound 8, extent 20. */
    int lengths[] = {2};
    MPI_Aint displacements[] = {8};
    MPI_Type_create_hindexed(1, lengths, displacements, MPI_INT, &one);
    MPI_Type_create_resized(one, 8, 20, &shifted);
    MPI_Type_commit(&shifted);
    OK(MPI_File_set_view(fh, 4, MPI_INT, shifted, "native", MPI_INFO_NULL));
    OK(MPI_File_read_at(fh, 0, got, 6, MPI_INT, MPI_STATUS_IGNORE));
    const int want[] = {3, 4, 8, 9, 13, 14};
    for (int i = 0; i < 6; i++)
        SAME(got[i], want[i]);
    MPI_Type_free(&shifted);
    /* Lower bound 4 below the data, extent smaller than the reach: tiles at 0, 8, 16, ... */
    MPI_Type_create_resized(one, 4, 8, &shifted);
    MPI_Type_commit(&shifted);
    OK(MPI_File_set_view(fh, 0, MPI_INT, shifted, "native", MPI_INFO_NULL));
    OK(MPI_File_read_at_all(fh, 1, got, 5, MPI_INT, MPI_STATUS_IGNORE));
    for (int i = 0; i < 5; i++)
        SAME(got[i], 3 + i);
    MPI_Type_free(&shifted);
    MPI_Type_free(&one);
    /* Ranks' tiles interleave; each writes its own ints, all are there afterwards. */
    MPI_Datatype mine = holed(1, ranks);
    OK(MPI_File_set_view(fh, 40 + 4 * rank, MPI_INT, mine, "native", MPI_INFO_NULL));
    for (int i = 0; i < 6; i++)
        got[i] = -(rank * 10 + i) - 1;
    OK(MPI_File_write_at_all(fh, 0, got, 6, MPI_INT, MPI_STATUS_IGNORE));
    settle(fh);
    int on_disk[100];
    SAME(slurp("tiles", on_disk, sizeof on_disk), sizeof on_disk);
    for (int i = 0; i < 100; i++) {
        int k = i - 10;
        int want_here = k < 0 || k >= 6 * ranks ? i : -(k % ranks * 10 + k / ranks) - 1;
        SAME(on_disk[i], want_here);
    }
    OK(MPI_File_close(&fh));
    MPI_Type_free(&mine);
    END_CLAUSE();
}

static MPI_Datatype at_ints(int count, const int *displacements)
{
    MPI_Datatype type;
    MPI_Type_create_indexed_block(count, 1, displacements, MPI_INT, &type);
    MPI_Type_commit(&type);
    return type;
}

/* Clause 3: what a filetype may look like. */
static void filetypes_are_monotone(void)
{
    int got[6];
    CLAUSE("3", "filetypes are nonnegative and nondecreasing; overlap only where the file is not writable");
    spit_ints("monotone", 50);
    const int twice[] = {0, 0, 1}, negative[] = {-1, 2}, decreasing[] = {3, 1};
    MPI_Datatype overlap = at_ints(3, twice), below = at_ints(2, negative), back = at_ints(2, decreasing);
    MPI_File fh = open_all("monotone", MPI_MODE_RDONLY);
    OK(MPI_File_set_view(fh, 8, MPI_INT, overlap, "native", MPI_INFO_NULL));
    OK(MPI_File_read_at_all(fh, 0, got, 6, MPI_INT, MPI_STATUS_IGNORE));
    const int want[] = {2, 2, 3, 4, 4, 5};
    for (int i = 0; i < 6; i++)
        SAME(got[i], want[i]);
    FAILS(MPI_File_set_view(fh, 8, MPI_INT, below, "native", MPI_INFO_NULL));
    /* A decreasing filetype is an error, or works as written. */
    if (MPI_File_set_view(fh, 8, MPI_INT, back, "native", MPI_INFO_NULL) == MPI_SUCCESS) {
        OK(MPI_File_read_at(fh, 0, got, 2, MPI_INT, MPI_STATUS_IGNORE));
        SAME(got[0], 5);
        SAME(got[1], 3);
    }
    OK(MPI_File_close(&fh));
    fh = open_all("monotone", MPI_MODE_RDWR);
    GIVES2(MPI_File_set_view(fh, 0, MPI_INT, overlap, "native", MPI_INFO_NULL), MPI_ERR_TYPE, MPI_ERR_ARG);
    GIVES2(MPI_File_set_view(fh, 0, MPI_INT, below, "native", MPI_INFO_NULL), MPI_ERR_TYPE, MPI_ERR_ARG);
    OK(MPI_File_read_at(fh, 8, got, 1, MPI_INT, MPI_STATUS_IGNORE)); /* the old view still holds: bytes */
    SAME(got[0], 2);
    OK(MPI_File_close(&fh));
    MPI_Type_free(&overlap);
    MPI_Type_free(&below);
    MPI_Type_free(&back);
    END_CLAUSE();
}

/* Clause 4: whole etypes only. */
static void accesses_are_whole_etypes(void)
{
    char bytes[8] = "ABCDEFG";
    int on_disk[50];
    CLAUSE("4", "holes are multiples of the etype, an access is a whole number of etypes");
    spit_ints("whole", 50);
    MPI_File fh = open_all("whole", MPI_MODE_RDWR);
    OK(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    FAILS(MPI_File_write_at(fh, 0, bytes, 3, MPI_BYTE, MPI_STATUS_IGNORE));
    FAILS(MPI_File_write_at_all(fh, 0, bytes, 5, MPI_BYTE, MPI_STATUS_IGNORE));
    FAILS(MPI_File_read_at(fh, 0, bytes, 3, MPI_BYTE, MPI_STATUS_IGNORE));
    OK(MPI_File_read_at(fh, 1, bytes, 4, MPI_BYTE, MPI_STATUS_IGNORE));
    SAME(bytes[0], 1);
    MPI_Datatype three;
    MPI_Type_contiguous(3, MPI_BYTE, &three);
    MPI_Type_commit(&three);
    FAILS(MPI_File_set_view(fh, 0, MPI_INT, three, "native", MPI_INFO_NULL));
    settle(fh);
    SAME(slurp("whole", on_disk, sizeof on_disk), sizeof on_disk);
    for (int i = 0; i < 50; i++)
        SAME(on_disk[i], i);
    OK(MPI_File_close(&fh));
    MPI_Type_free(&three);
    END_CLAUSE();
}

/* Clause 5: set_view begins anew. */
static void set_view_resets_pointers(void)
{
    int got;
    CLAUSE("5", "set_view resets individual and shared pointers to zero");
    spit_ints("reset", 50);
    MPI_File fh = open_all("reset", MPI_MODE_RDWR);
    OK(MPI_File_seek(fh, 12 + rank, MPI_SEEK_SET));
    OK(MPI_File_seek_shared(fh, 20, MPI_SEEK_SET));
    OK(MPI_File_set_view(fh, 16, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    SAME(position(fh), 0);
    SAME(shared_position(fh), 0);
    OK(MPI_File_read(fh, &got, 1, MPI_INT, MPI_STATUS_IGNORE));
    SAME(got, 4);
    barrier();
    OK(MPI_File_read_ordered(fh, &got, 1, MPI_INT, MPI_STATUS_IGNORE));
    SAME(got, 4 + rank);
    /* The displacement may differ between ranks, and so may the filetype. */
    MPI_Datatype mine = holed(1, rank + 1);
    OK(MPI_File_set_view(fh, 4 * rank, MPI_INT, mine, "native", MPI_INFO_NULL));
    OK(MPI_File_read_at_all(fh, 2, &got, 1, MPI_INT, MPI_STATUS_IGNORE));
    SAME(got, rank + 2 * (rank + 1));
    MPI_Type_free(&mine);
    OK(MPI_File_close(&fh));
    END_CLAUSE();
}

/* Clause 6: MPI_DISPLACEMENT_CURRENT belongs to sequential files. */
static void displacement_current(void)
{
    int value, on_disk[64];
    CLAUSE("6", "MPI_DISPLACEMENT_CURRENT is required with MPI_MODE_SEQUENTIAL and an error otherwise");
    MPI_File fh = open_all("row", MPI_MODE_WRONLY | MPI_MODE_CREATE | MPI_MODE_SEQUENTIAL);
    FAILS(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    FAILS(MPI_File_set_view(fh, 8, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    value = 100 + rank;
    OK(MPI_File_write_ordered(fh, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    MPI_Datatype half = holed(1, 2);
    OK(MPI_File_set_view(fh, MPI_DISPLACEMENT_CURRENT, MPI_INT, half, "native", MPI_INFO_NULL));
    value = 200 + rank;
    OK(MPI_File_write_ordered(fh, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    MPI_Offset disp;
    MPI_Datatype etype, filetype;
    char rep[MPI_MAX_DATAREP_STRING + 1];
    OK(MPI_File_get_view(fh, &disp, &etype, &filetype, rep));
    SAME(disp, 4 * ranks);
    MPI_Type_free(&filetype);
    OK(MPI_File_close(&fh));
    long long size = slurp("row", on_disk, sizeof on_disk);
    SAME(size, 4 * (ranks + 2 * ranks - 1));
    for (int r = 0; r < ranks; r++) {
        SAME(on_disk[r], 100 + r);
        SAME(on_disk[ranks + 2 * r], 200 + r);
    }
    fh = open_all("row", MPI_MODE_RDWR);
    FAILS(MPI_File_set_view(fh, MPI_DISPLACEMENT_CURRENT, MPI_INT, half, "native", MPI_INFO_NULL));
    OK(MPI_File_close(&fh));
    /* Reading a sequential file goes by the shared pointer alone. */
    fh = open_all("row", MPI_MODE_RDONLY | MPI_MODE_SEQUENTIAL);
    OK(MPI_File_read_ordered(fh, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    SAME(value, 100 + rank);
    OK(MPI_File_set_view(fh, MPI_DISPLACEMENT_CURRENT, MPI_INT, half, "native", MPI_INFO_NULL));
    OK(MPI_File_read_ordered(fh, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    SAME(value, 200 + rank);
    OK(MPI_File_close(&fh));
    MPI_Type_free(&half);
    END_CLAUSE();
}

/* Clause 9: end of file as seen through a view. */
static void seek_end_in_views(void)
{
    CLAUSE("9", "end of file in a view is the first etype after the last byte");
    MPI_File fh = open_all("end", MPI_MODE_RDWR | MPI_MODE_CREATE);
    MPI_Datatype two_of_three = holed(2, 3);
    /* Etypes begin at bytes 4, 8, 16, 20, 28, 32, ... */
    const struct { int size, etypes; } cases[] = {
        {0, 0}, {3, 0}, {4, 0}, {5, 1}, {8, 1}, {9, 2}, {12, 2}, {16, 2}, {17, 3}, {19, 3}, {20, 3},
        {24, 4}, {27, 4}, {28, 4}, {29, 5}, {4 + 1200, 200}, {4 + 1204, 201}};
    OK(MPI_File_set_view(fh, 4, MPI_INT, two_of_three, "native", MPI_INFO_NULL));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        OK(MPI_File_set_size(fh, cases[i].size));
        OK(MPI_File_seek(fh, 0, MPI_SEEK_END));
        CHECK(position(fh) == cases[i].etypes, "a file of %d bytes ends at etype %lld, wanted %d", cases[i].size,
              position(fh), cases[i].etypes);
        OK(MPI_File_seek(fh, 3, MPI_SEEK_END));
        SAME(position(fh), cases[i].etypes + 3);
        barrier();
    }
    OK(MPI_File_seek_shared(fh, -1, MPI_SEEK_END));
    SAME(shared_position(fh), 200);
    OK(MPI_File_set_view(fh, 100000, MPI_INT, two_of_three, "native", MPI_INFO_NULL));
    OK(MPI_File_seek(fh, 0, MPI_SEEK_END));
    SAME(position(fh), 0);
    OK(MPI_File_set_view(fh, 0, MPI_DOUBLE, MPI_DOUBLE, "native", MPI_INFO_NULL));
    OK(MPI_File_seek(fh, 0, MPI_SEEK_END));
    SAME(position(fh), 151); /* 1208 bytes */
    OK(MPI_File_close(&fh));
    MPI_Type_free(&two_of_three);
    END_CLAUSE();
}

static int is_named(MPI_Datatype type)
{
    int a, b, c, combiner;
    MPI_Type_get_envelope(type, &a, &b, &c, &combiner);
    return combiner == MPI_COMBINER_NAMED;
}

/* Clause 14: who owns what get_view returns. */
static void get_view_gives_datatypes(void)
{
    MPI_Offset disp;
    MPI_Datatype etype, filetype, pair, pairs;
    char rep[MPI_MAX_DATAREP_STRING + 1];
    int got[4];
    CLAUSE("14", "get_view: derived datatypes belong to the caller, named ones do not");
    spit_ints("owners", 100);
    MPI_File fh = open_all("owners", MPI_MODE_RDWR);
    OK(MPI_File_get_view(fh, &disp, &etype, &filetype, rep));
    CHECK(disp == 0 && etype == MPI_BYTE && filetype == MPI_BYTE && strcmp(rep, "native") == 0,
          "the first view is not bytes from 0 on, in native representation (%s)", rep);
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    MPI_Type_create_resized(pair, 0, 12, &pairs);
    MPI_Type_commit(&pairs);
    OK(MPI_File_set_view(fh, 4, pair, pairs, "native", MPI_INFO_NULL));
    MPI_Type_free(&pair); /* the view keeps what it needs */
    MPI_Type_free(&pairs);
    for (int i = 0; i < 3; i++) {
        int size = 0;
        MPI_Aint lb, extent;
        OK(MPI_File_get_view(fh, &disp, &etype, &filetype, rep));
        SAME(disp, 4);
        CHECK(!is_named(etype) && !is_named(filetype), "derived datatypes come back as named ones");
        MPI_Type_size(filetype, &size);
        SAME(size, 8);
        MPI_Type_get_extent(filetype, &lb, &extent);
        SAME(extent, 12);
        MPI_Type_get_extent(etype, &lb, &extent);
        SAME(extent, 8);
        OK(MPI_Type_free(&etype));
        OK(MPI_Type_free(&filetype));
        OK(MPI_File_read_at(fh, 1, got, 2, MPI_INT, MPI_STATUS_IGNORE));
        SAME(got[0], 4);
        SAME(got[1], 5);
    }
    /* The returned types are committed and can make another view. */
    OK(MPI_File_get_view(fh, &disp, &etype, &filetype, rep));
    OK(MPI_File_set_view(fh, 8, etype, filetype, rep, MPI_INFO_NULL));
    MPI_Type_free(&etype);
    MPI_Type_free(&filetype);
    OK(MPI_File_read_at_all(fh, 1, got, 2, MPI_INT, MPI_STATUS_IGNORE));
    SAME(got[0], 5);
    OK(MPI_File_set_view(fh, 0, MPI_DOUBLE, MPI_DOUBLE, "native", MPI_INFO_NULL));
    OK(MPI_File_get_view(fh, &disp, &etype, &filetype, rep));
    CHECK(etype == MPI_DOUBLE && filetype == MPI_DOUBLE, "named datatypes do not come back as they were");
    OK(MPI_File_close(&fh));
    END_CLAUSE();
}

/* Clause 15: from etypes to bytes. */
static void byte_offsets_are_absolute(void)
{
    MPI_Offset at;
    MPI_Datatype two_of_five = holed(2, 5);
    CLAUSE("15", "get_byte_offset is absolute, a tile boundary maps to the next tile's first byte");
    spit_ints("offsets", 10);
    MPI_File fh = open_all("offsets", MPI_MODE_RDONLY);
    OK(MPI_File_set_view(fh, 100, MPI_INT, two_of_five, "native", MPI_INFO_NULL));
    const int want[] = {100, 104, 120, 124, 140, 144};
    for (int i = 0; i < 6; i++) {
        OK(MPI_File_get_byte_offset(fh, i, &at));
        SAME(at, want[i]);
    }
    OK(MPI_File_get_byte_offset(fh, 2000000000LL, &at)); /* far beyond the end of the file */
    SAME(at, 100 + 1000000000LL * 20);
    OK(MPI_File_set_view(fh, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    OK(MPI_File_get_byte_offset(fh, 77, &at));
    SAME(at, 77);
    OK(MPI_File_close(&fh));
    MPI_Type_free(&two_of_five);
    END_CLAUSE();
}

/* Clauses 1 and 2 for the constructors programs use most: subarray, darray, struct, indexed. */
static void usual_constructors(void)
{
    CLAUSE("2b", "subarrays, block-cyclic arrays, structs and index lists select the right bytes");
    enum { ROWS = 6, COLS = 8 };
    int on_disk[ROWS * COLS], mine[ROWS * COLS];
    for (int k = 0; k < ROWS * COLS; k++)
        on_disk[k] = -1;
    spit("arrays", on_disk, sizeof on_disk);
    MPI_File fh = open_all("arrays", MPI_MODE_RDWR);
    int sizes[] = {ROWS, COLS}, dist[] = {MPI_DISTRIBUTE_NONE, MPI_DISTRIBUTE_CYCLIC};
    int dargs[] = {MPI_DISTRIBUTE_DFLT_DARG, 2}, grid[] = {1, ranks}, bytes;
    MPI_Datatype cyclic;
    MPI_Type_create_darray(ranks, rank, 2, sizes, dist, dargs, grid, MPI_ORDER_C, MPI_INT, &cyclic);
    MPI_Type_commit(&cyclic);
    MPI_Type_size(cyclic, &bytes);
    OK(MPI_File_set_view(fh, 0, MPI_INT, cyclic, "native", MPI_INFO_NULL));
    for (int k = 0; k < bytes / 4; k++)
        mine[k] = rank;
    OK(MPI_File_write_all(fh, mine, bytes / 4, MPI_INT, MPI_STATUS_IGNORE));
    settle(fh);
    SAME(slurp("arrays", on_disk, sizeof on_disk), sizeof on_disk);
    for (int k = 0; k < ROWS * COLS; k++)
        SAME(on_disk[k], k % COLS / 2 % ranks);
    barrier();
    /* Every rank reads the same inner part, 3 rows by 4 columns from (2, 1) on. */
    int sub[] = {3, 4}, from[] = {2, 1};
    MPI_Datatype inner;
    MPI_Type_create_subarray(2, sizes, sub, from, MPI_ORDER_C, MPI_INT, &inner);
    MPI_Type_commit(&inner);
    OK(MPI_File_set_view(fh, 0, MPI_INT, inner, "native", MPI_INFO_NULL));
    memset(mine, 0xff, sizeof mine);
    OK(MPI_File_read_at_all(fh, 0, mine, 12, MPI_INT, MPI_STATUS_IGNORE));
    for (int k = 0; k < 12; k++)
        SAME(mine[k], (1 + k % 4) / 2 % ranks);
    /* Into a subarray of memory, too. */
    int memory[ROWS * COLS];
    memset(memory, 0xff, sizeof memory);
    OK(MPI_File_read_at_all(fh, 0, memory, 1, inner, MPI_STATUS_IGNORE));
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLS; c++)
            SAME(memory[r * COLS + c], r >= 2 && r < 5 && c >= 1 && c < 5 ? c / 2 % ranks : -1);
    /* A struct of one int at 4, two at 16, tile 32 bytes. */
    int lengths[] = {1, 2};
    MPI_Aint at[] = {4, 16};
    MPI_Datatype parts[] = {MPI_INT, MPI_INT}, record, tile;
    MPI_Type_create_struct(2, lengths, at, parts, &record);
    MPI_Type_create_resized(record, 0, 32, &tile);
    MPI_Type_commit(&tile);
    OK(MPI_File_set_view(fh, 0, MPI_INT, tile, "native", MPI_INFO_NULL));
    OK(MPI_File_read_at_all(fh, 0, mine, 6, MPI_INT, MPI_STATUS_IGNORE));
    const int columns[] = {1, 4, 5, 1, 4, 5};
    for (int k = 0; k < 6; k++)
        SAME(mine[k], columns[k] / 2 % ranks);
    OK(MPI_File_close(&fh));
    MPI_Type_free(&cyclic);
    MPI_Type_free(&inner);
    MPI_Type_free(&record);
    MPI_Type_free(&tile);
    END_CLAUSE();
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    offsets_skip_holes();
    tiles_go_by_extent();
    usual_constructors();
    filetypes_are_monotone();
    accesses_are_whole_etypes();
    set_view_resets_pointers();
    displacement_current();
    seek_end_in_views();
    get_view_gives_datatypes();
    byte_offsets_are_absolute();
    return finish();
}
