#define _XOPEN_SOURCE 700
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "types.h"

const char *const spent_names[SPENT] = {"open",  "view",    "write",   "read",   "sync",
                                        "close", "compute", "writing", "reading"};

static _Noreturn void fail(const struct store *store, const char *call, const char *why) {
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    fprintf(stderr, "pario-workload: rank %d: %s %s: %s\n", rank, call, store->path, why);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static void check(const struct store *store, int code, const char *call) {
    if (code == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(code, text, &length);
    for (char *end = strchr(text, '\n'); end; end = strchr(end, '\n')) *end = ' ';
    fail(store, call, text);
}

void busy(double seconds) {
    for (double end = MPI_Wtime() + seconds; seconds > 0 && MPI_Wtime() < end;) continue;
}

static MPI_Info info_of(const struct store *store) {
    MPI_Info info;
    MPI_Info_create(&info);
    const struct hint *lists[] = {store->file->hints, store->options->hints};
    for (int i = 0; i < 2; i++)
        for (const struct hint *hint = lists[i]; hint && hint->key; hint++)
            check(store, MPI_Info_set(info, hint->key, hint->value), "MPI_Info_set for");
    return info;
}

void store_open(struct store *s, bool writing) {
    double start = MPI_Wtime();
    if (s->options->posix) {
        s->descriptor = open(s->path, writing ? O_RDWR | O_CREAT : O_RDONLY, 0666);
        if (s->descriptor < 0) fail(s, "open", strerror(errno));
    } else {
        int mode = writing ? MPI_MODE_CREATE | MPI_MODE_RDWR : MPI_MODE_RDONLY;
        if (s->file->unique) mode |= MPI_MODE_UNIQUE_OPEN;
        MPI_Info info = info_of(s);
        check(s, MPI_File_open(MPI_COMM_WORLD, s->path, mode, info, &s->handle), "MPI_File_open");
        check(s, MPI_File_set_errhandler(s->handle, MPI_ERRORS_RETURN), "MPI_File_set_errhandler");
        MPI_Info_free(&info);
    }
    s->view = NULL;
    s->is_open = true;
    s->seconds[OPEN] += MPI_Wtime() - start;
}

int64_t store_size(struct store *s) {
    if (s->options->posix) {
        struct stat status;
        if (fstat(s->descriptor, &status) != 0) fail(s, "fstat", strerror(errno));
        return (int64_t)status.st_size;
    }
    MPI_Offset size;
    check(s, MPI_File_get_size(s->handle, &size), "MPI_File_get_size");
    return (int64_t)size;
}

void store_close(struct store *s, bool written) {
    if (written && (s->file->sync || s->options->sync)) {
        double start = MPI_Wtime();
        if (s->options->posix && fsync(s->descriptor) != 0) fail(s, "fsync", strerror(errno));
        if (!s->options->posix) check(s, MPI_File_sync(s->handle), "MPI_File_sync");
        s->seconds[SYNC] += MPI_Wtime() - start;
    }
    double start = MPI_Wtime();
    if (s->options->posix && close(s->descriptor) != 0) fail(s, "close", strerror(errno));
    if (!s->options->posix) check(s, MPI_File_close(&s->handle), "MPI_File_close");
    s->is_open = false;
    s->seconds[CLOSE] += MPI_Wtime() - start;
}

/* Sets the view that an access needs unless it is set already. NULL: none. */
static void view(struct store *s, const struct pattern *wanted) {
    if (s->view == wanted) return;
    double start = MPI_Wtime();
    MPI_Datatype element = wanted ? element_type(wanted) : MPI_BYTE, type = MPI_BYTE;
    if (wanted) type = type_of(wanted);
    MPI_Offset at = wanted ? (MPI_Offset)wanted->start : 0;
    check(s, MPI_File_set_view(s->handle, at, element, type, "native", MPI_INFO_NULL), "MPI_File_set_view");
    if (wanted) drop_type(&type);
    s->view = wanted;
    s->seconds[VIEW] += MPI_Wtime() - start;
}

typedef int move_function(MPI_File, MPI_Offset, void *, int, MPI_Datatype, MPI_Status *);

/* MPI_File_write_at and its kin take pointers to const data. */
static int write_at(MPI_File f, MPI_Offset at, void *data, int count, MPI_Datatype type, MPI_Status *status) {
    return MPI_File_write_at(f, at, data, count, type, status);
}
static int write_at_all(MPI_File f, MPI_Offset at, void *data, int count, MPI_Datatype type,
                        MPI_Status *status) {
    return MPI_File_write_at_all(f, at, data, count, type, status);
}

/* One MPI call; `at` is in elements of the view. */
static void call(struct store *s, const struct access *a, int64_t at, void *data, int64_t count,
                 MPI_Datatype type) {
    bool together = (a->how == VIEW_ALL || a->how == AT_ALL) && !s->options->independent;
    move_function *function = a->reading ? (together ? MPI_File_read_at_all : MPI_File_read_at)
                                         : (together ? write_at_all : write_at);
    const char *name = a->reading ? (together ? "MPI_File_read_at_all" : "MPI_File_read_at")
                                  : (together ? "MPI_File_write_at_all" : "MPI_File_write_at");
    if (count > INT_MAX) fail(s, name, "more elements than an MPI count holds");
    MPI_Status status;
    int moved;
    double start = MPI_Wtime();
    check(s, function(s->handle, (MPI_Offset)at, data, (int)count, type, &status), name);
    if (s->options->delay_us > 0) busy(1e-6 * s->options->delay_us);
    s->seconds[a->reading ? READ : WRITE] += MPI_Wtime() - start;
    MPI_Get_count(&status, type, &moved);
    if (moved == count || a->reading) return; /* what a read did not bring is found when it is checked */
    char why[128];
    snprintf(why, sizeof why, "moved %d of %lld items at %lld", moved, (long long)count, (long long)at);
    fail(s, name, why);
}

static int64_t move_by_mpi(struct store *s, const struct access *a, unsigned char *memory) {
    if (a->how == EACH) {
        view(s, NULL);
        struct walk walk = walk_of(a->where, a->tile, a->memory);
        int64_t calls = 0;
        for (struct pair pair; next_pair(&walk, INT_MAX, &pair); calls++)
            call(s, a, pair.file, memory + pair.memory, pair.bytes, MPI_BYTE);
        return calls;
    }
    int64_t bytes = pattern_bytes(a->where), at = a->where->start;
    view(s, a->how == VIEW_ALL ? a->where : NULL);
    if (a->how == VIEW_ALL) at = a->tile * bytes / a->where->element;
    if (a->memory->shape == RUN) {
        call(s, a, at, memory, bytes / a->memory->element, element_type(a->memory));
    } else {
        MPI_Datatype type = type_of(a->memory);
        call(s, a, at, memory, 1, type);
        drop_type(&type);
    }
    return 1;
}

static int64_t move_by_posix(struct store *s, const struct access *a, unsigned char *memory) {
    struct walk walk = walk_of(a->where, a->tile, a->memory);
    int64_t calls = 0;
    double start = MPI_Wtime();
    for (struct pair pair; next_pair(&walk, INT_MAX, &pair); calls++)
        for (int64_t done = 0; done < pair.bytes;) {
            size_t rest = (size_t)(pair.bytes - done);
            off_t at = (off_t)(pair.file + done);
            unsigned char *data = memory + pair.memory + done;
            ssize_t n = a->reading ? pread(s->descriptor, data, rest, at)
                                   : pwrite(s->descriptor, data, rest, at);
            if (n < 0 && errno == EINTR) continue;
            if (n < 0) fail(s, a->reading ? "pread" : "pwrite", strerror(errno));
            if (n == 0) break; /* the end of the file, which shows when the bytes are checked */
            if (s->options->delay_us > 0) busy(1e-6 * s->options->delay_us);
            done += n;
        }
    s->seconds[a->reading ? READ : WRITE] += MPI_Wtime() - start;
    return calls;
}

int64_t store_move(struct store *s, const struct access *a, void *memory) {
    return s->options->posix ? move_by_posix(s, a, memory) : move_by_mpi(s, a, memory);
}

void store_remove(const char *path, bool posix) {
    /* What keeps a file from being removed shows when it is opened; that it is not there is no trouble. */
    if (posix)
        unlink(path);
    else
        MPI_File_delete(path, MPI_INFO_NULL);
}
