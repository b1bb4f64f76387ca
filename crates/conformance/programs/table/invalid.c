/* Invalid handles: every call gets an error class, none faults, and the program continues.
 *
 * MPICH keeps no mark on a freed datatype, so a call with one may succeed there; it must not fault.
 */
#include "check.h"

/* Values that are no handles of this MPI: null pointers, small and large numbers, unaligned and unmapped addresses, and the address of
 * memory that is not an object. */
static const char memory[256] = "not an object";
static uintptr_t garbage(int i)
{
    const uintptr_t values[] = {1, 7, 0x12345678, 0x7fffffff, (uintptr_t)memory, (uintptr_t)memory + 1,
                                (uintptr_t)&garbage, 0x7ffffffff000 + 3, ((uintptr_t)1 << 46) + 5, ~(uintptr_t)0};
    return i < (int)(sizeof values / sizeof *values) ? values[i] : 0;
}

/* Every call with this file handle is MPI_ERR_FILE. */
static void with_file(MPI_File fh)
{
    char byte = 0, rep[MPI_MAX_DATAREP_STRING];
    int flag;
    MPI_Aint extent;
    MPI_Offset at;
    MPI_Request request;
    MPI_Info info;
    MPI_Group group;
    MPI_Datatype etype, filetype;
    MPI_File copy = fh;
    GIVES(MPI_File_write_at(fh, 0, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_FILE);
    GIVES(MPI_File_write_at_all(fh, 0, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_FILE);
    GIVES(MPI_File_read(fh, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_FILE);
    GIVES(MPI_File_read_ordered(fh, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_FILE);
    GIVES(MPI_File_iwrite(fh, &byte, 1, MPI_BYTE, &request), MPI_ERR_FILE);
    GIVES(MPI_File_iread_all(fh, &byte, 1, MPI_BYTE, &request), MPI_ERR_FILE);
    GIVES(MPI_File_write_all_begin(fh, &byte, 1, MPI_BYTE), MPI_ERR_FILE);
    GIVES(MPI_File_write_all_end(fh, &byte, MPI_STATUS_IGNORE), MPI_ERR_FILE);
    GIVES(MPI_File_set_view(fh, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL), MPI_ERR_FILE);
    GIVES(MPI_File_get_view(fh, &at, &etype, &filetype, rep), MPI_ERR_FILE);
    GIVES(MPI_File_set_info(fh, MPI_INFO_NULL), MPI_ERR_FILE);
    GIVES(MPI_File_get_info(fh, &info), MPI_ERR_FILE);
    GIVES(MPI_File_get_group(fh, &group), MPI_ERR_FILE);
    GIVES(MPI_File_get_amode(fh, &flag), MPI_ERR_FILE);
    GIVES(MPI_File_set_size(fh, 1), MPI_ERR_FILE);
    GIVES(MPI_File_preallocate(fh, 1), MPI_ERR_FILE);
    GIVES(MPI_File_get_size(fh, &at), MPI_ERR_FILE);
    GIVES(MPI_File_seek(fh, 0, MPI_SEEK_SET), MPI_ERR_FILE);
    GIVES(MPI_File_seek_shared(fh, 0, MPI_SEEK_SET), MPI_ERR_FILE);
    GIVES(MPI_File_get_position(fh, &at), MPI_ERR_FILE);
    GIVES(MPI_File_get_position_shared(fh, &at), MPI_ERR_FILE);
    GIVES(MPI_File_get_byte_offset(fh, 0, &at), MPI_ERR_FILE);
    GIVES(MPI_File_get_type_extent(fh, MPI_INT, &extent), MPI_ERR_FILE);
    GIVES(MPI_File_set_atomicity(fh, 1), MPI_ERR_FILE);
    GIVES(MPI_File_get_atomicity(fh, &flag), MPI_ERR_FILE);
    GIVES(MPI_File_sync(fh), MPI_ERR_FILE);
    GIVES(MPI_File_close(&copy), MPI_ERR_FILE);
}

static void files(void)
{
    CLAUSE("file", "a file handle that is null, closed or garbage is MPI_ERR_FILE");
    MPI_File fh = open_all("file", MPI_MODE_RDWR | MPI_MODE_CREATE), closed = fh;
    OK(MPI_File_close(&fh));
    with_file(MPI_FILE_NULL);
    with_file(closed);
    for (int i = 0; garbage(i); i++)
        with_file((MPI_File)garbage(i));
    CHECK(MPI_File_f2c(12345) == MPI_FILE_NULL, "a number that is no file");
    CHECK(MPI_File_f2c(-1) == MPI_FILE_NULL, "a number that is no file");
    SAME(MPI_File_c2f(closed), MPI_File_c2f(MPI_FILE_NULL));
    END_CLAUSE();
}

/* Every call with this datatype fails with MPI_ERR_TYPE; or, `freed` in MPICH, it may succeed. */
static void with_type(MPI_File fh, MPI_Datatype type, int may_succeed)
{
    char bytes[64] = "";
    MPI_Aint extent;
    MPI_Request request = MPI_REQUEST_NULL;
    int also = may_succeed ? MPI_SUCCESS : MPI_ERR_TYPE;
    GIVES2(MPI_File_write_at(fh, 0, bytes, 1, type, MPI_STATUS_IGNORE), MPI_ERR_TYPE, also);
    GIVES2(MPI_File_read_at_all(fh, 0, bytes, 1, type, MPI_STATUS_IGNORE), MPI_ERR_TYPE, also);
    int rc = MPI_File_iwrite_at(fh, 0, bytes, 1, type, &request);
    GIVES2(rc, MPI_ERR_TYPE, also);
    if (rc == MPI_SUCCESS)
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    rc = MPI_File_write_at_all_begin(fh, 0, bytes, 1, type);
    GIVES2(rc, MPI_ERR_TYPE, also);
    if (rc == MPI_SUCCESS)
        OK(MPI_File_write_at_all_end(fh, bytes, MPI_STATUS_IGNORE));
    GIVES2(MPI_File_get_type_extent(fh, type, &extent), MPI_ERR_TYPE, also);
    GIVES2(MPI_File_set_view(fh, 0, type, type, "native", MPI_INFO_NULL), MPI_ERR_TYPE, also);
    GIVES2(MPI_File_set_view(fh, 0, MPI_BYTE, type, "native", MPI_INFO_NULL), MPI_ERR_TYPE, also);
    OK(MPI_File_set_view(fh, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
}

static void types(void)
{
    CLAUSE("datatype", "a datatype that is null, freed or garbage is MPI_ERR_TYPE");
    MPI_File fh = open_all("file", MPI_MODE_RDWR | MPI_MODE_CREATE);
    with_type(fh, MPI_DATATYPE_NULL, 0);
    for (int used = 0; used < 2; used++) {
        MPI_Datatype type, freed;
        MPI_Type_vector(3, 1, 2, MPI_INT, &type);
        MPI_Type_commit(&type);
        freed = type;
        if (used)
            OK(MPI_File_write_at(fh, 0, (char[64]){0}, 1, type, MPI_STATUS_IGNORE));
        MPI_Type_free(&type);
        with_type(fh, freed, 1);
    }
    for (int i = 0; garbage(i); i++)
        with_type(fh, (MPI_Datatype)garbage(i), 0);
    with_type(fh, (MPI_Datatype)(uintptr_t)MPI_COMM_WORLD, 0);
    with_type(fh, (MPI_Datatype)(uintptr_t)MPI_INFO_NULL, 0);
    OK(MPI_File_close(&fh));
    END_CLAUSE();
}

static void with_info(MPI_File fh, MPI_Info info)
{
    MPI_File other = MPI_FILE_NULL;
    GIVES(MPI_File_set_info(fh, info), MPI_ERR_INFO);
    GIVES(MPI_File_set_view(fh, 0, MPI_BYTE, MPI_BYTE, "native", info), MPI_ERR_INFO);
    GIVES(MPI_File_open(MPI_COMM_SELF, path("other"), MPI_MODE_RDWR | MPI_MODE_CREATE, info, &other), MPI_ERR_INFO);
    GIVES(MPI_File_delete(path("file"), info), MPI_ERR_INFO);
    CHECK(other == MPI_FILE_NULL, "a file was opened");
}

static void infos(void)
{
    CLAUSE("info", "an info object that is freed or garbage is MPI_ERR_INFO");
    MPI_File fh = open_all("file", MPI_MODE_RDWR | MPI_MODE_CREATE);
    MPI_Info info, freed;
    MPI_Info_create(&info);
    MPI_Info_set(info, "cb_nodes", "1");
    freed = info;
    OK(MPI_File_set_info(fh, info));
    MPI_Info_free(&info);
    with_info(fh, freed);
    for (int i = 0; garbage(i); i++)
        with_info(fh, (MPI_Info)garbage(i));
    with_info(fh, (MPI_Info)(uintptr_t)MPI_INT);
    OK(MPI_File_close(&fh));
    END_CLAUSE();
}

static void with_comm(MPI_Comm comm)
{
    MPI_File fh = MPI_FILE_NULL;
    GIVES(MPI_File_open(comm, path("other"), MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &fh), MPI_ERR_COMM);
    CHECK(fh == MPI_FILE_NULL, "a file was opened");
}

static void comms(void)
{
    CLAUSE("communicator", "a communicator that is null, freed or garbage is MPI_ERR_COMM");
    MPI_Comm comm, freed;
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    freed = comm;
    MPI_Comm_free(&comm);
    with_comm(MPI_COMM_NULL);
    with_comm(freed);
    for (int i = 0; garbage(i); i++)
        with_comm((MPI_Comm)garbage(i));
    with_comm((MPI_Comm)(uintptr_t)MPI_INT);
    END_CLAUSE();
}

static void handlers(void)
{
    CLAUSE("errhandler", "an error handler that is null or garbage is an error");
    MPI_File fh = open_all("file", MPI_MODE_RDWR | MPI_MODE_CREATE);
    FAILS(MPI_File_set_errhandler(fh, MPI_ERRHANDLER_NULL));
    for (int i = 0; garbage(i); i++) {
        FAILS(MPI_File_set_errhandler(fh, (MPI_Errhandler)garbage(i)));
        FAILS(MPI_File_set_errhandler((MPI_File)garbage(i), MPI_ERRORS_RETURN));
    }
    FAILS(MPI_File_set_errhandler(fh, (MPI_Errhandler)(uintptr_t)MPI_INT));
    OK(MPI_File_close(&fh));
    END_CLAUSE();
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    files();
    types();
    infos();
    comms();
    handlers();
    return finish();
}
