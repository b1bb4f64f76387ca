/* Seismic processing in two phases: traces are written in long chunks, then read in short ones by others. */
#include "workload.h"

enum { CHUNKS }; /* of all ranks together */
enum { WRITTEN = 96 << 10, READ = 2 << 10 };

/* Every `ranks`-th block, from the rank's own on. */
static const struct pattern *every(struct plan *plan, const struct job *job, int64_t block, int64_t blocks) {
    int64_t mine = (blocks - job->rank + job->ranks - 1) / job->ranks;
    int64_t *at = plan_memory(plan, (size_t)mine * sizeof *at);
    for (int64_t i = 0; i < mine; i++) at[i] = (job->rank + i * job->ranks) * block;
    return blocks_of(plan, 0, block, mine, at);
}

static const char *plan_of(struct plan *plan, const struct job *job) {
    int64_t chunks = job->preset->size[CHUNKS], bytes = chunks * WRITTEN;
    if (job->ranks > chunks) return "there are more ranks than chunks";
    int file = plan_file(plan, bytes, "traces");
    const struct pattern *out = every(plan, job, WRITTEN, chunks), *in = every(plan, job, READ, bytes / READ);
    plan_access(plan, (struct access){.file = file, .how = EACH, .where = out, .memory = packed(plan, out)});
    plan->check = 1;
    plan_access(plan, (struct access){.file = file, .how = EACH, .where = in, .memory = packed(plan, in),
                                      .reading = true, .phase = plan->check});
    return NULL;
}

static const struct preset presets[] = {
    {"small", "32 chunks of 96 KiB", 1, {32}},
    {"medium", "1024 chunks of 96 KiB: 96 MiB", 1, {1024}},
    {"profile", "16384 chunks of 96 KiB: 1.6 GB (profile-guided partitioning)", 1, {16384}},
    {0},
};

const struct workload seismic = {
    .name = "seismic",
    .about = "traces written 96 KiB a call and read 2 KiB a call, by other ranks",
    .presets = presets,
    .plan = plan_of,
};
