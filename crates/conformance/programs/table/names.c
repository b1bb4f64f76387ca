/* Calls every exported MPI-IO function, as MPI_ and as PMPI_ name, with good and with bad arguments.
 *
 * Data access is one table: the families read and write, four kinds of file pointer, and the forms blocking,
 * collective, nonblocking and split, each with an int and with a large count. Functions are found by name in
 * the running program, so that large-count forms are reached also where the host's headers lack them. Every
 * name called is printed with the library it came from: `called NAME LIBRARY`.
 */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "check.h"

enum pointer { EXPLICIT, INDIVIDUAL, SHARED, ORDERED };
enum form { BLOCKING, REQUEST, SPLIT };

struct access {
    const char *name; /* without prefix and without _c */
    enum pointer pointer;
    enum form form;
    int writes, collective;
};

#define FAMILY(verb, writes)                                                                              \
    {verb "_at", EXPLICIT, BLOCKING, writes, 0}, {verb "_at_all", EXPLICIT, BLOCKING, writes, 1},         \
    {"i" verb "_at", EXPLICIT, REQUEST, writes, 0}, {"i" verb "_at_all", EXPLICIT, REQUEST, writes, 1},   \
    {verb "_at_all_begin", EXPLICIT, SPLIT, writes, 1},                                                   \
    {verb, INDIVIDUAL, BLOCKING, writes, 0}, {verb "_all", INDIVIDUAL, BLOCKING, writes, 1},              \
    {"i" verb, INDIVIDUAL, REQUEST, writes, 0}, {"i" verb "_all", INDIVIDUAL, REQUEST, writes, 1},        \
    {verb "_all_begin", INDIVIDUAL, SPLIT, writes, 1},                                                    \
    {verb "_shared", SHARED, BLOCKING, writes, 0}, {"i" verb "_shared", SHARED, REQUEST, writes, 0},      \
    {verb "_ordered", ORDERED, BLOCKING, writes, 1}, {verb "_ordered_begin", ORDERED, SPLIT, writes, 1}

static const struct access table[] = {FAMILY("read", 0), FAMILY("write", 1)};
#define ROWS (sizeof table / sizeof *table)

/* The function of this name, noted as called. */
static void *symbol(const char *name)
{
    static const char *seen[400];
    static int count;
    void *found = dlsym(RTLD_DEFAULT, name);
    for (int i = 0; i < count; i++)
        if (strcmp(seen[i], name) == 0)
            return found;
    Dl_info from = {0};
    if (found && dladdr(found, &from) && rank == 0) {
        const char *slash = strrchr(from.dli_fname, '/');
        printf("called %s %s\n", name, slash ? slash + 1 : from.dli_fname);
    }
    if (count < 400)
        seen[count++] = strdup(name);
    return found;
}

static void full_name(char *name, size_t size, const char *prefix, const struct access *a, int large)
{
    snprintf(name, size, "%s_File_%s%s", prefix, a->name, large ? "_c" : "");
}

/* The _end of a split collective; it has no large-count form. */
static int end_split(const struct access *a, const char *prefix, MPI_File fh, void *buf, MPI_Status *status)
{
    char name[80];
    snprintf(name, sizeof name, "%s_File_%s", prefix, a->name);
    strcpy(strstr(name, "_begin"), "_end");
    int (*end)(MPI_File, void *, MPI_Status *) = symbol(name);
    return end(fh, buf, status);
}

typedef int at_status(MPI_File, MPI_Offset, void *, int, MPI_Datatype, MPI_Status *);
typedef int at_status_c(MPI_File, MPI_Offset, void *, MPI_Count, MPI_Datatype, MPI_Status *);
typedef int at_request(MPI_File, MPI_Offset, void *, int, MPI_Datatype, MPI_Request *);
typedef int at_request_c(MPI_File, MPI_Offset, void *, MPI_Count, MPI_Datatype, MPI_Request *);
typedef int at_begin(MPI_File, MPI_Offset, void *, int, MPI_Datatype);
typedef int at_begin_c(MPI_File, MPI_Offset, void *, MPI_Count, MPI_Datatype);
typedef int here_status(MPI_File, void *, int, MPI_Datatype, MPI_Status *);
typedef int here_status_c(MPI_File, void *, MPI_Count, MPI_Datatype, MPI_Status *);
typedef int here_request(MPI_File, void *, int, MPI_Datatype, MPI_Request *);
typedef int here_request_c(MPI_File, void *, MPI_Count, MPI_Datatype, MPI_Request *);
typedef int here_begin(MPI_File, void *, int, MPI_Datatype);
typedef int here_begin_c(MPI_File, void *, MPI_Count, MPI_Datatype);

#define PICK(shape, at, ...)                                                                              \
    (a->pointer == EXPLICIT                                                                               \
         ? (large ? ((at_##shape##_c *)fn)(fh, at, buf, count, __VA_ARGS__)                               \
                  : ((at_##shape *)fn)(fh, at, buf, (int)count, __VA_ARGS__))                             \
         : (large ? ((here_##shape##_c *)fn)(fh, buf, count, __VA_ARGS__)                                 \
                  : ((here_##shape *)fn)(fh, buf, (int)count, __VA_ARGS__)))

/* Starts an access; a blocking one is over then. */
static int start(const struct access *a, const char *prefix, int large, MPI_File fh, MPI_Offset at, void *buf,
                 MPI_Count count, MPI_Datatype type, MPI_Status *status, MPI_Request *request)
{
    char name[80];
    full_name(name, sizeof name, prefix, a, large);
    void *fn = symbol(name);
    if (!fn) {
        CHECK(0, "%s is not there", name);
        return MPI_ERR_UNSUPPORTED_OPERATION;
    }
    switch (a->form) {
    case BLOCKING: return PICK(status, at, type, status);
    case REQUEST: return PICK(request, at, type, request);
    default: return PICK(begin, at, type);
    }
}

/* The whole access, waited for. */
static int access_file(const struct access *a, const char *prefix, int large, MPI_File fh, MPI_Offset at,
                       void *buf, MPI_Count count, MPI_Datatype type, MPI_Status *status)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int rc = start(a, prefix, large, fh, at, buf, count, type, status, &request);
    if (rc != MPI_SUCCESS || a->form == BLOCKING)
        return rc;
    return a->form == REQUEST ? MPI_Wait(&request, status) : end_split(a, prefix, fh, buf, status);
}

/* ---- good arguments ------------------------------------------------------------------------------- */

enum { FIRST = 7, COUNT = 5, INTS = 100, DISP = 8 };

/* Which int of the file is etype `at` of the view: two ints of three, from the third int on. */
static int place(long long at) { return 2 + (int)(at / 2) * 3 + (int)(at % 2); }

/* Where this rank's access begins; shared accesses come in any order, but each has a place of its own. */
static long long begin_of(const struct access *a, const int *file_or_data, int whole_file, int first_value)
{
    if (a->pointer != SHARED)
        return FIRST + rank * COUNT;
    for (int k = 0; k < ranks; k++) {
        int got = whole_file ? file_or_data[place(FIRST + k * COUNT)] : file_or_data[0];
        int want = whole_file ? first_value : place(FIRST + k * COUNT);
        if (got == want)
            return FIRST + k * COUNT;
    }
    CHECK(0, "%s: no rank's place holds this rank's data", a->name);
    return FIRST;
}

static void aim(const struct access *a, MPI_File fh)
{
    if (a->pointer == SHARED || a->pointer == ORDERED)
        OK(MPI_File_seek_shared(fh, FIRST, MPI_SEEK_SET));
    OK(MPI_File_seek(fh, FIRST + rank * COUNT, MPI_SEEK_SET));
}

static void check_pointers(const struct access *a, MPI_File fh)
{
    SAME(position(fh), FIRST + rank * COUNT + (a->pointer == INDIVIDUAL ? COUNT : 0));
    if (a->pointer == SHARED || a->pointer == ORDERED) {
        barrier();
        SAME(shared_position(fh), FIRST + ranks * COUNT);
    }
}

static void good_read(const struct access *a, const char *prefix, int large, MPI_File fh)
{
    int data[COUNT + 1];
    MPI_Status status;
    memset(data, 0xff, sizeof data);
    aim(a, fh);
    OK(access_file(a, prefix, large, fh, FIRST + rank * COUNT, data, COUNT, MPI_INT, &status));
    SAME(count_of(&status, MPI_INT), COUNT);
    long long at = begin_of(a, data, 0, 0);
    for (int i = 0; i < COUNT; i++)
        SAME(data[i], place(at + i));
    SAME(data[COUNT], -1);
    check_pointers(a, fh);
}

static void good_write(const struct access *a, const char *prefix, int large, MPI_File fh, const char *file)
{
    int data[COUNT], on_disk[INTS];
    MPI_Status status;
    for (int i = 0; i < COUNT; i++)
        data[i] = -(rank * 100 + i + 1);
    aim(a, fh);
    OK(access_file(a, prefix, large, fh, FIRST + rank * COUNT, data, COUNT, MPI_INT, &status));
    SAME(count_of(&status, MPI_INT), COUNT);
    check_pointers(a, fh);
    settle(fh);
    SAME(slurp(file, on_disk, sizeof on_disk), sizeof on_disk);
    long long at = begin_of(a, on_disk, 1, data[0]);
    for (int i = 0; i < COUNT; i++)
        SAME(on_disk[place(at + i)], data[i]);
    int untouched = 0;
    for (int i = 0; i < INTS; i++)
        untouched += on_disk[i] == i;
    SAME(untouched, INTS - ranks * COUNT);
    barrier();
    for (int i = 0; i < COUNT; i++)
        data[i] = place(at + i);
    OK(MPI_File_write_at(fh, at, data, COUNT, MPI_INT, MPI_STATUS_IGNORE));
    settle(fh);
}

static void good(const char *prefix, int large)
{
    const char *file = "good";
    MPI_Datatype filetype = holed(2, 3);
    spit_ints(file, INTS);
    MPI_File fh = open_all(file, MPI_MODE_RDWR);
    OK(MPI_File_set_view(fh, DISP, MPI_INT, filetype, "native", MPI_INFO_NULL));
    for (size_t i = 0; i < ROWS; i++) {
        const struct access *a = &table[i];
        char name[80], text[160];
        MPI_Status status;
        full_name(name, sizeof name, prefix, a, large);
        snprintf(text, sizeof text, "%s does what it says", name);
        CLAUSE("good", text);
        if (a->writes)
            good_write(a, prefix, large, fh, file);
        else
            good_read(a, prefix, large, fh);
        OK(access_file(a, prefix, large, fh, 3, NULL, 0, MPI_INT, &status));
        SAME(count_of(&status, MPI_INT), 0);
        OK(access_file(a, prefix, large, fh, 3, NULL, 0, MPI_INT, MPI_STATUS_IGNORE));
        END_CLAUSE();
    }
    OK(MPI_File_close(&fh));
    MPI_Type_free(&filetype);
}

/* ---- bad arguments -------------------------------------------------------------------------------- */

static int misplaced(const struct access *a) { return a->pointer == EXPLICIT || a->pointer == INDIVIDUAL; }

static void bad(const char *prefix, int large)
{
    int data[COUNT] = {0};
    spit_ints("bad", INTS);
    MPI_File both = open_all("bad", MPI_MODE_RDWR);
    MPI_File reads = open_all("bad", MPI_MODE_RDONLY);
    MPI_File writes = open_all("bad", MPI_MODE_WRONLY);
    MPI_File row[2] = {open_all("bad", MPI_MODE_RDONLY | MPI_MODE_SEQUENTIAL),
                       open_all("bad", MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL)};
    for (size_t i = 0; i < ROWS; i++) {
        const struct access *a = &table[i];
        char name[80], text[160];
        MPI_Status st;
        full_name(name, sizeof name, prefix, a, large);
        snprintf(text, sizeof text, "%s refuses bad arguments", name);
        CLAUSE("bad", text);
        GIVES(access_file(a, prefix, large, MPI_FILE_NULL, 0, data, 1, MPI_INT, &st), MPI_ERR_FILE);
        GIVES(access_file(a, prefix, large, both, 0, data, -1, MPI_INT, &st), MPI_ERR_COUNT);
        GIVES(access_file(a, prefix, large, both, 0, data, 1, MPI_DATATYPE_NULL, &st), MPI_ERR_TYPE);
        if (a->pointer == EXPLICIT)
            GIVES(access_file(a, prefix, large, both, -1, data, 1, MPI_INT, &st), MPI_ERR_ARG);
        if (a->writes)
            GIVES(access_file(a, prefix, large, reads, 0, data, 1, MPI_INT, &st), MPI_ERR_READ_ONLY);
        else
            GIVES(access_file(a, prefix, large, writes, 0, data, 1, MPI_INT, &st), MPI_ERR_ACCESS);
        if (misplaced(a))
            GIVES(access_file(a, prefix, large, row[a->writes], 0, data, 1, MPI_INT, &st),
                  MPI_ERR_UNSUPPORTED_OPERATION);
        else
            OK(access_file(a, prefix, large, row[a->writes], 0, data, 1, MPI_INT, &st));
        SAME(position(both), 0);
        SAME(shared_position(both), 0);
        END_CLAUSE();
    }
    OK(MPI_File_close(&both));
    OK(MPI_File_close(&reads));
    OK(MPI_File_close(&writes));
    OK(MPI_File_close(&row[0]));
    OK(MPI_File_close(&row[1]));
}

/* The standard forbids these but names no class: an unsupported operation, or another error. */
#define MISUSE(call) GIVES2(call, MPI_ERR_UNSUPPORTED_OPERATION, MPI_ERR_OTHER)

static void bad_split(const char *prefix, int large)
{
    int data[COUNT] = {0}, more[COUNT] = {0};
    spit_ints("split", INTS);
    MPI_File fh = open_all("split", MPI_MODE_RDWR);
    for (size_t i = 0; i < ROWS; i++) {
        const struct access *a = &table[i], *other = &table[(i + ROWS / 2) % ROWS];
        if (a->form != SPLIT)
            continue;
        char name[80], text[160];
        MPI_Status st;
        MPI_Request none = MPI_REQUEST_NULL;
        full_name(name, sizeof name, prefix, a, large);
        snprintf(text, sizeof text, "%s keeps the rules of split collectives", name);
        CLAUSE("split", text);
        MISUSE(end_split(a, prefix, fh, data, &st));
        OK(start(a, prefix, large, fh, 0, data, 1, MPI_INT, &st, &none));
        MISUSE(start(a, prefix, large, fh, 0, more, 1, MPI_INT, &st, &none));
        MISUSE(start(other, prefix, large, fh, 0, more, 1, MPI_INT, &st, &none));
        MISUSE(end_split(other, prefix, fh, data, &st));
        MISUSE(MPI_File_read_at_all(fh, 0, more, 1, MPI_INT, &st));
        OK(MPI_File_read_at(fh, 90 * sizeof(int), more, 1, MPI_INT, &st));
        SAME(more[0], 90);
        OK(end_split(a, prefix, fh, data, &st));
        SAME(count_of(&st, MPI_INT), 1);
        MISUSE(end_split(a, prefix, fh, data, &st));
        GIVES(end_split(a, prefix, MPI_FILE_NULL, data, &st), MPI_ERR_FILE);
        END_CLAUSE();
    }
    OK(MPI_File_close(&fh));
}

/* ---- everything but data access, once per prefix -------------------------------------------------- */

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)
/* Calls the function under the prefix of the moment, and notes it. */
#define CALL(name, ...) (symbol(TEXT(PREFIX) #name), JOIN(PREFIX, name)(__VA_ARGS__))

static MPI_File handled_file;
static int handled_code, handled;

static void note_error(MPI_File *fh, int *code, ...)
{
    handled++;
    handled_file = *fh;
    handled_code = *code;
}

static int same_extent(MPI_Datatype type, MPI_Aint *extent, void *state)
{
    MPI_Aint lb;
    (void)state;
    return MPI_Type_get_extent(type, &lb, extent);
}

#define PREFIX MPI_
#include "names_other.h"
#undef PREFIX
#define PREFIX PMPI_
#include "names_other.h"
#undef PREFIX

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    const char *prefixes[] = {"MPI", "PMPI"};
    for (int large = 0; large < 2; large++)
        for (int p = 0; p < 2; p++) {
            good(prefixes[p], large);
            bad(prefixes[p], large);
            bad_split(prefixes[p], large);
        }
    MPI_manage();
    PMPI_manage();
    MPI_place();
    PMPI_place();
    MPI_handlers();
    PMPI_handlers();
    MPI_datareps();
    PMPI_datareps();
    return finish();
}
