/* Bad handles are errors, and the error handlers of the program stay as they were. */
#include "probe.h"

static int called;
static void on_error(MPI_Comm *c, int *code, ...)
{
    (void) c, (void) code;
    called++;
}

static void unchanged(MPI_Errhandler mine)
{
    MPI_Errhandler now;
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &now);
    CHECK(now == mine);
    if (now != MPI_ERRORS_ARE_FATAL) MPI_Errhandler_free(&now);
}

static MPI_Datatype as_type(uintptr_t bits) { return (MPI_Datatype) bits; }

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Datatype freed, keep;
    CHECK(probe_layout(MPI_DATATYPE_NULL) == MPI_ERR_TYPE);
    CHECK(probe_layout(as_type(0)) == MPI_ERR_TYPE);
    CHECK(probe_layout(as_type(0x12345678)) == MPI_ERR_TYPE);
    CHECK(probe_layout((MPI_Datatype) (uintptr_t) MPI_COMM_WORLD) == MPI_ERR_TYPE);
    CHECK(probe_check_comm(MPI_COMM_NULL) == MPI_ERR_COMM);
    CHECK(probe_check_comm((MPI_Comm) (uintptr_t) MPI_INT) == MPI_ERR_COMM);
    CHECK(probe_check_info((MPI_Info) (uintptr_t) MPI_INT) == MPI_ERR_INFO);
    CHECK(probe_check_info((MPI_Info) (uintptr_t) 8) == MPI_ERR_INFO);
    unchanged(MPI_ERRORS_ARE_FATAL);

    /* A freed handle, used before and never used before. */
    MPI_Type_contiguous(3, MPI_INT, &keep);
    for (int used = 0; used < 2; used++) {
        MPI_Type_vector(3, 1, 2, MPI_INT, &freed);
        MPI_Datatype old = freed;
        if (used) CHECK(probe_layout(old) == 0);
        MPI_Type_free(&freed);
        CHECK(probe_layout(old) == MPI_ERR_TYPE);
    }
    MPI_Comm comm, gone;
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    gone = comm;
    MPI_Comm_free(&comm);
    CHECK(probe_check_comm(gone) == MPI_ERR_COMM);

    MPI_Errhandler mine;
    MPI_Comm_create_errhandler(on_error, &mine);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, mine);
    for (int i = 0; i < 1000; i++) {
        MPI_Type_vector(3, 1, 2, MPI_INT, &freed);
        CHECK(probe_layout(freed) == 0);
        MPI_Type_free(&freed);
        CHECK(probe_layout(as_type(0xfc000001)) == MPI_ERR_TYPE);
    }
    CHECK(called == 0);
    unchanged(mine);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&mine);
    MPI_Type_free(&keep);
    printf("invalid good\n");
    MPI_Finalize();
    return 0;
}
