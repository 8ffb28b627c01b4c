# SPDX-License-Identifier: Apache-2.0
"""A client of the wire contract that shares no code with ours: Python's protobuf and a socket."""

import collections
import os
import socket
import struct
import time

import coordgen_pb2 as pb

from settings import SLOW

TIMEOUT_S = 60 * SLOW


class Closed(Exception):
    """The service closed the connection."""


class Refused(Exception):
    """The service answered with an Error."""

    def __init__(self, error):
        super().__init__(f"{pb.ErrorCode.Name(error.code)}: {error.message}")
        self.error = error
        self.code = error.code


class Connection:
    """One connection; replies are sorted by request id while any of them is waited for."""

    def __init__(self, path, hello=True, name="integration test"):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(TIMEOUT_S)
        self.socket.connect(str(path))
        self.bytes = b""
        self.replies = collections.defaultdict(collections.deque)
        self.last_id = 0
        self.texts = []  # prompts and outputs: none of them may be in a log
        if hello:
            self.greeting = self.call(hello=pb.HelloRequest(version_min=1, version_max=1, client_name=name)).hello

    @classmethod
    def as_nobody(cls, path, **options):
        """A connection whose peer credentials are another user's; root only. The socket's modes are opened for it."""
        os.chmod(path, 0o666)
        os.chmod(os.path.dirname(path), 0o755)
        os.seteuid(65534)
        try:
            return cls(path, **options)
        finally:
            os.seteuid(0)

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # --- bytes and frames

    def send_bytes(self, data):
        self.socket.sendall(data)

    def send_body(self, body):
        self.send_bytes(struct.pack("<I", len(body)) + body)

    def read_frame(self, timeout=None):
        """The next Response, whoever it is for."""
        deadline = time.monotonic() + (TIMEOUT_S if timeout is None else timeout)
        while True:
            if len(self.bytes) >= 4:
                (n_bytes,) = struct.unpack_from("<I", self.bytes)
                if len(self.bytes) >= 4 + n_bytes:
                    body, self.bytes = self.bytes[4:4 + n_bytes], self.bytes[4 + n_bytes:]
                    reply = pb.Response()
                    reply.ParseFromString(body)
                    return reply
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"no reply within {TIMEOUT_S if timeout is None else timeout:g} s")
            self.socket.settimeout(left)
            try:
                data = self.socket.recv(1 << 16)
            except socket.timeout:
                continue
            except (ConnectionResetError, BrokenPipeError):
                raise Closed() from None
            if not data:
                raise Closed()
            self.bytes += data

    def read_end(self, timeout=10 * SLOW):
        """Waits for the service to close the connection; what it still says is returned."""
        replies = []
        try:
            while True:
                replies.append(self.read_frame(timeout))
        except Closed:
            return replies

    # --- requests

    def send(self, request_id=None, **op):
        """send(generate=pb.GenerateRequest(...)): the request's id."""
        if request_id is None:
            self.last_id += 1
            request_id = self.last_id
        (field, message), = op.items()
        request = pb.Request(request_id=request_id)
        getattr(request, field).CopyFrom(message)
        self.send_body(request.SerializeToString())
        return request_id

    def next(self, request_id, timeout=None):
        """The next reply to a request; an Error is raised."""
        while not self.replies[request_id]:
            reply = self.read_frame(timeout)
            self.replies[reply.request_id].append(reply)
        reply = self.replies[request_id].popleft()
        if reply.WhichOneof("op") == "error":
            raise Refused(reply.error)
        return reply

    def call(self, timeout=None, **op):
        return self.next(self.send(**op), timeout)

    def status(self):
        return self.call(status=pb.StatusRequest()).status

    def account(self, name):
        return {account.name: account.used_bytes for account in self.status().memory}[name]

    def cancel(self, target):
        return self.call(cancel=pb.CancelRequest(target_request_id=target)).cancel

    def open_session(self, **options):
        return self.call(session_open=pb.SessionOpenRequest(**options)).session_open.session

    def fork_session(self, session, **options):
        return self.call(session_fork=pb.SessionForkRequest(session=session, **options)).session_fork.session

    def close_session(self, session):
        return self.call(session_close=pb.SessionCloseRequest(session=session)).session_close

    def tokenize(self, text, **options):
        return list(self.call(tokenize=pb.TokenizeRequest(text=text, **options)).tokenize.tokens)

    def detokenize(self, tokens, **options):
        return self.call(detokenize=pb.DetokenizeRequest(tokens=tokens, **options)).detokenize.text

    def load(self, model, timeout=None):
        """Loads a model, by name or by path, and waits for it; each of the messages on the way has `timeout`."""
        request = self.send(model_load=pb.ModelLoadRequest(model=str(model)))
        while (reply := self.next(request, timeout)).WhichOneof("op") != "model_load":
            assert reply.WhichOneof("op") == "model_load_progress", reply
            assert reply.model_load_progress.permille <= 1000, reply
        return reply.model_load.model

    def start(self, request):
        """Sends a GenerateRequest; a Generation to read it from."""
        return Generation(self, self.send(generate=request), request)

    def generate(self, request):
        return self.start(request).finish()


class Generation:
    """The replies of one generate request."""

    def __init__(self, connection, request_id, request):
        self.connection, self.id = connection, request_id
        self.deltas, self.progress, self.done = [], [], None
        connection.texts.append(request.prompt)
        connection.texts.extend(message.text for message in request.messages.message)

    @property
    def text(self):
        return b"".join(delta.text for delta in self.deltas)

    @property
    def tokens(self):
        return [token for delta in self.deltas for token in delta.tokens]

    def step(self, timeout=None):
        """One reply: "generate_progress", "generate_delta" or "generate_done"."""
        reply = self.connection.next(self.id, timeout)
        kind = reply.WhichOneof("op")
        if kind == "generate_progress":
            assert not self.deltas, "progress after the first delta"
            self.progress.append(reply.generate_progress)
        elif kind == "generate_delta":
            delta = reply.generate_delta
            assert delta.sequence == len(self.deltas), f"delta {delta.sequence} came as number {len(self.deltas)}"
            delta.text.decode()  # whole UTF-8 sequences
            self.deltas.append(delta)
        elif kind == "generate_done":
            self.done = reply.generate_done
            assert self.done.deltas == len(self.deltas), f"{self.done.deltas} deltas told, {len(self.deltas)} came"
            self.connection.texts.append(self.text.decode())
        else:
            raise AssertionError(f"a {kind} in answer to generate")
        return kind

    def until(self, kind):
        while self.step() != kind:
            assert self.done is None, f"done before a {kind}"
        return self

    def finish(self):
        while self.done is None:
            self.step()
        return self


# Requests of tests are greedy and say so: what a request leaves out is the model's, and draws.
GREEDY = {"temperature": 0}


def sampling_of(options):
    """Takes `sampling` out of the options: a dict, GREEDY where there is none; None: the request says nothing."""
    sampling = options.pop("sampling", GREEDY)
    return None if sampling is None else pb.SamplingOptions(**sampling)


def prompt(text, max_tokens=16, **options):
    """A raw generate request."""
    sampling = sampling_of(options)
    return pb.GenerateRequest(prompt=text, max_tokens=max_tokens, want_tokens=True, sampling=sampling,
                              **options)


def messages_of(said):
    """Messages of (role, text); role: "system", "user" or "assistant"."""
    return pb.Messages(message=[pb.Message(role=pb.Role.Value("ROLE_" + role.upper()), text=text)
                                for role, text in said])


def talk(said, max_tokens=16, **options):
    """A generate request of several messages."""
    sampling = sampling_of(options)
    return pb.GenerateRequest(messages=messages_of(said), max_tokens=max_tokens, want_tokens=True, sampling=sampling,
                              **options)


def chat(text, max_tokens=16, **options):
    return talk([("user", text)], max_tokens, **options)
