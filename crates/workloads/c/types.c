#include "types.h"

#include <limits.h>
#include <stdlib.h>

#include "plan.h"

MPI_Datatype element_type(const struct pattern *p) {
    return p->element == 8 ? MPI_DOUBLE : p->element == 4 ? MPI_INT : MPI_BYTE;
}

static int as_int(int64_t n) {
    if (n > INT_MAX) give_up("%lld is more than MPI counts to", (long long)n);
    return (int)n;
}

static void *list(size_t count, size_t each) {
    void *memory = malloc((count ? count : 1) * each);
    if (!memory) give_up("no memory for a datatype");
    return memory;
}

static MPI_Datatype box_type(const struct pattern *p, const struct box *box) {
    int whole[MOST_DIMS], size[MOST_DIMS], start[MOST_DIMS];
    for (int d = 0; d < p->dims; d++) {
        whole[d] = as_int(p->whole[d]);
        size[d] = as_int(box->size[d]);
        start[d] = as_int(box->start[d]);
    }
    MPI_Datatype type;
    MPI_Type_create_subarray(p->dims, whole, size, start, MPI_ORDER_C, element_type(p), &type);
    return type;
}

/* Several boxes of one array: a structure of subarrays that all start where the array starts. */
static MPI_Datatype boxes_type(const struct pattern *p) {
    size_t count = (size_t)p->count;
    if (count == 1) return box_type(p, p->box);
    int *ones = list(count, sizeof *ones);
    MPI_Aint *starts = list(count, sizeof *starts);
    MPI_Datatype *types = list(count, sizeof *types), type;
    for (size_t i = 0; i < count; i++) {
        ones[i] = 1;
        starts[i] = 0;
        types[i] = box_type(p, &p->box[i]);
    }
    MPI_Type_create_struct(as_int(p->count), ones, starts, types, &type);
    for (size_t i = 0; i < count; i++) MPI_Type_free(&types[i]);
    free(ones);
    free(starts);
    free(types);
    return type;
}

static MPI_Datatype blocks_type(const struct pattern *p) {
    MPI_Aint *starts = list((size_t)p->count, sizeof *starts);
    for (int64_t i = 0; i < p->count; i++) starts[i] = (MPI_Aint)p->at[i];
    MPI_Datatype type;
    MPI_Type_create_hindexed_block(as_int(p->count), as_int(p->block), starts, MPI_BYTE, &type);
    free(starts);
    return type;
}

MPI_Datatype type_of(const struct pattern *p) {
    MPI_Datatype type;
    if (p->shape == RUN || pattern_bytes(p) == 0)
        MPI_Type_contiguous(1, element_type(p), &type);
    else
        type = p->shape == BOXES ? boxes_type(p) : blocks_type(p);
    MPI_Type_commit(&type);
    return type;
}

void drop_type(MPI_Datatype *type) {
    if (*type != MPI_DATATYPE_NULL) MPI_Type_free(type);
}
