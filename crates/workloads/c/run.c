#include "run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AT_A_TIME = 64 << 10 }; /* bytes made and compared at once */

struct runner {
    const struct options *options;
    const struct workload *workload;
    const struct job *job;
    const struct plan *plan;
    struct outcome *outcome;
    struct store *stores;
    unsigned char *in, *out;    /* what the last read brought; what the next write takes */
    const struct access *input; /* the last read */
    double untimed;             /* seconds of making and checking data in this phase */
};

void path_of(const struct options *o, const struct workload *workload, const struct plan *plan, int file,
             char *path, int room) {
    const char *name = plan->file[file].name, *dir = o->dir ? o->dir : ".";
    const char *slash = *dir && dir[strlen(dir) - 1] == '/' ? "" : "/";
    int length;
    if (o->file)
        length = plan->files == 1 ? snprintf(path, (size_t)room, "%s", o->file)
                                  : snprintf(path, (size_t)room, "%s.%s", o->file, name);
    else
        length = snprintf(path, (size_t)room, "%s%s%s.%s", dir, slash, workload->name, name);
    if (length >= room) give_up("the path %s… is too long", path);
}

static void fill(struct runner *r, const struct access *a) {
    struct walk walk = walk_of(a->where, a->tile, a->memory);
    for (struct pair pair; next_pair(&walk, INT64_MAX, &pair);)
        make_bytes(r->workload, r->job, a, pair.file, pair.bytes, r->out + pair.memory);
}

/* What is there before a read must not be taken for what it reads. */
static void spoil(const struct access *a, unsigned char *memory) {
    struct cursor cursor = cursor_at(a->memory, 0);
    for (struct piece piece; next_piece(&cursor, &piece);)
        memset(memory + piece.at, 0xa5, (size_t)piece.bytes);
}

static int64_t differing(const unsigned char *expected, const unsigned char *got, int64_t bytes,
                         int64_t *first) {
    if (memcmp(expected, got, (size_t)bytes) == 0) return 0;
    int64_t wrong = 0;
    for (int64_t i = 0; i < bytes; i++)
        if (expected[i] != got[i] && wrong++ == 0) *first = i;
    return wrong;
}

static void verify(struct runner *r, const struct access *a) {
    static unsigned char expected[AT_A_TIME];
    struct walk walk = walk_of(a->where, a->tile, a->memory);
    for (struct pair pair; next_pair(&walk, AT_A_TIME, &pair);) {
        make_bytes(r->workload, r->job, a, pair.file, pair.bytes, expected);
        int64_t first = 0, wrong;
        if (r->workload->wrong)
            wrong = r->workload->wrong(r->job, a, expected, r->in + pair.memory, pair.bytes, &first);
        else
            wrong = differing(expected, r->in + pair.memory, pair.bytes, &first);
        if (wrong && r->outcome->wrong == 0) {
            r->outcome->first_wrong = pair.file + first;
            r->outcome->wrong_file = a->file;
        }
        r->outcome->wrong += wrong;
    }
}

/* Around every access, so that its time is its own: who is done early with other work would wait for the rest
 * within the call, and who goes on early to other work would take the processor from those still within. */
static void meet(void) { MPI_Barrier(MPI_COMM_WORLD); }

/* Makes the data of a write, or makes room for a read. */
static void prepare(struct runner *r, const struct access *a) {
    double start = MPI_Wtime();
    if (a->reading) {
        spoil(a, r->in);
    } else if (r->workload->compute) {
        r->workload->compute(r->job, a, r->input, r->in, r->out);
        double end = MPI_Wtime();
        r->outcome->seconds[COMPUTE] += end - start;
        start = end;
    } else {
        fill(r, a);
    }
    meet();
    r->untimed += MPI_Wtime() - start;
}

static void access_once(struct runner *r, const struct access *a) {
    prepare(r, a);
    bool first_of_step = a == r->plan->access || a[-1].step != a->step || a[-1].phase != a->phase;
    if (r->options->compute_ms > 0 && first_of_step) {
        busy(1e-3 * r->options->compute_ms);
        r->outcome->seconds[COMPUTE] += 1e-3 * r->options->compute_ms;
    }
    int64_t calls = store_move(&r->stores[a->file], a, a->reading ? r->in : r->out);
    double start = MPI_Wtime();
    meet();
    if (a->reading) {
        verify(r, a);
        r->input = a;
        r->outcome->read += pattern_bytes(a->where);
        r->outcome->read_calls += calls;
    } else {
        r->outcome->written += pattern_bytes(a->where);
        r->outcome->write_calls += calls;
    }
    r->untimed += MPI_Wtime() - start;
}

/* Whether the phase that starts at access `from` writes the file. */
static bool writes(const struct plan *plan, int from, int file) {
    for (int i = from; i < plan->accesses && plan->access[i].phase == plan->access[from].phase; i++)
        if (plan->access[i].file == file && !plan->access[i].reading) return true;
    return false;
}

static bool used_later(const struct plan *plan, int i) {
    for (int k = i + 1; k < plan->accesses && plan->access[k].phase == plan->access[i].phase; k++)
        if (plan->access[k].file == plan->access[i].file) return true;
    return false;
}

/* A file that is being read back is as long as it should be. */
static void expect_size(struct runner *r, int file) {
    struct store *store = &r->stores[file];
    double start = MPI_Wtime();
    int64_t size = store_size(store), due = r->plan->file[file].bytes;
    if (size != due && r->job->rank == 0) {
        fprintf(stderr, "pario-workload: %s: %lld bytes long, not %lld\n", store->path, (long long)size,
                (long long)due);
        if (r->outcome->wrong == 0) {
            r->outcome->first_wrong = size < due ? size : due;
            r->outcome->wrong_file = file;
        }
        r->outcome->wrong += size < due ? due - size : size - due;
    }
    r->untimed += MPI_Wtime() - start;
}

/* The accesses of one phase; returns the first that is not of it. */
static int run_phase(struct runner *r, int from) {
    const struct plan *plan = r->plan;
    int phase = plan->access[from].phase, i;
    bool checking = phase >= plan->check;
    r->untimed = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (i = from; i < plan->accesses && plan->access[i].phase == phase; i++) {
        const struct access *a = &plan->access[i];
        struct store *store = &r->stores[a->file];
        if (!store->is_open) {
            store_open(store, writes(plan, from, a->file));
            if (checking) expect_size(r, a->file);
        }
        access_once(r, a);
        if (!used_later(plan, i)) store_close(store, writes(plan, from, a->file));
    }
    r->outcome->seconds[checking ? READING : WRITING] += MPI_Wtime() - start - r->untimed;
    return i;
}

static unsigned char *buffer_for(const struct plan *plan, bool reading) {
    int64_t most = 1;
    for (int i = 0; i < plan->accesses; i++) {
        int64_t bytes = pattern_extent(plan->access[i].memory);
        if (plan->access[i].reading == reading && bytes > most) most = bytes;
    }
    unsigned char *memory = calloc(1, (size_t)most);
    if (!memory) give_up("no memory for a buffer of %lld bytes", (long long)most);
    return memory;
}

static void remove_files(struct runner *r) {
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; r->job->rank == 0 && i < r->plan->files; i++)
        store_remove(r->stores[i].path, r->options->posix);
    MPI_Barrier(MPI_COMM_WORLD);
}

void run_plan(const struct options *options, const struct workload *workload, const struct job *job,
              const struct plan *plan, struct outcome *outcome) {
    *outcome = (struct outcome){0};
    struct runner r = {.options = options, .workload = workload, .job = job, .plan = plan};
    r.outcome = outcome;
    r.stores = calloc((size_t)plan->files, sizeof *r.stores);
    if (!r.stores) give_up("no memory for %d files", plan->files);
    for (int i = 0; i < plan->files; i++) {
        struct store *store = &r.stores[i];
        path_of(options, workload, plan, i, store->path, sizeof store->path);
        store->file = &plan->file[i];
        store->options = options;
        store->seconds = outcome->seconds;
    }
    r.in = buffer_for(plan, true);
    r.out = buffer_for(plan, false);
    if (!options->read_only && !options->overwrite) remove_files(&r);
    for (int i = 0; i < plan->accesses;) {
        bool checking = plan->access[i].phase >= plan->check;
        if (checking ? options->write_only : options->read_only) {
            i++;
            continue;
        }
        i = run_phase(&r, i);
    }
    if (!options->keep && !options->write_only && !options->read_only) remove_files(&r);
    free(r.in);
    free(r.out);
    free(r.stores);
}
