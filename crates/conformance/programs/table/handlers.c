/* Clause 13: error handlers of files and of MPI_FILE_NULL. */
#include "check.h"

static int calls, last_code;
static MPI_File last_file;

static void note(MPI_File *fh, int *code, ...)
{
    calls++;
    last_file = *fh;
    last_code = *code;
}

static int other_calls;

static void note_other(MPI_File *fh, int *code, ...)
{
    (void)fh;
    (void)code;
    other_calls++;
}

static MPI_Errhandler handler_of(MPI_File fh)
{
    MPI_Errhandler got = MPI_ERRHANDLER_NULL;
    OK(MPI_File_get_errhandler(fh, &got));
    return got;
}

static void defaults(void)
{
    MPI_File fh = MPI_FILE_NULL;
    CLAUSE("13", "the default handler is MPI_ERRORS_RETURN, for files and for MPI_FILE_NULL");
    MPI_Errhandler got = handler_of(MPI_FILE_NULL);
    CHECK(got == MPI_ERRORS_RETURN, "MPI_FILE_NULL has another handler");
    MPI_Errhandler_free(&got);
    spit_ints("file", 10);
    fh = open_all("file", MPI_MODE_RDONLY);
    got = handler_of(fh);
    CHECK(got == MPI_ERRORS_RETURN, "a file has another handler");
    MPI_Errhandler_free(&got);
    int code = MPI_File_seek(fh, -1, MPI_SEEK_SET), length = 0;
    char text[MPI_MAX_ERROR_STRING];
    GIVES(code, MPI_ERR_ARG);
    OK(MPI_Error_string(code, text, &length));
    CHECK(length > 0, "the error has no text");
    OK(MPI_File_close(&fh));
    GIVES(MPI_File_open(MPI_COMM_WORLD, path("absent"), MPI_MODE_RDONLY, MPI_INFO_NULL, &fh),
          MPI_ERR_NO_SUCH_FILE);
    GIVES(MPI_File_delete(path("absent"), MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);
    END_CLAUSE();
}

static void called_with_file_and_code(void)
{
    MPI_Errhandler handler, other, got;
    int value;
    CLAUSE("13b", "a file's own handler is called with that file and the code the call returns");
    MPI_File a = open_all("file", MPI_MODE_RDONLY), b = open_all("file", MPI_MODE_WRONLY);
    OK(MPI_File_create_errhandler(note, &handler));
    OK(MPI_File_create_errhandler(note_other, &other));
    OK(MPI_File_set_errhandler(a, handler));
    OK(MPI_File_set_errhandler(b, handler));
    calls = 0;
    GIVES(MPI_File_seek(a, -1, MPI_SEEK_SET), MPI_ERR_ARG);
    SAME(calls, 1);
    CHECK(last_file == a, "the handler gets another file");
    SAME(class_of(last_code), MPI_ERR_ARG);
    GIVES(MPI_File_read_at(b, 0, &value, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_ACCESS);
    SAME(calls, 2);
    CHECK(last_file == b, "the handler gets another file");
    SAME(class_of(last_code), MPI_ERR_ACCESS);
    GIVES(MPI_File_write_at_all(a, 0, &value, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_READ_ONLY);
    SAME(calls, 3);
    MPI_Request request = MPI_REQUEST_NULL;
    GIVES(MPI_File_iwrite_at(a, 0, &value, 1, MPI_INT, &request), MPI_ERR_READ_ONLY);
    SAME(calls, 4);
    OK(MPI_File_read_at(a, 0, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    SAME(calls, 4); /* a success calls nobody */
    OK(MPI_File_call_errhandler(b, MPI_ERR_NO_SPACE));
    SAME(calls, 5);
    CHECK(last_file == b, "call_errhandler gives another file");
    SAME(class_of(last_code), MPI_ERR_NO_SPACE);
    /* Freed handlers live on while a file uses them. */
    for (int i = 0; i < 5; i++) {
        got = handler_of(a);
        CHECK(got == handler, "another handler comes back");
        OK(MPI_Errhandler_free(&got));
        CHECK(got == MPI_ERRHANDLER_NULL, "free leaves the handle");
    }
    OK(MPI_Errhandler_free(&handler));
    FAILS(MPI_File_seek(a, -1, MPI_SEEK_SET));
    SAME(calls, 6);
    OK(MPI_File_set_errhandler(a, other));
    OK(MPI_Errhandler_free(&other));
    FAILS(MPI_File_seek(a, -1, MPI_SEEK_SET));
    SAME(calls, 6);
    SAME(other_calls, 1);
    FAILS(MPI_File_seek(b, -1, MPI_SEEK_SET));
    SAME(calls, 7);
    got = handler_of(b); /* a reference of our own outlives the file */
    OK(MPI_File_close(&b));
    OK(MPI_File_set_errhandler(a, got));
    OK(MPI_Errhandler_free(&got));
    FAILS(MPI_File_seek(a, -1, MPI_SEEK_SET));
    SAME(calls, 8);
    OK(MPI_File_close(&a));
    END_CLAUSE();
}

static void null_handler(void)
{
    MPI_Errhandler handler, got;
    MPI_File before = open_all("file", MPI_MODE_RDONLY), after = MPI_FILE_NULL, none = MPI_FILE_NULL;
    CLAUSE("13c", "MPI_FILE_NULL's handler governs open and delete and is inherited by files opened later");
    OK(MPI_File_create_errhandler(note, &handler));
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, handler));
    got = handler_of(MPI_FILE_NULL);
    CHECK(got == handler, "another handler comes back");
    OK(MPI_Errhandler_free(&got));
    calls = 0;
    GIVES(MPI_File_open(MPI_COMM_WORLD, path("absent"), MPI_MODE_RDONLY, MPI_INFO_NULL, &none),
          MPI_ERR_NO_SUCH_FILE);
    SAME(calls, 1);
    CHECK(last_file == MPI_FILE_NULL, "a failed open calls the handler with a file");
    SAME(class_of(last_code), MPI_ERR_NO_SUCH_FILE);
    GIVES(MPI_File_delete(path("absent"), MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);
    SAME(calls, 2);
    GIVES(MPI_File_sync(MPI_FILE_NULL), MPI_ERR_FILE);
    SAME(calls, 3);
    FAILS(MPI_File_seek(before, -1, MPI_SEEK_SET));
    SAME(calls, 3); /* open before: not concerned */
    after = open_all("file", MPI_MODE_RDONLY);
    got = handler_of(after);
    CHECK(got == handler, "a new file does not inherit");
    OK(MPI_Errhandler_free(&got));
    FAILS(MPI_File_seek(after, -1, MPI_SEEK_SET));
    SAME(calls, 4);
    CHECK(last_file == after, "the handler gets another file");
    OK(MPI_Errhandler_free(&handler));
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    FAILS(MPI_File_seek(after, -1, MPI_SEEK_SET));
    SAME(calls, 5); /* what was inherited stays */
    OK(MPI_File_close(&after));
    OK(MPI_File_close(&before));
    GIVES(MPI_File_delete(path("absent"), MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);
    SAME(calls, 5);
    after = open_all("file", MPI_MODE_RDONLY);
    got = handler_of(after);
    CHECK(got == MPI_ERRORS_RETURN, "the old handler is still inherited");
    OK(MPI_Errhandler_free(&got));
    OK(MPI_File_close(&after));
    END_CLAUSE();
}

static void forgive(MPI_File *fh, int *code, ...)
{
    (void)fh;
    *code = MPI_SUCCESS;
}

static void changed_code(void)
{
    MPI_Errhandler handler;
    CLAUSE("13d", "a call returns the code that its file's handler leaves, even if that is MPI_SUCCESS");
    MPI_File fh = open_all("file", MPI_MODE_RDONLY);
    OK(MPI_File_create_errhandler(forgive, &handler));
    OK(MPI_File_set_errhandler(fh, handler));
    OK(MPI_Errhandler_free(&handler));
    OK(MPI_File_seek(fh, -1, MPI_SEEK_SET));
    OK(MPI_File_set_errhandler(fh, MPI_ERRORS_RETURN));
    GIVES(MPI_File_seek(fh, -1, MPI_SEEK_SET), MPI_ERR_ARG);
    OK(MPI_File_close(&fh));
    END_CLAUSE();
}

/* Argument `fatal`: an error under MPI_ERRORS_ARE_FATAL ends the program here. */
static void fatal(void)
{
    MPI_File fh = open_all("file", MPI_MODE_RDWR | MPI_MODE_CREATE);
    OK(MPI_File_set_errhandler(fh, MPI_ERRORS_ARE_FATAL));
    if (rank == ranks - 1)
        MPI_File_seek(fh, -1, MPI_SEEK_SET);
    barrier();
    printf("survived\n");
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    if (argc > 2 && strcmp(argv[2], "fatal") == 0) {
        fatal();
        return finish();
    }
    defaults();
    called_with_file_and_code();
    null_handler();
    changed_code();
    return finish();
}
