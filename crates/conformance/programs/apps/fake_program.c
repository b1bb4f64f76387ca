/* Makes every I/O call of the fake MPI once by its MPI name and once by its PMPI name, and checks that each
 * arrived there with its arguments and came back with its result. The arguments are small numbers, no
 * addresses: a library in between must pass them on without looking at them. */
#include "fake_calls.h"
#include <stdio.h>
#include <string.h>

extern struct seen fake_seen;
int MPI_Init(int *, char ***);
int MPI_Finalize(void);

#define DECLARE(name, n) long MPI_##name(PARAMETERS_##n), PMPI_##name(PARAMETERS_##n);
ALL_CALLS(DECLARE)

#define VALUES_1 11
#define VALUES_2 VALUES_1, 12
#define VALUES_3 VALUES_2, 13
#define VALUES_4 VALUES_3, 14
#define VALUES_5 VALUES_4, 15
#define VALUES_6 VALUES_5, 16

static int failed;

static void check(const char *name, int call, int arguments, long result)
{
    long sum = 0;
    for (int i = 1; i <= arguments; i++) sum += (long)i * (10 + i);
    if (fake_seen.call != call || fake_seen.arguments != arguments || fake_seen.sum != sum ||
        (int)result != 1000 + call) {
        printf("%s: call %d of %d, sum %ld of %ld, result %ld\n", name, fake_seen.call, call, fake_seen.sum,
               sum, result);
        failed = 1;
    }
    memset(&fake_seen, 0, sizeof fake_seen);
}

#define CHECK(name, n)                                                                                     \
    check("MPI_" #name, CALL_##name, n, MPI_##name(VALUES_##n));                                           \
    check("PMPI_" #name, CALL_##name, n, PMPI_##name(VALUES_##n));

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    ALL_CALLS(CHECK)
    MPI_Finalize();
    if (!failed) printf("passed: %d calls\n", CALLS_END - 1);
    return failed;
}
