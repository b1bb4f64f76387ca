#include "workload.h"

#include <string.h>

extern const struct workload coll_perf, btio, flash, s3d, tile, contiguous, discontiguous, partitioning,
    ranges, perf, mandelbrot, jacobi, fft, seismic;

const struct workload *const workloads[] = {
    &coll_perf, &btio, &flash,      &s3d,    &tile, &contiguous, &discontiguous, &partitioning,
    &ranges,    &perf, &mandelbrot, &jacobi, &fft,  &seismic,    NULL,
};

const struct workload *workload_called(const char *name) {
    for (int i = 0; workloads[i]; i++)
        if (strcmp(workloads[i]->name, name) == 0) return workloads[i];
    return NULL;
}

const struct preset *preset_called(const struct workload *workload, const char *name) {
    for (const struct preset *preset = workload->presets; preset->name; preset++)
        if (strcmp(preset->name, name) == 0) return preset;
    return NULL;
}

/* The file as 64-bit words, low byte first: word i is mix(key + i), where the key is mixed from seed,
 * variable and step. */
static void any_bytes(uint64_t seed, int variable, int step, int64_t at, int64_t bytes, unsigned char *out) {
    uint64_t key = mix(mix(mix(seed) + (uint64_t)variable) + (uint64_t)step);
    while (bytes > 0) {
        uint64_t word = mix(key + (uint64_t)(at / 8));
        int64_t skip = at % 8, taken = 8 - skip < bytes ? 8 - skip : bytes;
        word >>= 8 * skip;
        for (int64_t i = 0; i < taken; i++) {
            out[i] = (unsigned char)word;
            word >>= 8;
        }
        out += taken;
        at += taken;
        bytes -= taken;
    }
}

void make_bytes(const struct workload *workload, const struct job *job, const struct access *access,
                int64_t at, int64_t bytes, unsigned char *out) {
    if (workload->make)
        workload->make(job, access, at, bytes, out);
    else
        any_bytes(job->seed, access->variable, access->step, at, bytes, out);
}
