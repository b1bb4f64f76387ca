// Error handlers of Open MPI's C++ binding on files, and a handler in C that throws an exception.
#include <mpi.h>
#include <stdio.h>

static int called;

static void on_error(MPI::File &, int *code, ...)
{
    called++;
    *code = MPI_SUCCESS;
}

static void throws(MPI_File *, int *code, ...)
{
    throw *code;
}

int main(int argc, char **argv)
{
    MPI::Init(argc, argv);
    MPI::File file = MPI::File::Open(MPI::COMM_WORLD, argv[1], MPI::MODE_RDWR | MPI::MODE_CREATE, MPI::INFO_NULL);
    MPI::Errhandler handler = MPI::File::Create_errhandler(on_error);
    file.Set_errhandler(handler);
    handler.Free();
    file.Seek(-5, MPI_SEEK_SET);
    file.Seek(0, MPI_SEEK_SET);
    MPI_Errhandler other;
    MPI_File_create_errhandler(throws, &other);
    MPI_File_set_errhandler(file, other);
    MPI_Errhandler_free(&other);
    int thrown = 0;
    try {
        MPI_File_seek(file, -5, MPI_SEEK_SET);
    } catch (int code) {
        thrown = code;
    }
    file.Close();
    if (called == 1 && thrown != 0)
        printf("passed\n");
    else
        printf("called %d, thrown %d\n", called, thrown);
    MPI::Finalize();
    return 0;
}
