/* The library is opened at run time (argument 2 says where it is), used, and closed again while its threads and its work at
 * MPI_Finalize are still to come. */
#include <dlfcn.h>

#include "check.h"

typedef int open_function(MPI_Comm, const char *, int, MPI_Info, MPI_File *);
typedef int access_function(MPI_File, MPI_Offset, const void *, int, MPI_Datatype, MPI_Status *);
typedef int start_function(MPI_File, MPI_Offset, const void *, int, MPI_Datatype, MPI_Request *);
typedef int close_function(MPI_File *);

static int is_loaded(void)
{
    char line[4096];
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        found |= strstr(line, "libpario.so") != NULL;
    if (maps)
        fclose(maps);
    return found;
}

int main(int argc, char **argv)
{
    static unsigned char data[100000];
    begin(&argc, &argv);
    CLAUSE("unloaded", "a library that is closed harms nobody");
    void *library = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
    CHECK(library != NULL, "cannot open the library: %s", dlerror());
    if (library) {
        open_function *open_it = (open_function *)dlsym(library, "MPI_File_open");
        access_function *write_it = (access_function *)dlsym(library, "MPI_File_write_at");
        start_function *start_it = (start_function *)dlsym(library, "MPI_File_iwrite_at");
        close_function *close_it = (close_function *)dlsym(library, "MPI_File_close");
        MPI_File fh, left_open;
        MPI_Request request;
        OK(open_it(MPI_COMM_SELF, path(rank ? "one" : "zero"), MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &fh));
        OK(write_it(fh, 0, data, sizeof data, MPI_BYTE, MPI_STATUS_IGNORE));
        OK(start_it(fh, sizeof data, data, sizeof data, MPI_BYTE, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        OK(close_it(&fh));
        OK(open_it(MPI_COMM_SELF, path("left"), MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &left_open));
        OK(write_it(left_open, 0, data, sizeof data, MPI_BYTE, MPI_STATUS_IGNORE));
        CHECK(dlclose(library) == 0, "cannot close the library: %s", dlerror());
        CHECK(is_loaded(), "the library is gone, and its threads run in it");
    }
    END_CLAUSE();
    return finish();
}
