# SPDX-License-Identifier: Apache-2.0
"""The image of the weights: made behind the first load, mapped by every later one, answers the same."""

import shutil
import signal
import tempfile
import time
import unittest
from pathlib import Path

import coordgen_pb2 as pb

from daemon import Daemon
from settings import CACHE, SLOW
from wire import prompt

REQUEST = prompt("The image of what is in memory", 24, ignore_end=True)
FLAGS = ("--weights-image=yes", "--threads=2")


class WeightsImage(unittest.TestCase):
    def setUp(self):
        """A cache of its own, with the package that other tests have imported; where there is none, it is made here."""
        CACHE.mkdir(parents=True, exist_ok=True)
        self.cache = Path(tempfile.mkdtemp(prefix="image-", dir=CACHE.parent))
        self.addCleanup(shutil.rmtree, self.cache)
        for folder in ("models", "models/sources"):
            (self.cache / folder).mkdir()
            for source in (CACHE / folder).glob("*"):
                if source.is_file() and source.suffix in (".cgm", ""):
                    shutil.copy2(source, self.cache / folder / source.name)

    def images(self, pattern="*.weights"):
        return sorted((self.cache / "images").glob(pattern))

    def wait_image(self, before=()):
        """Until there is one that is not among those of before (times of change)."""
        deadline = time.monotonic() + 120 * SLOW
        while not [image for image in self.images() if image.stat().st_ctime_ns not in before]:
            self.assertLess(time.monotonic(), deadline, "no image was made")
            time.sleep(0.05)

    def answer(self, daemon):
        return daemon.connect().generate(REQUEST).tokens

    def run_once(self, *flags, wait=False):
        before = [image.stat().st_ctime_ns for image in self.images()]
        daemon = Daemon(*FLAGS, *flags, cache=self.cache)
        tokens = self.answer(daemon)
        if wait:
            self.wait_image(before)
        log = daemon.log()
        daemon.stop()
        return tokens, "mapped image" in log

    def test_made_then_mapped(self):
        expected, is_mapped = self.run_once(wait=True)
        self.assertFalse(is_mapped)
        self.assertEqual(len(self.images()), 1)
        self.assertEqual(self.run_once(), (expected, True))
        # Made by any instruction set, read by any.
        self.assertEqual(self.run_once("--isa=scalar"), (expected, True))
        self.assertEqual(self.run_once("--weights-image=no"), (expected, False))

    def test_damaged(self):
        expected, _ = self.run_once(wait=True)
        image = self.images()[0]
        with open(image, "r+b") as file:
            file.truncate(image.stat().st_size // 2)
        self.assertEqual(self.run_once(wait=True), (expected, False))
        self.assertEqual(self.run_once(), (expected, True))

    def test_one_bit(self):
        """Of its integers: found before anything is computed with it; the package is loaded, and the next load makes it anew."""
        expected, _ = self.run_once(wait=True)
        image = self.images()[0]
        with open(image, "r+b") as file:
            file.seek(image.stat().st_size // 2)
            byte = file.read(1)[0]
            file.seek(-1, 1)
            file.write(bytes([byte ^ 1]))
        daemon = Daemon(*FLAGS, cache=self.cache, wait=False)
        daemon.wait_notice("READY=1")
        deadline = time.monotonic() + 60 * SLOW
        admin = daemon.connect(admin=True)
        while admin.call(model_show=pb.ModelShowRequest()).model_show.model.state != pb.MODEL_STATE_READY:
            self.assertLess(time.monotonic(), deadline, "the package was not loaded")  # failed for a moment
            time.sleep(0.05)
        self.assertEqual(self.answer(daemon), expected)
        self.assertRegex(daemon.log(), r"matrix \d+ is not as it was written")
        self.assertIn("once more without the image", daemon.log())
        daemon.stop()
        self.assertEqual(self.images(), [])
        self.assertEqual(self.run_once(wait=True), (expected, False))
        self.assertEqual(self.run_once(), (expected, True))

    def test_killed_while_it_is_written(self):
        """Whenever it is killed: nothing under the image's name, or all of it."""
        expected, _ = self.run_once("--weights-image=no")
        for delay in (0, 0.02, 0.05, 0.1, 0.2):
            shutil.rmtree(self.cache / "images", ignore_errors=True)
            daemon = Daemon(*FLAGS, cache=self.cache)
            deadline = time.monotonic() + 60 * SLOW
            while not self.images("*"):
                self.assertLess(time.monotonic(), deadline, "no image was begun")
                time.sleep(0.001)
            time.sleep(delay)
            daemon.expected_to_end = True
            daemon.signal(signal.SIGKILL)
            daemon.wait_exit()
            is_whole = bool(self.images())
            daemon.kill()
            self.assertEqual(self.run_once(), (expected, is_whole))
            if is_whole:  # else the last one may have been stopped while it wrote
                self.assertEqual(self.images("*.tmp-*"), [])

    def test_load_that_fails(self):
        """It is tried once more without an image, in case that was the fault; here it was not."""
        self.run_once("--weights-image=no")  # for the package
        package = self.cache / "cut.cgm"
        shutil.copy2(next((self.cache / "models").glob("*.cgm")), package)
        with open(package, "r+b") as file:
            file.truncate(package.stat().st_size // 2)
        daemon = Daemon(*FLAGS, cache=self.cache, model=package, wait=False)
        daemon.wait_notice("READY=1")
        daemon.wait_model(state=pb.MODEL_STATE_FAILED)
        self.assertEqual(daemon.log().count("once more without the image"), 1)
        daemon.stop()
        self.assertEqual(self.images(), [])


if __name__ == "__main__":
    unittest.main()
