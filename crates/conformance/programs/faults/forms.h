/* One collective access in each of its forms, on data that tells its own place. */
#ifndef FORMS_H
#define FORMS_H

#include "../table/check.h"

enum { PIECE = 256, PIECES = 64, MINE = PIECE * PIECES };

enum form { ALL, AT, SPLIT, SPLIT_AT, NONBLOCKING, NONBLOCKING_AT, FORMS };
static const char *form_names[] = {"all", "at_all", "split", "split at", "nonblocking", "nonblocking at"};

static int waits_later(enum form form) { return form == NONBLOCKING || form == NONBLOCKING_AT; }
static inline int has_offset(enum form form)
{
    return form == AT || form == SPLIT_AT || form == NONBLOCKING_AT;
}

static int start(MPI_File fh, enum form form, int w, MPI_Offset at, void *buf, int n, MPI_Datatype type,
                 MPI_Status *st, MPI_Request *request)
{
    switch (form) {
    case ALL: return w ? MPI_File_write_all(fh, buf, n, type, st) : MPI_File_read_all(fh, buf, n, type, st);
    case AT:
        return w ? MPI_File_write_at_all(fh, at, buf, n, type, st)
                 : MPI_File_read_at_all(fh, at, buf, n, type, st);
    case SPLIT:
        return w ? MPI_File_write_all_begin(fh, buf, n, type) : MPI_File_read_all_begin(fh, buf, n, type);
    case SPLIT_AT:
        return w ? MPI_File_write_at_all_begin(fh, at, buf, n, type)
                 : MPI_File_read_at_all_begin(fh, at, buf, n, type);
    case NONBLOCKING:
        return w ? MPI_File_iwrite_all(fh, buf, n, type, request)
                 : MPI_File_iread_all(fh, buf, n, type, request);
    default:
        return w ? MPI_File_iwrite_at_all(fh, at, buf, n, type, request)
                 : MPI_File_iread_at_all(fh, at, buf, n, type, request);
    }
}

/* The access from start to end. A nonblocking one fails at its start, or else at the next sync. */
static int attempt(MPI_File fh, enum form form, int w, MPI_Offset at, void *buf, int n, MPI_Datatype type)
{
    MPI_Status st;
    MPI_Request request = MPI_REQUEST_NULL;
    int code = start(fh, form, w, at, buf, n, type, &st, &request);
    if (waits_later(form)) {
        if (code == MPI_SUCCESS)
            OK(MPI_Wait(&request, &st));
        int late = MPI_File_sync(fh);
        return code == MPI_SUCCESS ? late : code;
    }
    if (code != MPI_SUCCESS || form == ALL || form == AT)
        return code;
    if (form == SPLIT)
        return w ? MPI_File_write_all_end(fh, buf, &st) : MPI_File_read_all_end(fh, buf, &st);
    return w ? MPI_File_write_at_all_end(fh, buf, &st) : MPI_File_read_at_all_end(fh, buf, &st);
}

static unsigned char byte_of(int who, int i, int round)
{
    return (unsigned char)(i * 7 + i / 251 + who * 41 + round * 13 + 1);
}

static void fill(unsigned char *data, int round)
{
    for (int i = 0; i < MINE; i++)
        data[i] = byte_of(rank, i, round);
}

/* Ranks take turns piece by piece, and after each turn no rank accesses `idle` pieces. */
static MPI_File open_turns(const char *name, int idle)
{
    MPI_Datatype run, view;
    MPI_File fh = open_all(name, MPI_MODE_RDWR | MPI_MODE_CREATE);
    MPI_Type_contiguous(PIECE, MPI_BYTE, &run);
    MPI_Type_create_resized(run, 0, (MPI_Aint)PIECE * (ranks + idle), &view);
    MPI_Type_commit(&view);
    OK(MPI_File_set_view(fh, (MPI_Offset)PIECE * rank, MPI_BYTE, view, "native", MPI_INFO_NULL));
    MPI_Type_free(&view);
    MPI_Type_free(&run);
    return fh;
}

/* A good collective write and read: the file is usable. */
static void all_is_well(MPI_File fh, enum form form, int round)
{
    static unsigned char out[MINE], in[MINE];
    fill(out, round);
    memset(in, 0, sizeof in);
    OK(MPI_File_seek(fh, 0, MPI_SEEK_SET));
    OK(attempt(fh, form, 1, 0, out, MINE, MPI_BYTE));
    OK(MPI_File_seek(fh, 0, MPI_SEEK_SET));
    OK(attempt(fh, form, 0, 0, in, MINE, MPI_BYTE));
    CHECK(memcmp(in, out, sizeof in) == 0, "%s: other data comes back", form_names[form]);
    OK(MPI_File_seek(fh, 0, MPI_SEEK_SET));
}

#endif
