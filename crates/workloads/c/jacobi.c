/* Jacobi sweeps over a grid that does not fit in memory: read a slab and its rim, average, write.
 *
 * Two files take turns as source and target; a sweep reads what all ranks wrote in the one before. The grid
 * starts as i^2 + j^2 + a i + b j + c, of which the average of the four neighbours is the value itself plus
 * one: after s sweeps every point is its first value plus s, as long as the points on the rim, which are
 * given, follow. All these numbers are whole and small, so each byte of each sweep is known beforehand, and
 * yet it comes from the data read.
 */
#include "workload.h"

#include <string.h>

enum { ROWS, COLUMNS, SLABS };

static double exact(const struct job *job, int sweep, int64_t i, int64_t j) {
    int64_t seed = (int64_t)(mix(job->seed) >> 1);
    int64_t a = seed % 1009, b = seed / 1009 % 1013, c = seed / 1022117 % 1019;
    return (double)(i * i + j * j + a * i + b * j + c + sweep);
}

/* The step of an access is the number of sweeps that its data has behind it. */
static void make(const struct job *job, const struct access *access, int64_t at, int64_t bytes,
                 unsigned char *out) {
    int64_t columns = job->preset->size[COLUMNS];
    for (int64_t b = 0; b < bytes; b += 8) {
        int64_t index = (at + b) / 8;
        double value = exact(job, access->step, index / columns, index % columns);
        memcpy(out + b, &value, 8);
    }
}

static void compute(const struct job *job, const struct access *access, const struct access *input,
                    const unsigned char *in, unsigned char *out) {
    const struct box *to = access->where->box;
    const double *old = (const double *)in;
    double *new = (double *)out;
    int64_t rows = job->preset->size[ROWS], columns = job->preset->size[COLUMNS];
    for (int64_t i = to->start[0]; i < to->start[0] + to->size[0]; i++)
        for (int64_t j = to->start[1]; j < to->start[1] + to->size[1]; j++) {
            bool rim = i == 0 || j == 0 || i == rows - 1 || j == columns - 1;
            if (rim || access->step == 0) {
                *new++ = exact(job, access->step, i, j);
                continue;
            }
            const struct box *from = input->where->box;
            const double *at = old + (i - from->start[0]) * from->size[1] + (j - from->start[1]);
            *new++ = (at[-from->size[1]] + at[from->size[1]] + at[-1] + at[1]) / 4;
        }
}

/* A slab of this rank's part of the grid, with `halo` more points on each side where there are any. */
static const struct pattern *slab(struct plan *plan, const struct job *job, int64_t number, int64_t halo) {
    const int64_t *n = job->preset->size;
    int sides[2], place[2];
    grid(job->ranks, 2, sides);
    place_in(sides, 2, job->rank, place);
    int64_t start[2], size[2], first, rows;
    split(n[ROWS], sides[0], place[0], &first, &rows);
    split(rows, n[SLABS], number, &start[0], &size[0]);
    start[0] += first;
    split(n[COLUMNS], sides[1], place[1], &start[1], &size[1]);
    for (int d = 0; d < 2; d++) {
        int64_t end = start[d] + size[d] + halo;
        start[d] = start[d] > halo ? start[d] - halo : 0;
        size[d] = (end < n[d] ? end : n[d]) - start[d];
    }
    return box_of(plan, 0, 8, 2, n, start, size);
}

static const char *plan_of(struct plan *plan, const struct job *job) {
    const int64_t *n = job->preset->size;
    int sides[2];
    grid(job->ranks, 2, sides);
    if (n[ROWS] / sides[0] < n[SLABS] || n[COLUMNS] < sides[1])
        return "there are too many ranks for the grid";
    for (int i = 0; i < 2; i++) plan_file(plan, n[ROWS] * n[COLUMNS] * 8, "grid%d", i);
    for (int step = 0; step <= job->steps; step++)
        for (int64_t s = 0; s < n[SLABS]; s++) {
            struct access access = {.phase = step, .step = step, .file = step % 2};
            if (step > 0) {
                struct access before = {.phase = step, .step = step - 1, .reading = true};
                before.file = (step - 1) % 2;
                before.where = slab(plan, job, s, 1);
                before.memory = packed(plan, before.where);
                plan_access(plan, before);
            }
            access.where = slab(plan, job, s, 0);
            access.memory = packed(plan, access.where);
            plan_access(plan, access);
        }
    plan->check = job->steps + 1;
    for (int step = job->steps - 1; step <= job->steps; step++)
        for (int64_t s = 0; s < n[SLABS]; s++) {
            struct access access = {.phase = plan->check, .step = step, .file = step % 2, .reading = true};
            access.where = slab(plan, job, s, 0);
            access.memory = packed(plan, access.where);
            plan_access(plan, access);
        }
    return NULL;
}

static const struct preset presets[] = {
    {"small", "256 x 128 points, 2 sweeps", 2, {256, 128, 2}},
    {"medium", "2048 x 1024 points: 16 MiB a file, 4 sweeps", 4, {2048, 1024, 4}},
    {"profile", "4096 x 2048 points: 64 MiB a file, 1 sweep (profile-guided partitioning)", 1,
     {4096, 2048, 8}},
    {0},
};

const struct workload jacobi = {
    .name = "jacobi",
    .about = "out-of-core Jacobi sweeps between two files, in blocks with halo",
    .step = "sweep",
    .presets = presets,
    .plan = plan_of,
    .make = make,
    .compute = compute,
};
