/* Shapes: which bytes of a file each rank accesses, as runs by plain arithmetic and as an MPI view.
 *
 * A shape is a function of the rank, so that one rank can tell what all wrote. Runs stand in the order of the
 * view. A view's displacement, etype and filetype say the same to MPI; nothing here asks MPI what they mean.
 */
#ifndef SHAPES_H
#define SHAPES_H

#include "../apps/check.h"

struct spec {
    char shape[16], op[16], mem[16];
    int size, piece, calls, old, cut, ours;
};

struct run {
    MPI_Offset at, len;
};

struct part {
    struct run *runs;
    int count, room;
    MPI_Offset bytes, displacement;
    int unit; /* bytes of an etype */
    MPI_Datatype etype, filetype;
};

static void add_run(struct part *p, MPI_Offset at, MPI_Offset len)
{
    if (len == 0) return;
    if (p->count == p->room) {
        p->room = 2 * p->room + 16;
        p->runs = realloc(p->runs, sizeof *p->runs * (size_t)p->room);
        EXPECT(p->runs != NULL);
    }
    p->runs[p->count++] = (struct run){at, len};
    p->bytes += len;
}

/* An empty part whose etype has `unit` bytes, seen through a view of the whole file. */
static void begin_part(struct part *p, int unit)
{
    memset(p, 0, sizeof *p);
    p->unit = unit;
    MUST(MPI_Type_contiguous(unit, MPI_BYTE, &p->etype));
    MUST(MPI_Type_commit(&p->etype));
    MUST(MPI_Type_contiguous(1, p->etype, &p->filetype));
    MUST(MPI_Type_commit(&p->filetype));
}

static void set_filetype(struct part *p, MPI_Offset displacement, MPI_Datatype type)
{
    MUST(MPI_Type_free(&p->filetype));
    MUST(MPI_Type_commit(&type));
    p->filetype = type;
    p->displacement = displacement;
}

static void end_part(struct part *p)
{
    free(p->runs);
    MUST(MPI_Type_free(&p->etype));
    MUST(MPI_Type_free(&p->filetype));
}

/* Where part `i` of `n` things begins when they are dealt out to `parts`. */
static int cut_at(int n, int parts, int i) { return (int)((long long)n * i / parts); }

/* The runs of a box in a row-major array that begins at `base`. */
static void add_box(struct part *p, MPI_Offset base, int n, const int *total, const int *size,
                    const int *start)
{
    int at[4] = {0};
    for (int d = 0; d < n; d++)
        if (size[d] == 0) return;
    for (;;) {
        MPI_Offset place = 0;
        for (int d = 0; d < n; d++) place = place * total[d] + start[d] + at[d];
        add_run(p, base + place * p->unit, (MPI_Offset)size[n - 1] * p->unit);
        int d = n - 2;
        while (d >= 0 && ++at[d] == size[d]) at[d--] = 0;
        if (d < 0) return;
    }
}

/* A view of one box; a rank whose box is empty keeps the view of the whole file. */
static void box(struct part *p, MPI_Offset base, int n, int *total, int *size, int *start)
{
    MPI_Datatype type;
    add_box(p, base, n, total, size, start);
    if (p->bytes == 0) return;
    MUST(MPI_Type_create_subarray(n, total, size, start, MPI_ORDER_C, p->etype, &type));
    set_filetype(p, base, type);
}

/* The share of `rank` in `n` dimensions, in the standard's order of a Cartesian grid. */
static void share(int rank, int n, const int *total, int *size, int *start)
{
    int dims[3] = {0};
    MUST(MPI_Dims_create(ranks, n, dims));
    for (int d = n - 1; d >= 0; d--) {
        int i = rank % dims[d];
        rank /= dims[d];
        start[d] = cut_at(total[d], dims[d], i);
        size[d] = cut_at(total[d], dims[d], i + 1) - start[d];
    }
}

/* coll_perf: a block of a 3-D array of integers. */
static void block3d(const struct spec *s, int rank, int stage, int reading, struct part *p)
{
    int total[3] = {s->size, s->size + 2, s->size + 5}, size[3], start[3];
    (void)stage, (void)reading;
    begin_part(p, 4);
    share(rank, 3, total, size, start);
    box(p, 0, 3, total, size, start);
}

/* BTIO: on q*q ranks each has q cells, one in each of q slabs; three time steps follow each other. */
static void tridiagonal(const struct spec *s, int rank, int stage, int reading, struct part *p)
{
    enum { STEPS = 3, MOST = 8 };
    int q = 1, ones[MOST], total[3] = {s->size, s->size, s->size};
    MPI_Aint zeros[MOST] = {0};
    MPI_Datatype cells[MOST], type;
    (void)stage, (void)reading;
    while (q * q < ranks) q++;
    EXPECT(q * q == ranks && q <= MOST && s->size >= q);
    begin_part(p, 40);
    for (int step = 0; step < STEPS; step++) {
        for (int c = 0; c < q; c++) {
            int cell[3] = {c, (rank / q + c) % q, (rank % q + c) % q}, size[3], start[3];
            for (int d = 0; d < 3; d++) {
                start[d] = cut_at(s->size, q, cell[d]);
                size[d] = cut_at(s->size, q, cell[d] + 1) - start[d];
            }
            add_box(p, (MPI_Offset)step * s->size * s->size * s->size * 40, 3, total, size, start);
            if (step > 0) continue;
            MUST(MPI_Type_create_subarray(3, total, size, start, MPI_ORDER_C, p->etype, &cells[c]));
            ones[c] = 1;
        }
    }
    MUST(MPI_Type_create_struct(q, ones, zeros, cells, &type));
    for (int c = 0; c < q; c++) MUST(MPI_Type_free(&cells[c]));
    set_filetype(p, 0, type);
}

/* FLASH: 24 variables, each an array of blocks of 4*4*4 values; the ranks have unequal numbers of blocks. */
enum { FLASH_VARIABLES = 24, CELLS = 4 * 4 * 4 };

static void flash(const struct spec *s, int rank, int stage, int reading, struct part *p)
{
    int before = 0, all = 0, mine = s->size + rank % 3;
    (void)reading;
    for (int r = 0; r < ranks; r++) {
        before += r < rank ? s->size + r % 3 : 0;
        all += s->size + r % 3;
    }
    int total[2] = {all, CELLS}, size[2] = {mine, CELLS}, start[2] = {before, 0};
    begin_part(p, 8);
    box(p, (MPI_Offset)stage * all * CELLS * 8, 2, total, size, start);
}

/* S3D: four arrays of doubles, of 11, 3, 1 and 1 values per point, cut in three dimensions. */
static void s3d(const struct spec *s, int rank, int stage, int reading, struct part *p)
{
    static const int fourth[] = {11, 3, 1, 1};
    int total[4] = {fourth[stage], s->size, s->size + 1, s->size + 2}, size[4], start[4];
    MPI_Offset base = 0;
    (void)reading;
    for (int a = 0; a < stage; a++) base += (MPI_Offset)fourth[a] * total[1] * total[2] * total[3] * 8;
    begin_part(p, 8);
    share(rank, 3, total + 1, size + 1, start + 1);
    size[0] = total[0], start[0] = 0;
    box(p, base, 4, total, size, start);
}

/* MPI-Tile-IO: a wall of tiles; reads reach two elements into the neighbours' tiles. */
static void tile(const struct spec *s, int rank, int stage, int reading, struct part *p)
{
    int dims[2] = {0}, total[2], size[2], start[2], reach = reading ? 2 : 0;
    (void)stage;
    MUST(MPI_Dims_create(ranks, 2, dims));
    int edge[2] = {s->size, s->size + 3}, mine[2] = {rank / dims[1], rank % dims[1]};
    for (int d = 0; d < 2; d++) {
        total[d] = edge[d] * dims[d];
        start[d] = edge[d] * mine[d] - reach;
        int end = edge[d] * (mine[d] + 1) + reach;
        start[d] = start[d] < 0 ? 0 : start[d];
        size[d] = (end > total[d] ? total[d] : end) - start[d];
    }
    begin_part(p, 4);
    box(p, 0, 2, total, size, start);
}

/* Blocks dealt out at random; each rank sees its own in the order of the file. */
static void random_blocks(const struct spec *s, int rank, int stage, int reading, struct part *p)
{
    int n = s->size * ranks, mine = 0, *owner = zeroed(sizeof *owner * (size_t)n);
    MPI_Aint *at = zeroed(sizeof *at * (size_t)s->size);
    MPI_Datatype type;
    uint32_t seed = 12345;
    (void)stage, (void)reading;
    begin_part(p, 1);
    for (int i = 0; i < n; i++) owner[i] = i % ranks;
    for (int i = n - 1; i > 0; i--) {
        seed = seed * 1664525u + 1013904223u;
        int k = (int)((seed >> 8) % (uint32_t)(i + 1)), held = owner[i];
        owner[i] = owner[k], owner[k] = held;
    }
    for (int i = 0; i < n; i++) {
        if (owner[i] != rank) continue;
        at[mine++] = (MPI_Aint)i * s->piece;
        add_run(p, (MPI_Offset)i * s->piece, s->piece);
    }
    MUST(MPI_Type_create_hindexed_block(mine, s->piece, at, MPI_BYTE, &type));
    set_filetype(p, 0, type);
    free(owner), free(at);
}

/* `size` tiles of `width` bytes from `base` on, in which a rank has one piece at `at`. */
static void tiled(struct part *p, const struct spec *s, MPI_Offset base, MPI_Offset width, MPI_Offset at)
{
    MPI_Datatype run, type;
    for (int i = 0; i < s->size; i++) add_run(p, base + i * width + at, s->piece);
    MUST(MPI_Type_contiguous(s->piece, MPI_BYTE, &run));
    MUST(MPI_Type_create_resized(run, 0, (MPI_Aint)width, &type));
    MUST(MPI_Type_free(&run));
    set_filetype(p, base + at, type);
}

/* Pieces in turn, as one large vector. */
static void strided(const struct spec *s, int rank, int stage, int reading, struct part *p)
{
    MPI_Datatype type;
    MPI_Offset base = 3 + (MPI_Offset)rank * s->piece, width = (MPI_Offset)ranks * s->piece;
    (void)stage, (void)reading;
    begin_part(p, 1);
    for (int i = 0; i < s->size; i++) add_run(p, base + i * width, s->piece);
    MUST(MPI_Type_create_hvector(s->size, s->piece, (MPI_Aint)width, MPI_BYTE, &type));
    set_filetype(p, base, type);
}

/* Pieces in turn, as many small tiles. */
static void tiles(const struct spec *s, int rank, int stage, int reading, struct part *p)
{
    (void)stage, (void)reading;
    begin_part(p, 1);
    tiled(p, s, 5, (MPI_Offset)ranks * s->piece, (MPI_Offset)rank * s->piece);
}

/* As `tiles`, but no rank accesses two places of each tile. */
static void holes(const struct spec *s, int rank, int stage, int reading, struct part *p)
{
    (void)stage, (void)reading;
    begin_part(p, 1);
    tiled(p, s, 7, (MPI_Offset)(ranks + 2) * s->piece, (MPI_Offset)(rank + (rank >= ranks / 2)) * s->piece);
}

/* Two ranks each write the same bytes, so that as many bytes come as a tile has, and half of it is a hole. */
static void doubled(const struct spec *s, int rank, int stage, int reading, struct part *p)
{
    (void)stage, (void)reading;
    begin_part(p, 1);
    tiled(p, s, 0, (MPI_Offset)ranks * s->piece, (MPI_Offset)(rank / 2) * s->piece);
}

/* Irregular pieces, more of them on some ranks than on others, and none on every third. */
static void uneven(const struct spec *s, int rank, int stage, int reading, struct part *p)
{
    int room = 7 * s->size, mine = 0, *len = zeroed(sizeof *len * (size_t)room);
    MPI_Aint *at = zeroed(sizeof *at * (size_t)room);
    MPI_Offset next = 11;
    MPI_Datatype type;
    (void)stage, (void)reading;
    begin_part(p, 1);
    for (int i = 0; i < room; i++) {
        for (int r = 0; r < ranks; r++) {
            int has = r % 3 == 2 ? 0 : (r * 5 + 3) % 7 * s->size;
            int length = i < has ? 1 + (i * 7 + r * 3) % s->piece : 0;
            if (r == rank && length > 0) {
                at[mine] = (MPI_Aint)next, len[mine++] = length;
                add_run(p, next, length);
            }
            next += length;
        }
    }
    if (mine > 0) {
        MUST(MPI_Type_create_hindexed(mine, len, at, MPI_BYTE, &type));
        MPI_Datatype whole = type; /* tiles must begin at byte 0 of the file, as the first run does not */
        MUST(MPI_Type_create_resized(whole, 0, (MPI_Aint)next, &type));
        MUST(MPI_Type_free(&whole));
        set_filetype(p, 0, type);
    }
    free(at), free(len);
}

/* One rank writes all. */
static void single(const struct spec *s, int rank, int stage, int reading, struct part *p)
{
    (void)stage, (void)reading;
    begin_part(p, 1);
    if (rank == ranks / 2) tiled(p, s, 2, (MPI_Offset)s->piece + 1, 0);
}

/* One long segment per rank, the last rank's first. */
static void segments(const struct spec *s, int rank, int stage, int reading, struct part *p)
{
    (void)stage, (void)reading;
    begin_part(p, 4);
    p->displacement = (MPI_Offset)(ranks - 1 - rank) * s->size * 4;
    add_run(p, p->displacement, (MPI_Offset)s->size * 4);
}

/* Pieces in turn at the beginning and far away. */
static void far(const struct spec *s, int rank, int stage, int reading, struct part *p)
{
    MPI_Aint places[2] = {0, 9 << 20};
    MPI_Datatype near, type;
    MPI_Offset base = (MPI_Offset)rank * s->piece, width = (MPI_Offset)ranks * s->piece;
    (void)stage, (void)reading;
    begin_part(p, 1);
    for (int g = 0; g < 2; g++)
        for (int i = 0; i < s->size; i++) add_run(p, places[g] + base + i * width, s->piece);
    MUST(MPI_Type_create_hvector(s->size, s->piece, (MPI_Aint)width, MPI_BYTE, &near));
    MUST(MPI_Type_create_hindexed_block(2, 1, places, near, &type));
    MUST(MPI_Type_free(&near));
    set_filetype(p, base, type);
}

/* One view for all ranks, three bytes of five; the ranks follow each other in it, for ordered access. */
static void ordered(const struct spec *s, int rank, int stage, int reading, struct part *p)
{
    MPI_Datatype run, type;
    MPI_Offset from = 0, size = s->size;
    (void)stage, (void)reading;
    begin_part(p, 1);
    for (int r = 0; r < rank; r++) from += size + r;
    for (MPI_Offset i = from; i < from + size + rank; i++) add_run(p, 1 + i / 3 * 5 + i % 3, 1);
    MUST(MPI_Type_contiguous(3, MPI_BYTE, &run));
    MUST(MPI_Type_create_resized(run, 0, 5, &type));
    MUST(MPI_Type_free(&run));
    set_filetype(p, 1, type);
}

typedef void shape_function(const struct spec *, int rank, int stage, int reading, struct part *);

static const struct shape {
    const char *name;
    shape_function *make;
    int stages;
} shapes[] = {
    {"block3d", block3d, 1}, {"bt", tridiagonal, 1}, {"flash", flash, FLASH_VARIABLES}, {"s3d", s3d, 4},
    {"tile", tile, 1},       {"random", random_blocks, 1}, {"strided", strided, 1}, {"tiles", tiles, 1},
    {"holes", holes, 1},     {"doubled", doubled, 1}, {"uneven", uneven, 1}, {"single", single, 1},
    {"segments", segments, 1}, {"far", far, 1}, {"ordered", ordered, 1},
};

static const struct shape *find_shape(const char *name)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (strcmp(shapes[i].name, name) == 0) return &shapes[i];
    FAIL("no shape is called %s", name);
    return NULL;
}

#endif
