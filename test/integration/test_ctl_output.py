# SPDX-License-Identifier: Apache-2.0
"""Programs whose standard descriptors are closed, full or broken: an error with a message, and nothing in the wrong place."""

import os
import socket
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from daemon import SANITIZER, DaemonCase
from settings import BIN, MODEL, SLOW
from wire import Connection


def run(program, *words, closed=(), stdin=b"", **options):
    """With descriptors that are closed from the start; stderr is a file, for it may be one of them."""
    def close():
        for fd in closed:
            os.close(fd)

    with tempfile.TemporaryFile() as said:
        done = subprocess.run([BIN / program, *map(str, words)], input=stdin, preexec_fn=close, timeout=60 * SLOW,
                              **{"stdout": subprocess.DEVNULL, "stderr": said, **options})
        said.seek(0)
        done.err = said.read().decode()
    if SANITIZER.search(done.err):
        raise AssertionError(done.err[-8000:])
    return done


def broken_pipe():
    read_end, write_end = os.pipe()
    os.close(read_end)
    return write_end


class Output(DaemonCase):
    def environment(self):
        return dict(os.environ, COORDGEN_SOCKET=str(self.daemon.api))

    def test_output_that_goes_nowhere(self):
        commands = (["status"], ["-j", "status"], ["ping"], ["model", "list"], ["model", "show"], ["-j", "model", "list"],
                    ["tokenize", "x"], ["tokenize", "--count", "x"], ["tokenize", "-d", "500"], ["generate", "-n4", "x"],
                    ["-j", "generate", "-n4", "x"], ["--version"], ["--help"],
                    ["model", "show", MODEL], ["-j", "model", "show", MODEL], ["-j", "wait-ready"], ["chat", "-n4"])
        for words in commands:
            for how in ("closed", "full", "broken"):
                with self.subTest(words, how=how):
                    fd = None if how == "closed" else os.open("/dev/full", os.O_WRONLY) if how == "full" else broken_pipe()
                    done = run("coordgenctl", *words, stdin=b"Hello\n", env=self.environment(),
                               **({"closed": [1]} if fd is None else {"stdout": fd}))
                    if fd is not None:
                        os.close(fd)
                    # Who has read enough is no fault: head(1), a pager that was left.
                    self.assertEqual(done.returncode, 141 if how == "broken" else 1, done.err)
                    self.assertEqual(done.err.count("cannot write to standard output"), how != "broken", done.err)
                    self.assertNotIn("pipe", done.err)
        self.daemon.wait_idle()

    def test_other_programs(self):
        for program, words in (("coordgend", ["--help"]), ("coordgend", ["--version"]), ("coordgend", ["--print-config"]),
                               ("coordgen-eval", ["--help"]), ("coordgen-eval", ["--version"]),
                               ("coordgen-bench", ["--help"]), ("coordgen-bench", ["--version"]),
                               ("coordgen-train-exit", ["--help"]), ("coordgen-train-exit", ["--version"])):
            with self.subTest(program, words=words):
                done = run(program, *words, closed=[1])
                self.assertEqual(done.returncode, 1, done.err)
                self.assertIn("standard output", done.err)
                fd = broken_pipe()
                done = run(program, *words, stdout=fd)
                os.close(fd)
                self.assertEqual((done.returncode, done.err), (141, ""))

    def test_nothing_goes_into_the_connection(self):
        for closed in ([0], [2], [0, 1], [1, 2], [0, 1, 2]):
            with self.subTest(closed=closed):
                done = run("coordgenctl", "generate", "--timings", "-n4", "x", closed=closed, stdin=None,
                           env=self.environment())
                self.assertEqual(done.returncode, 1 if 1 in closed else 0, done.err)
        # Input that is closed is no empty input.
        done = run("coordgenctl", "generate", "-n4", closed=[0], stdin=None, env=self.environment())
        self.assertEqual(done.returncode, 1)
        self.assertIn("standard input", done.err)

    def test_import_keeps_messages_out_of_the_package(self):
        with tempfile.TemporaryDirectory(prefix="coordgen-") as folder:
            whole, other = Path(folder, "whole.cgm"), Path(folder, "other.cgm")
            self.assertEqual(run("coordgenctl", "model", "import", MODEL, "-o", whole).returncode, 0)
            done = run("coordgenctl", "model", "import", MODEL, "-o", other, closed=[0, 1, 2], stdin=None)
            self.assertEqual(done.returncode, 1)  # the path could not be printed
            self.assertEqual(whole.read_bytes(), other.read_bytes())


class ClosedDaemon(unittest.TestCase):
    @staticmethod
    def listens(path):
        """A socket has its name a moment before anyone listens on it."""
        with socket.socket(socket.AF_UNIX) as connection:
            return not connection.connect_ex(str(path))

    def test_log_stays_out_of_the_sockets(self):
        with tempfile.TemporaryDirectory(prefix="coordgen-") as folder:
            path = Path(folder, "api.sock")
            daemon = subprocess.Popen([BIN / "coordgend", "--config=/dev/null", f"--listen={path}", f"--cache-dir={folder}",
                                       "--draftdb=no", "--log-target=stderr", "--log-level=debug"],
                                      preexec_fn=lambda: os.closerange(0, 3))
            self.addCleanup(daemon.kill)
            deadline = time.monotonic() + 60 * SLOW
            while not self.listens(path) and time.monotonic() < deadline:
                self.assertIsNone(daemon.poll())
                time.sleep(0.02)
            with Connection(path) as one, Connection(path) as other:
                for connection in (one, other, one):
                    self.assertEqual(connection.status().pid, daemon.pid)
            daemon.terminate()
            self.assertEqual(daemon.wait(60 * SLOW), 0)


if __name__ == "__main__":
    unittest.main()
