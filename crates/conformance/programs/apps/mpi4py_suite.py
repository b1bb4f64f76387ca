"""Runs test modules of mpi4py's own suite and records each test's outcome, one file per rank.

usage: mpi4py_suite.py TEST_DIRECTORY RECORD_DIRECTORY [OPTION…] MODULE…

Lines of a record: `outcome<TAB>test<TAB>reason`, written as they happen, so that a hung run shows where.
"""
import os
import sys
import traceback
import unittest

tests, records, *arguments = sys.argv[1:]
sys.dont_write_bytecode = True
sys.path.insert(0, tests)
import main  # noqa: E402  (the suite's own entry point)

rank = os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ.get("PMI_RANK") or "0"
record = open(os.path.join(records, f"rank-{rank}.txt"), "w", buffering=1)


class Recorder(unittest.TestResult):
    def put(self, outcome, test, reason=""):
        record.write(f"{outcome}\t{test.id()}\t{reason}\n")

    def startTest(self, test):
        super().startTest(test)
        self.put("begun", test)

    def addSuccess(self, test):
        self.put("passed", test)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.put("skipped", test, reason)

    def addError(self, test, error):
        super().addError(test, error)
        self.put("failed", test, "".join(traceback.format_exception(*error)).replace("\n", " | "))

    addFailure = addError

    def addSubTest(self, test, subtest, error):
        if error is not None:
            self.addError(test, error)


class Runner:
    def run(self, suite):
        result = Recorder()
        suite(result)
        return result


main.TestProgram(module=None, argv=["mpi4py_suite", *arguments], testRunner=Runner())
