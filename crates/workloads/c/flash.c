/* The I/O kernel of FLASH, an astrophysics code with blocks of cells: a checkpoint and two plot files.
 *
 * In memory a cell's 24 variables lie together, and each block has 4 layers of guard cells around it, so one
 * variable is 8 bytes here and 8 bytes there; in the file it is one piece per rank. The ranks have 80, 81 or
 * 82 blocks. Plot files hold 4 variables in single precision, at the cells' centres and at their corners.
 */
#include "workload.h"

enum { CELLS };
enum { GUARDS = 4, VARIABLES = 24, PLOTTED = 4 };

static int64_t blocks_of_rank(int64_t rank) { return 80 + rank % 3; }

static int64_t blocks_before(int64_t rank) {
    int64_t threes = rank / 3, rest = rank % 3;
    return 80 * rank + 3 * threes + (rest == 2);
}

struct output {
    const char *name;
    int variables, first, element;
    int64_t edge; /* values of a block along each direction */
    bool guarded; /* taken out of the cells' memory, not out of a buffer */
};

static void add(struct plan *plan, const struct job *job, struct output o, int step) {
    int64_t cells = job->preset->size[CELLS], room = cells + 2 * GUARDS;
    int64_t mine = blocks_of_rank(job->rank), all = blocks_before(job->ranks);
    int64_t block = o.edge * o.edge * o.edge;
    int64_t whole[] = {mine, room, room, room, VARIABLES}, size[] = {mine, cells, cells, cells, 1};
    int file = plan_file(plan, o.variables * all * block * o.element, "%s.%04d", o.name, step);
    for (int v = 0; v < o.variables; v++) {
        int64_t at = (v * all + blocks_before(job->rank)) * block * o.element;
        int64_t start[] = {0, GUARDS, GUARDS, GUARDS, v};
        const struct pattern *where = run_of(plan, at, mine * block * o.element, o.element);
        const struct pattern *memory =
            o.guarded ? box_of(plan, 0, o.element, 5, whole, start, size) : packed(plan, where);
        plan_access(plan, (struct access){.file = file, .variable = o.first + v, .step = step, .how = AT_ALL,
                                          .where = where, .memory = memory});
    }
}

static const char *plan_of(struct plan *plan, const struct job *job) {
    int64_t cells = job->preset->size[CELLS];
    for (int step = 0; step < job->steps; step++) {
        add(plan, job, (struct output){"checkpoint", VARIABLES, 0, 8, cells, true}, step);
        add(plan, job, (struct output){"plot_centre", PLOTTED, VARIABLES, 4, cells, false}, step);
        add(plan, job, (struct output){"plot_corner", PLOTTED, VARIABLES + PLOTTED, 4, cells + 1, false},
            step);
    }
    plan_read_back(plan);
    return NULL;
}

static const struct preset presets[] = {
    {"small", "blocks of 4 x 4 x 4 cells", 1, {4}},
    {"medium", "blocks of 8 x 8 x 8 cells", 1, {8}},
    {"fdp", "32 x 32 x 32 cells: 20 to 20.5 MiB a rank and variable (file-domain partitioning, IV.C)", 1,
     {32}},
    {0},
};

const struct workload flash = {
    .name = "flash",
    .about = "FLASH I/O: 24 variables of 80 to 82 blocks a rank to a checkpoint and two plot files",
    .step = "output",
    .presets = presets,
    .plan = plan_of,
};
