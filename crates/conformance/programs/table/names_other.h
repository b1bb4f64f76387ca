/* Everything but data access, under the name PREFIX; included once per prefix, so it has no guard. */

static void JOIN(PREFIX, manage)(void)
{
    char *file = path("manage");
    MPI_File fh = MPI_FILE_NULL;
    MPI_Info info, used;
    MPI_Group group, world;
    MPI_Offset size;
    int amode = MPI_MODE_RDWR | MPI_MODE_CREATE, got, same;

    CLAUSE("good", TEXT(PREFIX) "File open, size, group, amode, info, close, delete");
    MPI_Info_create(&info);
    MPI_Info_set(info, "cb_buffer_size", "1048576");
    OK(CALL(File_open, MPI_COMM_WORLD, file, amode, info, &fh));
    OK(CALL(File_set_size, fh, 1000));
    OK(CALL(File_get_size, fh, &size));
    SAME(size, 1000);
    OK(CALL(File_preallocate, fh, 2000));
    OK(CALL(File_get_size, fh, &size));
    SAME(size, 2000);
    OK(CALL(File_get_group, fh, &group));
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_compare(group, world, &same);
    SAME(same, MPI_IDENT);
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    OK(CALL(File_get_amode, fh, &got));
    SAME(got, amode);
    OK(CALL(File_get_info, fh, &used));
    char value[64] = "";
    int has = 0;
    MPI_Info_get(used, "cb_buffer_size", 63, value, &has);
    CHECK(has && strcmp(value, "1048576") == 0, "cb_buffer_size is %s", has ? value : "missing");
    MPI_Info_free(&used);
    OK(CALL(File_set_info, fh, info));
    MPI_Info_free(&info);
    OK(CALL(File_sync, fh));
    OK(CALL(File_close, &fh));
    CHECK(fh == MPI_FILE_NULL, "close leaves the handle");
    SAME(size_on_disk("manage"), 2000);
    barrier();
    if (rank == 0)
        OK(CALL(File_delete, file, MPI_INFO_NULL));
    barrier();
    SAME(size_on_disk("manage"), -1);
    END_CLAUSE();

    CLAUSE("bad", TEXT(PREFIX) "File open, size, group, amode, info, close, delete refuse bad arguments");
    GIVES(CALL(File_open, MPI_COMM_WORLD, file, MPI_MODE_RDONLY, MPI_INFO_NULL, &fh), MPI_ERR_NO_SUCH_FILE);
    CHECK(fh == MPI_FILE_NULL, "a failed open gives a handle");
    const int modes[] = {0, MPI_MODE_CREATE, MPI_MODE_RDONLY | MPI_MODE_WRONLY, MPI_MODE_RDONLY | MPI_MODE_RDWR,
                         MPI_MODE_WRONLY | MPI_MODE_RDWR, MPI_MODE_RDONLY | MPI_MODE_CREATE,
                         MPI_MODE_RDONLY | MPI_MODE_EXCL, MPI_MODE_RDWR | MPI_MODE_SEQUENTIAL | MPI_MODE_CREATE};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        GIVES(CALL(File_open, MPI_COMM_WORLD, file, modes[i], MPI_INFO_NULL, &fh), MPI_ERR_AMODE);
    SAME(size_on_disk("manage"), -1);
    GIVES(CALL(File_open, MPI_COMM_NULL, file, amode, MPI_INFO_NULL, &fh), MPI_ERR_COMM);
    GIVES(CALL(File_delete, file, MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);
    MPI_File null = MPI_FILE_NULL;
    GIVES(CALL(File_close, &null), MPI_ERR_FILE);
    GIVES(CALL(File_set_size, null, 1), MPI_ERR_FILE);
    GIVES(CALL(File_get_size, null, &size), MPI_ERR_FILE);
    GIVES(CALL(File_preallocate, null, 1), MPI_ERR_FILE);
    GIVES(CALL(File_get_group, null, &group), MPI_ERR_FILE);
    GIVES(CALL(File_get_amode, null, &got), MPI_ERR_FILE);
    GIVES(CALL(File_set_info, null, MPI_INFO_NULL), MPI_ERR_FILE);
    GIVES(CALL(File_get_info, null, &used), MPI_ERR_FILE);
    GIVES(CALL(File_sync, null), MPI_ERR_FILE);
    spit_ints("manage", 10);
    fh = open_all("manage", MPI_MODE_RDWR);
    GIVES(CALL(File_set_size, fh, -1), MPI_ERR_ARG);
    GIVES(CALL(File_preallocate, fh, -1), MPI_ERR_ARG);
    SAME(file_size(fh), 40);
    OK(CALL(File_close, &fh));
    fh = open_all("manage", MPI_MODE_RDONLY);
    GIVES2(CALL(File_set_size, fh, 1), MPI_ERR_READ_ONLY, MPI_ERR_ACCESS);
    GIVES2(CALL(File_preallocate, fh, 100), MPI_ERR_READ_ONLY, MPI_ERR_ACCESS);
    OK(CALL(File_sync, fh));
    OK(CALL(File_close, &fh));
    fh = open_all("manage", MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL);
    GIVES(CALL(File_set_size, fh, 1), MPI_ERR_UNSUPPORTED_OPERATION);
    GIVES(CALL(File_preallocate, fh, 100), MPI_ERR_UNSUPPORTED_OPERATION);
    OK(CALL(File_close, &fh));
    SAME(size_on_disk("manage"), 40);
    END_CLAUSE();
}

/* Views, positions, extents, atomicity, Fortran handles. */
static void JOIN(PREFIX, place)(void)
{
    MPI_Offset at, disp;
    MPI_Datatype etype, filetype = holed(2, 3), got;
    MPI_Aint extent;
    int flag, a, b, c, combiner;
    char rep[MPI_MAX_DATAREP_STRING + 1];
    MPI_File null = MPI_FILE_NULL;

    spit_ints("place", 30);
    MPI_File fh = open_all("place", MPI_MODE_RDWR);
    CLAUSE("good", TEXT(PREFIX) "File views, positions, extents, atomicity, Fortran handles");
    OK(CALL(File_set_view, fh, 8, MPI_INT, filetype, "native", MPI_INFO_NULL));
    OK(CALL(File_get_view, fh, &disp, &etype, &got, rep));
    SAME(disp, 8);
    CHECK(etype == MPI_INT, "another etype comes back");
    CHECK(strcmp(rep, "native") == 0, "the data representation is %s", rep);
    MPI_Type_get_envelope(got, &a, &b, &c, &combiner);
    CHECK(combiner != MPI_COMBINER_NAMED, "a derived filetype comes back as a named one");
    if (combiner != MPI_COMBINER_NAMED)
        MPI_Type_free(&got);
    OK(CALL(File_seek, fh, 5, MPI_SEEK_SET));
    OK(CALL(File_seek, fh, 2, MPI_SEEK_CUR));
    OK(CALL(File_get_position, fh, &at));
    SAME(at, 7);
    OK(CALL(File_seek, fh, -1, MPI_SEEK_END));
    OK(CALL(File_get_position, fh, &at));
    SAME(at, 18); /* 28 ints from the displacement on: 9 tiles and one int of the tenth are 19 etypes */
    OK(CALL(File_seek_shared, fh, 5, MPI_SEEK_SET));
    OK(CALL(File_seek_shared, fh, -2, MPI_SEEK_CUR));
    OK(CALL(File_get_position_shared, fh, &at));
    SAME(at, 3);
    OK(CALL(File_seek_shared, fh, 0, MPI_SEEK_END));
    OK(CALL(File_get_position_shared, fh, &at));
    SAME(at, 19);
    OK(CALL(File_get_byte_offset, fh, 3, &disp));
    SAME(disp, 8 + 16);
    OK(CALL(File_get_byte_offset, fh, 4, &disp));
    SAME(disp, 8 + 24);
    OK(CALL(File_get_type_extent, fh, filetype, &extent));
    SAME(extent, 12);
    int (*extent_c)(MPI_File, MPI_Datatype, MPI_Count *) = symbol(TEXT(PREFIX) "File_get_type_extent_c");
    MPI_Count large = -1;
    CHECK(extent_c != NULL, "no large-count form of get_type_extent");
    if (extent_c) {
        OK(extent_c(fh, filetype, &large));
        SAME(large, 12);
        GIVES(extent_c(null, filetype, &large), MPI_ERR_FILE);
        GIVES(extent_c(fh, MPI_DATATYPE_NULL, &large), MPI_ERR_TYPE);
    }
    OK(CALL(File_get_atomicity, fh, &flag));
    SAME(flag, 0);
    OK(CALL(File_set_atomicity, fh, 1));
    OK(CALL(File_get_atomicity, fh, &flag));
    SAME(flag, 1);
    MPI_Fint number = CALL(File_c2f, fh);
    CHECK(CALL(File_f2c, number) == fh, "a Fortran handle does not lead back");
    CHECK(CALL(File_f2c, CALL(File_c2f, null)) == null, "the null handle does not lead back");
    END_CLAUSE();

    CLAUSE("bad", TEXT(PREFIX) "File views, positions, extents, atomicity refuse bad arguments");
    GIVES(CALL(File_set_view, null, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_FILE);
    GIVES(CALL(File_set_view, fh, -1, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    GIVES(CALL(File_set_view, fh, 0, MPI_DATATYPE_NULL, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_TYPE);
    GIVES(CALL(File_set_view, fh, 0, MPI_INT, MPI_DATATYPE_NULL, "native", MPI_INFO_NULL), MPI_ERR_TYPE);
    GIVES(CALL(File_set_view, fh, 0, MPI_INT, MPI_INT, "no such", MPI_INFO_NULL), MPI_ERR_UNSUPPORTED_DATAREP);
    GIVES(CALL(File_get_view, null, &disp, &etype, &got, rep), MPI_ERR_FILE);
    GIVES(CALL(File_seek, null, 0, MPI_SEEK_SET), MPI_ERR_FILE);
    GIVES(CALL(File_seek, fh, 0, 12345), MPI_ERR_ARG);
    GIVES(CALL(File_seek, fh, -1, MPI_SEEK_SET), MPI_ERR_ARG);
    GIVES(CALL(File_seek, fh, -1000, MPI_SEEK_CUR), MPI_ERR_ARG);
    GIVES(CALL(File_seek, fh, -1000, MPI_SEEK_END), MPI_ERR_ARG);
    SAME(position(fh), 18);
    GIVES(CALL(File_seek_shared, null, 0, MPI_SEEK_SET), MPI_ERR_FILE);
    GIVES(CALL(File_seek_shared, fh, 0, 12345), MPI_ERR_ARG);
    GIVES(CALL(File_seek_shared, fh, -1, MPI_SEEK_SET), MPI_ERR_ARG);
    SAME(shared_position(fh), 19);
    GIVES(CALL(File_get_position, null, &at), MPI_ERR_FILE);
    GIVES(CALL(File_get_position_shared, null, &at), MPI_ERR_FILE);
    GIVES(CALL(File_get_byte_offset, null, 0, &at), MPI_ERR_FILE);
    GIVES(CALL(File_get_byte_offset, fh, -1, &at), MPI_ERR_ARG);
    GIVES(CALL(File_get_type_extent, null, MPI_INT, &extent), MPI_ERR_FILE);
    GIVES(CALL(File_get_type_extent, fh, MPI_DATATYPE_NULL, &extent), MPI_ERR_TYPE);
    GIVES(CALL(File_set_atomicity, null, 1), MPI_ERR_FILE);
    GIVES(CALL(File_get_atomicity, null, &flag), MPI_ERR_FILE);
    OK(MPI_File_close(&fh));
    fh = open_all("place", MPI_MODE_RDONLY | MPI_MODE_SEQUENTIAL);
    GIVES(CALL(File_seek, fh, 0, MPI_SEEK_SET), MPI_ERR_UNSUPPORTED_OPERATION);
    GIVES(CALL(File_seek_shared, fh, 0, MPI_SEEK_SET), MPI_ERR_UNSUPPORTED_OPERATION);
    GIVES(CALL(File_get_position, fh, &at), MPI_ERR_UNSUPPORTED_OPERATION);
    GIVES(CALL(File_get_position_shared, fh, &at), MPI_ERR_UNSUPPORTED_OPERATION);
    OK(CALL(File_get_byte_offset, fh, 0, &at)); /* the standard excepts this one */
    OK(MPI_File_close(&fh));
    MPI_Type_free(&filetype);
    END_CLAUSE();
}

static void JOIN(PREFIX, handlers)(void)
{
    MPI_Errhandler handler, got;
    MPI_Offset size;
    MPI_File fh = open_all("place", MPI_MODE_RDONLY);

    CLAUSE("good", TEXT(PREFIX) "File error handlers");
    OK(CALL(File_get_errhandler, fh, &got));
    CHECK(got == MPI_ERRORS_RETURN, "a file's handler is not MPI_ERRORS_RETURN");
    OK(CALL(Errhandler_free, &got));
    CHECK(got == MPI_ERRHANDLER_NULL, "free leaves the handle");
    OK(CALL(File_create_errhandler, note_error, &handler));
    OK(CALL(File_set_errhandler, fh, handler));
    handled = 0;
    OK(CALL(File_call_errhandler, fh, MPI_ERR_IO));
    SAME(handled, 1);
    SAME(class_of(handled_code), MPI_ERR_IO);
    CHECK(handled_file == fh, "the handler gets another file");
    GIVES(MPI_File_seek(fh, -1, MPI_SEEK_SET), MPI_ERR_ARG);
    SAME(handled, 2);
    SAME(class_of(handled_code), MPI_ERR_ARG);
    OK(CALL(File_get_errhandler, fh, &got));
    CHECK(got == handler, "another handler comes back");
    OK(CALL(Errhandler_free, &got));
    OK(CALL(Errhandler_free, &handler));
    GIVES(MPI_File_seek(fh, -1, MPI_SEEK_SET), MPI_ERR_ARG);
    SAME(handled, 3);
    OK(CALL(File_set_errhandler, fh, MPI_ERRORS_RETURN));
    GIVES(MPI_File_seek(fh, -1, MPI_SEEK_SET), MPI_ERR_ARG);
    SAME(handled, 3);
    OK(MPI_File_get_size(fh, &size));
    OK(MPI_File_close(&fh));
    END_CLAUSE();
}

static void JOIN(PREFIX, datareps)(void)
{
    MPI_Aint extent;
    MPI_File fh = open_all("place", MPI_MODE_RDONLY);
    CLAUSE("good", TEXT(PREFIX) "Register_datarep and its large-count form");
    const char *name = TEXT(PREFIX) "plain";
    OK(CALL(Register_datarep, name, MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL, same_extent, NULL));
    GIVES(CALL(Register_datarep, name, MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL, same_extent, NULL),
          MPI_ERR_DUP_DATAREP);
    GIVES(CALL(Register_datarep, "native", MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL, same_extent, NULL),
          MPI_ERR_DUP_DATAREP);
    int (*large)(const char *, void *, void *, void *, void *) = symbol(TEXT(PREFIX) "Register_datarep_c");
    CHECK(large != NULL, "no large-count form of MPI_Register_datarep");
    if (large) {
        OK(large(TEXT(PREFIX) "large", NULL, NULL, same_extent, NULL));
        GIVES(large(name, NULL, NULL, same_extent, NULL), MPI_ERR_DUP_DATAREP);
        OK(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, TEXT(PREFIX) "large", MPI_INFO_NULL));
    }
    OK(MPI_File_set_view(fh, 4, MPI_INT, MPI_INT, (char *)name, MPI_INFO_NULL));
    OK(MPI_File_get_type_extent(fh, MPI_INT, &extent));
    SAME(extent, 4);
    int value = -1;
    OK(MPI_File_read_at_all(fh, 2, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    SAME(value, 3);
    OK(MPI_File_close(&fh));
    END_CLAUSE();
}
