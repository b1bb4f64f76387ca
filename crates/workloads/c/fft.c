/* A Fourier transform of M x M complex numbers that do not fit in memory, in three passes over files.
 *
 * Each pass reads columns of one file, in many short pieces, and writes rows of the next, in one:
 *   input[n1][n2]  -> FFT over n1, twiddle factors -> first[n2][k1]
 *   first[n2][k1]  -> FFT over n2                  -> second[k1][k2]
 *   second[k1][k2] -> transposed                   -> result[k2][k1], the transform in order
 *
 * The input is a chirp plus a tone between two frequencies. Both have transforms in closed form, also
 * halfway, which no place has in common with its neighbours; so whatever is read can be checked, up to
 * rounding. Numbers are complex of two floats.
 */
#include "workload.h"

#include <complex.h>
#include <math.h>
#include <string.h>

enum { SIDE };
enum { INPUT, FIRST, SECOND, RESULT };
enum { SLABS = 2 }; /* of each rank's columns, if it has as many */

typedef double complex number;
typedef struct {
    float re, im;
} stored;

static const double pi = 3.14159265358979323846;

static number circle(double turns) { return cexp(2 * pi * I * turns); }

/* The chirp's shift and the tone's frequency, which is this plus a half. */
static int64_t shift_of(const struct job *job, int64_t n) {
    return n / 8 + (int64_t)(mix(job->seed) % (uint64_t)(n / 4));
}
static int64_t tone_of(const struct job *job, int64_t n) {
    return (int64_t)(mix(job->seed + 1) % (uint64_t)n);
}

/* exp(i pi q^2 / n) */
static number chirp(int64_t q, int64_t n) {
    q %= 2 * n;
    return circle((double)(q * q % (2 * n)) / (double)(2 * n));
}

static number input_at(const struct job *job, int64_t m, int64_t i) {
    int64_t n = m * m, doubled = 2 * tone_of(job, n) + 1;
    return chirp(i + shift_of(job, n), n) + circle((double)(doubled * i % (2 * n)) / (double)(2 * n));
}

/* The sum over j < count of exp(2 pi i j (tone + 1/2 - k) / count). */
static number tone_sum(int64_t tone, int64_t k, int64_t count) {
    return 2 / (1 - circle((double)((2 * (tone - k) + 1) % (2 * count)) / (double)(2 * count)));
}

static number first_at(const struct job *job, int64_t m, int64_t n2, int64_t k1) {
    int64_t n = m * m, tone = tone_of(job, n), q = n2 + shift_of(job, n), doubled = 2 * tone + 1;
    number value = circle((double)(doubled * n2 % (2 * n)) / (double)(2 * n)) * tone_sum(tone, k1, m);
    if ((q + m / 2) % m == k1) value += (double)m * chirp(q, n);
    return value * circle(-(double)(n2 * k1) / (double)n);
}

static number result_at(const struct job *job, int64_t m, int64_t k) {
    int64_t n = m * m, shift = shift_of(job, n);
    number wave = (double)m * circle(0.125) * circle((double)(k * shift % n) / (double)n) / chirp(k, n);
    return wave + tone_sum(tone_of(job, n), k, n);
}

static void make(const struct job *job, const struct access *access, int64_t at, int64_t bytes,
                 unsigned char *out) {
    int64_t m = job->preset->size[SIDE];
    for (int64_t b = 0; b < bytes; b += (int64_t)sizeof(stored)) {
        int64_t i = (at + b) / (int64_t)sizeof(stored), row = i / m, column = i % m;
        number value = access->variable == INPUT    ? input_at(job, m, i)
                       : access->variable == FIRST  ? first_at(job, m, row, column)
                       : access->variable == SECOND ? result_at(job, m, row + m * column)
                                                    : result_at(job, m, i);
        stored kept = {(float)creal(value), (float)cimag(value)};
        memcpy(out + b, &kept, sizeof kept);
    }
}

/* Rounding errors grow with the transform's values, whose usual size after both passes is M. */
static int64_t wrong(const struct job *job, const struct access *access, const unsigned char *expected,
                     const unsigned char *got, int64_t bytes, int64_t *first) {
    double allowed = access->variable == INPUT ? 1e-6 : 1e-5 * (double)job->preset->size[SIDE];
    int64_t bad = 0;
    for (int64_t b = 0; b < bytes; b += (int64_t)sizeof(stored)) {
        stored a, e;
        memcpy(&a, got + b, sizeof a);
        memcpy(&e, expected + b, sizeof e);
        /* Large values, at the tone's frequency, are rounded in proportion. */
        double most = allowed + 1e-5 * (fabs(e.re) + fabs(e.im));
        /* Never so with NaN. */
        if (fabs((double)a.re - e.re) <= most && fabs((double)a.im - e.im) <= most) continue;
        if (bad == 0) *first = b;
        bad += (int64_t)sizeof(stored);
    }
    return bad;
}

static void transform(number *x, int64_t m) {
    for (int64_t i = 1, j = 0; i < m; i++) { /* bits reversed */
        int64_t bit = m >> 1;
        for (; j & bit; bit >>= 1) j ^= bit;
        j ^= bit;
        if (i < j) {
            number kept = x[i];
            x[i] = x[j];
            x[j] = kept;
        }
    }
    for (int64_t half = 1; half < m; half *= 2)
        for (int64_t k = 0; k < half; k++) {
            number w = circle(-(double)k / (double)(2 * half));
            for (int64_t i = k; i < m; i += 2 * half) {
                number odd = x[i + half] * w;
                x[i + half] = x[i] - odd;
                x[i] += odd;
            }
        }
}

/* Columns of `in` become rows of `out`. */
static void compute(const struct job *job, const struct access *access, const struct access *input,
                    const unsigned char *in, unsigned char *out) {
    int64_t m = job->preset->size[SIDE];
    if (access->variable == INPUT) {
        make(job, access, access->where->start, access->where->count, out);
        return;
    }
    const struct box *from = input->where->box;
    const stored *columns = (const stored *)in;
    stored *rows = (stored *)out;
    number x[4096];
    for (int64_t c = 0; c < from->size[1]; c++) {
        for (int64_t i = 0; i < m; i++) {
            stored value = columns[i * from->size[1] + c];
            x[i] = value.re + I * value.im;
        }
        if (access->variable != RESULT) transform(x, m);
        for (int64_t k = 0; k < m; k++) {
            if (access->variable == FIRST)
                x[k] *= circle(-(double)((from->start[1] + c) * k) / (double)(m * m));
            *rows++ = (stored){(float)creal(x[k]), (float)cimag(x[k])};
        }
    }
}

static const char *plan_of(struct plan *plan, const struct job *job) {
    static const char *const names[] = {"input", "first", "second", "result"};
    int64_t m = job->preset->size[SIDE], mine = m / job->ranks, size = (int64_t)sizeof(stored);
    if (job->ranks & (job->ranks - 1)) return "the number of ranks has to be a power of two";
    if (mine == 0) return "there are more ranks than columns";
    int64_t slabs = mine < SLABS ? mine : SLABS, width = mine / slabs;
    for (int pass = INPUT; pass <= RESULT; pass++) {
        plan_file(plan, m * m * size, "%s", names[pass]);
        for (int64_t s = 0; s < slabs; s++) {
            int64_t first = job->rank * mine + s * width;
            if (pass != INPUT) {
                struct access in = {.phase = pass, .file = pass - 1, .variable = pass - 1, .reading = true};
                int64_t start[] = {0, first}, size[] = {m, width};
                in.where = box_of(plan, 0, 8, 2, (int64_t[]){m, m}, start, size);
                in.memory = packed(plan, in.where);
                plan_access(plan, in);
            }
            struct access out = {.phase = pass, .file = pass, .variable = pass, .how = AT_ALL};
            out.where = run_of(plan, first * m * size, width * m * size, 8);
            out.memory = packed(plan, out.where);
            plan_access(plan, out);
        }
    }
    plan->check = RESULT + 1;
    struct access result = {.phase = plan->check, .file = RESULT, .variable = RESULT, .how = AT_ALL,
                            .reading = true};
    result.where = run_of(plan, job->rank * mine * m * size, mine * m * size, 8);
    result.memory = packed(plan, result.where);
    plan_access(plan, result);
    return NULL;
}

static const struct preset presets[] = {
    {"small", "65,536 numbers", 1, {256}},
    {"medium", "4 Mi numbers: 32 MiB a file", 1, {2048}},
    {"profile", "1 Mi numbers: 8 MiB a file (profile-guided partitioning)", 1, {1024}},
    {0},
};

const struct workload fft = {
    .name = "fft",
    .about = "out-of-core Fourier transform: columns to rows in three passes; powers of two of ranks",
    .presets = presets,
    .plan = plan_of,
    .make = make,
    .wrong = wrong,
    .compute = compute,
};
