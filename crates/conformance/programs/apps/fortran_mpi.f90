!> The Fortran 90 binding, `use mpi`: views, pointers, inquiry, an error handler in Fortran.
module errors
  use mpi
  implicit none
  integer :: seen = 0, code = 0
contains
  subroutine on_error(file, error_code)
    integer :: file
    integer :: error_code
    if (file == MPI_FILE_NULL) return
    seen = seen + 1
    code = error_code
  end subroutine

  subroutine fail(what)
    character(*), intent(in) :: what
    integer :: ierr
    print '(2a)', 'failed: ', what
    call MPI_Abort(MPI_COMM_WORLD, 1, ierr)
  end subroutine

  subroutine must(ierr, what)
    integer, intent(in) :: ierr
    character(*), intent(in) :: what
    if (ierr /= MPI_SUCCESS) call fail(what)
  end subroutine

  subroutine equal(left, right, what)
    integer(MPI_OFFSET_KIND), intent(in) :: left, right
    character(*), intent(in) :: what
    if (left /= right) then
      print '(a, 2(a, i0))', what, ': ', left, ' is not ', right
      call fail(what)
    end if
  end subroutine
end module

program fortran_mpi
  use mpi
  use errors
  implicit none
  integer, parameter :: nx = 12, ny = 16, off = MPI_OFFSET_KIND
  integer :: ierr, me, ranks, columns, i, j, n, nkeys, class
  integer :: block(nx * ny), whole(nx, ny), one(1)
  integer :: file, view, info, handler, again, request, status(MPI_STATUS_SIZE)
  integer(MPI_OFFSET_KIND) :: bytes, position, far
  character(512) :: path

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  call get_command_argument(1, path)

  call write_array
  call use_pointers
  call ask
  call MPI_File_close(file, ierr)
  call must(ierr, 'close')
  if (file /= MPI_FILE_NULL) call fail('closed handle')
  call err

  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  if (me == 0) print '(a)', 'passed'
  call MPI_Finalize(ierr)

contains

  !> Whole columns are dealt to the ranks; then everybody reads the whole array.
  subroutine write_array
    call MPI_Info_create(info, ierr)
    call MPI_Info_set(info, 'cb_buffer_size', '65536', ierr)
    call MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE + MPI_MODE_RDWR, info, file, ierr)
    call must(ierr, 'open')
    call MPI_Info_free(info, ierr)
    columns = ny / ranks
    call MPI_Type_create_subarray(2, [nx, ny], [nx, columns], [0, me * columns], MPI_ORDER_FORTRAN, &
        MPI_INTEGER, view, ierr)
    call must(ierr, 'subarray')
    call MPI_Type_commit(view, ierr)
    call MPI_File_set_view(file, 0_off, MPI_INTEGER, view, 'native', MPI_INFO_NULL, ierr)
    call must(ierr, 'set view')
    call MPI_Type_free(view, ierr)
    n = nx * columns
    block(1:n) = [((1000 * j + i, i = 1, nx), j = me * columns + 1, (me + 1) * columns)]
    call MPI_File_write_all(file, block, n, MPI_INTEGER, status, ierr)
    call must(ierr, 'write all')
    call MPI_Get_count(status, MPI_INTEGER, i, ierr)
    call equal(int(i, off), int(n, off), 'count written')
    call MPI_File_get_position(file, position, ierr)
    call equal(position, int(n, off), 'position')
    call MPI_File_get_byte_offset(file, position - 1, bytes, ierr)
    call equal(bytes, 4_off * (nx * (me + 1) * columns - 1), 'byte offset')
    call MPI_File_sync(file, ierr)
    call must(ierr, 'sync')
    call MPI_Barrier(MPI_COMM_WORLD, ierr)
    call MPI_File_sync(file, ierr)
    call MPI_File_set_view(file, 0_off, MPI_INTEGER, MPI_INTEGER, 'native', MPI_INFO_NULL, ierr)
    call MPI_File_read_at(file, 0_off, whole, nx * ny, MPI_INTEGER, status, ierr)
    call must(ierr, 'read at')
    call MPI_Get_count(status, MPI_INTEGER, i, ierr)
    call equal(int(i, off), int(nx * ny, off), 'count read')
    if (any(whole /= reshape([((1000 * j + i, i = 1, nx), j = 1, ny)], [nx, ny]))) call fail('elements')
  end subroutine

  !> The shared pointer one rank after the other, ordered, and a nonblocking read.
  subroutine use_pointers
    call MPI_File_seek_shared(file, int(nx * ny, off), MPI_SEEK_SET, ierr)
    call must(ierr, 'seek shared')
    do i = 0, ranks - 1
      if (i == me) then
        one = 77000 + me
        call MPI_File_write_shared(file, one, 1, MPI_INTEGER, status, ierr)
        call must(ierr, 'write shared')
      end if
      call MPI_Barrier(MPI_COMM_WORLD, ierr)
    end do
    call MPI_File_get_position_shared(file, position, ierr)
    call equal(position, int(nx * ny + ranks, off), 'shared position')
    call MPI_Barrier(MPI_COMM_WORLD, ierr)
    one = 88000 + me
    call MPI_File_write_ordered(file, one, 1, MPI_INTEGER, MPI_STATUS_IGNORE, ierr)
    call must(ierr, 'write ordered')
    call MPI_Barrier(MPI_COMM_WORLD, ierr)
    call MPI_File_iread_at(file, int(nx * ny + ranks + me, off), one, 1, MPI_INTEGER, request, ierr)
    call must(ierr, 'iread at')
    call MPI_Wait(request, status, ierr)
    call must(ierr, 'wait')
    call equal(int(one(1), off), int(88000 + me, off), 'nonblocking read')
    far = 3000000000_off ! beyond a 32-bit integer
    call MPI_File_seek(file, far, MPI_SEEK_SET, ierr)
    call must(ierr, 'seek far')
    call MPI_File_get_position(file, position, ierr)
    call equal(position, far, 'far position')
  end subroutine

  !> What a file tells about itself.
  subroutine ask
    call MPI_File_get_size(file, bytes, ierr)
    call equal(bytes, 4_off * (nx * ny + 2 * ranks), 'size')
    call MPI_File_get_info(file, info, ierr)
    call must(ierr, 'get info')
    call MPI_Info_get_nkeys(info, nkeys, ierr)
    if (nkeys < 1) call fail('no hints in force')
    call MPI_Info_free(info, ierr)
    call MPI_File_get_amode(file, i, ierr)
    call equal(int(i, off), int(MPI_MODE_CREATE + MPI_MODE_RDWR, off), 'amode')
  end subroutine

  !> Writing to a read-only file calls our handler, then returns.
  subroutine err
    call MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY, MPI_INFO_NULL, file, ierr)
    call must(ierr, 'open again')
    call MPI_File_create_errhandler(on_error, handler, ierr)
    call must(ierr, 'create errhandler')
    call MPI_File_set_errhandler(file, handler, ierr)
    call must(ierr, 'set errhandler')
    call MPI_File_get_errhandler(file, again, ierr)
    call must(ierr, 'get errhandler')
    if (again /= handler) call fail('the errhandler set')
    call MPI_Errhandler_free(again, ierr)
    call MPI_Errhandler_free(handler, ierr)
    call MPI_File_write_at(file, 0_off, one, 1, MPI_INTEGER, status, ierr)
    call equal(int(seen, off), 1_off, 'calls of the handler')
    call equal(int(ierr, off), int(code, off), 'code given to the handler')
    call MPI_Error_class(code, class, ierr)
    call equal(int(class, off), int(MPI_ERR_READ_ONLY, off), 'class')
    call MPI_File_close(file, ierr)
    call must(ierr, 'close again')
  end subroutine
end program
