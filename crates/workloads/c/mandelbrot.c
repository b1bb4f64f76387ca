/* A picture of the Mandelbrot set, a byte a pixel: computed and written band by band, each rank some columns
 * of it; then read row by row, as who shows it would.
 *
 * In fixed point, so that every machine computes the same picture. The seed moves it a little.
 */
#include "workload.h"

enum { WIDTH, HEIGHT, MOST };
enum { FRACTION = 28 };

static unsigned char pixel(const struct job *job, int64_t row, int64_t column) {
    const int64_t *n = job->preset->size, one = (int64_t)1 << FRACTION;
    int64_t nudge = (int64_t)(job->seed % 1000) * (one >> 16);
    int64_t re = -2 * one - one / 4 + nudge + 3 * one * column / n[WIDTH];
    int64_t im = -one - one / 2 + 3 * one * row / n[HEIGHT];
    int64_t x = 0, y = 0, rounds = 0;
    while (rounds < n[MOST]) {
        int64_t xx = (x * x) >> FRACTION, yy = (y * y) >> FRACTION;
        if (xx + yy > 4 * one) break;
        y = ((x * y) >> (FRACTION - 1)) + im;
        x = xx - yy + re;
        rounds++;
    }
    return (unsigned char)rounds;
}

static void make(const struct job *job, const struct access *access, int64_t at, int64_t bytes,
                 unsigned char *out) {
    (void)access;
    int64_t width = job->preset->size[WIDTH];
    for (int64_t i = 0; i < bytes; i++) out[i] = pixel(job, (at + i) / width, (at + i) % width);
}

static void compute(const struct job *job, const struct access *access, const struct access *input,
                    const unsigned char *in, unsigned char *out) {
    (void)input;
    (void)in;
    struct walk walk = walk_of(access->where, access->tile, access->memory);
    for (struct pair pair; next_pair(&walk, INT64_MAX, &pair);)
        make(job, access, pair.file, pair.bytes, out + pair.memory);
}

static const char *plan_of(struct plan *plan, const struct job *job) {
    int64_t width = job->preset->size[WIDTH], height = job->preset->size[HEIGHT], start[2], size[2];
    if (job->ranks > width || job->ranks > height) return "there are more ranks than pixels to a side";
    if (job->steps > height) return "there are more bands than rows";
    int file = plan_file(plan, width * height, "picture");
    for (int step = 0; step < job->steps; step++) {
        split(height, job->steps, step, &start[0], &size[0]);
        split(width, job->ranks, job->rank, &start[1], &size[1]);
        const struct pattern *where = box_of(plan, 0, 1, 2, (int64_t[]){height, width}, start, size);
        plan_access(plan, (struct access){.file = file, .step = step, .where = where,
                                          .memory = packed(plan, where)});
    }
    split(height, job->ranks, job->rank, &start[0], &size[0]);
    const struct pattern *rows = run_of(plan, start[0] * width, size[0] * width, 1);
    plan->check = 1;
    plan_access(plan, (struct access){.file = file, .how = AT_ALL, .where = rows, .reading = true,
                                      .memory = packed(plan, rows), .phase = plan->check});
    return NULL;
}

static const struct preset presets[] = {
    {"small", "600 x 600 pixels", 2, {600, 600, 60}},
    {"medium", "4096 x 4096 pixels: 16 MiB", 8, {4096, 4096, 100}},
    {"profile", "16384 x 16384 pixels: 256 MiB (profile-guided partitioning)", 16, {16384, 16384, 255}},
    {0},
};

const struct workload mandelbrot = {
    .name = "mandelbrot",
    .about = "a picture computed by columns, band by band, and read by rows",
    .step = "band",
    .presets = presets,
    .plan = plan_of,
    .make = make,
    .compute = compute,
};
