/* What a workload does, as a list of accesses: made by each workload for one rank of any number, without MPI.
 *
 * Accesses are done in order. Those of one phase share their open files; at its end all are closed, and the
 * next phase starts when every rank has got there. Phases from `check` on only read back what the earlier
 * ones wrote.
 */
#ifndef PLAN_H
#define PLAN_H

#include <stddef.h>

#include "pattern.h"

struct hint {
    const char *key, *value;
};

struct file {
    char name[48];
    int64_t bytes;            /* its size in the end */
    bool unique;              /* opened with MPI_MODE_UNIQUE_OPEN */
    bool sync;                /* MPI_File_sync before it is closed, if written */
    const struct hint *hints; /* up to one without a key; may be NULL */
};

enum how {
    VIEW_ALL, /* the pattern is the file's view; one collective call */
    AT_ALL,   /* one collective call at an explicit offset */
    AT,       /* one independent call at an explicit offset */
    EACH      /* an independent call at an explicit offset for each piece */
};

struct access {
    int phase, file;
    int variable, step; /* which contents the bytes have, with their offset in the file */
    bool reading;
    enum how how;
    const struct pattern *where;  /* in the file */
    const struct pattern *memory; /* in a buffer of its own */
    int64_t tile;                 /* which repetition of `where` */
};

struct plan {
    int files, accesses, check;
    struct file *file;
    struct access *access;
    struct chunk *chunks; /* all memory that the plan uses */
};

/* Memory that lives as long as the plan. Never NULL. */
void *plan_memory(struct plan *plan, size_t bytes);
void plan_free(struct plan *plan);

/* A file called by the printf-like format; returns its number. */
int plan_file(struct plan *plan, int64_t bytes, const char *format, ...);
/* An access; returns it for more to be set, until the next one is added. */
struct access *plan_access(struct plan *plan, struct access access);
/* In each step the same pattern, one after the other in the file. */
void plan_steps(struct plan *plan, int steps, int file, const struct pattern *where,
                const struct pattern *memory);
/* Reads all that was written so far once more, in a phase of its own. */
void plan_read_back(struct plan *plan);

const struct pattern *run_of(struct plan *plan, int64_t start, int64_t bytes, int element);
/* One box; `start` and `size` have as many numbers as `whole`. */
const struct pattern *box_of(struct plan *plan, int64_t file_start, int element, int dims,
                             const int64_t *whole, const int64_t *start, const int64_t *size);
const struct pattern *blocks_of(struct plan *plan, int64_t start, int64_t block, int64_t count,
                                const int64_t *at);
/* As much memory as the pattern has bytes, in one piece. */
const struct pattern *packed(struct plan *plan, const struct pattern *where);

/* Part i of n things in `parts` parts; the first parts get one more. */
void split(int64_t n, int64_t parts, int64_t i, int64_t *start, int64_t *size);
/* `ranks` as a product of `dims` nearly equal numbers, the largest first; the same with every MPI. */
void grid(int ranks, int dims, int *sides);
/* Where rank `rank` is in the grid, the last dimension running fastest. */
void place_in(const int *sides, int dims, int rank, int *place);

/* A permutation of 0 … n-1 that looks random. */
int64_t shuffled(int64_t i, int64_t n, uint64_t seed);
uint64_t mix(uint64_t x);

/* Ends the program; for what cannot be planned for, such as memory running out. */
_Noreturn void give_up(const char *format, ...);

#endif
