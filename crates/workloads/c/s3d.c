/* Checkpoints of S3D, a combustion code: four arrays over one grid, a file each time, a call per array. */
#include "workload.h"

enum { EDGE };

static const int values[] = {11, 3, 1, 1}; /* mass fractions, velocity, pressure, temperature */

static const char *plan_of(struct plan *plan, const struct job *job) {
    int64_t edge = job->preset->size[EDGE], points = 1, whole[4], start[4] = {0}, size[4];
    int sides[3], place[3];
    grid(job->ranks, 3, sides);
    place_in(sides, 3, job->rank, place);
    for (int d = 0; d < 3; d++) {
        whole[d + 1] = edge * sides[d];
        start[d + 1] = edge * place[d];
        size[d + 1] = edge;
        points *= whole[d + 1];
    }
    const struct pattern *where[4], *memory[4];
    int64_t at = 0;
    for (int v = 0; v < 4; v++) {
        whole[0] = size[0] = values[v];
        where[v] = box_of(plan, at, 8, 4, whole, start, size);
        memory[v] = packed(plan, where[v]);
        at += points * values[v] * 8;
    }
    for (int step = 0; step < job->steps; step++) {
        int file = plan_file(plan, at, "field.%04d", step);
        for (int v = 0; v < 4; v++)
            plan_access(plan, (struct access){.file = file, .variable = v, .step = step, .where = where[v],
                                              .memory = memory[v]});
    }
    plan_read_back(plan);
    return NULL;
}

static const struct preset presets[] = {
    {"small", "12 x 12 x 12 points a rank, 2 checkpoints", 2, {12}},
    {"medium", "50 x 50 x 50 points a rank, 2 checkpoints", 2, {50}},
    {"fdp", "50 x 50 x 50 points, 10 times: 15.26 MiB a rank each (file-domain partitioning, IV.D)", 10,
     {50}},
    {0},
};

const struct workload s3d = {
    .name = "s3d",
    .about = "checkpoints of four arrays over a 3-D grid, with 11, 3, 1 and 1 doubles a point",
    .step = "checkpoint",
    .presets = presets,
    .plan = plan_of,
};
