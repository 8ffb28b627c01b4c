# SPDX-License-Identifier: Apache-2.0
"""What files bring: names and texts that are no UTF-8, data that was overwritten, files that shrink while they are used."""

import os
import shutil
import struct
import tempfile
import unittest
from pathlib import Path

import coordgen_pb2 as pb
import gguf

from daemon import Daemon
from wire import Refused, prompt


def gguf_of_strings(keys):
    """A GGUF without a tensor."""
    data = struct.pack("<4sIQQ", b"GGUF", 3, 0, len(keys))
    for key, value in keys.items():
        data += struct.pack("<Q", len(key)) + key + struct.pack("<IQ", 8, len(value)) + value
    return data


class Texts(unittest.TestCase):
    """Replies are read by the strict client of the tests: one that held broken text would end its connection."""

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="coordgen-text-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def test_names_of_files(self):
        names = (b"caf\xe9", b"line\nbreak\x1b[2J", "\u00e9".encode() * 125, b"\xff" * 100)
        for name in names:
            Path(os.fsdecode(os.fsencode(self.folder) + b"/" + name + b".gguf")).write_bytes(gguf.TINY)
        daemon = Daemon(f"--model-dir={self.folder}")
        self.addCleanup(daemon.kill)
        admin = daemon.connect(admin=True)
        models = admin.call(model_list=pb.ModelListRequest()).model_list.models
        listed = {model.name: model for model in models}
        for name in ("caf\\xe9", "line\\x0abreak\\x1b[2J", "\u00e9" * 125, "\\xff" * 63 + "..."):
            self.assertIn(name, listed)
            with self.assertRaises(Refused) as caught:
                admin.load(name)  # known by what was listed, and the file is found
            self.assertEqual(caught.exception.code, pb.ERROR_CODE_MODEL_CORRUPT, caught.exception)
        self.assertEqual(listed["caf\\xe9"].path, f"{self.folder}/caf\\xe9.gguf")
        # They failed, and all of it is in the status; the model that is there still serves.
        self.assertTrue(admin.call(status=pb.StatusRequest()).status.models)
        self.assertTrue(admin.generate(prompt("Still here", 2, ignore_end=True)).tokens)
        self.assertNotIn("\x1b", daemon.log())
        daemon.stop()

    def test_texts_in_files(self):
        daemon = Daemon(model=None)
        self.addCleanup(daemon.kill)
        admin = daemon.connect(admin=True)
        for number, (architecture, shown) in enumerate((("a" + "\u00e9" * 40, "a\u00e9"), ("\u00e9" * 500, "\u00e9..."),
                                                        (b"\xe9\x1b[2J", "\\xe9\\x1b[2J"))):
            path = self.folder / f"text{number}.gguf"
            path.write_bytes(gguf_of_strings({b"general.architecture": architecture if isinstance(architecture, bytes)
                                              else architecture.encode()}))
            with self.assertRaises(Refused) as caught:
                admin.load(path)
            self.assertIn(shown, caught.exception.error.message)
            self.assertTrue(admin.call(status=pb.StatusRequest()).HasField("status"))
        daemon.stop()
