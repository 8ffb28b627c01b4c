# SPDX-License-Identifier: Apache-2.0
"""Pairs of models, one of which drafts for the other: what is said of them is kept, who may say it, what is loaded and
unloaded with what, and what is told; settings of pairs and of weights that are not all in memory."""

import contextlib
import json
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path

import coordgen_pb2 as pb
import gguf

from daemon import Daemon
from settings import BIN, CACHE, MODEL, SLOW
from test_models import run_ctl
from wire import Connection, Refused, prompt

IDLE, LOADING, READY, ABSENT, MISMATCH, FAILED = range(1, 7)
GEMMA = MODEL.parent / "gemma3-270m.gguf"


def pair(connection, target, draft):
    return connection.call(model_pair=pb.ModelPairRequest(target=target, draft=draft)).model_pair


def pairs(connection):
    """What is said: {target: draft}."""
    return {one.target: one.draft for one in entries(connection)}


def entries(connection):
    return connection.call(model_pair_list=pb.ModelPairListRequest()).model_pair_list.pairs


def show(connection, name):
    return connection.call(model_show=pb.ModelShowRequest(model=name)).model_show.model


class Case(unittest.TestCase):
    """A folder of models: big, small and tiny are the same one, other has the name of one token changed."""

    @classmethod
    def setUpClass(cls):
        cls.packages = Path(tempfile.mkdtemp(prefix="coordgen-pair-packages-"))
        cls.addClassCleanup(shutil.rmtree, cls.packages)
        cls.make(MODEL, "same")
        data = MODEL.read_bytes()
        name = b"\x0b" + bytes(7) + b"<repo_name>"
        assert data.count(name) == 1
        changed = cls.packages / "other.gguf"
        changed.write_bytes(data.replace(name, name.replace(b"name", b"game")))
        cls.make(changed, "other")

    @classmethod
    def make(cls, source, name):
        run = run_ctl("model", "import", source, "-o", cls.packages / f"{name}.cgm")
        assert run.returncode == 0, run.stderr

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="coordgen-pairs-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.models, self.state = self.folder / "models", self.folder / "state"
        self.models.mkdir()
        for name in ("big", "small", "tiny"):
            (self.models / f"{name}.cgm").symlink_to(self.packages / "same.cgm")
        (self.models / "other.cgm").symlink_to(self.packages / "other.cgm")
        self.file = self.state / "model-pairs"

    def start(self, *flags, model=None, **options):
        daemon = Daemon(f"--model-dir={self.models}", f"--state-dir={self.state}", *flags, model=model, **options)
        self.addCleanup(daemon.kill)
        return daemon

    def assertRefused(self, code, call, *args, **options):
        with self.assertRaises(Refused) as caught:
            call(*args, **options)
        self.assertEqual(pb.ErrorCode.Name(caught.exception.code), pb.ErrorCode.Name(code), caught.exception)
        return caught.exception.error

    def wait(self, daemon, connection, state, target="big"):
        """Until the pair of the target is in this state."""
        daemon.wait_until(lambda _: show(connection, target).draft.state == state,
                          f"the pair of {target} is in state {state}", timeout=60)

    def wait_available(self, daemon, connection, *names):
        daemon.wait_until(lambda _: all(show(connection, name).state == pb.MODEL_STATE_AVAILABLE for name in names),
                          f"{names} are unloaded")

    def unload(self, connection, name):
        connection.call(model_unload=pb.ModelUnloadRequest(model=name))


class Said(Case):
    """What an administrator says is kept, and what cannot be meant is refused."""

    def test_kept_over_restarts(self):
        daemon = self.start()
        admin = daemon.connect(admin=True)
        self.assertEqual(pairs(admin), {})
        reply = pair(admin, "big", "small")
        self.assertEqual((reply.pair.target, reply.pair.draft, reply.pair.state), ("big", "small", IDLE))
        self.assertTrue(reply.pair.is_stored)
        self.assertFalse(reply.HasField("warning"))
        pair(admin, "other", "tiny")
        daemon.stop()
        daemon = self.start()
        admin = daemon.connect(admin=True)
        self.assertEqual(pairs(admin), {"big": "small", "other": "tiny"})
        self.assertFalse(pair(admin, "big", "").HasField("pair"))
        self.assertFalse(pair(admin, "tiny", "").HasField("pair"))  # there was none
        self.assertEqual(pairs(admin), {"other": "tiny"})
        daemon.stop()

    def test_killed(self):
        """What was answered is there; of what was under way one or the other."""
        chance = random.Random(28)
        known = [{}]  # what there may be
        for _ in range(8):
            daemon = self.start()
            admin = daemon.connect(admin=True)
            said = pairs(admin)
            self.assertIn(said, known)
            deadline = time.monotonic() + chance.uniform(0, 0.05)
            while time.monotonic() < deadline:
                target, draft = chance.choice(("big", "other")), chance.choice(("small", "tiny"))
                pair(admin, target, draft)
                said[target] = draft
            admin.send(model_pair=pb.ModelPairRequest(target="big", draft="small"))
            daemon.process.kill()
            daemon.process.wait()
            self.assertNotIn("set aside", daemon.log())
            daemon.kill()
            known = [said, {**said, "big": "small"}]
        self.assertTrue(said)

    def test_damaged_file_is_set_aside(self):
        daemon = self.start()
        pair(daemon.connect(admin=True), "big", "small")
        daemon.stop()
        self.file.write_bytes(self.file.read_bytes().replace(b"small", b"smell"))
        daemon = self.start()
        admin = daemon.connect(admin=True)
        self.assertEqual(pairs(admin), {})
        self.assertRegex(daemon.log(), r"model-pairs: damaged, and set aside as .*model-pairs\.corrupt-1")
        self.assertFalse(self.file.exists())
        pair(admin, "big", "tiny")
        daemon.stop()
        self.assertIn(b"smell", (self.state / "model-pairs.corrupt-1").read_bytes())
        daemon = self.start()
        self.assertEqual(pairs(daemon.connect(admin=True)), {"big": "tiny"})
        daemon.stop()

    def test_nowhere_to_keep_it(self):
        daemon = self.start("--state-dir=")
        admin = daemon.connect(admin=True)
        error = self.assertRefused(pb.ERROR_CODE_INTERNAL, pair, admin, "big", "small")
        self.assertIn("state-dir", error.message)
        self.assertEqual(pairs(admin), {})
        daemon.stop()
        self.state.write_text("a file where the folder should be")
        daemon = self.start()
        admin = daemon.connect(admin=True)
        self.assertRefused(pb.ERROR_CODE_INTERNAL, pair, admin, "big", "small")
        self.assertEqual(pairs(admin), {})
        daemon.stop()

    def test_what_cannot_be_meant(self):
        daemon = self.start()
        admin = daemon.connect(admin=True)
        self.assertEqual(self.assertRefused(pb.ERROR_CODE_MODEL_NOT_FOUND, pair, admin, "nosuch", "small").field,
                         "model_pair.target")
        self.assertEqual(self.assertRefused(pb.ERROR_CODE_MODEL_NOT_FOUND, pair, admin, "big", "nosuch").field,
                         "model_pair.draft")
        self.assertRefused(pb.ERROR_CODE_MODEL_NOT_FOUND, pair, admin, "nosuch", "")
        self.assertIn("itself", self.assertRefused(pb.ERROR_CODE_INVALID_ARGUMENT, pair, admin, "big", "big").message)
        for target, draft in (("", "small"), ("x" * 256, "small"), ("big", "x" * 256)):
            self.assertRefused(pb.ERROR_CODE_INVALID_ARGUMENT, pair, admin, target, draft)
        self.assertRefused(pb.ERROR_CODE_INVALID_ARGUMENT, admin.call, model_pair=pb.ModelPairRequest(target="big"))
        for path in (str(self.models / "small.cgm"), "../small", "small\x1b[2J"):
            self.assertRefused(pb.ERROR_CODE_MODEL_NOT_FOUND, pair, admin, "big", path)
        pair(admin, "big", "small")
        pair(admin, "small", "tiny")
        error = self.assertRefused(pb.ERROR_CODE_INVALID_ARGUMENT, pair, admin, "tiny", "big")
        self.assertIn("tiny would draft for itself", error.message)
        self.assertEqual(pairs(admin), {"big": "small", "small": "tiny"})
        # A model whose file has gone can be let go of.
        (self.models / "big.cgm").unlink()
        daemon.wait_until(lambda _: "big" not in {model.name for model in
                                                  admin.call(model_list=pb.ModelListRequest()).model_list.models},
                          "its file is missed")
        self.assertEqual([one.state for one in entries(admin) if one.target == "big"], [ABSENT])
        pair(admin, "big", "")
        self.assertEqual(pairs(admin), {"small": "tiny"})
        daemon.stop()

    @unittest.skipUnless(os.geteuid() == 0, "only root can connect as another user")
    def test_administrators_only(self):
        daemon = self.start("--api-may-load")
        admin = daemon.connect(admin=True)
        nobody = Connection.as_nobody(daemon.api)
        self.addCleanup(nobody.close)
        for target, draft in (("big", "small"), ("big", ""), ("nosuch", "nosuch")):
            self.assertRefused(pb.ERROR_CODE_DENIED, pair, nobody, target, draft)
        self.assertEqual(pairs(admin), {})
        self.assertFalse(self.file.exists())
        pair(admin, "big", "small")
        self.assertEqual(pairs(nobody), {"big": "small"})
        self.assertRefused(pb.ERROR_CODE_DENIED, pair, nobody, "big", "")
        self.assertEqual(pairs(admin), {"big": "small"})
        daemon.stop()

    def test_larger_draft_model(self):
        with open(self.models / "huge.gguf", "wb") as file:
            file.write(gguf.TINY)
            file.truncate(1 << 34)
        daemon = self.start()
        admin = daemon.connect(admin=True)
        self.assertRegex(pair(admin, "big", "huge").warning, "huge is larger than big")
        self.assertEqual(pairs(admin), {"big": "huge"})
        self.assertEqual(pair(admin, "huge", "tiny").warning, "")
        daemon.stop()

    def test_command(self):
        daemon = self.start()
        ctl = lambda *args: run_ctl(f"--socket={daemon.admin}", *args)
        run = ctl("model", "pair")
        self.assertEqual((run.returncode, run.stderr.split(".")[0]), (0, "No pairs"))
        run = ctl("model", "pair", "big", "--draft", "small")
        self.assertEqual((run.returncode, run.stdout), (0, "big: small drafts for it, idle: it is loaded with it\n"), run.stderr)
        self.assertRegex(ctl("model", "pair").stdout, r"(?m)^big +small +idle +command$")
        self.assertIn('"draft":"small"', ctl("--json=short", "model", "pair").stdout)
        self.assertRegex(ctl("model", "list").stdout, r"(?m)^\* big .*drafted for by small \(idle\)$")
        self.assertRegex(ctl("model", "show", "big").stdout, r"(?m)^Draft model +small \(idle\)$")
        self.assertRegex(ctl("model", "show", "small").stdout, r"(?m)^Drafts for +big$")
        self.assertEqual(ctl("model", "pair", "big").returncode, 2)
        self.assertEqual(ctl("model", "pair", "--draft=small").returncode, 2)
        self.assertEqual(ctl("model", "pair", "big", "--draft=").returncode, 2)
        self.assertEqual(ctl("model", "pair", "big", "--draft=big").returncode, 2)
        run = ctl("model", "pair", "big", "--draft", "none")
        self.assertEqual((run.returncode, run.stdout), (0, "big: no draft model\n"), run.stderr)
        self.assertEqual(pairs(daemon.connect(admin=True)), {})
        daemon.stop()


class Loaded(Case):
    """What is loaded and unloaded with what, and what fits what."""

    def test_with_its_target(self):
        daemon = self.start()
        admin = daemon.connect(admin=True)
        admin.load("big")
        one = admin.account("weights")
        expected = admin.generate(prompt("The harbour was", 8, model="big", ignore_end=True)).tokens
        # Paired while the target is loaded, and after.
        self.assertIn(pair(admin, "big", "small").pair.state, (LOADING, READY))
        self.wait(daemon, admin, READY)
        self.assertEqual(show(admin, "small").state, pb.MODEL_STATE_READY)
        self.assertEqual(list(show(admin, "small").draft_of), ["big"])
        self.assertEqual(admin.account("weights"), 2 * one)
        self.assertEqual(admin.generate(prompt("The harbour was", 8, model="big", ignore_end=True)).tokens, expected)
        error = self.assertRefused(pb.ERROR_CODE_MODEL_IN_USE, self.unload, admin, "small")
        self.assertIn("drafts for big", error.message)
        self.unload(admin, "big")
        self.wait_available(daemon, admin, "big", "small")
        self.assertEqual(admin.account("weights"), 0)
        self.assertEqual(show(admin, "big").draft.state, IDLE)
        admin.load("big")
        self.wait(daemon, admin, READY)
        daemon.stop()

    def test_drafts(self):
        """The draft model is the target's equal: most of what it says is accepted, and nothing comes out differently."""
        daemon = self.start("--context-tokens=8000")
        admin = daemon.connect(admin=True)
        nothing = admin.account("activations")
        admin.load("big")
        ask = lambda **options: prompt("The harbour was quiet, and", 24, model="big", ignore_end=True, explain=True,
                                       no_history=True, **options)
        ways = ({}, {"sampling": {"temperature": 1, "seed": 28}})
        plain = [admin.generate(ask(speculation="off", **way)).tokens for way in ways]
        pair(admin, "big", "small")
        self.wait(daemon, admin, READY)
        passes = accepted = 0
        for way, expected in zip(ways, plain):
            for speculation in ("model", "auto", "model,sam", "off"):
                with self.subTest(way=way, speculation=speculation):
                    answer = admin.generate(ask(speculation=speculation, **way))
                    self.assertEqual(answer.tokens, expected)
                    told = answer.done.explanation
                    self.assertGreaterEqual(told.model_rows, told.model_passes)
                    if speculation == "model":
                        self.assertEqual([(source.name, source.is_on) for source in told.sources], [("model", True)])
                    if speculation == "off":
                        self.assertEqual(told.model_passes, 0)
                    passes += told.model_passes
                    accepted += sum(source.accepted_tokens for source in told.sources if source.name == "model")
        # Whether it pays is found out by trying; it need not pay here, where it takes as long as its target.
        self.assertGreater(passes, 0)
        self.assertGreater(accepted, 0)
        # Several at a time, of which some are given up, share the pair; then nothing of it is left.
        running = [admin.start(ask(speculation="model")) for _ in range(4)]
        for generation in running[2:]:
            admin.cancel(generation.id)
        for generation in running:
            generation.finish()
        for generation in running[:2]:
            self.assertEqual(generation.tokens, plain[0])
        daemon.wait_idle()
        pair(admin, "big", "")
        self.wait_available(daemon, admin, "small")
        self.assertEqual(admin.generate(ask(speculation="model")).tokens, plain[0])
        self.unload(admin, "big")
        self.wait_available(daemon, admin, "big")
        self.assertEqual(admin.account("activations"), nothing)
        daemon.stop()

    def test_at_the_start(self):
        daemon = self.start()
        pair(daemon.connect(admin=True), "big", "small")
        daemon.stop()
        daemon = self.start(model=self.models / "big.cgm")
        admin = daemon.connect(admin=True)
        self.wait(daemon, admin, READY)
        status = daemon.wait_until(lambda status: len(status.models) == 2, "both are told of", through=admin)
        self.assertEqual({model.name: model.draft.draft for model in status.models}, {"big": "small", "small": ""})
        daemon.stop()

    def test_what_somebody_wants_for_itself_stays(self):
        daemon = self.start()
        admin = daemon.connect(admin=True)
        pair(admin, "big", "small")
        pair(admin, "other", "tiny")
        admin.load("small")
        admin.load("big")
        self.wait(daemon, admin, READY)
        self.unload(admin, "big")
        self.wait_available(daemon, admin, "big")
        admin.load("big")
        self.wait(daemon, admin, READY)
        pair(admin, "big", "")
        self.assertEqual(show(admin, "small").state, pb.MODEL_STATE_READY)
        self.unload(admin, "small")
        self.wait_available(daemon, admin, "small")
        # Brought by a pair first, then asked for.
        pair(admin, "big", "small")
        self.wait(daemon, admin, READY)
        admin.load("small")
        self.unload(admin, "big")
        self.wait_available(daemon, admin, "big")
        self.assertEqual(show(admin, "small").state, pb.MODEL_STATE_READY)
        daemon.stop()

    def test_one_for_two(self):
        daemon = self.start()
        admin = daemon.connect(admin=True)
        pair(admin, "big", "small")
        pair(admin, "tiny", "small")
        self.assertEqual(sorted(show(admin, "small").draft_of), ["big", "tiny"])
        admin.load("big")
        admin.load("tiny")
        self.wait(daemon, admin, READY)
        self.wait(daemon, admin, READY, "tiny")
        self.unload(admin, "big")
        self.wait_available(daemon, admin, "big")
        self.assertEqual(show(admin, "tiny").draft.state, READY)
        self.assertIn("drafts for tiny", self.assertRefused(pb.ERROR_CODE_MODEL_IN_USE, self.unload, admin, "small").message)
        pair(admin, "tiny", "")
        self.wait_available(daemon, admin, "small")
        self.assertEqual(show(admin, "tiny").state, pb.MODEL_STATE_READY)
        daemon.stop()

    def test_undone_while_a_generation_runs(self):
        daemon = self.start("--context-tokens=8000", "--drain-timeout=100ms")
        admin = daemon.connect(admin=True)
        pair(admin, "big", "small")
        admin.load("big")
        self.wait(daemon, admin, READY)
        generation = admin.start(prompt("Count: 1 2 3", 7000, model="big", ignore_end=True)).until("generate_delta")
        pair(admin, "big", "tiny")
        self.assertIn(show(admin, "big").draft.state, (LOADING, READY))
        for _ in range(20):
            generation.step()
        held = show(admin, "small")
        self.assertEqual((held.state, held.detail), (pb.MODEL_STATE_READY, ""))
        self.assertIn("drafts for big", self.assertRefused(pb.ERROR_CODE_MODEL_IN_USE, self.unload, admin, "small").message)
        admin.cancel(generation.id)
        generation.finish()
        self.wait_available(daemon, admin, "small")
        self.wait(daemon, admin, READY)
        self.assertEqual(show(admin, "big").draft.draft, "tiny")
        # A target whose generation is left by its client, and the service ends while one runs.
        with daemon.connect() as leaver:
            leaver.start(prompt("Count: 1 2 3", 7000, model="big", ignore_end=True)).until("generate_delta")
        daemon.wait_idle()
        admin.start(prompt("Count: 1 2 3", 7000, model="big", ignore_end=True)).until("generate_delta")
        daemon.stop()

    def test_mismatch(self):
        daemon = self.start()
        admin = daemon.connect(admin=True)
        admin.load("big")
        admin.load("other")
        error = self.assertRefused(pb.ERROR_CODE_VOCAB_MISMATCH, pair, admin, "big", "other")
        self.assertRegex(error.message, r"token \d+ is '<repo_name>' \(control\) in big, and '<repo_game>' \(control\) in other")
        self.assertEqual(error.field, "model_pair.draft")
        self.assertEqual(pairs(admin), {})
        # Found when both are there: the target goes on without, and what came for it goes.
        self.unload(admin, "other")
        self.wait_available(daemon, admin, "other")
        pair(admin, "big", "other")
        self.wait(daemon, admin, MISMATCH)
        self.assertIn("'<repo_game>' (control) in other", show(admin, "big").draft.detail)
        self.wait_available(daemon, admin, "other")
        self.assertTrue(admin.generate(prompt("The harbour was", 4, model="big", ignore_end=True)).tokens)
        self.assertEqual(daemon.log().count("cannot draft for it"), 1)
        pair(admin, "big", "small")
        self.wait(daemon, admin, READY)
        daemon.stop()

    @unittest.skipUnless(GEMMA.exists(), f"{GEMMA} is not there: tools/fetch-model gemma3-270m")
    def test_mismatch_of_families(self):
        self.make(GEMMA, "gemma")
        (self.models / "gemma.cgm").symlink_to(self.packages / "gemma.cgm")
        daemon = self.start()
        admin = daemon.connect(admin=True)
        admin.load("big")
        admin.load("gemma")
        error = self.assertRefused(pb.ERROR_CODE_VOCAB_MISMATCH, pair, admin, "big", "gemma")
        self.assertRegex(error.message, r"token 0 is '<\|endoftext\|>' \(.*\) in big, and '<pad>' \(.*\) in gemma")
        daemon.stop()

    def test_draft_model_that_fails(self):
        damaged = bytearray((self.packages / "same.cgm").read_bytes())
        damaged[len(damaged) // 2] ^= 1
        (self.models / "bad.cgm").write_bytes(damaged)
        daemon = self.start()
        admin = daemon.connect(admin=True)
        pair(admin, "big", "bad")
        admin.load("big")
        self.wait(daemon, admin, FAILED)
        self.assertIn("bad", show(admin, "big").draft.detail)
        self.assertTrue(admin.generate(prompt("The harbour was", 4, model="big", ignore_end=True)).tokens)
        self.assertEqual(daemon.log().count("loaded to draft for"), 1)  # it is not tried again and again
        (self.models / "bad.cgm").unlink()
        shutil.copyfile(self.packages / "same.cgm", self.models / "bad.cgm")
        admin.load("bad")
        self.wait(daemon, admin, READY)
        daemon.stop()

    def test_draft_model_beyond_the_share(self):
        """What a draft model keeps of a text counts for its user's share of KV memory, and keeps no request out of it."""
        daemon = self.start("--kv-memory-limit=48M", "--kv-user-share=50", "--prefix-cache-max=0", "--context-tokens=4000")
        admin = daemon.connect(admin=True)
        pair(admin, "big", "small")
        admin.load("big")
        self.wait(daemon, admin, READY)
        share = (24 << 20) // show(admin, "big").kv_bytes_per_token
        ask = lambda part: prompt("The harbour was quiet, and", int(part * share), model="big", ignore_end=True,
                                  explain=True, speculation="model", no_history=True)
        running = daemon.connect().start(ask(0.3))
        running.until("generate_delta")
        error = self.assertRefused(pb.ERROR_CODE_QUOTA_EXCEEDED, daemon.connect().generate, ask(0.3))
        self.assertIn("kv-user-share", error.message)
        running.finish()
        self.assertGreater(running.done.explanation.model_passes, 0)
        answer = daemon.connect().generate(ask(0.6))
        self.assertEqual(answer.done.explanation.model_passes, 0)
        self.assertIn("goes without its draft model: its user's share", daemon.log())
        daemon.stop()

    def test_draft_model_that_finds_no_memory(self):
        daemon = self.start("--memory-limit=250M", "--prefix-cache-max=0")
        admin = daemon.connect(admin=True)
        admin.load("big")
        pair(admin, "big", "small")
        self.wait(daemon, admin, FAILED)
        self.assertIn("memory", show(admin, "big").draft.detail)
        self.assertTrue(admin.generate(prompt("The harbour was", 4, model="big", ignore_end=True)).tokens)
        daemon.stop()

    def test_target_finds_memory_first(self):
        """Also where it has to be imported, and the draft model has not."""
        (self.models / "raw.gguf").symlink_to(MODEL)
        daemon = self.start("--memory-limit=250M", "--prefix-cache-max=0", cache=self.folder / "cache")
        admin = daemon.connect(admin=True)
        pair(admin, "raw", "small")
        self.assertEqual(admin.load("raw", timeout=300 * SLOW).state, pb.MODEL_STATE_READY)
        self.wait(daemon, admin, FAILED, "raw")
        self.assertIn("memory", show(admin, "raw").draft.detail)
        daemon.stop()

    @unittest.skipUnless(os.geteuid() == 0, "only root can connect as another user")
    def test_an_app_does_not_keep_it(self):
        """Who may not load models may wait for one, which does not make it theirs."""
        daemon = self.start()
        admin = daemon.connect(admin=True)
        pair(admin, "big", "small")
        admin.load("big")
        self.wait(daemon, admin, READY)
        nobody = Connection.as_nobody(daemon.api)
        self.addCleanup(nobody.close)
        self.assertEqual(nobody.load("small").state, pb.MODEL_STATE_READY)
        self.unload(admin, "big")
        self.wait_available(daemon, admin, "big", "small")
        daemon.stop()


class Service(threading.Thread):
    """The service's side of a socket, which answers each operation with one reply: what there is to tell of streamed layers
    and draft models, without a model that has them."""

    def __init__(self, folder, **replies):
        super().__init__(daemon=True)
        self.replies, self.path = replies, f"{folder}/fake.sock"
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        self.start()

    def run(self):
        with contextlib.suppress(OSError):  # closed
            while True:
                self.serve(self.listener.accept()[0])

    def serve(self, client):
        with client, client.makefile("rwb") as stream:
            while head := stream.read(4):
                request = pb.Request.FromString(stream.read(*struct.unpack("<I", head)))
                op = request.WhichOneof("op")
                reply = pb.Response(request_id=request.request_id)
                said = pb.HelloReply(version=1, frame_max_bytes=1 << 22, requests_max=8) if op == "hello" else self.replies[op]
                getattr(reply, op).CopyFrom(said() if callable(said) else said)
                body = reply.SerializeToString()
                stream.write(struct.pack("<I", len(body)) + body)
                stream.flush()


class Told(unittest.TestCase):
    """What coordgenctl makes of it."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="coordgen-told-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.looks = 0
        big = pb.Model(name="big", state=pb.MODEL_STATE_READY, kernel="k", layers=28, streamed_layers=20, pinned_bytes=3 << 20,
                       sweep_bytes=5 << 20, read_bytes_per_s=250000000,
                       draft=pb.ModelPair(draft="small", state=FAILED, detail="it is damaged"))
        self.service = Service(self.folder, model_show=pb.ModelShowReply(model=big), model_list=pb.ModelListReply(models=[big]),
                               status=pb.StatusReply(models=[big]), explain=pb.ExplainReply(request=self.request(100)),
                               request_list=self.list)
        self.addCleanup(self.service.listener.close)

    def request(self, read_mb):
        explanation = pb.Explanation(decode_steps=10, verifications=5, valid_rows=20, wasted_rows=4, draft_us=9000,
                                     model_passes=8, model_rows=20, model_us=7000, read_bytes=read_mb * 1000000,
                                     read_wait_us=40000)
        return pb.RequestInfo(number=7, model="big", state=pb.REQUEST_STATE_DECODE, output_tokens=20, age_us=read_mb * 10000,
                              explanation=explanation)

    def list(self):
        self.looks += 1
        return pb.RequestListReply(requests=[self.request(100 * self.looks)])

    def ctl(self, *words):
        run = run_ctl(f"--socket={self.service.path}", *words)
        self.assertEqual(run.returncode, 0, run.stderr)
        return run.stdout

    def test_models(self):
        shown = self.ctl("model", "show", "big")
        for line in (r"Draft model +small \(failed: it is damaged\)", r"From the disk +20 of 28, 5\.0 MiB a step",
                     r"In memory +3\.0 MiB", r"Read at +250 MB/s"):
            self.assertRegex(shown, rf"(?m)^{line}$")
        self.assertIn("drafted for by small (failed)  20 of 28 layers from the disk\n", self.ctl("model", "list"))
        self.assertIn("20 of 28 layers from the disk (5.0 MiB a step, 250 MB/s), drafted for by small (failed)\n",
                      self.ctl("status"))
        told = json.loads(self.ctl("--json=short", "model", "show", "big"))
        self.assertEqual([told[key] for key in ("layers", "streamed_layers", "pinned_bytes", "sweep_bytes", "read_bytes_per_s")],
                         [28, 20, 3 << 20, 5 << 20, 250000000])
        self.assertEqual((told["draft"]["draft"], told["draft"]["state"], told["draft_of"]), ("small", "failed", []))

    def test_requests(self):
        told = self.ctl("explain", "7")
        self.assertRegex(told, r"(?m)^Draft model  8 passes, 20 rows, 7\.0 ms with its reading of the text$")
        self.assertRegex(told, r"(?m)^Disk         95\.4 MiB read, steps waited 40\.0 ms for it$")
        told = json.loads(self.ctl("--json=short", "explain", "7"))["explanation"]
        self.assertEqual([told[key] for key in ("model_passes", "model_rows", "model_us", "read_bytes", "read_wait_us")],
                         [8, 20, 7000, 100000000, 40000])
        # 100 MB more a second of the request's age.
        self.assertEqual(re.findall(r"(\d+) MB/s read", self.ctl("top", "--count=2")), ["100"])


class Settings(Case):
    def test_draft_model(self):
        daemon = self.start(config="draft-model = big=small, tiny = nosuch\n")
        admin = daemon.connect(admin=True)
        self.assertEqual({one.target: (one.draft, one.is_stored, one.state) for one in entries(admin)},
                         {"big": ("small", False, IDLE), "tiny": ("nosuch", False, ABSENT)})
        admin.load("tiny")
        self.assertTrue(admin.generate(prompt("The harbour was", 4, model="tiny", ignore_end=True)).tokens)
        admin.load("big")
        self.wait(daemon, admin, READY)
        pair(admin, "big", "")  # goes before the setting, also after a restart
        self.wait_available(daemon, admin, "small")
        self.assertEqual(pairs(admin)["big"], "")
        daemon.config.write_text("draft-model = tiny = small\n")
        seen = len(daemon.notices)
        daemon.signal(signal.SIGHUP)
        daemon.wait_notice("READY=1", after=seen)
        self.wait(daemon, admin, READY, "tiny")
        self.assertEqual(pairs(admin), {"big": "", "tiny": "small"})
        daemon.stop()
        daemon = self.start("--draft-model=big=small")
        self.assertEqual(pairs(daemon.connect()), {"big": ""})
        daemon.stop()

    def test_setting_that_makes_a_circle_with_a_pair(self):
        daemon = self.start()
        pair(daemon.connect(admin=True), "big", "small")
        daemon.stop()
        daemon = self.start("--draft-model=small=big")
        self.assertEqual(pairs(daemon.connect()), {"big": "small"})
        self.assertIn("'small=big' has no effect", daemon.log())
        daemon.stop()

    def test_wrong_values(self):
        for flag, says in (("--weights-memory=101%", "out of range: 0% to 100%"),
                           ("--weights-memory=half", "or a percentage such as 50%"),
                           ("--weights-memory=-1", "or a percentage"),
                           ("--flash-rate=fast", "not a whole number"),
                           ("--flash-rate=2000000", "out of range: 0, or 1 to 1000000"),
                           ("--flash-latency=1s", "not a whole number"),
                           ("--draft-model=big", "not TARGET=DRAFT"),
                           ("--draft-model=big=big", "would draft for itself")):
            with self.subTest(flag=flag):
                run = subprocess.run([BIN / "coordgend", f"--cache-dir={CACHE}", "--config=/dev/null", flag, "--check-config"],
                                     capture_output=True, text=True, timeout=60 * SLOW)
                self.assertNotEqual(run.returncode, 0)
                self.assertIn(flag.split("=")[0], run.stderr)
                self.assertIn(says, run.stderr)

    def test_right_values(self):
        run = subprocess.run([BIN / "coordgend", f"--cache-dir={CACHE}", "--config=/dev/null", "--weights-memory=50%",
                              "--flash-rate=250", "--flash-latency=80", "--draft-model=big=small", "--print-config"],
                             capture_output=True, text=True, timeout=60 * SLOW, check=True)
        for line in ("weights-memory = 50%", "flash-rate = 250", "flash-latency = 80", "draft-model = big=small"):
            self.assertRegex(run.stdout, rf"(?m)^{re.escape(line)}$")
