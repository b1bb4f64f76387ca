/* Several threads of each rank use one file handle at once, under MPI_THREAD_MULTIPLE. */
#include <pthread.h>

#include "check.h"

enum { THREADS = 3, EACH = 40, BLOCK = 100 };

static MPI_File fh;
static int wrong[THREADS];

/* Which int of the file is int `k` of access `i` of this thread and rank. */
static int value_of(int thread, int i, int k) { return ((rank * THREADS + thread) * EACH + i) * BLOCK + k; }

static void *explicit_offsets(void *argument)
{
    int thread = (int)(intptr_t)argument, data[BLOCK], back[BLOCK];
    for (int i = 0; i < EACH; i++) {
        MPI_Status st;
        MPI_Request request;
        MPI_Offset at = value_of(thread, i, 0);
        for (int k = 0; k < BLOCK; k++)
            data[k] = value_of(thread, i, k);
        int code = i % 2 ? MPI_File_write_at(fh, at, data, BLOCK, MPI_INT, &st)
                         : MPI_File_iwrite_at(fh, at, data, BLOCK, MPI_INT, &request);
        if (i % 2 == 0 && code == MPI_SUCCESS)
            code = MPI_Wait(&request, &st);
        wrong[thread] += code != MPI_SUCCESS;
        memset(back, 0, sizeof back);
        code = i % 3 ? MPI_File_read_at(fh, at, back, BLOCK, MPI_INT, &st)
                     : MPI_File_iread_at(fh, at, back, BLOCK, MPI_INT, &request);
        if (i % 3 == 0 && code == MPI_SUCCESS)
            code = MPI_Wait(&request, &st);
        wrong[thread] += code != MPI_SUCCESS;
        wrong[thread] += memcmp(data, back, sizeof data) != 0;
    }
    return NULL;
}

static void *shared_pointer(void *argument)
{
    int thread = (int)(intptr_t)argument;
    for (int i = 0; i < EACH; i++) {
        int value = (rank * THREADS + thread) * EACH + i;
        MPI_Status st;
        wrong[thread] += MPI_File_write_shared(fh, &value, 1, MPI_INT, &st) != MPI_SUCCESS;
    }
    return NULL;
}

static void *own_pointer(void *argument)
{
    int thread = (int)(intptr_t)argument, value;
    for (int i = 0; i < EACH; i++) {
        MPI_Status st;
        wrong[thread] += MPI_File_read(fh, &value, 1, MPI_INT, &st) != MPI_SUCCESS;
        wrong[thread] += count_of(&st, MPI_INT) != 1;
    }
    return NULL;
}

static void together(void *(*work)(void *))
{
    pthread_t threads[THREADS];
    memset(wrong, 0, sizeof wrong);
    for (int t = 0; t < THREADS; t++)
        pthread_create(&threads[t], NULL, work, (void *)(intptr_t)t);
    for (int t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    for (int t = 0; t < THREADS; t++)
        CHECK(wrong[t] == 0, "thread %d: %d accesses went wrong", t, wrong[t]);
}

static int by_value(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

int main(int argc, char **argv)
{
    int provided = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    snprintf(dir, sizeof dir, "%s", argc > 1 ? argv[1] : ".");
    CLAUSE("threads", "threads may use one file handle at once");
    if (provided == MPI_THREAD_MULTIPLE) {
        fh = open_all("explicit", MPI_MODE_RDWR | MPI_MODE_CREATE);
        OK(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
        together(explicit_offsets);
        settle(fh);
        SAME(file_size(fh), 4LL * ranks * THREADS * EACH * BLOCK);
        together(own_pointer);
        SAME(position(fh), THREADS * EACH); /* no step of the pointer is lost */
        OK(MPI_File_close(&fh));
        fh = open_all("shared", MPI_MODE_RDWR | MPI_MODE_CREATE);
        OK(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
        together(shared_pointer);
        OK(MPI_File_close(&fh));
        static int all[8 * THREADS * EACH];
        SAME(slurp("shared", all, sizeof all), 4 * ranks * THREADS * EACH);
        qsort(all, (size_t)(ranks * THREADS * EACH), sizeof *all, by_value);
        for (int i = 0; i < ranks * THREADS * EACH; i++)
            SAME(all[i], i);
    }
    END_CLAUSE();
    return finish();
}
