/* Collective calls that wait for a rank. Argument 2 says what happens, argument 3 is a command that rank 1 runs meanwhile.
 *
 *   late         rank 1 comes late, rank 2 accesses more bytes than the others, rank 3 waits in a collective call on another file
 *   nonblocking  rank 1 comes late to a nonblocking access
 *   other        rank 3 calls another collective function than the others
 *   slow         rank 1 is in a slow access of its own first
 *   computes     the last rank comes late
 *
 * All ranks write what they say on standard error to one file. The late rank comes when the line that it is missing is
 * there, or after a minute.
 */
#include <time.h>

#include "check.h"

static int lines(void)
{
    static char text[65536];
    FILE *said = fopen(path("said"), "r");
    int found = 0;
    while (said && fgets(text, sizeof text, said))
        found += strstr(text, "not there") != NULL || strstr(text, "instead") != NULL;
    if (said)
        fclose(said);
    return found;
}

static void await_lines(int wanted)
{
    time_t limit = time(NULL) + 60;
    while (lines() < wanted && time(NULL) < limit)
        usleep(10000);
    CHECK(lines() >= wanted, "no report after a minute");
}

static void run(const char *command)
{
    char line[4096];
    FILE *output = command ? popen(command, "r") : NULL;
    while (output && fgets(line, sizeof line, output))
        printf("status: %s", line);
    if (output)
        CHECK(pclose(output) == 0, "%s failed", command);
    fflush(stdout);
}

/* A conversion that takes some seconds. */
static int slow(void *user, MPI_Datatype type, int count, void *file, MPI_Offset at, void *extra)
{
    (void)user, (void)type, (void)count, (void)file, (void)at, (void)extra;
    sleep(4);
    return MPI_SUCCESS;
}

static int size_of(MPI_Datatype type, MPI_Aint *extent, void *extra)
{
    int size;
    (void)extra;
    MPI_Type_size(type, &size);
    *extent = size;
    return MPI_SUCCESS;
}

static void late(MPI_File fh, char *bytes, const char *command)
{
    MPI_Comm pair;
    MPI_File other = MPI_FILE_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &pair);
    if (rank % 2)
        OK(MPI_File_open(pair, path("other"), MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &other));
    if (rank == 1) {
        OK(MPI_File_write_at(fh, 0, bytes, 1, MPI_BYTE, MPI_STATUS_IGNORE));
        await_lines(2);
        run(command);
    }
    if (rank % 2)
        OK(MPI_File_sync(other));
    OK(MPI_File_write_at_all(fh, 1000 * rank, bytes, rank == 2 ? 200 : 100, MPI_BYTE, MPI_STATUS_IGNORE));
    if (rank % 2)
        OK(MPI_File_close(&other));
    MPI_Comm_free(&pair);
}

int main(int argc, char **argv)
{
    static char bytes[1000];
    begin(&argc, &argv);
    const char *what = argv[2], *command = argc > 3 ? argv[3] : NULL;
    int said = open(path("said"), O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(said, 2);
    MPI_File fh = open_all("file", MPI_MODE_RDWR | MPI_MODE_CREATE);
    CLAUSE(what, "calls wait for a rank");
    if (!strcmp(what, "late")) {
        late(fh, bytes, command);
    } else if (!strcmp(what, "nonblocking")) {
        MPI_Request request;
        /* one line of each node */
        if (rank == 1)
            await_lines(getenv("PARIO_NODE") ? 2 : 1);
        OK(MPI_File_iwrite_at_all(fh, 1000 * rank, bytes, 100, MPI_BYTE, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    } else if (!strcmp(what, "other")) {
        if (rank == 3)
            MPI_File_sync(fh);
        else
            MPI_File_write_ordered(fh, bytes, 100, MPI_BYTE, MPI_STATUS_IGNORE);
        if (rank == 3)
            await_lines(1);
        _exit(0);
    } else if (!strcmp(what, "slow")) {
        MPI_File own;
        OK(MPI_Register_datarep("slow", slow, slow, size_of, NULL));
        OK(MPI_File_open(MPI_COMM_SELF, path("own"), MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &own));
        OK(MPI_File_set_view(own, 0, MPI_BYTE, MPI_BYTE, "slow", MPI_INFO_NULL));
        if (rank == 1)
            OK(MPI_File_write_at(own, 0, bytes, 100, MPI_BYTE, MPI_STATUS_IGNORE));
        OK(MPI_File_write_at_all(fh, 1000 * rank, bytes, 100, MPI_BYTE, MPI_STATUS_IGNORE));
        /* in the same call, a rank is slow */
        OK(MPI_File_set_view(fh, 0, MPI_BYTE, MPI_BYTE, "slow", MPI_INFO_NULL));
        OK(MPI_File_write_at_all(fh, 1000 * rank, bytes, rank == 1 ? 100 : 0, MPI_BYTE, MPI_STATUS_IGNORE));
        SAME(lines(), 0);
        OK(MPI_File_close(&own));
    } else {
        if (rank == ranks - 1)
            await_lines(2);
        OK(MPI_File_write_at_all(fh, 1000 * rank, bytes, 100, MPI_BYTE, MPI_STATUS_IGNORE));
    }
    OK(MPI_File_close(&fh));
    END_CLAUSE();
    return finish();
}
