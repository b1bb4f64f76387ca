/* Programs that wait for each other, and for the test, by files that appear in a directory. */
#ifndef MARKERS_H
#define MARKERS_H

#include <fcntl.h>
#include <unistd.h>

#include "../apps/check.h"

static const char *marker_dir;

static void marker_path(char *path, size_t size, const char *name)
{
    snprintf(path, size, "%s/%s", marker_dir, name);
}

static void mark(const char *name)
{
    char path[4096];
    marker_path(path, sizeof path, name);
    int fd = open(path, O_WRONLY | O_CREAT, 0644);
    EXPECT(fd >= 0 && close(fd) == 0);
}

static int is_marked(const char *name)
{
    char path[4096];
    marker_path(path, sizeof path, name);
    return access(path, F_OK) == 0;
}

/* Every rank polls by itself: one that waits in MPI would take a core from those it waits for. The limit is generous. */
static void await(const char *name)
{
    for (double since = MPI_Wtime(); !is_marked(name); usleep(1000))
        if (MPI_Wtime() - since > 60) FAIL("no marker %s within a minute", name);
}

#endif
