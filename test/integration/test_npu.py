# SPDX-License-Identifier: Apache-2.0
"""The npu device in the service: the answers of the cpu device on the same package, graphs within their memory, and what
is refused."""

import json
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import coordgen_pb2 as pb

from daemon import Daemon
from settings import BIN, MODEL
from wire import prompt

REQUESTS = (prompt("A ship wants to know how late it is, and a ledger wants to know", 24, ignore_end=True),
            prompt("The tide tables say", 24, ignore_end=True, sampling={"temperature": 0.9, "seed": 11}),
            prompt("One clock and two temperatures. " * 80, 8, ignore_end=True))
MIB = 1 << 20


class Npu(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="npu-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        text = cls.folder / "text"
        text.write_text("".join(f"Line {i} of a text that says little, {i * i} times.\n" for i in range(60)))
        cls.package = cls.folder / "mobile.cgm"
        subprocess.run([BIN / "coordgenctl", "model", "import", MODEL, "--profile", "mobile", "--calibration", text, "-q",
                        "-o", cls.package], check=True, stdout=subprocess.DEVNULL)
        cls.expected = cls.answers(cls.start(device="cpu"))

    @classmethod
    def start(cls, *flags, device="npu", **options):
        options = {"model": cls.package, "cache": cls.folder / "cache", **options}
        return Daemon("--threads=2", "--prefix-cache-max=0", f"--device={device}", *flags, **options)

    @classmethod
    def answers(cls, daemon):
        with daemon.connect() as app:
            tokens = [app.generate(request).tokens for request in REQUESTS]
            cls.status = app.status()
        daemon.stop()
        return tokens

    def graphs_bytes(self):
        return next(account for account in self.status.memory if account.name == "graphs").peak_bytes

    def test_same_answers(self):
        self.assertEqual(self.answers(self.start()), self.expected)
        one_kind = self.graphs_bytes()
        self.assertEqual(len(list((self.folder / "cache" / "images").glob("*.weights"))), 1)
        self.assertEqual(self.answers(self.start("--graph-switch=none", "--graph-blocks=4", "--op-order=position")), self.expected)
        self.assertGreater(self.graphs_bytes(), one_kind * 16 // 10)
        self.assertEqual(self.answers(self.start("--graph-switch=sync", f"--graphs-memory={one_kind}", "--op-order=in-order")),
                         self.expected)

    def test_bench(self):
        run = subprocess.run([BIN / "coordgen-bench", "mobile", "-m", self.package, "-p", "300", "-n", "2", "-r", "1",
                              "--graph-blocks=5", "--json=short"], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        results = json.loads(run.stdout)["results"]
        rows = {row["policy"]: row for row in results if row["test"] == "mobile"}
        self.assertEqual(list(rows), ["none", "sync", "async", "progressive", "progressive, free"])
        for name, row in rows.items():
            self.assertEqual((row["prompt_tokens"], row["output_tokens"], row["chunks"]), (300, 2, 2))
            self.assertGreater(row["total_ms"], row["prefill_ms"])
            self.assertLess(row["peak_bytes"] / row["shared_graph_bytes"], 2.1 if name == "none" else 1.3)
        self.assertGreater(rows["sync"]["prefill_stall_ms"] + rows["sync"]["decode_stall_ms"], 0)
        self.assertGreaterEqual(rows["sync"]["loads"], 10)  # five blocks there and back
        self.assertLessEqual(rows["none"]["loads"], 5)  # those of decoding, where the first request was over before
        self.assertIn("5 blocks", rows["progressive"]["why"])
        orders = [row for row in results if row["test"] == "mobile-order"]
        self.assertEqual([row["order"] for row in orders], ["in-order", "out-of-order", "position", "position, stealing"])
        for row in orders:
            self.assertTrue(0 <= row["npu_bubble"] < 1 and 0 <= row["cpu_bubble"] < 1, row)
            self.assertGreater(row["products"] + row["stolen"], 0)
            self.assertGreater(row["prefill_ms"], 0)

    def test_bench_cold(self):
        run = subprocess.run([BIN / "coordgen-bench", "mobile", "--cold", "-m", self.package, "-p", "40", "-r", "1",
                              "--flash-rate=2000", "--json=short"], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        rows = json.loads(run.stdout)["results"]
        self.assertEqual([row["test"] for row in rows], ["mobile-cold"] * 5)
        self.assertEqual([row["form"] for row in rows[:4]], ["materialised", "packed"] * 2)
        for row in rows:
            self.assertIn(row["form"], ("materialised", "packed"))
            self.assertGreater(row["first_token_ms"], row["read_ms"])
            self.assertGreater(row["read_bytes"], 100e6)
            self.assertEqual(row["expand_ms"] > 0, row["form"] == "packed")
            self.assertGreater(min(row["fill_ms"], row["compute_ms"], row["wait_ms"], row["prefill_ms"]), 0)
            self.assertLessEqual(row["compute_ms"], row["first_token_ms"])
        self.assertTrue(rows[4]["why"].startswith(rows[4]["form"]), rows[4]["why"])

    def test_graph_files(self):
        images = self.folder / "packed-cache" / "images"
        daemon = self.start("--graph-files=packed", f"--cache-dir={images.parent}")
        self.assertEqual(self.answers(daemon), self.expected)
        self.assertEqual(list(images.glob("*.weights")), [])

    def test_too_little_memory(self):
        daemon = self.start("--graphs-memory=20M", wait=False)
        daemon.wait_notice("READY=1")
        daemon.wait_model(state=pb.MODEL_STATE_FAILED)
        with daemon.connect() as app:
            self.assertIn("graphs-memory is 20971520", app.call(model_show=pb.ModelShowRequest()).model_show.model.detail)
        daemon.stop()

    def test_other_package(self):
        """One that was imported for other devices is refused, with what to do."""
        native = self.folder / "native.cgm"
        subprocess.run([BIN / "coordgenctl", "model", "import", MODEL, "-q", "-o", native], check=True, stdout=subprocess.DEVNULL)
        daemon = self.start(model=native, wait=False)
        daemon.wait_notice("READY=1")
        daemon.wait_model(state=pb.MODEL_STATE_FAILED)
        with daemon.connect() as app:
            self.assertIn("--profile mobile", app.call(model_show=pb.ModelShowRequest()).model_show.model.detail)
        daemon.stop()


if __name__ == "__main__":
    unittest.main()
