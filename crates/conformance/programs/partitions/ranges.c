/* The hint of ranges that will be accessed soon, and reads that I/O agents prefetch by themselves.
 *
 *   ranges FILE TAKEN
 *
 * Of six ranges of a stripe each, TAKEN are taken at first; the rest when those are done with.
 */
#include "../apps/check.h"

enum { STRIPE = 65536, STRIPES = 64, RANGES = 6 };

static unsigned char byte_at(MPI_Offset at) { return (unsigned char)(at * 29 + at / 509 + 3); }

/* Stripes of this rank's half of the file, in no order. */
static MPI_Offset place(int i) { return ((MPI_Offset)me * STRIPES / 2 + (i * 7 + i / 2) % 24) * STRIPE; }

static void list(char *text, size_t room, int first, int end)
{
    *text = 0;
    for (int i = first; i < end; i++) {
        size_t used = strlen(text);
        snprintf(text + used, room - used, "%s%lld+%d", i > first ? "," : "", (long long)place(i), STRIPE);
    }
}

/* How many ranges the file says were taken. */
static int taken(MPI_File f)
{
    MPI_Info info;
    char value[64] = "";
    int flag = 0;
    MUST(MPI_File_get_info(f, &info));
    MUST(MPI_Info_get(info, "pario_access_taken", sizeof value - 1, value, &flag));
    MUST(MPI_Info_free(&info));
    return flag ? atoi(value) : -1;
}

static void tell(MPI_File f, int done, int first, int end)
{
    char text[250];
    MPI_Info info;
    MUST(MPI_Info_create(&info));
    if (done > 0) {
        list(text, sizeof text, 0, done);
        MUST(MPI_Info_set(info, "pario_access_done", text));
    }
    if (end > first) {
        list(text, sizeof text, first, end);
        MUST(MPI_Info_set(info, "pario_access_ranges", text));
    }
    MUST(MPI_File_set_info(f, info));
    MUST(MPI_Info_free(&info));
}

static void read_one(MPI_File f, int i)
{
    static unsigned char data[STRIPE];
    MPI_Status status;
    MUST(MPI_File_read_at(f, place(i), data, STRIPE, MPI_BYTE, &status));
    COUNT(status, MPI_BYTE, STRIPE);
    for (int k = 0; k < STRIPE; k++) EQUAL(data[k], byte_at(place(i) + k));
}

/* Pieces all over the file that read-ahead cannot guess: if there are I/O agents they prefetch. */
static void read_irregular(MPI_File f)
{
    enum { PIECES = 30 };
    static unsigned char data[PIECES * 2000];
    int lengths[PIECES], places[PIECES], bytes = 0;
    MPI_Datatype type;
    MPI_Status status;
    for (int i = 0; i < PIECES; i++) {
        lengths[i] = 1000 + i * 37 % 900;
        places[i] = (i * 2 + i % 3 / 2) * STRIPE + i * i * 97 % 50000;
        bytes += lengths[i];
    }
    MUST(MPI_Type_indexed(PIECES, lengths, places, MPI_BYTE, &type));
    MUST(MPI_Type_commit(&type));
    MUST(MPI_File_set_view(f, 0, MPI_BYTE, type, "native", MPI_INFO_NULL));
    MUST(MPI_Type_free(&type));
    MUST(MPI_File_read_at(f, 0, data, bytes, MPI_BYTE, &status));
    COUNT(status, MPI_BYTE, bytes);
    for (int i = 0, k = 0; i < PIECES; i++)
        for (int j = 0; j < lengths[i]; j++, k++) EQUAL(data[k], byte_at(places[i] + j));
}

int main(int argc, char **argv)
{
    static unsigned char data[STRIPE];
    MPI_File f;
    MPI_Info info;
    begin(&argc, &argv);
    int expected = atoi(argv[2]);
    MUST(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f));
    for (int s = me; s < STRIPES; s += ranks) {
        for (int k = 0; k < STRIPE; k++) data[k] = byte_at((MPI_Offset)s * STRIPE + k);
        MUST(MPI_File_write_at(f, (MPI_Offset)s * STRIPE, data, STRIPE, MPI_BYTE, MPI_STATUS_IGNORE));
    }
    MUST(MPI_File_sync(f));
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    EQUAL(taken(f), -1);

    tell(f, 0, 0, RANGES);
    EQUAL(taken(f), expected);
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < expected; i++) read_one(f, i);
    if (expected < RANGES) {
        tell(f, expected, expected, RANGES);
        EQUAL(taken(f), RANGES - expected);
    }
    for (int i = expected; i < RANGES; i++) read_one(f, i);
    MUST(MPI_Barrier(MPI_COMM_WORLD));

    /* Nonsense is refused, and what was taken stays told. */
    MUST(MPI_Info_create(&info));
    MUST(MPI_Info_set(info, "pario_access_ranges", "5-9"));
    MUST(MPI_File_set_info(f, info));
    MUST(MPI_Info_free(&info));
    EQUAL(taken(f), expected < RANGES ? RANGES - expected : RANGES);
    tell(f, RANGES, 0, 1);
    EQUAL(taken(f), 1);
    read_irregular(f);
    MUST(MPI_File_close(&f));
    return finish();
}
