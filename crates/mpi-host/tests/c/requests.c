/* Generalized requests: every way to complete one, alone and among messages. */
#include "probe.h"

static int rank, size;

static long long bytes_of(MPI_Status *s)
{
    MPI_Count n;
    int cancelled;
    MPI_Get_elements_x(s, MPI_BYTE, &n);
    MPI_Test_cancelled(s, &cancelled);
    CHECK(!cancelled);
    return n;
}

static MPI_Request start(long long polls, long long bytes)
{
    MPI_Request r = MPI_REQUEST_NULL;
    CHECK(probe_start(polls, bytes, &r) == 0);
    CHECK(r != MPI_REQUEST_NULL);
    return r;
}

static void single(long long polls)
{
    MPI_Status s;
    MPI_Request r = start(polls, 123);
    CHECK(MPI_Wait(&r, &s) == MPI_SUCCESS && r == MPI_REQUEST_NULL && bytes_of(&s) == 123);
    r = start(polls, 1LL << 40);
    int flag = 0;
    while (!flag) CHECK(MPI_Test(&r, &flag, &s) == MPI_SUCCESS);
    CHECK(r == MPI_REQUEST_NULL && bytes_of(&s) == 1LL << 40);
    r = start(polls, 5);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    r = start(polls, 8);
    for (flag = 0; !flag;) {
        if (probe_family() != 2) probe_poll(); /* MPICH does not poll here */
        MPI_Request_get_status(r, &flag, &s);
    }
    int doubles;
    MPI_Get_count(&s, MPI_DOUBLE, &doubles);
    CHECK(doubles == 1);
    MPI_Wait(&r, &s);
    CHECK(bytes_of(&s) == 8);
    r = start(polls, 9);
    CHECK(MPI_Cancel(&r) == MPI_SUCCESS);
    MPI_Wait(&r, &s);
    CHECK(bytes_of(&s) == 9);
}

static void several(long long polls)
{
    enum { N = 6 };
    MPI_Request r[N];
    MPI_Status s[N];
    int flag, which, some, list[N], seen = 0;
    for (int i = 0; i < N; i++) r[i] = start(polls * (N - i), 10 + i);
    MPI_Waitall(N, r, s);
    for (int i = 0; i < N; i++) CHECK(r[i] == MPI_REQUEST_NULL && bytes_of(&s[i]) == 10 + i);

    for (int i = 0; i < N; i++) r[i] = start(polls * (N - i), 20 + i);
    for (int i = 0; i < N; i++) {
        MPI_Waitany(N, r, &which, s);
        CHECK(which >= 0 && which < N && bytes_of(s) == 20 + which);
        seen |= 1 << which;
    }
    CHECK(seen == (1 << N) - 1);

    for (int i = 0; i < N; i++) r[i] = start(polls * (N - i), 30 + i);
    for (seen = 0; seen != (1 << N) - 1;) {
        MPI_Testsome(N, r, &some, list, s);
        CHECK(some != MPI_UNDEFINED);
        for (int i = 0; i < some; i++) {
            CHECK(bytes_of(&s[i]) == 30 + list[i]);
            seen |= 1 << list[i];
        }
    }
    for (int i = 0; i < N; i++) r[i] = start(polls * i, 40 + i);
    for (flag = 0; !flag;) MPI_Testall(N, r, &flag, s);
    for (int i = 0; i < N; i++) CHECK(bytes_of(&s[i]) == 40 + i);
    for (int i = 0; i < N; i++) r[i] = start(polls * i, 50 + i);
    for (seen = 0; seen < N; seen += flag) MPI_Testany(N, r, &which, &flag, s);
    for (int i = 0; i < N; i++) r[i] = start(polls * i, 60 + i);
    for (seen = 0; seen < N; seen += some) {
        MPI_Waitsome(N, r, &some, list, s);
        for (int i = 0; i < some; i++) CHECK(bytes_of(&s[i]) == 60 + list[i]);
    }
}

static void among_messages(long long polls)
{
    enum { N = 4 };
    int to = (rank + 1) % size, from = (rank + size - 1) % size, in[2], out[2] = {rank, rank * 7};
    MPI_Request r[N];
    MPI_Status s[N];
    for (int round = 0; round < 20; round++) {
        MPI_Irecv(&in[0], 1, MPI_INT, from, 1, MPI_COMM_WORLD, &r[0]);
        r[1] = start(polls, 70);
        MPI_Isend(&out[0], 1, MPI_INT, to, 1, MPI_COMM_WORLD, &r[2]);
        r[3] = start(-1, 71);
        if (round % 2) {
            MPI_Waitall(N, r, s);
            CHECK(bytes_of(&s[1]) == 70 && bytes_of(&s[3]) == 71);
        } else {
            for (int i = 0, which; i < N; i++) MPI_Waitany(N, r, &which, s);
        }
        CHECK(in[0] == from);
    }
}

static void given_up(long long polls)
{
    MPI_Request r = start(polls, 1);
    CHECK(MPI_Request_free(&r) == MPI_SUCCESS && r == MPI_REQUEST_NULL);
    /* It goes when it is done; give both kinds of host the chance to see that. */
    while (probe_alive() > 0) {
        int flag;
        MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
        if (probe_family() != 2) probe_poll();
    }
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, argc > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    long long polls[] = {0, 1, 7, -1};
    for (int i = 0; i < 4; i++) {
        single(polls[i]);
        several(polls[i]);
        among_messages(polls[i]);
        given_up(polls[i]);
        CHECK(probe_alive() == 0);
    }
    printf("requests good\n");
    MPI_Finalize();
    return 0;
}
