/* Which bytes of a file, or of memory, an access touches, and in which order.
 *
 * A pattern is a value without MPI in it: the datatypes of `types.c` are made from it, and on their own the
 * walks below go through its pieces, to fill and check memory, to count, and for plain pwrite and pread.
 */
#ifndef PATTERN_H
#define PATTERN_H

#include <stdbool.h>
#include <stdint.h>

enum { MOST_DIMS = 5 };

/* A part of an array, in elements. */
struct box {
    int64_t start[MOST_DIMS], size[MOST_DIMS];
};

enum shape {
    RUN,   /* `count` bytes in one piece */
    BOXES, /* `count` boxes of an array in C order, one after the other */
    BLOCKS /* `count` blocks of equal size anywhere */
};

struct pattern {
    enum shape shape;
    int element;   /* bytes of an element: 1, 4 or 8 */
    int64_t start; /* bytes before it */
    int64_t count;
    /* BOXES */
    int dims;
    int64_t whole[MOST_DIMS]; /* of the array */
    const struct box *box;
    /* BLOCKS */
    int64_t block;
    const int64_t *at; /* bytes, from `start` */
};

struct piece {
    int64_t at, bytes;
};

/* A stretch that is contiguous both in the file and in memory. */
struct pair {
    int64_t file, memory, bytes;
};

/* A place in a pattern. */
struct cursor {
    const struct pattern *pattern;
    int64_t shift; /* added to every place */
    int64_t index; /* of the box or block */
    int64_t at[MOST_DIMS];
};

/* A place in two patterns of as many bytes each. */
struct walk {
    struct cursor file, memory;
    struct piece in_file, in_memory;
};

/* Bytes in the pattern. */
int64_t pattern_bytes(const struct pattern *pattern);
/* From the start of the array, or of the first piece, to the end of the last: what the next repetition is
 * moved by, and the memory to allocate. */
int64_t pattern_extent(const struct pattern *pattern);

struct cursor cursor_at(const struct pattern *pattern, int64_t shift);
bool next_piece(struct cursor *cursor, struct piece *piece);

struct walk walk_of(const struct pattern *file, int64_t tile, const struct pattern *memory);
/* At most `most` bytes at a time, in whole elements. */
bool next_pair(struct walk *walk, int64_t most, struct pair *pair);

#endif
