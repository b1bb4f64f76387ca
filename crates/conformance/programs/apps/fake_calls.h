/* Every call that Pario stands in front of, with its number of arguments. */
#ifndef FAKE_CALLS_H
#define FAKE_CALLS_H

#define DATA_CALLS(CALL, suffix)                                                                           \
    CALL(File_get_type_extent##suffix, 3)                                                                  \
    CALL(File_read##suffix, 5) CALL(File_write##suffix, 5)                                                 \
    CALL(File_read_all##suffix, 5) CALL(File_write_all##suffix, 5)                                         \
    CALL(File_read_at##suffix, 6) CALL(File_write_at##suffix, 6)                                           \
    CALL(File_read_at_all##suffix, 6) CALL(File_write_at_all##suffix, 6)                                   \
    CALL(File_read_shared##suffix, 5) CALL(File_write_shared##suffix, 5)                                   \
    CALL(File_read_ordered##suffix, 5) CALL(File_write_ordered##suffix, 5)                                 \
    CALL(File_iread##suffix, 5) CALL(File_iwrite##suffix, 5)                                               \
    CALL(File_iread_all##suffix, 5) CALL(File_iwrite_all##suffix, 5)                                       \
    CALL(File_iread_at##suffix, 6) CALL(File_iwrite_at##suffix, 6)                                         \
    CALL(File_iread_at_all##suffix, 6) CALL(File_iwrite_at_all##suffix, 6)                                 \
    CALL(File_iread_shared##suffix, 5) CALL(File_iwrite_shared##suffix, 5)                                 \
    CALL(File_read_all_begin##suffix, 4) CALL(File_write_all_begin##suffix, 4)                             \
    CALL(File_read_at_all_begin##suffix, 5) CALL(File_write_at_all_begin##suffix, 5)                       \
    CALL(File_read_ordered_begin##suffix, 4) CALL(File_write_ordered_begin##suffix, 4)                     \
    CALL(Register_datarep##suffix, 5)

#define OTHER_CALLS(CALL)                                                                                  \
    CALL(File_open, 5) CALL(File_close, 1) CALL(File_delete, 2)                                            \
    CALL(File_set_size, 2) CALL(File_preallocate, 2) CALL(File_get_size, 2)                                \
    CALL(File_get_group, 2) CALL(File_get_amode, 2)                                                        \
    CALL(File_set_info, 2) CALL(File_get_info, 2)                                                          \
    CALL(File_set_view, 6) CALL(File_get_view, 5)                                                          \
    CALL(File_seek, 3) CALL(File_get_position, 2) CALL(File_get_byte_offset, 3)                            \
    CALL(File_seek_shared, 3) CALL(File_get_position_shared, 2)                                            \
    CALL(File_read_all_end, 3) CALL(File_write_all_end, 3)                                                 \
    CALL(File_read_at_all_end, 3) CALL(File_write_at_all_end, 3)                                           \
    CALL(File_read_ordered_end, 3) CALL(File_write_ordered_end, 3)                                         \
    CALL(File_set_atomicity, 2) CALL(File_get_atomicity, 2) CALL(File_sync, 1)                             \
    CALL(File_create_errhandler, 2) CALL(File_set_errhandler, 2) CALL(File_get_errhandler, 2)              \
    CALL(File_call_errhandler, 2) CALL(File_c2f, 1) CALL(File_f2c, 1) CALL(Errhandler_free, 1)

#define ALL_CALLS(CALL) OTHER_CALLS(CALL) DATA_CALLS(CALL, ) DATA_CALLS(CALL, _c)

#define PARAMETERS_1 long a
#define PARAMETERS_2 PARAMETERS_1, long b
#define PARAMETERS_3 PARAMETERS_2, long c
#define PARAMETERS_4 PARAMETERS_3, long d
#define PARAMETERS_5 PARAMETERS_4, long e
#define PARAMETERS_6 PARAMETERS_5, long f

/* The numbers of the calls, from 1 on. */
enum {
    NO_CALL,
#define NUMBER(name, arguments) CALL_##name,
    ALL_CALLS(NUMBER)
#undef NUMBER
    CALLS_END
};

/* The arguments of the last call of the fake MPI. */
struct seen {
    int call, arguments;
    long sum;
};

#endif
