/* pario-workload: the file accesses of scientific programs, as one MPI program. `--help` says the rest.
 *
 * `plan.h` and `pattern.h` say what a workload is, one file each has the workloads, `run.c` carries a plan
 * out on files (`store.c`), `report.c` and `describe.c` print.
 */
#define _XOPEN_SOURCE 700
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "describe.h"
#include "report.h"

enum { WELL, ERROR, USAGE, WRONG };

/* The workloads that were asked for, one per call; NULL after the last. */
static const struct workload *next_workload(const struct options *o, char **rest, int *number, char *why,
                                            int room) {
    if (strcmp(o->names, "all") == 0) return workloads[(*number)++];
    char *name = (*number)++ == 0 ? strtok_r(o->names, ",", rest) : strtok_r(NULL, ",", rest);
    const struct workload *found = name ? workload_called(name) : NULL;
    if (name && !found) snprintf(why, (size_t)room, "there is no workload '%s' (--help lists them)", name);
    return found;
}

/* The preset and the number of steps of a workload; false with a line in `why`. */
static bool size_up(const struct options *o, const struct workload *w, struct job *job, char *why, int room) {
    job->preset = preset_called(w, o->preset);
    if (!job->preset)
        return snprintf(why, (size_t)room, "%s has no preset '%s' (try --help)", w->name, o->preset), false;
    if (o->steps && !w->step) return snprintf(why, (size_t)room, "%s has no steps", w->name), false;
    job->steps = o->steps ? o->steps : job->preset->steps;
    return true;
}

/* One workload, carried out or described. */
static int one(const struct options *o, const struct workload *w, struct job *job, FILE *json, char *why,
               int room) {
    if (!size_up(o, w, job, why, room)) return USAGE;
    const char *refusal;
    if (o->describe) {
        refusal = job->rank == 0 ? describe(w, *job) : NULL;
        if (refusal) snprintf(why, (size_t)room, "%s on %d ranks: %s", w->name, job->ranks, refusal);
        return refusal ? USAGE : WELL;
    }
    struct plan plan = {0};
    struct outcome outcome;
    int64_t wrong = 0;
    refusal = w->plan(&plan, job);
    if (refusal) {
        snprintf(why, (size_t)room, "%s on %d ranks: %s", w->name, job->ranks, refusal);
    } else {
        run_plan(o, w, job, &plan, &outcome);
        wrong = report(json, o, w, job, &plan, &outcome);
    }
    plan_free(&plan);
    return refusal ? USAGE : wrong ? WRONG : WELL;
}

static int every(const struct options *o, struct job *job, FILE *json) {
    char why[256] = "", *rest = NULL;
    int number = 0, code = WELL;
    const struct workload *w;
    while ((code == WELL || code == WRONG) && (w = next_workload(o, &rest, &number, why, sizeof why))) {
        int this = one(o, w, job, json, why, sizeof why);
        if (this != WELL) code = this;
    }
    if (*why && job->rank == 0) fprintf(stderr, "pario-workload: %s\n", why);
    return *why ? USAGE : code;
}

int main(int argc, char **argv) {
    struct options options;
    char why[256] = "";
    bool fine = read_options(argc, argv, &options, why, sizeof why);
    if (fine && (options.help || options.list)) {
        if (options.help) print_help();
        if (options.list) list_workloads();
        return WELL;
    }
    struct job job = {.ranks = options.as_ranks, .seed = options.seed};
    if (fine && options.as_ranks) return every(&options, &job, NULL);

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job.ranks);
    int code = USAGE;
    if (fine) {
        FILE *json = NULL;
        if (job.rank == 0 && options.json) {
            json = strcmp(options.json, "-") == 0 ? stdout : fopen(options.json, "w");
            if (!json) give_up("cannot write %s: %s", options.json, strerror(errno));
        }
        code = every(&options, &job, json);
        if (json && (fflush(json) != 0 || ferror(json) || (json != stdout && fclose(json) != 0)))
            give_up("cannot write %s: %s", options.json, strerror(errno));
    } else if (job.rank == 0) {
        fprintf(stderr, "pario-workload: %s\n", why);
    }
    MPI_Finalize();
    return code;
}
