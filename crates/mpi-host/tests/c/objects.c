/* Communicators, infos, statuses, error handlers, layouts of particular types, the finalize hook. */
#include "probe.h"

static int deleted;
static int on_delete(MPI_Datatype t, int key, void *value, void *extra)
{
    (void) t, (void) key, (void) value, (void) extra;
    deleted++;
    return MPI_SUCCESS;
}

static void infos(void)
{
    MPI_Info info, copy;
    int n, flag;
    char value[MPI_MAX_INFO_VAL + 1], longest[MPI_MAX_INFO_VAL];
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = 0;
    MPI_Info_create(&info);
    MPI_Info_set(info, "cb_buffer_size", "16777216");
    MPI_Info_set(info, "longest", longest);
    CHECK(probe_check_info(info) == 0 && probe_check_info(MPI_INFO_NULL) == 0);
    CHECK(probe_copy_info(info, &copy) == 0);
    MPI_Info_get_nkeys(copy, &n);
    CHECK(n == 2);
    MPI_Info_get(copy, "cb_buffer_size", MPI_MAX_INFO_VAL, value, &flag);
    CHECK(flag && !strcmp(value, "16777216"));
    MPI_Info_get(copy, "longest", MPI_MAX_INFO_VAL, value, &flag);
    CHECK(flag && !strcmp(value, longest));
    MPI_Info_free(&copy);
    CHECK(probe_copy_info(MPI_INFO_NULL, &copy) == 0);
    MPI_Info_get_nkeys(copy, &n);
    CHECK(n == 0);
    MPI_Info_free(&copy);
    MPI_Info_free(&info);
}

static void statuses(void)
{
    MPI_Status s;
    MPI_Count big;
    int n;
    CHECK(probe_status(MPI_STATUS_IGNORE, 5) == 0);
    memset(&s, 0, sizeof s);
    CHECK(probe_status(&s, 24) == 0);
    MPI_Get_count(&s, MPI_DOUBLE, &n);
    CHECK(n == 3);
    MPI_Get_count(&s, MPI_BYTE, &n);
    CHECK(n == 24);
    CHECK(probe_status(&s, 3LL << 40) == 0);
    MPI_Get_elements_x(&s, MPI_BYTE, &big);
    CHECK(big == 3LL << 40);
}

static void references(void)
{
    int key;
    MPI_Datatype child, parent, copy;
    MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, on_delete, &key, NULL);
    MPI_Type_vector(3, 1, 2, MPI_INT, &child);
    MPI_Type_set_attr(child, key, NULL);
    int len[] = {1, 2, 1};
    MPI_Aint at[] = {0, 100, 300};
    MPI_Datatype types[] = {child, child, MPI_DOUBLE};
    MPI_Type_create_struct(3, len, at, types, &parent);
    int before = probe_known_layouts();
    for (int i = 0; i < 10; i++) CHECK(probe_decode(parent) == 0);
    CHECK(probe_layout(parent) == 0 && probe_layout(parent) == 0);
    CHECK(probe_known_layouts() == before + 1);
    /* A duplicate finds the layout of its original, also after the program has freed that. */
    MPI_Type_dup(parent, &copy);
    MPI_Type_free(&parent);
    CHECK(probe_layout(copy) == 0);
    MPI_Type_free(&copy);
    CHECK(probe_known_layouts() == before);
    /* Decoding kept no reference to the child. */
    CHECK(deleted == 0);
    MPI_Type_free(&child);
    CHECK(deleted == 1);
    MPI_Type_free_keyval(&key);
}

static void reuse(void)
{
    /* Handles are reused by the host; a layout must not outlive its type. */
    for (int n = 1; n < 200; n++) {
        MPI_Datatype t;
        long long facts[7];
        MPI_Type_contiguous(n, n % 2 ? MPI_INT : MPI_DOUBLE, &t);
        CHECK(probe_facts(t, facts) == 0 && facts[0] == n * (n % 2 ? 4 : 8));
        MPI_Type_free(&t);
    }
}

static void expect(MPI_Datatype t, long long size, long long external, long long named)
{
    long long f[7];
    CHECK(probe_facts(t, f) == 0);
    if (f[0] != size || f[5] != external || f[6] != named) {
        fprintf(stderr, "size %lld (%lld), external %lld (%lld), named %lld\n", f[0], size, f[5], external, f[6]);
        abort();
    }
}

static void externals(void)
{
    MPI_Datatype t, deep, next;
    expect(MPI_LONG, 8, 4, 1);
    expect(MPI_UNSIGNED_LONG, 8, 4, 1);
    expect(MPI_LONG_LONG, 8, 8, 1);
    expect(MPI_WCHAR, 4, 2, 1);
    expect(MPI_LONG_DOUBLE, 16, 16, 1);
    expect(MPI_LOGICAL, 4, 4, 1);
    expect(MPI_C_BOOL, 1, 1, 1);
    expect(MPI_COUNT, 8, 8, 1);
    expect(MPI_LONG_INT, 12, 8, 1);
    expect(MPI_SHORT_INT, 6, 6, 1);
    expect(MPI_LONG_DOUBLE_INT, 20, 20, 1);
    expect(MPI_2REAL, 8, 8, 1);
    expect(MPI_2DOUBLE_PRECISION, 16, 16, 1);
    expect(MPI_C_LONG_DOUBLE_COMPLEX, 32, 32, 1);
    MPI_Type_create_f90_real(15, 300, &t);
    expect(t, 8, 8, 1);
    MPI_Type_create_f90_integer(2, &t);
    expect(t, 1, 1, 1);
    MPI_Type_vector(2, 3, 5, MPI_LONG, &t);
    expect(t, 48, 24, 0);
    MPI_Type_free(&t);

    /* Twice the same child at every level: exponential unless each is decoded once, and bounded where the
       host does not say that they are the same (Open MPI). The second one is empty, because the hosts
       themselves would choke on 2^40 pieces. */
    MPI_Type_contiguous(1, MPI_BYTE, &deep);
    for (int level = 0; level < (probe_family() == 2 ? 12 : 40); level++) {
        int len[] = {1, 0};
        MPI_Aint at[] = {0, 8};
        MPI_Datatype two[] = {deep, deep};
        MPI_Type_create_struct(2, len, at, two, &next);
        MPI_Type_free(&deep);
        deep = next;
    }
    CHECK(probe_decode(deep) == 0);
    MPI_Type_free(&deep);
    /* Too deep is an error, not a crash. */
    MPI_Type_dup(MPI_INT, &deep);
    for (int level = 0; level < 300; level++) {
        MPI_Type_dup(deep, &next);
        MPI_Type_free(&deep);
        deep = next;
    }
    CHECK(probe_layout(deep) == MPI_ERR_TYPE);
    MPI_Type_free(&deep);
}

int main(int argc, char **argv)
{
    CHECK(probe_family() > 0); /* before MPI_Init */
    MPI_Init(&argc, &argv);
    MPI_Errhandler handler;
    CHECK(probe_check_comm(MPI_COMM_WORLD) == 0);
    CHECK(probe_comm(MPI_COMM_WORLD) == 0 && probe_comm(MPI_COMM_SELF) == 0);
    infos();
    statuses();
    references();
    reuse();
    externals();
    CHECK(probe_errhandler(&handler) == 0 && handler != MPI_ERRHANDLER_NULL);
    CHECK(MPI_Errhandler_free(&handler) == MPI_SUCCESS);
    CHECK(probe_at_finalize() == 0);
    printf("objects good\n");
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
