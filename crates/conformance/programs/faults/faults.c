/* Collective calls with a failure, or an apparent one, at one rank: all ranks get an error, none hangs, and the
 * file stays usable. The arguments from the second on name the failure:
 *   arguments   one rank's arguments are bad
 *   later       the same in nonblocking calls
 *   storage     one rank's reads, writes or syncs of the file fail
 *   traced      the same a few times only, for the trace
 *   partial     reads and writes come back short or interrupted, which is no failure
 *   limit       one rank may write small files only
 *   killed      the last rank is killed in its second write
 *   absent      the last rank is killed before a collective call that the others are in
 *   develop     ranks disagree where they must not
 * How the collective calls work is for the environment to say; the program passes hints in `develop` only.
 */
#include <signal.h>
#include <sys/resource.h>

#include "failing.h"
#include "forms.h"

/* The storage shim, where it is preloaded. */
extern void fault_arm(const struct fault *) __attribute__((weak));
extern int fault_disarm(void) __attribute__((weak));

static int culprit; /* the rank where things go wrong */

/* The culprit gets its own class; the others that, or the word that another rank failed. */
static void everybody_hears(const char *what, enum form form, int code, int class)
{
    int got = class_of(code);
    CHECK(got == class || (rank != culprit && got == MPI_ERR_OTHER), "%s, %s, culprit %d: gave %s, wanted %s",
          what, form_names[form], culprit, class_name(code), class_name(class));
}

static void bad_arguments(enum form first, enum form last)
{
    static unsigned char data[MINE];
    CLAUSE("arguments", "one rank's bad argument is an error on every rank, and then all is well");
    MPI_File fh = open_turns("file", 0);
    MPI_Datatype vague = MPI_DATATYPE_NULL;
    for (culprit = 0; culprit < ranks; culprit += ranks > 1 ? ranks - 1 : 1) {
        int bad = rank == culprit;
        for (enum form form = first; form <= last; form++) {
            for (int w = 0; w < 2; w++) {
                int code = attempt(fh, form, w, 0, data, bad ? -1 : MINE, MPI_BYTE);
                everybody_hears("a negative count", form, code, MPI_ERR_COUNT);
                code = attempt(fh, form, w, 0, data, MINE, bad ? vague : MPI_BYTE);
                everybody_hears("no datatype", form, code, MPI_ERR_TYPE);
                if (!has_offset(form)) continue;
                code = attempt(fh, form, w, bad ? -1 : 0, data, MINE, MPI_BYTE);
                everybody_hears("a negative offset", form, code, MPI_ERR_ARG);
            }
            all_is_well(fh, form, form);
        }
    }
    OK(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    culprit = ranks - 1;
    for (enum form form = first; form <= last; form++) {
        int odd = rank == culprit ? 7 : 8;
        everybody_hears("half an etype", form, attempt(fh, form, 1, 0, data, odd, MPI_BYTE), MPI_ERR_TYPE);
    }
    OK(MPI_File_close(&fh));
    END_CLAUSE();
}

static void wrong_modes(void)
{
    int value = 5;
    CLAUSE("modes", "reading a write-only file and writing a read-only one are errors in every form");
    spit_ints("modes", 40);
    MPI_File writing = open_all("modes", MPI_MODE_WRONLY), reading = open_all("modes", MPI_MODE_RDONLY);
    for (enum form form = 0; form < FORMS; form++) {
        GIVES(attempt(writing, form, 0, 0, &value, 1, MPI_INT), MPI_ERR_ACCESS);
        GIVES(attempt(reading, form, 1, 0, &value, 1, MPI_INT), MPI_ERR_READ_ONLY);
    }
    OK(MPI_File_read_at_all(reading, 4 * rank, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    SAME(value, rank);
    OK(MPI_File_close(&writing));
    OK(MPI_File_close(&reading));
    END_CLAUSE();
}

static void arm(const struct fault *fault)
{
    barrier();
    if (rank == culprit)
        fault_arm(fault);
    barrier();
}

/* How many faults the culprit's storage injected, for all ranks to know. */
static int disarm(void)
{
    int n = rank == culprit ? fault_disarm() : 0;
    MPI_Bcast(&n, 1, MPI_INT, culprit, MPI_COMM_WORLD);
    return n;
}

/* One access with a failing storage: an error of the class on all ranks if the storage was asked, else none.
 * Returns whether it was. */
static int one_failure(MPI_File fh, enum form form, int w, const struct fault *fault, int class)
{
    static unsigned char data[MINE];
    fill(data, 99);
    OK(MPI_File_seek(fh, 0, MPI_SEEK_SET));
    arm(fault);
    int code = attempt(fh, form, w, 0, data, MINE, MPI_BYTE), n = disarm();
    if (n > 0)
        everybody_hears(w ? "a write" : "a read", form, code, class);
    else
        CHECK(code == MPI_SUCCESS, "%s: %s without any fault", form_names[form], class_name(code));
    return n > 0;
}

static void failing_storage(void)
{
    static const struct { enum fault_op op; int error, class; } kinds[] = {
        {FAULT_WRITE, EIO, MPI_ERR_IO},   {FAULT_WRITE, ENOSPC, MPI_ERR_NO_SPACE},
        {FAULT_WRITE, EFBIG, MPI_ERR_IO}, {FAULT_READ, EIO, MPI_ERR_IO},
    };
    int injected = 0, tried = 0;
    MPI_File whole = open_turns("whole", 0), holed = open_turns("holed", 1);
    all_is_well(whole, ALL, 0);
    all_is_well(holed, ALL, 0);
    CLAUSE("storage", "a failure of the storage at one rank is an error on every rank, and then all is well");
    for (culprit = 0; culprit < ranks; culprit += ranks > 1 ? ranks - 1 : 1) {
        for (enum form form = 0; form < FORMS; form++) {
            for (int k = 0; k < 4; k++) {
                /* in the first round and in a later one; once, and from then on */
                struct fault fault = {kinds[k].op, FAULT_FAIL, form % 2 ? 3 : 1, kinds[k].error, k == 0};
                injected += one_failure(whole, form, kinds[k].op == FAULT_WRITE, &fault, kinds[k].class);
                tried++;
            }
            /* a write that has to read what lies in the holes */
            struct fault fault = {FAULT_READ, FAULT_FAIL, 1, EIO, 0};
            one_failure(holed, form, 1, &fault, MPI_ERR_IO);
            all_is_well(whole, form, form);
        }
        all_is_well(holed, ALL, 1);
        struct fault fault = {FAULT_SYNC, FAULT_FAIL, 1, EIO, 0};
        arm(&fault);
        int code = MPI_File_sync(whole);
        if (disarm() > 0)
            everybody_hears("a sync", ALL, code, MPI_ERR_IO);
        OK(MPI_File_sync(whole));
    }
    /* The rank that arrives last at a window writes it, so it is chance whether the faulty rank meets its fault. */
    CHECK(injected * 12 >= tried, "the storage failed %d times of %d only", injected, tried);
    OK(MPI_File_close(&holed));
    OK(MPI_File_close(&whole));
    END_CLAUSE();
    if (rank == 0)
        printf("injected %d of %d\n", injected, tried);
}

/* Close reports a late failure if no sync did. */
static void failing_close(void)
{
    static unsigned char data[MINE];
    struct fault fault = {FAULT_WRITE, FAULT_FAIL, 1, ENOSPC, 1};
    CLAUSE("close", "the failure of a nonblocking collective is told by close at the latest, on every rank");
    for (culprit = 0; culprit < ranks; culprit += ranks > 1 ? ranks - 1 : 1) {
        MPI_File fh = open_turns("late", 0);
        MPI_Request request;
        arm(&fault);
        OK(MPI_File_iwrite_all(fh, data, MINE, MPI_BYTE, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        int n = disarm(), code = MPI_File_close(&fh);
        if (n > 0)
            everybody_hears("a close", NONBLOCKING, code, MPI_ERR_NO_SPACE);
        else
            OK(code);
    }
    END_CLAUSE();
}

/* Good accesses, and between them a few that fail, in every form. */
static void few_failures(void)
{
    static const struct { int w, error, class; } kinds[] = {
        {1, EIO, MPI_ERR_IO}, {0, EIO, MPI_ERR_IO}, {1, ENOSPC, MPI_ERR_NO_SPACE},
    };
    CLAUSE("traced", "a few failures among accesses that succeed");
    MPI_File fh = open_turns("traced", 0);
    for (enum form form = 0; form < FORMS; form += 2) {
        all_is_well(fh, form, form);
        for (int k = 0; k < 3; k++) {
            struct fault fault = {kinds[k].w ? FAULT_WRITE : FAULT_READ, FAULT_FAIL, 1, kinds[k].error, 0};
            int tries = 0, injected = 0;
            while (!injected && tries < 10) { /* who accesses the file is Pario's choice */
                culprit = (form / 2 + k + tries++) % ranks;
                injected = one_failure(fh, form, kinds[k].w, &fault, kinds[k].class);
            }
            CHECK(injected, "the storage was never asked");
        }
    }
    all_is_well(fh, ALL, 9);
    OK(MPI_File_close(&fh));
    END_CLAUSE();
}

static void partial_transfers(void)
{
    CLAUSE("partial", "short and interrupted transfers are finished, and the bytes are right");
    MPI_File whole = open_turns("whole", 0), holed = open_turns("holed", 1);
    for (enum fault_op op = FAULT_WRITE; op <= FAULT_READ; op++) {
        for (enum fault_how how = FAULT_SHORT; how <= FAULT_INTERRUPT; how++) {
            for (enum form form = 0; form < FORMS; form++) {
                struct fault fault = {op, how, 0, 0, 0};
                barrier();
                fault_arm(&fault);
                barrier();
                all_is_well(whole, form, form);
                if (form % 2) all_is_well(holed, form, form);
                barrier();
                int n = fault_disarm(), sum;
                MPI_Allreduce(&n, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
                CHECK(sum > 0, "nothing was injected");
            }
        }
    }
    OK(MPI_File_close(&holed));
    OK(MPI_File_close(&whole));
    END_CLAUSE();
}

/* One rank only is limited: whether it is asked to write is Pario's choice; all agree on the outcome. */
static void limited(void)
{
    static unsigned char data[MINE];
    struct rlimit before, limit;
    CLAUSE("limit", "a file size limit of one rank has one outcome on all ranks");
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    MPI_File fh = open_turns("limited", 0);
    for (culprit = 0; culprit < ranks; culprit++) {
        for (enum form form = 0; form < FORMS; form++) {
            int least, most;
            limit = before;
            limit.rlim_cur = rank == culprit ? 8192 : before.rlim_cur;
            CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0, "cannot set the limit");
            OK(MPI_File_seek(fh, 0, MPI_SEEK_SET));
            barrier();
            int code = attempt(fh, form, 1, 0, data, MINE, MPI_BYTE), failed = code != MPI_SUCCESS;
            CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0, "cannot lift the limit");
            MPI_Allreduce(&failed, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
            MPI_Allreduce(&failed, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
            SAME(least, most);
            if (failed)
                everybody_hears("beyond the limit", form, code, MPI_ERR_IO);
            all_is_well(fh, form, form);
        }
    }
    OK(MPI_File_close(&fh));
    END_CLAUSE();
}

/* The job is to end; a rank that comes through says so. */
static void killed(int before_the_call)
{
    static unsigned char data[MINE];
    MPI_File fh = open_turns("killed", 0);
    struct fault fault = {FAULT_WRITE, FAULT_KILL, 2, 0, 0};
    all_is_well(fh, ALL, 0);
    culprit = ranks - 1;
    if (rank == culprit && before_the_call)
        raise(SIGKILL);
    if (rank == culprit)
        fault_arm(&fault);
    for (int round = 0; round < 1000; round++) {
        MPI_File_write_at_all(fh, 0, data, MINE, MPI_BYTE, MPI_STATUS_IGNORE);
        /* the culprit writes by itself, too, should the collective calls spare it */
        if (rank == culprit)
            MPI_File_write_at(fh, 0, data, MINE, MPI_BYTE, MPI_STATUS_IGNORE);
    }
    printf("survived\n");
}

static int open_with(const char *key, const char *value, MPI_File *fh)
{
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, key, value);
    int code = MPI_File_open(MPI_COMM_WORLD, path("develop"), MPI_MODE_RDWR | MPI_MODE_CREATE, info, fh);
    MPI_Info_free(&info);
    return code;
}

static void disagreement(void)
{
    MPI_File fh;
    MPI_Info info;
    int other = rank == ranks - 1;
    CLAUSE("develop", "in develop mode ranks that disagree are told so, on every rank");
    GIVES(open_with("cb_nodes", other ? "1" : "2", &fh), MPI_ERR_NOT_SAME);
    GIVES(open_with("cb_buffer_size", other ? "4096" : "8192", &fh), MPI_ERR_NOT_SAME);
    OK(open_with("cb_nodes", "1", &fh));
    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_cb_write", other ? "enable" : "disable");
    GIVES(MPI_File_set_info(fh, info), MPI_ERR_NOT_SAME);
    GIVES(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "native", info), MPI_ERR_NOT_SAME);
    MPI_Info_free(&info);
    GIVES(MPI_File_set_size(fh, other ? 20 : 40), MPI_ERR_NOT_SAME);
    GIVES(MPI_File_preallocate(fh, other ? 20 : 40), MPI_ERR_NOT_SAME);
    GIVES(MPI_File_set_atomicity(fh, other), MPI_ERR_NOT_SAME);
    GIVES(MPI_File_seek_shared(fh, other, MPI_SEEK_SET), MPI_ERR_NOT_SAME);
    GIVES(MPI_File_set_view(fh, 0, other ? MPI_DOUBLE : MPI_INT, other ? MPI_DOUBLE : MPI_INT, "native",
                            MPI_INFO_NULL), MPI_ERR_NOT_SAME);
    int value = rank, got = -1;
    OK(MPI_File_write_at_all(fh, 4 * rank, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_read_at_all(fh, 4 * rank, &got, 1, MPI_INT, MPI_STATUS_IGNORE));
    SAME(got, rank);
    OK(MPI_File_close(&fh));
    END_CLAUSE();
}

static void about(const char *what)
{
    if (strcmp(what, "arguments") == 0)
        bad_arguments(ALL, SPLIT_AT), wrong_modes();
    else if (strcmp(what, "later") == 0)
        bad_arguments(NONBLOCKING, NONBLOCKING_AT);
    else if (strcmp(what, "storage") == 0)
        failing_storage(), failing_close();
    else if (strcmp(what, "traced") == 0)
        few_failures();
    else if (strcmp(what, "partial") == 0)
        partial_transfers();
    else if (strcmp(what, "limit") == 0)
        limited();
    else if (strcmp(what, "killed") == 0)
        killed(0);
    else if (strcmp(what, "absent") == 0)
        killed(1);
    else if (strcmp(what, "develop") == 0)
        disagreement();
    else
        printf("FAIL nothing is called %s\n", what);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    for (int i = 2; i < argc; i++)
        about(argv[i]);
    return finish();
}
