/* Opening, closing, managing: clauses 11, 12, 16, 17, 21, 22, 27 and what goes with them. */
#include "check.h"

static int opens(const char *name, int amode, MPI_File *fh)
{
    return MPI_File_open(MPI_COMM_WORLD, path(name), amode, MPI_INFO_NULL, fh);
}

/* Clause 11: which access modes there are. */
static void access_modes(void)
{
    MPI_File fh = MPI_FILE_NULL;
    CLAUSE("11", "exactly one of RDONLY, WRONLY, RDWR; some combinations are errors");
    spit_ints("modes", 4);
    const int bad[] = {0, MPI_MODE_CREATE, MPI_MODE_RDONLY | MPI_MODE_WRONLY, MPI_MODE_RDONLY | MPI_MODE_RDWR,
                       MPI_MODE_WRONLY | MPI_MODE_RDWR, MPI_MODE_RDONLY | MPI_MODE_CREATE,
                       MPI_MODE_RDONLY | MPI_MODE_EXCL, MPI_MODE_RDWR | MPI_MODE_SEQUENTIAL};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        GIVES(opens("modes", bad[i], &fh), MPI_ERR_AMODE);
        CHECK(fh == MPI_FILE_NULL, "a failed open gives a handle");
    }
    const int good[] = {MPI_MODE_RDONLY, MPI_MODE_WRONLY, MPI_MODE_RDWR, MPI_MODE_RDWR | MPI_MODE_CREATE,
                        MPI_MODE_WRONLY | MPI_MODE_CREATE, MPI_MODE_RDONLY | MPI_MODE_UNIQUE_OPEN,
                        MPI_MODE_RDWR | MPI_MODE_APPEND, MPI_MODE_RDONLY | MPI_MODE_SEQUENTIAL,
                        MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        int got = -1;
        OK(opens("modes", good[i], &fh));
        OK(MPI_File_get_amode(fh, &got));
        SAME(got, good[i]);
        OK(MPI_File_close(&fh));
        SAME(size_on_disk("modes"), 16); /* opening never truncates */
    }
    /* EXCL: an error where the file exists, and only then. */
    GIVES(opens("modes", MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL, &fh), MPI_ERR_FILE_EXISTS);
    OK(opens("exclusive", MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL, &fh));
    OK(MPI_File_close(&fh));
    SAME(size_on_disk("exclusive"), 0);
    GIVES(opens("exclusive", MPI_MODE_WRONLY | MPI_MODE_CREATE | MPI_MODE_EXCL, &fh), MPI_ERR_FILE_EXISTS);
    GIVES(opens("absent", MPI_MODE_RDWR, &fh), MPI_ERR_NO_SUCH_FILE);
    SAME(size_on_disk("absent"), -1);
    END_CLAUSE();
}

/* Clause 12: closing. */
static void closing(void)
{
    int value = 7 + rank, on_disk[8] = {0};
    CLAUSE("12", "close acts as sync; DELETE_ON_CLOSE deletes then");
    MPI_File fh = open_all("closed", MPI_MODE_RDWR | MPI_MODE_CREATE);
    OK(MPI_File_write_at(fh, 4 * rank, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_close(&fh));
    CHECK(fh == MPI_FILE_NULL, "close leaves the handle");
    barrier();
    SAME(slurp("closed", on_disk, sizeof on_disk), 4 * ranks);
    for (int r = 0; r < ranks; r++)
        SAME(on_disk[r], 7 + r);
    barrier();
    fh = open_all("closed", MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
    OK(MPI_File_read_at_all(fh, 4 * rank, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    SAME(value, 7 + rank);
    SAME(size_on_disk("closed"), 4 * ranks);
    OK(MPI_File_close(&fh));
    SAME(size_on_disk("closed"), -1);
    fh = open_all("fleeting", MPI_MODE_WRONLY | MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_DELETE_ON_CLOSE);
    OK(MPI_File_write_at_all(fh, 4 * rank, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_close(&fh));
    SAME(size_on_disk("fleeting"), -1);
    END_CLAUSE();
}

/* Clause 16: preallocate. */
static void preallocation(void)
{
    int on_disk[10], value = -1;
    CLAUSE("16", "preallocate never shrinks, changes no data, moves no pointer; the size grows on all ranks");
    spit_ints("reserve", 10);
    MPI_File fh = open_all("reserve", MPI_MODE_RDWR);
    OK(MPI_File_seek(fh, 8 + rank, MPI_SEEK_SET));
    OK(MPI_File_seek_shared(fh, 5, MPI_SEEK_SET));
    OK(MPI_File_preallocate(fh, 20));
    SAME(file_size(fh), 40);
    OK(MPI_File_preallocate(fh, 0));
    SAME(file_size(fh), 40);
    OK(MPI_File_preallocate(fh, 100000));
    SAME(file_size(fh), 100000);
    SAME(position(fh), 8 + rank);
    SAME(shared_position(fh), 5);
    OK(MPI_File_read_at_all(fh, 36, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    SAME(value, 9);
    OK(MPI_File_close(&fh));
    SAME(slurp("reserve", on_disk, sizeof on_disk), 40);
    for (int i = 0; i < 10; i++)
        SAME(on_disk[i], i);
    SAME(size_on_disk("reserve"), 100000);
    END_CLAUSE();
}

/* Clause 17: set_size. */
static void resizing(void)
{
    int value = -1;
    char zeros[64];
    CLAUSE("17", "set_size shrinks or extends, for all ranks, and moves no pointer");
    spit_ints("resize", 10);
    MPI_File fh = open_all("resize", MPI_MODE_RDWR);
    OK(MPI_File_seek(fh, 30, MPI_SEEK_SET));
    OK(MPI_File_set_size(fh, 20));
    SAME(file_size(fh), 20);
    SAME(size_on_disk("resize"), 20);
    SAME(position(fh), 30);
    barrier();
    OK(MPI_File_set_size(fh, 84));
    SAME(file_size(fh), 84);
    OK(MPI_File_read_at_all(fh, 16, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    SAME(value, 4);
    MPI_Status st;
    OK(MPI_File_read_at_all(fh, 20, zeros, 64, MPI_BYTE, &st));
    SAME(count_of(&st, MPI_BYTE), 64);
    OK(MPI_File_set_size(fh, 0));
    SAME(file_size(fh), 0);
    OK(MPI_File_read_at_all(fh, 0, zeros, 64, MPI_BYTE, &st));
    SAME(count_of(&st, MPI_BYTE), 0);
    OK(MPI_File_set_size(fh, 5LL << 32)); /* 20 GiB, with nothing in it */
    SAME(file_size(fh), 5LL << 32);
    OK(MPI_File_set_size(fh, 1));
    OK(MPI_File_close(&fh));
    END_CLAUSE();
}

/* Clause 21: sync. */
static void syncing(void)
{
    int value = -1;
    CLAUSE("21", "sync is allowed on a read-only handle");
    spit_ints("sync", 10);
    MPI_File fh = open_all("sync", MPI_MODE_RDONLY);
    OK(MPI_File_sync(fh));
    OK(MPI_File_read_at_all(fh, 8, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    SAME(value, 2);
    OK(MPI_File_close(&fh));
    /* sync, barrier, sync: every rank sees what its neighbour wrote, through another handle even. */
    fh = open_all("sync", MPI_MODE_RDWR);
    MPI_File other = open_all("sync", MPI_MODE_RDONLY);
    value = 50 + rank;
    OK(MPI_File_write_at(fh, 4 * rank, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_sync(fh));
    barrier();
    OK(MPI_File_sync(other));
    int next = (rank + 1) % ranks;
    OK(MPI_File_read_at(other, 4 * next, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    SAME(value, 50 + next);
    OK(MPI_File_close(&other));
    OK(MPI_File_close(&fh));
    END_CLAUSE();
}

static int hint(MPI_Info info, const char *key, char *value)
{
    int has = 0;
    value[0] = 0;
    MPI_Info_get(info, (char *)key, 255, value, &has);
    return has;
}

/* Clause 22: info. */
static void hints(void)
{
    char value[256], key[MPI_MAX_INFO_KEY + 1];
    int keys = 0;
    CLAUSE("22", "get_info returns the hints in force, defaults included, in a new info object");
    MPI_File fh = open_all("info", MPI_MODE_RDWR | MPI_MODE_CREATE);
    MPI_Info first, second, mine;
    OK(MPI_File_get_info(fh, &first));
    OK(MPI_File_get_info(fh, &second));
    MPI_Info_get_nkeys(first, &keys);
    CHECK(keys > 0, "no hint is in force");
    for (int i = 0; i < keys; i++) {
        MPI_Info_get_nthkey(first, i, key);
        CHECK(hint(first, key, value), "%s has no value", key);
    }
    const char *usual[] = {"cb_buffer_size", "romio_cb_read", "romio_cb_write", "romio_ds_read",
                           "romio_ds_write", "ind_rd_buffer_size", "ind_wr_buffer_size"};
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        CHECK(hint(first, usual[i], value) && value[0], "%s is not among the hints", usual[i]);
    /* The object is the caller's: changing it changes nothing in the file. */
    MPI_Info_set(first, "cb_buffer_size", "123456");
    OK(MPI_Info_free(&first));
    char before[256];
    hint(second, "cb_buffer_size", before);
    OK(MPI_Info_free(&second));
    OK(MPI_File_get_info(fh, &first));
    hint(first, "cb_buffer_size", value);
    CHECK(strcmp(value, before) == 0, "cb_buffer_size became %s, was %s", value, before);
    MPI_Info_free(&first);
    MPI_Info_create(&mine);
    MPI_Info_set(mine, "cb_buffer_size", "2097152");
    MPI_Info_set(mine, "ind_rd_buffer_size", "65536");
    MPI_Info_set(mine, "nobody_knows_this", "at all");
    OK(MPI_File_set_info(fh, mine));
    OK(MPI_File_get_info(fh, &first));
    hint(first, "ind_rd_buffer_size", value);
    CHECK(strcmp(value, "65536") == 0, "ind_rd_buffer_size is %s after set_info", value);
    MPI_Info_free(&first);
    /* set_view takes hints, too; what it does not name stays. */
    MPI_Info_set(mine, "ind_wr_buffer_size", "131072");
    OK(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "native", mine));
    OK(MPI_File_set_info(fh, MPI_INFO_NULL));
    OK(MPI_File_get_info(fh, &first));
    hint(first, "ind_wr_buffer_size", value);
    CHECK(strcmp(value, "131072") == 0, "ind_wr_buffer_size is %s after set_view", value);
    hint(first, "ind_rd_buffer_size", value);
    CHECK(strcmp(value, "65536") == 0, "ind_rd_buffer_size is %s after set_view", value);
    MPI_Info_free(&first);
    OK(MPI_File_close(&fh));
    /* Given at open. */
    OK(MPI_File_open(MPI_COMM_WORLD, path("info"), MPI_MODE_RDWR, mine, &fh));
    MPI_Info_free(&mine);
    OK(MPI_File_get_info(fh, &first));
    hint(first, "cb_buffer_size", value);
    CHECK(strcmp(value, "2097152") == 0, "cb_buffer_size is %s after open", value);
    hint(first, "filename", value);
    CHECK(strcmp(value, path("info")) == 0, "filename is %s, not the name of the open", value);
    MPI_Info_free(&first);
    OK(MPI_File_close(&fh));
    END_CLAUSE();
}

/* Clause 27: unique open and delete. */
static void unique_and_delete(void)
{
    int value = -1;
    CLAUSE("27", "MPI_MODE_UNIQUE_OPEN works; delete removes a file, once");
    spit_ints("unique", 10);
    MPI_File fh = open_all("unique", MPI_MODE_RDWR | MPI_MODE_UNIQUE_OPEN);
    OK(MPI_File_read_at_all(fh, 12, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    SAME(value, 3);
    OK(MPI_File_close(&fh));
    barrier();
    if (rank == 0) {
        OK(MPI_File_delete(path("unique"), MPI_INFO_NULL));
        GIVES(MPI_File_delete(path("unique"), MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);
        SAME(size_on_disk("unique"), -1);
    }
    END_CLAUSE();
}

/* Several opens at once, on several communicators. */
static void communicators(void)
{
    int value, on_disk[16];
    char name[64];
    CLAUSE("open", "files open twice, on MPI_COMM_SELF and on split communicators, several at once");
    spit_ints("twice", 10);
    MPI_File a = open_all("twice", MPI_MODE_RDWR), b = open_all("twice", MPI_MODE_RDWR);
    CHECK(a != b, "two opens give one handle");
    OK(MPI_File_set_view(a, 8, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    OK(MPI_File_seek(b, 4, MPI_SEEK_SET));
    OK(MPI_File_seek_shared(a, 3, MPI_SEEK_SET));
    SAME(position(a), 0);
    SAME(shared_position(b), 0);
    SAME(position(b), 4);
    OK(MPI_File_read_at(a, 1, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    SAME(value, 3);
    OK(MPI_File_read(b, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    SAME(value, 1);
    OK(MPI_File_close(&a));
    OK(MPI_File_read(b, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    SAME(value, 2);
    OK(MPI_File_close(&b));

    /* Every rank its own file, opened independently, rank 0 one more than the others. */
    MPI_File own[8];
    for (int i = 0; i < 4 + (rank == 0); i++) {
        snprintf(name, sizeof name, "own-%d-%d", rank, i);
        OK(MPI_File_open(MPI_COMM_SELF, path(name), MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &own[i]));
        value = 100 * rank + i;
        OK(MPI_File_write_all(own[i], &value, 1, MPI_INT, MPI_STATUS_IGNORE));
        OK(MPI_File_write_ordered(own[i], &value, 1, MPI_INT, MPI_STATUS_IGNORE));
        OK(MPI_File_write_shared(own[i], &value, 1, MPI_INT, MPI_STATUS_IGNORE));
        MPI_Group group;
        int size = 0;
        OK(MPI_File_get_group(own[i], &group));
        MPI_Group_size(group, &size);
        SAME(size, 1);
        MPI_Group_free(&group);
    }
    for (int i = 3 + (rank == 0); i >= 0; i--) {
        OK(MPI_File_close(&own[i]));
        snprintf(name, sizeof name, "own-%d-%d", rank, i);
        SAME(slurp(name, on_disk, sizeof on_disk), 8);
        SAME(on_disk[0], 100 * rank + i);
        SAME(on_disk[1], 100 * rank + i);
    }
    /* Two halves, ranks reversed within each. */
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    int me, all;
    MPI_Comm_rank(half, &me);
    MPI_Comm_size(half, &all);
    snprintf(name, sizeof name, "half-%d", rank % 2);
    MPI_File fh = MPI_FILE_NULL;
    OK(MPI_File_open(half, path(name), MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &fh));
    MPI_Comm_free(&half); /* the file keeps what it needs */
    value = rank;
    OK(MPI_File_write_ordered(fh, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_sync(fh));
    OK(MPI_File_read_at_all(fh, 4 * me, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    SAME(value, rank);
    OK(MPI_File_close(&fh));
    SAME(size_on_disk(name), 4 * all);
    END_CLAUSE();
}

/* Fortran handles. */
static void fortran_handles(void)
{
    CLAUSE("handles", "Fortran handles lead back to the file, and are not confused");
    spit_ints("handles", 4);
    MPI_File fh[5];
    MPI_Fint number[5];
    for (int i = 0; i < 5; i++) {
        fh[i] = open_all("handles", MPI_MODE_RDONLY);
        number[i] = MPI_File_c2f(fh[i]);
    }
    for (int i = 0; i < 5; i++) {
        CHECK(MPI_File_f2c(number[i]) == fh[i], "handle %d leads to another file", i);
        SAME(MPI_File_c2f(fh[i]), number[i]);
        for (int k = 0; k < i; k++)
            CHECK(number[i] != number[k], "two files have one Fortran handle");
    }
    CHECK(MPI_File_f2c(MPI_File_c2f(MPI_FILE_NULL)) == MPI_FILE_NULL, "the null handle does not lead back");
    for (int i = 0; i < 5; i++)
        OK(MPI_File_close(&fh[i]));
    MPI_File again = open_all("handles", MPI_MODE_RDONLY);
    CHECK(MPI_File_f2c(MPI_File_c2f(again)) == again, "a handle after others were closed leads astray");
    OK(MPI_File_close(&again));
    END_CLAUSE();
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    access_modes();
    closing();
    preallocation();
    resizing();
    syncing();
    hints();
    unique_and_delete();
    communicators();
    fortran_handles();
    return finish();
}
