/* Independent access to one file by all ranks at once: pieces in turn, written by one rank and read back by another,
 * blocking and not, in a view and without, the last of them beyond the end.
 *
 *   independent DIR
 */
#include <fcntl.h>
#include <unistd.h>

#include "../apps/check.h"

enum { PIECE = 700, PIECES = 60, MINE = PIECE * PIECES };

static unsigned char byte_at(MPI_Offset at) { return (unsigned char)(at * 31 + at / 251 + 7); }

static MPI_Offset place(int who, int byte)
{
    return ((MPI_Offset)(byte / PIECE) * ranks + who) * PIECE + byte % PIECE;
}

static void look_as(MPI_File f, int who)
{
    MPI_Datatype piece, type;
    MUST(MPI_Type_contiguous(PIECE, MPI_BYTE, &piece));
    MUST(MPI_Type_create_resized(piece, 0, ranks * PIECE, &type));
    MUST(MPI_Type_commit(&type));
    MUST(MPI_Type_free(&piece));
    MUST(MPI_File_set_view(f, (MPI_Offset)who * PIECE, MPI_BYTE, type, "native", MPI_INFO_NULL));
    MUST(MPI_Type_free(&type));
}

static void settle(MPI_File f)
{
    MUST(MPI_File_sync(f));
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    MUST(MPI_File_sync(f));
}

static void write_mine(MPI_File f)
{
    static unsigned char data[MINE];
    MPI_Request requests[2];
    MPI_Status status[2];
    for (int i = 0; i < MINE; i++) data[i] = byte_at(place(me, i));
    look_as(f, me);
    MUST(MPI_File_write_at(f, 0, data, MINE / 3, MPI_BYTE, &status[0]));
    COUNT(status[0], MPI_BYTE, MINE / 3);
    MUST(MPI_File_iwrite_at(f, MINE / 3, data + MINE / 3, MINE / 3, MPI_BYTE, &requests[0]));
    MUST(MPI_File_iwrite_at(f, 2 * MINE / 3, data + 2 * MINE / 3, MINE / 3, MPI_BYTE, &requests[1]));
    MUST(MPI_Waitall(2, requests, status));
    for (int i = 0; i < 2; i++) COUNT(status[i], MPI_BYTE, MINE / 3);
}

static void read_of(MPI_File f, int who)
{
    static unsigned char data[MINE + PIECE];
    MPI_Status status;
    memset(data, 0, sizeof data);
    look_as(f, who);
    MUST(MPI_File_read_at(f, 0, data, MINE + PIECE, MPI_BYTE, &status));
    COUNT(status, MPI_BYTE, MINE);
    for (int i = 0; i < MINE; i++) EQUAL(data[i], byte_at(place(who, i)));
}

/* Short pieces at any place, through no view. */
static void read_here_and_there(MPI_File f)
{
    unsigned char data[99];
    MPI_Status status;
    MUST(MPI_File_set_view(f, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    for (int i = 0; i < 50; i++) {
        MPI_Offset at = (MPI_Offset)(i * 7919 + me * 104729) % ((MPI_Offset)ranks * MINE - 99);
        MUST(MPI_File_read_at(f, at, data, sizeof data, MPI_BYTE, &status));
        COUNT(status, MPI_BYTE, (int)sizeof data);
        for (int k = 0; k < 99; k++) EQUAL(data[k], byte_at(at + k));
    }
}

static void on_disk(const char *path)
{
    int fd = open(path, O_RDONLY);
    unsigned char block[4096];
    MPI_Offset at = 0;
    ssize_t n;
    while ((n = read(fd, block, sizeof block)) > 0)
        for (ssize_t i = 0; i < n; i++, at++) EQUAL(block[i], byte_at(at));
    EQUAL(at, (MPI_Offset)ranks * MINE);
    close(fd);
}

int main(int argc, char **argv)
{
    char path[4096];
    MPI_File f;
    begin(&argc, &argv);
    snprintf(path, sizeof path, "%s/independent", argv[1]);
    MUST(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f));
    write_mine(f);
    settle(f);
    read_of(f, (me + ranks / 2) % ranks);
    read_here_and_there(f);
    MUST(MPI_File_close(&f));
    if (me == 0) on_disk(path);
    return finish();
}
