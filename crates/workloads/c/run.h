/* One run of one workload on all ranks. */
#ifndef RUN_H
#define RUN_H

#include "options.h"
#include "store.h"
#include "workload.h"

struct outcome {
    double seconds[SPENT];
    int64_t written, read;             /* bytes */
    int64_t write_calls, read_calls;
    int64_t wrong;                     /* bytes read that are not what they should be */
    int64_t first_wrong;               /* offset of the first of them, in file `wrong_file` */
    int64_t wrong_file;
};

/* Where a file of the workload lies. */
void path_of(const struct options *o, const struct workload *workload, const struct plan *plan, int file,
             char *path, int room);
/* Does what the plan says. Collective. */
void run_plan(const struct options *options, const struct workload *workload, const struct job *job,
              const struct plan *plan, struct outcome *outcome);

#endif
