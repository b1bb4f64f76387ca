/* Bad input: every rank returns an error, none hangs, nothing aborts, and existing bytes stay as they were.
 * Argument 2 chooses the environment of the program:
 *   plain     an ordinary directory
 *   agree     the same; failures of one rank in collective data access only
 *   full      a file system with 1 MiB left or less
 *   limit     a process may write files of 64 KiB only
 *   nobody    without root's privileges, in a directory of root's
 *   rofs      a read-only file system
 *   hints     prints the hints in force
 *   killed    the last rank dies in the middle
 */
#include <signal.h>
#include <sys/fsuid.h>
#include <sys/resource.h>

#include "check.h"

#define AWRY 1 /* the rank whose argument is wrong, where there is more than one */

static int at_fault(void) { return rank == (ranks > 1 ? AWRY : 0); }

/* A collective call with one rank at fault: that one gets the class, the others learn that someone failed. */
#define ONE_AT_FAULT(call, class) do { int code_ = (call), mine_ = at_fault(); \
    if (mine_ ? class_of(code_) != (class) : class_of(code_) != MPI_ERR_OTHER && class_of(code_) != (class)) \
        fail(__FILE__, __LINE__, "%s gave %s, wanted %s%s", #call, class_name(code_), \
             mine_ ? "" : "MPI_ERR_OTHER or ", class_name(class)); } while (0)

/* Arguments that must be equal and are not; a rank alone is always equal. */
#define UNEQUAL(call) do { int code_ = (call); \
    if (class_of(code_) != (ranks > 1 ? MPI_ERR_NOT_SAME : MPI_SUCCESS)) \
        fail(__FILE__, __LINE__, "%s gave %s, wanted %s", #call, class_name(code_), \
             ranks > 1 ? "MPI_ERR_NOT_SAME" : "MPI_SUCCESS"); } while (0)

static int open_as(const char *name, int amode, MPI_File *fh)
{
    *fh = (MPI_File)8; /* neither a file nor null: the call has to set it */
    int code = MPI_File_open(MPI_COMM_WORLD, path(name), amode, MPI_INFO_NULL, fh);
    CHECK(code == MPI_SUCCESS || *fh == MPI_FILE_NULL, "a failed open leaves the handle");
    return code;
}

static void names_and_modes(void)
{
    MPI_File fh;
    char longest[3000];
    CLAUSE("26", "names that cannot be opened, and modes that are none");
    spit_ints("file", 10);
    if (rank == 0)
        mkdir(path("directory"), 0755);
    barrier();
    GIVES(open_as("absent", MPI_MODE_RDONLY, &fh), MPI_ERR_NO_SUCH_FILE);
    GIVES(open_as("absent", MPI_MODE_RDWR, &fh), MPI_ERR_NO_SUCH_FILE);
    GIVES(open_as("absent/file", MPI_MODE_RDWR | MPI_MODE_CREATE, &fh), MPI_ERR_NO_SUCH_FILE);
    GIVES(open_as("file/file", MPI_MODE_RDWR | MPI_MODE_CREATE, &fh), MPI_ERR_BAD_FILE);
    GIVES(open_as("directory", MPI_MODE_RDWR, &fh), MPI_ERR_BAD_FILE);
    GIVES(open_as("directory", MPI_MODE_RDONLY, &fh), MPI_ERR_BAD_FILE);
    memset(longest, 'n', sizeof longest);
    longest[sizeof longest - 1] = 0;
    GIVES(open_as(longest, MPI_MODE_RDWR | MPI_MODE_CREATE, &fh), MPI_ERR_BAD_FILE);
    FAILS(MPI_File_open(MPI_COMM_WORLD, "", MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &fh));
    GIVES(open_as("file", MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL, &fh), MPI_ERR_FILE_EXISTS);
    if (rank == 0) {
        GIVES(MPI_File_delete(path("absent"), MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);
        FAILS(MPI_File_delete(path("directory"), MPI_INFO_NULL));
    }
    barrier();
    if (rank == 0)
        rmdir(path("directory"));
    /* Modes that differ, and one rank with an impossible mode. */
    int mode = at_fault() && ranks > 1 ? MPI_MODE_RDONLY : MPI_MODE_RDWR;
    if (ranks > 1)
        GIVES2(open_as("file", mode, &fh), MPI_ERR_NOT_SAME, MPI_ERR_AMODE);
    FAILS(open_as("file", at_fault() ? 0 : MPI_MODE_RDWR, &fh));
    if (ranks > 1) /* one rank looks for another file, which is not there */
        FAILS(open_as(at_fault() ? "absent" : "file", MPI_MODE_RDWR, &fh));
    if (ranks > 1) { /* a communicator between two groups has no files */
        MPI_Comm half, between;
        MPI_Comm_split(MPI_COMM_WORLD, rank > 0, rank, &half);
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank > 0 ? 0 : 1, 1, &between);
        GIVES(MPI_File_open(between, path("file"), MPI_MODE_RDWR, MPI_INFO_NULL, &fh), MPI_ERR_COMM);
        MPI_Comm_free(&between);
        MPI_Comm_free(&half);
    }
    OK(open_as("file", MPI_MODE_RDWR, &fh)); /* and then all is well */
    OK(MPI_File_close(&fh));
    SAME(size_on_disk("file"), 40);
    END_CLAUSE();
}

static void unequal_arguments(void)
{
    MPI_File fh = open_all("file", MPI_MODE_RDWR);
    int other = ranks > 1 && at_fault(), value = -1;
    CLAUSE("26b", "arguments that must be equal and are not are MPI_ERR_NOT_SAME on every rank");
    UNEQUAL(MPI_File_set_view(fh, 0, other ? MPI_DOUBLE : MPI_INT, other ? MPI_DOUBLE : MPI_INT, "native",
                              MPI_INFO_NULL));
    UNEQUAL(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, other ? "external32" : "native", MPI_INFO_NULL));
    UNEQUAL(MPI_File_set_size(fh, other ? 20 : 40));
    UNEQUAL(MPI_File_preallocate(fh, other ? 20 : 40));
    UNEQUAL(MPI_File_set_atomicity(fh, other));
    UNEQUAL(MPI_File_seek_shared(fh, other, MPI_SEEK_SET));
    UNEQUAL(MPI_File_seek_shared(fh, 0, other ? MPI_SEEK_END : MPI_SEEK_SET));
    SAME(file_size(fh), 40);
    OK(MPI_File_close(&fh));
    fh = open_all("file", MPI_MODE_RDWR);
    /* The failed calls changed nothing. */
    FAILS(MPI_File_set_view(fh, 4, MPI_INT, MPI_INT, at_fault() ? "none such" : "native", MPI_INFO_NULL));
    OK(MPI_File_read_at_all(fh, 12, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    SAME(value, 3);
    OK(MPI_File_close(&fh));
    END_CLAUSE();
}

static void one_rank_at_fault(void)
{
    int value = 5, bad = at_fault();
    MPI_Status st;
    MPI_Datatype type = bad ? MPI_DATATYPE_NULL : MPI_INT;
    MPI_File fh = open_all("file", MPI_MODE_RDWR);
    CLAUSE("26c", "one rank's bad argument in a collective call is known to all");
    ONE_AT_FAULT(MPI_File_set_view(fh, 0, type, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_TYPE);
    ONE_AT_FAULT(MPI_File_set_view(fh, 0, MPI_INT, type, "native", MPI_INFO_NULL), MPI_ERR_TYPE);
    ONE_AT_FAULT(MPI_File_set_view(fh, bad ? -1 : 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    ONE_AT_FAULT(MPI_File_set_size(fh, bad ? -1 : 40), MPI_ERR_ARG);
    ONE_AT_FAULT(MPI_File_seek_shared(fh, 0, bad ? 12345 : MPI_SEEK_SET), MPI_ERR_ARG);
    OK(MPI_File_read_at_all(fh, 4 * rank, &value, 1, MPI_INT, &st)); /* and then all is well */
    SAME(value, rank);
    OK(MPI_File_close(&fh));
    SAME(size_on_disk("file"), 40);
    END_CLAUSE();
}

/* The same for data access, and for a failure that shows only when the data moves. */
static int refuse(void *user, MPI_Datatype type, int count, void *file, MPI_Offset position, void *state)
{
    (void)user, (void)type, (void)count, (void)file, (void)position, (void)state;
    return at_fault() ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static int int_extent(MPI_Datatype type, MPI_Aint *extent, void *state)
{
    MPI_Aint lb;
    (void)state;
    return MPI_Type_get_extent(type, &lb, extent);
}

static void one_rank_fails_to_access(void)
{
    int value = 5, bad = at_fault();
    MPI_Status st;
    MPI_Datatype type = bad ? MPI_DATATYPE_NULL : MPI_INT;
    spit_ints("file", 10);
    MPI_File fh = open_all("file", MPI_MODE_RDWR);
    CLAUSE("26e", "one rank's failure in a collective data access is known to all");
    ONE_AT_FAULT(MPI_File_read_at_all(fh, 0, &value, bad ? -1 : 1, MPI_INT, &st), MPI_ERR_COUNT);
    ONE_AT_FAULT(MPI_File_read_at_all(fh, bad ? -1 : 0, &value, 1, MPI_INT, &st), MPI_ERR_ARG);
    ONE_AT_FAULT(MPI_File_read_all(fh, &value, 1, type, &st), MPI_ERR_TYPE);
    ONE_AT_FAULT(MPI_File_read_ordered(fh, &value, bad ? -1 : 1, MPI_INT, &st), MPI_ERR_COUNT);
    ONE_AT_FAULT(MPI_File_write_ordered(fh, &value, bad ? -1 : 0, MPI_INT, &st), MPI_ERR_COUNT);
    OK(MPI_Register_datarep("refused", refuse, refuse, int_extent, NULL));
    OK(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "refused", MPI_INFO_NULL));
    ONE_AT_FAULT(MPI_File_read_at_all(fh, rank, &value, 1, MPI_INT, &st), MPI_ERR_CONVERSION);
    ONE_AT_FAULT(MPI_File_write_at_all(fh, rank, &value, bad, MPI_INT, &st), MPI_ERR_CONVERSION);
    OK(MPI_File_set_view(fh, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    OK(MPI_File_read_at_all(fh, 4 * rank, &value, 1, MPI_INT, &st)); /* and then all is well */
    SAME(value, rank);
    OK(MPI_File_close(&fh));
    SAME(size_on_disk("file"), 40);
    END_CLAUSE();
}

/* Forms that may not wait for other ranks in the call itself: the rank at fault gets an error, and none hangs. */
static void one_rank_at_fault_later(void)
{
    int value = 5, bad = at_fault(), code;
    MPI_Status st;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_File fh = open_all("file", MPI_MODE_RDWR);
    CLAUSE("26d", "one rank's bad argument in a nonblocking or split collective hangs nobody");
    code = MPI_File_iread_at_all(fh, 0, &value, bad ? -1 : 1, MPI_INT, &request);
    CHECK(!bad || class_of(code) == MPI_ERR_COUNT, "iread_at_all gave %s", class_name(code));
    if (code == MPI_SUCCESS)
        MPI_Wait(&request, &st);
    code = MPI_File_sync(fh); /* all ranks get the error here, also those whose own arguments were good */
    CHECK(class_of(code) == (ranks > 1 ? MPI_ERR_COUNT : MPI_SUCCESS), "sync gave %s", class_name(code));
    code = MPI_File_read_at_all_begin(fh, 0, &value, bad ? -1 : 1, MPI_INT);
    CHECK(!bad || class_of(code) == MPI_ERR_COUNT, "read_at_all_begin gave %s", class_name(code));
    if (code == MPI_SUCCESS)
        MPI_File_read_at_all_end(fh, &value, &st);
    OK(MPI_File_read_at_all(fh, 4 * rank, &value, 1, MPI_INT, &st));
    SAME(value, rank);
    OK(MPI_File_close(&fh));
    END_CLAUSE();
}

/* Types freed as early as the standard allows. */
static void freed_types(void)
{
    int data[4] = {1, 2, 3, 4}, got[4] = {0};
    MPI_Status st;
    MPI_Request request;
    CLAUSE("freed", "datatypes may be freed as soon as the call that took them has returned");
    MPI_File fh = open_all("freed", MPI_MODE_RDWR | MPI_MODE_CREATE);
    MPI_Datatype view = holed(1, 2), memory;
    OK(MPI_File_set_view(fh, 32 * rank, MPI_INT, view, "native", MPI_INFO_NULL));
    MPI_Type_free(&view);
    MPI_Type_contiguous(4, MPI_INT, &memory);
    MPI_Type_commit(&memory);
    OK(MPI_File_iwrite_at(fh, 0, data, 1, memory, &request));
    MPI_Type_free(&memory);
    OK(MPI_Wait(&request, &st));
    SAME(count_of(&st, MPI_INT), 4);
    MPI_Type_contiguous(4, MPI_INT, &memory);
    MPI_Type_commit(&memory);
    OK(MPI_File_read_at_all_begin(fh, 0, got, 1, memory));
    MPI_Type_free(&memory);
    OK(MPI_File_read_at_all_end(fh, got, &st));
    CHECK(memcmp(data, got, sizeof data) == 0, "other data comes back");
    OK(MPI_File_close(&fh));
    END_CLAUSE();
}

/* ---- other worlds ---------------------------------------------------------------------------------- */

static const MPI_Offset KEPT = 64 << 10; /* bytes of each rank that are there before it gets tight */

static void keep_some(MPI_File fh)
{
    char *data = malloc((size_t)KEPT);
    memset(data, 'k' + rank, (size_t)KEPT);
    OK(MPI_File_write_at_all(fh, rank * KEPT, data, (int)KEPT, MPI_BYTE, MPI_STATUS_IGNORE));
    settle(fh);
    free(data);
}

static void kept_is_there(MPI_File fh)
{
    char *data = malloc((size_t)KEPT);
    MPI_Status st;
    OK(MPI_File_read_at_all(fh, rank * KEPT, data, (int)KEPT, MPI_BYTE, &st));
    SAME(count_of(&st, MPI_BYTE), (int)KEPT);
    int wrong = 0;
    for (MPI_Offset i = 0; i < KEPT; i++)
        wrong += data[i] != 'k' + rank;
    CHECK(wrong == 0, "%d bytes written before are damaged", wrong);
    free(data);
}

static void full_disk(void)
{
    enum { MORE = 4 << 20 };
    char *data = calloc(1, MORE);
    MPI_Status st;
    MPI_Request request;
    CLAUSE("full", "a full disk is MPI_ERR_NO_SPACE, and what was written before is intact");
    MPI_File fh = open_all("file", MPI_MODE_RDWR | MPI_MODE_CREATE);
    keep_some(fh);
    MPI_Offset end = ranks * KEPT;
    GIVES(MPI_File_write_at(fh, end + rank * (MPI_Offset)MORE, data, MORE, MPI_BYTE, &st), MPI_ERR_NO_SPACE);
    barrier();
    OK(MPI_File_set_size(fh, end));
    GIVES2(MPI_File_write_at_all(fh, end + rank * (MPI_Offset)MORE, data, MORE, MPI_BYTE, &st),
           MPI_ERR_NO_SPACE, MPI_ERR_OTHER);
    barrier();
    OK(MPI_File_set_size(fh, end));
    GIVES(MPI_File_preallocate(fh, 64 << 20), MPI_ERR_NO_SPACE);
    OK(MPI_File_set_size(fh, end));
    kept_is_there(fh);
    /* With holes, small and large pieces. */
    for (int piece = 512; piece <= 65536; piece *= 128) {
        MPI_Datatype run, view;
        MPI_Type_contiguous(piece, MPI_BYTE, &run);
        MPI_Type_create_resized(run, 0, (MPI_Aint)piece * (ranks + 1), &view);
        MPI_Type_commit(&view);
        OK(MPI_File_set_view(fh, end + (MPI_Offset)piece * rank, MPI_BYTE, view, "native", MPI_INFO_NULL));
        GIVES(MPI_File_write(fh, data, MORE, MPI_BYTE, &st), MPI_ERR_NO_SPACE);
        barrier();
        OK(MPI_File_set_size(fh, end));
        OK(MPI_File_seek(fh, 0, MPI_SEEK_SET));
        GIVES2(MPI_File_write_all(fh, data, MORE, MPI_BYTE, &st), MPI_ERR_NO_SPACE, MPI_ERR_OTHER);
        barrier();
        OK(MPI_File_set_size(fh, end));
        MPI_Type_free(&view);
        MPI_Type_free(&run);
    }
    OK(MPI_File_set_view(fh, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    kept_is_there(fh);
    /* Nonblocking: the wait says so, or the count is short and the next sync says so. */
    OK(MPI_File_iwrite_at(fh, end + rank * (MPI_Offset)MORE, data, MORE, MPI_BYTE, &request));
    int code = MPI_Wait(&request, &st);
    if (code == MPI_SUCCESS) {
        CHECK(count_of(&st, MPI_BYTE) < MORE, "a write that did not fit counts as whole");
        GIVES2(MPI_File_sync(fh), MPI_ERR_NO_SPACE, MPI_ERR_OTHER);
    }
    barrier();
    OK(MPI_File_set_size(fh, end));
    OK(MPI_File_write_at_all_begin(fh, end + rank * (MPI_Offset)MORE, data, MORE, MPI_BYTE));
    GIVES2(MPI_File_write_at_all_end(fh, data, &st), MPI_ERR_NO_SPACE, MPI_ERR_OTHER);
    barrier();
    OK(MPI_File_set_size(fh, end));
    kept_is_there(fh);
    OK(MPI_File_close(&fh));
    fh = open_all("file", MPI_MODE_RDONLY);
    kept_is_there(fh);
    OK(MPI_File_close(&fh));
    free(data);
    END_CLAUSE();
}

static void file_limit(void)
{
    enum { MORE = 1 << 20 };
    static char data[MORE];
    MPI_Status st;
    CLAUSE("limit", "a write beyond the process's file size limit fails, and what was written before is intact");
    signal(SIGXFSZ, SIG_IGN);
    MPI_File fh = open_all("file", MPI_MODE_RDWR | MPI_MODE_CREATE);
    keep_some(fh);
    struct rlimit limit = {(rlim_t)(ranks * KEPT), (rlim_t)(ranks * KEPT)};
    barrier();
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0, "cannot set the limit");
    GIVES2(MPI_File_write_at(fh, ranks * KEPT, data, MORE, MPI_BYTE, &st), MPI_ERR_IO, MPI_ERR_NO_SPACE);
    int code = MPI_File_write_at_all(fh, ranks * KEPT, data, MORE, MPI_BYTE, &st);
    CHECK(code != MPI_SUCCESS, "a collective write beyond the limit succeeds");
    kept_is_there(fh);
    OK(MPI_File_close(&fh));
    END_CLAUSE();
}

/* Root makes `mine` (0600) and `all` (0644), then continues with the file permissions of the user nobody; it keeps
 * its other privileges, which the host MPI needs. */
static void as_nobody(void)
{
    MPI_File fh;
    int value = -1;
    CLAUSE("nobody", "what is not permitted is MPI_ERR_ACCESS on every rank, and reading needs no right to write");
    spit_ints("mine", 10);
    spit_ints("all", 10);
    if (rank == 0)
        CHECK(chmod(path("mine"), 0600) == 0 && chmod(path("all"), 0644) == 0 && chmod(path(""), 0755) == 0,
              "cannot set the files' modes");
    barrier();
    setfsgid(65534);
    setfsuid(65534);
    CHECK(setfsuid(65534) == 65534, "cannot drop root's rights to files");
    GIVES(open_as("mine", MPI_MODE_RDONLY, &fh), MPI_ERR_ACCESS);
    GIVES(open_as("mine", MPI_MODE_RDWR, &fh), MPI_ERR_ACCESS);
    GIVES(open_as("all", MPI_MODE_RDWR, &fh), MPI_ERR_ACCESS);
    GIVES(open_as("all", MPI_MODE_WRONLY, &fh), MPI_ERR_ACCESS);
    GIVES(open_as("new", MPI_MODE_RDWR | MPI_MODE_CREATE, &fh), MPI_ERR_ACCESS);
    GIVES(MPI_File_delete(path("all"), MPI_INFO_NULL), MPI_ERR_ACCESS);
    OK(open_as("all", MPI_MODE_RDONLY, &fh));
    OK(MPI_File_read_at_all(fh, 12, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    SAME(value, 3);
    OK(MPI_File_read_ordered(fh, &value, 1, MPI_INT, MPI_STATUS_IGNORE)); /* the shared pointer lives elsewhere */
    SAME(value, rank);
    OK(MPI_File_read_shared(fh, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK(value >= ranks && value < 2 * ranks, "the shared pointer gave %d", value);
    OK(MPI_File_close(&fh));
    setfsuid(0);
    setfsgid(0);
    END_CLAUSE();
}

/* The test made `file` of ten ints and then the file system read-only. */
static void read_only_file_system(void)
{
    MPI_File fh;
    int value = -1;
    CLAUSE("rofs", "a read-only file system is MPI_ERR_READ_ONLY on every rank");
    GIVES(open_as("file", MPI_MODE_RDWR, &fh), MPI_ERR_READ_ONLY);
    GIVES(open_as("file", MPI_MODE_WRONLY, &fh), MPI_ERR_READ_ONLY);
    GIVES(open_as("new", MPI_MODE_RDWR | MPI_MODE_CREATE, &fh), MPI_ERR_READ_ONLY);
    GIVES(MPI_File_delete(path("file"), MPI_INFO_NULL), MPI_ERR_READ_ONLY);
    OK(open_as("file", MPI_MODE_RDONLY, &fh));
    OK(MPI_File_read_ordered(fh, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    SAME(value, rank);
    OK(MPI_File_close(&fh));
    END_CLAUSE();
}

static void print_hints(void)
{
    MPI_File fh = open_all("file", MPI_MODE_RDWR | MPI_MODE_CREATE);
    MPI_Info info;
    int keys = 0, has;
    char key[MPI_MAX_INFO_KEY + 1], value[256];
    OK(MPI_File_get_info(fh, &info));
    MPI_Info_get_nkeys(info, &keys);
    for (int i = 0; i < keys && rank == 0; i++) {
        MPI_Info_get_nthkey(info, i, key);
        MPI_Info_get(info, key, 255, value, &has);
        printf("hint %s %s\n", key, value);
    }
    MPI_Info_free(&info);
    int data = rank, got = -1;
    OK(MPI_File_write_at_all(fh, 4 * rank, &data, 1, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_read_at_all(fh, 4 * rank, &got, 1, MPI_INT, MPI_STATUS_IGNORE));
    SAME(got, rank);
    OK(MPI_File_close(&fh));
}

static void killed(void)
{
    MPI_File fh = open_all("file", MPI_MODE_RDWR | MPI_MODE_CREATE);
    int value = rank;
    OK(MPI_File_set_atomicity(fh, 1));
    OK(MPI_File_write_ordered(fh, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_write_shared(fh, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    MPI_Request request;
    OK(MPI_File_iwrite_at(fh, 100, &value, 1, MPI_INT, &request));
    if (rank == ranks - 1)
        raise(SIGKILL);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_File_close(&fh);
    printf("survived\n");
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    const char *world = argc > 2 ? argv[2] : "plain";
    if (strcmp(world, "plain") == 0) {
        names_and_modes();
        unequal_arguments();
        one_rank_at_fault();
        one_rank_at_fault_later();
        freed_types();
    } else if (strcmp(world, "agree") == 0) {
        one_rank_fails_to_access();
    } else if (strcmp(world, "full") == 0) {
        full_disk();
    } else if (strcmp(world, "limit") == 0) {
        file_limit();
    } else if (strcmp(world, "nobody") == 0) {
        as_nobody();
    } else if (strcmp(world, "rofs") == 0) {
        read_only_file_system();
    } else if (strcmp(world, "hints") == 0) {
        print_hints();
    } else if (strcmp(world, "killed") == 0) {
        killed();
    }
    return finish();
}
