# SPDX-License-Identifier: Apache-2.0
"""A private daemon: its own folder, sockets, log and notify socket."""

import atexit
import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path

import coordgen_pb2 as pb

from settings import BIN, CACHE, MODEL, SANITIZED, SLOW
from wire import Connection, Refused

SANITIZER = re.compile(r"(AddressSanitizer|LeakSanitizer|ThreadSanitizer|UndefinedBehaviorSanitizer|runtime error:)")


alive = set()


@atexit.register
def kill_the_rest():
    """Daemons of tests that failed before they stopped theirs."""
    for daemon in list(alive):
        daemon.kill()


class Daemon:
    """Started on construction. Its exit, its log and its sanitizers' reports are judged when it is stopped."""

    def __init__(self, *flags, model=MODEL, env=None, config=None, wait=True, cache=CACHE, command=None, watchdog_us=0,
                 preexec=None, pass_fds=()):
        if not MODEL.exists():
            raise AssertionError(f"{MODEL} is missing: run tools/fetch-model smollm2-135m")
        self.folder = Path(tempfile.mkdtemp(prefix="coordgen-"))  # short: a socket's path has 107 bytes
        self.api, self.admin = self.folder / "api.sock", self.folder / "admin.sock"
        self.log_path = self.folder / "log"
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notify.bind(str(self.folder / "notify"))
        self.notices = []  # (when, line); a thread reads them, because a full socket would hold the daemon up
        self.reader = threading.Thread(target=self.read_notices, daemon=True)
        self.reader.start()
        alive.add(self)
        self.connections = []
        cache.mkdir(parents=True, exist_ok=True)
        self.config = self.folder / "coordgend.conf"
        self.config.write_text(config or "")
        self.args = [f"--config={self.config}", f"--cache-dir={cache}", "--model-dir=", "--log-target=stderr", "--log-level=debug",
                     f"--draftdb-dir={self.folder}/draftdb", f"--state-dir={self.folder}/state"]
        if not command:
            self.args += [f"--listen={self.api}", f"--admin-listen={self.admin}"]
        if model:
            self.args.append(f"--model={model}")
        if SANITIZED:
            self.args.append("--core-dumps=yes")  # else the leak checker may not look into the process
        self.args += flags
        environment = {key: value for key, value in os.environ.items() if key not in ("LISTEN_FDS", "WATCHDOG_USEC")}
        environment.update(NOTIFY_SOCKET=str(self.folder / "notify"), **(env or {}))
        if watchdog_us:
            environment["WATCHDOG_USEC"] = str(watchdog_us)
        self.process, self.expected_to_end = None, False
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen((command or []) + [str(BIN / "coordgend")] + self.args, env=environment,
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=preexec, pass_fds=pass_fds)
        if wait:
            try:
                self.wait_notice("READY=1")
                if model:
                    self.wait_model()
            except BaseException:
                self.kill()
                raise

    def log(self):
        return self.log_path.read_text(errors="replace")

    # --- what it tells the service manager

    def read_notices(self):
        while True:
            try:
                lines = self.notify.recv(65536).decode().splitlines()
            except OSError:  # closed
                return
            if not lines:
                return
            self.notices.extend((time.monotonic(), line) for line in lines)

    def wait_notice(self, text, timeout=60, after=0):
        """Waits until a line that begins so was sent; after: index of the first that counts."""
        deadline = time.monotonic() + timeout * SLOW
        while True:
            ended = self.process.poll() is not None
            if ended:
                time.sleep(0.1)  # for what it said last
            for index, (when, line) in enumerate(list(self.notices)):
                if index >= after and line.startswith(text):
                    return when
            if ended:
                raise AssertionError(f"the daemon ended with {self.process.returncode} before {text}:\n{self.log()[-3000:]}")
            if time.monotonic() > deadline:
                raise AssertionError(f"no {text} within {timeout * SLOW:g} s, but {self.notices}:\n{self.log()[-3000:]}")
            time.sleep(0.01)

    # --- connections

    def connect(self, admin=False, **options):
        connection = Connection(self.admin if admin else self.api, **options)
        self.connections.append(connection)
        return connection

    def wait_model(self, timeout=300, state=pb.MODEL_STATE_READY):
        """Waits until the default model is in this state; never past one that failed."""
        deadline = time.monotonic() + timeout * SLOW
        with Connection(self.api) as connection:
            while True:
                model = connection.call(model_show=pb.ModelShowRequest()).model_show.model
                if model.state == state:
                    return model
                if model.state == pb.MODEL_STATE_FAILED:
                    raise AssertionError(f"the model failed: {model.detail}")
                if time.monotonic() > deadline:
                    raise AssertionError(f"not {pb.ModelState.Name(state)} after {timeout * SLOW:g} s: {model}")
                time.sleep(0.05)

    def wait_until(self, condition, what, timeout=20, through=None):
        """condition(status) is true within the time; the last status is returned. It is asked through a connection
        of its own, which the daemon may still count a moment later: who counts connections gives one that stays."""
        deadline = time.monotonic() + timeout * SLOW
        with contextlib.nullcontext(through) if through else Connection(self.api) as connection:
            while True:
                status = connection.status()
                if condition(status):
                    return status
                if time.monotonic() > deadline:
                    raise AssertionError(f"not within {timeout * SLOW:g} s: {what}\n{status}")
                time.sleep(0.02)

    def wait_idle(self, timeout=20):
        """Nothing runs, and what requests held is given back."""
        def idle(status):
            used = {account.name: account.used_bytes for account in status.memory}
            return status.requests_running == 0 and status.requests_queued == 0 and used["kv"] == 0

        return self.wait_until(idle, "no request runs and the kv account is empty", timeout)

    # --- end

    def signal(self, number):
        self.expected_to_end = number == signal.SIGTERM
        self.process.send_signal(number)

    def wait_exit(self, timeout=30):
        try:
            return self.process.wait(timeout * SLOW)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the daemon runs {timeout * SLOW:g} s after it was told to end:\n{self.log()[-3000:]}") \
                from None

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        with contextlib.suppress(OSError):
            self.notify.shutdown(socket.SHUT_RDWR)  # wakes the reader
        self.notify.close()
        alive.discard(self)
        shutil.rmtree(self.folder, ignore_errors=True)

    def stop(self, expect=0):
        """SIGTERM unless it has ended, then the verdict."""
        try:
            if self.process.poll() is None:
                self.signal(signal.SIGTERM)
            elif not self.expected_to_end:
                raise AssertionError(f"the daemon ended by itself with {self.process.returncode}:\n{self.log()[-3000:]}")
            code = self.wait_exit()
            log = self.log()
            for connection in self.connections:
                connection.close()
            if SANITIZER.search(log):
                raise AssertionError(f"a sanitizer reported:\n{log[-8000:]}")
            if code != expect:
                raise AssertionError(f"the daemon ended with {code}, expected {expect}:\n{log[-3000:]}")
            for connection in self.connections:
                for text in connection.texts:
                    # Short texts are found by chance in any log.
                    if len(text.strip()) >= 12 and text.strip() in log:
                        raise AssertionError(f"the log holds the text of a request: {text!r}")
        finally:
            self.kill()


class DaemonCase(unittest.TestCase):
    """One daemon for the tests of a class: `flags` and `daemon_options` are the class's."""

    flags = ()
    daemon_options = {}

    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(*cls.flags, **cls.daemon_options)

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()

    def setUp(self):
        self.opened = []

    def tearDown(self):
        for connection in self.opened:
            connection.close()
        code = self.daemon.process.poll()
        if code is not None:
            self.fail(f"the daemon ended with {code}:\n{self.daemon.log()[-3000:]}")

    def connect(self, **options):
        connection = self.daemon.connect(**options)
        self.opened.append(connection)
        return connection

    def assertRefused(self, code, call, *args, **kwargs):
        with self.assertRaises(Refused) as caught:
            call(*args, **kwargs)
        self.assertEqual(pb.ErrorCode.Name(caught.exception.code), pb.ErrorCode.Name(code), caught.exception)
        self.assertTrue(caught.exception.error.message, "an error without a text")
        return caught.exception.error
