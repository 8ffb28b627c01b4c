# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest for all suites of others: leaves tests out by a list, and writes what became of each test.

PEERS_SUITE names the suite, PEERS_RESULTS the JSON file to write."""

import json
import os
import re
from pathlib import Path

import pytest

LEFT_OUT = Path(__file__).resolve().parent / "left-out.txt"
ORDER = {"passed": 0, "skipped": 1, "failed": 2}


def left_out(suite, path=LEFT_OUT):
    """[pattern, reason] of a suite. In a line "SUITE TEST REASON" a * of TEST is any text, and a name without
    parameters is the test with all of them."""
    rows = []
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            of, test, reason = line.split(None, 2)
            if of == suite:
                rows.append((re.compile(".*".join(map(re.escape, test.split("*"))) + r"(\[.*)?", re.S), reason))
    return rows


def test_name(nodeid):
    """test_file.py::test_name[parameters], without folders."""
    path, _, rest = nodeid.partition("::")
    return f"{Path(path).name}::{rest}"


class Results:
    def __init__(self):
        self.suite = os.environ.get("PEERS_SUITE", "")
        self.rows = {}  # test: [outcome, text]
        self.rules = left_out(self.suite)
        self.used = set()

    def reason(self, name):
        for number, (pattern, reason) in enumerate(self.rules):
            if pattern.fullmatch(name):
                self.used.add(number)
                return reason
        return None

    def pytest_collection_modifyitems(self, items):
        for item in items:
            if reason := self.reason(test_name(item.nodeid)):
                item.add_marker(pytest.mark.skip(reason=reason))

    def pytest_runtest_logreport(self, report):
        name, outcome, text = test_name(report.nodeid), report.outcome, ""
        if report.outcome == "skipped" and hasattr(report, "wasxfail"):
            text = report.wasxfail
        elif report.outcome == "skipped":
            text = report.longrepr[2].removeprefix("Skipped: ") if isinstance(report.longrepr, tuple) else ""
        elif report.failed:
            text = report.longreprtext.strip().splitlines()[-1] if report.longreprtext.strip() else report.when
            crash = getattr(getattr(report.longrepr, "reprcrash", None), "message", None)
            text = crash.splitlines()[0] if crash else text
        if ORDER[outcome] >= ORDER.get(self.rows.get(name, ["passed"])[0], 0):
            self.rows[name] = [outcome, text]

    def pytest_collectreport(self, report):
        if report.failed:
            self.rows[test_name(report.nodeid)] = ["failed", "was not collected: " + str(report.longrepr)[-300:]]

    def pytest_runtest_logfinish(self):
        self.write()

    def pytest_sessionfinish(self):
        self.write()

    def write(self):
        if path := os.environ.get("PEERS_RESULTS"):
            Path(path).write_text(json.dumps({"suite": self.suite, "rows": self.rows}))


def pytest_configure(config):
    config.pluginmanager.register(Results(), "peers-results")
