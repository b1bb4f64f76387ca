#include "pattern.h"

static int64_t product(const int64_t *sizes, int from, int to) {
    int64_t all = 1;
    for (int d = from; d < to; d++) all *= sizes[d];
    return all;
}

int64_t pattern_bytes(const struct pattern *p) {
    int64_t elements = 0;
    switch (p->shape) {
    case RUN: return p->count;
    case BLOCKS: return p->count * p->block;
    case BOXES:
        for (int64_t i = 0; i < p->count; i++) elements += product(p->box[i].size, 0, p->dims);
    }
    return elements * p->element;
}

int64_t pattern_extent(const struct pattern *p) {
    int64_t end = 0;
    switch (p->shape) {
    case RUN: return p->count;
    case BOXES: return product(p->whole, 0, p->dims) * p->element;
    case BLOCKS:
        for (int64_t i = 0; i < p->count; i++)
            if (p->at[i] + p->block > end) end = p->at[i] + p->block;
    }
    return end;
}

struct cursor cursor_at(const struct pattern *pattern, int64_t shift) {
    return (struct cursor){.pattern = pattern, .shift = shift + pattern->start};
}

/* The outermost dimension that a contiguous stretch of the box reaches into: all below it are whole. */
static int reach(const struct pattern *p, const struct box *box) {
    int d = p->dims - 1;
    while (d > 0 && box->size[d] == p->whole[d]) d--;
    return d;
}

static bool next_in_box(struct cursor *c, struct piece *piece) {
    const struct pattern *p = c->pattern;
    while (c->index < p->count && product(p->box[c->index].size, 0, p->dims) == 0) c->index++;
    if (c->index == p->count) return false;
    const struct box *box = &p->box[c->index];
    int inner = reach(p, box);
    int64_t at = 0;
    for (int d = 0; d < p->dims; d++) at = at * p->whole[d] + box->start[d] + (d < inner ? c->at[d] : 0);
    piece->at = c->shift + at * p->element;
    piece->bytes = product(box->size, inner, p->dims) * p->element;
    int d = inner - 1;
    while (d >= 0 && ++c->at[d] == box->size[d]) c->at[d--] = 0;
    if (d < 0) c->index++;
    return true;
}

bool next_piece(struct cursor *c, struct piece *piece) {
    const struct pattern *p = c->pattern;
    switch (p->shape) {
    case RUN:
        *piece = (struct piece){c->shift, p->count};
        return c->index++ == 0 && p->count > 0;
    case BLOCKS:
        if (c->index == p->count) return false;
        *piece = (struct piece){c->shift + p->at[c->index++], p->block};
        return true;
    case BOXES: return next_in_box(c, piece);
    }
    return false;
}

struct walk walk_of(const struct pattern *file, int64_t tile, const struct pattern *memory) {
    int64_t shift = tile ? tile * pattern_extent(file) : 0;
    return (struct walk){.file = cursor_at(file, shift), .memory = cursor_at(memory, 0)};
}

bool next_pair(struct walk *w, int64_t most, struct pair *pair) {
    if (w->in_file.bytes == 0 && !next_piece(&w->file, &w->in_file)) return false;
    if (w->in_memory.bytes == 0 && !next_piece(&w->memory, &w->in_memory)) return false;
    int64_t bytes = most;
    if (w->in_file.bytes < bytes) bytes = w->in_file.bytes;
    if (w->in_memory.bytes < bytes) bytes = w->in_memory.bytes;
    *pair = (struct pair){w->in_file.at, w->in_memory.at, bytes};
    w->in_file.at += bytes;
    w->in_file.bytes -= bytes;
    w->in_memory.at += bytes;
    w->in_memory.bytes -= bytes;
    return true;
}
