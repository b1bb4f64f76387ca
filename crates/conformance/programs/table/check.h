/* Named checks for MPI-IO test programs.
 *
 * A program is a row of clauses. Inside a clause every rank makes its own checks; END_CLAUSE joins the ranks
 * and rank 0 prints one line, `ok clause N: text` or `FAIL clause N: text`. A failed check says at once on
 * which rank and where. finish() prints `done` and ends MPI: a missing `done` line means that the program
 * broke off. Nothing aborts, so one failure does not hide the next.
 */
#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mpi.h>

#if defined MPI_ABI_VERSION && !defined MPICH && !defined OPEN_MPI
/* The standard ABI has these functions for all languages under other names. */
#define MPI_Fint int
#define MPI_File_c2f MPI_File_toint
#define MPI_File_f2c MPI_File_fromint
#endif

static int rank, ranks;           /* in MPI_COMM_WORLD */
static char dir[2048];            /* where the program makes its files: argument 1 */
static int failed_here;           /* failed checks of this clause on this rank */
static int failed_clauses;        /* the same on every rank */
static const char *clause_id = "?", *clause_text = "";

static const struct { int class; const char *name; } class_names[] = {
    {MPI_SUCCESS, "MPI_SUCCESS"}, {MPI_ERR_BUFFER, "MPI_ERR_BUFFER"}, {MPI_ERR_COUNT, "MPI_ERR_COUNT"},
    {MPI_ERR_TYPE, "MPI_ERR_TYPE"}, {MPI_ERR_COMM, "MPI_ERR_COMM"}, {MPI_ERR_REQUEST, "MPI_ERR_REQUEST"},
    {MPI_ERR_ARG, "MPI_ERR_ARG"}, {MPI_ERR_OTHER, "MPI_ERR_OTHER"}, {MPI_ERR_INTERN, "MPI_ERR_INTERN"},
    {MPI_ERR_TRUNCATE, "MPI_ERR_TRUNCATE"}, {MPI_ERR_UNKNOWN, "MPI_ERR_UNKNOWN"},
    {MPI_ERR_ACCESS, "MPI_ERR_ACCESS"}, {MPI_ERR_AMODE, "MPI_ERR_AMODE"},
    {MPI_ERR_BAD_FILE, "MPI_ERR_BAD_FILE"}, {MPI_ERR_CONVERSION, "MPI_ERR_CONVERSION"},
    {MPI_ERR_DUP_DATAREP, "MPI_ERR_DUP_DATAREP"}, {MPI_ERR_FILE_EXISTS, "MPI_ERR_FILE_EXISTS"},
    {MPI_ERR_FILE_IN_USE, "MPI_ERR_FILE_IN_USE"}, {MPI_ERR_FILE, "MPI_ERR_FILE"},
    {MPI_ERR_INFO, "MPI_ERR_INFO"}, {MPI_ERR_IO, "MPI_ERR_IO"}, {MPI_ERR_NO_MEM, "MPI_ERR_NO_MEM"},
    {MPI_ERR_NOT_SAME, "MPI_ERR_NOT_SAME"}, {MPI_ERR_NO_SPACE, "MPI_ERR_NO_SPACE"},
    {MPI_ERR_NO_SUCH_FILE, "MPI_ERR_NO_SUCH_FILE"}, {MPI_ERR_QUOTA, "MPI_ERR_QUOTA"},
    {MPI_ERR_READ_ONLY, "MPI_ERR_READ_ONLY"},
    {MPI_ERR_UNSUPPORTED_DATAREP, "MPI_ERR_UNSUPPORTED_DATAREP"},
    {MPI_ERR_UNSUPPORTED_OPERATION, "MPI_ERR_UNSUPPORTED_OPERATION"},
};

static inline int class_of(int code)
{
    int class = code;
    if (code != MPI_SUCCESS)
        MPI_Error_class(code, &class);
    return class;
}

static inline const char *class_name(int code)
{
    static char other[4][40];
    static int turn;
    int class = class_of(code);
    for (size_t i = 0; i < sizeof class_names / sizeof *class_names; i++)
        if (class_names[i].class == class)
            return class_names[i].name;
    turn = (turn + 1) % 4;
    snprintf(other[turn], sizeof other[turn], "class %d", class);
    return other[turn];
}

static inline void fail(const char *file, int line, const char *format, ...)
{
    va_list args;
    char text[1024];
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (failed_here++ < 6) {
        const char *slash = strrchr(file, '/');
        printf("FAIL clause %s, rank %d of %d, %s:%d: %s\n", clause_id, rank, ranks,
               slash ? slash + 1 : file, line, text);
        fflush(stdout);
    }
}

/* The condition holds; the words say what is wrong otherwise. */
#define CHECK(cond, ...) do { if (!(cond)) fail(__FILE__, __LINE__, __VA_ARGS__); } while (0)
/* The call succeeds. */
#define OK(call) do { int rc_ = (call); if (rc_ != MPI_SUCCESS) \
    fail(__FILE__, __LINE__, "%s gave %s", #call, class_name(rc_)); } while (0)
/* The call fails with this class. */
#define GIVES(call, class) do { int rc_ = (call); if (class_of(rc_) != (class)) \
    fail(__FILE__, __LINE__, "%s gave %s, wanted %s", #call, class_name(rc_), class_name(class)); } while (0)
/* The call fails with one of two classes: where the standard leaves the choice. */
#define GIVES2(call, a, b) do { int rc_ = (call); if (class_of(rc_) != (a) && class_of(rc_) != (b)) \
    fail(__FILE__, __LINE__, "%s gave %s, wanted %s or %s", #call, class_name(rc_), class_name(a), \
         class_name(b)); } while (0)
/* The call fails, with whatever class. */
#define FAILS(call) do { int rc_ = (call); if (rc_ == MPI_SUCCESS) \
    fail(__FILE__, __LINE__, "%s succeeded, wanted an error", #call); } while (0)
/* Two integers are equal. */
#define SAME(got, want) do { long long g_ = (got), w_ = (want); if (g_ != w_) \
    fail(__FILE__, __LINE__, "%s is %lld, wanted %lld", #got, g_, w_); } while (0)

#define CLAUSE(id, text) do { clause_id = (id); clause_text = (text); failed_here = 0; } while (0)

static inline void end_clause(void)
{
    int failed;
    MPI_Allreduce(&failed_here, &failed, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    failed_clauses += failed > 0;
    if (rank == 0) {
        printf("%s clause %s: %s\n", failed ? "FAIL" : "ok", clause_id, clause_text);
        fflush(stdout);
    }
}
#define END_CLAUSE() end_clause()

static inline void begin(int *argc, char ***argv)
{
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    snprintf(dir, sizeof dir, "%s", *argc > 1 ? (*argv)[1] : ".");
}

static inline int finish(void)
{
    if (rank == 0) {
        printf("done, %d failed\n", failed_clauses);
        fflush(stdout);
    }
    MPI_Finalize();
    return failed_clauses != 0;
}

static inline void barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }

/* The path of a file in the test's directory; the last eight results stay valid. */
static inline char *path(const char *name)
{
    static char text[8][4096];
    static int turn;
    turn = (turn + 1) % 8;
    snprintf(text[turn], sizeof text[turn], "%s/%s", dir, name);
    return text[turn];
}

/* Whether the files are on a partition, where the operating system does not see them: then another open file is
 * what the first is looked at through. */
static inline int on_partition(void) { return getenv("PARIO_MOUNT") != NULL; }

static inline long long slurp_by_mpi(const char *name, void *bytes, size_t size)
{
    MPI_File fh;
    MPI_Status st;
    int n = 0;
    if (MPI_File_open(MPI_COMM_SELF, path(name), MPI_MODE_RDONLY, MPI_INFO_NULL, &fh) != MPI_SUCCESS)
        return -1;
    if (MPI_File_read_at(fh, 0, bytes, (int)size, MPI_BYTE, &st) != MPI_SUCCESS)
        n = -1;
    else
        MPI_Get_count(&st, MPI_BYTE, &n);
    MPI_File_close(&fh);
    return n;
}

static inline void spit_by_mpi(const char *name, const void *bytes, size_t size)
{
    MPI_File fh;
    int mode = MPI_MODE_RDWR | MPI_MODE_CREATE;
    int rc = MPI_File_open(MPI_COMM_SELF, path(name), mode, MPI_INFO_NULL, &fh);
    CHECK(rc == MPI_SUCCESS, "cannot make %s", path(name));
    if (rc != MPI_SUCCESS)
        return;
    CHECK(MPI_File_set_size(fh, 0) == MPI_SUCCESS, "cannot empty %s", path(name));
    rc = MPI_File_write_at(fh, 0, bytes, (int)size, MPI_BYTE, MPI_STATUS_IGNORE);
    CHECK(rc == MPI_SUCCESS, "cannot fill %s", path(name));
    CHECK(MPI_File_close(&fh) == MPI_SUCCESS, "cannot close %s", path(name));
}

static inline long long size_by_mpi(const char *name)
{
    MPI_File fh;
    MPI_Offset size = -1;
    if (MPI_File_open(MPI_COMM_SELF, path(name), MPI_MODE_RDONLY, MPI_INFO_NULL, &fh) != MPI_SUCCESS)
        return -1;
    MPI_File_get_size(fh, &size);
    MPI_File_close(&fh);
    return size;
}

/* The file as the operating system sees it, by whichever rank calls: at most `size` bytes; the number read,
 * or -1 where there is no such file. */
static inline long long slurp(const char *name, void *bytes, size_t size)
{
    if (on_partition())
        return slurp_by_mpi(name, bytes, size);
    int fd = open(path(name), O_RDONLY);
    if (fd < 0)
        return -1;
    size_t got = 0;
    for (;;) {
        ssize_t n = got < size ? read(fd, (char *)bytes + got, size - got) : 0;
        if (n <= 0)
            break;
        got += (size_t)n;
    }
    close(fd);
    return (long long)got;
}

/* Rank 0 makes the file hold these bytes, when all ranks are there; they go on when it does. */
static inline void spit(const char *name, const void *bytes, size_t size)
{
    barrier();
    if (rank == 0 && on_partition()) {
        spit_by_mpi(name, bytes, size);
    } else if (rank == 0) {
        int fd = open(path(name), O_RDWR | O_CREAT | O_TRUNC, 0644);
        CHECK(fd >= 0, "cannot make %s: %s", path(name), strerror(errno));
        if (fd >= 0) {
            ssize_t n = write(fd, bytes, size);
            CHECK(n == (ssize_t)size, "cannot fill %s", path(name));
            close(fd);
        }
    }
    barrier();
}

/* A file of the ints 0, 1, 2, ... */
static inline void spit_ints(const char *name, int count)
{
    int *ints = malloc(sizeof(int) * (size_t)(count + 1));
    for (int i = 0; i < count; i++)
        ints[i] = i;
    spit(name, ints, sizeof(int) * (size_t)count);
    free(ints);
}

static inline long long size_on_disk(const char *name)
{
    struct stat st;
    if (on_partition())
        return size_by_mpi(name);
    return stat(path(name), &st) == 0 ? (long long)st.st_size : -1;
}

static inline int count_of(MPI_Status *status, MPI_Datatype type)
{
    int count = -1;
    MPI_Get_count(status, type, &count);
    return count;
}

static inline long long position(MPI_File fh)
{
    MPI_Offset at = -1;
    OK(MPI_File_get_position(fh, &at));
    return at;
}

static inline long long shared_position(MPI_File fh)
{
    MPI_Offset at = -1;
    OK(MPI_File_get_position_shared(fh, &at));
    return at;
}

static inline long long file_size(MPI_File fh)
{
    MPI_Offset size = -1;
    OK(MPI_File_get_size(fh, &size));
    return size;
}

/* Writes of all ranks are in the file and can be seen by all. */
static inline void settle(MPI_File fh)
{
    OK(MPI_File_sync(fh));
    barrier();
}

/* A file opened by all ranks; a failure is reported and leaves MPI_FILE_NULL. */
static inline MPI_File open_all(const char *name, int amode)
{
    MPI_File fh = MPI_FILE_NULL;
    OK(MPI_File_open(MPI_COMM_WORLD, path(name), amode, MPI_INFO_NULL, &fh));
    return fh;
}

/* `data` ints, then a hole up to `extent` ints. */
static inline MPI_Datatype holed(int data, int extent)
{
    MPI_Datatype run, type;
    MPI_Type_contiguous(data, MPI_INT, &run);
    MPI_Type_create_resized(run, 0, (MPI_Aint)extent * (MPI_Aint)sizeof(int), &type);
    MPI_Type_commit(&type);
    MPI_Type_free(&run);
    return type;
}

#endif
