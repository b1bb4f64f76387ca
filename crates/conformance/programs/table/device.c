/* Buffers in the memory of a GPU: argument 2 is the stand-in for its driver library, argument 3 says `fails` if copies fail. */
#include <dlfcn.h>

#include "check.h"

enum { LEN = 6000 };

static void *(*device_alloc)(size_t, int);
static long (*device_copies)(void);
static int (*to_host)(void *, uint64_t, size_t), (*to_device)(uint64_t, const void *, size_t);
static int (*hip_copy)(void *, const void *, size_t, int);
static int (*push)(void *), (*pop)(void **);

static void get(char *host, const char *device, size_t len)
{
    void *context;
    if (push)
        push(NULL); /* the stand-in has one context */
    CHECK((hip_copy ? hip_copy(host, device, len, 2) : to_host(host, (uint64_t)device, len)) == 0, "cannot copy");
    if (pop)
        pop(&context);
}

static void set(char *device, const char *host, size_t len)
{
    void *context;
    if (push)
        push(NULL); /* the stand-in has one context */
    CHECK((hip_copy ? hip_copy(device, host, len, 1) : to_device((uint64_t)device, host, len)) == 0, "cannot copy");
    if (pop)
        pop(&context);
}

static void load(const char *library)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    CHECK(handle != NULL, "%s", dlerror());
    device_alloc = (void *(*)(size_t, int))dlsym(handle, "fake_device_alloc");
    device_copies = (long (*)(void))dlsym(handle, "fake_device_copies");
    to_host = (int (*)(void *, uint64_t, size_t))dlsym(handle, "cuMemcpyDtoH_v2");
    to_device = (int (*)(uint64_t, const void *, size_t))dlsym(handle, "cuMemcpyHtoD_v2");
    hip_copy = (int (*)(void *, const void *, size_t, int))dlsym(handle, "hipMemcpy");
    push = (int (*)(void *))dlsym(handle, "cuCtxPushCurrent_v2");
    pop = (int (*)(void **))dlsym(handle, "cuCtxPopCurrent_v2");
}

static char host[LEN], back[LEN];

static void fill(int seed)
{
    for (int i = 0; i < LEN; i++)
        host[i] = (char)(i * 7 + seed + 31 * rank);
}

/* What all kinds of calls write from the GPU and read into it. */
static void works(MPI_File fh, char *memory)
{
    MPI_Request request;
    MPI_Datatype holes;
    MPI_Offset at = (MPI_Offset)rank * LEN;
    for (int kind = 0; kind < 4; kind++) {
        fill(kind);
        set(memory, host, LEN);
        switch (kind) {
        case 0: OK(MPI_File_write_at(fh, at, memory, LEN, MPI_BYTE, MPI_STATUS_IGNORE)); break;
        case 1: OK(MPI_File_write_at_all(fh, at, memory, LEN, MPI_BYTE, MPI_STATUS_IGNORE)); break;
        case 2:
            OK(MPI_File_iwrite_at_all(fh, at, memory, LEN, MPI_BYTE, &request));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            break;
        default:
            OK(MPI_File_write_at_all_begin(fh, at, memory, LEN, MPI_BYTE));
            OK(MPI_File_write_at_all_end(fh, memory, MPI_STATUS_IGNORE));
        }
        OK(MPI_File_read_at(fh, at, back, LEN, MPI_BYTE, MPI_STATUS_IGNORE));
        CHECK(memcmp(host, back, LEN) == 0, "kind %d wrote other bytes", kind);
        memset(back, 0, LEN);
        set(memory, back, LEN);
        switch (kind) {
        case 0: OK(MPI_File_read_at(fh, at, memory, LEN, MPI_BYTE, MPI_STATUS_IGNORE)); break;
        case 1: OK(MPI_File_read_at_all(fh, at, memory, LEN, MPI_BYTE, MPI_STATUS_IGNORE)); break;
        case 2:
            OK(MPI_File_iread_at(fh, at, memory, LEN, MPI_BYTE, &request));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            break;
        default:
            OK(MPI_File_read_at_all_begin(fh, at, memory, LEN, MPI_BYTE));
            OK(MPI_File_read_at_all_end(fh, memory, MPI_STATUS_IGNORE));
        }
        get(back, memory, LEN);
        CHECK(memcmp(host, back, LEN) == 0, "kind %d read other bytes", kind);
    }
    /* Bytes between those of the datatype stay. */
    MPI_Type_vector(10, 50, 100, MPI_BYTE, &holes);
    MPI_Type_commit(&holes);
    memset(back, 'x', LEN);
    set(memory, back, LEN);
    OK(MPI_File_read_at(fh, at, memory + 3, 1, holes, MPI_STATUS_IGNORE));
    get(back, memory, LEN);
    for (int i = 0, data = 0; i < 1100; i++) {
        int in = i >= 3 && i < 953 && (i - 3) % 100 < 50;
        CHECK(back[i] == (in ? host[data] : 'x'), "byte %d is %d", i, back[i]);
        data += in;
    }
    MPI_Type_free(&holes);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_File fh = open_all("file", MPI_MODE_RDWR | MPI_MODE_CREATE);
    CLAUSE("device", "memory of a GPU is copied or refused");
    fill(0);
    OK(MPI_File_write_at_all(fh, 0, host, LEN, MPI_BYTE, MPI_STATUS_IGNORE));
    load(argv[2]);
    char *memory = device_alloc(LEN, 0), *managed = device_alloc(LEN, 1);
    usleep(10000); /* a driver takes longer */
    if (argc > 3) {
        GIVES(MPI_File_write_at(fh, 0, memory, LEN, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_BUFFER);
        FAILS(MPI_File_read_at_all(fh, 0, memory, LEN, MPI_BYTE, MPI_STATUS_IGNORE));
    } else {
        works(fh, memory);
        MPI_Datatype absolute;
        MPI_Aint address;
        MPI_Get_address(memory, &address);
        MPI_Type_create_hindexed(1, (int[]){10}, &address, MPI_BYTE, &absolute);
        MPI_Type_commit(&absolute);
        GIVES(MPI_File_write_at(fh, 0, MPI_BOTTOM, 1, absolute, MPI_STATUS_IGNORE), MPI_ERR_BUFFER);
        MPI_Type_free(&absolute);
    }
    long before = device_copies();
    OK(MPI_File_write_at(fh, (MPI_Offset)rank * LEN, host, LEN, MPI_BYTE, MPI_STATUS_IGNORE));
    OK(MPI_File_write_at(fh, (MPI_Offset)rank * LEN, managed, LEN, MPI_BYTE, MPI_STATUS_IGNORE));
    OK(MPI_File_write_at(fh, (MPI_Offset)rank * LEN, memory, 0, MPI_BYTE, MPI_STATUS_IGNORE));
    SAME(device_copies(), before);
    OK(MPI_File_close(&fh));
    END_CLAUSE();
    return finish();
}
