# SPDX-License-Identifier: Apache-2.0
"""Classes of requests: who goes first in the queue and in the steps, and that nobody's tokens depend on it."""

import coordgen_pb2 as pb

from daemon import DaemonCase
from settings import SANITIZED
from wire import prompt

INTERACTIVE, NORMAL, BACKGROUND = pb.PRIORITY_INTERACTIVE, pb.PRIORITY_NORMAL, pb.PRIORITY_BACKGROUND


class Queue(DaemonCase):
    flags = ("--max-active=1", "--max-active-interactive=1", "--priority-ageing=1h")

    def test_class_before_arrival(self):
        """One place: of those that wait, the normal one goes before the background one that came first."""
        holder = self.connect()
        first = holder.start(prompt("Count: 1 2 3 4", 2000, ignore_end=True)).until("generate_delta")
        connection = self.connect()
        background = connection.start(prompt("The first to come.", 2, ignore_end=True, priority=BACKGROUND))
        self.daemon.wait_until(lambda status: status.requests_queued == 1, "one request waits")
        normal = connection.start(prompt("The second to come.", 2, ignore_end=True))
        self.daemon.wait_until(lambda status: status.requests_queued == 2, "two requests wait")
        # An interactive one has a place of its own: it does not wait for the one that runs.
        interactive = self.connect().generate(prompt("Hello", 2, ignore_end=True, priority=INTERACTIVE))
        self.assertEqual(interactive.done.priority, INTERACTIVE)
        self.assertEqual(self.connect().status().requests_queued, 2)
        holder.cancel(first.id)
        first.finish()
        self.assertEqual(normal.finish().done.priority, NORMAL)
        self.assertEqual(background.finish().done.priority, BACKGROUND)
        self.assertGreater(background.done.timings.queue_us, normal.done.timings.queue_us)
        self.daemon.wait_idle()
        self.assertRegex(self.daemon.log(), r"request \d+: generate background, uid")

    def test_background_gives_its_place_up(self):
        """One place, which a background request has: a normal one of the same user has it at once."""
        connection = self.connect()
        alone = connection.generate(prompt("Count: 1 2 3 4", 40, ignore_end=True, no_reuse=True)).tokens
        background = connection.start(prompt("Count: 1 2 3 4", 4000, ignore_end=True, no_reuse=True,
                                             priority=BACKGROUND)).until("generate_delta")
        normal = self.connect().generate(prompt("Hello", 2, ignore_end=True))
        self.assertEqual(len(normal.tokens), 2)
        self.assertEqual(self.connect().status().requests_running, 1)  # the background one, which rested or rests
        while len(background.tokens) < len(alone):
            background.step()
        connection.cancel(background.id)
        background.finish()
        self.assertEqual(background.tokens[:len(alone)], alone)

    def test_wrong_class_is_refused(self):
        connection = self.connect()
        generation = connection.start(prompt("Hello", 2, priority=pb.PRIORITY_UNSPECIFIED))
        self.assertRefused(pb.ERROR_CODE_INVALID_ARGUMENT, generation.finish)


class Preemption(DaemonCase):
    """A long background prompt: interactive requests do not wait for it."""
    LONG = "The river runs from the hills through the old town to the sea. " * (20 if SANITIZED else 80)

    def start_background(self, connection):
        background = connection.start(prompt(self.LONG, 4, ignore_end=True, no_reuse=True, priority=BACKGROUND))
        self.daemon.wait_until(lambda status: status.requests_running == 1, "the request runs")
        return background

    def test_interactive_during_a_background_prompt(self):
        connection, other = self.connect(), self.connect()
        alone = connection.generate(prompt("Water boils at", 4, ignore_end=True, no_reuse=True)).tokens
        tokens = connection.generate(prompt(self.LONG, 4, ignore_end=True, no_reuse=True)).tokens
        for _ in range(20):  # one may come between two steps, or late on a busy machine; not all do
            before = other.status().preemptions
            background = self.start_background(connection)
            interactive = other.generate(prompt("Water boils at", 4, ignore_end=True, priority=INTERACTIVE))
            status = other.status()
            self.assertEqual(interactive.tokens, alone)
            self.assertEqual(background.finish().tokens, tokens)
            self.daemon.wait_idle()
            if status.preemptions > before and status.requests_running:
                return
        self.fail("no background step made way for an interactive request that ended first")

    def test_client_of_a_background_prompt_leaves(self):
        """What made way is let go of while the interactive request runs."""
        connection = self.connect()
        self.start_background(connection)
        interactive = self.connect().start(prompt("Count: 1 2 3 4", 400, ignore_end=True, priority=INTERACTIVE))
        interactive.until("generate_delta")
        connection.close()
        self.daemon.wait_until(lambda status: status.requests_running == 1, "the background request is gone")
        interactive.connection.cancel(interactive.id)
        interactive.finish()
        self.daemon.wait_idle()


class NoPreemption(DaemonCase):
    flags = ("--preemption=no",)

    def test_it_can_be_switched_off(self):
        connection = self.connect()
        background = connection.start(prompt(Preemption.LONG, 2, ignore_end=True, no_reuse=True, priority=BACKGROUND))
        self.daemon.wait_until(lambda status: status.requests_running == 1, "the request runs")
        interactive = self.connect().generate(prompt("Hello", 2, ignore_end=True, priority=INTERACTIVE))
        self.assertEqual(len(interactive.tokens), 2)
        background.finish()
        self.assertEqual(connection.status().preemptions, 0)
