/* Blocks of a file dealt out to ranks at random: `discontiguous`, `partitioning` and `ranges`, the tests of
 * MPI-IO on GPFS. All ranks together have every block once, each rank as many as any other.
 */
#include "workload.h"

#include <stdlib.h>

/* BLOCKS_EACH: of a rank. REGION: the part of the file that one view spans. PARTS: pieces within a block that
 * are used, of PART bytes each. */
enum { BLOCK, BLOCKS_EACH, REGION };
enum { PARTS = 2, PART };

static const uint64_t dealt = 1;

static int64_t block_of(const struct job *job, int64_t i) {
    int64_t each = job->preset->size[BLOCKS_EACH];
    return shuffled(job->rank + i * job->ranks, each * job->ranks, dealt);
}

static int ascending(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* This rank's blocks, in ascending order or as they come. */
static int64_t *my_blocks(struct plan *plan, const struct job *job, bool sorted) {
    int64_t each = job->preset->size[BLOCKS_EACH], *mine = plan_memory(plan, (size_t)each * sizeof *mine);
    for (int64_t i = 0; i < each; i++) mine[i] = block_of(job, i);
    if (sorted) qsort(mine, (size_t)each, sizeof *mine, ascending);
    return mine;
}

static const char *plan_discontiguous(struct plan *plan, const struct job *job) {
    const int64_t *n = job->preset->size;
    int64_t each = n[BLOCKS_EACH], bytes = each * job->ranks * n[BLOCK], *at = my_blocks(plan, job, true);
    int file = plan_file(plan, bytes, "blocks");
    plan->file[file].unique = plan->file[file].sync = true;
    int64_t next = 0;
    for (int64_t region = 0; region < bytes; region += n[REGION]) {
        int64_t first = next;
        for (; next < each && at[next] * n[BLOCK] < region + n[REGION]; next++)
            at[next] = at[next] * n[BLOCK] - region;
        const struct pattern *where = blocks_of(plan, region, n[BLOCK], next - first, at + first);
        plan_access(plan, (struct access){.file = file, .where = where, .memory = packed(plan, where)});
    }
    plan_read_back(plan);
    return NULL;
}

static const struct hint shipping[] = {
    {"IBM_largeblock_io", "false"}, {"IBM_io_buffer_size", "16M"}, {0}};

static const char *plan_partitioning(struct plan *plan, const struct job *job) {
    const int64_t *n = job->preset->size;
    int file = plan_file(plan, n[BLOCKS_EACH] * job->ranks * n[BLOCK], "blocks");
    plan->file[file].unique = plan->file[file].sync = true;
    plan->file[file].hints = shipping;
    int64_t *at = my_blocks(plan, job, false);
    for (int64_t i = 0; i < n[BLOCKS_EACH]; i++) at[i] *= n[BLOCK];
    const struct pattern *where = blocks_of(plan, 0, n[BLOCK], n[BLOCKS_EACH], at);
    const struct pattern *memory = packed(plan, where);
    plan_access(plan, (struct access){.file = file, .how = EACH, .where = where, .memory = memory});
    plan_read_back(plan);
    return NULL;
}

/* Where part `part` of a block lies: somewhere in its share of the block, at a whole number of parts. */
static int64_t part_at(const int64_t *n, int64_t block, int64_t part) {
    int64_t share = n[BLOCK] / n[PARTS], places = share / n[PART];
    int64_t place = (int64_t)(mix((uint64_t)(block * n[PARTS] + part)) % (uint64_t)places);
    return block * n[BLOCK] + part * share + place * n[PART];
}

static const char *plan_ranges(struct plan *plan, const struct job *job) {
    const int64_t *n = job->preset->size;
    int64_t each = n[BLOCKS_EACH], *mine = my_blocks(plan, job, true);
    int64_t *at = plan_memory(plan, (size_t)(each * n[PARTS]) * sizeof *at);
    for (int64_t i = 0; i < each; i++)
        for (int64_t part = 0; part < n[PARTS]; part++) at[i * n[PARTS] + part] = part_at(n, mine[i], part);
    int64_t end = part_at(n, each * job->ranks - 1, n[PARTS] - 1) + n[PART];
    int file = plan_file(plan, end, "ranges");
    plan->file[file].sync = true;
    plan->file[file].hints = shipping;
    const struct pattern *where = blocks_of(plan, 0, n[PART], each * n[PARTS], at);
    plan_access(plan, (struct access){.file = file, .where = where, .memory = packed(plan, where)});
    plan_read_back(plan);
    return NULL;
}

static const struct preset discontiguous_presets[] = {
    {"small", "512 KiB a rank, in views of 1 MiB", 1, {1024, 512, 1 << 20}},
    {"medium", "16 MiB a rank, in one view", 1, {1024, 16384, (int64_t)2 << 30}},
    {"gpfs", "333 MiB a rank, in views of 2 GiB (MPI-IO/GPFS, 4.2.2)", 1,
     {1024, 333 << 10, (int64_t)2 << 30}},
    {0},
};

static const struct preset partitioning_presets[] = {
    {"small", "64 blocks of 8 KiB a rank", 1, {8192, 64}},
    {"medium", "2000 blocks of 8 KiB a rank", 1, {8192, 2000}},
    {"gpfs", "10,000 blocks of 8 KiB a rank (MPI-IO/GPFS, 4.2.3)", 1, {8192, 10000}},
    {0},
};

static const struct preset ranges_presets[] = {
    {"small", "8 blocks of 64 KiB a rank, 16 pieces of 1 KiB in each", 1, {65536, 8, 16, 1024}},
    {"medium", "100 blocks of 256 KiB a rank, 4 pieces of 1 KiB in each", 1, {262144, 100, 4, 1024}},
    {"gpfs", "100 blocks of 256 KiB a rank, 16 pieces of 1 KiB in each (MPI-IO/GPFS, 4.2.4)", 1,
     {262144, 100, 16, 1024}},
    {0},
};

const struct workload discontiguous = {
    .name = "discontiguous",
    .about = "blocks of 1 KiB dealt out at random, by datatype views, synced",
    .presets = discontiguous_presets,
    .plan = plan_discontiguous,
};

const struct workload partitioning = {
    .name = "partitioning",
    .about = "blocks dealt out at random, an independent call each, with the hints for file partitioning",
    .presets = partitioning_presets,
    .plan = plan_partitioning,
};

const struct workload ranges = {
    .name = "ranges",
    .about = "short pieces within blocks dealt out at random, with the hints for data shipping",
    .presets = ranges_presets,
    .plan = plan_ranges,
};
