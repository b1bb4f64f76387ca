/* The solution of NASA's block-tridiagonal solver, written after every fifth time step (BTIO).
 *
 * A cube of points with five doubles each is cut into p^3 cells for p^2 ranks; each rank has p of them along
 * a diagonal, one in every layer, so that it has work in each phase of a sweep in any direction. In memory
 * each cell has two layers of ghost points around it. The view is set once; the arrays follow each other in
 * the file.
 */
#include "workload.h"

#include <math.h>

enum { EDGE };
enum { GHOSTS = 2, VALUES = 5 };

static const char *plan_of(struct plan *plan, const struct job *job) {
    int64_t edge = job->preset->size[EDGE], p = llround(sqrt(job->ranks));
    if (p * p != job->ranks) return "the number of ranks has to be a square";
    if (p > edge) return "there are more ranks than cells";
    int64_t room = (edge + p - 1) / p + 2 * GHOSTS; /* for the largest cell with its ghost points */
    struct pattern *where = plan_memory(plan, sizeof *where), *memory = plan_memory(plan, sizeof *memory);
    struct box *cells = plan_memory(plan, (size_t)p * sizeof *cells);
    struct box *kept = plan_memory(plan, (size_t)p * sizeof *kept);
    *where = (struct pattern){.shape = BOXES, .element = 8, .count = p, .dims = 4,
                              .whole = {edge, edge, edge, VALUES}, .box = cells};
    *memory = (struct pattern){.shape = BOXES, .element = 8, .count = p, .dims = 5,
                               .whole = {p, room, room, room, VALUES}, .box = kept};
    for (int64_t c = 0; c < p; c++) {
        int64_t x = (job->rank % p + c) % p, y = (job->rank / p + p - c) % p, *start = cells[c].start,
                *size = cells[c].size;
        split(edge, p, c, &start[0], &size[0]);
        split(edge, p, y, &start[1], &size[1]);
        split(edge, p, x, &start[2], &size[2]);
        start[3] = 0;
        size[3] = VALUES;
        kept[c] = (struct box){.start = {c, GHOSTS, GHOSTS, GHOSTS, 0},
                               .size = {1, size[0], size[1], size[2], VALUES}};
    }
    int file = plan_file(plan, pattern_extent(where) * job->steps, "solution");
    plan_steps(plan, job->steps, file, where, memory);
    plan_read_back(plan);
    return NULL;
}

static const struct preset presets[] = {
    {"small", "12 x 12 x 12 points, 5 arrays (class S)", 5, {12}},
    {"medium", "64 x 64 x 64 points, 5 arrays", 5, {64}},
    {"bt-A", "class A: 64 x 64 x 64 points, 40 arrays", 40, {64}},
    {"bt-B", "class B: 102 x 102 x 102 points, 40 arrays (AHPIOS runs have --steps 5)", 40, {102}},
    {"bt-C", "class C: 162 x 162 x 162 points, 40 arrays", 40, {162}},
    {0},
};

const struct workload btio = {
    .name = "btio",
    .about = "a cube of points in diagonal cells, with ghost points in memory; square numbers of ranks",
    .step = "array",
    .presets = presets,
    .plan = plan_of,
};
