#include "describe.h"

#include <stdio.h>
#include <stdlib.h>

#include "json.h"

enum { MOST_LENGTHS = 32 }; /* lengths of pieces that are told apart; any further ones are just counted */

struct tally {
    int64_t bytes, calls, pieces, shortest, longest;
    int lengths;
    struct {
        int64_t bytes, count;
    } length[MOST_LENGTHS];
};

static void count_piece(struct tally *t, int64_t bytes) {
    t->bytes += bytes;
    if (t->pieces == 0 || bytes < t->shortest) t->shortest = bytes;
    if (bytes > t->longest) t->longest = bytes;
    t->pieces++;
    int i = 0;
    while (i < t->lengths && t->length[i].bytes != bytes) i++;
    if (i == MOST_LENGTHS) return;
    if (i == t->lengths) t->length[t->lengths++].bytes = bytes;
    t->length[i].count++;
}

/* Adds the accesses that write, or those that read. */
static void count(struct tally *t, const struct plan *plan, bool reading) {
    for (int i = 0; i < plan->accesses; i++) {
        const struct access *a = &plan->access[i];
        if (a->reading != reading) continue;
        int64_t before = t->pieces;
        struct cursor cursor = cursor_at(a->where, 0);
        for (struct piece piece; next_piece(&cursor, &piece);) count_piece(t, piece.bytes);
        t->calls += a->how == EACH ? t->pieces - before : 1;
    }
}

static void print_tally(const char *name, const struct tally *t) {
    printf("\"%s\":{\"bytes\":%lld,\"calls\":%lld,\"pieces\":%lld,", name, (long long)t->bytes,
           (long long)t->calls, (long long)t->pieces);
    printf("\"shortest\":%lld,\"longest\":%lld,\"lengths\":[", (long long)t->shortest, (long long)t->longest);
    for (int i = 0; i < t->lengths; i++)
        printf("%s[%lld,%lld]", i ? "," : "", (long long)t->length[i].bytes, (long long)t->length[i].count);
    printf("]}");
}

static void print_files(const struct plan *plan) {
    printf(",\"files\":[");
    for (int i = 0; i < plan->files; i++) {
        printf("%s{\"name\":", i ? "," : "");
        json_text(stdout, plan->file[i].name);
        printf(",\"bytes\":%lld}", (long long)plan->file[i].bytes);
    }
    printf("]");
}

const char *describe(const struct workload *workload, struct job job) {
    struct tally all[2] = {0};
    int64_t *each = calloc((size_t)job.ranks, 2 * sizeof *each);
    if (!each) give_up("no memory for %d ranks", job.ranks);
    for (job.rank = 0; job.rank < job.ranks; job.rank++) {
        struct plan plan = {0};
        const char *why = workload->plan(&plan, &job);
        if (why) {
            plan_free(&plan);
            free(each);
            return why;
        }
        for (int reading = 0; reading < 2; reading++) {
            int64_t before = all[reading].bytes;
            count(&all[reading], &plan, reading);
            each[2 * job.rank + reading] = all[reading].bytes - before;
        }
        if (job.rank == 0) {
            printf("{\"workload\":\"%s\",\"preset\":\"%s\",\"ranks\":%d,\"steps\":%d", workload->name,
                   job.preset->name, job.ranks, job.steps);
            print_files(&plan);
        }
        plan_free(&plan);
    }
    printf(",");
    print_tally("write", &all[0]);
    printf(",");
    print_tally("read", &all[1]);
    printf(",\"rank_bytes\":[");
    for (int i = 0; i < job.ranks; i++)
        printf("%s[%lld,%lld]", i ? "," : "", (long long)each[2 * i], (long long)each[2 * i + 1]);
    printf("]}\n");
    free(each);
    return NULL;
}

void list_workloads(void) {
    printf("[");
    for (int i = 0; workloads[i]; i++) {
        printf("%s{\"name\":\"%s\",\"about\":", i ? ",\n" : "", workloads[i]->name);
        json_text(stdout, workloads[i]->about);
        printf(",\"steps\":%s,\"presets\":[", workloads[i]->step ? "true" : "false");
        for (const struct preset *preset = workloads[i]->presets; preset->name; preset++) {
            printf("%s{\"name\":\"%s\",\"about\":", preset == workloads[i]->presets ? "" : ",", preset->name);
            json_text(stdout, preset->about);
            printf("}");
        }
        printf("]}");
    }
    printf("]\n");
}
