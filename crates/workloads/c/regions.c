/* One contiguous region of a shared file for each rank: `contiguous` and `perf`. */
#include "workload.h"

enum { BYTES };

static void add(struct plan *plan, const struct job *job, int file) {
    int64_t bytes = job->preset->size[BYTES];
    for (int step = 0; step < job->steps; step++) {
        const struct pattern *where = run_of(plan, (step * job->ranks + job->rank) * bytes, bytes, 1);
        plan_access(plan, (struct access){.file = file, .step = step, .how = AT, .where = where,
                                          .memory = packed(plan, where)});
    }
}

static int64_t file_bytes(const struct job *job) {
    return job->preset->size[BYTES] * job->ranks * job->steps;
}

static const char *plan_contiguous(struct plan *plan, const struct job *job) {
    int file = plan_file(plan, file_bytes(job), "regions");
    plan->file[file].unique = plan->file[file].sync = true;
    add(plan, job, file);
    plan_read_back(plan);
    return NULL;
}

/* ROMIO's perf.c: write and read; then write, sync and read. */
static const char *plan_perf(struct plan *plan, const struct job *job) {
    add(plan, job, plan_file(plan, file_bytes(job), "plain"));
    int file = plan_file(plan, file_bytes(job), "synced");
    plan->file[file].sync = true;
    add(plan, job, file);
    plan_read_back(plan);
    return NULL;
}

static const struct preset contiguous_presets[] = {
    {"small", "1 MiB a rank", 1, {1 << 20}},
    {"medium", "32 MiB a rank", 1, {32 << 20}},
    {"gpfs", "333 MiB a rank (MPI-IO/GPFS, 4.2.1)", 1, {(int64_t)333 << 20}},
    {0},
};

static const struct preset perf_presets[] = {
    {"small", "256 KiB a rank, to each of two files", 1, {256 << 10}},
    {"medium", "4 MiB a rank, to each of two files", 1, {4 << 20}},
    {"profile", "1 MiB a rank, to each of two files (profile-guided partitioning)", 1, {1 << 20}},
    {0},
};

const struct workload contiguous = {
    .name = "contiguous",
    .about = "a large contiguous region a rank, in one independent call, synced",
    .step = "set of regions",
    .presets = contiguous_presets,
    .plan = plan_contiguous,
};

const struct workload perf = {
    .name = "perf",
    .about = "ROMIO's perf: a block at an offset by rank, once without and once with sync",
    .step = "set of blocks",
    .presets = perf_presets,
    .plan = plan_perf,
};
