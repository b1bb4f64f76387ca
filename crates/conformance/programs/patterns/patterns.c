/* Collective access in many shapes: every file byte is known beforehand, every read is verified.
 *
 *   patterns host|pario DIR SPEC...
 *
 * A SPEC such as strided:size=20,piece=64,op=split,mem=spread,calls=3,old=1,cut=1 becomes the file DIR/N (N
 * counts from 0): optionally with contents from before (old=1: all over, old=2: in its first half), written
 * collectively in `calls` accesses by the named operation, read back by the same, read by the neighbour, read
 * whole and beyond its end by all ranks, optionally truncated and read again, and compared without MPI.
 * `host` first writes the expected bytes of each file to DIR/N.expected, without MPI-IO. It leaves out accesses that the MPI
 * libraries' own MPI-IO gets wrong: reads beyond the end have wrong counts or hang; several nonblocking collectives crash, so
 * they become blocking ones; memory in descending order is misread, so it becomes contiguous; and specs with ours=1 are
 * skipped, because holes of a new file are left with stale memory.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "memory.h"

static int on_host;
static int on_partition; /* only MPI reaches the file */

static struct spec parse(const char *text)
{
    struct spec s = {.op = "all", .mem = "flat", .size = 8, .piece = 16, .calls = 1};
    char word[256], *rest = word, *item;
    snprintf(word, sizeof word, "%s", text);
    snprintf(s.shape, sizeof s.shape, "%s", strsep(&rest, ":"));
    while ((item = strsep(&rest, ",")) != NULL) {
        char *value_of = item, *key = strsep(&value_of, "=");
        if (value_of == NULL) FAIL("%s: not key=value", item);
        if (strcmp(key, "op") == 0) snprintf(s.op, sizeof s.op, "%s", value_of);
        else if (strcmp(key, "mem") == 0) snprintf(s.mem, sizeof s.mem, "%s", value_of);
        else if (strcmp(key, "size") == 0) s.size = atoi(value_of);
        else if (strcmp(key, "piece") == 0) s.piece = atoi(value_of);
        else if (strcmp(key, "calls") == 0) s.calls = atoi(value_of);
        else if (strcmp(key, "old") == 0) s.old = atoi(value_of);
        else if (strcmp(key, "cut") == 0) s.cut = atoi(value_of);
        else if (strcmp(key, "ours") == 0) s.ours = atoi(value_of);
        else FAIL("%s: no such key", key);
    }
    if (on_host && s.op[0] == 'i') memmove(s.op, s.op + 1, strlen(s.op));
    if (on_host && strcmp(s.mem, "backwards") == 0) strcpy(s.mem, "flat");
    return s;
}

/* One call of the operation; the nonblocking ones leave a request. */
static void access_file(const char *op, int writing, MPI_File f, MPI_Offset at, void *base, int n,
                        MPI_Datatype type, MPI_Status *status, MPI_Request *request)
{
    int w = writing;
#define IS(name) (strcmp(op, name) == 0)
    if (IS("all"))
        MUST(w ? MPI_File_write_all(f, base, n, type, status) : MPI_File_read_all(f, base, n, type, status));
    else if (IS("at"))
        MUST(w ? MPI_File_write_at_all(f, at, base, n, type, status)
               : MPI_File_read_at_all(f, at, base, n, type, status));
    else if (IS("split")) {
        MUST(w ? MPI_File_write_all_begin(f, base, n, type) : MPI_File_read_all_begin(f, base, n, type));
        MUST(MPI_Barrier(MPI_COMM_WORLD)); /* others work meanwhile */
        MUST(w ? MPI_File_write_all_end(f, base, status) : MPI_File_read_all_end(f, base, status));
    } else if (IS("splitat")) {
        MUST(w ? MPI_File_write_at_all_begin(f, at, base, n, type)
               : MPI_File_read_at_all_begin(f, at, base, n, type));
        MUST(w ? MPI_File_write_at_all_end(f, base, status) : MPI_File_read_at_all_end(f, base, status));
    } else if (IS("iall"))
        MUST(w ? MPI_File_iwrite_all(f, base, n, type, request)
               : MPI_File_iread_all(f, base, n, type, request));
    else if (IS("iat"))
        MUST(w ? MPI_File_iwrite_at_all(f, at, base, n, type, request)
               : MPI_File_iread_at_all(f, at, base, n, type, request));
    else if (IS("ordered"))
        MUST(w ? MPI_File_write_ordered(f, base, n, type, status)
               : MPI_File_read_ordered(f, base, n, type, status));
    else if (IS("splitordered")) {
        MUST(w ? MPI_File_write_ordered_begin(f, base, n, type)
               : MPI_File_read_ordered_begin(f, base, n, type));
        MUST(w ? MPI_File_write_ordered_end(f, base, status) : MPI_File_read_ordered_end(f, base, status));
    } else
        FAIL("no operation is called %s", op);
#undef IS
}

static MPI_Offset bytes_of(MPI_Status *status)
{
    int n = -1;
    MUST(MPI_Get_count(status, MPI_BYTE, &n));
    return n;
}

/* Moves a part in `calls` accesses, cut at other places on every rank; returns the bytes that moved. */
static MPI_Offset move(const struct spec *s, int writing, MPI_File f, const struct part *p, struct memory *m)
{
    enum { MOST = 16 };
    MPI_Request requests[MOST];
    MPI_Status status[MOST];
    MPI_Offset done = 0, moved = 0;
    EXPECT(s->calls <= MOST);
    int background = s->op[0] == 'i';
    for (int call = 0; call < s->calls; call++) {
        MPI_Offset end = m->elements * (call + 1) / s->calls + (me * 3 + call) % 3 - 1;
        if (end < done) end = done;
        if (end > m->elements || call == s->calls - 1) end = m->elements;
        int count;
        MPI_Datatype type = memory_type(m, p->etype, end - done, &count);
        access_file(s->op, writing, f, done, memory_base(m, done), count, type, &status[call],
                    &requests[call]);
        MUST(MPI_Type_free(&type));
        if (!background) moved += bytes_of(&status[call]);
        done = end;
    }
    if (background) {
        MUST(MPI_Waitall(s->calls, requests, status));
        for (int call = 0; call < s->calls; call++) moved += bytes_of(&status[call]);
    }
    return moved;
}

static void look_through(MPI_File f, const struct part *p)
{
    MUST(MPI_File_set_view(f, p->displacement, p->etype, p->filetype, "native", MPI_INFO_NULL));
}

static MPI_Offset bytes_below(const struct part *p, MPI_Offset end)
{
    MPI_Offset n = 0;
    for (int r = 0; r < p->count; r++) {
        MPI_Offset len = end - p->runs[r].at;
        n += len <= 0 ? 0 : len < p->runs[r].len ? len : p->runs[r].len;
    }
    return n;
}

/* Reads the part of `rank` in a file of `size` bytes, and verifies bytes and count. */
static void read_part(const struct spec *s, const struct shape *shape, int rank, MPI_File f,
                      const unsigned char *image, MPI_Offset size)
{
    for (int stage = 0; stage < shape->stages; stage++) {
        struct part p;
        shape->make(s, rank, stage, 1, &p);
        struct memory m = new_memory(s->mem, p.unit, p.bytes / p.unit);
        look_through(f, &p);
        MPI_Offset got = move(s, 0, f, &p, &m), want = bytes_below(&p, size);
        EQUAL(got, want);
        verify(&m, &p, want, image);
        free(m.bytes);
        end_part(&p);
    }
}

static void write_part(const struct spec *s, const struct shape *shape, MPI_File f)
{
    for (int stage = 0; stage < shape->stages; stage++) {
        struct part p;
        shape->make(s, me, stage, 0, &p);
        struct memory m = new_memory(s->mem, p.unit, p.bytes / p.unit);
        fill(&m, &p);
        look_through(f, &p);
        EQUAL(move(s, 1, f, &p, &m), p.bytes);
        free(m.bytes);
        end_part(&p);
    }
}

/* Everybody reads everything, and 100 bytes more than there are. */
static void read_whole(MPI_File f, const unsigned char *image, MPI_Offset size)
{
    unsigned char *all = zeroed((size_t)size + 100);
    MPI_Status status;
    MPI_Offset extra = on_host ? 0 : 100;
    memset(all, GAP, (size_t)size + 100);
    MUST(MPI_File_set_view(f, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    MUST(MPI_File_read_at_all(f, 0, all, (int)(size + extra), MPI_BYTE, &status));
    EQUAL(bytes_of(&status), size);
    EXPECT(memcmp(all, image, (size_t)size) == 0);
    for (int i = 0; i < 100; i++) EQUAL(all[size + i], GAP);
    free(all);
}

/* The expected file: contents from before below `old_size`, zeros, and on top what all ranks write. */
static unsigned char *picture(const struct spec *s, const struct shape *shape, MPI_Offset *old_size,
                              MPI_Offset *size)
{
    unsigned char *image = NULL;
    MPI_Offset end = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int rank = 0; rank < ranks; rank++) {
            for (int stage = 0; stage < shape->stages; stage++) {
                struct part p;
                shape->make(s, rank, stage, 0, &p);
                for (int r = 0; r < p.count; r++) {
                    MPI_Offset at = p.runs[r].at, upto = at + p.runs[r].len;
                    if (pass == 0) end = upto > end ? upto : end;
                    else for (; at < upto; at++) image[at] = fresh(at);
                }
                end_part(&p);
            }
        }
        if (pass == 1) break;
        *old_size = s->old == 1 ? end + 777 : s->old == 2 ? end / 2 : 0;
        *size = *old_size > end ? *old_size : end;
        image = zeroed((size_t)*size + 1);
        for (MPI_Offset at = 0; at < *old_size; at++) image[at] = stale(at);
    }
    return image;
}

static MPI_Offset cut_size(const struct spec *s, MPI_Offset size) { return s->cut ? size * 2 / 3 + 1 : size; }

/* Writes what the file has to be in the end, with nothing but plain calls. */
static void write_expected(const char *dir, int index, const char *text)
{
    struct spec s = parse(text);
    char path[4096];
    MPI_Offset old_size, size;
    unsigned char *image = picture(&s, find_shape(s.shape), &old_size, &size);
    size = cut_size(&s, size);
    snprintf(path, sizeof path, "%s/%d.expected", dir, index);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0644);
    EXPECT(fd >= 0 && write(fd, image, (size_t)size) == size && close(fd) == 0);
    free(image);
}

/* The file is not there, or has contents from before. */
static void put(const char *path, int old, MPI_Offset size)
{
    unsigned char *bytes = zeroed((size_t)size + 1);
    for (MPI_Offset at = 0; at < size; at++) bytes[at] = stale(at);
    if (on_partition) {
        MPI_File f;
        MPI_File_delete(path, MPI_INFO_NULL); /* it may not be there */
        if (old) {
            MUST(MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &f));
            MUST(MPI_File_write_at(f, 0, bytes, (int)size, MPI_BYTE, MPI_STATUS_IGNORE));
            MUST(MPI_File_close(&f));
        }
    } else {
        unlink(path);
        if (old) {
            int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0644);
            EXPECT(fd >= 0 && write(fd, bytes, (size_t)size) == size && close(fd) == 0);
        }
    }
    free(bytes);
}

static void on_disk(const char *path, const unsigned char *image, MPI_Offset size)
{
    unsigned char *bytes = zeroed((size_t)size + 1);
    if (on_partition) {
        MPI_File f;
        MPI_Offset there;
        MUST(MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &f));
        MUST(MPI_File_get_size(f, &there));
        EQUAL(there, size);
        MUST(MPI_File_read_at(f, 0, bytes, (int)size, MPI_BYTE, MPI_STATUS_IGNORE));
        MUST(MPI_File_close(&f));
    } else {
        struct stat st;
        int fd = open(path, O_RDONLY);
        EXPECT(fd >= 0 && fstat(fd, &st) == 0);
        EQUAL(st.st_size, size);
        EXPECT(read(fd, bytes, (size_t)size) == size && close(fd) == 0);
    }
    for (MPI_Offset at = 0; at < size; at++)
        if (bytes[at] != image[at])
            FAIL("file byte %lld of %lld is %02x, not %02x", (long long)at, (long long)size, bytes[at],
                 image[at]);
    free(bytes);
}

static void one(const char *dir, int index, const char *text)
{
    struct spec s = parse(text);
    if (on_host && s.ours) return;
    const struct shape *shape = find_shape(s.shape);
    char path[4096];
    MPI_File f;
    MPI_Offset old_size, size;
    unsigned char *image = picture(&s, shape, &old_size, &size);
    snprintf(path, sizeof path, "%s/%d", dir, index);
    if (me == 0) put(path, s.old, old_size);
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    MUST(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f));
    write_part(&s, shape, f);
    MUST(MPI_File_sync(f));
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    MUST(MPI_File_sync(f));
    read_part(&s, shape, me, f, image, size);
    if (strstr(s.op, "ordered") == NULL) read_part(&s, shape, (me + 1) % ranks, f, image, size);
    read_whole(f, image, size);
    if (s.cut) {
        size = cut_size(&s, size);
        MUST(MPI_File_set_size(f, size));
        if (!on_host) read_part(&s, shape, me, f, image, size);
    }
    MUST(MPI_File_close(&f));
    if (me == 0) on_disk(path, image, size);
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    free(image);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MUST(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    if (argc < 4) FAIL("usage: %s host|pario|partition DIR SPEC...", argv[0]);
    on_host = strcmp(argv[1], "host") == 0;
    on_partition = strcmp(argv[1], "partition") == 0;
    for (int i = 3; on_host && me == 0 && i < argc; i++) write_expected(argv[2], i - 3, argv[i]);
    for (int i = 3; i < argc; i++) {
        double start = MPI_Wtime();
        one(argv[2], i - 3, argv[i]);
        if (me == 0) printf("%6.3f s %s\n", MPI_Wtime() - start, argv[i]), fflush(stdout);
    }
    return finish();
}
