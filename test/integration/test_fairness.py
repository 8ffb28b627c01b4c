# SPDX-License-Identifier: Apache-2.0
"""Users share the service: nobody keeps places, memory or what is kept of prompts from others."""

import os
import unittest

import coordgen_pb2 as pb

from daemon import DaemonCase
from wire import Connection, prompt

STORY = "Count: 1 2 3 4"


class FairCase(DaemonCase):
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
