# SPDX-License-Identifier: Apache-2.0
"""The image of the weights: made behind the first load, mapped by every later one, answers the same."""

import errno
import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

import coordgen_pb2 as pb

from daemon import Daemon
from settings import BIN, CACHE, SLOW
from wire import prompt

REQUEST = prompt("The image of what is in memory", 24, ignore_end=True)
FLAGS = ("--weights-image=yes", "--threads=2")
AUTO = ("--threads=2",)  # the setting's default


class WeightsImage(unittest.TestCase):
    def setUp(self):
        """A cache of its own, with the package that other tests have imported; where there is none, it is made here."""
        CACHE.mkdir(parents=True, exist_ok=True)
        self.cache = Path(tempfile.mkdtemp(prefix="image-", dir=CACHE.parent))
        self.addCleanup(shutil.rmtree, self.cache)
        self.admins = {}  # connections, by daemon
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

    def run_once(self, *flags, wait=False, base=FLAGS):
        before = [image.stat().st_ctime_ns for image in self.images()]
        daemon = Daemon(*base, *flags, cache=self.cache)
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

    def image(self, daemon):
        if daemon not in self.admins:
            self.admins[daemon] = daemon.connect(admin=True)
        return self.admins[daemon].call(model_show=pb.ModelShowRequest()).model_show.model.image

    def ctl(self, daemon, *words):
        run = subprocess.run([BIN / "coordgenctl", f"--socket={daemon.admin}", *words], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        return run.stdout

    def test_auto(self):
        """Without a word of it: made where the disk has room, then mapped, and told at every stage."""
        daemon = Daemon(*AUTO, cache=self.cache)
        expected = self.answer(daemon)
        self.assertRegex(self.image(daemon), r"^(being written, \d+ of 135|written, 135) MB")
        self.wait_image()
        deadline = time.monotonic() + 10 * SLOW
        while not self.image(daemon).startswith("written"):  # it has its name a moment before that is said
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        self.assertEqual(self.image(daemon), "written, 135 MB: the next load maps it")
        self.assertRegex(self.ctl(daemon, "status"), r"(?m)^ +image: written, 135 MB: the next load maps it$")
        self.assertRegex(self.ctl(daemon, "model", "show"), r"(?m)^Image +written, 135 MB: the next load maps it$")
        daemon.stop()
        daemon = Daemon(*AUTO, cache=self.cache)
        self.assertEqual(self.answer(daemon), expected)
        self.assertEqual(self.image(daemon), "mapped, 135 MB")
        daemon.stop()
        daemon = Daemon(*AUTO, "--weights-image=off", cache=self.cache)
        self.assertEqual(self.image(daemon), "none: weights-image is off")
        daemon.stop()

    def mount(self, size):
        """A disk of its own for images: a file system in a file."""
        disk, file = self.cache / "images", self.cache / "disk"
        disk.mkdir()
        with open(file, "wb") as image:
            image.truncate(size)
        if os.geteuid() != 0 or subprocess.run(["mkfs.ext4", "-q", "-F", file], capture_output=True).returncode or \
                subprocess.run(["mount", "-o", "loop", file, disk], capture_output=True).returncode:
            self.skipTest("needs to mount a small file system: run as root, with loop devices")
        self.addCleanup(subprocess.run, ["umount", "-l", disk], capture_output=True)

    def test_no_room(self):
        """Half of the disk at most, and nobody loses anything by it."""
        self.mount(256 << 20)
        daemon = Daemon(*AUTO, cache=self.cache)
        self.answer(daemon)
        said = "none: it needs 135 MB, and the disk has "
        deadline = time.monotonic() + 10 * SLOW
        while not self.image(daemon).startswith(said):
            self.assertLess(time.monotonic(), deadline, self.image(daemon))
            time.sleep(0.01)
        self.assertRegex(daemon.log(), r"notice engine: no image of the weights: .*: the weights' image would take 13\d\.\d MB")
        daemon.stop()
        self.assertEqual(self.images("*.weights*"), [])

    def stopped_while_writing(self):
        """A daemon that stands still with an image of which it has written a part."""
        for _ in range(5):
            daemon = Daemon(*AUTO, cache=self.cache, wait=False)
            deadline = time.monotonic() + 60 * SLOW
            while not self.images("*.weights*"):
                self.assertLess(time.monotonic(), deadline, "no image was begun")
                time.sleep(0.001)
            daemon.signal(signal.SIGSTOP)
            if not self.images():
                return daemon
            daemon.kill()  # it is whole already: once more
            self.images()[0].unlink()
        self.fail("five images were whole before the daemon could be stopped")

    def test_disk_that_fills(self):
        """While it is written: the file goes, and the disk is as full as before."""
        self.mount(320 << 20)
        daemon = self.stopped_while_writing()
        with self.assertRaises(OSError) as caught, open(self.cache / "images" / "filler", "wb", buffering=0) as filler:
            while True:
                filler.write(bytes(1 << 20))
        self.assertEqual(caught.exception.errno, errno.ENOSPC)
        daemon.signal(signal.SIGCONT)
        daemon.wait_notice("READY=1")
        daemon.wait_model()
        deadline = time.monotonic() + 60 * SLOW
        while self.image(daemon).startswith("being written"):
            self.assertLess(time.monotonic(), deadline, self.image(daemon))
            time.sleep(0.01)
        self.assertEqual(self.image(daemon), "none: it could not be written: No space left on device")
        self.answer(daemon)
        daemon.stop()
        self.assertEqual(self.images("*.weights*"), [])

    def test_in_memory(self):
        """A cache in memory would hold the weights twice."""
        (self.cache / "images").mkdir()
        if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1g", "none", self.cache / "images"],
                                               capture_output=True).returncode:
            self.skipTest("needs to mount a file system: run as root")
        self.addCleanup(subprocess.run, ["umount", "-l", self.cache / "images"], capture_output=True)
        daemon = Daemon(*AUTO, cache=self.cache)
        self.answer(daemon)
        deadline = time.monotonic() + 10 * SLOW
        while self.image(daemon) != "none: the cache folder is in memory, no disk":
            self.assertLess(time.monotonic(), deadline, self.image(daemon))
            time.sleep(0.01)
        daemon.stop()
        self.assertEqual(self.images("*"), [])

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
        """It is tried once more without the image, where there is one, in case that was the fault; here it was not."""
        self.run_once("--weights-image=no")  # for the package
        package = self.cache / "cut.cgm"
        shutil.copy2(next((self.cache / "models").glob("*.cgm")), package)
        with open(package, "r+b") as file:
            file.truncate(package.stat().st_size // 2)
        image = self.cache / "images" / f"cut.cgm-{hashlib.sha256(bytes(package)).hexdigest()[:12]}.weights"
        for tries in (0, 1):
            daemon = Daemon(*FLAGS, cache=self.cache, model=package, wait=False)
            daemon.wait_notice("READY=1")
            daemon.wait_model(state=pb.MODEL_STATE_FAILED)
            self.assertEqual(daemon.log().count("once more without the image"), tries)
            daemon.stop()
            self.assertFalse(image.exists() and not tries)
            image.parent.mkdir(exist_ok=True)
            image.write_bytes(b"of no use")


if __name__ == "__main__":
    unittest.main()
