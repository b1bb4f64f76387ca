/* MPI inside a plug-in that is loaded privately, as Python loads it. */
#include "probe.h"

int plugin(void)
{
    CHECK(probe_family() > 0);
    MPI_Init(NULL, NULL);
    CHECK(probe_comm(MPI_COMM_WORLD) == 0);
    CHECK(probe_layout(MPI_DOUBLE_INT) == 0);
    printf("plugin good\n");
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
