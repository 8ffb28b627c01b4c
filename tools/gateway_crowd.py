# SPDX-License-Identifier: Apache-2.0
"""Clients that attack a gateway, for tools/bench-gateway: many of them in one process of their own, by one selector."""

import collections
import errno
import heapq
import itertools
import json
import multiprocessing
import random
import resource
import selectors
import socket
import time

from gateway_clients import BenchError

PIECE = b"a" * 65536
BIG_BODY_PIECES = 1526
OPEN_AGAIN_SECONDS = 1
DUE_AT_ONCE = 100
STOP_SECONDS = 30
# A step of a plan that is no bytes and no pause.
WAIT, HALF_CLOSE = "wait", "half-close"


def post(body, path="/v1/chat/completions"):
    return (f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n").encode() + body


def get():
    return b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


# --- what clients do: plans of bytes to send, seconds to pause, WAIT (the default end) and HALF_CLOSE -------------------------

def half_head(_):
    yield b"GET /v1/models HTTP/1.1\r\nHost: local"


def slow(number):
    """One byte a second: every other client of the head, the others of the body."""
    request = post(b'{"messages": [' + b" " * 1000)
    n_head = request.index(b"\r\n\r\n") + 4 if number % 2 else 0
    yield request[:n_head]
    for index in range(n_head, len(request)):
        yield request[index:index + 1]
        yield 1.0


def big_body(number):
    """100 MB, every other client with a length, the others in chunks; no answer stops them before the end."""
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    if number % 2:
        yield head + b"Content-Length: %d\r\n\r\n" % (BIG_BODY_PIECES * len(PIECE))
    else:
        yield head + b"Transfer-Encoding: chunked\r\n\r\n"
    piece = PIECE if number % 2 else b"%x\r\n%s\r\n" % (len(PIECE), PIECE)
    for _ in range(BIG_BODY_PIECES):
        yield piece
    if not number % 2:
        yield b"0\r\n\r\n"


def garbage(number):
    chance = random.Random(number)
    noise = chance.randbytes(chance.randrange(1, 3000))
    yield (noise + b"\r\n\r\n", post(noise), post(b'{"messages": [{"role": "user", "content": "\xff\xc3\x28"}]}'),
           post(b"[" * 5000), b"GET /" + noise.replace(b"\n", b"") + b" HTTP/1.1\r\nHost: localhost\r\n" +
           b"Connection: close\r\n\r\n")[number % 5]


def half_close(number):
    """Requests whole and half, and then the end of what the client sends. One of 16 is for an answer of 16 tokens."""
    chat = post(json.dumps({"messages": [{"role": "user", "content": "Count."}], "max_tokens": 16, "stream": True}).encode())
    yield chat if number % 16 == 15 else (get(), get()[:20], chat[:-10])[number % 3]
    yield HALF_CLOSE


def compute(_):
    while True:
        yield 0.0


# Name: (plan, clients, what the clients do). The last one tells what a busy processor alone does.
ATTACKS = {
    "half heads": (half_head, None, "send half a head and wait"),
    "slow": (slow, 200, "send one byte a second"),
    "big bodies": (big_body, 4, "send 100 MB, with a length or in chunks"),
    "garbage": (garbage, 4, "send noise and invalid UTF-8"),
    "half-close": (half_close, 16, "end what they send, before or after a whole request"),
    "processor": (compute, 0, "none: a process computes"),
}


# --- the crowd -------------------------------------------------------------------------------------------------------------

class Client:
    """One connection. Its plan goes on until the gateway ends the connection."""

    def __init__(self, crowd, number):
        self.crowd, self.plan, self.rest, self.told, self.is_paused = crowd, crowd.plan(number), b"", b"", False
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.setblocking(False)
        self.socket.connect(crowd.address)
        crowd.selector.register(self.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, self)

    def watch(self, writes):
        self.crowd.selector.modify(self.socket, selectors.EVENT_READ | (selectors.EVENT_WRITE if writes else 0), self)

    def receive(self):
        data = self.socket.recv(65536)
        if not data:
            self.end("without a word")
        self.told = self.told or data[:12]

    def send(self):
        if not self.rest:
            step = next(self.plan, WAIT)
            if isinstance(step, bytes):
                self.rest = step
                return
            if step is HALF_CLOSE:
                self.socket.shutdown(socket.SHUT_WR)
                return
            self.watch(False)
            if step is not WAIT:
                self.crowd.later(step, self.go_on)
            return
        self.rest = self.rest[self.socket.send(self.rest):]

    def go_on(self):
        if self.socket.fileno() >= 0:
            self.watch(True)

    def ready(self, mask):
        try:
            if mask & selectors.EVENT_READ:
                self.receive()
            if mask & selectors.EVENT_WRITE and self.socket.fileno() >= 0:
                self.send()
        except BlockingIOError:
            pass
        except OSError as error:
            try:  # what the gateway said before it closed
                self.told = self.told or self.socket.recv(12)
            except OSError:
                pass
            self.end(errno.errorcode.get(error.errno, str(error)))

    def end(self, how):
        if self.socket.fileno() < 0:
            return
        self.crowd.ended[self.outcome() or how] += 1
        self.crowd.selector.unregister(self.socket)
        self.socket.close()
        self.crowd.clients.discard(self)
        self.crowd.later(self.crowd.pause, self.crowd.open)

    def outcome(self):
        return self.told[9:12].decode(errors="replace") if self.told.startswith(b"HTTP/") else ""


class Crowd:
    """Clients that each open a new connection after the end of one."""

    def __init__(self, address, plan, n_clients, pause):
        self.address, self.plan, self.pause = str(address), plan, pause
        self.selector, self.clients, self.ended = selectors.DefaultSelector(), set(), collections.Counter()
        self.numbers, self.timers, self.order, self.n_full, self.most = itertools.count(), [], itertools.count(), 0, 0
        for _ in range(n_clients):
            self.later(0, self.open)

    def later(self, seconds, call):
        heapq.heappush(self.timers, (time.monotonic() + seconds, next(self.order), call))

    def open(self):
        try:
            self.clients.add(Client(self, next(self.numbers)))
            self.most = max(self.most, len(self.clients))
        except BlockingIOError:  # the backlog of the gateway is full
            self.n_full += 1
            self.later(0.05, self.open)

    def step(self):
        for _ in range(DUE_AT_ONCE):
            if not self.timers or self.timers[0][0] > time.monotonic():
                break
            heapq.heappop(self.timers)[2]()
        wait = min(max(self.timers[0][0] - time.monotonic(), 0), 0.1) if self.timers else 0.1
        for key, mask in self.selector.select(wait):
            key.data.ready(mask)

    def result(self):
        still = collections.Counter("open, told " + client.outcome() if client.told else "open" for client in self.clients)
        return {"ended": dict(self.ended), "still": dict(still), "most_at_once": self.most, "backlog_full": self.n_full}


def attack(address, name, n_clients, pipe):
    """Attacks until the pipe says that it is enough. Runs in the process of the attackers."""
    plan = ATTACKS[name][0]
    # Noise and bodies again and again, the others with the patience that Retry-After asks for.
    crowd = Crowd(address, plan, n_clients, 0 if plan in (big_body, garbage, half_close) else OPEN_AGAIN_SECONDS)
    while not pipe.poll():
        if plan is compute:
            sum(range(100000))
        else:
            crowd.step()
    pipe.send(crowd.result())


class Attackers:
    """A process of attackers for the time of a with statement. Its result: what became of the clients."""

    def __init__(self, address, name, n_clients):
        context = multiprocessing.get_context("fork")
        self.pipe, theirs = context.Pipe()
        self.name, self.result = name, None
        self.process = context.Process(target=attack, args=(address, name, n_clients, theirs), daemon=True)

    def __enter__(self):
        self.process.start()
        return self

    def __exit__(self, *_):
        try:
            self.pipe.send("enough")
            if not self.pipe.poll(STOP_SECONDS):
                raise BenchError(f"the attackers of '{self.name}' do not end")
            self.result = self.pipe.recv()
        except (EOFError, BrokenPipeError) as error:
            raise BenchError(f"the attackers of '{self.name}' have failed") from error
        finally:
            self.process.kill()
            self.process.join()


def n_clients_of(name, half_heads):
    """How many clients an attack has: as many as asked for, within the files that a process may open."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    n_clients = ATTACKS[name][1]
    return min(half_heads if n_clients is None else n_clients, files - 64)
