/* Writes to a file on a partition, takes all room of the partition's storage, and ends without closing the file.
 *
 *   taken FILE BALLAST
 *
 * BALLAST is a path on the storage, outside of the partition.
 */
#include <fcntl.h>
#include <unistd.h>

#include "../apps/check.h"

enum { BYTES = 1 << 18, PIECE = 1 << 16 };

int main(int argc, char **argv)
{
    static unsigned char data[BYTES], zeros[PIECE];
    MPI_File f;
    begin(&argc, &argv);
    if (argc != 3) FAIL("usage: %s FILE BALLAST", argv[0]);
    for (int i = 0; i < BYTES; i++) data[i] = (unsigned char)(i * 7 + 1);
    MUST(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f));
    MUST(MPI_File_write_at(f, 0, data, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
    printf("written\n");
    fflush(stdout);
    int ballast = open(argv[2], O_CREAT | O_WRONLY, 0600);
    EXPECT(ballast >= 0);
    for (int size = PIECE; size >= 1; size /= 16)
        while (write(ballast, zeros, (size_t)size) == size) {}
    _exit(0);
}
