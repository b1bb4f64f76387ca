"""Parallel h5py: collective and independent slices, a chunked dataset, checked after a second opening."""
import sys

import h5py
import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
ROWS, COLUMNS = 40, 36
everything = np.arange(ROWS * COLUMNS, dtype="i4").reshape(ROWS, COLUMNS)
mine = slice(comm.rank, ROWS, comm.size)

with h5py.File(sys.argv[1], "w", driver="mpio", comm=comm) as file:
    plain = file.create_dataset("plain", (ROWS, COLUMNS), dtype="i4", track_times=False)
    chunked = file.create_dataset("chunked", (ROWS, COLUMNS), dtype="i4", chunks=(8, 9), track_times=False)
    file.attrs["answer"] = 42
    with plain.collective:
        plain[mine, :] = everything[mine]
    chunked[mine, :] = 3 * everything[mine]

with h5py.File(sys.argv[1], "r", driver="mpio", comm=comm) as file:
    assert file.attrs["answer"] == 42
    band = slice(COLUMNS * comm.rank // comm.size, COLUMNS * (comm.rank + 1) // comm.size)
    assert (file["plain"][:, band] == everything[:, band]).all()
    with file["chunked"].collective:
        assert (file["chunked"][:, band] == 3 * everything[:, band]).all()

comm.Barrier()
if comm.rank == 0:
    print("passed")
