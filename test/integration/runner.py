# SPDX-License-Identifier: Apache-2.0
"""Runs the test modules of this folder (or the named tests) and prints one line a test and a closing line."""

import faulthandler
import json
import os
import signal
import sys
import time
import traceback
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent


def report(err):
    """The part of a traceback that lies in our own files, and the message."""
    lines = [f"  {Path(frame.filename).name}:{frame.lineno} {frame.line}\n" for frame in traceback.extract_tb(err[2])
             if Path(frame.filename).parent == HERE]
    return "".join(lines + traceback.format_exception_only(err[0], err[1]))


class Result(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.rows = []

    def startTest(self, test):
        super().startTest(test)
        self.started = time.monotonic()

    def note(self, test, outcome, text=""):
        seconds = time.monotonic() - getattr(self, "started", time.monotonic())
        self.rows.append({"name": test.id(), "outcome": outcome, "seconds": round(seconds, 2), "text": text})
        print(f"{outcome:<7} {test.id()} ({seconds:.1f} s)" + (f": {text}" if outcome == "skipped" else ""), flush=True)
        if outcome == "failed":
            print(text, flush=True)

    def addSuccess(self, test):
        self.note(test, "passed")

    def addFailure(self, test, err):
        self.note(test, "failed", report(err))

    addError = addFailure

    def addSkip(self, test, reason):
        self.note(test, "skipped", reason)

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.note(subtest, "failed", report(err))


def marked(suite):
    """The tests that settings.whole_model() marks, or whose class it marks; with the fixtures of their classes."""
    kept = unittest.TestSuite()
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            kept.addTest(marked(test))
        elif hasattr(test, "whole_model") or hasattr(getattr(test, test._testMethodName), "whole_model"):
            kept.addTest(test)
    return kept


def main():
    faulthandler.register(signal.SIGUSR1)
    loader = unittest.TestLoader()
    names = sys.argv[1:] or sorted(path.stem for path in HERE.glob("test_*.py"))
    suite = loader.loadTestsFromNames(names)
    if os.environ.get("COORDGEN_ONLY_WHOLE"):
        suite = marked(suite)
    result = Result()
    suite.run(result)
    count = {outcome: sum(row["outcome"] == outcome for row in result.rows) for outcome in ("passed", "failed", "skipped")}
    if path := os.environ.get("COORDGEN_JSON"):
        Path(path).write_text(json.dumps(result.rows))
    print(f"{count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped")
    return 1 if count["failed"] or not result.rows else 0


if __name__ == "__main__":
    sys.exit(main())
