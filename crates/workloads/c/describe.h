/* What a workload would do, as JSON, by counting through the plans of all ranks; no MPI, no files. */
#ifndef DESCRIBE_H
#define DESCRIBE_H

#include "workload.h"

/* One object with amounts, pieces and files. `job` says how many ranks. Returns why there is no such plan, or
 * NULL. */
const char *describe(const struct workload *workload, struct job job);
/* An array of all workloads with their presets. */
void list_workloads(void);

#endif
