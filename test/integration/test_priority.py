"""Classes of requests: who goes first in the queue and in the steps, and that nobody's tokens depend on it."""

import coordgen_pb2 as pb

from daemon import DaemonCase
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

    def test_wrong_class_is_refused(self):
        connection = self.connect()
        generation = connection.start(prompt("Hello", 2, priority=pb.PRIORITY_UNSPECIFIED))
        self.assertRefused(pb.ERROR_CODE_INVALID_ARGUMENT, generation.finish)
