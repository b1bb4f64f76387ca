/* An open file that an access can be done on, by MPI-IO or by plain system calls, with the time that each
 * kind of call took. An error ends the program with a line that says which call, which file and what the MPI
 * library says.
 */
#ifndef STORE_H
#define STORE_H

#include <mpi.h>

#include "options.h"

/* What time was spent on. WRITING and READING are whole phases, from the first open to the last close, but
 * for the making and checking of data. */
enum spent { OPEN, VIEW, WRITE, READ, SYNC, CLOSE, COMPUTE, WRITING, READING, SPENT };
extern const char *const spent_names[SPENT];

struct store {
    char path[1024];
    const struct file *file;
    const struct options *options;
    double *seconds; /* by `enum spent` */
    bool is_open;
    int descriptor; /* with --posix */
    MPI_File handle;
    const struct pattern *view; /* NULL: bytes from the start of the file on */
};

/* Collective, as are close, size and sync. */
void store_open(struct store *store, bool writing);
void store_close(struct store *store, bool written);
int64_t store_size(struct store *store);
/* Does the access on memory that lies at `memory`; returns the number of calls made. */
int64_t store_move(struct store *store, const struct access *access, void *memory);
/* Removes the file if it is there. */
void store_remove(const char *path, bool posix);

void busy(double seconds);

#endif
