# SPDX-License-Identifier: Apache-2.0
"""A model whose layers are not all in memory: the same answers in less memory; a cancel that does not wait for the disk;
a file that goes wrong, a full disk or a kill while the image is made, and the service goes on."""

import os
import re
import resource
import shutil
import signal
import tempfile
import time
import unittest
from pathlib import Path

import coordgen_pb2 as pb

from daemon import Daemon
from settings import CACHE, SANITIZED, SLOW
from wire import Refused, prompt

GREEDY = prompt("A ship wants to know how late it is, and a ledger wants to know", 24, ignore_end=True)
SEEDED = prompt("The tide tables say", 24, ignore_end=True, sampling={"temperature": 0.9, "seed": 11})
LONG_PROMPT = prompt("One clock and two temperatures. " * 60, 4, ignore_end=True)
MIB = 1 << 20


def peak_bytes(daemon):
    return int(re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{daemon.process.pid}/status").read_text())[1]) * 1024


class Streaming(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        Daemon().stop()  # the model is imported once

    def setUp(self):
        CACHE.mkdir(parents=True, exist_ok=True)
        self.cache = Path(tempfile.mkdtemp(prefix="stream-", dir=CACHE.parent))
        self.addCleanup(shutil.rmtree, self.cache)
        for folder in ("models", "models/sources"):
            (self.cache / folder).mkdir()
            for source in (CACHE / folder).glob("*"):
                if source.is_file() and source.suffix in (".cgm", ""):
                    shutil.copy2(source, self.cache / folder / source.name)

    def start(self, *flags, **options):
        daemon = Daemon("--threads=2", "--prefix-cache-max=0", *flags, cache=self.cache, **options)
        self.addCleanup(daemon.kill)
        return daemon

    def answers(self, daemon):
        app = daemon.connect()
        return [app.generate(request).tokens for request in (GREEDY, SEEDED, LONG_PROMPT)]

    def image(self):
        return next((self.cache / "images").glob("*.weights"))

    def test_same_answers_in_less_memory(self):
        daemon = self.start()
        expected = self.answers(daemon)
        whole = daemon.connect().call(model_show=pb.ModelShowRequest()).model_show.model
        self.assertEqual(whole.streamed_layers, 0)
        whole_peak = peak_bytes(daemon)
        daemon.stop()
        for percent in (0, 25, 50):
            for again in range(1 if percent else 2):  # the first one makes the image
                if not again:
                    shutil.rmtree(self.cache / "images", ignore_errors=True)
                daemon = self.start(f"--weights-memory={percent}%")
                self.assertEqual(self.answers(daemon), expected)
                status = daemon.connect().status()
                model = daemon.connect().call(model_show=pb.ModelShowRequest()).model_show.model
                self.assertGreaterEqual(model.streamed_layers, model.layers * (100 - percent) // 100)
                layers_bytes = model.sweep_bytes * model.layers // model.streamed_layers
                ring_bytes = 3 * layers_bytes // model.layers + MIB
                weights = next(account for account in status.memory if account.name == "weights")
                # What is in memory without any layer, the share that was given, and the ring: never more.
                self.assertLessEqual(weights.peak_bytes, whole.weights_bytes - layers_bytes + layers_bytes * percent // 100 +
                                     ring_bytes + 16 * MIB)  # the tokenizer
                if not SANITIZED:
                    self.assertLessEqual(peak_bytes(daemon), whole_peak - model.sweep_bytes + ring_bytes + 24 * MIB)
                daemon.stop()

    def test_layers_in_memory_draft(self):
        """Without a draft model they are tried, seldom, where nothing else is to draft; where none is in memory, or all
        are, there is nothing to try."""
        text = "One clock and two temperatures. One clock and two"
        plain = self.start()
        expected = plain.connect().generate(prompt(text, 40, ignore_end=True, speculation="off")).tokens
        plain.stop()
        for percent, has_any in ((60, True), (0, False), (100, False)):
            daemon = self.start(f"--weights-memory={percent}%")
            app = daemon.connect()
            n_passes = 0
            for _ in range(3 if has_any else 1):
                given = app.generate(prompt(text, 40, ignore_end=True, speculation="model", explain=True))
                explanation = given.done.explanation
                n_passes += explanation.model_passes
                self.assertEqual(given.tokens, expected)
                if not has_any:
                    self.assertEqual(explanation.off, pb.SPECULATION_OFF_NO_SOURCE)
            self.assertEqual(n_passes > 0, has_any)
            given = app.generate(prompt(text, 40, ignore_end=True, speculation="auto", explain=True))
            self.assertEqual(given.tokens, expected)
            self.assertEqual(given.done.explanation.model_passes, 0)  # beside others only where two thirds are
            daemon.stop()

    def test_cancel_while_reading(self):
        daemon = self.start("--weights-memory=0%")
        daemon.stop()
        daemon = self.start("--weights-memory=0%", "--flash-rate=4")  # a sweep takes half a minute
        app = daemon.connect()
        generation = app.start(GREEDY)
        daemon.wait_until(lambda status: status.requests_running == 1, "it runs")
        time.sleep(0.5)
        app.cancel(generation.id)
        result = generation.finish()
        self.assertEqual(result.tokens, [])
        daemon.wait_idle()
        daemon.stop()

    def test_image_cut_in_use(self):
        daemon = self.start("--weights-memory=25%")
        expected = self.answers(daemon)
        image = self.image()
        os.truncate(image, 8 * MIB)
        with self.assertRaises(Refused) as caught:
            daemon.connect(admin=True).generate(GREEDY)
        self.assertEqual(caught.exception.code, pb.ERROR_CODE_MODEL_CORRUPT)
        self.assertIn(str(image), caught.exception.error.message)
        self.assertRegex(caught.exception.error.message, r"layer \d+")
        daemon.wait_until(lambda status: "once more" in daemon.log(), "the model is loaded again")
        daemon.wait_model()
        self.assertEqual(self.answers(daemon), expected)
        daemon.stop()

    def test_image_removed_in_use(self):
        daemon = self.start("--weights-memory=0%")
        expected = self.answers(daemon)
        os.unlink(self.image())
        self.assertEqual(self.answers(daemon), expected)
        daemon.stop()

    def test_killed_while_the_image_is_made(self):
        daemon = self.start()
        expected = self.answers(daemon)
        daemon.stop()
        images = self.cache / "images"
        for delay in (0, 0.02, 0.1):
            daemon = self.start("--weights-memory=0%", wait=False)
            deadline = time.monotonic() + 60 * SLOW
            while not (images.exists() and list(images.iterdir())):
                self.assertLess(time.monotonic(), deadline, "no image was begun")
                time.sleep(0.002)
            time.sleep(delay)
            daemon.process.send_signal(signal.SIGKILL)
            daemon.process.wait()
            daemon.kill()
        daemon = self.start("--weights-memory=0%")
        self.assertEqual(self.answers(daemon), expected)
        self.assertEqual(len(list(images.iterdir())), 1, "what killed loads have left")
        daemon.stop()

    def test_no_room_for_the_image(self):
        def small_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (30 * MIB, 30 * MIB))

        daemon = self.start("--weights-memory=0%", wait=False, preexec=small_files)
        daemon.wait_notice("READY=1")
        model = daemon.wait_model(state=pb.MODEL_STATE_FAILED)
        self.assertIn("images/", daemon.connect(admin=True).call(model_show=pb.ModelShowRequest()).model_show.model.detail)
        self.assertEqual(model.state, pb.MODEL_STATE_FAILED)
        self.assertEqual(list((self.cache / "images").iterdir()), [])
        daemon.stop()

    def test_too_little(self):
        daemon = self.start("--weights-memory=1M", wait=False)
        daemon.wait_notice("READY=1")
        daemon.wait_model(state=pb.MODEL_STATE_FAILED)
        detail = daemon.connect(admin=True).call(model_show=pb.ModelShowRequest()).model_show.model.detail
        least = int(re.search(r"without any layer in memory they take (\d+)", detail)[1])
        daemon.stop()
        daemon = self.start(f"--weights-memory={least}")
        self.assertLessEqual(daemon.connect().call(model_show=pb.ModelShowRequest()).model_show.model.weights_bytes, least)
        daemon.stop()


if __name__ == "__main__":
    unittest.main()
