/* Collective calls in company: of each other, and of messages that need the rank that waits in one.
 * The arguments from the second on say which: orders, between, rendezvous, or message. */
#include "forms.h"

/* Nonblocking collectives on two files, in another order on each rank, beside messages. */
static void orders(void)
{
    enum { DEEP = 4, FILES = 2, LARGE = 1 << 20 };
    static unsigned char out[FILES][DEEP][MINE], in[FILES][DEEP][MINE];
    static char message[LARGE], received[LARGE];
    MPI_Request requests[FILES * DEEP + 2];
    MPI_Status statuses[FILES * DEEP + 2];
    MPI_File files[FILES] = {open_turns("first", 0), open_turns("second", 1)};
    int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
    CLAUSE("orders", "nonblocking collectives on two files, in another order on each rank, beside messages");
    for (int w = 1; w >= 0; w--) {
        int n = 0;
        memset(message, rank + w, sizeof message);
        OK(MPI_Irecv(received, LARGE, MPI_BYTE, previous, 0, MPI_COMM_WORLD, &requests[n++]));
        for (int turn = 0; turn < FILES * DEEP; turn++) {
            /* even ranks take the files in turn; odd ranks all of the second, then all of the first */
            int file = rank % 2 ? turn < DEEP : turn % 2, deep = rank % 2 ? turn % DEEP : turn / 2;
            unsigned char *data = w ? out[file][deep] : in[file][deep];
            if (w) fill(data, 10 * file + deep);
            MPI_Offset at = (MPI_Offset)deep * MINE;
            OK(start(files[file], NONBLOCKING_AT, w, at, data, MINE, MPI_BYTE, NULL, &requests[n++]));
        }
        OK(MPI_Isend(message, LARGE, MPI_BYTE, next, 0, MPI_COMM_WORLD, &requests[n++]));
        if (rank % 3 == 1) { /* some wait one by one, from the last to the first */
            while (n > 0)
                OK(MPI_Wait(&requests[--n], MPI_STATUS_IGNORE));
        } else if (rank % 3 == 2) { /* some ask */
            int done = 0;
            while (!done)
                OK(MPI_Testall(n, requests, &done, statuses));
        } else {
            OK(MPI_Waitall(n, requests, statuses));
        }
        SAME(received[0], previous + w);
        SAME(received[LARGE - 1], previous + w);
        for (int file = 0; file < FILES; file++)
            settle(files[file]);
    }
    CHECK(memcmp(in, out, sizeof in) == 0, "other data comes back");
    for (int file = 0; file < FILES; file++)
        OK(MPI_File_close(&files[file]));
    END_CLAUSE();
}

/* Rank 0 sends, then goes into the collective call, then waits for the message; rank 1 receives before it
 * comes. A message of this size needs its sender's help, so that rank 0 must give it while it waits. */
static void rendezvous(void)
{
    enum { LARGE = 8 << 20 };
    char *message = malloc(LARGE);
    MPI_Request request;
    CLAUSE("rendezvous", "a rank that waits in a collective call helps its own messages along");
    MPI_File fh = open_turns("file", 0);
    for (enum form form = 0; form < FORMS; form++) {
        int tag = form + 1, note = -1;
        memset(message, rank == 0 ? tag : 0, LARGE);
        if (rank == 1) /* stays unreceived, for probes */
            OK(MPI_Send(&tag, 1, MPI_INT, 0, 0, MPI_COMM_WORLD));
        barrier();
        if (rank == 0)
            OK(MPI_Isend(message, LARGE, MPI_BYTE, 1, tag, MPI_COMM_WORLD, &request));
        if (rank == 1) {
            OK(MPI_Recv(message, LARGE, MPI_BYTE, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            SAME(message[LARGE - 1], tag);
        }
        all_is_well(fh, form, form);
        if (rank == 0) {
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            OK(MPI_Recv(&note, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            SAME(note, tag);
        }
    }
    OK(MPI_File_close(&fh));
    free(message);
    END_CLAUSE();
}

/* A nonblocking collective is under way at a rank that does something blocking next, which needs a rank that
 * waits for the nonblocking one first: another file's collective call, or a message. */
static void between(int message)
{
    static unsigned char out[MINE], in[MINE];
    int first = rank % 2 == 0, note = -1;
    MPI_Request request;
    MPI_File file = open_turns("file", 0), other = open_turns("other", 0);
    CLAUSE("between", "a nonblocking collective goes on while its rank is in another blocking call");
    for (int round = 0; round < 3; round++) {
        for (int w = 1; w >= 0; w--) {
            fill(out, round);
            OK(start(file, NONBLOCKING_AT, w, 0, w ? out : in, MINE, MPI_BYTE, NULL, &request));
            if (!first)
                OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            if (!message)
                OK(MPI_File_write_at_all(other, 0, out, MINE, MPI_BYTE, MPI_STATUS_IGNORE));
            else if (first && rank + 1 < ranks)
                OK(MPI_Recv(&note, 1, MPI_INT, rank + 1, w, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            else if (!first)
                OK(MPI_Send(&rank, 1, MPI_INT, rank - 1, w, MPI_COMM_WORLD));
            if (first)
                OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            settle(file);
        }
        CHECK(memcmp(in, out, sizeof in) == 0, "other data comes back");
    }
    OK(MPI_File_close(&other));
    OK(MPI_File_close(&file));
    END_CLAUSE();
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "orders") == 0)
            orders();
        else if (strcmp(argv[i], "between") == 0)
            between(0);
        else if (strcmp(argv[i], "message") == 0)
            between(1);
        else
            rendezvous();
    }
    return finish();
}
