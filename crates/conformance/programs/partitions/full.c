/* Fills the storage of a partition, and goes on.
 *
 *   full DIRECTORY HOW MIBS
 *
 * HOW: independent, collective, pieces (collective through a view of small pieces) or nonblocking. Each rank writes MIBS
 * MiB, 1 MiB a call. The first call that fails, or the sync or the close after it, gives MPI_ERR_NO_SPACE on the
 * rank; what was synced before is intact; another file can be read; after the large file is removed there is
 * room again. Each rank says which call failed first and how long the longest call took.
 */
#include "../apps/check.h"

enum { MIB = 1 << 20, PIECE = 4096 };

static const char *class_of(int code)
{
    int class = MPI_SUCCESS;
    MPI_Error_class(code, &class);
    return class == MPI_SUCCESS ? "success" : class == MPI_ERR_NO_SPACE ? "no-space" : "another";
}

static double longest;
static const char *first = "success", *where = "nowhere";

/* Times a call, and keeps the first failure. */
static int timed(const char *name, double start, int code)
{
    double took = MPI_Wtime() - start;
    if (took > longest) longest = took;
    if (code != MPI_SUCCESS && strcmp(first, "success") == 0) {
        char text[MPI_MAX_ERROR_STRING];
        int length;
        first = class_of(code);
        where = name;
        MPI_Error_string(code, text, &length);
        fprintf(stderr, "rank %d: %s: %s\n", me, name, text);
    }
    return code;
}

#define TIMED(name, call)                                                                                  \
    do {                                                                                                   \
        double start_ = MPI_Wtime();                                                                       \
        timed(name, start_, (call));                                                                       \
    } while (0)

static char *path(const char *dir, const char *name)
{
    static char text[2][4096];
    static int turn;
    turn = !turn;
    snprintf(text[turn], sizeof text[turn], "%s/%s", dir, name);
    return text[turn];
}

static void fill(int32_t *data, int call)
{
    for (int i = 0; i < MIB / 4; i++) data[i] = value((int64_t)call * MIB + i, me);
}

static MPI_File opened(const char *name)
{
    MPI_File f;
    MUST(MPI_File_open(MPI_COMM_WORLD, (char *)name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f));
    return f;
}

/* This rank's first MiB is in the file. */
static void kept_is_there(MPI_File f)
{
    int32_t *found = zeroed(MIB), *wanted = zeroed(MIB);
    fill(wanted, 0);
    MUST(MPI_File_read_at(f, (MPI_Offset)me * MIB, found, MIB, MPI_BYTE, MPI_STATUS_IGNORE));
    EXPECT(memcmp(found, wanted, MIB) == 0);
    free(found);
    free(wanted);
}

static void write_until_full(MPI_File f, const char *how, int calls)
{
    int32_t *data = zeroed(MIB);
    MPI_Datatype piece, type;
    int pieces = strcmp(how, "pieces") == 0;
    MUST(MPI_Type_contiguous(PIECE, MPI_BYTE, &piece));
    MUST(MPI_Type_create_resized(piece, 0, ranks * PIECE, &type));
    MUST(MPI_Type_commit(&type));
    if (pieces)
        MUST(MPI_File_set_view(f, (MPI_Offset)me * PIECE, MPI_BYTE, type, "native", MPI_INFO_NULL));
    for (int call = 1; call <= calls; call++) {
        MPI_Offset at = ((MPI_Offset)call * ranks + me) * MIB;
        MPI_Status st;
        int failed;
        fill(data, call);
        if (pieces) {
            TIMED("write", MPI_File_write_at_all(f, (MPI_Offset)call * MIB, data, MIB, MPI_BYTE, &st));
        } else if (strcmp(how, "collective") == 0) {
            TIMED("write", MPI_File_write_at_all(f, at, data, MIB, MPI_BYTE, &st));
        } else if (strcmp(how, "nonblocking") == 0) {
            MPI_Request request;
            MUST(MPI_File_iwrite_at(f, at, data, MIB, MPI_BYTE, &request));
            TIMED("write", MPI_Wait(&request, &st));
            int count = 0;
            MPI_Get_count(&st, MPI_BYTE, &count);
            if (count != MIB) break;
        } else {
            TIMED("write", MPI_File_write_at(f, at, data, MIB, MPI_BYTE, &st));
        }
        failed = strcmp(first, "success") != 0;
        if (failed) break;
    }
    free(data);
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    TIMED("sync", MPI_File_sync(f));
    MUST(MPI_File_set_view(f, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    MUST(MPI_Type_free(&type));
    MUST(MPI_Type_free(&piece));
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    if (argc != 4) FAIL("usage: %s DIRECTORY HOW MIBS", argv[0]);
    int32_t *data = zeroed(MIB);
    fill(data, 0);
    MPI_File other = opened(path(argv[1], "other")), f = opened(path(argv[1], "large"));
    MUST(MPI_File_write_at_all(other, (MPI_Offset)me * MIB, data, MIB, MPI_BYTE, MPI_STATUS_IGNORE));
    MUST(MPI_File_sync(other));
    MUST(MPI_File_write_at_all(f, (MPI_Offset)me * MIB, data, MIB, MPI_BYTE, MPI_STATUS_IGNORE));
    MUST(MPI_File_sync(f));
    write_until_full(f, argv[2], atoi(argv[3]));
    kept_is_there(f);
    kept_is_there(other);
    TIMED("close", MPI_File_close(&f));
    printf("rank %d: %s at %s, longest call %.1f s\n", me, first, where, longest);
    fflush(stdout);
    /* Room again. */
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    if (me == 0) MUST(MPI_File_delete(path(argv[1], "large"), MPI_INFO_NULL));
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    double since = MPI_Wtime();
    int code, all;
    do {
        code = MPI_File_write_at_all(other, (MPI_Offset)(ranks + me) * MIB, data, MIB, MPI_BYTE, MPI_STATUS_IGNORE);
        if (code == MPI_SUCCESS) code = MPI_File_sync(other);
        else MPI_File_sync(other);
        code = code != MPI_SUCCESS;
        MUST(MPI_Allreduce(&code, &all, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
    } while (all && MPI_Wtime() - since < 30);
    EXPECT(!all);
    kept_is_there(other);
    MUST(MPI_File_close(&other));
    return finish();
}
