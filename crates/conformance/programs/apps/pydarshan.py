"""What pydarshan finds in Darshan's logs, for the test that compares it with what Pario finds.

rows LOG         each access as process,file,offset,length,op,time_ns; of a file's levels the highest
logs             the logs that the package brings, one per line
convert LOG OUT  LOG as libdarshan-util writes it: in the newest version of the format
"""

import collections
import ctypes
import glob
import os
import sys

import darshan

PACKAGE = os.path.dirname(darshan.__file__)
MODULES = {"DXT_POSIX": (10, 1), "DXT_MPIIO": (11, 2)}


def rows(path):
    report = darshan.DarshanReport(path, read_all=False)
    found = collections.defaultdict(list)
    for module in MODULES:
        if module in report.modules:
            report.mod_read_all_dxt_records(module)
            for record in report.records[module].to_df():
                name = report.name_records[record["id"]]
                for op in ("write", "read"):
                    segments = record[f"{op}_segments"]
                    if len(segments):
                        columns = (segments[key] for key in ("offset", "length", "start_time"))
                        for offset, length, start in zip(*columns):
                            row = (record["rank"], name, int(offset), int(length), op, round(start * 1e9))
                            found[name, module].append(row)
    for (name, module), accesses in found.items():
        if module == "DXT_MPIIO" or (name, "DXT_MPIIO") not in found:
            for access in accesses:
                print(",".join(map(str, access)))


def convert(path, out):
    library = ctypes.CDLL(glob.glob(os.path.join(PACKAGE, "..", "darshan.libs", "libdarshan-util*"))[0])
    library.darshan_log_open.restype = library.darshan_log_create.restype = ctypes.c_void_p
    old = ctypes.c_void_p(library.darshan_log_open(path.encode()))
    new = ctypes.c_void_p(library.darshan_log_create(out.encode(), 0, ctypes.c_uint64(0)))
    room = ctypes.create_string_buffer(8192)
    for part in ("job", "exe"):
        assert getattr(library, f"darshan_log_get_{part}")(old, room) == 0
        assert getattr(library, f"darshan_log_put_{part}")(new, room) == 0
    names = ctypes.c_void_p()
    assert library.darshan_log_get_namehash(old, ctypes.byref(names)) == 0
    assert library.darshan_log_put_namehash(new, names) == 0
    for module, version in MODULES.values():
        while True:
            record = ctypes.c_void_p()
            if library.darshan_log_get_record(old, module, ctypes.byref(record)) <= 0:
                break
            numbers = ctypes.cast(record, ctypes.POINTER(ctypes.c_int64))
            size = 104 + 32 * (numbers[11] + numbers[12])
            assert library.darshan_log_put_mod(new, module, record, size, version) >= 0
    library.darshan_log_close(old)
    library.darshan_log_close(new)


command, arguments = sys.argv[1], sys.argv[2:]
if command == "rows":
    rows(*arguments)
elif command == "logs":
    print("\n".join(glob.glob(os.path.join(PACKAGE, "**", "*.darshan"), recursive=True)))
else:
    convert(*arguments)
