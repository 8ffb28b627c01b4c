# SPDX-License-Identifier: Apache-2.0
"""What tools/bench-gateway starts and asks: a private service with its gateway, llama-server, streams, the service's state."""

import contextlib
import ctypes
import http.client
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

START_SECONDS = 600
ANSWER_SECONDS = 3600


class BenchError(RuntimeError):
    """Nothing can be measured; the text says why."""


def open_many_files():
    """Lets this process and those that it starts open as many files as the system permits."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def machine():
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return os.uname().machine


class Connection(http.client.HTTPConnection):
    """HTTP over a Unix socket (a Path) or loopback TCP (a port)."""

    def __init__(self, address, seconds=ANSWER_SECONDS):
        super().__init__("127.0.0.1", address if isinstance(address, int) else 80, timeout=seconds)
        self.address = address

    def connect(self):
        if isinstance(self.address, int):
            super().connect()
            return
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self.address))


def memory_bytes(pid):
    """Resident memory of a process."""
    return int(re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(encoding="utf-8"))[1]) * 1024


def cpu_seconds(pid):
    """What a process without further threads has computed so far."""
    return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="utf-8").split()[0]) / 1e9


class Program:
    """A process with a log, ended by SIGTERM."""

    def __init__(self, command, log, env=None):
        self.name, self.log = Path(command[0]).name, log
        with open(log, "ab") as out:
            self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                            env=env)

    def wait(self, is_ready):
        deadline = time.monotonic() + START_SECONDS
        while not is_ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise BenchError(f"{self.name} did not start: {self.log.read_text(errors='replace')[-1500:]}")
            time.sleep(0.05)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Service:
    """A private coordgend, and a coordgen-httpd beside it on a Unix socket. flags: of coordgend."""

    def __init__(self, build, model, flags=(), gateway_flags=()):
        self.folder = Path(tempfile.mkdtemp(prefix="coordgen-bench-"))
        self.api, self.http = self.folder / "api.sock", self.folder / "http.sock"
        self.ctl = build / "bin/coordgenctl"
        self.environment = dict(os.environ, COORDGEN_SOCKET=str(self.api))
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "coordgen"
        state = dict(os.environ, STATE_DIRECTORY=str(self.folder))  # what answers leave is this service's alone
        self.programs = []
        try:
            self.programs.append(Program(
                [build / "bin/coordgend", "--config=/dev/null", f"--listen={self.api}", f"--model={model}",
                 f"--cache-dir={cache}", "--log-target=stderr", *flags], self.folder / "service.log", state))
            self.programs[0].wait(self.is_ready)
            self.programs.append(Program([build / "bin/coordgen-httpd", f"--listen={self.http}", f"--socket={self.api}",
                                          *gateway_flags], self.folder / "gateway.log"))
            self.gateway = self.programs[1]
            self.gateway.wait(lambda: answers(self.http, "/health"))
        except BaseException:
            self.stop()
            raise

    def is_ready(self):
        return subprocess.run([self.ctl, "wait-ready", "-q"], env=self.environment, capture_output=True,
                              check=False).returncode == 0

    def stop(self):
        for program in reversed(self.programs):
            program.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class LlamaServer:
    """llama.cpp's server with its defaults."""

    def __init__(self, folder, model):
        self.folder = Path(tempfile.mkdtemp(prefix="llama-bench-"))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.program = Program([folder / "llama-server", "--model", model, "--port", self.port], self.folder / "log")
        try:
            self.program.wait(lambda: answers(self.port, "/health"))
        except BaseException:
            self.stop()
            raise

    def stop(self):
        self.program.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def answers(address, path):
    connection = Connection(address)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


# --- answers with times ----------------------------------------------------------------------------------------------------

class Times:
    """When the texts of an answer came, in seconds since the request began."""

    def __init__(self):
        self.began, self.first, self.last, self.end = time.monotonic(), None, None, None
        self.tokens, self.text, self.gaps = None, "", []

    def note(self, text):
        now = time.monotonic() - self.began
        if self.first is None:
            self.first = now
        else:
            self.gaps.append(now - self.last)
        self.last = now
        self.text += text

    def done(self, tokens):
        self.end, self.tokens = time.monotonic() - self.began, tokens
        if self.first is None or not tokens:
            raise BenchError("an answer had no text")
        return self

    def token_s(self):
        """Seconds of a token after the first one; None if there is none."""
        return (self.last - self.first) / (self.tokens - 1) if self.tokens > 1 else None

    def figures(self):
        return {"first_s": self.first, "token_s": self.token_s(), "end_s": self.end, "tokens": self.tokens}


def chat_over_http(address, prompt, n_tokens, patience=ANSWER_SECONDS, **fields):
    """Streams an answer over a connection of its own. patience: seconds without a byte."""
    body = json.dumps({"messages": [{"role": "user", "content": prompt}], "max_tokens": n_tokens, "temperature": 0,
                       "stream": True, "stream_options": {"include_usage": True}, **fields})
    times, tokens = Times(), None
    with contextlib.closing(Connection(address, patience)) as connection:
        connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            raise BenchError(f"status {response.status}: {response.read().decode(errors='replace')[:500]}")
        for line in response:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            if "error" in event:
                raise BenchError(str(event["error"]))
            for choice in event.get("choices", ()):
                if text := choice["delta"].get("content") or choice["delta"].get("reasoning_content"):
                    times.note(text)
            if event.get("usage"):
                tokens = event["usage"]["completion_tokens"]
    return times.done(tokens)


def chat_by_ctl(service, prompt, n_tokens):
    """Streams the answer of a coordgenctl, whose own start counts."""
    times = Times()
    process = subprocess.Popen([service.ctl, "generate", f"--max-tokens={n_tokens}", "--temperature=0", "--ignore-end",
                                "--json=short", prompt], env=service.environment, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    tokens = None
    for line in process.stdout:
        event = json.loads(line)
        if event["event"] == "delta" and event.get("text"):
            times.note(event["text"])
        elif event["event"] == "end":
            tokens = event["usage"]["output_tokens"]
    if process.wait():
        raise BenchError("coordgenctl failed: " + process.stderr.read().decode(errors="replace"))
    return times.done(tokens)


# --- what the service does, by its client library --------------------------------------------------------------------------

class RequestInfo(ctypes.Structure):
    """The beginning of CoordgenRequestInfo in coordgen-client-replies.h, which only grows at its end."""

    _fields_ = [("struct_bytes", ctypes.c_size_t), ("number", ctypes.c_uint64), ("uid", ctypes.c_uint32),
                ("model", ctypes.c_char_p), ("priority", ctypes.c_int), ("state", ctypes.c_int), ("outcome", ctypes.c_char_p),
                ("queue_position", ctypes.c_uint32), ("prompt_tokens", ctypes.c_uint32), ("read_tokens", ctypes.c_uint32),
                ("output_tokens", ctypes.c_uint32)]


class Watcher:
    """Asks the service for its requests over one connection: a question takes some tens of microseconds."""

    QUEUED, LOADING, PREFILL, DECODE = 1, 2, 3, 4

    def __init__(self, build, api):
        library = ctypes.CDLL(str(build / "lib/libcoordgen-client.so"))
        pointer = ctypes.c_void_p
        for name, result, *arguments in (
                ("client_new", ctypes.c_int, ctypes.POINTER(pointer)),
                ("client_connect", ctypes.c_int, pointer, ctypes.c_char_p, ctypes.c_int),
                ("client_message", ctypes.c_char_p, pointer),
                ("client_free", pointer, pointer),
                ("request_list", ctypes.c_int, pointer, ctypes.c_int, ctypes.POINTER(pointer)),
                ("reply_n_requests", ctypes.c_size_t, pointer),
                ("reply_more_requests", ctypes.c_uint32, pointer),
                ("reply_request", ctypes.POINTER(RequestInfo), pointer, ctypes.c_size_t),
                ("reply_unref", pointer, pointer)):
            function = getattr(library, "coordgen_" + name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)
        self.client = pointer()
        self.check(self.client_new(ctypes.byref(self.client)))
        self.check(self.client_connect(self.client, str(api).encode(), 10000))

    def check(self, code):
        if code:
            raise BenchError("libcoordgen-client: " + self.client_message(self.client).decode())

    def requests(self):
        """({number: (state, output tokens)} of the first ones, how many there are)"""
        reply = ctypes.c_void_p()
        self.check(self.request_list(self.client, 60000, ctypes.byref(reply)))
        found = {}
        for index in range(self.reply_n_requests(reply)):
            info = self.reply_request(reply, index).contents
            found[info.number] = (info.state, info.output_tokens)
        count = len(found) + self.reply_more_requests(reply)
        self.reply_unref(reply)
        return found, count

    def wait(self, condition, what, seconds=120, pause=0.0005):
        """Asks until condition(requests, count) is true; its value."""
        deadline = time.monotonic() + seconds
        while True:
            value = condition(*self.requests())
            if value:
                return value
            if time.monotonic() > deadline:
                raise BenchError(f"not within {seconds} s: {what}")
            time.sleep(pause)

    def close(self):
        self.client_free(self.client)
