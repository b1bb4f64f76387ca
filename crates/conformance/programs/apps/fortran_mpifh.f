C     The Fortran 77 binding, mpif.h: a 2-D array in column order by
C     subarray views, explicit offsets, the shared pointer, hints, and
C     an error handler written in Fortran.
      program fmpifh
      implicit none
      include 'mpif.h'
      integer nx, ny
      parameter (nx = 12, ny = 16)
      integer ierr, me, ranks, file, view, rows, i, j, n
      integer sizes(2), subs(2), starts(2), stat(MPI_STATUS_SIZE)
      integer block(nx*ny), whole(nx, ny), info, nkeys, handler, again
      integer (kind=MPI_OFFSET_KIND) zero, place, bytes, position
      integer class, one(1)
      character*512 name
      character*20 word
      external onerr
      integer seen, code
      common /errors/ seen, code

      call MPI_INIT(ierr)
      call MPI_COMM_RANK(MPI_COMM_WORLD, me, ierr)
      call MPI_COMM_SIZE(MPI_COMM_WORLD, ranks, ierr)
      call getarg(1, name)
      zero = 0
      seen = 0

      call MPI_INFO_CREATE(info, ierr)
      call must(ierr, 'info create')
      call MPI_INFO_SET(info, 'cb_buffer_size', '65536', ierr)
      call must(ierr, 'info set')
      call MPI_FILE_OPEN(MPI_COMM_WORLD, name,
     &     MPI_MODE_CREATE + MPI_MODE_RDWR, info, file, ierr)
      call must(ierr, 'open')
      call MPI_INFO_FREE(info, ierr)

C     whole columns are dealt to the ranks
      rows = ny / ranks
      sizes(1) = nx
      sizes(2) = ny
      subs(1) = nx
      subs(2) = rows
      starts(1) = 0
      starts(2) = me * rows
      call MPI_TYPE_CREATE_SUBARRAY(2, sizes, subs, starts,
     &     MPI_ORDER_FORTRAN, MPI_INTEGER, view, ierr)
      call must(ierr, 'subarray')
      call MPI_TYPE_COMMIT(view, ierr)
      call MPI_FILE_SET_VIEW(file, zero, MPI_INTEGER, view, 'native',
     &     MPI_INFO_NULL, ierr)
      call must(ierr, 'set view')
      n = 0
      do 20 j = starts(2) + 1, starts(2) + rows
         do 10 i = 1, nx
            n = n + 1
            block(n) = 1000 * j + i
 10      continue
 20   continue
      call MPI_FILE_WRITE_ALL(file, block, n, MPI_INTEGER, stat, ierr)
      call must(ierr, 'write all')
      call MPI_GET_COUNT(stat, MPI_INTEGER, i, ierr)
      call equal(i, n, 'count written')
      call MPI_FILE_GET_POSITION(file, position, ierr)
      call must(ierr, 'get position')
      call equal(int(position), n, 'position')
      call MPI_FILE_SYNC(file, ierr)
      call must(ierr, 'sync')
      call MPI_BARRIER(MPI_COMM_WORLD, ierr)
      call MPI_FILE_SYNC(file, ierr)

C     everybody reads the whole array
      call MPI_FILE_SET_VIEW(file, zero, MPI_INTEGER, MPI_INTEGER,
     &     'native', MPI_INFO_NULL, ierr)
      call MPI_FILE_READ_AT(file, zero, whole, nx * ny, MPI_INTEGER,
     &     stat, ierr)
      call must(ierr, 'read at')
      call MPI_GET_COUNT(stat, MPI_INTEGER, i, ierr)
      call equal(i, nx * ny, 'count read')
      do 40 j = 1, ny
         do 30 i = 1, nx
            call equal(whole(i, j), 1000 * j + i, 'element')
 30      continue
 40   continue

C     the shared pointer, one rank after the other
      place = nx * ny
      call MPI_FILE_SEEK_SHARED(file, place, MPI_SEEK_SET, ierr)
      call must(ierr, 'seek shared')
      do 50 i = 0, ranks - 1
         if (i .eq. me) then
            one(1) = 77000 + me
            call MPI_FILE_WRITE_SHARED(file, one, 1, MPI_INTEGER, stat,
     &           ierr)
            call must(ierr, 'write shared')
         endif
         call MPI_BARRIER(MPI_COMM_WORLD, ierr)
 50   continue
      call MPI_FILE_GET_POSITION_SHARED(file, position, ierr)
      call must(ierr, 'get position shared')
      call equal(int(position), nx * ny + ranks, 'shared position')
      call MPI_BARRIER(MPI_COMM_WORLD, ierr)
      one(1) = 88000 + me
      call MPI_FILE_WRITE_ORDERED(file, one, 1, MPI_INTEGER, stat, ierr)
      call must(ierr, 'write ordered')
      call MPI_BARRIER(MPI_COMM_WORLD, ierr)
      call MPI_FILE_GET_SIZE(file, bytes, ierr)
      call must(ierr, 'get size')
      call equal(int(bytes), 4 * (nx * ny + 2 * ranks), 'size')

      call MPI_FILE_GET_INFO(file, info, ierr)
      call must(ierr, 'get info')
      call MPI_INFO_GET_NKEYS(info, nkeys, ierr)
      call must(ierr, 'nkeys')
      if (nkeys .lt. 1) call fail('no hints in force')
      call MPI_INFO_FREE(info, ierr)
      call MPI_FILE_GET_AMODE(file, i, ierr)
      call equal(i, MPI_MODE_CREATE + MPI_MODE_RDWR, 'amode')
      call MPI_FILE_CLOSE(file, ierr)
      call must(ierr, 'close')
      call equal(file, MPI_FILE_NULL, 'closed handle')
      call MPI_TYPE_FREE(view, ierr)

C     writing to a read-only file calls our handler, then returns
      call MPI_FILE_OPEN(MPI_COMM_WORLD, name, MPI_MODE_RDONLY,
     &     MPI_INFO_NULL, file, ierr)
      call must(ierr, 'open again')
      call MPI_FILE_CREATE_ERRHANDLER(onerr, handler, ierr)
      call must(ierr, 'create errhandler')
      call MPI_FILE_SET_ERRHANDLER(file, handler, ierr)
      call must(ierr, 'set errhandler')
      call MPI_FILE_GET_ERRHANDLER(file, again, ierr)
      call must(ierr, 'get errhandler')
      call equal(again, handler, 'the errhandler set')
      call MPI_ERRHANDLER_FREE(again, ierr)
      call MPI_ERRHANDLER_FREE(handler, ierr)
      call MPI_FILE_WRITE_AT(file, zero, one, 1, MPI_INTEGER, stat,
     &     ierr)
      call equal(seen, 1, 'calls of the handler')
      call equal(ierr, code, 'code given to the handler')
      call MPI_ERROR_CLASS(code, class, ierr)
      call equal(class, MPI_ERR_READ_ONLY, 'class')
      call MPI_FILE_CLOSE(file, ierr)
      call must(ierr, 'close again')

      call MPI_BARRIER(MPI_COMM_WORLD, ierr)
      word = 'passed'
      if (me .eq. 0) print '(a)', word(1:6)
      call MPI_FINALIZE(ierr)
      end

      subroutine onerr(file, errcode)
      integer file, errcode
      integer seen, code
      common /errors/ seen, code
      seen = seen + 1
      code = errcode
      end

      subroutine fail(what)
      include 'mpif.h'
      character*(*) what
      integer ierr
      print '(2a)', 'failed: ', what
      call MPI_ABORT(MPI_COMM_WORLD, 1, ierr)
      end

      subroutine must(ierr, what)
      include 'mpif.h'
      integer ierr
      character*(*) what
      if (ierr .ne. MPI_SUCCESS) call fail(what)
      end

      subroutine equal(left, right, what)
      integer left, right
      character*(*) what
      if (left .ne. right) then
         print '(a, 2(a, i0))', what, ': ', left, ' is not ', right
         call fail(what)
      endif
      end
