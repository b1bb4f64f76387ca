/* The command line. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "plan.h"

enum { MOST_HINTS = 64 };

struct options {
    char *names;                 /* of workloads, with commas between them */
    const char *preset;
    const char *dir, *file;      /* one of them */
    int steps;                   /* 0: as the preset says */
    double compute_ms, delay_us;
    struct hint hints[MOST_HINTS + 1];
    bool write_only, read_only, keep, overwrite, sync, independent, posix;
    bool describe, list, help;
    int as_ranks;                /* 0: as many as there are */
    uint64_t seed;
    const char *json;            /* a file, or "-"; may be NULL */
};

/* Fills `options`; false with a line in `why` if they make no sense. Keeps pointers into `argv`. */
bool read_options(int argc, char **argv, struct options *options, char *why, int room);
void print_help(void);

#endif
