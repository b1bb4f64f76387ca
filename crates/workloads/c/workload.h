/* A workload: its sizes, its plan, and what its bytes are where they are not just any. */
#ifndef WORKLOAD_H
#define WORKLOAD_H

#include "plan.h"

enum { MOST_SIZES = 5 };

struct preset {
    const char *name, *about;
    int steps;
    int64_t size[MOST_SIZES]; /* each workload defines their meaning */
};

/* The run and the rank whose bytes are generated or checked. */
struct job {
    const struct preset *preset;
    int steps, rank, ranks;
    uint64_t seed;
};

struct workload {
    const char *name, *about;
    const char *step;             /* what a step is, in a word; NULL: there is only one */
    const struct preset *presets; /* up to one without a name */
    /* The plan of one rank, with the rank's number and the preset taken from the job. Returns why it cannot
     * be had, else NULL. */
    const char *(*plan)(struct plan *plan, const struct job *job);
    /* The bytes that belong at an offset of the access's file; NULL: any that depend on seed, variable, step
     * and offset. */
    void (*make)(const struct job *job, const struct access *access, int64_t at, int64_t bytes,
                 unsigned char *out);
    /* How many bytes of `got` are wrong, and the first of them; NULL: those that differ. */
    int64_t (*wrong)(const struct job *job, const struct access *access, const unsigned char *expected,
                     const unsigned char *got, int64_t bytes, int64_t *first);
    /* Computes what a write writes, also from what the read before it brought (`input`, in `in`); counts as
     * computation. NULL: `make` does it, and it does not count. */
    void (*compute)(const struct job *job, const struct access *access, const struct access *input,
                    const unsigned char *in, unsigned char *out);
};

/* Up to NULL. */
extern const struct workload *const workloads[];
const struct workload *workload_called(const char *name);
const struct preset *preset_called(const struct workload *workload, const char *name);

/* The bytes of a file, by the workload's own rule or by the common one. */
void make_bytes(const struct workload *workload, const struct job *job, const struct access *access,
                int64_t at, int64_t bytes, unsigned char *out);

#endif
