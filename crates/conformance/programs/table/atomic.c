/* Atomic mode, clause 20: overlapping noncontiguous requests happen one after the other, whole. */
#include "check.h"

enum { PIECE = 64, PIECES = 40, TOTAL = PIECE * PIECES };

/* All these bytes are one writer's. */
static int uniform(const unsigned char *bytes, int count)
{
    for (int i = 1; i < count; i++)
        if (bytes[i] != bytes[0])
            return 0;
    return 1;
}

static MPI_Datatype pieces(int length, int tile)
{
    MPI_Datatype run, type;
    MPI_Type_contiguous(length, MPI_BYTE, &run);
    MPI_Type_create_resized(run, 0, tile, &type);
    MPI_Type_commit(&type);
    MPI_Type_free(&run);
    return type;
}

/* All ranks write the same pieces at once; afterwards all are one rank's. */
static void same_pieces(int collective)
{
    unsigned char data[TOTAL], disk[3 * TOTAL], mixed = 0;
    MPI_File fh = open_all("same", MPI_MODE_RDWR | MPI_MODE_CREATE);
    MPI_Datatype view = pieces(PIECE, 3 * PIECE);
    int flag = 0;
    OK(MPI_File_set_atomicity(fh, 1));
    OK(MPI_File_get_atomicity(fh, &flag));
    SAME(flag, 1);
    OK(MPI_File_set_view(fh, 16, MPI_BYTE, view, "native", MPI_INFO_NULL));
    for (int round = 0; round < 60; round++) {
        memset(data, 'a' + rank, sizeof data);
        barrier();
        if (collective)
            OK(MPI_File_write_at_all(fh, 0, data, TOTAL, MPI_BYTE, MPI_STATUS_IGNORE));
        else
            OK(MPI_File_write_at(fh, 0, data, TOTAL, MPI_BYTE, MPI_STATUS_IGNORE));
        barrier();
        OK(MPI_File_read_at(fh, 0, data, TOTAL, MPI_BYTE, MPI_STATUS_IGNORE));
        mixed |= !uniform(data, TOTAL) || data[0] < 'a' || data[0] >= 'a' + ranks;
        barrier();
    }
    CHECK(!mixed, "a request of several pieces was torn");
    OK(MPI_File_close(&fh));
    slurp("same", disk, sizeof disk);
    for (int i = 0; i < PIECES - 1; i++)
        CHECK(disk[16 + i * 3 * PIECE + PIECE] == 0, "a byte between the pieces was written");
    MPI_Type_free(&view);
}

/* Ranks' pieces overlap only in part: the common bytes are all one rank's. */
static void partial_overlap(void)
{
    unsigned char data[TOTAL], disk[4 * TOTAL], common[TOTAL];
    int torn = 0;
    MPI_File fh = open_all("partial", MPI_MODE_RDWR | MPI_MODE_CREATE);
    MPI_Datatype view = pieces(PIECE, 2 * PIECE);
    OK(MPI_File_set_atomicity(fh, 1));
    /* Rank r begins 8 r bytes later: bytes [8 (ranks - 1), PIECE) of each tile are accessed by all ranks. */
    OK(MPI_File_set_view(fh, 8 * rank, MPI_BYTE, view, "native", MPI_INFO_NULL));
    memset(data, 'A' + rank, sizeof data);
    for (int round = 0; round < 40; round++) {
        barrier();
        OK(MPI_File_write_at(fh, 0, data, TOTAL, MPI_BYTE, MPI_STATUS_IGNORE));
        settle(fh);
        int size = (int)slurp("partial", disk, sizeof disk), count = 0;
        for (int tile = 0; tile < PIECES; tile++)
            for (int i = 8 * (ranks - 1); i < PIECE && tile * 2 * PIECE + i < size; i++)
                common[count++] = disk[tile * 2 * PIECE + i];
        torn += !uniform(common, count);
    }
    CHECK(torn == 0, "%d of 40 rounds left a mixture", torn);
    OK(MPI_File_close(&fh));
    MPI_Type_free(&view);
}

/* Readers beside writers: a read sees one whole write. */
static void readers_and_writers(void)
{
    unsigned char data[TOTAL];
    int torn = 0;
    MPI_File fh = open_all("readers", MPI_MODE_RDWR | MPI_MODE_CREATE);
    MPI_Datatype view = pieces(PIECE, 2 * PIECE);
    OK(MPI_File_set_atomicity(fh, 1));
    OK(MPI_File_set_view(fh, 0, MPI_BYTE, view, "native", MPI_INFO_NULL));
    memset(data, 'z', sizeof data);
    if (rank == 0)
        OK(MPI_File_write_at(fh, 0, data, TOTAL, MPI_BYTE, MPI_STATUS_IGNORE));
    barrier();
    for (int round = 0; round < 100; round++) {
        if (rank % 2 == 0) {
            memset(data, 'a' + (round + rank) % 26, sizeof data);
            OK(MPI_File_write_at(fh, 0, data, TOTAL, MPI_BYTE, MPI_STATUS_IGNORE));
        } else {
            OK(MPI_File_read_at(fh, 0, data, TOTAL, MPI_BYTE, MPI_STATUS_IGNORE));
            torn += !uniform(data, TOTAL);
        }
    }
    CHECK(torn == 0, "%d of 100 reads saw a mixture", torn);
    barrier();
    /* A finished write is seen by every later read, without a sync. */
    for (int turn = 0; turn < ranks; turn++) {
        memset(data, '0' + turn, sizeof data);
        if (rank == turn)
            OK(MPI_File_write_at(fh, 0, data, TOTAL, MPI_BYTE, MPI_STATUS_IGNORE));
        barrier();
        OK(MPI_File_read_at(fh, 0, data, TOTAL, MPI_BYTE, MPI_STATUS_IGNORE));
        CHECK(uniform(data, TOTAL) && data[0] == '0' + turn, "rank %d's write is not seen", turn);
        barrier();
    }
    OK(MPI_File_set_atomicity(fh, 0));
    int flag = 1;
    OK(MPI_File_get_atomicity(fh, &flag));
    SAME(flag, 0);
    OK(MPI_File_close(&fh));
    MPI_Type_free(&view);
}

/* Without atomic mode: neighbours that share sieving windows and pages lose nothing of each other's. */
static void neighbours(void)
{
    enum { COUNT = 4000 };
    unsigned char data[COUNT], disk[5 * COUNT];
    MPI_File fh = open_all("neighbours", MPI_MODE_RDWR | MPI_MODE_CREATE);
    MPI_Datatype view = pieces(1, ranks);
    OK(MPI_File_set_view(fh, rank, MPI_BYTE, view, "native", MPI_INFO_NULL));
    for (int round = 0; round < 10; round++) {
        memset(data, 1 + round * 8 + rank, sizeof data);
        OK(MPI_File_write_at(fh, 0, data, COUNT, MPI_BYTE, MPI_STATUS_IGNORE)); /* independent, interleaved */
        settle(fh);
        SAME(slurp("neighbours", disk, sizeof disk), COUNT * ranks);
        int wrong = 0;
        for (int i = 0; i < COUNT * ranks; i++)
            wrong += disk[i] != 1 + round * 8 + i % ranks;
        CHECK(wrong == 0, "%d bytes of concurrent interleaved writes are lost", wrong);
        barrier();
    }
    OK(MPI_File_close(&fh));
    MPI_Type_free(&view);
}

/* Blocks that collective calls may keep in the ranks' memory; then requests of many pieces over many blocks that overlap
 * in part, all at once. In a tile, rank r's piece begins 100 r bytes later: the common bytes of all tiles are one rank's,
 * the first are rank 0's, and what lies between the tiles' pieces keeps its value. */
static void kept_before(void)
{
    enum { LONG = 1000, TILE = 1500, TILES = 48, REGION = TILE * TILES };
    static unsigned char data[REGION], found[REGION];
    MPI_File fh = open_all("kept", MPI_MODE_RDWR | MPI_MODE_CREATE);
    MPI_Datatype view = pieces(LONG, TILE);
    int torn = 0, strange = 0, lost = 0, last = 100 * (ranks - 1) + LONG, part = REGION / ranks;
    for (int round = 0; round < 12; round++) {
        OK(MPI_File_set_atomicity(fh, 0));
        OK(MPI_File_set_view(fh, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
        memset(data, 'k' + round, sizeof data);
        OK(MPI_File_write_at_all(fh, rank * part, data, rank == ranks - 1 ? REGION - rank * part : part, MPI_BYTE,
                                 MPI_STATUS_IGNORE));
        OK(MPI_File_set_atomicity(fh, 1));
        OK(MPI_File_set_view(fh, 100 * rank, MPI_BYTE, view, "native", MPI_INFO_NULL));
        memset(data, 'A' + rank, sizeof data);
        if (round % 2)
            OK(MPI_File_write_at_all(fh, 0, data, LONG * TILES, MPI_BYTE, MPI_STATUS_IGNORE));
        else
            OK(MPI_File_write_at(fh, 0, data, LONG * TILES, MPI_BYTE, MPI_STATUS_IGNORE));
        barrier();
        OK(MPI_File_set_view(fh, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
        if (round % 3)
            OK(MPI_File_read_at(fh, 0, found, REGION, MPI_BYTE, MPI_STATUS_IGNORE));
        else
            OK(MPI_File_read_at_all(fh, 0, found, REGION, MPI_BYTE, MPI_STATUS_IGNORE));
        unsigned char winner = found[last - LONG];
        strange += winner < 'A' || winner >= 'A' + ranks;
        for (int i = 0; i < REGION; i++) {
            int at = i % TILE;
            if (at >= last) lost += found[i] != 'k' + round;
            else if (at < 100) lost += ranks > 1 && found[i] != 'A';
            else if (at >= last - LONG && at < LONG) torn += found[i] != winner;
        }
        barrier();
    }
    CHECK(torn == 0 && strange == 0, "%d bytes are of another writer, %d of nobody", torn, strange);
    CHECK(lost == 0, "%d bytes that others did not write are lost", lost);
    OK(MPI_File_close(&fh));
    MPI_Type_free(&view);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    CLAUSE("20", "atomic mode covers the whole noncontiguous request");
    same_pieces(0);
    partial_overlap();
    readers_and_writers();
    END_CLAUSE();
    CLAUSE("20b", "atomic mode covers collective requests");
    same_pieces(1);
    END_CLAUSE();
    CLAUSE("20c", "interleaved nonatomic writes do not destroy each other");
    neighbours();
    END_CLAUSE();
    CLAUSE("20d", "atomic mode after collective accesses, over many blocks");
    kept_before();
    END_CLAUSE();
    return finish();
}
