/* Patterns as MPI datatypes. */
#ifndef TYPES_H
#define TYPES_H

#include <mpi.h>

#include "pattern.h"

/* The type of an element. */
MPI_Datatype element_type(const struct pattern *pattern);
/* The pattern from its start on, as a committed type; one of no bytes is an element. To be freed by
 * `drop_type`. */
MPI_Datatype type_of(const struct pattern *pattern);
void drop_type(MPI_Datatype *type);

#endif
