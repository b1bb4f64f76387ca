/* Definitions for all test programs: calls that must succeed, conditions that must hold, and a fill pattern
 * that depends on nothing but the place of a value, so that a file's bytes are the same on every MPI. */
#ifndef CHECK_H
#define CHECK_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int me, ranks;

#define FAIL(...)                                                                                          \
    do {                                                                                                   \
        fprintf(stderr, "%s:%d: rank %d: ", __FILE__, __LINE__, me);                                       \
        fprintf(stderr, __VA_ARGS__);                                                                      \
        fprintf(stderr, "\n");                                                                             \
        fflush(stderr);                                                                                    \
        MPI_Abort(MPI_COMM_WORLD, 1);                                                                      \
    } while (0)

#define MUST(call)                                                                                         \
    do {                                                                                                   \
        int rc_ = (call);                                                                                  \
        if (rc_ != MPI_SUCCESS) {                                                                          \
            char text_[MPI_MAX_ERROR_STRING];                                                              \
            int length_ = 0;                                                                               \
            MPI_Error_string(rc_, text_, &length_);                                                        \
            FAIL("%s gave %d: %s", #call, rc_, text_);                                                     \
        }                                                                                                  \
    } while (0)

#define EXPECT(condition)                                                                                  \
    do {                                                                                                   \
        if (!(condition)) FAIL("not so: %s", #condition);                                                  \
    } while (0)

/* Both sides are printed: use it for numbers. */
#define EQUAL(left, right)                                                                                 \
    do {                                                                                                   \
        long long left_ = (long long)(left), right_ = (long long)(right);                                  \
        if (left_ != right_) FAIL("%s is %lld, not %s = %lld", #left, left_, #right, right_);              \
    } while (0)

#define COUNT(status, type, expected)                                                                      \
    do {                                                                                                   \
        int count_ = -1;                                                                                   \
        MUST(MPI_Get_count(&(status), type, &count_));                                                     \
        EQUAL(count_, expected);                                                                           \
    } while (0)

static inline void begin(int *argc, char ***argv)
{
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (*argc < 2) FAIL("usage: %s FILE", (*argv)[0]);
}

static inline int finish(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (me == 0) printf("passed\n");
    MPI_Finalize();
    return 0;
}

/* A value that tells its own place. */
static inline int32_t value(int64_t place, int salt)
{
    uint64_t x = (uint64_t)place * 0x9E3779B97F4A7C15ull + (uint64_t)salt * 0xD1B54A32D192ED03ull;
    x ^= x >> 29;
    x *= 0xBF58476D1CE4E5B9ull;
    return (int32_t)(x >> 33);
}

static inline void *zeroed(size_t bytes)
{
    void *memory = calloc(bytes ? bytes : 1, 1);
    if (!memory) FAIL("no memory for %zu bytes", bytes);
    return memory;
}

#endif
