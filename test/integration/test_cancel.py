# SPDX-License-Identifier: Apache-2.0
"""A request can be ended at every stage, by its client or by its client's death, and nobody else notices."""

import signal
import subprocess
import time

import coordgen_pb2 as pb

from daemon import DaemonCase
from settings import BIN, SANITIZED, SLOW
from wire import prompt

LONG = "The river runs from the hills through the old town to the sea. " * (60 if SANITIZED else 200)
SOON_S = 5 * SLOW  # one chunk of a prompt, with room for a loaded machine; that it was cancelled, reply or counter tells


class Cancel(DaemonCase):
    flags = ("--max-active=1",)

    def setUp(self):
        super().setUp()
        self.daemon.wait_idle()
        before = self.connect().status()
        self.cancelled_before = before.requests_cancelled

    def ends_cancelled(self, connection, generation):
        started = time.monotonic()
        connection.cancel(generation.id)
        self.assertEqual(generation.finish().done.end_reason, pb.END_REASON_CANCELLED)
        self.assertLess(time.monotonic() - started, SOON_S)
        self.daemon.wait_idle()
        self.assertEqual(self.connect().status().requests_cancelled, self.cancelled_before + 1)

    def test_in_decode(self):
        connection = self.connect()
        generation = connection.start(prompt("Count: 1 2 3 4", 2000, ignore_end=True)).until("generate_delta")
        self.ends_cancelled(connection, generation)
        self.assertLess(generation.done.usage.output_tokens, 2000)

    def test_in_prefill(self):
        connection = self.connect()
        generation = connection.start(prompt(LONG, 4))
        self.daemon.wait_until(lambda status: status.requests_running == 1, "the request runs")
        self.ends_cancelled(connection, generation)
        self.assertEqual(generation.deltas, [])
        self.assertEqual(generation.done.usage.output_tokens, 0)

    def test_in_queue(self):
        running = self.connect()
        first = running.start(prompt("Count: 1 2 3 4", 2000, ignore_end=True)).until("generate_delta")
        connection = self.connect()
        waiting = connection.start(prompt("Never computed at all.", 4))
        self.daemon.wait_until(lambda status: status.requests_queued == 1, "one request waits")
        connection.cancel(waiting.id)
        self.assertEqual(waiting.finish().done.end_reason, pb.END_REASON_CANCELLED)
        self.assertEqual(waiting.done.usage.output_tokens, 0)
        # The one that runs never noticed.
        self.assertEqual(first.step(), "generate_delta")
        running.cancel(first.id)
        first.finish()
        self.daemon.wait_idle()

    def test_on_one_connection_cancels_only_its_target(self):
        connection = self.connect()
        expected = self.connect().generate(prompt("The first of two.", 40, ignore_end=True)).tokens
        first = connection.start(prompt("The first of two.", 40, ignore_end=True))
        second = connection.start(prompt("The second of two.", 2000, ignore_end=True))
        connection.cancel(second.id)
        self.assertEqual(first.finish().tokens, expected)
        self.assertEqual(second.finish().done.end_reason, pb.END_REASON_CANCELLED)
        self.daemon.wait_idle()

    def test_of_nothing(self):
        connection = self.connect()
        self.assertRefused(pb.ERROR_CODE_NOT_FOUND, connection.cancel, 12345)
        # Another connection's request is not ours to cancel.
        other = self.connect()
        generation = other.start(prompt("Not yours.", 200, ignore_end=True)).until("generate_delta")
        self.assertRefused(pb.ERROR_CODE_NOT_FOUND, connection.cancel, generation.id + 1000)
        done = other.generate  # the connection is alive
        other.cancel(generation.id)
        generation.finish()
        self.assertTrue(done)

    def test_disconnect_in_each_stage(self):
        for stage in ("queue", "prefill", "decode"):
            with self.subTest(stage=stage):
                holder = self.connect()
                if stage == "queue":
                    first = holder.start(prompt("Count: 1 2 3 4", 2000, ignore_end=True)).until("generate_delta")
                connection = self.connect()
                generation = connection.start(prompt(LONG if stage != "decode" else "Count: 1 2", 2000, ignore_end=True))
                if stage == "decode":
                    generation.until("generate_delta")
                elif stage == "prefill":
                    self.daemon.wait_until(lambda status: status.requests_running == 1, "the request runs")
                else:
                    self.daemon.wait_until(lambda status: status.requests_queued == 1, "the request waits")
                started = time.monotonic()
                connection.close()
                if stage == "queue":
                    self.daemon.wait_until(lambda status: status.requests_queued == 0, "the dead client's request is gone")
                    holder.cancel(first.id)
                    first.finish()
                self.daemon.wait_idle()
                self.assertLess(time.monotonic() - started, SOON_S + 1)

    def test_client_killed(self):
        # A real client process, killed while it prints.
        client = subprocess.Popen([BIN / "coordgenctl", f"--socket={self.daemon.api}", "generate", "--raw",
                                   "--max-tokens=3000", "--ignore-end", "Count: 1 2 3 4 5 6"], stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL)
        self.assertTrue(client.stdout.read(1))
        client.send_signal(signal.SIGKILL)
        client.wait()
        client.stdout.close()
        started = time.monotonic()
        self.daemon.wait_idle()
        self.assertLess(time.monotonic() - started, SOON_S)
        self.assertEqual(self.connect().status().requests_cancelled, self.cancelled_before + 1)


class SlowReader(DaemonCase):
    """A client that stops reading holds up nobody and is let go in the end."""

    flags = ("--output-buffer=4K", "--stall-timeout=1s")

    def test_stalled_client_is_disconnected(self):
        stalled = self.connect()
        stalled.socket.setsockopt(1, 8, 2304)  # SO_RCVBUF: the smallest
        generation = stalled.start(prompt("Count: 1 2 3 4", 4000, ignore_end=True)).until("generate_delta")
        started = time.monotonic()
        # Others are served meanwhile.
        other = self.connect()
        self.assertEqual(other.generate(prompt("Hello", 4, ignore_end=True)).done.usage.output_tokens, 4)
        self.daemon.wait_until(lambda status: status.requests_running == 0, "the stalled request is gone", 120)
        self.assertTrue(generation.done is None)
        self.assertLess(time.monotonic() - started, 120 * SLOW)
        self.daemon.wait_idle()


class Held(DaemonCase):
    """Paused generations keep their memory, but not others out."""

    flags = ("--max-active=1", "--output-buffer=64K", "--stall-timeout=1h", "--prefix-cache-max=0")

    def stall(self, connection):
        """A generation that is paused: the connection does not read a long answer to another request."""
        token, = connection.tokenize(" " * 64)
        generation = connection.start(prompt("Count: 1 2 3 4", 3000, ignore_end=True)).until("generate_delta")
        connection.send(detokenize=pb.DetokenizeRequest(tokens=[token] * 16_000))
        return generation

    def assertEnded(self, generation):
        error = self.assertRefused(pb.ERROR_CODE_BUSY, generation.finish)
        self.assertIn("without reading", error.message)

    def end(self, *generations):
        for generation in generations:
            generation.connection.send(cancel=pb.CancelRequest(target_request_id=generation.id))
            self.assertEqual(generation.finish().done.end_reason, pb.END_REASON_CANCELLED)
        self.daemon.wait_idle()

    def test_longest_paused_makes_way(self):
        # Four times max-active; the administrators' socket has no limit on one user.
        stalled = [self.stall(self.connect(admin=True)) for _ in range(4)]
        self.assertEqual(self.connect().generate(prompt("Hello", 4, ignore_end=True)).done.usage.output_tokens, 4)
        self.assertEnded(stalled[0])
        self.end(*stalled[1:])

    def test_one_user_keeps_out_only_himself(self):
        first = self.stall(self.connect(admin=True))
        own = [self.stall(self.connect()) for _ in range(2)]
        third = self.connect().start(prompt("Hello", 4, ignore_end=True))
        self.assertEqual(third.finish().done.usage.output_tokens, 4)
        self.assertTrue(third.progress, "it did not wait")
        self.assertEnded(own[0])
        self.end(first, own[1])
