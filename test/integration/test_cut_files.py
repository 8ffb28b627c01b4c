# SPDX-License-Identifier: Apache-2.0
"""Files that somebody cuts short while the service has them mapped: what used them ends with an error that names the
file, and the service lives and goes on."""

import os
import re
import shutil
import tempfile
import time
import unittest
from pathlib import Path

import coordgen_pb2 as pb

from daemon import Daemon, DaemonCase
from settings import CACHE, MODEL, SLOW
from wire import Refused, prompt

REQUEST = prompt("What is still there afterwards", 16, ignore_end=True)
LONG_REQUEST = prompt("What goes on until its file is cut", 2000, ignore_end=True)


class Folder(unittest.TestCase):
    """A folder of its own for files that are cut."""

    def make_folder(self):
        CACHE.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="cut-", dir=CACHE.parent))
        self.addCleanup(shutil.rmtree, folder)
        return folder

    def load_cut(self, admin, path, delay, left_bytes):
        """Cuts a file so long after its load has begun. The refusal, or None where the load was done."""
        request = admin.send(model_load=pb.ModelLoadRequest(model=str(path)))
        time.sleep(delay)
        os.truncate(path, left_bytes)
        try:
            while admin.next(request).WhichOneof("op") != "model_load":
                pass
        except Refused as refused:
            return refused
        return None


class CutInLoad(DaemonCase, Folder):
    """A daemon with a model of its own, and another one's file is cut."""

    flags = ("--threads=2",)

    def package(self):
        """The package of the daemon's model."""
        return Path(re.search(r"imported as (\S+\.cgm)", self.daemon.log())[1])

    def test_package(self):
        folder, admin, app = self.make_folder(), self.connect(admin=True), self.connect()
        expected = app.generate(REQUEST).tokens
        n_refused = 0
        for number, delay in enumerate((0, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.08)):
            path = folder / f"cut{number}.cgm"
            shutil.copyfile(self.package(), path)
            refused = self.load_cut(admin, path, delay, (0, 4096, path.stat().st_size // 2)[number % 3])
            self.assertIsNone(self.daemon.process.poll(), "the daemon has ended")
            if refused:
                n_refused += 1
                self.assertIn(pb.ErrorCode.Name(refused.code),
                              ("ERROR_CODE_MODEL_CORRUPT", "ERROR_CODE_MODEL_NOT_READY"))
                self.assertIn(str(path), refused.error.message)
                # Another model is untouched, and a whole file at that place is loaded.
                self.assertEqual(app.generate(REQUEST).tokens, expected)
                os.unlink(path)
                shutil.copyfile(self.package(), path)
                self.assertEqual(admin.load(path).state, pb.MODEL_STATE_READY)
            request = pb.GenerateRequest()
            request.CopyFrom(REQUEST)
            request.model = path.stem
            self.assertEqual(app.generate(request).tokens, expected)
            admin.call(model_unload=pb.ModelUnloadRequest(model=path.stem))
            os.unlink(path)
        self.assertGreater(n_refused, 1)

    def test_source(self):
        """The import worker has it mapped."""
        folder, admin, app = self.make_folder(), self.connect(admin=True), self.connect()
        expected = app.generate(REQUEST).tokens
        for number, delay in enumerate((0.02, 0.1, 0.3)):
            path = folder / f"cut{number}.gguf"
            shutil.copyfile(MODEL, path)
            with open(path, "r+b") as file:  # another source than that which was imported
                file.seek(-1 - number, os.SEEK_END)
                byte = file.read(1)
                file.seek(-1 - number, os.SEEK_END)
                file.write(bytes([byte[0] ^ 1]))
            refused = self.load_cut(admin, path, delay, (0, 4096, path.stat().st_size // 2)[number % 3])
            self.assertIsNotNone(refused)
            self.assertIn(str(path), refused.error.message)
            self.assertNotIn("signal", refused.error.message)
            self.assertEqual(app.generate(REQUEST).tokens, expected)


class CutInUse(Folder):
    def start(self, *flags, **options):
        daemon = Daemon(*flags, **options)
        self.addCleanup(daemon.kill)
        return daemon

    def assert_cut(self, daemon, path, left_bytes):
        """A generation is under way when the file is cut: it fails, and names it to an administrator."""
        generation = daemon.connect(admin=True).start(LONG_REQUEST).until("generate_delta")
        os.truncate(path, left_bytes)
        with self.assertRaises(Refused) as caught:
            generation.finish()
        self.assertEqual(caught.exception.code, pb.ERROR_CODE_MODEL_CORRUPT)
        self.assertIn(str(path), caught.exception.error.message)
        self.assertIn("cut short", caught.exception.error.message)

    def test_source_of_the_reference_device(self):
        """It reads the GGUF as it computes: the model has failed, until a whole file is loaded."""
        path = self.make_folder() / "served.gguf"
        shutil.copyfile(MODEL, path)
        daemon = self.start("--device=reference", "--threads=2", model=path)
        app, admin = daemon.connect(), daemon.connect(admin=True)
        request = prompt("Two words", 2, ignore_end=True)
        expected = app.generate(request).tokens
        self.assert_cut(daemon, path, 1 << 20)
        for connection in (app, admin):
            with self.assertRaises(Refused) as caught:
                connection.generate(request)
            self.assertEqual(caught.exception.code, pb.ERROR_CODE_MODEL_CORRUPT)
        os.unlink(path)
        shutil.copyfile(MODEL, path)
        self.assertEqual(admin.load(path).state, pb.MODEL_STATE_READY)
        self.assertEqual(app.generate(request).tokens, expected)
        daemon.stop()

    def test_draft_database(self):
        """Its files are in use while they are emptied: no map of them is there to fault, and what is left is set
        aside."""
        daemon = self.start("--threads=2")
        app = daemon.connect()
        for suffix in ("", "-wal", "-shm", ".lock"):
            expected = app.generate(REQUEST).tokens
            path = daemon.folder / "draftdb" / f"drafts.db{suffix}"
            self.assertEqual(path.exists(), suffix != "-shm")
            if suffix != "-shm":
                os.truncate(path, 0)
            for _ in range(3):
                self.assertEqual(app.generate(REQUEST).tokens, expected)
                app.call(draft_db_stats=pb.DraftDbStatsRequest())
                app.call(draft_db_export=pb.DraftDbExportRequest())  # reads every page
                app.call(draft_db_forget=pb.DraftDbForgetRequest(before_s=1))
        app.generate(REQUEST)
        self.assertGreater(app.call(draft_db_stats=pb.DraftDbStatsRequest()).draft_db_stats.users[0].documents, 0)
        maps = Path(f"/proc/{daemon.process.pid}/maps").read_text()
        self.assertNotIn("drafts.db", maps)
        daemon.stop()

    def test_image(self):
        """The weights' image is cut while they are used: the model is loaded again from its package, by itself."""
        cache = self.make_folder()
        for folder in ("models", "models/sources"):
            (cache / folder).mkdir()
            for source in (CACHE / folder).glob("*"):
                if source.is_file() and source.suffix in (".cgm", ""):
                    shutil.copy2(source, cache / folder / source.name)
        flags = ("--weights-image=yes", "--threads=2")
        daemon = self.start(*flags, cache=cache)
        expected = daemon.connect().generate(REQUEST).tokens
        deadline = time.monotonic() + 120 * SLOW
        while not (images := list((cache / "images").glob("*.weights"))):
            self.assertLess(time.monotonic(), deadline, "no image was made")
            time.sleep(0.05)
        daemon.stop()

        daemon = self.start(*flags, cache=cache)
        self.assertEqual(daemon.connect().generate(REQUEST).tokens, expected)
        self.assertIn("mapped image", daemon.log())
        waiting = daemon.connect().start(LONG_REQUEST)
        self.assert_cut(daemon, images[0], 1 << 20)
        with self.assertRaises(Refused):
            waiting.finish()
        self.assertFalse(images[0].exists())

        def is_ready(status):
            return "once more without the image" in daemon.log()

        daemon.wait_until(is_ready, "the model is loaded from its package")
        daemon.wait_model()
        self.assertEqual(daemon.connect().generate(REQUEST).tokens, expected)
        daemon.stop()

        daemon = self.start(*flags, cache=cache)
        self.assertEqual(daemon.connect().generate(REQUEST).tokens, expected)
        daemon.stop()


if __name__ == "__main__":
    unittest.main()
