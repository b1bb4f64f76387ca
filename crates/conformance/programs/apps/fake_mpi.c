/* An MPI that Pario does not know. Its I/O calls only record, under their PMPI names, that they were called and with
 * which arguments. */
#include "fake_calls.h"
#include <string.h>

struct seen fake_seen;

int PMPI_Get_library_version(char *text, int *length)
{
    strcpy(text, "FooMPI 1.0");
    *length = (int)strlen(text);
    return 0;
}
int MPI_Get_library_version(char *, int *) __attribute__((weak, alias("PMPI_Get_library_version")));

static int initialized;

int PMPI_Init(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    initialized = 1;
    return 0;
}
int MPI_Init(int *, char ***) __attribute__((weak, alias("PMPI_Init")));

int PMPI_Initialized(int *flag)
{
    *flag = initialized;
    return 0;
}
int MPI_Initialized(int *) __attribute__((weak, alias("PMPI_Initialized")));

int PMPI_Finalize(void)
{
    return 0;
}
int MPI_Finalize(void) __attribute__((weak, alias("PMPI_Finalize")));

#define SUM_1 a
#define SUM_2 SUM_1 + 2 * b
#define SUM_3 SUM_2 + 3 * c
#define SUM_4 SUM_3 + 4 * d
#define SUM_5 SUM_4 + 5 * e
#define SUM_6 SUM_5 + 6 * f

#define DEFINE(name, n)                                                                                    \
    long PMPI_##name(PARAMETERS_##n)                                                                       \
    {                                                                                                      \
        fake_seen.call = CALL_##name;                                                                      \
        fake_seen.arguments = n;                                                                           \
        fake_seen.sum = SUM_##n;                                                                           \
        return 1000 + CALL_##name;                                                                         \
    }                                                                                                      \
    long MPI_##name(PARAMETERS_##n) __attribute__((weak, alias("PMPI_" #name)));
ALL_CALLS(DEFINE)
