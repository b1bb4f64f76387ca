/* Collective access in the patterns of scientific programs. MPI only; the same program runs on the host's own
 * MPI-IO and with Pario in front.
 *
 * usage: collective MODE DIRECTORY SEED CALLS PATTERN...
 *
 * Modes
 *   fresh      the write creates the file; the read opens it again
 *   overwrite  the same over a file that has all its bytes already
 *   memory     as fresh; free memory is given back first, so that the growth is the accesses' own
 *   plain      no MPI-IO: each rank moves as many bytes by pwrite and pread, contiguous in its own part of
 *              the file, and copies them once by memcpy; what no collective access can beat
 *   plain-overwrite  the same over a file that has all its bytes already
 * CALLS is how often each write and each read is done; the times are those of the first.
 *
 * The patterns are those of patterns.h.
 *
 * What a byte of the file must be follows from its position and SEED: each rank makes the whole file's image
 * in memory and takes its part by MPI_Pack with the same datatype that is the view. Every byte read is
 * compared. Prints a line per pattern: seconds of the writes, seconds of the reads (each from the common
 * start to the last rank's end, summed over the calls), bytes written and bytes read by all ranks, calls of
 * each kind, growth of the largest rank's peak memory in KiB, 1 if all data was right, and in the plain modes
 * the seconds of the copy:
 *   collective bt 0.012345 0.012345 20480000 20480000 1 16384 1
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <malloc.h>
#include <time.h>
#include <unistd.h>

#include "patterns.h"

/* ---- time and memory ---- */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Lets all ranks start at one instant, which it returns. An MPI that spins lets go of ranks slowly where
 * there are more of them than cores; that is nobody's file access, so the instant leaves time for it.
 * Collective. */
static double start_together(void) {
    double mine = now(), last;
    check(MPI_Allreduce(&mine, &last, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD), "allreduce");
    double start = last + (ranks <= sysconf(_SC_NPROCESSORS_ONLN) ? 0.003 : 0.003 * ranks);
    struct timespec t = {.tv_sec = (time_t)start, .tv_nsec = (long)((start - (double)(time_t)start) * 1e9)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0) continue;
    return start;
}

/* A line of /proc/self/status, in KiB; 0 where there is none. */
static long status_kib(const char *name) {
    char line[256];
    long kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    if (!status) return 0;
    while (fgets(line, sizeof line, status))
        if (strncmp(line, name, strlen(name)) == 0) kib = strtol(line + strlen(name) + 1, NULL, 10);
    fclose(status);
    return kib;
}

/* From here on VmHWM is the peak since now. Returns the memory in use. */
static long reset_peak(int trim) {
    if (trim) malloc_trim(0);
    int file = open("/proc/self/clear_refs", O_WRONLY);
    if (file >= 0) {
        if (write(file, "5", 1) != 1) perror("collective: clear_refs");
        close(file);
    }
    return status_kib("VmRSS");
}

/* ---- data ---- */

static unsigned char *image(size_t bytes, uint64_t seed) {
    size_t words = bytes / 8 + 1;
    uint64_t *words_of_image = allocate(words * 8);
    for (size_t i = 0; i < words; i++) words_of_image[i] = mix(i ^ seed << 32);
    return (unsigned char *)words_of_image;
}

/* This rank's bytes of a call, in the order of the view. */
static unsigned char *expected(const struct access *call, const unsigned char *image) {
    unsigned char *packed = allocate(call->bytes);
    int position = 0;
    check(MPI_Pack(image + call->start, 1, call->file, packed, (int)call->bytes, &position, MPI_COMM_WORLD),
          "pack");
    return packed;
}

static void fill(const struct plan *plan, const unsigned char *image, unsigned char *memory) {
    memset(memory, 0x55, plan->memory_bytes);
    for (int i = 0; i < plan->calls; i++) {
        const struct access *call = &plan->call[i];
        unsigned char *packed = expected(call, image);
        int position = 0;
        check(MPI_Unpack(packed, (int)call->bytes, &position, memory + call->at, call->count, call->memory,
                         MPI_COMM_WORLD),
              "unpack");
        free(packed);
    }
}

static int right(const struct plan *plan, const unsigned char *image, const unsigned char *memory) {
    int good = 1;
    for (int i = 0; i < plan->calls; i++) {
        const struct access *call = &plan->call[i];
        unsigned char *packed = expected(call, image), *got = allocate(call->bytes);
        int position = 0;
        check(MPI_Pack(memory + call->at, call->count, call->memory, got, (int)call->bytes, &position,
                       MPI_COMM_WORLD),
              "pack");
        good &= memcmp(packed, got, call->bytes) == 0;
        free(packed);
        free(got);
    }
    return good;
}

/* ---- accesses ---- */

/* Of each call the last rank's time, summed. Collective. */
static double to_the_last(const double *seconds, int calls) {
    double most[MOST_CALLS], sum = 0;
    check(MPI_Allreduce(seconds, most, calls, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD), "allreduce");
    for (int i = 0; i < calls; i++) sum += most[i];
    return sum;
}

static long sum_of(const struct plan *plan) {
    long mine = 0, all;
    for (int i = 0; i < plan->calls; i++) mine += (long)plan->call[i].bytes;
    check(MPI_Allreduce(&mine, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD), "allreduce");
    return all;
}

/* All calls of the plan, written or read; clears *good when one moved less than it should. */
static double with_mpi(const struct plan *plan, const char *path, unsigned char *memory, int reading,
                       int times, int *good) {
    MPI_File file;
    double seconds[MOST_CALLS];
    int mode = reading ? MPI_MODE_RDONLY : MPI_MODE_CREATE | MPI_MODE_WRONLY;
    check(MPI_File_open(MPI_COMM_WORLD, path, mode, MPI_INFO_NULL, &file), "open");
    for (int i = 0; i < plan->calls; i++) {
        const struct access *call = &plan->call[i];
        unsigned char *data = memory + call->at;
        check(MPI_File_set_view(file, call->start, MPI_BYTE, call->file, "native", MPI_INFO_NULL),
              "set_view");
        for (int time = 0; time < times; time++) {
            MPI_Status status;
            int moved;
            check(MPI_File_seek(file, 0, MPI_SEEK_SET), "seek");
            double begin = start_together();
            if (reading) check(MPI_File_read_all(file, data, call->count, call->memory, &status), "read_all");
            else check(MPI_File_write_all(file, data, call->count, call->memory, &status), "write_all");
            if (time == 0) seconds[i] = now() - begin;
            check(MPI_Get_elements(&status, MPI_BYTE, &moved), "get_elements");
            *good &= (size_t)moved == call->bytes;
        }
    }
    check(MPI_File_close(&file), "close");
    return to_the_last(seconds, plan->calls);
}

static double plainly(const char *path, unsigned char *memory, size_t bytes, off_t start, int reading) {
    int file = open(path, reading ? O_RDONLY : O_CREAT | O_WRONLY, 0666);
    check_system(file >= 0, path);
    double begin = start_together();
    for (size_t done = 0; done < bytes;) {
        ssize_t n = reading ? pread(file, memory + done, bytes - done, start + (off_t)done)
                            : pwrite(file, memory + done, bytes - done, start + (off_t)done);
        check_system(n > 0, path);
        done += (size_t)n;
    }
    double seconds = now() - begin;
    close(file);
    return to_the_last(&seconds, 1);
}

static void put_zeros(const char *path, size_t bytes) {
    unsigned char *zeros = calloc(1, bytes);
    check_system(zeros != NULL, "calloc");
    FILE *file = fopen(path, "wb");
    check_system(file && fwrite(zeros, 1, bytes, file) == bytes && fclose(file) == 0, path);
    free(zeros);
}

/* The limits: the same number of bytes, without any pattern. */
static void plain(const char *mode, const char *pattern, const char *path) {
    struct plan plan = make(pattern, 0);
    long bytes = sum_of(&plan);
    size_t mine = (size_t)(bytes / ranks);
    off_t start = (off_t)mine * rank;
    unsigned char *memory = allocate(mine), *other = allocate(mine);
    memset(memory, rank + 1, mine);
    memset(other, 0, mine);
    if (rank == 0 && strcmp(mode, "plain-overwrite") == 0) put_zeros(path, (size_t)bytes);
    double begin = start_together();
    memcpy(other, memory, mine);
    double copied = now() - begin;
    copied = to_the_last(&copied, 1);
    double written = plainly(path, other, mine, start, 0);
    memset(other, 0, mine);
    double read = plainly(path, other, mine, start, 1);
    int good = memcmp(memory, other, mine) == 0;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        check_system(unlink(path) == 0, path);
        printf("collective %s %.6f %.6f %ld %ld 1 0 %d %.6f\n", pattern, written, read, bytes, bytes, good,
               copied);
    }
    free(memory);
    free(other);
    drop(&plan);
}

static void measure(const char *mode, const char *pattern, const char *path, uint64_t seed, int times,
                    int silent) {
    struct plan out = make(pattern, 0), in = make(pattern, 1);
    size_t most = out.memory_bytes > in.memory_bytes ? out.memory_bytes : in.memory_bytes;
    unsigned char *memory = allocate(most), *file = image(out.file_bytes, seed);
    fill(&out, file, memory);
    if (rank == 0 && strcmp(mode, "overwrite") == 0) put_zeros(path, out.file_bytes);
    int good = 1, all_good, calls = out.calls * times;
    long bytes_out = sum_of(&out), bytes_in = sum_of(&in), growth, most_growth;

    long before = reset_peak(strcmp(mode, "memory") == 0);
    double written = with_mpi(&out, path, memory, 0, times, &good);
    memset(memory, 0xaa, most);
    double read = with_mpi(&in, path, memory, 1, times, &good);
    growth = status_kib("VmHWM") - before;

    good &= right(&in, file, memory);
    check(MPI_Allreduce(&good, &all_good, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD), "allreduce");
    check(MPI_Allreduce(&growth, &most_growth, 1, MPI_LONG, MPI_MAX, MPI_COMM_WORLD), "allreduce");
    if (rank == 0) {
        check(MPI_File_delete(path, MPI_INFO_NULL), "delete");
        if (!silent)
            printf("collective %s %.6f %.6f %ld %ld %d %ld %d\n", pattern, written, read, bytes_out, bytes_in,
                   calls, most_growth, all_good);
    }
    free(memory);
    free(file);
    drop(&out);
    drop(&in);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int times = argc > 5 ? atoi(argv[4]) : 0;
    if (times < 1) {
        if (rank == 0) fprintf(stderr, "usage: collective MODE DIRECTORY SEED CALLS PATTERN...\n");
        MPI_Finalize();
        return 2;
    }
    const char *mode = argv[1];
    uint64_t seed = strtoull(argv[3], NULL, 10);
    char path[4096];
    /* What happens only once in a program, such as connections and components, is in nobody's time. */
    snprintf(path, sizeof path, "%s/warm-up", argv[2]);
    measure(mode, "pieces-65536", path, seed, 1, 1);
    for (int i = 5; i < argc; i++) {
        snprintf(path, sizeof path, "%s/%s", argv[2], argv[i]);
        if (strncmp(mode, "plain", 5) == 0) plain(mode, argv[i], path);
        else measure(mode, argv[i], path, seed + (uint64_t)i, times, 0);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
