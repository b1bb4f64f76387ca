/* One of two programs that use the same file at the same time and hand over by sync, barrier, sync, where the barrier
 * between programs is a file of each in a directory.
 *
 *   handover FILE DIR PROGRAM SEED ROUNDS
 *
 * Both programs, 0 and 1, draw the same numbers, so that each knows what both of them write. In a round one writes, by
 * all ranks together or by one rank, or both write pieces that alternate; then both read and compare. Every fifth
 * round the expected file is DIR/expect.ROUND, and the test creates DIR/seen.ROUND when it has read the file.
 */
#include "../hosts/markers.h"

enum { SIZE = 300000 };

static unsigned char model[SIZE];
static uint64_t drawn;
static int program;

static int below(int limit)
{
    uint64_t x = drawn += 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return (int)((x ^ (x >> 31)) % (uint64_t)limit);
}

static void name_of(char *name, size_t size, const char *word, int number, int who)
{
    snprintf(name, size, who < 0 ? "%s.%d" : "%s.%d.%d", word, number, who);
}

/* Nobody of either program goes on before all of both are here. */
static void barrier_of_both(const char *word, int round)
{
    char name[64];
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    name_of(name, sizeof name, word, round, program);
    if (me == 0) mark(name);
    name_of(name, sizeof name, word, round, 1 - program);
    await(name);
}

/* Of [at, at + len), in pieces: piece i belongs to owner i mod owners. New bytes for all, and those of `owner` written
 * by this rank, through a view if there are several owners. */
static void write_pieces(MPI_File f, int at, int len, int piece, int owner, int owners, int collective)
{
    static unsigned char mine[SIZE];
    int salt = below(1 << 30), count = 0;
    MPI_Datatype bytes, type;
    for (int i = 0; i < len; i++) {
        model[at + i] = (unsigned char)value(at + i, salt);
        if (i / piece % owners == owner) mine[count++] = model[at + i];
    }
    if (owner < 0 && !collective) return;
    MUST(MPI_Type_contiguous(piece, MPI_BYTE, &bytes));
    MUST(MPI_Type_create_resized(bytes, 0, (MPI_Aint)owners * piece, &type));
    MUST(MPI_Type_commit(&type));
    MUST(MPI_Type_free(&bytes));
    MPI_Offset shift = (MPI_Offset)(owner < 0 ? 0 : owner) * piece;
    MUST(MPI_File_set_view(f, at + shift, MPI_BYTE, type, "native", MPI_INFO_NULL));
    if (collective)
        MUST(MPI_File_write_at_all(f, 0, mine, count, MPI_BYTE, MPI_STATUS_IGNORE));
    else
        MUST(MPI_File_write_at(f, 0, mine, count, MPI_BYTE, MPI_STATUS_IGNORE));
    MUST(MPI_Type_free(&type));
}

static void write_something(MPI_File f)
{
    int kind = below(4), writer = below(2), at = below(SIZE), len = 1 + below(SIZE - at);
    int piece = 1 + below(below(2) ? 50 : 5000);
    if (kind == 0) { /* both at once */
        write_pieces(f, at, len, piece, 2 * me + program, 2 * ranks, 1);
    } else if (kind == 1) { /* one rank, some of it */
        int who = below(ranks);
        if (len > 20000) len = 20000;
        int does = program == writer && me == who;
        MUST(MPI_File_set_view(f, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
        int salt = below(1 << 30);
        for (int i = at; i < at + len; i++) model[i] = (unsigned char)value(i, salt);
        if (does) MUST(MPI_File_write_at(f, at, model + at, len, MPI_BYTE, MPI_STATUS_IGNORE));
    } else { /* all ranks of one program */
        write_pieces(f, at, len, piece, program == writer ? me : -1, ranks, program == writer);
    }
}

static void check(MPI_File f, int at, int len, int collective, int round)
{
    static unsigned char found[SIZE];
    MPI_Status status;
    memset(found, 0, sizeof found);
    if (collective)
        MUST(MPI_File_read_at_all(f, at, found, len, MPI_BYTE, &status));
    else
        MUST(MPI_File_read_at(f, at, found, len, MPI_BYTE, &status));
    COUNT(status, MPI_BYTE, len);
    for (int i = 0; i < len; i++)
        if (found[i] != model[at + i])
            FAIL("program %d, round %d, %s read of %d bytes at %d: byte %d is %02x, not %02x", program, round,
                 collective ? "collective" : "independent", len, at, at + i, found[i], model[at + i]);
}

/* Both programs also draw the same reads. */
static void read_something(MPI_File f, int round)
{
    MUST(MPI_File_set_view(f, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    int collective = below(2), whole = below(4) == 0;
    for (int reader = 0; reader < 2 * ranks; reader++) {
        int at = whole ? 0 : below(SIZE), len = whole ? SIZE : 1 + below(SIZE - at);
        if (reader == 2 * me + program) check(f, at, len, collective, round);
    }
}

/* For the test, which reads the file without MPI. */
static void show(int round)
{
    char name[64], path[4096], done[4096];
    name_of(name, sizeof name, "expect", round, -1);
    marker_path(done, sizeof done, name);
    if (program == 0 && me == 0) {
        snprintf(path, sizeof path, "%s.new", done);
        int fd = open(path, O_WRONLY | O_CREAT, 0644);
        EXPECT(fd >= 0 && write(fd, model, SIZE) == SIZE && close(fd) == 0 && rename(path, done) == 0);
    }
    name_of(name, sizeof name, "seen", round, -1);
    await(name);
}

int main(int argc, char **argv)
{
    MPI_File f;
    begin(&argc, &argv);
    if (argc != 6) FAIL("usage: %s FILE DIR PROGRAM SEED ROUNDS", argv[0]);
    marker_dir = argv[2];
    program = atoi(argv[3]);
    drawn = (uint64_t)atoll(argv[4]);
    int rounds = atoi(argv[5]);
    MUST(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f));
    for (int round = 0; round < rounds; round++) {
        if (round == 0) write_pieces(f, 0, SIZE, 1000, program == 0 ? me : -1, ranks, program == 0);
        else write_something(f);
        MUST(MPI_File_sync(f));
        barrier_of_both("written", round);
        MUST(MPI_File_sync(f));
        if (round % 5 == 4) show(round);
        read_something(f, round);
        barrier_of_both("read", round);
    }
    MUST(MPI_File_close(&f));
    return finish();
}
