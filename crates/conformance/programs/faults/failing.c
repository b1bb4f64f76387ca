/* A storage that fails on demand: put in front of the C library, it makes chosen accesses to chosen files go
 * wrong. The program under test arms and disarms it; unarmed, and for files whose path does not contain
 * FAULT_PATH, every call goes straight to the C library. It logs injected faults in the file FAULT_LOG,
 * one line each: rank, operation, errno, offset, length.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "failing.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fault armed;
static int seen, injected;

void fault_arm(const struct fault *fault)
{
    pthread_mutex_lock(&lock);
    armed = *fault;
    seen = injected = 0;
    pthread_mutex_unlock(&lock);
}

int fault_disarm(void)
{
    pthread_mutex_lock(&lock);
    int n = injected;
    armed.how = FAULT_NONE;
    pthread_mutex_unlock(&lock);
    return n;
}

static int concerns(int fd)
{
    char link[64], path[4096];
    const char *part = getenv("FAULT_PATH");
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0 || part == NULL) return 0;
    path[n] = 0;
    return strstr(path, part) != NULL;
}

static void tell(const char *op, int error, off64_t at, size_t len)
{
    char line[256];
    const char *rank = getenv("PMI_RANK"), *log = getenv("FAULT_LOG");
    if (rank == NULL) rank = getenv("OMPI_COMM_WORLD_RANK");
    if (log == NULL) return;
    int n = snprintf(line, sizeof line, "%s %s %d %lld %zu\n", rank ? rank : "?", op, error, (long long)at,
                     len);
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (fd < 0 || write(fd, line, (size_t)n) != n) abort();
    close(fd);
}

/* The outcome of this call: 0, let it pass; -1, it fails with errno; else move so many bytes only. */
static ssize_t verdict(enum fault_op op, int fd, off64_t at, size_t len)
{
    static const char *names[] = {"write", "read", "sync"};
    ssize_t answer = 0;
    if (armed.how == FAULT_NONE || armed.op != op || !concerns(fd)) return 0;
    pthread_mutex_lock(&lock);
    int turn = ++seen;
    if (armed.how == FAULT_SHORT && len > 1) {
        answer = (ssize_t)(1 + (size_t)(turn * 7919) % (len - 1));
    } else if (armed.how == FAULT_INTERRUPT && turn % 3 != 0) {
        errno = EINTR, answer = -1;
    } else if (armed.how == FAULT_FAIL && (turn == armed.after || (armed.stays && turn > armed.after))) {
        tell(names[op], armed.error, at, len);
        errno = armed.error, answer = -1;
    } else if (armed.how == FAULT_KILL && turn == armed.after) {
        raise(SIGKILL);
    }
    injected += answer != 0;
    pthread_mutex_unlock(&lock);
    return answer;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* The single-buffer calls, under both of their names. */
#define SINGLE(name, op, pointer, offset)                                                       \
    ssize_t name(int fd, pointer bytes, size_t len, offset at)                                  \
    {                                                                                           \
        ssize_t limit = verdict(op, fd, at, len);                                               \
        return limit < 0 ? -1 : REAL(name)(fd, bytes, limit > 0 ? (size_t)limit : len, at);     \
    }

SINGLE(pwrite64, FAULT_WRITE, const void *, off64_t)
SINGLE(pread64, FAULT_READ, void *, off64_t)
SINGLE(pwrite, FAULT_WRITE, const void *, off_t)
SINGLE(pread, FAULT_READ, void *, off_t)

static size_t total(const struct iovec *parts, int n)
{
    size_t len = 0;
    for (int i = 0; i < n; i++) len += parts[i].iov_len;
    return len;
}

/* As many of the parts as `limit` bytes need, the last one cut. */
static int trim(struct iovec *to, const struct iovec *parts, int n, size_t limit)
{
    for (int i = 0; i < n; i++) {
        to[i] = parts[i];
        if (parts[i].iov_len >= limit) {
            to[i].iov_len = limit;
            return i + 1;
        }
        limit -= parts[i].iov_len;
    }
    return n;
}

#define VECTORED(name, op, offset, more, pass)                                                  \
    ssize_t name(int fd, const struct iovec *parts, int n, offset at more)                      \
    {                                                                                           \
        struct iovec fewer[1024];                                                               \
        ssize_t limit = verdict(op, fd, at, total(parts, n));                                   \
        if (limit < 0) return -1;                                                               \
        if (limit > 0) n = trim(fewer, parts, n, (size_t)limit), parts = fewer;                 \
        return REAL(name)(fd, parts, n, at pass);                                               \
    }
#define NOTHING
#define FLAGS , int flags
#define PASS_FLAGS , flags

VECTORED(pwritev64, FAULT_WRITE, off64_t, NOTHING, NOTHING)
VECTORED(preadv64, FAULT_READ, off64_t, NOTHING, NOTHING)
VECTORED(pwritev, FAULT_WRITE, off_t, NOTHING, NOTHING)
VECTORED(preadv, FAULT_READ, off_t, NOTHING, NOTHING)
VECTORED(pwritev64v2, FAULT_WRITE, off64_t, FLAGS, PASS_FLAGS)
VECTORED(preadv64v2, FAULT_READ, off64_t, FLAGS, PASS_FLAGS)

int fsync(int fd) { return verdict(FAULT_SYNC, fd, 0, 0) < 0 ? -1 : REAL(fsync)(fd); }
int fdatasync(int fd) { return verdict(FAULT_SYNC, fd, 0, 0) < 0 ? -1 : REAL(fdatasync)(fd); }
