# SPDX-License-Identifier: Apache-2.0
"""Bytes that break the contract: a clear error, the connection ended where the stream is in doubt, the service alive."""

import os
import random
import re
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

import coordgen_pb2 as pb

from daemon import Daemon, DaemonCase
from settings import BIN, MODEL, SLOW, whole_model
from wire import Closed, Connection, Refused, prompt


def tag(number, wire_type):
    return varint(number << 3 | wire_type)


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number, payload):
    return tag(number, 2) + varint(len(payload)) + payload


class Frames(DaemonCase):
    flags = ("--frame-timeout=1s", "--frame-max=64K")

    def tearDown(self):
        # Whatever was sent, the service answers the next client and holds nothing of the last.
        with Connection(self.daemon.api) as connection:
            self.assertEqual(connection.generate(prompt("Hello", 2, ignore_end=True)).done.usage.output_tokens, 2)
        super().tearDown()
        self.daemon.wait_idle()

    def assertProtocolError(self, connection):
        """An Error PROTOCOL about the connection or the request, then the end."""
        replies = connection.read_end()
        self.assertTrue(replies, "the connection was closed without an error")
        error = replies[-1].error
        self.assertEqual(pb.ErrorCode.Name(error.code), "ERROR_CODE_PROTOCOL")
        self.assertTrue(error.message)
        return error

    def assertFieldError(self, connection, body, code, path, request_id=77):
        """An error for that request; the connection goes on."""
        connection.send_body(body)
        reply = connection.read_frame()
        self.assertEqual(reply.request_id, request_id)
        self.assertEqual(pb.ErrorCode.Name(reply.error.code), pb.ErrorCode.Name(code), reply.error)
        if path is not None:
            self.assertEqual(reply.error.field, path)
        self.assertTrue(connection.status().pid)

    def test_oversized_frame(self):
        for n_bytes in (65537, 1 << 20, 0x7fffffff, 0xffffffff):
            with self.subTest(n_bytes=n_bytes):
                connection = self.connect()
                connection.send_bytes(struct.pack("<I", n_bytes) + b"x" * 16)
                self.assertIn("65536", self.assertProtocolError(connection).message)

    def test_frame_at_the_limit(self):
        # Padding a request to exactly the limit: it is read whole and refused for its content, not for its size.
        connection = self.connect()
        body = varint(1 << 3) + varint(77)
        head = body + b"\x1a"  # generate
        text = b"a" * (65536 - len(head) - 3 - 4)
        request = head + varint(len(text) + 4) + field(3, text)
        self.assertEqual(len(request), 65536)
        connection.send_body(request)
        reply = connection.read_frame()
        self.assertEqual(reply.request_id, 77)

    def test_empty_frame(self):
        connection = self.connect()
        connection.send_bytes(struct.pack("<I", 0))
        self.assertProtocolError(connection)

    def test_half_a_frame_then_silence(self):
        for data in (b"\x10", struct.pack("<I", 100), struct.pack("<I", 100) + b"\x08\x01"):
            with self.subTest(data=data):
                connection = self.connect()
                started = time.monotonic()
                connection.send_bytes(data)
                connection.read_end()
                self.assertGreater(time.monotonic() - started, 0.5)
                self.assertLess(time.monotonic() - started, 10 * SLOW)

    def test_silence_between_frames_is_fine(self):
        connection = self.connect()
        time.sleep(2)
        self.assertTrue(connection.status().pid)

    def test_no_hello(self):
        connection = Connection(self.daemon.api, hello=False)
        connection.send(status=pb.StatusRequest())
        self.assertProtocolError(connection)
        connection.close()

    def test_second_hello(self):
        connection = self.connect()
        connection.send(hello=pb.HelloRequest(version_min=1, version_max=1))
        self.assertProtocolError(connection)

    def test_no_common_version(self):
        connection = Connection(self.daemon.api, hello=False)
        connection.send(hello=pb.HelloRequest(version_min=7, version_max=9))
        replies = connection.read_end()
        self.assertEqual(pb.ErrorCode.Name(replies[0].error.code), "ERROR_CODE_VERSION")
        connection.close()

    def test_garbage(self):
        generator = random.Random(20240607)
        for _ in range(50):
            connection = self.connect()
            connection.send_body(generator.randbytes(generator.randrange(1, 200)))
            try:
                reply = connection.read_frame()
                self.assertEqual(reply.WhichOneof("op"), "error")
            except Closed:
                pass
            connection.close()

    def test_mutated_requests(self):
        # Real requests with some bytes changed: an answer of some kind or the end of the connection, and no hang.
        generator = random.Random(7)
        real = pb.Request(request_id=5, generate=prompt("A text to mutate.", 2, stop=["x"],
                                                        sampling=dict(temperature=0.5, seed=3))).SerializeToString()
        for _ in range(100):
            body = bytearray(real)
            for _ in range(generator.randrange(1, 4)):
                body[generator.randrange(len(body))] = generator.randrange(256)
            with Connection(self.daemon.api) as connection:
                connection.send_body(bytes(body))
                try:
                    while True:
                        reply = connection.read_frame(20 * SLOW)
                        if reply.WhichOneof("op") not in ("generate_delta", "generate_progress"):
                            break
                except Closed:
                    pass

    def test_truncated_message(self):
        connection = self.connect()
        connection.send_body(pb.Request(request_id=5, generate=prompt("A text that is cut.", 2)).SerializeToString()[:-4])
        self.assertProtocolError(connection)

    def test_wrong_wire_type(self):
        connection = self.connect()
        connection.send_body(varint(1 << 3) + varint(77) + field(3, tag(3, 0) + varint(5)))  # prompt as a number
        self.assertProtocolError(connection)

    def test_two_operations(self):
        connection = self.connect()
        connection.send_body(varint(1 << 3) + varint(77) + field(7, b"") + field(8, b""))
        self.assertProtocolError(connection)

    def test_no_operation(self):
        connection = self.connect()
        connection.send_body(varint(1 << 3) + varint(77))
        self.assertProtocolError(connection)

    def test_request_id_zero_and_in_use(self):
        connection = self.connect()
        connection.send_body(pb.Request(request_id=0, status=pb.StatusRequest()).SerializeToString())
        self.assertProtocolError(connection)
        connection = self.connect()
        generation = connection.start(prompt("Count: 1 2 3", 2000, ignore_end=True)).until("generate_delta")
        connection.send(generation.id, status=pb.StatusRequest())
        self.assertProtocolError(connection)

    def test_unknown_field(self):
        connection = self.connect()
        for number, request in ((3, b"Hello"), (3, b"")):
            generate = field(3, request or b"x") + tag(99, 0) + varint(1)
            self.assertFieldError(connection, varint(1 << 3) + varint(77) + field(number, generate),
                                  pb.ERROR_CODE_UNKNOWN_OPTION, None)

    def test_unknown_operation(self):
        connection = self.connect()
        connection.send_body(varint(1 << 3) + varint(77) + field(200, b""))
        reply = connection.read_frame()
        self.assertIn(reply.error.code, (pb.ERROR_CODE_UNKNOWN_OPTION, pb.ERROR_CODE_PROTOCOL))

    def test_unknown_enum_value(self):
        message = tag(1, 0) + varint(42) + field(2, b"hi")
        body = varint(1 << 3) + varint(77) + field(3, field(2, field(1, message)))
        self.assertFieldError(self.connect(), body, pb.ERROR_CODE_INVALID_ARGUMENT, "generate.messages.message[0].role")

    def test_text_that_is_not_utf8(self):
        for text in (b"\xff\xfe", b"\xed\xa0\x80", b"\xc0\x80", b"a\0b", b"\xf5\x80\x80\x80"):
            with self.subTest(text=text):
                body = varint(1 << 3) + varint(77) + field(3, field(3, text))
                self.assertFieldError(self.connect(), body, pb.ERROR_CODE_INVALID_ARGUMENT, "generate.prompt")

    def test_number_too_large(self):
        body = varint(1 << 3) + varint(77) + field(3, field(3, b"x") + tag(5, 0) + varint(1 << 40))
        self.assertFieldError(self.connect(), body, pb.ERROR_CODE_INVALID_ARGUMENT, "generate.max_tokens")

    def test_frames_in_single_bytes_and_all_at_once(self):
        connection = self.connect()
        body = pb.Request(request_id=9, tokenize=pb.TokenizeRequest(text="one two")).SerializeToString()
        frame = struct.pack("<I", len(body)) + body
        for byte in frame:
            connection.send_bytes(bytes([byte]))
        self.assertEqual(connection.read_frame().request_id, 9)
        frames = b""
        for request_id in range(100, 120):
            body = pb.Request(request_id=request_id, tokenize=pb.TokenizeRequest(text="one")).SerializeToString()
            frames += struct.pack("<I", len(body)) + body
        connection.send_bytes(frames)
        self.assertEqual({connection.read_frame().request_id for _ in range(20)}, set(range(100, 120)))

    def test_half_closed(self):
        # A client that has said all it will say still gets its answer, or is let go: nothing hangs.
        connection = self.connect()
        connection.send(tokenize=pb.TokenizeRequest(text="one two"))
        connection.socket.shutdown(socket.SHUT_WR)
        connection.read_end()

    @unittest.skipUnless(os.geteuid() == 0, "only root can connect as another user")
    def test_another_user_may_not_administrate(self):
        connection = Connection.as_nobody(self.daemon.api)
        self.addCleanup(connection.close)
        self.assertRefused(pb.ERROR_CODE_DENIED, connection.call,
                           model_load=pb.ModelLoadRequest(model="/etc/passwd"))
        self.assertRefused(pb.ERROR_CODE_DENIED, connection.call, model_unload=pb.ModelUnloadRequest(model="x"))


def use_last_place(test, n_places):
    """The place of a connection that was just closed can be taken at once, though both may reach the loop together."""
    for _ in range(n_places - 1):
        test.connect()
    for _ in range(300):
        with Connection(test.daemon.api) as connection:
            test.assertTrue(connection.greeting.service_version)


class Flood(DaemonCase):
    flags = ("--max-connections=8", "--max-connections-per-uid=8", "--max-queue=2", "--max-active=1")

    def test_too_many_connections(self):
        first = self.connect()
        self.daemon.wait_until(lambda status: status.connections == 1, "only this one is there", through=first)
        held = [first, *(self.connect() for _ in range(7))]
        extra = Connection(self.daemon.api, hello=False)
        replies = extra.read_end()
        self.assertEqual(pb.ErrorCode.Name(replies[0].error.code), "ERROR_CODE_BUSY")
        self.assertGreater(replies[0].error.retry_after_ms, 0)
        extra.close()
        for connection in held:
            self.assertTrue(connection.status().pid)
            connection.close()
        self.daemon.wait_until(lambda status: status.connections == 1, "all connections are gone")

    def test_a_place_that_was_left(self):
        use_last_place(self, 8)

    def test_queue_is_full(self):
        connection, other = self.connect(), self.connect()
        long = prompt("Count: 1 2 3", 2000, ignore_end=True)
        running = connection.start(long).until("generate_delta")
        waiting = [connection.start(long), self.connect(admin=True).start(long)]
        self.daemon.wait_until(lambda status: status.requests_queued == 2, "two requests wait")
        error = self.assertRefused(pb.ERROR_CODE_BUSY, other.generate, long)
        self.assertGreater(error.retry_after_ms, 0)
        for generation in [running, *waiting]:
            generation.connection.cancel(generation.id)
            generation.finish()
        self.daemon.wait_idle()

    @unittest.skipIf(os.geteuid() != 0, "only root can be two users")
    def test_queue_is_not_one_users(self):
        flood = [Connection.as_nobody(self.daemon.api) for _ in range(2)]
        self.opened += flood
        long = prompt("Count: 1 2 3", 2000, ignore_end=True)
        running = [flood[0].start(long).until("generate_delta"), flood[0].start(long)]
        self.daemon.wait_until(lambda status: status.requests_queued == 1, "half of the queue is taken")
        for connection in flood:
            error = self.assertRefused(pb.ERROR_CODE_QUOTA_EXCEEDED, connection.generate, long)
            self.assertIn("max-queue", error.message)
            self.assertGreater(error.retry_after_ms, 0)
        other = self.connect()
        behind = other.start(prompt("Hello", 2, ignore_end=True)).until("generate_progress")
        self.assertLessEqual(behind.progress[0].queue_position, 1)  # users take turns
        for generation in running:
            flood[0].cancel(generation.id)
        self.assertEqual(behind.finish().done.usage.output_tokens, 2)


class OneUser(DaemonCase):
    flags = ("--max-connections=16", "--max-connections-per-uid=4")

    def test_a_place_that_was_left(self):
        use_last_place(self, 4)

    def test_too_many_connections_of_a_user(self):
        first = self.connect()
        self.daemon.wait_until(lambda status: status.connections == 1, "only this one is there", through=first)
        held = [first, *(self.connect() for _ in range(3))]
        extra = Connection(self.daemon.api, hello=False)
        error = extra.read_end()[0].error
        extra.close()
        self.assertEqual(pb.ErrorCode.Name(error.code), "ERROR_CODE_QUOTA_EXCEEDED")
        self.assertIn("max-connections-per-uid", error.message)
        self.assertGreater(error.retry_after_ms, 0)
        if os.geteuid() == 0:
            other = Connection.as_nobody(self.daemon.api)
            self.opened.append(other)
            self.assertTrue(other.status().pid)
        for connection in held:
            self.assertTrue(connection.status().pid)


@unittest.skipIf(os.geteuid() != 0, "only root can be two users")
class Privacy(DaemonCase):
    """What a user does is not another one's business, and where models lie is the administrators'."""

    def test_counters_and_paths(self):
        nobody, root = Connection.as_nobody(self.daemon.api), self.connect()
        self.opened.append(nobody)
        root.generate(prompt("A secret of root's", 3, ignore_end=True))
        session = root.open_session()
        own = nobody.status()
        self.assertTrue(own.own_only)
        self.assertEqual((own.requests_done, own.prompt_tokens, own.output_tokens, own.sessions, own.connections), (0, 0, 0, 0, 1))
        self.assertFalse(own.memory)
        self.assertFalse(own.HasField("memory_used_bytes") or own.memory_limit_source)
        self.assertFalse(own.HasField("preemptions") or own.HasField("prefix_cache_bytes"))
        nobody.generate(prompt("Mine", 2, ignore_end=True))
        own, all_of_it = nobody.status(), root.status()
        self.assertEqual((own.requests_done, own.output_tokens), (1, 2))
        self.assertEqual((all_of_it.requests_done, all_of_it.output_tokens), (2, 5))
        self.assertFalse(all_of_it.own_only)
        self.assertTrue(all_of_it.memory)
        for connection, may_see in ((nobody, False), (root, True)):
            models = [*connection.status().models, *connection.call(model_list=pb.ModelListRequest()).model_list.models,
                      connection.call(model_show=pb.ModelShowRequest()).model_show.model, connection.load(own.models[0].name)]
            self.assertEqual({bool(model.path) for model in models}, {may_see})
            self.assertTrue(all(model.name for model in models))
        root.close_session(session)


class Silence(DaemonCase):
    flags = ("--hello-timeout=300ms",)

    def test_no_hello_in_time(self):
        for data in (b"", b"\x10"):  # nothing, or a frame that never ends
            with self.subTest(data=data):
                connection = self.connect(hello=False)
                connection.send_bytes(data)
                error = connection.read_end()[-1].error
                self.assertEqual(pb.ErrorCode.Name(error.code), "ERROR_CODE_PROTOCOL")
                self.assertIn("Hello", error.message)

    def test_silence_after_hello_is_fine(self):
        connection = self.connect()
        with self.connect(hello=False) as other:
            other.read_end()  # longer than the limit
        self.assertTrue(connection.status().pid)


@unittest.skipIf(os.geteuid() != 0, "only root can be two users")
class Places(DaemonCase):
    """All places are taken by one user who does nothing with them: another one still gets in."""

    flags = ("--max-connections=6", "--max-connections-per-uid=6", "--hello-timeout=1h")

    def nobody(self, **options):
        connection = Connection.as_nobody(self.daemon.api, **options)
        self.opened.append(connection)
        return connection

    def test_idle_places_are_given_to_others(self):
        idle = [self.nobody() for _ in range(4)]
        silent = [self.nobody(hello=False) for _ in range(2)]
        idle[0].status()  # so that another one has been idle for longer
        # First those that never said who they are, then the one that has been idle for longest.
        newcomers = [self.connect() for _ in range(2)]
        for connection in silent:
            self.assertEqual(connection.read_end(), [])
        newcomers.append(self.connect())
        error, = idle[1].read_end()
        self.assertEqual(pb.ErrorCode.Name(error.error.code), "ERROR_CODE_BUSY")
        self.assertIn("idle", error.error.message)
        for connection in (*newcomers, idle[0], idle[2], idle[3]):
            self.assertTrue(connection.status().pid)
        # Three and three: nobody takes any more from anybody.
        for extra in (self.connect(hello=False), self.nobody(hello=False)):
            self.assertEqual(pb.ErrorCode.Name(extra.read_end()[0].error.code), "ERROR_CODE_BUSY")

    def test_who_has_a_session_or_a_request_stays(self):
        busy = [self.nobody() for _ in range(3)]
        for connection in busy:
            connection.open_session()
        busy += [self.nobody() for _ in range(3)]
        running = [connection.start(prompt("Count: 1 2 3", 4000, ignore_end=True)) for connection in busy[3:]]
        for connection in busy[3:]:
            self.assertTrue(connection.status().pid)  # so the request before it has arrived
        extra = self.connect(hello=False)
        self.assertEqual(pb.ErrorCode.Name(extra.read_end()[0].error.code), "ERROR_CODE_BUSY")
        for generation in running:
            generation.connection.cancel(generation.id)
            generation.finish()


@whole_model
class KvMemory(DaemonCase):
    flags = ("--kv-memory-limit=8M", "--kv-user-share=100")

    def test_a_request_beyond_it(self):
        connection = self.connect()
        limits = {account.name: account.limit_bytes for account in connection.status().memory}
        self.assertEqual(limits["kv"], 8 << 20)
        model = connection.call(model_show=pb.ModelShowRequest()).model_show.model
        fits = (8 << 20) // model.kv_bytes_per_token
        error = self.assertRefused(pb.ERROR_CODE_BUSY, connection.generate, prompt("Hello", fits, ignore_end=True))
        self.assertRegex(error.message, r"KV cache of \d+ tokens \([\d.]+ MiB\): kv-memory-limit \(8\.0 MiB\) is reached, "
                                        "also when nothing else runs")
        self.assertEqual(error.retry_after_ms, 0)
        # What holds the memory, and what to do about it, is the administrators'.
        self.assertRegex(error.message, r"held: weights [\d.]+ MiB.*models: \S+ [\d.]+ MiB; "
                                        r"unload a model \(coordgenctl model unload \S+\), raise that limit")
        if os.geteuid() == 0:
            nobody = Connection.as_nobody(self.daemon.api)
            self.opened.append(nobody)
            error = self.assertRefused(pb.ERROR_CODE_BUSY, nobody.generate, prompt("Hello", fits, ignore_end=True))
            self.assertRegex(error.message, "kv-memory-limit .*is reached, also when nothing else runs: ask for less$")
        done = connection.generate(prompt("Hello", 2, ignore_end=True)).done
        self.assertEqual(done.usage.output_tokens, 2)


class AllMemory(DaemonCase):
    def test_all_accounts_together(self):
        status = self.connect().status()
        self.assertGreaterEqual(status.memory_used_bytes, max(account.used_bytes for account in status.memory))
        self.assertGreater(status.memory_limit_bytes, status.memory_used_bytes)
        self.assertRegex(status.memory_limit_source, "^80 % of ")
        run = subprocess.run([BIN / "coordgenctl", "status", "--socket", self.daemon.api], capture_output=True, text=True,
                             timeout=60 * SLOW)
        self.assertRegex(run.stdout, r"(?m)^all +[\d.]+ MiB +[\d.]+ [MGT]iB \(80 % of .*\)$")

    def test_a_limit_that_holds_no_model(self):
        with tempfile.TemporaryDirectory() as folder:  # a long path takes nothing from the remedy behind it
            model = Path(folder) / ("long-" * 30) / MODEL.name
            model.parent.mkdir()
            model.symlink_to(MODEL)
            self.check_limit_that_holds_no_model(model)

    def check_limit_that_holds_no_model(self, model):
        daemon = Daemon("--memory-limit=64M", model=model, wait=False)
        self.addCleanup(daemon.kill)
        daemon.wait_notice("READY=1")
        daemon.wait_model(state=pb.MODEL_STATE_FAILED)
        status = daemon.connect().status()
        self.assertRegex(status.models[0].detail, r"no memory for .*iB\): memory-limit \(64\.0 MiB\) is reached; held: .*"
                                                  r"raise that limit \(memory-limit: set\), "
                                                  r"or take less \(context-tokens, weights-memory\): "
                                                  r"memory-limit \(64 MiB\) is too low for it")
        self.assertEqual((status.memory_limit_bytes, status.memory_limit_source), (64 << 20, "set"))


class Memory(DaemonCase):
    """Who fills the account of clients' memory keeps neither other users nor administrators out."""

    flags = ("--session-memory-limit=32M", "--frame-timeout=60s")
    HEADER = struct.pack("<I", 4 << 20)

    def setUp(self):
        super().setUp()
        deadline = time.monotonic() + 20 * SLOW
        with self.daemon.connect(admin=True) as admin:  # the last test's connections may fill the account still
            while admin.status().connections > 1:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.02)

    def fill(self, connect):
        """Connections with 1 MiB of a frame each, until one is refused or closed; the error that it got."""
        for _ in range(100):
            connection = connect(self.daemon.api, hello=False)
            self.opened.append(connection)
            try:
                connection.send_bytes(self.HEADER + bytes(1 << 20))
                return connection.read_frame(0.1).error
            except TimeoutError:
                continue
            except (BrokenPipeError, ConnectionResetError):
                return connection.read_end()[-1].error
        self.fail("nothing was refused")

    def test_headers_alone(self):
        for _ in range(40):
            self.connect().send_bytes(self.HEADER + b"\x08")
        other = self.connect()
        self.assertLess(other.account("sessions"), 16 << 20)
        self.assertTrue(other.tokenize("a " * 100_000))

    @unittest.skipIf(os.geteuid() != 0, "only root can be two users")
    def test_one_user_then_all(self):
        error = self.fill(Connection.as_nobody)
        self.assertEqual(error.code, pb.ERROR_CODE_BUSY)
        self.assertIn("this user's share", error.message)
        other = self.connect()
        self.assertTrue(other.tokenize("a " * 100_000))
        error = self.fill(Connection)
        self.assertIn("session-memory-limit is reached", error.message)
        self.assertNotIn("user", error.message)
        for _ in range(8):
            self.assertGreater(self.connect(admin=True).account("sessions"), 24 << 20)


class Answers(DaemonCase):
    """Short questions with long answers, from a client that does not read."""

    flags = ("--output-buffer=64K",)

    def test_an_answer_is_paid_for_until_it_is_read(self):
        silent, other = self.connect(), self.connect()
        token, = other.tokenize(" " * 64)
        before = other.account("sessions")
        silent.send(detokenize=pb.DetokenizeRequest(tokens=[token] * 60_000))

        def sessions(status):
            return {account.name: account.used_bytes for account in status.memory}["sessions"]

        # What the sockets have taken is not held any more.
        status = self.daemon.wait_until(lambda status: status.requests_running == 0 and
                                        sessions(status) - before > 60_000 * 64 - (2 << 20), "it is on the account")
        self.assertLess(sessions(status) - before, 60_000 * 64 + (1 << 20))
        self.assertEqual(len(silent.read_frame().detokenize.text), 60_000 * 64)
        self.daemon.wait_until(lambda status: sessions(status) < before + (256 << 10), "what it took is given back")

    def test_one_answer_waits_to_be_read(self):
        silent, other = self.connect(), self.connect()
        token, = other.tokenize(" " * 64)
        question = pb.DetokenizeRequest(tokens=[token] * 16_000)
        others = [self.connect() for _ in range(8)]  # keep the engine thread busy until all questions are there
        for connection in others:
            connection.send(tokenize=pb.TokenizeRequest(text="hello world " * 80_000))
        asked = [silent.send(detokenize=question) for _ in range(6)]
        for connection in others:
            self.assertGreater(len(connection.next(connection.last_id).tokenize.tokens), 100_000)
        status = self.daemon.wait_until(lambda status: status.requests_running == 0, "nothing more can be served")
        self.assertEqual(status.requests_queued, 5)
        self.assertGreater(other.account("sessions"), 700_000)
        answers = [silent.read_frame() for _ in asked]
        self.assertEqual([answer.request_id for answer in answers], asked)
        self.assertEqual({len(answer.detokenize.text) for answer in answers}, {16_000 * 64})
        self.daemon.wait_until(lambda status: status.requests_queued == 0, "all are answered")

    def test_answer_beyond_a_message(self):
        connection = self.connect()
        error = self.assertRefused(pb.ERROR_CODE_INVALID_ARGUMENT, connection.detokenize,
                                   connection.tokenize(" extraordinarily") * 400_000)
        self.assertIn("ask for less", error.message)


class LogFlood(unittest.TestCase):
    """Whoever repeats what the log tells fills no disk: the first ones are told, the others counted."""

    N = 1500  # of each kind
    KINDS = {
        "memory": r"uid \d+: refused: no memory",
        "connections": r"uid \d+: refused: max-connections-per-uid",
        "protocol": r"closed: an empty frame",
        "version": r"closed: .*version",
        "hello": r"closed: the first message must be a Hello",
        "done": r"request \d+: tokenize, .*: done,",
        "queue": r"request \d+: generate normal, .*: (busy|quota-exceeded),",
        "cancelled": r"request \d+: generate normal, .*: cancelled,",
    }

    def setUp(self):
        self.daemon = Daemon("--log-level=info", "--session-memory-limit=1M", "--output-buffer=64K", "--frame-timeout=1h",
                             "--max-connections-per-uid=8", "--max-queue=4", "--max-active=1")
        self.held = []

    def tearDown(self):
        for connection in self.held:
            connection.close()
        self.daemon.kill()

    def hold(self, **options):
        self.held.append(self.daemon.connect(**options))
        return self.held[-1]

    def refused(self, code, data=b"", n=N):
        """n connections that are closed with this error."""
        for _ in range(n):
            with Connection(self.daemon.api, hello=False) as connection:
                try:
                    connection.send_bytes(data)
                except OSError:  # refused already
                    pass
                self.assertEqual(connection.read_end()[-1].error.code, code)

    def flood_connections(self):
        hello = pb.Request(request_id=1, hello=pb.HelloRequest(version_min=7, version_max=9)).SerializeToString()
        status = pb.Request(request_id=1, status=pb.StatusRequest()).SerializeToString()
        self.refused(pb.ERROR_CODE_PROTOCOL, struct.pack("<I", 0))
        self.refused(pb.ERROR_CODE_VERSION, struct.pack("<I", len(hello)) + hello)
        self.refused(pb.ERROR_CODE_PROTOCOL, struct.pack("<I", len(status)) + status)
        many = [self.hold() for _ in range(8)]
        self.refused(pb.ERROR_CODE_QUOTA_EXCEEDED)
        for connection in many[1:]:
            connection.close()
        self.daemon.wait_until(lambda status: status.connections == 1, "they are gone", through=many[0])
        for _ in range(2):
            self.hold().send_bytes(struct.pack("<I", 4 << 20) + bytes(250 << 10))
        self.refused(pb.ERROR_CODE_BUSY)
        for connection in self.held:
            connection.close()

    def flood_requests(self):
        self.daemon.wait_until(lambda status: status.connections == 1, "they are gone", through=self.hold(admin=True))
        connection = self.hold()
        for _ in range(self.N):
            connection.tokenize("Hello")
        long = prompt("Count: 1 2 3", 2000, ignore_end=True)
        running = [connection.start(long).until("generate_delta"), *(connection.start(long) for _ in range(2))]
        for _ in range(self.N):
            with self.assertRaises(Refused) as caught:
                connection.generate(long)
            self.assertIn(caught.exception.code, (pb.ERROR_CODE_QUOTA_EXCEEDED, pb.ERROR_CODE_BUSY))
        running.pop().connection.cancel(running[-1].id + 1)
        for _ in range(self.N - 3):
            waiting = connection.start(long)
            connection.cancel(waiting.id)
            waiting.finish()
        for generation in running:
            connection.cancel(generation.id)
            generation.finish()

    def test_log_stays_short_and_its_counts_add_up(self):
        self.flood_connections()
        self.flood_requests()
        self.daemon.signal(signal.SIGTERM)
        self.assertEqual(self.daemon.wait_exit(), 0)
        lines = self.daemon.log().splitlines()
        told = dict.fromkeys(self.KINDS, 0)
        for line in lines:
            for kind, pattern in self.KINDS.items():
                if re.search(pattern, line):
                    more = re.search(r"uid \d+: (\d+) more in \d+ s like this one: ", line)
                    told[kind] += int(more[1]) if more else 1
        self.assertEqual(told, dict.fromkeys(self.KINDS, self.N))
        self.assertLess(len(lines), 1000)


class OwnLimit(DaemonCase):
    flags = ("--max-requests-per-connection=2", "--max-active=1")

    def test_too_many_requests_on_a_connection(self):
        connection = self.connect()
        self.assertEqual(connection.greeting.requests_max, 2)
        long = prompt("Count: 1 2 3", 2000, ignore_end=True)
        running = [connection.start(long) for _ in range(2)]
        running[0].until("generate_delta")
        error = self.assertRefused(pb.ERROR_CODE_QUOTA_EXCEEDED, connection.generate, long)
        self.assertGreater(error.retry_after_ms, 0)
        # Another connection has room, and this one has it again when a request has ended.
        self.assertTrue(self.connect().tokenize("Hello"))
        for generation in running:
            connection.cancel(generation.id)
            generation.finish()
        self.assertTrue(connection.tokenize("Hello"))
        self.daemon.wait_idle()
