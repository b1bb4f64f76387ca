/* Executes scripts of MPI-IO calls, one line a call, and writes down what each rank saw.
 *
 * Every rank reads the whole file `script` and does the lines addressed to it (its number) or to all (`*`).
 * What it saw goes to the file `out.RANK`, a line an access: number, error class, bytes, digest of the whole
 * buffer. The writer of the script knows what must stand there. Verbs:
 *   script NAME                 a new script, on the file NAME
 *   type ID SPEC                makes a datatype, see parse_type; the one that had the number is freed
 *   open AMODE N KEY VALUE ...  collective; AMODE of the letters r w b (both) c (create) a (append)
 *   view DISP ETYPE FILETYPE    collective
 *   seek WHENCE OFFSET          WHENCE is s, c or e
 *   sseek WHENCE OFFSET         the shared pointer; collective
 *   do ID DIR POINTER FORM OFFSET TYPE COUNT SIZE ORIGIN
 *        DIR r w; POINTER at in sh or; FORM b (blocking), c (collective), i (nonblocking), n (nonblocking
 *        collective), s (split); SIZE of the buffer, ORIGIN of the datatype in it
 *   wait                        completes the nonblocking accesses, last one first
 *   pos                         writes down both pointers and the file's size
 *   size N, reserve N, sync, barrier, atomic FLAG, close
 */
#include "check.h"

enum { TYPES = 64, PENDING = 64 };

static MPI_Datatype types[TYPES];
static MPI_File fh = MPI_FILE_NULL;
static char file[256];
static FILE *out;

static struct { MPI_Request request; int id, size; unsigned char *buffer; } pending[PENDING];
static int pendings;

static char *rest; /* of the line */

static char *word(void)
{
    char *w = strtok_r(NULL, " ", &rest);
    if (!w) {
        fprintf(stderr, "a line of the script is too short\n");
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    return w;
}

static long long number(void) { return strtoll(word(), NULL, 10); }
static int small(void) { return (int)number(); }

/* ---- datatypes ------------------------------------------------------------------------------------- */

static MPI_Datatype basic(const char *name)
{
    static const struct { const char *name; } order[] = {{"b1"}, {"c1"}, {"s2"}, {"s4"}, {"s8"}, {"u8"},
        {"f4"}, {"f8"}, {"f16"}, {"z8"}, {"z16"}, {"l4"}, {"c4"}};
    const MPI_Datatype type[] = {MPI_BYTE, MPI_CHAR, MPI_SHORT, MPI_INT, MPI_LONG, MPI_UINT64_T, MPI_FLOAT,
        MPI_DOUBLE, MPI_LONG_DOUBLE, MPI_C_FLOAT_COMPLEX, MPI_C_DOUBLE_COMPLEX, MPI_INT, MPI_WCHAR};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        if (strcmp(order[i].name, name) == 0)
            return type[i];
    return MPI_DATATYPE_NULL;
}

static MPI_Datatype parse_type(void);

/* Frees a datatype, unless it is a named one: handles are used again soon, for other datatypes. */
static void release(MPI_Datatype *type)
{
    int a, b, c, combiner;
    MPI_Type_get_envelope(*type, &a, &b, &c, &combiner);
    if (combiner != MPI_COMBINER_NAMED)
        MPI_Type_free(type);
}

static int *ints(int n)
{
    int *list = malloc(sizeof(int) * (size_t)(n + 1));
    for (int i = 0; i < n; i++)
        list[i] = small();
    return list;
}

static MPI_Datatype parse_blocks(const char *kind)
{
    int n = small();
    int *lengths = malloc(sizeof(int) * (size_t)(n + 1)), *where = malloc(sizeof(int) * (size_t)(n + 1));
    MPI_Aint *bytes = malloc(sizeof(MPI_Aint) * (size_t)(n + 1));
    for (int i = 0; i < n; i++) {
        lengths[i] = small();
        bytes[i] = number();
        where[i] = (int)bytes[i];
    }
    MPI_Datatype child = parse_type(), made;
    if (kind[0] == 'h')
        MPI_Type_create_hindexed(n, lengths, bytes, child, &made);
    else
        MPI_Type_indexed(n, lengths, where, child, &made);
    release(&child);
    free(lengths);
    free(where);
    free(bytes);
    return made;
}

static MPI_Datatype parse_equal_blocks(const char *kind)
{
    int n = small(), length = small();
    int *where = malloc(sizeof(int) * (size_t)(n + 1));
    MPI_Aint *bytes = malloc(sizeof(MPI_Aint) * (size_t)(n + 1));
    for (int i = 0; i < n; i++) {
        bytes[i] = number();
        where[i] = (int)bytes[i];
    }
    MPI_Datatype child = parse_type(), made;
    if (kind[0] == 'h')
        MPI_Type_create_hindexed_block(n, length, bytes, child, &made);
    else
        MPI_Type_create_indexed_block(n, length, where, child, &made);
    release(&child);
    free(where);
    free(bytes);
    return made;
}

static MPI_Datatype parse_struct(void)
{
    int n = small();
    int *lengths = malloc(sizeof(int) * (size_t)(n + 1));
    MPI_Aint *bytes = malloc(sizeof(MPI_Aint) * (size_t)(n + 1));
    MPI_Datatype *parts = malloc(sizeof(MPI_Datatype) * (size_t)(n + 1)), made;
    for (int i = 0; i < n; i++) {
        lengths[i] = small();
        bytes[i] = number();
        parts[i] = parse_type();
    }
    MPI_Type_create_struct(n, lengths, bytes, parts, &made);
    for (int i = 0; i < n; i++)
        release(&parts[i]);
    free(lengths);
    free(bytes);
    free(parts);
    return made;
}

static MPI_Datatype parse_subarray(void)
{
    int n = small(), *sizes = ints(n), *subsizes = ints(n), *starts = ints(n), c = word()[0] == 'C';
    MPI_Datatype child = parse_type(), made;
    MPI_Type_create_subarray(n, sizes, subsizes, starts, c ? MPI_ORDER_C : MPI_ORDER_FORTRAN, child, &made);
    release(&child);
    free(sizes);
    free(subsizes);
    free(starts);
    return made;
}

static MPI_Datatype parse_darray(void)
{
    int size = small(), who = small(), n = small();
    int *sizes = ints(n), *dist = ints(n), *args = ints(n), *grid = ints(n), c = word()[0] == 'C';
    const int how[] = {MPI_DISTRIBUTE_NONE, MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC};
    for (int i = 0; i < n; i++) {
        dist[i] = how[dist[i]];
        args[i] = args[i] < 0 ? MPI_DISTRIBUTE_DFLT_DARG : args[i];
    }
    MPI_Datatype child = parse_type(), made;
    MPI_Type_create_darray(size, who, n, sizes, dist, args, grid, c ? MPI_ORDER_C : MPI_ORDER_FORTRAN, child,
                           &made);
    release(&child);
    free(sizes);
    free(dist);
    free(args);
    free(grid);
    return made;
}

/* A constructor with one child and few numbers. */
static MPI_Datatype parse_simple(const char *kind)
{
    MPI_Aint n[3] = {0};
    int numbers = strcmp(kind, "dup") == 0 ? 0 : strcmp(kind, "contiguous") == 0 ? 1
                : strcmp(kind, "resized") == 0 ? 2 : 3;
    for (int i = 0; i < numbers; i++)
        n[i] = number();
    MPI_Datatype child = parse_type(), made = MPI_DATATYPE_NULL;
    if (strcmp(kind, "dup") == 0)
        MPI_Type_dup(child, &made);
    else if (strcmp(kind, "contiguous") == 0)
        MPI_Type_contiguous((int)n[0], child, &made);
    else if (strcmp(kind, "resized") == 0)
        MPI_Type_create_resized(child, n[0], n[1], &made);
    else if (strcmp(kind, "vector") == 0)
        MPI_Type_vector((int)n[0], (int)n[1], (int)n[2], child, &made);
    else if (strcmp(kind, "hvector") == 0)
        MPI_Type_create_hvector((int)n[0], (int)n[1], n[2], child, &made);
    release(&child);
    return made;
}

/* A datatype in prefix notation: a constructor's name, its arguments, its child. */
static MPI_Datatype parse_type(void)
{
    char *kind = word();
    MPI_Datatype named = basic(kind);
    if (named != MPI_DATATYPE_NULL)
        return named;
    if (strcmp(kind, "indexed") == 0 || strcmp(kind, "hindexed") == 0)
        return parse_blocks(kind);
    if (strcmp(kind, "indexed_block") == 0 || strcmp(kind, "hindexed_block") == 0)
        return parse_equal_blocks(kind);
    if (strcmp(kind, "struct") == 0)
        return parse_struct();
    if (strcmp(kind, "subarray") == 0)
        return parse_subarray();
    if (strcmp(kind, "darray") == 0)
        return parse_darray();
    return parse_simple(kind);
}

/* ---- accesses -------------------------------------------------------------------------------------- */

static void note(int id, int code, MPI_Status *st, const unsigned char *buffer, int size)
{
    MPI_Count bytes = -1;
    uint64_t digest = 0xcbf29ce484222325u;
    if (code == MPI_SUCCESS)
        MPI_Get_elements_x(st, MPI_BYTE, &bytes);
    for (int i = 0; i < size; i++)
        digest = (digest ^ buffer[i]) * 0x100000001b3u;
    fprintf(out, "%d %s %lld %016llx\n", id, class_name(code), (long long)bytes, (unsigned long long)digest);
}

static void fill(unsigned char *buffer, int size, int id, int writes)
{
    for (int i = 0; i < size; i++)
        buffer[i] = writes ? (unsigned char)(id * 131 + rank * 31 + i * 7 + (i >> 8) * 13)
                           : (unsigned char)(i * 11 + 3);
}

static int blocking(int writes, char pointer, int all, MPI_Offset at, void *buf, int n, MPI_Datatype t, MPI_Status *st)
{
    switch (pointer) {
    case 'a':
        return writes ? (all ? MPI_File_write_at_all : MPI_File_write_at)(fh, at, buf, n, t, st)
                      : (all ? MPI_File_read_at_all : MPI_File_read_at)(fh, at, buf, n, t, st);
    case 'i':
        return writes ? (all ? MPI_File_write_all : MPI_File_write)(fh, buf, n, t, st)
                      : (all ? MPI_File_read_all : MPI_File_read)(fh, buf, n, t, st);
    case 's':
        return writes ? MPI_File_write_shared(fh, buf, n, t, st) : MPI_File_read_shared(fh, buf, n, t, st);
    default:
        return writes ? MPI_File_write_ordered(fh, buf, n, t, st) : MPI_File_read_ordered(fh, buf, n, t, st);
    }
}

static int nonblocking(int writes, char pointer, int all, MPI_Offset at, void *buf, int n, MPI_Datatype t,
                       MPI_Request *r)
{
    switch (pointer) {
    case 'a':
        return writes ? (all ? MPI_File_iwrite_at_all : MPI_File_iwrite_at)(fh, at, buf, n, t, r)
                      : (all ? MPI_File_iread_at_all : MPI_File_iread_at)(fh, at, buf, n, t, r);
    case 'i':
        return writes ? (all ? MPI_File_iwrite_all : MPI_File_iwrite)(fh, buf, n, t, r)
                      : (all ? MPI_File_iread_all : MPI_File_iread)(fh, buf, n, t, r);
    default:
        return writes ? MPI_File_iwrite_shared(fh, buf, n, t, r) : MPI_File_iread_shared(fh, buf, n, t, r);
    }
}

static int split(int writes, char pointer, MPI_Offset at, void *buf, int n, MPI_Datatype t, MPI_Status *st)
{
    int code;
    switch (pointer) {
    case 'a':
        code = writes ? MPI_File_write_at_all_begin(fh, at, buf, n, t) : MPI_File_read_at_all_begin(fh, at, buf, n, t);
        if (code != MPI_SUCCESS)
            return code;
        return writes ? MPI_File_write_at_all_end(fh, buf, st) : MPI_File_read_at_all_end(fh, buf, st);
    case 'i':
        code = writes ? MPI_File_write_all_begin(fh, buf, n, t) : MPI_File_read_all_begin(fh, buf, n, t);
        if (code != MPI_SUCCESS)
            return code;
        return writes ? MPI_File_write_all_end(fh, buf, st) : MPI_File_read_all_end(fh, buf, st);
    default:
        code = writes ? MPI_File_write_ordered_begin(fh, buf, n, t) : MPI_File_read_ordered_begin(fh, buf, n, t);
        if (code != MPI_SUCCESS)
            return code;
        return writes ? MPI_File_write_ordered_end(fh, buf, st) : MPI_File_read_ordered_end(fh, buf, st);
    }
}

static void access_file(void)
{
    int id = small(), writes = word()[0] == 'w';
    char pointer = word()[0], form = word()[0];
    MPI_Offset at = number();
    MPI_Datatype type = types[small()];
    int count = small(), size = small(), origin = small(), code;
    unsigned char *buffer = malloc((size_t)size + 1);
    MPI_Status st;
    fill(buffer, size, id, writes);
    if (form == 'i' || form == 'n') {
        MPI_Request request = MPI_REQUEST_NULL;
        code = nonblocking(writes, pointer, form == 'n', at, buffer + origin, count, type, &request);
        if (code == MPI_SUCCESS && pendings < PENDING) {
            pending[pendings].request = request;
            pending[pendings].id = id;
            pending[pendings].size = size;
            pending[pendings++].buffer = buffer;
            return;
        }
    } else if (form == 's') {
        code = split(writes, pointer, at, buffer + origin, count, type, &st);
    } else {
        code = blocking(writes, pointer, form == 'c', at, buffer + origin, count, type, &st);
    }
    note(id, code, &st, buffer, size);
    free(buffer);
}

static void wait_all(void)
{
    while (pendings > 0) {
        MPI_Status st;
        pendings--;
        int code = MPI_Wait(&pending[pendings].request, &st);
        note(pending[pendings].id, code, &st, pending[pendings].buffer, pending[pendings].size);
        free(pending[pendings].buffer);
    }
}

/* ---- lines ----------------------------------------------------------------------------------------- */

static int whence(void)
{
    char w = word()[0];
    return w == 's' ? MPI_SEEK_SET : w == 'c' ? MPI_SEEK_CUR : MPI_SEEK_END;
}

static int open_file(void)
{
    int amode = 0;
    for (const char *c = word(); *c; c++)
        amode |= *c == 'r' ? MPI_MODE_RDONLY : *c == 'w' ? MPI_MODE_WRONLY : *c == 'b' ? MPI_MODE_RDWR
               : *c == 'c' ? MPI_MODE_CREATE : MPI_MODE_APPEND;
    MPI_Info info;
    MPI_Info_create(&info);
    for (int n = small(); n > 0; n--) {
        char *key = word();
        MPI_Info_set(info, key, word());
    }
    int code = MPI_File_open(MPI_COMM_WORLD, path(file), amode, info, &fh);
    MPI_Info_free(&info);
    return code;
}

static int set_view(void)
{
    MPI_Offset disp = number();
    MPI_Datatype etype = types[small()], filetype = types[small()];
    return MPI_File_set_view(fh, disp, etype, filetype, "native", MPI_INFO_NULL);
}

static void positions(void)
{
    MPI_Offset own = -1, shared = -1, size = -1;
    MPI_File_get_position(fh, &own);
    MPI_File_get_position_shared(fh, &shared);
    MPI_File_get_size(fh, &size);
    fprintf(out, "pos %lld %lld %lld\n", (long long)own, (long long)shared, (long long)size);
}

static void line(char *verb)
{
    int code = MPI_SUCCESS, w;
    if (strcmp(verb, "script") == 0) {
        snprintf(file, sizeof file, "%s", word());
        fprintf(out, "script %s\n", file);
    } else if (strcmp(verb, "type") == 0) {
        int id = small();
        if (types[id])
            release(&types[id]);
        types[id] = parse_type();
        MPI_Type_commit(&types[id]);
    } else if (strcmp(verb, "open") == 0) {
        code = open_file();
    } else if (strcmp(verb, "view") == 0) {
        code = set_view();
    } else if (strcmp(verb, "seek") == 0) {
        w = whence();
        code = MPI_File_seek(fh, number(), w);
    } else if (strcmp(verb, "sseek") == 0) {
        w = whence();
        code = MPI_File_seek_shared(fh, number(), w);
    } else if (strcmp(verb, "do") == 0) {
        access_file();
    } else if (strcmp(verb, "wait") == 0) {
        wait_all();
    } else if (strcmp(verb, "pos") == 0) {
        positions();
    } else if (strcmp(verb, "size") == 0) {
        code = MPI_File_set_size(fh, number());
    } else if (strcmp(verb, "reserve") == 0) {
        code = MPI_File_preallocate(fh, number());
    } else if (strcmp(verb, "sync") == 0) {
        code = MPI_File_sync(fh);
    } else if (strcmp(verb, "barrier") == 0) {
        barrier();
    } else if (strcmp(verb, "atomic") == 0) {
        code = MPI_File_set_atomicity(fh, small());
    } else if (strcmp(verb, "close") == 0) {
        code = MPI_File_close(&fh);
    } else {
        fprintf(stderr, "no verb %s\n", verb);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    if (code != MPI_SUCCESS)
        fprintf(out, "%s gave %s\n", verb, class_name(code));
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    char name[32], *text = NULL;
    size_t room = 0;
    snprintf(name, sizeof name, "out.%d", rank);
    out = fopen(path(name), "w");
    FILE *script = fopen(path("script"), "r");
    if (!out || !script) {
        fprintf(stderr, "cannot open the script or the output\n");
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    while (getline(&text, &room, script) > 0) {
        text[strcspn(text, "\n")] = 0;
        char *who = strtok_r(text, " ", &rest);
        if (who && (who[0] == '*' || atoi(who) == rank)) {
            line(word());
            fflush(out);
        }
    }
    fclose(script);
    fclose(out);
    free(text);
    return finish();
}
