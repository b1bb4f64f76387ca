/* What came out of a run: gathered on rank 0, said on stdout, written as JSON. */
#ifndef REPORT_H
#define REPORT_H

#include <stdio.h>

#include "run.h"

/* Returns, on all ranks, the number of wrong bytes. `json` is used on rank 0 and may be NULL. Collective. */
int64_t report(FILE *json, const struct options *options, const struct workload *workload,
               const struct job *job, const struct plan *plan, const struct outcome *mine);

#endif
