/* A two-dimensional file of bytes in tiles, one per rank, that may overlap (MPI-Tile-IO). */
#include "workload.h"

/* TOTAL: ROWS is of all tiles together, so that the amount does not depend on the number of ranks. */
enum { WIDTH, ROWS, OVERLAP_X, OVERLAP_Y, TOTAL };

static const char *plan_of(struct plan *plan, const struct job *job) {
    const int64_t *n = job->preset->size;
    int64_t rows = n[TOTAL] ? n[ROWS] / job->ranks : n[ROWS];
    if (n[TOTAL] && n[ROWS] % job->ranks) return "the number of ranks has to be a power of two";
    int sides[2], place[2]; /* tiles down, tiles across */
    grid(job->ranks, 2, sides);
    int across = rows == 1 ? job->ranks : sides[0], down = job->ranks / across;
    sides[0] = down;
    sides[1] = across;
    place_in(sides, 2, job->rank, place);
    int64_t whole[] = {down * rows - (down - 1) * n[OVERLAP_Y],
                       across * n[WIDTH] - (across - 1) * n[OVERLAP_X]};
    int64_t start[] = {place[0] * (rows - n[OVERLAP_Y]), place[1] * (n[WIDTH] - n[OVERLAP_X])};
    int64_t size[] = {rows, n[WIDTH]};
    const struct pattern *where = box_of(plan, 0, 1, 2, whole, start, size), *memory = packed(plan, where);
    int file = plan_file(plan, whole[0] * whole[1] * job->steps, "tiles");
    plan_steps(plan, job->steps, file, where, memory);
    plan_read_back(plan);
    return NULL;
}

static const struct preset presets[] = {
    {"small", "tiles of 256 rows of 1000 bytes that overlap by 10 rows and 32 bytes", 1, {1000, 256, 32, 10}},
    {"medium", "tiles of 4096 rows of 4 KiB that overlap by 16 rows and 128 bytes", 1, {4096, 4096, 128, 16}},
    {"ahpios", "1 GiB in rows of 4 KiB for any number of ranks (AHPIOS, table 3)", 1,
     {4096, 262144, 0, 0, 1}},
    {"profile", "32 KiB a rank, 2 KiB of it shared with the next (profile-guided partitioning)", 1,
     {32768, 1, 2048, 0}},
    {0},
};

const struct workload tile = {
    .name = "tile",
    .about = "a 2-D file of bytes in tiles that may overlap",
    .step = "file image",
    .presets = presets,
    .plan = plan_of,
};
