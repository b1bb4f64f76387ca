/* Independent and collective access through I/O agents: ranks write pieces in turn, read irregular ones of each other,
 * and write once more together.
 *
 *   shipped FILE shared|unique|refused
 *
 * unique: the file is opened with MPI_MODE_UNIQUE_OPEN, and the unit of the agents changes in between.
 * refused: such an open fails on all ranks, because another process has locked the file.
 */
#include "../apps/check.h"

enum { PIECE = 700, PIECES = 90, MINE = PIECE * PIECES, BLOCKS = 40, TOGETHER = 5000 };

static unsigned char byte_at(MPI_Offset at) { return (unsigned char)(at * 31 + at / 251 + 7); }

static MPI_Offset size_of_first(void) { return (MPI_Offset)ranks * MINE; }

static void look(MPI_File f, MPI_Offset disp, MPI_Datatype type)
{
    MUST(MPI_Type_commit(&type));
    MUST(MPI_File_set_view(f, disp, MPI_BYTE, type, "native", MPI_INFO_NULL));
    MUST(MPI_Type_free(&type));
}

static void settle(MPI_File f)
{
    MUST(MPI_File_sync(f));
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    MUST(MPI_File_sync(f));
}

/* Pieces in turn, each rank for itself. */
static void write_in_turn(MPI_File f)
{
    static unsigned char data[MINE];
    MPI_Datatype piece, type;
    MPI_Request request;
    MPI_Status status;
    for (int i = 0; i < MINE; i++)
        data[i] = byte_at(((MPI_Offset)(i / PIECE) * ranks + me) * PIECE + i % PIECE);
    MUST(MPI_Type_contiguous(PIECE, MPI_BYTE, &piece));
    MUST(MPI_Type_create_resized(piece, 0, ranks * PIECE, &type));
    MUST(MPI_Type_free(&piece));
    look(f, (MPI_Offset)me * PIECE, type);
    MUST(MPI_File_write_at(f, 0, data, MINE / 2, MPI_BYTE, &status));
    COUNT(status, MPI_BYTE, MINE / 2);
    MUST(MPI_File_iwrite_at(f, MINE / 2, data + MINE / 2, MINE / 2, MPI_BYTE, &request));
    MUST(MPI_Wait(&request, &status));
    COUNT(status, MPI_BYTE, MINE / 2);
}

/* Pieces of irregular lengths at irregular distances, of all ranks' bytes, which read-ahead cannot predict. */
static void read_irregular(MPI_File f)
{
    static unsigned char data[BLOCKS * 100];
    int lengths[BLOCKS], places[BLOCKS], bytes = 0, at = me * 13;
    MPI_Datatype type;
    MPI_Status status;
    for (int i = 0; i < BLOCKS; i++) {
        lengths[i] = 20 + i * 37 % 71;
        places[i] = at;
        at += lengths[i] + 300 + i * i * 97 % 1900;
        bytes += lengths[i];
    }
    EXPECT(at < size_of_first());
    MUST(MPI_Type_indexed(BLOCKS, lengths, places, MPI_BYTE, &type));
    look(f, 0, type);
    MUST(MPI_File_read_at(f, 0, data, bytes, MPI_BYTE, &status));
    COUNT(status, MPI_BYTE, bytes);
    for (int i = 0, k = 0; i < BLOCKS; i++)
        for (int j = 0; j < lengths[i]; j++, k++) EQUAL(data[k], byte_at(places[i] + j));
}

/* Behind all that, together, and read back by the neighbour, the last one beyond the end. */
static void write_together(MPI_File f)
{
    static unsigned char data[TOGETHER + 1];
    MPI_Offset start = size_of_first() + (MPI_Offset)me * TOGETHER;
    MPI_Offset next = size_of_first() + (MPI_Offset)((me + 1) % ranks) * TOGETHER;
    MPI_Status status;
    MUST(MPI_File_set_view(f, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    for (int i = 0; i < TOGETHER; i++) data[i] = byte_at(start + i);
    MUST(MPI_File_write_at_all(f, start, data, TOGETHER, MPI_BYTE, &status));
    COUNT(status, MPI_BYTE, TOGETHER);
    settle(f);
    int last = (me + 1) % ranks == ranks - 1;
    MUST(MPI_File_read_at(f, next, data, TOGETHER + 1, MPI_BYTE, &status));
    COUNT(status, MPI_BYTE, last ? TOGETHER : TOGETHER + 1);
    for (int i = 0; i < TOGETHER; i++) EQUAL(data[i], byte_at(next + i));
    MUST(MPI_File_read_at_all(f, start, data, TOGETHER, MPI_BYTE, &status));
    for (int i = 0; i < TOGETHER; i++) EQUAL(data[i], byte_at(start + i));
}

int main(int argc, char **argv)
{
    MPI_File f;
    MPI_Info info;
    begin(&argc, &argv);
    const char *how = argc > 2 ? argv[2] : "shared";
    int amode = MPI_MODE_CREATE | MPI_MODE_RDWR | (strcmp(how, "shared") ? MPI_MODE_UNIQUE_OPEN : 0);
    int rc = MPI_File_open(MPI_COMM_WORLD, argv[1], amode, MPI_INFO_NULL, &f);
    if (!strcmp(how, "refused")) {
        int class = 0;
        EXPECT(rc != MPI_SUCCESS);
        MUST(MPI_Error_class(rc, &class));
        EQUAL(class, MPI_ERR_FILE_IN_USE);
        return finish();
    }
    MUST(rc);
    write_in_turn(f);
    settle(f);
    if (!strcmp(how, "unique")) {
        MUST(MPI_Info_create(&info));
        MUST(MPI_Info_set(info, "IBM_io_buffer_size", "12288"));
        MUST(MPI_File_set_info(f, info));
        MUST(MPI_Info_free(&info));
    }
    read_irregular(f);
    write_together(f);
    MUST(MPI_File_close(&f));
    return finish();
}
