# SPDX-License-Identifier: Apache-2.0
"""A private gateway: coordgen-httpd on a Unix socket of its own, beside a Daemon."""

import atexit
import contextlib
import http.client
import itertools
import json
import os
import signal
import socket
import subprocess
import time
import unittest
from typing import NamedTuple

from daemon import SANITIZER, Daemon
from settings import BIN, SANITIZED, SLOW

PATIENCE = 60 * SLOW  # seconds for any one answer

alive = set()
numbers = itertools.count()


@atexit.register
def kill_the_rest():
    """Gateways of tests that failed before they stopped theirs."""
    for gateway in list(alive):
        gateway.kill()


class UnixConnection(http.client.HTTPConnection):
    """Python's HTTP client over a Unix socket."""

    def __init__(self, path, timeout=PATIENCE):
        super().__init__("localhost", timeout=timeout)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(self.path)  # waits for room in the backlog, which a socket with a time does not
        self.sock.settimeout(self.timeout)


class Answer(NamedTuple):
    status: int
    headers: dict  # names in small letters
    body: object  # what JSON says; else bytes


class Event(NamedTuple):
    name: str  # of "event:"; "" without one
    data: object  # what JSON says; else the text, as "[DONE]"


def parsed(data):
    try:
        return json.loads(data)
    except ValueError:
        return data


class Stream:
    """A reply that is read event by event. close() is what a client does that goes."""

    def __init__(self, connection, response):
        self.connection, self.response = connection, response
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}

    def __iter__(self):
        name, lines = "", []
        for line in self.response:
            text = line.decode().rstrip("\r\n")
            if text.startswith("event:"):
                name = text[6:].strip()
            elif text.startswith("data:"):
                lines.append(text[5:].removeprefix(" "))
            elif not text and lines:
                yield Event(name, parsed("\n".join(lines)))
                name, lines = "", []

    def read(self):
        """What is left, as JSON or as bytes."""
        return parsed(self.response.read())

    def close(self):
        self.response.close()
        self.connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Gateway:
    """Started on construction. Its exit, its log and its sanitizers' reports are judged when it is stopped."""

    def __init__(self, daemon, *flags, env=None, wait=True, command=None, listen=True, preexec=None, pass_fds=()):
        self.daemon = daemon
        number = next(numbers)
        self.path = daemon.folder / f"http-{number}.sock"
        self.log_path = daemon.folder / f"http-{number}.log"
        self.args = [f"--socket={daemon.api}"] + ([f"--listen={self.path}"] if listen else []) + list(flags)
        if SANITIZED:
            self.args.append("--core-dumps")  # else the leak checker may not look into the process
        self.texts = []  # of requests, which no log may have
        self.expected_to_end = False
        alive.add(self)
        environment = {key: value for key, value in os.environ.items()
                       if key not in ("LISTEN_FDS", "WATCHDOG_USEC", "NOTIFY_SOCKET")}
        environment.update(env or {})
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen((command or []) + [str(BIN / "coordgen-httpd")] + self.args, env=environment,
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=preexec,
                                            pass_fds=pass_fds)
        if wait:
            try:
                self.wait_answer()
            except BaseException:
                self.kill()
                raise

    def log(self):
        return self.log_path.read_text(errors="replace")

    def wait_answer(self, timeout=30):
        deadline = time.monotonic() + timeout * SLOW
        while True:
            with contextlib.suppress(OSError):
                self.connect().close()
                return
            if self.process.poll() is not None:
                raise AssertionError(f"the gateway ended with {self.process.returncode}:\n{self.log()[-3000:]}")
            if time.monotonic() > deadline:
                raise AssertionError(f"the gateway does not listen after {timeout * SLOW:g} s:\n{self.log()[-3000:]}")
            time.sleep(0.01)

    # --- requests

    def connect(self):
        """A connected socket, for bytes that no HTTP client would send."""
        raw = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            raw.connect(str(self.path))  # waits for room in the backlog, which a socket with a time does not
            raw.settimeout(PATIENCE)
        except BaseException:
            raw.close()
            raise
        return raw

    def connection(self, timeout=PATIENCE):
        """A connection that several requests may use in turn."""
        return UnixConnection(self.path, timeout)

    def send(self, connection, method, path, body=None, headers=None):
        headers = dict(headers or {})
        if body is not None and not isinstance(body, (bytes, str)):
            self.note_texts(body)
            body = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        connection.request(method, path, body, headers)
        return connection.getresponse()

    def request(self, method, path, body=None, headers=None, connection=None):
        """A whole answer. body: bytes and str as they are, other values as JSON."""
        own = connection or self.connection()
        try:
            response = self.send(own, method, path, body, headers)
            data = response.read()
            return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, parsed(data))
        finally:
            if not connection:
                own.close()

    def stream(self, method, path, body=None, headers=None):
        """An answer that is read piece by piece, also one that is no stream: see its status."""
        connection = self.connection()
        try:
            return Stream(connection, self.send(connection, method, path, body, headers))
        except BaseException:
            connection.close()
            raise

    def note_texts(self, value):
        """Keeps the texts of a request that are long enough to be found in a log by no chance."""
        if isinstance(value, dict):
            for name, part in value.items():
                if name in ("content", "prompt", "input", "text", "instructions", "messages"):
                    self.note_texts(part)
        elif isinstance(value, list):
            for part in value:
                self.note_texts(part)
        elif isinstance(value, str) and len(value.strip()) >= 12:
            self.texts.append(value.strip())

    # --- end

    def signal(self, number):
        self.expected_to_end = number == signal.SIGTERM
        self.process.send_signal(number)

    def wait_exit(self, timeout=60):
        try:
            return self.process.wait(timeout * SLOW)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the gateway runs {timeout * SLOW:g} s after it was told to end:\n{self.log()[-3000:]}") \
                from None

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        alive.discard(self)

    def stop(self, expect=0):
        """SIGTERM unless it has ended, then the verdict."""
        try:
            if self.process.poll() is None:
                self.signal(signal.SIGTERM)
            elif not self.expected_to_end:
                raise AssertionError(f"the gateway ended by itself with {self.process.returncode}:\n{self.log()[-3000:]}")
            code = self.wait_exit()
            log = self.log()
            if SANITIZER.search(log):
                raise AssertionError(f"a sanitizer reported:\n{log[-8000:]}")
            if code != expect:
                raise AssertionError(f"the gateway ended with {code}, expected {expect}:\n{log[-3000:]}")
            for text in self.texts:
                if text in log:
                    raise AssertionError(f"the log holds the text of a request: {text!r}")
        finally:
            self.kill()


class GatewayCase(unittest.TestCase):
    """One daemon and one gateway for the tests of a class: flags are the daemon's, gateway_flags the gateway's."""

    flags = ()
    daemon_options = {}
    gateway_flags = ()
    gateway_options = {}

    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(*cls.flags, **cls.daemon_options)
        try:
            cls.gateway = Gateway(cls.daemon, *cls.gateway_flags, **cls.gateway_options)
        except BaseException:
            cls.daemon.kill()
            raise

    @classmethod
    def tearDownClass(cls):
        try:
            cls.gateway.stop()
        finally:
            cls.daemon.stop()

    def tearDown(self):
        for what, process, log in (("gateway", self.gateway.process, self.gateway.log),
                                   ("daemon", self.daemon.process, self.daemon.log)):
            if process.poll() is not None:
                self.fail(f"the {what} ended with {process.returncode}:\n{log()[-3000:]}")

    def get(self, path, **options):
        return self.gateway.request("GET", path, **options)

    def post(self, path, body, **options):
        return self.gateway.request("POST", path, body, **options)

    def assertAnswer(self, answer, status=200):
        self.assertEqual(answer.status, status, answer.body)
        return answer.body

    def assertError(self, answer, status, param=None, code=None):
        """An error in the shape of OpenAI's, with the field at fault."""
        body = self.assertAnswer(answer, status)
        self.assertEqual(answer.headers["content-type"], "application/json")
        error = body["error"]
        self.assertTrue(error["message"], "an error without a text")
        if param is not None:
            self.assertEqual(error["param"], param, error)
        if code is not None:
            self.assertEqual(error["code"], code, error)
        return error
