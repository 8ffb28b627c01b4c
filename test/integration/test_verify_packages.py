# SPDX-License-Identifier: Apache-2.0
"""Packages that are compared with their checksums as they are loaded (verify-packages)."""

import re
import shutil
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

import coordgen_pb2 as pb

from daemon import Daemon
from settings import BIN, CACHE, SLOW
from wire import Refused, prompt

REQUEST = prompt("As it was written", 8, ignore_end=True)


class VerifyPackages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """A copy of the default model's package, and a cache of its own for what is noted of it."""
        daemon = Daemon()
        cls.expected = daemon.connect().generate(REQUEST).tokens
        source = re.search(r"imported as (\S+\.cgm)", daemon.log())[1]
        daemon.stop()
        cls.folder = Path(tempfile.mkdtemp(prefix="verify-", dir=CACHE.parent))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.package = cls.folder / "served.cgm"
        shutil.copyfile(source, cls.package)

    def setUp(self):
        self.cache = Path(tempfile.mkdtemp(prefix="cache-", dir=self.folder))

    def flip(self, package=None):
        """The lowest bit of a byte in the middle, which is in a layer; twice is as it was."""
        package = package or self.package
        with open(package, "r+b") as file:
            file.seek(package.stat().st_size // 2)
            byte = file.read(1)[0]
            self.assertNotEqual(byte, 0x81)  # -127 would become -128, which no load takes
            file.seek(-1, 1)
            file.write(bytes([byte ^ 1]))

    def start(self, verify):
        daemon = Daemon(f"--verify-packages={verify}", "--threads=2", model=None, cache=self.cache)
        self.addCleanup(daemon.kill)
        return daemon, daemon.connect(admin=True)

    def load(self, daemon, admin):
        """Loads it, has it answer, and unloads it: MB that were compared."""
        self.assertEqual(admin.load(self.package).state, pb.MODEL_STATE_READY)
        request = pb.GenerateRequest()
        request.CopyFrom(REQUEST)
        request.model = self.package.stem
        tokens = admin.generate(request).tokens
        admin.call(model_unload=pb.ModelUnloadRequest(model=self.package.stem))
        return float(re.findall(r"([\d.]+) MB compared with checksums", daemon.log())[-1]), tokens

    def assert_damaged(self, admin):
        with self.assertRaises(Refused) as caught:
            admin.load(self.package)
        self.assertEqual(caught.exception.code, pb.ERROR_CODE_MODEL_CORRUPT)
        self.assertIn(str(self.package), caught.exception.error.message)
        self.assertRegex(caught.exception.error.message, r"layer \d+ is not as it was written; .*import the model again")

    def test_on(self):
        daemon, admin = self.start("on")
        all_mb = self.package.stat().st_size / 1e6
        for _ in range(2):
            mb, tokens = self.load(daemon, admin)
            self.assertAlmostEqual(mb, all_mb, delta=0.1)
            self.assertEqual(tokens, self.expected)
        self.flip()
        self.addCleanup(self.flip)
        self.assert_damaged(admin)
        daemon.stop()

    def test_auto(self):
        """Its layers once; again when the file has changed."""
        daemon, admin = self.start("auto")
        all_mb = self.package.stat().st_size / 1e6
        mb, tokens = self.load(daemon, admin)
        self.assertAlmostEqual(mb, all_mb, delta=0.1)
        self.assertEqual(tokens, self.expected)
        deadline = time.monotonic() + 30 * SLOW
        while not list((self.cache / "compared").glob("*")):  # not of a file that has changed just now
            self.assertLess(time.monotonic(), deadline, "nothing was noted")
            time.sleep(0.5)
            self.load(daemon, admin)
        daemon.stop()
        daemon, admin = self.start("auto")
        mb, tokens = self.load(daemon, admin)
        self.assertLess(mb, all_mb / 10)
        self.assertEqual(tokens, self.expected)
        self.flip()
        self.addCleanup(self.flip)
        self.assert_damaged(admin)
        daemon.stop()

    def test_imported(self):
        """A package in the cache that an import has made is made again when it is damaged."""
        daemon = Daemon("--threads=2", cache=self.cache)
        self.addCleanup(daemon.kill)
        package = Path(re.search(r"imported as (\S+\.cgm)", daemon.log())[1])
        self.assertEqual(package.parent, self.cache / "models")
        whole = package.read_bytes()
        daemon.stop()
        self.flip(package)
        daemon = Daemon("--threads=2", cache=self.cache, wait=False)
        self.addCleanup(daemon.kill)
        daemon.wait_notice("READY=1")
        deadline = time.monotonic() + 120 * SLOW
        while package.read_bytes() != whole:
            self.assertLess(time.monotonic(), deadline, "it was not made again")
            time.sleep(0.2)
        daemon.wait_model()
        self.assertRegex(daemon.log(), r"layer \d+ is not as it was written")
        self.assertEqual(daemon.connect().generate(REQUEST).tokens, self.expected)
        daemon.stop()
        subprocess.run([BIN / "coordgenctl", "model", "verify", package], check=True, stdout=subprocess.DEVNULL)

    def test_off(self):
        daemon, admin = self.start("off")
        self.flip()
        self.addCleanup(self.flip)
        mb, _ = self.load(daemon, admin)
        self.assertEqual(mb, 0)
        daemon.stop()


if __name__ == "__main__":
    unittest.main()
