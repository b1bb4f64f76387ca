/* The program's memory: how a stream of etypes lies in it, and what every byte should be. */
#ifndef MEMORY_H
#define MEMORY_H

#include "shapes.h"

enum { GAP = 0xEE }; /* in memory that belongs to no element */

/* The byte at a place of the file: what the ranks write, and what was there before. */
static unsigned char fresh(MPI_Offset at) { return (unsigned char)value(at, 1); }
static unsigned char stale(MPI_Offset at) { return (unsigned char)value(at, 2); }

struct memory {
    unsigned char *bytes;
    size_t size;
    const char *kind; /* flat, spread, backwards, guarded */
    int unit;
    MPI_Offset elements;
};

/* Where element `i` lies. Guarded blocks are cubes of 4*4*4 with one layer of other cells around. */
static size_t address(const struct memory *m, MPI_Offset i)
{
    size_t unit = (size_t)m->unit, at = (size_t)i;
    if (strcmp(m->kind, "spread") == 0) return 2 * at * unit;
    if (strcmp(m->kind, "backwards") == 0) return ((size_t)m->elements - 1 - at) * unit;
    if (strcmp(m->kind, "guarded") == 0) {
        size_t cell = at % CELLS, x = cell % 4 + 1, y = cell / 4 % 4 + 1, z = cell / 16 + 1;
        return (at / CELLS * 216 + z * 36 + y * 6 + x) * unit;
    }
    return at * unit;
}

static struct memory new_memory(const char *kind, int unit, MPI_Offset elements)
{
    struct memory m = {.kind = kind, .unit = unit, .elements = elements};
    m.size = ((size_t)elements * 2 + (size_t)(elements / CELLS + 1) * 216) * (size_t)unit;
    m.bytes = zeroed(m.size);
    memset(m.bytes, GAP, m.size);
    return m;
}

/* The datatype and the count of `n` elements. */
static MPI_Datatype memory_type(const struct memory *m, MPI_Datatype etype, MPI_Offset n, int *count)
{
    MPI_Datatype type;
    *count = (int)n;
    if (strcmp(m->kind, "spread") == 0) {
        MUST(MPI_Type_create_resized(etype, 0, 2 * m->unit, &type));
    } else if (strcmp(m->kind, "backwards") == 0) {
        MUST(MPI_Type_create_hvector((int)n, 1, -(MPI_Aint)m->unit, etype, &type));
        *count = n > 0;
    } else if (strcmp(m->kind, "guarded") == 0) {
        int total[] = {6, 6, 6}, size[] = {4, 4, 4}, start[] = {1, 1, 1};
        EXPECT(n % CELLS == 0);
        MUST(MPI_Type_create_subarray(3, total, size, start, MPI_ORDER_C, etype, &type));
        *count = (int)(n / CELLS);
    } else {
        MUST(MPI_Type_contiguous(1, etype, &type));
    }
    MUST(MPI_Type_commit(&type));
    return type;
}

static void *memory_base(const struct memory *m, MPI_Offset from)
{
    if (strcmp(m->kind, "guarded") == 0) return m->bytes + from / CELLS * 216 * m->unit;
    return m->elements == 0 ? m->bytes : m->bytes + address(m, from < m->elements ? from : m->elements - 1);
}

/* Fills the memory with what belongs into the runs. */
static void fill(const struct memory *m, const struct part *p)
{
    MPI_Offset i = 0;
    for (int r = 0; r < p->count; r++)
        for (MPI_Offset k = 0; k < p->runs[r].len; k++, i++)
            m->bytes[address(m, i / m->unit) + (size_t)(i % m->unit)] = fresh(p->runs[r].at + k);
}

/* The memory holds the first `bytes` bytes of the runs as `image` has them, and nothing else was touched. */
static void verify(const struct memory *m, const struct part *p, MPI_Offset bytes, const unsigned char *image)
{
    unsigned char *want = zeroed(m->size);
    MPI_Offset i = 0;
    memset(want, GAP, m->size);
    for (int r = 0; r < p->count; r++)
        for (MPI_Offset k = 0; k < p->runs[r].len && i < bytes; k++, i++)
            want[address(m, i / m->unit) + (size_t)(i % m->unit)] = image[p->runs[r].at + k];
    for (size_t at = 0; at < m->size; at++)
        if (m->bytes[at] != want[at])
            FAIL("memory byte %zu of %zu is %02x, not %02x", at, m->size, m->bytes[at], want[at]);
    free(want);
}

#endif
