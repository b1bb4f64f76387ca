/* A three-dimensional array of ints in blocks over all ranks, as in ROMIO's collective test of that name. */
#include "workload.h"

enum { EDGE };

static const char *plan_of(struct plan *plan, const struct job *job) {
    int64_t edge = job->preset->size[EDGE], whole[3], start[3], size[3];
    int sides[3], place[3];
    grid(job->ranks, 3, sides);
    place_in(sides, 3, job->rank, place);
    int64_t array = 4;
    for (int d = 0; d < 3; d++) {
        whole[d] = edge * sides[d];
        start[d] = edge * place[d];
        size[d] = edge;
        array *= whole[d];
    }
    int file = plan_file(plan, array * job->steps, "array");
    const struct pattern *where = box_of(plan, 0, 4, 3, whole, start, size), *memory = packed(plan, where);
    plan_steps(plan, job->steps, file, where, memory);
    plan_read_back(plan);
    return NULL;
}

static const struct preset presets[] = {
    {"small", "24 x 24 x 24 ints a rank, twice", 2, {24}},
    {"medium", "160 x 160 x 160 ints a rank, twice", 2, {160}},
    {"fdp-128", "128 x 128 x 128 ints a rank, ten times (file-domain partitioning, IV.A)", 10, {128}},
    {"fdp-100", "100 x 100 x 100 ints a rank, ten times: aligned with nothing (the same)", 10, {100}},
    {0},
};

const struct workload coll_perf = {
    .name = "coll_perf",
    .about = "a 3-D array of ints in blocks over all ranks",
    .step = "array",
    .presets = presets,
    .plan = plan_of,
};
