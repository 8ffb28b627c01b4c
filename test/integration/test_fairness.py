# SPDX-License-Identifier: Apache-2.0
"""Users share the service: nobody keeps places, memory or what is kept of prompts from others."""

import os
import time
import unittest

import coordgen_pb2 as pb

from daemon import DaemonCase
from settings import SLOW
from wire import Connection, Refused, prompt

STORY = "Count: 1 2 3 4"


class FairCase(DaemonCase):
    def until_accepted(self, connection, request):
        """Asks again as long as the service is busy."""
        deadline = time.monotonic() + 90 * SLOW
        while True:
            try:
                return connection.generate(request)
            except Refused as refused:
                self.assertEqual(refused.error.code, pb.ERROR_CODE_BUSY)
                self.assertLess(time.monotonic(), deadline, "busy for ever")
                time.sleep(0.1)

    def ends_for_memory(self, silent, other, n_tokens):
        """A generation that takes nearly all KV memory, whose client does not read, goes for another user's."""
        holder = silent.start(prompt(STORY, n_tokens, ignore_end=True)).until("generate_delta")
        done = self.until_accepted(other, prompt("Hello", 300, ignore_end=True)).done
        self.assertEqual(done.usage.output_tokens, 300)
        with self.assertRaises(Refused) as caught:
            holder.finish()
        self.assertEqual(caught.exception.error.code, pb.ERROR_CODE_BUSY)
        self.assertIn("others wait for the memory", caught.exception.error.message)

    def connect_nobody(self):
        connection = Connection.as_nobody(self.daemon.api)
        self.opened.append(connection)
        return connection


@unittest.skipIf(os.geteuid() != 0, "only root can be two users")
class OnePlace(FairCase):
    flags = ("--max-active=1", "--max-active-interactive=1")

    def take_turns(self, priority):
        greedy, other = self.connect_nobody(), self.connect()
        alone = greedy.generate(prompt(STORY, 400, ignore_end=True, no_reuse=True)).tokens
        long = greedy.start(prompt(STORY, 6000, ignore_end=True, no_reuse=True, priority=priority))
        long.until("generate_delta")
        second = greedy.start(prompt(STORY, 6000, ignore_end=True, priority=priority))
        # One request behind the other: each gets the place, though the one that has it has not ended.
        for _ in range(2):
            answer = other.generate(prompt("Hello", 4, ignore_end=True, priority=priority))
            self.assertEqual(answer.done.usage.output_tokens, 4)
            self.assertEqual(other.status().requests_running, 1, "the long one is still there")
        while len(long.deltas) < 400:
            self.assertEqual(long.step(), "generate_delta")
        self.assertEqual(long.tokens[:400], alone)
        greedy.cancel(second.id)
        greedy.cancel(long.id)
        self.assertEqual(long.finish().done.end_reason, pb.END_REASON_CANCELLED)
        self.daemon.wait_idle()

    def test_of_normal_ones(self):
        self.take_turns(pb.PRIORITY_NORMAL)

    def test_of_interactive_ones(self):
        self.take_turns(pb.PRIORITY_INTERACTIVE)

    def test_who_rests_can_be_cancelled(self):
        greedy, other = self.connect_nobody(), self.connect()
        long = greedy.start(prompt(STORY, 6000, ignore_end=True)).until("generate_delta")
        third = other.start(prompt(STORY, 6000, ignore_end=True)).until("generate_delta")
        self.assertEqual(other.status().requests_running, 2)
        greedy.cancel(long.id)
        self.assertEqual(long.finish().done.end_reason, pb.END_REASON_CANCELLED)
        other.close()
        self.assertIsNone(third.done)
        self.daemon.wait_idle()


@unittest.skipIf(os.geteuid() != 0, "only root can be two users")
class TwoPlaces(FairCase):
    def test_one_of_two_is_given_up(self):
        greedy, other = self.connect_nobody(), self.connect()
        long = [greedy.start(prompt(STORY, 6000, ignore_end=True, priority=pb.PRIORITY_INTERACTIVE)) for _ in range(2)]
        for generation in long:
            generation.until("generate_delta")
        for _ in range(3):
            other.generate(prompt("Hello", 4, ignore_end=True, priority=pb.PRIORITY_INTERACTIVE))
            self.assertEqual(other.status().requests_running, 2, "both are still there")


@unittest.skipIf(os.geteuid() != 0, "only root can be two users")
class MemoryShare(FairCase):
    """Room for 1,400 tokens, of which one user may have 1,050: what trees of drafts take is among them."""

    flags = ("--kv-memory-limit=18M", "--max-active-interactive=4", "--stall-timeout=600s")

    def test_others_find_some(self):
        greedy, other = self.connect_nobody(), self.connect()
        held = [greedy.start(prompt(STORY, 450, ignore_end=True)).until("generate_delta") for _ in range(2)]
        with self.assertRaises(Refused) as caught:
            greedy.generate(prompt(STORY, 450))
        self.assertEqual(caught.exception.error.code, pb.ERROR_CODE_QUOTA_EXCEEDED)
        self.assertIn("kv-user-share", caught.exception.error.message)
        self.assertGreater(caught.exception.error.retry_after_ms, 0)
        self.assertEqual(other.generate(prompt("Hello", 300, ignore_end=True)).done.usage.output_tokens, 300)
        for generation in held:
            self.assertEqual(generation.finish().done.usage.output_tokens, 450)
        greedy.generate(prompt(STORY, 450))

    def test_more_than_a_share(self):
        greedy = self.connect_nobody()
        with self.assertRaises(Refused) as caught:
            greedy.generate(prompt(STORY, 1200))
        self.assertEqual(caught.exception.error.code, pb.ERROR_CODE_QUOTA_EXCEEDED)
        self.assertIn("ask for less", caught.exception.error.message)
        self.assertEqual(caught.exception.error.retry_after_ms, 0)
        administrator = self.connect(admin=True)
        self.assertGreater(administrator.generate(prompt(STORY, 1200)).done.usage.output_tokens, 0)


@unittest.skipIf(os.geteuid() != 0, "only root can be two users")
class HeldMemory(FairCase):
    flags = ("--kv-memory-limit=17M", "--kv-user-share=100", "--output-buffer=16K", "--stall-timeout=600s")

    def test_of_a_paused_generation(self):
        self.ends_for_memory(self.connect_nobody(), self.connect(), 1300)


@unittest.skipIf(os.geteuid() != 0, "only root can be two users")
class HeldMemoryUnread(FairCase):
    """The answer would fit into the output buffer."""

    flags = ("--kv-memory-limit=49M", "--kv-user-share=100", "--output-buffer=2M", "--stall-timeout=600s")

    def test_of_a_stopped_client(self):
        self.ends_for_memory(self.connect_nobody(), self.connect(), 4000)
