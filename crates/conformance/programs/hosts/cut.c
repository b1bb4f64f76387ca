/* Programs on a partition over hosts one of which is cut off from the others in the meantime.
 *
 *   cut ROLE FILE DIR
 *
 * server: the host of a server is cut off. Writes, syncs and closes fail on every rank, in time.
 * on:     a program with a file on other servers continues until the first one has ended.
 * client: the host of this program is cut off while its memory holds dirty bytes. It gets an error, and writes them again when
 *         the network is back.
 * beside: meanwhile another program with as many ranks writes the following bytes of the same file, from the middle of a
 *         block on.
 */
#include "markers.h"

enum { PIECE = 1000, PIECES = 64, MINE = PIECE * PIECES };

static unsigned char data[MINE];

static unsigned char byte_at(MPI_Offset at, int round) { return (unsigned char)(at * 31 + at / 251 + 7 + round); }

/* Pieces alternate between the ranks, from this byte of the file on. */
static MPI_Offset start;

static MPI_File open_file(const char *path)
{
    MPI_File f;
    MPI_Datatype piece, type;
    MUST(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f));
    MUST(MPI_Type_contiguous(PIECE, MPI_BYTE, &piece));
    MUST(MPI_Type_create_resized(piece, 0, ranks * PIECE, &type));
    MUST(MPI_Type_commit(&type));
    MUST(MPI_File_set_view(f, start + (MPI_Offset)me * PIECE, MPI_BYTE, type, "native", MPI_INFO_NULL));
    MUST(MPI_Type_free(&piece));
    MUST(MPI_Type_free(&type));
    return f;
}

static void fill(int round)
{
    for (int i = 0; i < MINE; i++)
        data[i] = byte_at(start + ((MPI_Offset)(i / PIECE) * ranks + me) * PIECE + i % PIECE, round);
}

static void read_back(MPI_File f, int round)
{
    static unsigned char wanted[MINE];
    MPI_Status status;
    fill(round);
    memcpy(wanted, data, MINE);
    memset(data, 0, MINE);
    MUST(MPI_File_read_at_all(f, 0, data, MINE, MPI_BYTE, &status));
    COUNT(status, MPI_BYTE, MINE);
    EXPECT(memcmp(data, wanted, MINE) == 0);
}

/* A collective call has failed for all ranks or for none. */
static int failed(const char *what, int rc)
{
    int mine = rc != MPI_SUCCESS, least, most;
    MUST(MPI_Allreduce(&mine, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
    MUST(MPI_Allreduce(&mine, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
    EQUAL(least, most);
    if (mine) {
        char text[MPI_MAX_ERROR_STRING];
        int length = 0;
        MPI_Error_string(rc, text, &length);
        printf("rank %d: %s: %s\n", me, what, text);
    }
    return mine;
}

static void all_ready(const char *name)
{
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    if (me == 0) mark(name);
}

static void server_is_cut_off(const char *path)
{
    MPI_File f = open_file(path);
    fill(0);
    MUST(MPI_File_write_at_all(f, 0, data, MINE, MPI_BYTE, MPI_STATUS_IGNORE));
    MUST(MPI_File_sync(f));
    all_ready("ready");
    await("cut");
    double begun = MPI_Wtime();
    fill(0);
    int wrote = failed("write", MPI_File_write_at_all(f, 0, data, MINE, MPI_BYTE, MPI_STATUS_IGNORE));
    double middle = MPI_Wtime();
    int synced = failed("sync", MPI_File_sync(f));
    double end = MPI_Wtime();
    EXPECT(wrote || synced);
    failed("close", MPI_File_close(&f));
    if (me == 0)
        printf("write %.1f s, sync %.1f s, close %.1f s\n", middle - begun, end - middle, MPI_Wtime() - end);
    all_ready("over");
}

static void goes_on(const char *path)
{
    MPI_File f = open_file(path);
    int rounds = 0, cut, over;
    await("ready");
    do {
        /* Before the round, so that what is counted happened after it. */
        cut = is_marked("cut");
        fill(rounds);
        MUST(MPI_File_write_at_all(f, 0, data, MINE, MPI_BYTE, MPI_STATUS_IGNORE));
        MUST(MPI_File_sync(f));
        read_back(f, rounds);
        over = is_marked("over");
        MUST(MPI_Bcast(&cut, 1, MPI_INT, 0, MPI_COMM_WORLD));
        MUST(MPI_Bcast(&over, 1, MPI_INT, 0, MPI_COMM_WORLD));
        rounds += cut;
        /* Leaves the core to the program that is cut off. */
        usleep(20000);
    } while (!over);
    MUST(MPI_File_close(&f));
    EXPECT(rounds > 0);
    if (me == 0) printf("%d rounds went on\n", rounds);
}

static void client_is_cut_off(const char *path)
{
    MPI_File f = open_file(path);
    fill(0);
    MUST(MPI_File_write_at_all(f, 0, data, MINE, MPI_BYTE, MPI_STATUS_IGNORE));
    /* The ranks have their leases, and no block is being staged when the host is cut off. */
    MUST(MPI_File_sync(f));
    all_ready("ready");
    await("cut");
    MUST(MPI_File_write_at_all(f, 0, data, MINE, MPI_BYTE, MPI_STATUS_IGNORE));
    double begun = MPI_Wtime();
    EXPECT(failed("sync", MPI_File_sync(f)));
    if (me == 0) printf("sync %.1f s\n", MPI_Wtime() - begun);
    all_ready("heard");
    await("mended");
    /* The other program got the leases: bytes that these ranks had not stored are lost, and one sync reports it. */
    EXPECT(failed("sync", MPI_File_sync(f)));
    MUST(MPI_File_sync(f));
    all_ready("lost");
    MUST(MPI_File_write_at_all(f, 0, data, MINE, MPI_BYTE, MPI_STATUS_IGNORE));
    MUST(MPI_File_sync(f));
    MUST(MPI_File_close(&f));
}

static void beside(const char *path)
{
    start = (MPI_Offset)ranks * MINE;
    await("cut");
    MPI_File f = open_file(path);
    fill(0);
    double begun = MPI_Wtime();
    MUST(MPI_File_write_at_all(f, 0, data, MINE, MPI_BYTE, MPI_STATUS_IGNORE));
    MUST(MPI_File_sync(f));
    if (me == 0) printf("write and sync %.1f s\n", MPI_Wtime() - begun);
    read_back(f, 0);
    MUST(MPI_File_close(&f));
    all_ready("went on");
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    if (argc != 4) FAIL("usage: %s server|on|client|beside FILE DIR", argv[0]);
    marker_dir = argv[3];
    if (strcmp(argv[1], "server") == 0) server_is_cut_off(argv[2]);
    else if (strcmp(argv[1], "on") == 0) goes_on(argv[2]);
    else if (strcmp(argv[1], "client") == 0) client_is_cut_off(argv[2]);
    else if (strcmp(argv[1], "beside") == 0) beside(argv[2]);
    else FAIL("%s: no such role", argv[1]);
    return finish();
}
