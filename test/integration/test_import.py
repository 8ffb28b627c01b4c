# SPDX-License-Identifier: Apache-2.0
"""Imports at few bits: killed, cancelled, out of space, two at once; what comes of it is always the same file."""

import errno
import hashlib
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

import coordgen_pb2 as pb

from daemon import SANITIZER, Daemon
from settings import BIN, LONG, MODEL, SANITIZED, SLOW, TOP, whole_model
from wire import Refused, prompt

CTL = BIN / "coordgenctl"
KILLS = 50 if LONG else 3 if SANITIZED else 5
RECIPE_KILLS = 4  # of those that measure first
JOURNAL_HEADER, RECORD_HEAD, DIGEST = 88, 16, 32  # bytes, see importer/files/import_journal.c
made = {}  # options: hash and seconds of an undisturbed import


class ImportCase(unittest.TestCase):
    source, patience = MODEL, 300 * SLOW

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="coordgen-imp-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.out = self.folder / "out" / "m.cgm"
        self.out.parent.mkdir()

    def start(self, *options, out=None):
        environment = dict(os.environ, XDG_CACHE_HOME=str(self.folder / "cache"))
        process = subprocess.Popen([CTL, "model", "import", self.source, "-o", out or self.out, *map(str, options)], env=environment,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: process.poll() is None and process.kill())
        return process

    def end(self, process, code=0):
        stdout, stderr = process.communicate(timeout=self.patience)
        self.assertFalse(SANITIZER.search(stderr), stderr)
        self.assertEqual(process.returncode, code, stderr)
        return stdout, stderr

    def run_import(self, *options, out=None):
        """A whole import; its report."""
        stdout, _ = self.end(self.start("--json=short", *options, out=out))
        return json.loads(stdout)

    def take_hash(self, path=None):
        """The hash of the package, which is removed; nothing may lie beside it."""
        path = path or self.out
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        path.unlink()
        self.assertEqual(list(path.parent.iterdir()), [])
        return digest

    def measure(self, *options):
        """Hash and seconds of an import that nobody disturbs, of a source whose own hash is remembered."""
        self.end(self.start(*options, "--discard"))  # takes that hash and makes nothing
        started = time.monotonic()
        report = self.run_import(*options)
        seconds = time.monotonic() - started
        self.assertEqual(report["resumed_layers"], 0)
        made[options] = self.take_hash(), seconds
        return made[options]

    def undisturbed(self, *options):
        """The same; those of the same options are made once."""
        return made.get(options) or self.measure(*options)

    def recorded(self):
        """Finished layers in the journal: its whole records but the first, which has the widths; -1 without that one."""
        try:
            data = (self.out.parent / "m.cgm.part.journal").read_bytes()
        except FileNotFoundError:
            return -1
        n, at = 0, JOURNAL_HEADER
        while at + RECORD_HEAD <= len(data):
            at += RECORD_HEAD + struct.unpack_from("<8xQ", data, at)[0] + DIGEST
            n += at <= len(data)
        return n - 1


class Stopped(ImportCase):
    BITS = ("--bits", 4.5)

    def killed_with_a_record(self):
        """Kills an import when its journal has a layer; false: it ended before."""
        process = self.start("--json=short", *self.BITS)
        while process.poll() is None and self.recorded() < 1:
            time.sleep(0.001)
        process.kill()
        process.communicate()
        return process.returncode == -signal.SIGKILL

    def killed_after(self, seconds, *options):
        """Kills an import after so many seconds: None; or its report, where it ended before."""
        process = self.start("--json=short", *options)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
        if process.wait() != -signal.SIGKILL:
            return json.loads(self.end(process)[0])
        process.communicate()
        return None

    def judge(self, report, kept, expected, what):
        """A finished import has gone on with all that the journal had, and is the same, with nothing beside it; the
        layers that it had not to make."""
        self.assertEqual(report["resumed_layers"], 0 if report["already_imported"] else kept, what)
        self.assertEqual(self.take_hash(), expected, f"{what}, {report}")
        return report["resumed_layers"]

    def finish(self, expected, what, *options):
        """An import that nobody kills."""
        kept = max(self.recorded(), 0)
        return self.judge(self.run_import(*options), kept, expected, what)

    def kill_at_random(self, n_kills, *options):
        """Kills so many imports at moments that are spread over all the time that one takes, each at random in its part
        of it, and in random order. What is killed lies there for the next one; the last is left alone. The layers that
        finished ones had of those that were killed."""
        expected, seconds = self.measure(*options)
        generator = random.Random(4)
        moments, kills, resumed = [], 0, 0
        while kills < n_kills:
            if not moments:
                moments = [(part + generator.random()) / n_kills * seconds for part in range(n_kills)]
                generator.shuffle(moments)
            kept = max(self.recorded(), 0)
            report = self.killed_after(moments.pop(), *options)
            if report:
                resumed += self.judge(report, kept, expected, f"after {kills} kills")
                continue
            kills += 1
            if self.out.exists():  # the kill came after the rename: the next one has only to clear up
                self.assertEqual(hashlib.sha256(self.out.read_bytes()).hexdigest(), expected, "half a package has the name")
        return resumed + self.finish(expected, f"after {kills} kills", *options)

    def test_killed_at_random_moments(self):
        self.assertGreater(self.kill_at_random(KILLS, *self.BITS), 0)

    @unittest.skipUnless(LONG, "make check-long: takes minutes")
    def test_edgeflow_killed_at_random_moments(self):
        self.kill_at_random(RECIPE_KILLS, "--recipe", "edgeflow", "--bits", 5)

    @unittest.skipUnless(LONG, "make check-long: takes minutes")
    def test_mobile_killed_at_random_moments(self):
        self.kill_at_random(RECIPE_KILLS, "--profile", "mobile")

    def test_killed_with_layers_in_the_journal(self):
        expected, _ = self.undisturbed(*self.BITS)
        for _ in range(4):
            if self.killed_with_a_record():
                break
            self.assertEqual(self.take_hash(), expected)
        self.assertGreater(self.finish(expected, "killed with layers in the journal", *self.BITS), 0)

    @unittest.skipUnless(LONG, "make check-long: takes minutes")
    def test_compensated_killed(self):
        options = ("--recipe", "compensated", "--bits", 4)
        expected, seconds = self.undisturbed(*options)
        process = self.start(*options)
        time.sleep(0.2 * seconds)  # while it measures
        process.kill()
        process.communicate()
        for kills in range(3):
            wanted = max(self.recorded(), 0) + 2
            process = self.start(*options, "--threads", kills + 1)
            while process.poll() is None and self.recorded() < wanted:
                time.sleep(0.01)
            process.kill()
            process.communicate()
            self.assertEqual(process.returncode, -signal.SIGKILL)
        kept = self.recorded()
        report = self.run_import(*options)
        self.assertGreaterEqual(kept, 6)
        self.assertEqual(report["resumed_layers"], kept)
        self.assertEqual(self.take_hash(), expected)

    def has_journal(self):
        try:
            return (self.out.parent / "m.cgm.part.journal").stat().st_size >= JOURNAL_HEADER
        except FileNotFoundError:
            return False

    def start_and_stop(self, *options):
        """An import that stands still with its name in the journal. One that had ended before it was seen is made again."""
        for _ in range(5):
            process = self.start(*options)
            while process.poll() is None and not self.has_journal():
                time.sleep(0.001)
            process.send_signal(signal.SIGSTOP)
            if process.poll() is None:
                now = os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
                if now.si_code == os.CLD_STOPPED and not self.out.exists():
                    return process
                process.send_signal(signal.SIGCONT)
            self.end(process)
            self.take_hash()
        return self.fail("five imports ended before they could be stopped")

    def interrupt(self, seconds):
        """What an import says that SIGINT stopped while it made layers. Another moment's duration is only a guess: where
        the import was quicker than that, less of it is waited for."""
        journal = self.out.parent / "m.cgm.part.journal"
        for part in (0.4, 0.2, 0.1, 0):
            process = self.start(*self.BITS)
            while not journal.exists() and process.poll() is None:
                time.sleep(0.005)
            time.sleep(seconds * part)
            process.send_signal(signal.SIGINT)
            stderr = process.communicate(timeout=300 * SLOW)[1]
            self.assertFalse(SANITIZER.search(stderr), stderr)
            if process.returncode != 0:
                self.assertEqual(process.returncode, 130, stderr)
                return stderr
            self.out.unlink()
        return self.fail("four imports ended before they could be interrupted")

    @whole_model
    def test_cancelled(self):
        expected, seconds = self.undisturbed(*self.BITS)
        stderr = self.interrupt(seconds)
        self.assertFalse(self.out.exists())
        if "nothing is left behind" in stderr:
            self.assertEqual(list(self.out.parent.iterdir()), [])
        else:
            self.assertRegex(stderr, r"\d+ of 31 layers are kept in .*m\.cgm\.part: run the same command again to go on")
        report = self.run_import(*self.BITS)
        if "are kept" in stderr:
            self.assertGreater(report["resumed_layers"], 0)
        self.assertEqual(self.take_hash(), expected)

    def test_discarded(self):
        process = self.start_and_stop(*self.BITS)
        _, stderr = self.end(self.start(*self.BITS, "--discard"), 75)
        self.assertIn(f"process {process.pid} is working on it", stderr)
        process.kill()
        process.communicate()
        _, stderr = self.end(self.start(*self.BITS, "--discard"))
        self.assertIn("are removed", stderr)
        self.assertEqual(list(self.out.parent.iterdir()), [])
        _, stderr = self.end(self.start(*self.BITS, "--discard"))
        self.assertIn("There were no finished layers", stderr)

    def test_two_at_once(self):
        expected, _ = self.undisturbed(*self.BITS)
        first = self.start_and_stop(*self.BITS)
        second = self.start(*self.BITS)
        said = second.stderr.readline()
        first.send_signal(signal.SIGCONT)
        said += self.end(second)[1]
        self.end(first)
        self.assertIn(f"process {first.pid} is making this package: waiting for it", said)
        self.assertIn("Already imported", said)
        self.assertEqual(self.take_hash(), expected)


class Settings(ImportCase):
    def test_threads(self):
        hashes = set()
        for threads in (1, 2, 3) if LONG else (1, 3):
            self.run_import("--recipe", "int8:4.5:embedding-bits=7", "--threads", threads)
            hashes.add(self.take_hash())
        self.assertEqual(len(hashes), 1)

    @whole_model
    def test_report_and_recognition(self):
        report = self.run_import("--recipe", "int8:3:embedding-bits=6:-rotation:-scale-search")
        self.assertEqual((report["recipe"], report["bits"], report["bits_asked"], report["embedding_bits"]), ("int8", 3, 3, 6))
        self.assertEqual((report["layers"], report["resumed_layers"], report["already_imported"]), (31, 0, False))
        self.assertEqual(report["package_bytes"], self.out.stat().st_size)
        self.assertLess(report["package_bytes"], MODEL.stat().st_size)
        if not SANITIZED:
            self.assertLess(report["peak_memory_bytes"], 100 << 20)
        again = self.run_import("--recipe", "int8:3:embedding-bits=6:-rotation:-scale-search")
        self.assertEqual((again["already_imported"], again["bits"]), (True, 3))
        # Other settings under the same name replace it.
        other = self.run_import("--recipe", "int8:3:embedding-bits=6:-rotation")
        self.assertEqual(other["already_imported"], False)
        self.assertEqual(len(list(self.out.parent.iterdir())), 1)

    def test_fractions_are_those_of_coordgen_eval(self):
        """Both programs take 4.7 for the same number: the package of one is the other's."""
        cache = self.folder / "eval"
        subprocess.run([BIN / "coordgen-eval", "perplexity", "--model", MODEL, "--file", TOP / "test/golden/text.txt",
                        "--window=64", "--windows=1", "--recipe=int8:4.7"], env=dict(os.environ, XDG_CACHE_HOME=str(cache)),
                       check=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=300 * SLOW)
        [package] = (cache / "coordgen/models").glob("*.cgm")
        report = self.run_import("--bits", "4.7")
        self.assertEqual(report["bits_asked"], 4.7)
        self.assertEqual(self.take_hash(), hashlib.sha256(package.read_bytes()).hexdigest())

    def test_names_tell_the_settings(self):
        environment = dict(os.environ, XDG_CACHE_HOME=str(self.folder / "cache"), STATE_DIRECTORY=str(self.folder / "state"))
        names = []
        for options in ((), ("--bits", "4.5"), ("--recipe", "int8:4.5:-rotation"),
                        ("--bits", "4", "--recipe", "int8:grid=normal")):
            run = subprocess.run([CTL, "model", "import", MODEL, *options], env=environment, capture_output=True, text=True)
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertEqual(Path(run.stdout.strip()).parent, self.folder / "state/models")
            names.append(Path(run.stdout.strip()).name)
            self.assertIn(f"coordgenctl chat {names[-1].removesuffix('.cgm')}\n", run.stderr)
        stem = MODEL.stem
        self.assertEqual(names[0], f"{stem}.cgm")
        self.assertEqual(names[1:], [f"{stem}-int8-4.5.cgm", f"{stem}-int8-4.5-unrotated.cgm",
                                     f"{stem}-int8-4-normal-grid.cgm"])

    @whole_model
    def test_budget(self):
        budget = 80 << 20
        report = self.run_import("--budget-bytes", "80M")  # by Algorithm 1
        self.assertLessEqual(report["package_bytes"], budget)
        self.assertGreater(report["package_bytes"], budget * 0.97)
        self.assertEqual(report["bits_asked"], 8)
        self.take_hash()
        coarser = self.run_import("--budget-bytes", "80M", "--bits", 8)
        self.assertLessEqual(coarser["package_bytes"], budget)
        self.assertEqual(coarser["bits"], int(coarser["bits"]))  # all channels alike
        self.assertLessEqual(coarser["bits"], report["bits"])
        self.take_hash()
        _, stderr = self.end(self.start("--budget-bytes", "30M"), 2)
        self.assertRegex(stderr, r"the smallest package has \d+ bytes .*, the budget is 31457280 bytes")
        self.assertEqual(list(self.out.parent.iterdir()), [])

    @whole_model
    def test_verify(self):
        report = self.run_import()

        def verify(status):
            run = subprocess.run([CTL, "model", "verify", "--json=short", self.out], capture_output=True, text=True,
                                 timeout=self.patience)
            self.assertEqual(run.returncode, status, run.stderr)
            return json.loads(run.stdout)

        self.assertEqual(verify(0)["verified"], str(self.out))
        with open(self.out, "r+b") as package:
            package.seek(report["package_bytes"] // 2)
            byte = package.read(1)[0]
            package.seek(-1, os.SEEK_CUR)
            package.write(bytes([byte ^ 1]))
        error = verify(1)["error"]
        self.assertEqual(error["code"], "model-corrupt")
        self.assertRegex(error["message"], r"is damaged: layer \d+ is not as it was written")
        self.out.unlink()
        self.assertEqual(verify(1)["error"]["code"], "model-not-found")

    def verify(self, status, *words, json_text=True):
        environment = dict(os.environ, XDG_CACHE_HOME=str(self.folder / "cache"))
        run = subprocess.run([CTL, "model", "verify", *(["--json=short"] if json_text else []), *map(str, words)],
                             env=environment, capture_output=True, text=True, timeout=self.patience)
        self.assertFalse(SANITIZER.search(run.stderr), run.stderr)
        self.assertEqual(run.returncode, status, run.stderr)
        return json.loads(run.stdout) if json_text and run.stdout else run.stdout + run.stderr

    @unittest.skipIf(SANITIZED, "its time is the float device's arithmetic")
    def test_verify_with_the_source(self):
        """Eight bits do no harm, one does much; said in words, in JSON and by the exit status."""
        report = self.verify(0, self.source, "--windows=1")  # imported first
        self.assertRegex(report["verified"], r"cache/coordgen/models/\S+\.cgm$")
        self.assertEqual((report["harm"], report["tokens"]), ("none", 127))
        self.assertLess(report["nats"], 0.01)
        self.assertGreater(report["nats"], 0)
        self.assertAlmostEqual(report["perplexity"] / report["source_perplexity"], 1, delta=0.05)
        self.run_import("--bits=1")
        text = self.folder / "text"
        text.write_text("All that is to be said was said before. " * 60)
        said = self.verify(1, self.out, "--source", self.source, "--windows=1", "--text", text, json_text=False)
        self.assertRegex(said, r"m\.cgm: as it was written\nBeside the source in float32, over 127 tokens: .*\n"
                               r"Quantization did much harm: .*\n")

    def test_verify_refused(self):
        self.run_import()
        other = self.folder / "other.gguf"
        shutil.copyfile(self.source, other)
        with open(other, "r+b") as file:
            file.seek(-1, os.SEEK_END)
            byte = file.read(1)[0]
            file.seek(-1, os.SEEK_END)
            file.write(bytes([byte ^ 1]))
        error = self.verify(2, self.out, "--source", other)["error"]
        self.assertEqual((error["code"], error["field"]), ("invalid-argument", "source"))
        self.assertIn("made of another file", error["message"])
        short = self.folder / "text"
        short.write_text("too short")
        error = self.verify(2, self.out, "--source", self.source, "--text", short)["error"]
        self.assertEqual((error["code"], error["field"]), ("invalid-argument", "text"))
        self.assertRegex(error["message"], r"its \d+ tokens do not fill one window of 256")
        self.assertIn("is a source itself", self.verify(2, self.source, "--source", self.source))
        self.assertIn("need --source", self.verify(2, self.out, "--windows=1"))
        error = self.verify(1, self.out, "--source", self.folder / "none.gguf")["error"]
        self.assertEqual(error["code"], "model-not-found")

    def test_refused(self):
        for options, said in ((("--bits", "0.5"), "give an average from 1 to 8"), (("--bits", "many"), "a number is needed"),
                              (("--recipe", "best"), "one of int8, edgeflow, compensated, compact"),
                              (("--recipe", "int8:embedding-bits=9"), "a whole number from 1 to 8"),
                              (("--recipe", "int8:embedding-bits=0"), "a whole number from 1 to 8"),
                              (("--bits", "4.5", "--recipe", "int8:allocation=uniform"), "give a whole number of bits"),
                              (("--bits", "4.5", "--recipe", "int8:4"), "leave one out"),
                              (("--budget-bytes", "1G", "--recipe", "int8:budget-bytes=5"), "leave one out"),
                              (("--recipe", "int8:allocation=fair"), "allocation is uniform, tensor or model"),
                              (("--recipe", "int8:grid=fine"), "grid is uniform or normal"),
                              (("--no-rotation",), "unknown option"),
                              (("--calibration", "text"), "recipe int8 as it is set looks at no text"),
                              (("--profile", "phone"), "one of native, mobile"),
                              (("--recipe", "int8:hot-channels=3"), "add +static-activations"),
                              (("--profile", "mobile", "--recipe", "int8:hot-channels=101"), "give 0 to 100"),
                              (("--profile", "mobile", "--recipe", "int8:prune-outliers=most"), "is a number of percent"),
                              (("--budget-bytes", "1x"), "a number of bytes is needed")):
            with self.subTest(options=options):
                _, stderr = self.end(self.start(*options), 2)
                self.assertIn(said, stderr)
        self.assertEqual(list(self.out.parent.iterdir()), [])


class Largest(ImportCase):
    source, patience = MODEL.with_name("qwen2.5-coder-1.5b.gguf"), 7200

    @unittest.skipUnless(LONG and source.exists(), "make check-long: takes 20 minutes")
    def test_peak_memory(self):
        """What is measured beforehand takes most; it does not depend on the bits."""
        report = self.run_import("--recipe", "compensated", "--bits", 4)
        self.assertEqual(report["layers"], 29)
        self.assertLess(report["peak_memory_bytes"], 6 << 30)
        print(f"\n{report['seconds']:.0f} s, {report['peak_memory_bytes'] / 1e9:.2f} GB at most", flush=True)


class Space(ImportCase):
    """A disk that is too small for the package, for the journal beside it, or from the start."""

    def setUp(self):
        super().setUp()
        self.disk = self.folder / "disk"
        self.disk.mkdir()
        if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1g", "none", self.disk],
                                               capture_output=True).returncode:
            self.skipTest("needs to mount a small file system: run as root")
        self.addCleanup(subprocess.run, ["umount", "-l", self.disk], capture_output=True)

    def resize(self, n_bytes):
        subprocess.run(["mount", "-o", f"remount,size={n_bytes}", self.disk], check=True)

    def fill(self, path):
        """A file that leaves no block to any other."""
        with self.assertRaises(OSError) as caught, open(path, "wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        self.assertEqual(caught.exception.errno, errno.ENOSPC)
        self.assertEqual(os.statvfs(self.disk).f_bfree, 0)

    def refuse(self, out):
        """The import tells what it needs, and leaves nothing."""
        before = set(self.disk.iterdir())
        stdout, stderr = self.end(self.start("--json=short", "--bits", 4.5, out=out), 1)
        said = rf"{out}: the package needs \d\d+ bytes .*free some space or name another place with -o"
        self.assertRegex(stderr, said)
        self.assertEqual(json.loads(stdout)["error"]["code"], "model-not-ready")
        self.assertEqual(set(self.disk.iterdir()), before)

    def test_disk_full(self):
        out = self.disk / "m.cgm"
        needed = self.run_import("--bits", 4.5, out=out)["package_bytes"]
        expected = self.take_hash(out)
        for n_bytes in (8192, 1 << 20, needed // 2, needed - (1 << 20), needed + 65536):
            with self.subTest(n_bytes=n_bytes):
                self.resize(n_bytes)
                self.refuse(out)
        self.resize(needed + (1 << 20))
        self.run_import("--bits", 4.5, out=out)
        self.assertEqual(self.take_hash(out), expected)
        with self.subTest("not one block is free"):
            self.fill(self.disk / "filler")
            self.refuse(out)


class Served(ImportCase):
    """Packages that the service loads."""

    def test_packed_package(self):
        self.run_import("--recipe", "int8:4.5:embedding-bits=6")
        daemon = Daemon(model=self.out, cache=self.folder / "service")
        with daemon.connect() as connection:
            one = connection.generate(prompt("Name three colours.", 24, ignore_end=True)).tokens
            self.assertEqual(len(one), 24)
            self.assertEqual(connection.generate(prompt("Name three colours.", 24, ignore_end=True)).tokens, one)
        daemon.stop()

    @whole_model
    def test_static_package_cut_short(self):
        """Weights of outliers are read on demand: when the package has lost them the request fails, and nothing else."""
        text = self.folder / "text"
        text.write_text("".join(f"Line {i} of a text that says little, {i * i} times.\n" for i in range(60)))
        report = self.run_import("--profile", "mobile", "--recipe", "int8:hot-channels=0", "--calibration", text)
        self.assertEqual((report["operators"], report["operators_with_shadow"], report["hot_channels"]), (120, 18, 0))
        self.assertTrue(self.run_import("--profile", "mobile", "--recipe", "int8:hot-channels=0", "--calibration", text)["already_imported"])
        shown = subprocess.run([CTL, "model", "show", self.out], capture_output=True, text=True).stdout
        self.assertIn("static-tensor", shown)
        whole = self.out.read_bytes()
        daemon = Daemon(model=self.out, cache=self.folder / "service")
        with daemon.connect() as connection:
            tokens = connection.generate(prompt("Name three colours.", 24, ignore_end=True)).tokens
            os.truncate(self.out, 4096)
            with self.assertRaises(Refused) as refused:
                connection.generate(prompt("An entirely different text: 17, 23, 42.", 24, ignore_end=True))
            self.assertEqual(refused.exception.code, pb.ERROR_CODE_MODEL_CORRUPT)
            self.assertRegex(str(refused.exception), r"m\.cgm: tensor 'blk\.\d+\.\w+\.weight': .* cannot be read: the file is too short")
            with open(self.out, "r+b") as file:
                file.write(whole)
            self.assertEqual(connection.generate(prompt("Name three colours.", 24, ignore_end=True)).tokens, tokens)
        daemon.stop()

    def old_version(self, path):
        """Makes a package one of format version 1."""
        data = bytearray(path.read_bytes())
        at = data.index(b"coordgen.format_version") + len("coordgen.format_version") + 4
        self.assertEqual(struct.unpack_from("<I", data, at)[0], 2)
        struct.pack_into("<I", data, at, 1)
        path.write_bytes(data)

    def test_old_package_in_the_cache_is_made_again(self):
        cache = self.folder / "service"
        Daemon(cache=cache).stop()
        package, = (cache / "models").glob("*.cgm")
        good = package.read_bytes()
        self.old_version(package)
        daemon = Daemon(cache=cache)
        with daemon.connect() as connection:
            self.assertTrue(connection.generate(prompt("Hello", 4, ignore_end=True)).tokens)
        daemon.stop()
        self.assertEqual(package.read_bytes(), good)

    def test_old_package_is_refused(self):
        self.run_import()
        self.old_version(self.out)
        daemon = Daemon(model=None, cache=self.folder / "service")
        with daemon.connect(admin=True) as admin:
            with self.assertRaises(Refused) as caught:
                admin.load(str(self.out), 60 * SLOW)
        self.assertEqual(caught.exception.code, pb.ERROR_CODE_MODEL_CORRUPT)
        self.assertIn("format version 1, this program reads 2: import the model again", str(caught.exception))
        daemon.stop()
