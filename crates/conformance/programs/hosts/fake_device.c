/* A stand-in for a GPU's driver library: `libcuda.so.1`, or with -DHIP `libamdhip64.so.6`. Its device memory is memory that the
 * processor may not access outside of the functions here.
 *
 * FAKE_DEVICE_FAILS makes copies fail.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MOST = 16 };
static struct { char *base; size_t len; int managed; } table[MOST];
static long copies;

static int find(uintptr_t address)
{
    for (int i = 0; i < MOST; i++)
        if (table[i].base && address >= (uintptr_t)table[i].base && address < (uintptr_t)table[i].base + table[i].len)
            return i;
    return -1;
}

void *fake_device_alloc(size_t len, int managed)
{
    for (int i = 0; i < MOST; i++) {
        if (table[i].base)
            continue;
        int access = managed ? PROT_READ | PROT_WRITE : PROT_NONE;
        table[i].base = mmap(NULL, len, access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        table[i].len = len;
        table[i].managed = managed;
        return table[i].base;
    }
    return NULL;
}

long fake_device_copies(void) { return copies; }

static int copy(char *to, const char *from, size_t len, const char *device)
{
    int i = find((uintptr_t)device);
    if (i < 0 || device + len > table[i].base + table[i].len || getenv("FAKE_DEVICE_FAILS"))
        return 1;
    copies++;
    mprotect(table[i].base, table[i].len, PROT_READ | PROT_WRITE);
    memcpy(to, from, len);
    if (!table[i].managed)
        mprotect(table[i].base, table[i].len, PROT_NONE);
    return 0;
}

#ifdef HIP
struct attributes { int type, device; void *device_pointer, *host_pointer; int is_managed; unsigned flags; };

int hipPointerGetAttributes(struct attributes *found, const void *address)
{
    int i = find((uintptr_t)address);
    if (i < 0)
        return 1;
    *found = (struct attributes){2, 0, (void *)address, NULL, table[i].managed, 0};
    return 0;
}

int hipMemcpy(void *to, const void *from, size_t len, int kind)
{
    return copy(to, from, len, kind == 1 ? to : from);
}
#else
static int context, depth;

int cuPointerGetAttribute(void *value, int attribute, uint64_t address)
{
    int i = find(address);
    if (i < 0)
        return 1;
    switch (attribute) {
    case 1: *(void **)value = &context; return 0;
    case 2: *(unsigned *)value = 2; return 0;
    case 8: *(unsigned char *)value = (unsigned char)table[i].managed; return 0;
    default: return 1;
    }
}

int cuCtxPushCurrent_v2(void *wanted) { depth++; return wanted && wanted != &context; }
int cuCtxPopCurrent_v2(void **last) { depth--; *last = &context; return 0; }

int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t len)
{
    return depth == 1 ? copy(to, (char *)from, len, (char *)from) : 2;
}

int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t len)
{
    return depth == 1 ? copy((char *)to, from, len, (char *)to) : 2;
}
#endif
