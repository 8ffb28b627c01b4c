# SPDX-License-Identifier: Apache-2.0
"""In a memory cgroup that is smaller than what the machine has: prompts are answered, and the kernel ends nobody."""

import os
import unittest
from pathlib import Path

from daemon import Daemon
from settings import SANITIZED
from wire import prompt

LIMIT_BYTES = 300 << 20
N_PROMPTS = 8
# About 1,500 tokens each, which begin with other words: each of them stays in the prefix cache as long as it has room.
TEXT = "Station {}: the tide table of this morning says when the ships may leave, and the clerk writes it down. "


def memory_hierarchy():
    """(folder, file of the limit, file that counts kills) of the hierarchy that limits memory, and None where there is
    none."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        mount, _, system = line.partition(" - ")
        point = Path(mount.split()[4])
        if system.startswith("cgroup2") and "memory" in (point / "cgroup.subtree_control").read_text().split():
            return point, "memory.max", "memory.events"
        if system.startswith("cgroup ") and "memory" in system.split()[-1].split(","):
            return point, "memory.limit_in_bytes", "memory.oom_control"
    return None


@unittest.skipIf(SANITIZED, "a sanitizer's own memory is more than the limit")
class MemoryCgroup(unittest.TestCase):
    def setUp(self):
        hierarchy = memory_hierarchy()
        if not hierarchy:
            self.skipTest("no cgroup hierarchy limits memory")
        point, limit, self.events = hierarchy
        self.group = point / f"coordgen-test-{os.getpid()}"
        try:
            self.group.mkdir()
        except OSError as error:
            self.skipTest(f"{self.group}: {error.strerror}")
        self.addCleanup(self.group.rmdir)
        (self.group / limit).write_text(str(LIMIT_BYTES))

    def enter(self):
        (self.group / "cgroup.procs").write_text(str(os.getpid()))

    def n_killed(self):
        words = (self.group / self.events).read_text().split()
        return int(words[words.index("oom_kill") + 1])

    def test_prompts_one_after_the_other(self):
        daemon = Daemon(preexec=self.enter)
        self.addCleanup(daemon.kill)
        with daemon.connect() as connection:
            for i in range(N_PROMPTS):
                given = connection.generate(prompt(TEXT.format(i) * 75, max_tokens=16))
                self.assertEqual(given.done.usage.output_tokens, 16)
                self.assertGreater(given.done.usage.prompt_tokens, 1200)
            status = connection.status()
        self.assertGreater(status.prefix_cache_bytes, status.prefix_cache_max_bytes / 2)
        self.assertLess(status.prefix_cache_max_bytes, LIMIT_BYTES / 4)
        daemon.stop()
        self.assertEqual(self.n_killed(), 0)
