# SPDX-License-Identifier: Apache-2.0
"""tools/bench-gateway on the real model: that its parts run and their figures fit together. Never how fast."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from settings import BUILD, CACHE, MODEL, SLOW, TOP


def run_bench(*args):
    environment = {key: value for key, value in os.environ.items() if key != "COORDGEN_DATA"}
    environment["XDG_CACHE_HOME"] = str(CACHE)  # what was imported for other tests is not there, but stays for these
    return subprocess.run([sys.executable, TOP / "tools/bench-gateway", f"--build={BUILD}", f"--model={MODEL}", *args],
                          env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=600 * SLOW, check=False)


class BenchGateway(unittest.TestCase):
    def test_figures(self):
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.json"
            run = run_bench("--repeat=1", "--prompt-words=8", "--output=4", "--clients=20", "--hold=0", "--gone=2", f"--json={report}")
            self.assertEqual((run.returncode, run.stderr), (0, ""), run.stdout)
            parts = json.loads(report.read_text())["parts"]
        for program in ("coordgenctl", "gateway"):
            [one] = parts["latency"][program]
            self.assertEqual(one["tokens"], 4)
            self.assertLessEqual(0, one["first_s"])
            self.assertLessEqual(one["first_s"], one["end_s"])
        self.assertEqual(parts["idle"]["clients"], 20)
        self.assertLessEqual(parts["idle"]["before_bytes"], parts["idle"]["waiting_bytes"])
        self.assertEqual({place: len(times) for place, times in parts["gone"].items()}, {"prefill": 2, "decode": 2, "queue": 2})
        for title in ("Times of 4 tokens", "Resident memory", "Until the place"):
            self.assertIn(title, run.stdout)

    def test_crowd(self):
        """The client's requests succeed beside every attack, and each attack meets the gateway."""
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.json"
            run = run_bench("--part=crowd", "--attackers=50", "--seconds=0.2", "--turns=1", "--output=4", f"--json={report}")
            self.assertEqual((run.returncode, run.stderr), (0, ""), run.stdout)
            found = json.loads(report.read_text())["parts"]["crowd"]
        self.assertEqual(list(found), ["alone", "half heads", "slow", "big bodies", "garbage", "half-close", "processor"])
        for name, one in found.items():
            self.assertEqual(one["failed"], [], name)
            self.assertGreaterEqual(len(one["models_s"]), 20, name)
            self.assertTrue(one["gap_s"], name)
            if name not in ("alone", "processor"):
                self.assertGreater(one["most_at_once"], 0, name)
                self.assertGreater(sum(one["ended"].values()) + sum(one["still"].values()), 0, name)
        self.assertEqual(found["half heads"]["clients"], 50)
        for title in ("One client's times beside attackers", "What became of the attackers"):
            self.assertIn(title, run.stdout)

    def test_usage(self):
        for args, words in ((["--part=speed"], "no part is named 'speed'"), (["--part=tasks"], "--llama DIR"),
                            (["--part=tasks", f"--llama={TOP}"], "--llama DIR"), (["--repeat=0"], "1 or more"),
                            (["--output=1"], "2 or more"), (["--attackers=0"], "1 or more")):
            run = run_bench(*args)
            self.assertEqual(run.returncode, 2, run.stderr)
            self.assertIn(words, run.stderr)


if __name__ == "__main__":
    unittest.main()
