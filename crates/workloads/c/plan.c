#include "plan.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct chunk {
    struct chunk *next;
    _Alignas(16) unsigned char memory[];
};

void *plan_memory(struct plan *plan, size_t bytes) {
    struct chunk *chunk = malloc(sizeof *chunk + bytes);
    if (!chunk) give_up("no memory for %zu bytes of a plan", bytes);
    chunk->next = plan->chunks;
    plan->chunks = chunk;
    return chunk->memory;
}

void plan_free(struct plan *plan) {
    while (plan->chunks) {
        struct chunk *next = plan->chunks->next;
        free(plan->chunks);
        plan->chunks = next;
    }
    free(plan->file);
    free(plan->access);
    *plan = (struct plan){0};
}

/* Room for one more at the end of an array that grows by doubling. */
static void *grown(void *array, int count, size_t each) {
    if (count & (count - 1)) return array;
    void *larger = realloc(array, (count ? 2 * (size_t)count : 1) * each);
    if (!larger) give_up("no memory for a plan");
    return larger;
}

int plan_file(struct plan *plan, int64_t bytes, const char *format, ...) {
    plan->file = grown(plan->file, plan->files, sizeof *plan->file);
    struct file *file = &plan->file[plan->files];
    *file = (struct file){.bytes = bytes};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(file->name, sizeof file->name, format, arguments);
    va_end(arguments);
    return plan->files++;
}

struct access *plan_access(struct plan *plan, struct access access) {
    plan->access = grown(plan->access, plan->accesses, sizeof *plan->access);
    plan->access[plan->accesses] = access;
    return &plan->access[plan->accesses++];
}

void plan_steps(struct plan *plan, int steps, int file, const struct pattern *where,
                const struct pattern *memory) {
    for (int step = 0; step < steps; step++)
        plan_access(plan, (struct access){.file = file, .step = step, .tile = step, .where = where,
                                          .memory = memory});
}

void plan_read_back(struct plan *plan) {
    int written = plan->accesses;
    plan->check = plan->access[written - 1].phase + 1;
    for (int i = 0; i < written; i++) {
        struct access again = plan->access[i];
        again.reading = true;
        again.phase = plan->check;
        plan_access(plan, again);
    }
}

static struct pattern *pattern_of(struct plan *plan, struct pattern pattern) {
    struct pattern *kept = plan_memory(plan, sizeof *kept);
    *kept = pattern;
    return kept;
}

const struct pattern *run_of(struct plan *plan, int64_t start, int64_t bytes, int element) {
    struct pattern run = {.shape = RUN, .element = element, .start = start, .count = bytes};
    return pattern_of(plan, run);
}

const struct pattern *box_of(struct plan *plan, int64_t file_start, int element, int dims,
                             const int64_t *whole, const int64_t *start, const int64_t *size) {
    struct box *box = plan_memory(plan, sizeof *box);
    struct pattern pattern = {.shape = BOXES, .element = element, .start = file_start, .count = 1,
                              .dims = dims, .box = box};
    for (int d = 0; d < dims; d++) {
        pattern.whole[d] = whole[d];
        box->start[d] = start[d];
        box->size[d] = size[d];
    }
    return pattern_of(plan, pattern);
}

const struct pattern *blocks_of(struct plan *plan, int64_t start, int64_t block, int64_t count,
                                const int64_t *at) {
    return pattern_of(plan, (struct pattern){.shape = BLOCKS, .element = 1, .start = start, .count = count,
                                             .block = block, .at = at});
}

const struct pattern *packed(struct plan *plan, const struct pattern *where) {
    return run_of(plan, 0, pattern_bytes(where), where->element);
}

void split(int64_t n, int64_t parts, int64_t i, int64_t *start, int64_t *size) {
    int64_t each = n / parts, more = n % parts;
    *start = i * each + (i < more ? i : more);
    *size = each + (i < more);
}

static int descending(const void *a, const void *b) { return *(const int *)b - *(const int *)a; }

void grid(int ranks, int dims, int *sides) {
    int factors[32], n = 0;
    for (int f = 2; ranks > 1; f++)
        for (; ranks % f == 0; ranks /= f) factors[n++] = f;
    for (int d = 0; d < dims; d++) sides[d] = 1;
    while (n > 0) { /* the largest factor to the smallest side */
        int *least = &sides[0];
        for (int d = 1; d < dims; d++)
            if (sides[d] < *least) least = &sides[d];
        *least *= factors[--n];
    }
    qsort(sides, (size_t)dims, sizeof *sides, descending);
}

void place_in(const int *sides, int dims, int rank, int *place) {
    for (int d = dims - 1; d >= 0; d--) {
        place[d] = rank % sides[d];
        rank /= sides[d];
    }
}

/* The finaliser of splitmix64. */
uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* A Feistel network over the next power of four; who falls beyond n walks on until within. */
int64_t shuffled(int64_t i, int64_t n, uint64_t seed) {
    int half = 1;
    while (((int64_t)1 << (2 * half)) < n) half++;
    uint64_t mask = ((uint64_t)1 << half) - 1, x = (uint64_t)i;
    do {
        uint64_t left = x >> half, right = x & mask;
        for (uint64_t round = 0; round < 4; round++) {
            uint64_t next = left ^ (mix(right ^ (seed + round) << 40) & mask);
            left = right;
            right = next;
        }
        x = left << half | right;
    } while ((int64_t)x >= n);
    return (int64_t)x;
}

_Noreturn void give_up(const char *format, ...) {
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    fprintf(stderr, "pario-workload: %s\n", line);
    exit(1);
}
