# SPDX-License-Identifier: Apache-2.0
"""What the service has on disks: told, pruned, and removed with its model."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import coordgen_pb2 as pb

from daemon import SANITIZER, Daemon
from settings import BIN, MODEL, SLOW
from wire import Connection, Refused, prompt

CTL = str(BIN / "coordgenctl")


class Disk(unittest.TestCase):
    """A source and a package in a folder of models, with a cache of their own."""

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="coordgen-disk-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.models, self.cache, self.state = (self.folder / name for name in ("models", "cache", "state"))
        self.models.mkdir()
        (self.models / "source.gguf").symlink_to(MODEL)
        self.daemon = Daemon(f"--model-dir={self.models}", f"--state-dir={self.state}",
                             f"--draftdb-dir={self.folder}/draftdb", "--weights-image=on", model=None, cache=self.cache)
        self.addCleanup(self.daemon.kill)
        self.admin = self.daemon.connect(admin=True)

    def ctl(self, *args, expect=0, **options):
        run = subprocess.run([CTL, f"--socket={self.daemon.admin}", *map(str, args)], capture_output=True, text=True,
                             timeout=120 * SLOW, **{"stdin": subprocess.DEVNULL, **options})
        self.assertFalse(SANITIZER.search(run.stderr), run.stderr)
        self.assertEqual(run.returncode, expect, f"{args}: {run.stdout}{run.stderr}")
        return run

    def json(self, *args):
        return json.loads(self.ctl(*args, "--json=short").stdout)

    def kinds(self, *args):
        """Model and kind of each file, and its name."""
        return {(file["model"], file["kind"]): Path(file["path"]) for file in self.json(*args)["files"]}

    def names(self):
        return {model.name for model in self.admin.call(model_list=pb.ModelListRequest()).model_list.models}

    def load_with_image(self, name):
        self.admin.load(name)
        self.daemon.wait_until(lambda _: list((self.cache / "images").glob("*.weights")), "the image is written", timeout=60)

    def test_disk_and_rm(self):
        self.load_with_image("source")
        imported, = (self.cache / "models").glob("source-*.cgm")
        image, = (self.cache / "images").glob("*.weights")
        # A package beside it, with a pair, and a file that is not the service's own.
        shutil.copyfile(imported, self.models / "package.cgm")
        (self.models / "package.cgm.exit").write_bytes(bytes(5000))
        self.admin.call(model_pair=pb.ModelPairRequest(target="source", draft="package"))
        self.assertTrue((self.state / "model-pairs").read_text().strip())
        kinds = self.kinds("disk")
        self.assertEqual(kinds[("source", "imported")], imported)
        self.assertEqual(kinds[("source", "image")], image)
        self.assertEqual(kinds[("source", "source")], self.models / "source.gguf")
        self.assertEqual(kinds[("package", "package")], self.models / "package.cgm")
        beside, = [file for file in self.json("disk")["files"] if file["path"].endswith("package.cgm.exit")]
        self.assertEqual(beside["kind"], "other")
        told = self.json("disk")
        self.assertEqual(told["total_bytes"], sum(file["bytes"] for file in told["files"]))
        of_source, = [model for model in told["models"] if model["model"] == "source"]
        self.assertEqual(of_source["own_bytes"], 0)  # a link
        self.assertEqual(of_source["imported_bytes"], imported.stat().st_blocks * 512)
        self.assertEqual(of_source["image_bytes"], image.stat().st_blocks * 512)
        self.assertTrue(0 < told["file_systems"][0]["free_bytes"] < told["file_systems"][0]["size_bytes"])
        self.assertRegex(self.ctl("disk").stdout, r"MODEL +FILE +IMPORTED(.*\n)+package .*\nsource (.*\n)+total +\d.*\n(.*: .* free\n)+")
        self.assertRegex(self.ctl("disk", "--files").stdout, r"image +/.*\.weights  \(in use\)")
        # Loaded, with the pair's draft model: it stays, unless it is to be unloaded.
        self.assertIn("is loaded", self.ctl("model", "rm", "source", "--yes", expect=75).stderr)
        self.assertIn("--yes", self.ctl("model", "rm", "source", "--force", expect=2).stderr)
        generation = self.admin.start(prompt("Count: 1 2 3", 2000, ignore_end=True, model="source")).until("generate_delta")
        self.assertIn("in use by", self.ctl("model", "rm", "source", "--force", "--yes", expect=75).stderr)
        self.admin.cancel(generation.id)
        generation.finish()
        plan = self.json("model", "rm", "source", "--dry-run")
        self.assertFalse(plan["removed"])
        self.assertTrue(imported.exists() and self.names() == {"source", "package"})
        removed = self.json("model", "rm", "source", "--force", "--yes")
        self.assertEqual((removed["removed"], {Path(file["path"]) for file in removed["files"]}),
                         (True, {imported, image, self.models / "source.gguf"}))
        self.assertTrue(MODEL.exists())  # the link went, not what it names
        self.assertFalse(imported.exists() or image.exists() or (self.models / "source.gguf").is_symlink())
        self.assertEqual(self.names(), {"package"})
        self.assertFalse(self.admin.call(model_pair_list=pb.ModelPairListRequest()).model_pair_list.pairs)
        self.assertIn("there is no model 'source'", self.ctl("model", "rm", "source", "--yes", expect=1).stderr)
        self.assertRegex(self.daemon.log(), rf"removed by uid {os.geteuid()}: {imported}, \d+ bytes")
        def is_removed(_):
            """It may still be on its way out with its target, or in, as the only model that is left."""
            run = subprocess.run([CTL, f"--socket={self.daemon.admin}", "model", "rm", "package", "--yes", "--force"],
                                 capture_output=True, text=True, timeout=120 * SLOW)
            self.assertIn(run.returncode, (0, 75), run.stderr)
            said.append(run.stdout)
            return run.returncode == 0

        said = []
        self.daemon.wait_until(is_removed, "it is removed")
        self.assertRegex(said[-1], r"package +.*package.cgm\n(.*\n)*Removed: 1 file, ")
        self.assertEqual([path.name for path in self.models.iterdir()], ["package.cgm.exit"])
        self.daemon.stop()

    def test_asks(self):
        leader, follower = os.openpty()
        with os.fdopen(leader, "wb", 0) as terminal, os.fdopen(follower, "rb", 0) as stdin:
            terminal.write(b"n\n")
            run = self.ctl("model", "rm", "source", "--force", expect=1, stdin=stdin)
            self.assertIn("Remove them? [y/N] Nothing is removed.", run.stderr)
            self.assertIn("source.gguf  (a link)", run.stderr)
            terminal.write(b"y\n")
            self.assertIn("Removed: 1 file", self.ctl("model", "rm", "source", "--force", stdin=stdin).stdout)
        self.assertEqual(self.names(), set())
        self.daemon.stop()

    def test_prune(self):
        self.load_with_image("source")
        self.admin.call(model_unload=pb.ModelUnloadRequest(model="source"))
        imported, = (self.cache / "models").glob("source-*.cgm")
        image, = (self.cache / "images").glob("*.weights")
        self.assertEqual(self.json("prune")["files"], [])  # all is needed
        # An import that was killed with finished layers, one that left nothing to go on with, and damaged databases.
        part, journal, lone = (self.models / name for name in ("a.cgm.part", "a.cgm.part.journal", "b.cgm.part.journal"))
        for path in part, journal, lone:
            path.write_bytes(bytes(9000))
        aside = self.folder / "draftdb" / "drafts.db.corrupt-1"
        aside.write_bytes(bytes(9000))
        os.utime(imported)  # another state: its image is of no use any more
        plan = self.json("prune", "--dry-run")
        self.assertEqual({Path(file["path"]) for file in plan["files"]}, {image, lone})
        self.assertTrue(image.exists() and lone.exists())
        done = self.json("prune")
        self.assertEqual((done["removed"], done["total_bytes"]), (True, plan["total_bytes"]))
        self.assertFalse(image.exists() or lone.exists())
        self.assertEqual(self.ctl("prune").stdout, "Removed: 0 files, 0 B\n")
        self.assertTrue(part.exists() and journal.exists() and aside.exists())
        self.assertIn("of an import that can be gone on with", self.ctl("prune", "--imports").stdout)
        self.assertFalse(part.exists() or journal.exists())
        self.assertEqual(self.kinds("prune", "--corrupt"), {(None, "set-aside"): aside})
        self.assertFalse(aside.exists())
        self.assertTrue(imported.exists())
        self.daemon.stop()

    @unittest.skipIf(os.geteuid() != 0, "only root can be two users")
    def test_administrators_only(self):
        nobody = Connection.as_nobody(self.daemon.api)
        self.addCleanup(nobody.close)
        for message in ({"disk": pb.DiskRequest()}, {"prune": pb.PruneRequest()},
                        {"model_remove": pb.ModelRemoveRequest(model="source")}):
            with self.assertRaisesRegex(Refused, "DENIED.*administrators"):
                nobody.call(**message)
        elsewhere = self.folder / "elsewhere.gguf"
        elsewhere.symlink_to(MODEL)
        self.assertEqual(self.names(), {"source"})
        self.daemon.stop()
