/* Patterns of collective access: which bytes of the file and of its memory each rank has, as datatypes.
 *
 *   block3d-N  an N x N x N array of ints in blocks, row by row (coll_perf)
 *   bt         80 x 80 x 80 points of 5 doubles in diagonal blocks; ghost cells in memory (BTIO)
 *   s3d        four arrays over 64 x 64 x 32 points with 11, 3, 1 and 1 doubles each, a call per array (S3D)
 *   flash      24 variables, 80 + rank mod 3 blocks of 8 x 8 x 8 doubles, guard cells in memory; contiguous
 *              in the file; a call per variable (FLASH I/O)
 *   tiles      a tile of 32-byte elements per rank; reads overlap by 16 elements (MPI-Tile-IO)
 *   random-N   blocks of N bytes, each owned by a random rank; 16 MiB in all
 *   pieces-N   pieces of N bytes, the ranks take turns; 16 MiB in all
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOTAL = 16 << 20, MOST_CALLS = 24 };

static int rank, ranks;

static void check(int code, const char *what) {
    if (code == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(code, text, &length);
    fprintf(stderr, "collective: rank %d: %s: %s\n", rank, what, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void check_system(int good, const char *what) {
    if (good) return;
    fprintf(stderr, "collective: rank %d: ", rank);
    perror(what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void *allocate(size_t bytes) {
    void *memory = malloc(bytes ? bytes : 1);
    check_system(memory != NULL, "malloc");
    return memory;
}

/* One collective call: this rank's bytes as a type over the file, from `start`, and as a type over memory. */
struct access {
    MPI_Offset start;
    MPI_Datatype file, memory;
    int count;        /* of `memory` */
    size_t at, bytes; /* where in the rank's memory; how much data */
};

struct plan {
    int calls;
    struct access call[MOST_CALLS];
    size_t file_bytes, memory_bytes;
};

/* Adds a call; the memory is contiguous unless a type for it is given. */
static void add(struct plan *plan, MPI_Offset start, MPI_Datatype file, MPI_Datatype memory, size_t span) {
    int bytes;
    check(MPI_Type_commit(&file), "type_commit");
    check(MPI_Type_size(file, &bytes), "type_size");
    if (memory != MPI_BYTE) check(MPI_Type_commit(&memory), "type_commit");
    struct access *call = &plan->call[plan->calls++];
    call->start = start;
    call->file = file;
    call->memory = memory;
    call->count = memory == MPI_BYTE ? bytes : 1;
    call->at = plan->memory_bytes;
    call->bytes = (size_t)bytes;
    plan->memory_bytes += memory == MPI_BYTE ? (size_t)bytes : span;
}

static void drop(struct plan *plan) {
    for (int i = 0; i < plan->calls; i++) {
        check(MPI_Type_free(&plan->call[i].file), "type_free");
        if (plan->call[i].memory != MPI_BYTE) check(MPI_Type_free(&plan->call[i].memory), "type_free");
    }
}

static MPI_Datatype block(int dims, const int *sizes, const int *counts, const int *starts, MPI_Datatype of) {
    MPI_Datatype type;
    check(MPI_Type_create_subarray(dims, sizes, counts, starts, MPI_ORDER_C, of, &type), "create_subarray");
    return type;
}

/* Part `i` of `parts` of `n`. */
static void share(int n, int i, int parts, int *start, int *count) {
    *start = (int)((long)n * i / parts);
    *count = (int)((long)n * (i + 1) / parts) - *start;
}

static void block3d(struct plan *plan, int n) {
    int parts[3] = {0, 0, 0}, sizes[3] = {n, n, n}, starts[3], counts[3];
    check(MPI_Dims_create(ranks, 3, parts), "dims_create");
    share(n, rank / (parts[1] * parts[2]), parts[0], &starts[0], &counts[0]);
    share(n, rank / parts[2] % parts[1], parts[1], &starts[1], &counts[1]);
    share(n, rank % parts[2], parts[2], &starts[2], &counts[2]);
    add(plan, 0, block(3, sizes, counts, starts, MPI_INT), MPI_BYTE, 0);
    plan->file_bytes = (size_t)n * (size_t)n * (size_t)n * sizeof(int);
}

/* A square number of ranks q * q: the cube is cut in q parts each way, and in each slab a rank has one cell,
 * which moves along the diagonal from slab to slab. Another number: slabs are cut in one direction only. */
static void bt(struct plan *plan) {
    enum { N = 80, GHOST = 2 };
    int q = 1;
    while (q * q < ranks) q++;
    int square = q * q == ranks, slabs = square ? q : ranks, across = square ? q : 1;
    MPI_Datatype point, file, memory;
    MPI_Datatype *in_file = allocate((size_t)slabs * sizeof *in_file);
    MPI_Datatype *in_memory = allocate((size_t)slabs * sizeof *in_memory);
    MPI_Aint *zero = allocate((size_t)slabs * sizeof *zero);
    MPI_Aint *at = allocate((size_t)slabs * sizeof *at), span = 0;
    int *one = allocate((size_t)slabs * sizeof *one), sizes[3] = {N, N, N}, inner[3] = {GHOST, GHOST, GHOST};
    check(MPI_Type_contiguous(5, MPI_DOUBLE, &point), "type_contiguous");
    for (int slab = 0; slab < slabs; slab++) {
        int starts[3], counts[3], around[3];
        share(N, slab, slabs, &starts[0], &counts[0]);
        share(N, (rank / slabs + slab) % across, across, &starts[1], &counts[1]);
        share(N, (rank + slab) % slabs, slabs, &starts[2], &counts[2]);
        for (int d = 0; d < 3; d++) around[d] = counts[d] + 2 * GHOST;
        in_file[slab] = block(3, sizes, counts, starts, point);
        in_memory[slab] = block(3, around, counts, inner, point);
        one[slab] = 1;
        zero[slab] = 0;
        at[slab] = span;
        span += (MPI_Aint)around[0] * around[1] * around[2] * 5 * (MPI_Aint)sizeof(double);
    }
    check(MPI_Type_create_struct(slabs, one, zero, in_file, &file), "type_create_struct");
    check(MPI_Type_create_struct(slabs, one, at, in_memory, &memory), "type_create_struct");
    for (int slab = 0; slab < slabs; slab++) {
        check(MPI_Type_free(&in_file[slab]), "type_free");
        check(MPI_Type_free(&in_memory[slab]), "type_free");
    }
    check(MPI_Type_free(&point), "type_free");
    free(in_file), free(in_memory), free(zero), free(at), free(one);
    add(plan, 0, file, memory, (size_t)span);
    plan->file_bytes = (size_t)N * N * N * 5 * sizeof(double);
}

/* Fortran's order: x runs fastest, the number of the component slowest. */
static void s3d(struct plan *plan) {
    enum { X = 64, Y = 64, Z = 32 };
    static const int components[] = {11, 3, 1, 1};
    int parts[3] = {0, 0, 0}, starts[4] = {0}, counts[4];
    check(MPI_Dims_create(ranks, 3, parts), "dims_create");
    share(X, rank % parts[0], parts[0], &starts[3], &counts[3]);
    share(Y, rank / parts[0] % parts[1], parts[1], &starts[2], &counts[2]);
    share(Z, rank / (parts[0] * parts[1]), parts[2], &starts[1], &counts[1]);
    for (int i = 0; i < 4; i++) {
        int sizes[4] = {components[i], Z, Y, X};
        counts[0] = components[i];
        add(plan, (MPI_Offset)plan->file_bytes, block(4, sizes, counts, starts, MPI_DOUBLE), MPI_BYTE, 0);
        plan->file_bytes += (size_t)components[i] * X * Y * Z * sizeof(double);
    }
}

static void flash(struct plan *plan) {
    enum { VARIABLES = 24, N = 8, GUARD = 4, AROUND = N + 2 * GUARD };
    enum { BLOCK = N * N * N * (int)sizeof(double) };
    int base = ranks <= 4 ? 80 : 320 / ranks, mine = base + rank % 3, before = 0, all = 0;
    for (int r = 0; r < ranks; r++) {
        if (r < rank) before += base + r % 3;
        all += base + r % 3;
    }
    int sizes[4] = {mine, AROUND, AROUND, AROUND}, counts[4] = {mine, N, N, N};
    int starts[4] = {0, GUARD, GUARD, GUARD};
    for (int v = 0; v < VARIABLES; v++) {
        MPI_Datatype file;
        check(MPI_Type_contiguous(mine * BLOCK, MPI_BYTE, &file), "type_contiguous");
        add(plan, ((MPI_Offset)v * all + before) * BLOCK, file, block(4, sizes, counts, starts, MPI_DOUBLE),
            (size_t)mine * AROUND * AROUND * AROUND * sizeof(double));
    }
    plan->file_bytes = (size_t)VARIABLES * (size_t)all * BLOCK;
}

static void tiles(struct plan *plan, int overlap) {
    enum { ELEMENT = 32, WIDTH = 512 };
    int parts[2] = {0, 0}, sizes[2], starts[2], counts[2], tile[2] = {TOTAL / ranks / WIDTH / ELEMENT, WIDTH};
    check(MPI_Dims_create(ranks, 2, parts), "dims_create");
    int across[2] = {parts[1], parts[0]}, mine[2] = {rank / parts[0], rank % parts[0]};
    for (int d = 0; d < 2; d++) {
        sizes[d] = tile[d] * across[d];
        int end = (mine[d] + 1) * tile[d] + overlap;
        starts[d] = mine[d] * tile[d] - overlap;
        if (starts[d] < 0) starts[d] = 0;
        counts[d] = (end < sizes[d] ? end : sizes[d]) - starts[d];
    }
    MPI_Datatype element;
    check(MPI_Type_contiguous(ELEMENT, MPI_BYTE, &element), "type_contiguous");
    add(plan, 0, block(2, sizes, counts, starts, element), MPI_BYTE, 0);
    check(MPI_Type_free(&element), "type_free");
    plan->file_bytes = (size_t)sizes[0] * (size_t)sizes[1] * ELEMENT;
}

static uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static void random_blocks(struct plan *plan, int size) {
    int blocks = TOTAL / size, mine = 0, *starts = allocate((size_t)blocks * sizeof *starts);
    for (int b = 0; b < blocks; b++)
        if (mix((uint64_t)b) % (uint64_t)ranks == (uint64_t)rank) starts[mine++] = b * size;
    MPI_Datatype file;
    check(MPI_Type_create_indexed_block(mine, size, starts, MPI_BYTE, &file), "type_create_indexed_block");
    free(starts);
    add(plan, 0, file, MPI_BYTE, 0);
    plan->file_bytes = (size_t)blocks * (size_t)size;
}

static void pieces(struct plan *plan, int size) {
    int count = TOTAL / ranks / size;
    MPI_Datatype file;
    check(MPI_Type_vector(count, size, ranks * size, MPI_BYTE, &file), "type_vector");
    add(plan, (MPI_Offset)rank * size, file, MPI_BYTE, 0);
    plan->file_bytes = (size_t)count * (size_t)ranks * (size_t)size;
}

/* The number after the dash; 0 if the pattern has another name. */
static int number(const char *pattern, const char *name) {
    size_t length = strlen(name);
    if (strncmp(pattern, name, length) != 0 || pattern[length] != '-') return 0;
    int n = atoi(pattern + length + 1);
    return n > 0 && n <= TOTAL / ranks ? n : 0;
}

static struct plan make(const char *pattern, int reading) {
    struct plan plan = {0};
    int n;
    if ((n = number(pattern, "pieces"))) pieces(&plan, n);
    else if ((n = number(pattern, "random"))) random_blocks(&plan, n);
    else if ((n = number(pattern, "block3d")) && n <= 256) block3d(&plan, n);
    else if (strcmp(pattern, "bt") == 0) bt(&plan);
    else if (strcmp(pattern, "s3d") == 0) s3d(&plan);
    else if (strcmp(pattern, "flash") == 0) flash(&plan);
    else if (strcmp(pattern, "tiles") == 0) tiles(&plan, reading ? 16 : 0);
    else {
        if (rank == 0) fprintf(stderr, "collective: no pattern `%s`\n", pattern);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return plan;
}
