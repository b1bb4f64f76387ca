#include "report.h"

#include <stdlib.h>
#include <string.h>

#include "json.h"

/* All ranks together: the longest times, the sums of the rest, the first wrong byte of the first file. */
static struct outcome together(const struct outcome *each, int ranks) {
    struct outcome all = {0};
    for (int i = 0; i < ranks; i++) {
        const struct outcome *o = &each[i];
        for (int s = 0; s < SPENT; s++)
            if (o->seconds[s] > all.seconds[s]) all.seconds[s] = o->seconds[s];
        bool earlier = o->wrong_file < all.wrong_file ||
                       (o->wrong_file == all.wrong_file && o->first_wrong < all.first_wrong);
        if (o->wrong && (all.wrong == 0 || earlier)) {
            all.wrong_file = o->wrong_file;
            all.first_wrong = o->first_wrong;
        }
        all.wrong += o->wrong;
        all.written += o->written;
        all.read += o->read;
        all.write_calls += o->write_calls;
        all.read_calls += o->read_calls;
    }
    return all;
}

static void print_outcome(FILE *to, const struct outcome *o) {
    fprintf(to, "{\"seconds\":{");
    for (int s = 0; s < SPENT; s++) fprintf(to, "\"%s\":%.9f,", spent_names[s], o->seconds[s]);
    fprintf(to, "\"open_to_close\":%.9f},", o->seconds[WRITING] + o->seconds[READING]);
    fprintf(to, "\"bytes_written\":%lld,\"bytes_read\":%lld,", (long long)o->written, (long long)o->read);
    fprintf(to, "\"write_calls\":%lld,\"read_calls\":%lld}", (long long)o->write_calls,
            (long long)o->read_calls);
}

static void print_json(FILE *to, const struct options *options, const struct workload *workload,
                       const struct job *job, const struct plan *plan, const struct outcome *each,
                       const struct outcome *all) {
    char library[MPI_MAX_LIBRARY_VERSION_STRING], path[1024];
    int length;
    MPI_Get_library_version(library, &length);
    library[strcspn(library, "\n")] = '\0';
    fprintf(to, "{\"workload\":\"%s\",\"preset\":\"%s\",", workload->name, job->preset->name);
    fprintf(to, "\"steps\":%d,\"ranks\":%d,\"seed\":%llu,\"mpi\":", job->steps, job->ranks,
            (unsigned long long)job->seed);
    json_text(to, library);
    fprintf(to, ",\"interface\":\"%s\",\"all\":", options->posix ? "posix" : "mpi-io");
    print_outcome(to, all);
    fprintf(to, ",\"each\":[");
    for (int i = 0; i < job->ranks; i++) {
        if (i) fputc(',', to);
        print_outcome(to, &each[i]);
    }
    /* A run that reads nothing has verified nothing. */
    const char *verified = all->read == 0 ? "null" : all->wrong ? "false" : "true";
    fprintf(to, "],\"verified\":%s,\"wrong_bytes\":%lld", verified, (long long)all->wrong);
    if (all->wrong) {
        path_of(options, workload, plan, (int)all->wrong_file, path, sizeof path);
        fprintf(to, ",\"first_wrong\":{\"file\":");
        json_text(to, path);
        fprintf(to, ",\"offset\":%lld}", (long long)all->first_wrong);
    }
    fprintf(to, "}\n");
}

/* Mebibytes per second. */
static double rate(int64_t bytes, double seconds) {
    return seconds > 0 ? (double)bytes / seconds / (1 << 20) : 0;
}

static void print_summary(const struct workload *workload, const struct job *job, const struct outcome *all) {
    printf("%s %s, %d ranks:", workload->name, job->preset->name, job->ranks);
    if (all->written)
        printf(" wrote %.1f MiB in %.3f s (%.0f MiB/s)%s", (double)all->written / (1 << 20),
               all->seconds[WRITING], rate(all->written, all->seconds[WRITING]),
               all->seconds[READING] > 0 ? "," : "");
    if (all->seconds[READING] > 0)
        printf(" read back in %.3f s, %s", all->seconds[READING], all->wrong ? "WRONG" : "all bytes right");
    printf("\n");
}

int64_t report(FILE *json, const struct options *options, const struct workload *workload,
               const struct job *job, const struct plan *plan, const struct outcome *mine) {
    struct outcome *each = malloc((size_t)job->ranks * sizeof *each), all;
    if (!each) give_up("no memory for the results of %d ranks", job->ranks);
    MPI_Allgather(mine, (int)sizeof *mine, MPI_BYTE, each, (int)sizeof *mine, MPI_BYTE, MPI_COMM_WORLD);
    all = together(each, job->ranks);
    if (job->rank == 0) {
        if (json) print_json(json, options, workload, job, plan, each, &all);
        if (json != stdout) print_summary(workload, job, &all);
        fflush(stdout);
    }
    if (job->rank == 0 && all.wrong) {
        char path[1024];
        path_of(options, workload, plan, (int)all.wrong_file, path, sizeof path);
        fprintf(stderr, "pario-workload: %s: %lld bytes are wrong, the first at offset %lld of %s\n",
                workload->name, (long long)all.wrong, (long long)all.first_wrong, path);
    }
    free(each);
    return all.wrong;
}
