# SPDX-License-Identifier: Apache-2.0
"""Model files: listing, loading and unloading; damaged files; a full disk during the import."""

import atexit
import contextlib
import functools
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
import gguf

from daemon import SANITIZER, Daemon, DaemonCase
from settings import BIN, LONG, MODEL, SANITIZED, SLOW, whole_model
from wire import Connection, Refused, prompt

CTL = BIN / "coordgenctl"


def run_ctl(*args, **options):
    return subprocess.run([CTL, *map(str, args)], capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL,
                          timeout=300 * SLOW, **options)


@functools.cache
def imported():
    """The model's package, made once for all of this module: many tests begin with one."""
    folder = Path(tempfile.mkdtemp(prefix="coordgen-pkg-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    run = run_ctl("model", "import", MODEL, "-o", folder / "model.cgm")
    if run.returncode:
        raise AssertionError(run.stderr)
    return folder / "model.cgm"


class Models(DaemonCase):
    @whole_model
    def test_list_and_show(self):
        connection = self.connect()
        models = connection.call(model_list=pb.ModelListRequest()).model_list.models
        default, = [model for model in models if model.is_default]
        self.assertEqual(default.state, pb.MODEL_STATE_READY)
        self.assertEqual(default.architecture, "llama")
        self.assertEqual(default.vocabulary, 49152)
        self.assertEqual(default.chat_format, "template (takes no tools)")
        self.assertEqual(list(default.chat_takes), [])
        self.assertGreater(default.parameters, 130e6)
        self.assertGreater(default.kv_bytes_per_token, 0)
        shown = connection.call(model_show=pb.ModelShowRequest(model=default.name)).model_show.model
        self.assertEqual(shown.name, default.name)
        self.assertEqual(shown.weights_bytes, default.weights_bytes)
        self.assertEqual(len(shown.source_sha256), 64)

    def test_unload_and_load(self):
        admin, app = self.connect(admin=True), self.connect()
        name = app.call(model_show=pb.ModelShowRequest()).model_show.model.name
        expected = app.generate(prompt("Before and after", 8, ignore_end=True)).tokens
        admin.call(model_unload=pb.ModelUnloadRequest(model=name))
        self.assertEqual(app.account("weights"), 0)
        self.assertEqual(admin.load(name).state, pb.MODEL_STATE_READY)
        self.assertEqual(app.generate(prompt("Before and after", 8, ignore_end=True)).tokens, expected)

    def test_unload_of_a_model_in_use(self):
        admin, app = self.connect(admin=True), self.connect()
        name = app.call(model_show=pb.ModelShowRequest()).model_show.model.name
        generation = app.start(prompt("Count: 1 2 3", 2000, ignore_end=True)).until("generate_delta")
        self.assertRefused(pb.ERROR_CODE_MODEL_IN_USE, admin.call, model_unload=pb.ModelUnloadRequest(model=name))
        app.cancel(generation.id)
        generation.finish()

    def test_load_of_what_is_not_a_model(self):
        admin = self.connect(admin=True)
        folder = Path(tempfile.mkdtemp(prefix="coordgen-bad-"))
        self.addCleanup(shutil.rmtree, folder)
        bad = folder / "bad.gguf"
        bad.write_bytes(b"GGUF" + b"\xff" * 4000)
        for path, codes in ((bad, (pb.ERROR_CODE_MODEL_CORRUPT,)), (folder / "none.gguf", (pb.ERROR_CODE_MODEL_NOT_FOUND, pb.ERROR_CODE_MODEL_NOT_READY)),
                            (folder, (pb.ERROR_CODE_MODEL_CORRUPT, pb.ERROR_CODE_MODEL_NOT_FOUND,
                                      pb.ERROR_CODE_INVALID_ARGUMENT))):
            with self.subTest(path=path):
                with self.assertRaises(Refused) as caught:
                    admin.load(path)
                self.assertIn(caught.exception.code, codes, caught.exception)
                self.assertIn(path.name, caught.exception.error.message)
        # The model that was there is untouched.
        self.assertTrue(self.connect().generate(prompt("Still here", 2, ignore_end=True)).tokens)


class EndToken(DaemonCase):
    """A model whose metadata asks for an EOS behind each text."""

    def test_prompt_is_continued(self):
        folder = Path(tempfile.mkdtemp(prefix="coordgen-eos-"))
        self.addCleanup(shutil.rmtree, folder)
        key, data = b"tokenizer.ggml.add_bos_token" + struct.pack("<I", 7), MODEL.read_bytes()
        self.assertEqual(data.count(key + b"\0"), 1)
        path = folder / "eos.gguf"
        path.write_bytes(data.replace(key + b"\0", key.replace(b"_bos_", b"_eos_") + b"\1"))
        del data
        admin, text = self.connect(admin=True), "The lighthouse stood on a"
        plain = admin.generate(prompt(text, 8, ignore_end=True))
        name = admin.load(path).name
        whole = admin.call(tokenize=pb.TokenizeRequest(model=name, text=text, add_special=True)).tokenize.tokens
        alone = admin.call(tokenize=pb.TokenizeRequest(model=name, text=text)).tokenize.tokens
        self.assertEqual(list(whole), [*alone, 2])
        continued = admin.generate(prompt(text, 8, ignore_end=True, model=name))
        self.assertEqual(continued.tokens, plain.tokens)
        self.assertEqual(continued.done.usage.prompt_tokens, len(alone))
        admin.call(model_unload=pb.ModelUnloadRequest(model=name))


    def test_time_of_a_load(self):
        """A request that comes with the load is told what it waited for it, once."""
        admin = self.connect(admin=True)
        name = admin.call(model_show=pb.ModelShowRequest()).model_show.model.name
        admin.call(model_unload=pb.ModelUnloadRequest(model=name))
        load = admin.send(model_load=pb.ModelLoadRequest(model=name))
        for is_loading in (True, False):
            timings = admin.generate(prompt("The lighthouse stood on a", 4, no_reuse=True)).done.timings
            self.assertEqual(timings.load_us > 0, is_loading, timings)
            self.assertGreater(timings.prefill_us, 0)
            parts = timings.queue_us + timings.load_us + timings.prefill_us + timings.decode_us
            self.assertLessEqual(parts, timings.total_us * 1.02 + 1000, timings)
            while is_loading and admin.next(load).WhichOneof("op") != "model_load":
                pass


class UnknownKey(DaemonCase):
    """A key of the architecture that nobody here knows is named wherever the file is taken in, and so is an id of no token."""

    def test_import_and_load_name_it(self):
        folder = Path(tempfile.mkdtemp(prefix="coordgen-key-"))
        self.addCleanup(shutil.rmtree, folder)
        data = MODEL.read_bytes()
        self.assertEqual(data.count(b"llama.vocab_size"), 1)
        path, package = folder / "novel.gguf", folder / "novel.cgm"
        data = data.replace(b"llama.vocab_size", b"llama.vocab_tint")
        padding = b"tokenizer.ggml.padding_token_id"
        value = data.index(padding) + len(padding)
        self.assertEqual(data[value : value + 4], b"\x04\0\0\0")  # u32
        path.write_bytes(data[:value] + b"\x05\0\0\0" + b"\xff" * 4 + data[value + 8 :])  # i32, -1
        del data
        run = run_ctl("model", "import", path, "-o", package)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(run.stderr.count("'llama.vocab_tint' is not known"), 1, run.stderr)
        self.assertIn(f"'{padding.decode()}' is -1; the model has tokens 0 to", run.stderr)
        admin = self.connect(admin=True)
        name = admin.load(package).name
        self.assertEqual(self.daemon.log().count("'llama.vocab_tint' is not known"), 1)
        admin.call(model_unload=pb.ModelUnloadRequest(model=name))


class Paths(unittest.TestCase):
    """One file is one model, whatever its path; what is not in the folder is known as long as it is loaded."""

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="coordgen-paths-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.models = self.folder / "models"
        self.models.mkdir()
        self.package = self.folder / "package.cgm"
        shutil.copyfile(imported(), self.package)
        self.daemon = Daemon(f"--model-dir={self.models}/", model=None)
        self.addCleanup(self.daemon.kill)
        self.admin = self.daemon.connect(admin=True)

    def states(self):
        return {model.name: model.state for model in self.admin.call(model_list=pb.ModelListRequest()).model_list.models}

    def test_folder_with_a_slash(self):
        (self.models / "u.cgm").symlink_to(self.package)
        self.assertEqual(self.states(), {"u": pb.MODEL_STATE_AVAILABLE})
        for path in (self.models / "u.cgm", f"{self.models}//u.cgm"):
            self.assertEqual(self.admin.load(path).name, "u")
        self.assertEqual(self.admin.load("u").path, f"{self.models}/u.cgm")
        self.assertEqual(self.states(), {"u": pb.MODEL_STATE_READY})
        self.daemon.stop()

    def test_the_only_one_is_the_default(self):
        user = Connection.as_nobody(self.daemon.api)
        self.addCleanup(user.close)
        once = prompt("Once", 2)
        with self.assertRaisesRegex(Refused, f"MODEL_NOT_FOUND.*{self.models}.*coordgenctl model import FILE.gguf"):
            user.generate(once)
        shutil.copyfile(self.package, self.models / "only.cgm")
        self.assertEqual(user.generate(once).done.model, "only")
        [model] = self.admin.call(model_list=pb.ModelListRequest()).model_list.models
        self.assertTrue(model.is_default)
        # Who has unloaded it wants its memory back: only who names it has it loaded again.
        self.admin.call(model_unload=pb.ModelUnloadRequest(model="only"))
        with self.assertRaisesRegex(Refused, "MODEL_NOT_READY.*coordgenctl model load only"):
            user.generate(once)
        self.assertEqual(user.generate(prompt("Once", 2, model="only")).done.model, "only")
        self.assertEqual(user.generate(once).done.model, "only")
        # It stays the default when others come.
        shutil.copyfile(self.package, self.models / "a-second.cgm")
        self.assertEqual(len(self.states()), 2)
        self.assertEqual(user.generate(once).done.model, "only")
        self.daemon.stop()

    def test_link_in_the_folder(self):
        (self.models / "t.cgm").symlink_to(self.package)
        self.assertEqual(self.admin.load(self.package).name, "t")
        self.assertEqual(self.admin.load("t").name, "t")
        self.assertEqual(self.states(), {"t": pb.MODEL_STATE_READY})
        # Two names of one file are two models; by its path it is the one that is loaded.
        (self.models / "a.cgm").symlink_to(self.package)
        self.assertEqual(self.states(), {"t": pb.MODEL_STATE_READY, "a": pb.MODEL_STATE_AVAILABLE})
        self.assertEqual(self.admin.load(self.package).name, "t")
        self.daemon.stop()

    def test_forgotten_when_unloaded(self):
        (self.models / "t.cgm").symlink_to(self.package)
        other = self.folder / "other.cgm"
        shutil.copyfile(self.package, other)
        for _ in range(2):
            self.assertEqual(self.admin.load(other).name, "other")
            self.assertEqual(self.admin.load("t").name, "t")
            for name in ("other", "t"):
                self.admin.call(model_unload=pb.ModelUnloadRequest(model=name))
            self.assertEqual(self.states(), {"t": pb.MODEL_STATE_AVAILABLE})
        # Whoever asks for it does not wait.
        self.admin.load(other)
        with self.daemon.connect(admin=True) as leaver:
            leaver.send(model_unload=pb.ModelUnloadRequest(model="other"))
        self.daemon.wait_until(lambda _: "other" not in self.states(), "it is forgotten")
        self.assertRefused(pb.ERROR_CODE_MODEL_NOT_FOUND, "other")
        self.daemon.stop()

    def test_removed_file(self):
        """Neither loaded nor on the disk: there is no such model, for whoever asks for it."""
        shutil.copyfile(self.package, self.models / "gone.cgm")
        self.admin.load("gone")
        (self.models / "gone.cgm").unlink()
        time.sleep(0.2)  # the scan that misses the file is old enough to count for a second
        self.assertEqual(self.states(), {"gone": pb.MODEL_STATE_READY})
        self.assertTrue(self.admin.generate(prompt("Once", 2, model="gone")).tokens)
        self.admin.call(model_unload=pb.ModelUnloadRequest(model="gone"))
        for ask in (lambda: self.admin.load("gone"), lambda: self.admin.generate(prompt("Once", 2, model="gone")),
                    lambda: self.admin.call(model_show=pb.ModelShowRequest(model="gone")),
                    lambda: self.admin.call(model_unload=pb.ModelUnloadRequest(model="gone"))):
            with self.assertRaisesRegex(Refused, "MODEL_NOT_FOUND.*'gone'"):
                ask()
        self.assertEqual(self.states(), {})
        # A link whose file goes: the folder itself does not change.
        target = self.folder / "target.cgm"
        shutil.copyfile(self.package, target)
        (self.models / "link.cgm").symlink_to(target)
        self.assertEqual(self.states(), {"link": pb.MODEL_STATE_AVAILABLE})
        target.unlink()
        with self.assertRaisesRegex(Refused, "MODEL_NOT_FOUND.*'link'"):
            self.admin.load("link")
        self.daemon.stop()

    @whole_model
    def test_what_is_no_model(self):
        """It neither is listed nor takes the default away; who names it is told what it is, here and by an import."""
        shutil.copyfile(self.package, self.models / "only.cgm")
        data = MODEL.read_bytes()
        files = {"mmproj-eye": (gguf.with_type(b"mmproj"), "is a vision projector.*not a language model"),
                 "eye": (gguf.with_type(b"mmproj"), "is a vision projector.*not a language model"),
                 "lora": (gguf.with_type(b"adapter"), "is an adapter.*not a language model"),
                 "imatrix": (gguf.with_type(b"imatrix"), "is an importance matrix"),
                 "big-00002-of-00003": (data[:5000], "is shard 2 of 3 of a model: load big-00001-of-00003.gguf"),
                 "half": (data[:81_000_000], "is cut short: 81 of 98 MB are there; fetch it again"),
                 "begun": (b"", "is cut short")}
        for name, (content, text) in files.items():
            path = self.models / f"{name}.gguf"
            path.write_bytes(content)
            self.assertEqual(self.states(), {"only": pb.MODEL_STATE_AVAILABLE}, name)
            with self.assertRaisesRegex(Refused, f"MODEL_NOT_FOUND.*there is no model '{name}': {name}.gguf: {text}"):
                self.admin.load(name)
            with self.assertRaisesRegex(Refused, text if content else "empty"):
                self.admin.load(path)
            run = run_ctl("model", "import", path, "-o", self.folder / "out.cgm")
            self.assertNotEqual(run.returncode, 0)
            self.assertRegex(run.stderr, f"{name}.gguf: {text}" if content else "empty")
        self.assertTrue(Connection.as_nobody(self.daemon.api).generate(prompt("Once", 2)).tokens)
        # A download that goes on.
        with open(self.models / "half.gguf", "ab") as file:
            file.write(data[81_000_000:])
        self.daemon.wait_until(lambda _: "half" in self.states(), "it is whole")
        self.daemon.stop()

    def test_model_in_several_files(self):
        parts = gguf.split(MODEL, self.models, "big", 3)
        aside = parts[1].rename(self.folder / "aside")
        self.assertEqual(self.states(), {})
        with self.assertRaisesRegex(Refused, "MODEL_NOT_FOUND.*shard 2 of 3 of the model is missing: fetch it too"):
            self.admin.load("big")
        aside.rename(parts[1])
        [model] = self.admin.call(model_list=pb.ModelListRequest()).model_list.models
        self.assertEqual((model.name, model.file_bytes, model.is_default),
                         ("big", sum(path.stat().st_size for path in parts), True))
        self.assertEqual(self.admin.load("big").state, pb.MODEL_STATE_READY)
        shutil.copyfile(self.package, self.models / "whole.cgm")
        whole, big = (self.admin.generate(prompt("Once", 8, model=name)).tokens for name in ("whole", "big"))
        self.assertEqual(whole, big)
        self.daemon.stop()

    def assertRefused(self, code, name):
        with self.assertRaises(Refused) as caught:
            self.admin.load(name)
        self.assertEqual(caught.exception.code, code)


class BadModelAtStart(unittest.TestCase):
    def test_service_runs_and_says_what_is_wrong(self):
        folder = Path(tempfile.mkdtemp(prefix="coordgen-bad-"))
        self.addCleanup(shutil.rmtree, folder)
        bad = folder / "cut.gguf"
        with open(MODEL, "rb") as model:
            bad.write_bytes(model.read(5_000_000))
        daemon = Daemon(f"--model={bad}", model=None, wait=False, cache=folder / "cache")
        daemon.wait_notice("READY=1")
        shown = daemon.wait_model(60, pb.MODEL_STATE_FAILED)
        self.assertIn("cut.gguf", shown.detail)
        with self.assertRaises(Refused) as caught:
            daemon.connect().generate(prompt("Hello", 2))
        self.assertIn(caught.exception.code, (pb.ERROR_CODE_MODEL_CORRUPT, pb.ERROR_CODE_MODEL_NOT_READY))
        daemon.stop()


class Damaged(unittest.TestCase):
    def loads(self, daemon, admin, path, cut):
        """Whether the daemon loads a damaged file: else its error names the file. One that is cut short it must refuse."""
        try:
            name = admin.load(path).name
        except Refused as error:
            self.assertIn(path.stem, error.error.message)
            return False
        self.assertFalse(cut, f"{path.name}: a file that was cut short was loaded")
        # It is a model all the same: it must not break what runs it.
        try:
            admin.generate(prompt("Hello", 2, ignore_end=True, model=name))
        except Refused:
            pass
        daemon.wait_idle()
        admin.call(model_unload=pb.ModelUnloadRequest(model=name))
        return True


class DamagedFiles(Damaged):
    """Damaged models, half of them seen by `model show` and `model import`, half loaded by a running daemon. Each gives
    an error that names the file, or is a file that is still valid; nothing crashes."""

    N = 24 if SANITIZED else 100 if LONG else 40

    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="coordgen-mut-"))
        cls.real = MODEL.read_bytes()
        cls.head = cls.header_bytes(cls.real)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    @staticmethod
    def header_bytes(data):
        """Where the metadata ends: mutations aim there. Found by walking the keys, as any reader must."""
        sizes = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
        n_tensors, n_keys = struct.unpack_from("<QQ", data, 8)
        at = 24

        def string(at):
            return at + 8 + struct.unpack_from("<Q", data, at)[0]

        def value(kind, at):
            if kind == 8:
                return string(at)
            if kind == 9:
                element, n = struct.unpack_from("<IQ", data, at)
                at += 12
                if element in sizes:
                    return at + n * sizes[element]
                for _ in range(n):
                    at = value(element, at)
                return at
            return at + sizes[kind]

        for _ in range(n_keys):
            at = string(at)
            kind, = struct.unpack_from("<I", data, at)
            at = value(kind, at + 4)
        for _ in range(n_tensors):
            at = string(at)
            n_dims, = struct.unpack_from("<I", data, at)
            at += 4 + 8 * n_dims + 4 + 8
        return at

    def mutant(self, number):
        """A file, and whether it is cut short (then it cannot be valid)."""
        generator = random.Random(number)
        path = self.folder / f"mutant-{number}.gguf"
        kind = number % 4
        if kind == 0:  # cut off, in the metadata or in the data
            n_bytes = generator.randrange(self.head) if number % 8 else generator.randrange(self.head, len(self.real))
            path.write_bytes(self.real[:n_bytes])
            return path, True
        data = bytearray(self.real)
        # The vocabulary fills most of the metadata: half of the mutations aim at its ends, where counts, types and
        # tensor offsets are.
        def place():
            spots = ((0, 1500), (self.head - 20000, self.head), (0, self.head))
            return generator.randrange(*spots[generator.randrange(3)])
        if kind == 1:  # a few bytes
            for _ in range(generator.randrange(1, 8)):
                data[place()] = generator.randrange(256)
        elif kind == 2:  # a number that is far too large, or negative
            at = place()
            data[at:at + 8] = struct.pack("<Q", generator.choice((2**64 - 1, 2**63, 2**32, 2**31, 2**60 + 7, 0)))
        else:  # bytes lost or put in: everything after them moves
            at = place()
            data[at:at + (0 if number % 8 == 3 else 3)] = bytes(generator.randrange(256) for _ in range(5 if number % 8 == 3 else 0))
        path.write_bytes(data)
        return path, False

    def test_show_and_import(self):
        refused = 0
        for number in range(self.N):
            path, cut = self.mutant(number)
            for command in (("model", "show", path), ("model", "import", path, "-o", self.folder / "out.cgm")):
                run = run_ctl(*command)
                said = run.stdout[-500:] + run.stderr[-3000:]
                self.assertFalse(SANITIZER.search(run.stderr), f"{command}: {said}")
                self.assertIn(run.returncode, (0, 1), f"{command}: {said}")
                if run.returncode:
                    self.assertIn(path.name, run.stderr, f"{command}: the error does not name the file")
                    refused += 1
                    if command[1] == "import":
                        self.assertEqual(list(self.folder.glob("out*")), [], "a failed import left something")
                else:
                    self.assertFalse(cut, f"{command}: a file that was cut short was accepted")
                    for left in self.folder.glob("out*"):
                        left.unlink()
            path.unlink()
        self.assertGreater(refused, self.N // 2)

    def test_load_by_the_daemon(self):
        cache = self.folder / "cache"
        daemon = Daemon(model=None, cache=cache)
        admin = daemon.connect(admin=True)
        refused = 0
        for number in range(1000, 1000 + self.N):
            path, cut = self.mutant(number)
            refused += not self.loads(daemon, admin, path, cut)
            path.unlink()
            for package in cache.rglob("*.cgm"):
                package.unlink()
        self.assertGreater(refused, self.N // 2)
        self.assertEqual(admin.account("weights"), 0)
        daemon.stop()


class DamagedPackages(Damaged):
    """The same for .cgm files, which are GGUF files with keys of ours."""

    def test_load(self):
        folder = Path(tempfile.mkdtemp(prefix="coordgen-cgm-"))
        self.addCleanup(shutil.rmtree, folder)
        real = imported().read_bytes()
        head = DamagedFiles.header_bytes(real)
        daemon = Daemon(model=None, cache=folder / "cache")
        admin = daemon.connect(admin=True)
        for number in range(12 if SANITIZED else 30 if LONG else 18):
            generator = random.Random(number)
            path = folder / f"mutant-{number}.cgm"
            data = bytearray(real)
            if number % 3 == 0:
                data = data[:generator.randrange(len(data))]
            else:
                for _ in range(generator.randrange(1, 6)):
                    data[generator.randrange(head if number % 3 == 1 else len(data))] = generator.randrange(256)
            path.write_bytes(data)
            del data
            self.loads(daemon, admin, path, cut=number % 3 == 0)
            path.unlink()
        daemon.stop()


class Arrival(unittest.TestCase):
    """Prompts are computed while weights are still on their way."""

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="coordgen-arr-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.package = self.folder / "late.cgm"
        shutil.copyfile(imported(), self.package)

    def write_spoiled(self, good):
        """A value that int8 weights do not have, in the matrix that comes last: nothing before it tells."""
        data = bytearray(good.read_bytes())
        name = [name for name in (b"blk.%d.ffn_down.weight" % layer for layer in range(100)) if name in data][-1]
        at = data.index(struct.pack("<Q", len(name)) + name) + 8 + len(name)
        n_dims, = struct.unpack_from("<I", data, at)
        offset, = struct.unpack_from("<Q", data, at + 4 + 8 * n_dims + 4)
        data[-(-DamagedFiles.header_bytes(data) // 4096) * 4096 + offset + 77] = 0x80
        self.package.write_bytes(data)

    def test_requests_at_once(self):
        """They wait for the import and the engine, not for the weights; the tokens are those of a model that is there."""
        daemon = Daemon(model=self.package, wait=False)
        daemon.wait_notice("READY=1")
        connections = [daemon.connect() for _ in range(3)]
        request = prompt("One two three four five. " * 30, 8, ignore_end=True, no_reuse=True)
        early = [connection.start(request) for connection in connections]
        tokens = [generation.finish().done and generation.tokens for generation in early]
        daemon.wait_model()
        late = connections[0].generate(request).tokens
        self.assertEqual(tokens, [late] * 3)
        daemon.stop()

    def test_others_go_on(self):
        """A load takes turns with the generations of other models: it does not stop them."""
        daemon = Daemon()
        admin = daemon.connect(admin=True)
        request = prompt("Once upon a time", 150, ignore_end=True, no_reuse=True)
        alone = admin.generate(request).tokens
        running = admin.start(request)
        running.until("generate_delta")
        load = admin.send(model_load=pb.ModelLoadRequest(model=str(self.package)))
        seen = []
        while (reply := admin.next(load)).WhichOneof("op") != "model_load":
            seen.append(reply.model_load_progress.permille)
        self.assertEqual(seen, sorted(seen))
        self.assertGreater(len(admin.replies[running.id]), 3, "deltas that came before the model was loaded")
        self.assertEqual(running.finish().tokens, alone)
        daemon.stop()

    def load_when_free(self, admin):
        """The engine's memory is back a moment before the model may be loaded again; until then the reply says so."""
        deadline = time.monotonic() + 20 * SLOW
        while True:
            try:
                return admin.load(self.package.stem)
            except Refused as refused:
                self.assertEqual(refused.code, pb.ERROR_CODE_MODEL_IN_USE, refused)
                self.assertIn("try again", refused.error.message)
                self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    def test_failure_behind_the_start(self):
        """A load that fails when requests run already: they fail with the load's reason, and all memory is given back."""
        good = self.folder / "good"
        self.package.rename(good)
        self.write_spoiled(good)
        daemon = Daemon("--verify-packages=off", model=self.package, wait=False)
        daemon.wait_notice("READY=1")
        connections = [daemon.connect() for _ in range(2)]
        running = [connection.start(prompt("One two three four five. " * 50, 2000)) for connection in connections]
        for generation in running:
            with self.assertRaises(Refused) as caught:
                generation.finish()
            self.assertEqual(caught.exception.code, pb.ERROR_CODE_MODEL_CORRUPT, caught.exception)
            self.assertIn("-128", caught.exception.error.message)
        self.assertIn("late.cgm", daemon.wait_model(20, pb.MODEL_STATE_FAILED).detail)
        daemon.wait_until(lambda status: {account.name: account.used_bytes for account in status.memory}["weights"] == 0,
                          "the engine goes with its last request")
        good.replace(self.package)
        self.load_when_free(daemon.connect(admin=True))
        self.assertEqual(len(connections[0].generate(prompt("Now it is whole", 4, ignore_end=True)).tokens), 4)
        daemon.stop()


class Import(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="coordgen-imp-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def test_second_import_is_recognised(self):
        out = self.folder / "m.cgm"
        first = run_ctl("model", "import", MODEL, "-o", out)
        self.assertEqual(first.returncode, 0, first.stderr)
        before = out.stat()
        started = time.monotonic()
        second = run_ctl("model", "import", MODEL, "-o", out)
        self.assertEqual(second.returncode, 0, second.stderr)
        self.assertEqual((out.stat().st_ino, out.stat().st_mtime_ns), (before.st_ino, before.st_mtime_ns))
        self.assertLess(time.monotonic() - started, 5 * SLOW)
        shown = run_ctl("model", "show", out)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("coordgen.", shown.stdout)

    def test_unload_gives_an_import_up(self):
        """Without waiting for the process that imports; the next import is a new one."""
        with tempfile.TemporaryDirectory() as cache:
            daemon = Daemon(wait=False, cache=Path(cache))
            daemon.wait_notice("READY=1")
            admin = daemon.connect(admin=True)
            model = admin.call(model_show=pb.ModelShowRequest()).model_show.model
            admin.call(model_unload=pb.ModelUnloadRequest(model=model.name))
            self.assertEqual(admin.call(model_show=pb.ModelShowRequest()).model_show.model.state, pb.MODEL_STATE_AVAILABLE)
            self.assertEqual(admin.load(model.name).state, pb.MODEL_STATE_READY)
            daemon.stop()

    def test_imports_are_the_same_file(self):
        for name in ("a.cgm", "b.cgm"):
            run = run_ctl("model", "import", MODEL, "-o", self.folder / name)
            self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual((self.folder / "a.cgm").read_bytes(), (self.folder / "b.cgm").read_bytes())

    def limited(self, n_bytes):
        """A file system that holds n_bytes, or None where we may not mount one."""
        disk = self.folder / "disk"
        disk.mkdir()
        if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={n_bytes}", "none", disk],
                                               capture_output=True).returncode:
            return None
        self.addCleanup(subprocess.run, ["umount", "-l", disk], capture_output=True)
        return disk

    def test_disk_full(self):
        disk = self.limited(20 << 20)
        if disk:
            run = run_ctl("model", "import", MODEL, "-o", disk / "m.cgm")
        else:  # without a file system of our own: a limit on the size of files
            disk = self.folder / "disk"
            run = subprocess.run(["sh", "-c", f"trap '' XFSZ; ulimit -f 40000; exec {CTL} model import {MODEL} -o {disk}/m.cgm"],
                                 capture_output=True, text=True, stdin=subprocess.DEVNULL)
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertRegex(run.stderr, "free some space or name another place with -o$")
        self.assertIn("m.cgm", run.stderr)
        self.assertEqual(list(disk.iterdir()), [], "the half-written file was left behind")

    def test_disk_full_in_the_daemon(self):
        disk = self.limited(20 << 20)
        if not disk:
            self.skipTest("needs to mount a small file system: run as root")
        daemon = Daemon(wait=False, cache=disk)
        daemon.wait_notice("READY=1")
        shown = daemon.wait_model(120, pb.MODEL_STATE_FAILED)
        self.assertRegex(shown.detail, "free some space or set cache-dir to another place$")
        self.assertEqual([path for path in disk.rglob("*") if path.is_file() and path.stat().st_size > 4096], [])
        # The service lives; when there is room again, loading succeeds.
        subprocess.run(["mount", "-o", "remount,size=2g", disk], check=True)
        daemon.connect(admin=True).load(shown.name, 300 * SLOW)
        self.assertTrue(daemon.connect().generate(prompt("Hello", 2, ignore_end=True)).tokens)
        daemon.stop()

    def test_killed_daemon_takes_its_import_along(self):
        cache = self.folder / "cache"

        def packages():
            return list(cache.rglob("*.cgm"))

        for _ in range(5):
            daemon = Daemon(cache=cache, wait=False)
            children = Path(f"/proc/{daemon.process.pid}/task/{daemon.process.pid}/children")
            deadline = time.monotonic() + 20 * SLOW
            while not (importers := [int(pid) for pid in children.read_text().split()]) and not packages():
                self.assertLess(time.monotonic(), deadline, "no import began")
                time.sleep(0.005)
            for pid in importers:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
            if importers and not packages():
                break
            daemon.kill()  # the import had ended: once more
            shutil.rmtree(cache)
        else:
            self.fail("five imports ended before they could be stopped")
        daemon.kill()
        importer, = importers
        with contextlib.suppress(ProcessLookupError):
            os.kill(importer, signal.SIGCONT)  # not by standing still alone must it leave its work unfinished
        status = Path(f"/proc/{importer}/status")
        while True:  # killed when its parent was; who adopts it may leave it a zombie
            try:
                if "State:\tZ" in status.read_text():
                    break
            except (FileNotFoundError, ProcessLookupError):
                break
            self.assertLess(time.monotonic(), deadline, "the import goes on")
            time.sleep(0.02)
        self.assertEqual(packages(), [], "it was not killed, but had ended")

    def test_two_daemons_import_at_once(self):
        daemons = [Daemon(cache=self.folder / "cache", wait=False) for _ in range(2)]
        tokens = []
        for daemon in daemons:
            daemon.wait_notice("READY=1")
            daemon.wait_model()
            with daemon.connect() as connection:
                tokens.append(connection.generate(prompt("The same file", 8, ignore_end=True)).tokens)
            daemon.stop()
        self.assertEqual(tokens[0], tokens[1])

    def test_source_that_changed_is_imported_again(self):
        source = self.folder / "m.gguf"
        shutil.copyfile(MODEL, source)
        out = self.folder / "m.cgm"
        self.assertEqual(run_ctl("model", "import", source, "-o", out).returncode, 0)
        first = out.read_bytes()
        data = bytearray(source.read_bytes())
        data[-1000:] = bytes(1000)  # of a tensor
        source.write_bytes(data)
        run = run_ctl("model", "import", source, "-o", out)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertNotEqual(out.read_bytes(), first)


if __name__ == "__main__":
    unittest.main()
