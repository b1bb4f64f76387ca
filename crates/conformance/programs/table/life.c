/* Events in the life of a process that has files open: argument 2 names the event.
 *
 *   killed    every rank is killed right after a collective write has returned on all of them
 *   synced    the same after a sync
 *   leaves    every rank ends by _exit after a sync, without finalizing MPI
 *   forks     a child that a rank forks uses the rank's file handles; the rank continues as if nothing had happened
 *   execs     no descriptor of an open file is there in a program that a rank executes
 *   files     a rank may have no more descriptors
 *   memory    a rank may have no more memory
 */
#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "check.h"

enum { PIECE = 100, PIECES = 2000, MINE = PIECE * PIECES, MOST = 1024 };

static unsigned char data[MINE], back[MINE];

/* Ranks take turns in the file. */
static MPI_File open_turns(void)
{
    MPI_Datatype type;
    MPI_File fh = open_all("life", MPI_MODE_RDWR | MPI_MODE_CREATE);
    MPI_Type_vector(PIECES, PIECE, PIECE * ranks, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    OK(MPI_File_set_view(fh, (MPI_Offset)rank * PIECE, MPI_BYTE, type, "native", MPI_INFO_NULL));
    MPI_Type_free(&type);
    memset(data, 'a' + rank, MINE);
    return fh;
}

static void is_killed(int syncs)
{
    MPI_File fh = open_turns();
    OK(MPI_File_write_at_all(fh, 0, data, MINE, MPI_BYTE, MPI_STATUS_IGNORE));
    if (syncs)
        OK(MPI_File_sync(fh));
    barrier();
    if (rank == 0) {
        printf("%s\n", failed_here ? "FAIL" : "written");
        fflush(stdout);
    }
    barrier();
    raise(SIGKILL);
}

static void leaves(void)
{
    MPI_File fh = open_turns();
    OK(MPI_File_write_at_all(fh, 0, data, MINE, MPI_BYTE, MPI_STATUS_IGNORE));
    OK(MPI_File_sync(fh));
    barrier();
    if (rank == 0) {
        printf("%s\n", failed_here ? "FAIL" : "written");
        fflush(stdout);
    }
    barrier();
    _exit(0);
}

/* The descriptors that are open, as bits. */
static void descriptors(unsigned char *open_ones)
{
    for (int fd = 0; fd < MOST; fd++)
        open_ones[fd] = fcntl(fd, F_GETFD) >= 0;
}

/* How many descriptors that were not open before lead nowhere. */
static int nulls(const unsigned char *before)
{
    char link[64], target[64];
    int found = 0;
    for (int fd = 0; fd < MOST; fd++) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t len = readlink(link, target, sizeof target - 1);
        found += len > 0 && !before[fd] && strncmp(target, "/dev/null", (size_t)len) == 0;
    }
    return found;
}

/* How many of a child's calls did not fail as they should. */
static int as_a_child(MPI_File fh, const unsigned char *before)
{
    MPI_Offset size;
    MPI_Request request;
    MPI_File copy = fh, other;
    /* the parent's connections are not kept open here */
    int wrong = on_partition() && nulls(before) == 0;
    memset(data, 'X', MINE);
    wrong += class_of(MPI_File_write_at(fh, 0, data, MINE, MPI_BYTE, MPI_STATUS_IGNORE)) != MPI_ERR_FILE;
    wrong += class_of(MPI_File_read_at(fh, 0, back, MINE, MPI_BYTE, MPI_STATUS_IGNORE)) != MPI_ERR_FILE;
    wrong += class_of(MPI_File_iwrite_at(fh, 0, data, MINE, MPI_BYTE, &request)) != MPI_ERR_FILE;
    wrong += class_of(MPI_File_write_at_all(fh, 0, data, MINE, MPI_BYTE, MPI_STATUS_IGNORE)) != MPI_ERR_FILE;
    wrong += class_of(MPI_File_get_size(fh, &size)) != MPI_ERR_FILE;
    wrong += class_of(MPI_File_sync(fh)) != MPI_ERR_FILE;
    wrong += class_of(MPI_File_close(&copy)) != MPI_ERR_FILE;
    wrong += class_of(MPI_File_open(MPI_COMM_SELF, path("other"), MPI_MODE_RDWR | MPI_MODE_CREATE,
                                    MPI_INFO_NULL, &other)) != MPI_ERR_FILE;
    return wrong;
}

static void forks(void)
{
    static unsigned char before[MOST];
    CLAUSE("forks", "a forked child's calls fail, and the parent does not notice it");
    descriptors(before);
    MPI_File fh = open_turns();
    MPI_Request request;
    int status = -1;
    OK(MPI_File_write_at(fh, 0, data, MINE / 2, MPI_BYTE, MPI_STATUS_IGNORE));
    OK(MPI_File_iwrite_at(fh, MINE / 2, data, MINE / 2, MPI_BYTE, &request));
    OK(MPI_File_write_at_all(fh, 0, data, MINE / 4, MPI_BYTE, MPI_STATUS_IGNORE));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        exit(as_a_child(fh, before)); /* with all exit handlers */
    CHECK(child > 0, "cannot fork: %s", strerror(errno));
    CHECK(waitpid(child, &status, 0) == child, "no child");
    CHECK(WIFEXITED(status), "the child died by signal %d", WTERMSIG(status));
    SAME(WEXITSTATUS(status), 0);
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_File_read_at(fh, 0, back, MINE, MPI_BYTE, MPI_STATUS_IGNORE));
    CHECK(memcmp(data, back, MINE) == 0, "the parent reads something else");
    memset(data, 'A' + rank, MINE);
    OK(MPI_File_write_at_all(fh, 0, data, MINE, MPI_BYTE, MPI_STATUS_IGNORE));
    OK(MPI_File_sync(fh));
    OK(MPI_File_read_at_all(fh, 0, back, MINE, MPI_BYTE, MPI_STATUS_IGNORE));
    CHECK(memcmp(data, back, MINE) == 0, "the parent reads something else");
    OK(MPI_File_close(&fh));
    END_CLAUSE();
}

static void execs(char *self)
{
    static unsigned char before[MOST], after[MOST];
    char list[8192] = "";
    int status = -1, some = 0;
    CLAUSE("execs", "a program that a rank executes has none of the descriptors of open files");
    descriptors(before);
    MPI_File fh = open_turns();
    OK(MPI_File_write_at_all(fh, 0, data, MINE, MPI_BYTE, MPI_STATUS_IGNORE));
    descriptors(after);
    for (int fd = 0; fd < MOST; fd++)
        if (after[fd] && !before[fd] && strlen(list) < sizeof list - 16) {
            some = 1;
            sprintf(list + strlen(list), "%d,", fd);
        }
    CHECK(some || getenv("PARIO_MOUNT"), "an open file has no descriptor");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        unsetenv("LD_PRELOAD");
        execl(self, self, "descriptors", list, (char *)NULL);
        _exit(99);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status), "no child");
    SAME(WEXITSTATUS(status), 0);
    OK(MPI_File_close(&fh));
    END_CLAUSE();
}

/* In the executed program: how many of these descriptors are open. */
static int count_open(char *list)
{
    int open_ones = 0;
    for (char *fd = strtok(list, ","); fd; fd = strtok(NULL, ","))
        open_ones += fcntl(atoi(fd), F_GETFD) >= 0;
    return open_ones > 90 ? 90 : open_ones;
}

static long pages(void)
{
    long size = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    if (!statm || fscanf(statm, "%ld", &size) != 1)
        size = 0;
    if (statm)
        fclose(statm);
    return size;
}

/* Opens, writes and reads under a limit: each call succeeds or says why it does not, and what succeeds is right. */
static int under_limit(int resource, rlim_t limit)
{
    struct rlimit old, less;
    MPI_File fh;
    char name[32];
    int done = 0;
    snprintf(name, sizeof name, "limited%d", rank);
    getrlimit(resource, &old);
    less = old;
    less.rlim_cur = limit;
    memset(data, '0' + (int)(limit % 10), MINE);
    setrlimit(resource, &less);
    int code = MPI_File_open(MPI_COMM_SELF, path(name), MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &fh);
    if (code == MPI_SUCCESS) {
        int wrote = MPI_File_write_at(fh, 0, data, MINE, MPI_BYTE, MPI_STATUS_IGNORE);
        int wrote_all = MPI_File_write_at_all(fh, MINE, data, MINE, MPI_BYTE, MPI_STATUS_IGNORE);
        int synced = MPI_File_sync(fh);
        int read = MPI_File_read_at(fh, 0, back, MINE, MPI_BYTE, MPI_STATUS_IGNORE);
        done = wrote == MPI_SUCCESS && wrote_all == MPI_SUCCESS && synced == MPI_SUCCESS && read == MPI_SUCCESS;
        setrlimit(resource, &old);
        CHECK(!done || memcmp(data, back, MINE) == 0, "other bytes come back");
        MPI_File_close(&fh);
    }
    setrlimit(resource, &old);
    return done;
}

static void limits(int resource, rlim_t from, rlim_t step, int steps)
{
    int done = 0;
    CLAUSE("limits", "what lacks descriptors or memory fails, and works when there are some");
    for (int i = 0; i < steps; i++)
        done += under_limit(resource, from + (rlim_t)i * step);
    CHECK(done < steps, "the limit never mattered");
    struct rlimit now;
    getrlimit(resource, &now);
    SAME(under_limit(resource, now.rlim_cur), 1);
    END_CLAUSE();
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "descriptors") == 0)
        return count_open(argv[2]);
    begin(&argc, &argv);
    const char *what = argc > 2 ? argv[2] : "";
    if (strcmp(what, "killed") == 0)
        is_killed(0);
    else if (strcmp(what, "synced") == 0)
        is_killed(1);
    else if (strcmp(what, "leaves") == 0)
        leaves();
    else if (strcmp(what, "forks") == 0)
        forks();
    else if (strcmp(what, "execs") == 0)
        execs(argv[0]);
    else if (strcmp(what, "files") == 0)
        limits(RLIMIT_NOFILE, 0, 1, 64);
    else if (strcmp(what, "memory") == 0)
        limits(RLIMIT_AS, (rlim_t)pages() * 4096, 256 << 10, 40);
    return finish();
}
