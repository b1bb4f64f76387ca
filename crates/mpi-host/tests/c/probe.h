/* Interface of examples/probe.rs, and the checks of the test programs. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int probe_family(void);
long long probe_constant(const char *name, int *found);
long long probe_gather(MPI_Datatype t, int count, const void *base, void *out, int typed);
int probe_facts(MPI_Datatype t, long long out[7]);
int probe_layout(MPI_Datatype t);
int probe_decode(MPI_Datatype t);
int probe_known_layouts(void);
int probe_check_comm(MPI_Comm c);
int probe_check_info(MPI_Info i);
int probe_comm(MPI_Comm c);
int probe_status(MPI_Status *s, long long bytes);
int probe_copy_info(MPI_Info from, MPI_Info *to);
int probe_errhandler(MPI_Errhandler *out);
int probe_at_finalize(void);
int probe_start(long long polls, long long bytes, MPI_Request *out);
long long probe_alive(void);
void probe_poll(void);
void probe_show(MPI_Datatype t);

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #what);                     \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* A constant of the header against the crate's; a four-byte one may be an int handle with its top bit set. */
#define SAME(name)                                                                                 \
    {                                                                                              \
        int found;                                                                                 \
        long long ours = probe_constant(#name, &found), theirs = (long long) (intptr_t) (name);     \
        if (!found || (sizeof(name) == 4 ? (int) ours != (int) theirs : ours != theirs))            \
            bad++, printf("%s: ours %lld (found %d), header %lld\n", #name, ours, found, theirs);   \
    }
