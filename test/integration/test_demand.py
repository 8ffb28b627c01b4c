# SPDX-License-Identifier: Apache-2.0
"""Several models: which one is the default, which are loaded at the start and because requests name them, what goes when
memory is short, and settings of single models."""

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
from settings import BIN, MODEL, SLOW
from test_ctl import Terminal
from test_models import run_ctl
from wire import Connection, Refused, prompt

CTL = BIN / "coordgenctl"
AVAILABLE, READY, FAILED = pb.MODEL_STATE_AVAILABLE, pb.MODEL_STATE_READY, pb.MODEL_STATE_FAILED
SETTING, COMMAND, FIRST = pb.MODEL_DEFAULT_BY_SETTING, pb.MODEL_DEFAULT_BY_COMMAND, pb.MODEL_DEFAULT_BY_FIRST


def show(connection, name):
    return connection.call(model_show=pb.ModelShowRequest(model=name)).model_show.model


def default(connection, name=None):
    return connection.call(model_default=pb.ModelDefaultRequest(model=name)).model_default.model


def states(connection):
    return {model.name: model.state for model in connection.call(model_list=pb.ModelListRequest()).model_list.models}


def unload(connection, name):
    connection.call(model_unload=pb.ModelUnloadRequest(model=name))


def answered_by(connection, name=""):
    """Which model answers a request that names this one."""
    return connection.generate(prompt("Once", 2, model=name)).done.model


class Case(unittest.TestCase):
    """A folder of models that are one package: `last` came first."""

    @classmethod
    def setUpClass(cls):
        cls.packages = Path(tempfile.mkdtemp(prefix="coordgen-demand-packages-"))
        cls.addClassCleanup(shutil.rmtree, cls.packages)
        cls.package = cls.packages / "package.cgm"
        run = run_ctl("model", "import", MODEL, "-o", cls.package)
        assert run.returncode == 0, run.stderr

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="coordgen-demand-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.models, self.state = self.folder / "models", self.folder / "state"
        self.models.mkdir()
        for name in ("last", "a", "b"):
            self.add(name)
            time.sleep(0.02)  # longer than the step of a file system's clock

    def add(self, name):
        (self.models / f"{name}.cgm").symlink_to(self.package)

    def start(self, *flags, model=None, **options):
        daemon = Daemon(f"--model-dir={self.models}", f"--state-dir={self.state}", *flags, model=model, **options)
        self.addCleanup(daemon.kill)
        return daemon

    def user(self, daemon):
        """An app of somebody who administers nothing."""
        connection = Connection.as_nobody(daemon.api)
        self.addCleanup(connection.close)
        return connection

    def reload(self, daemon, config):
        n_notices = len(daemon.notices)
        daemon.config.write_text(config)
        daemon.signal(signal.SIGHUP)
        daemon.wait_notice("READY=1", after=n_notices)

    def wait_ready(self, daemon, connection, *names):
        daemon.wait_until(lambda _: all(show(connection, name).state == READY for name in names), f"{names} are ready",
                          timeout=60)

    def assertRefused(self, code, words, call, *args, **options):
        with self.assertRaises(Refused) as caught:
            call(*args, **options)
        self.assertEqual(pb.ErrorCode.Name(caught.exception.code), pb.ErrorCode.Name(code), caught.exception)
        self.assertRegex(caught.exception.error.message, words)
        return caught.exception.error


class Default(Case):
    def test_first_stays(self):
        """The first model is the default, also when others came before the service ran, and while it runs."""
        daemon = self.start()
        user, admin = self.user(daemon), daemon.connect(admin=True)
        self.assertEqual(answered_by(user), "last")
        self.assertEqual(show(user, "last").default_by, FIRST)
        self.add("0")
        self.assertEqual(len(states(admin)), 4)
        self.assertEqual(answered_by(user), "last")
        daemon.stop()
        (self.models / "last.cgm").rename(self.folder / "last.cgm")
        (self.folder / "last.cgm").rename(self.models / "last.cgm")
        daemon = self.start()
        admin = daemon.connect(admin=True)
        self.wait_ready(daemon, admin, "last")  # the default is loaded at the start
        self.assertEqual((default(admin).name, default(admin).default_by), ("last", FIRST))
        # Where it goes, the next one takes its place.
        daemon.stop()
        (self.models / "last.cgm").unlink()
        daemon = self.start()
        self.assertEqual(answered_by(self.user(daemon)), "a")
        daemon.stop()

    def test_only_one_stays(self):
        """One that the service has seen alone stays the default, whatever came to the folder when."""
        for name in ("last", "a"):
            (self.models / f"{name}.cgm").rename(self.folder / f"{name}.cgm")
        daemon = self.start()
        daemon.wait_model()
        (self.folder / "a.cgm").rename(self.models / "a.cgm")  # older than b
        user = self.user(daemon)
        self.assertEqual(len(states(user)), 2)
        self.assertEqual(answered_by(user), "b")
        self.assertEqual(answered_by(self.user(daemon)), "b")
        daemon.stop()

    def test_command(self):
        daemon = self.start()
        user, admin = self.user(daemon), daemon.connect(admin=True)
        self.assertRefused(pb.ERROR_CODE_DENIED, "administrators", default, user, "a")
        error = self.assertRefused(pb.ERROR_CODE_MODEL_NOT_FOUND, "no model 'none'", default, admin, "none")
        self.assertEqual(error.field, "model_default.model")
        chosen = default(admin, "a")
        self.assertEqual((chosen.name, chosen.is_default, chosen.default_by), ("a", True, COMMAND))
        self.assertEqual(answered_by(user), "a")
        # What was answered is there, and it is loaded at the start.
        daemon.process.kill()
        daemon.process.wait()
        daemon = self.start()
        user, admin = self.user(daemon), daemon.connect(admin=True)
        self.assertEqual((default(user).name, default(user).default_by), ("a", COMMAND))
        self.wait_ready(daemon, admin, "a")
        # One that would not be found after a restart.
        other = self.folder / "other.cgm"
        shutil.copyfile(self.package, other)
        admin.load(other)
        self.assertRefused(pb.ERROR_CODE_INVALID_ARGUMENT, "other is not in model-dir.*model = PATH", default, admin, "other")
        daemon.stop()
        # An administrator's word is kept when its model goes: nothing else is meant by it.
        (self.models / "a.cgm").unlink()
        daemon = self.start()
        user = self.user(daemon)
        self.assertEqual((default(user).name, default(user).HasField("state")), ("a", False))
        self.assertRefused(pb.ERROR_CODE_MODEL_NOT_FOUND, "default model a is not there.*2 other.*coordgenctl model default NAME",
                           answered_by, user)
        daemon.stop()

    def test_ctl(self):
        daemon = self.start()
        environment = dict(os.environ, COORDGEN_SOCKET=str(daemon.api))
        run = run_ctl("model", "default", "b", env=environment)
        self.assertEqual((run.returncode, run.stdout), (0, "b: the default from now on, available\n"), run.stderr)
        self.assertEqual(run_ctl("model", "default", env=environment).stdout, "b\n")
        self.assertIn('"default_by":"command"', run_ctl("--json=short", "model", "default", env=environment).stdout)
        self.assertRegex(run_ctl("model", "list", env=environment).stdout, r"(?m)^\* b +available +- +- .* - +-$")
        daemon.stop()
        (self.models / "b.cgm").unlink()
        daemon = self.start()
        run = run_ctl("model", "default", env=dict(os.environ, COORDGEN_SOCKET=str(daemon.api)))
        self.assertEqual((run.returncode, run.stdout), (0, "b\n"))
        self.assertIn("no model of this name", run.stderr)
        daemon.stop()

    def test_damaged_file(self):
        daemon = self.start()
        default(daemon.connect(admin=True), "a")
        daemon.stop()
        file = self.state / "default-model"
        file.write_text(file.read_text().replace("a\n", "b\n", 1))
        daemon = self.start()
        self.assertRegex(daemon.log(), "default-model: damaged, and set aside as .*default-model.corrupt-1: no default")
        self.assertTrue((self.state / "default-model.corrupt-1").exists())
        self.assertEqual(answered_by(self.user(daemon)), "last")
        daemon.stop()

    def test_setting(self):
        """The setting takes names, and goes before what was said."""
        daemon = self.start()
        default(daemon.connect(admin=True), "a")
        daemon.stop()
        daemon = self.start(config="model = b\n")
        user, admin = self.user(daemon), daemon.connect(admin=True)
        self.assertEqual((default(user).name, default(user).default_by), ("b", SETTING))
        self.wait_ready(daemon, admin, "b")
        self.assertRegex(daemon.log(), "model makes b the default: that of coordgenctl model default, a, has no effect")
        self.assertRefused(pb.ERROR_CODE_INVALID_ARGUMENT, "the setting model makes b the default", default, admin, "last")
        daemon.stop()
        daemon = self.start("--model=none")
        self.assertRegex(daemon.log(), "the setting model names none, and there is no model of this name")
        user = self.user(daemon)
        self.assertRefused(pb.ERROR_CODE_MODEL_NOT_FOUND, r"none \(the setting model\) is not there", answered_by, user)
        self.add("none")
        self.assertEqual(answered_by(user), "none")
        daemon.stop()


class Demand(Case):
    def test_who_may(self):
        """The setting says whose requests load; commands are another matter."""
        daemon = self.start(config="model = a\n")
        user, admin = self.user(daemon), daemon.connect(admin=True)
        self.wait_ready(daemon, admin, "a")
        unload(admin, "a")
        self.reload(daemon, "model = a\nload-on-demand = no\napi-may-load = yes\n")
        for connection in (user, admin):
            self.assertRefused(pb.ERROR_CODE_MODEL_NOT_READY, "load-on-demand = no.*coordgenctl model load a", answered_by,
                               connection, "a")
        user.load("b")
        self.assertEqual(answered_by(user, "b"), "b")
        self.wait_ready(daemon, admin, "b")
        unload(user, "b")
        self.reload(daemon, "model = a\nload-on-demand = default-only\n")
        self.assertRefused(pb.ERROR_CODE_DENIED, "only administrators load models.*load-on-demand", user.load, "b")
        self.assertRefused(pb.ERROR_CODE_MODEL_NOT_READY, "load-on-demand = default-only", answered_by, user, "b")
        self.assertRefused(pb.ERROR_CODE_MODEL_NOT_READY, "default-only", user.open_session, model="b")
        self.assertEqual(answered_by(user, "a"), "a")
        self.reload(daemon, "model = a\nload-on-demand = admins\n")
        self.assertRefused(pb.ERROR_CODE_MODEL_NOT_READY, "load-on-demand = admins", user.tokenize, "Once", model="b")
        self.assertTrue(admin.tokenize("Once", model="b"))
        self.wait_ready(daemon, admin, "b")
        unload(admin, "b")
        self.reload(daemon, "model = a\n")
        self.assertTrue(user.tokenize("Once", model="b"))
        daemon.stop()

    def test_session_and_wish(self):
        """A session loads its model without waiting; so does whoever wants to know when it is there."""
        daemon = self.start()
        user = self.user(daemon)
        session = user.open_session(model="a")
        self.assertNotEqual(show(user, "a").state, AVAILABLE)
        self.assertEqual(user.generate(prompt("Once", 2, session=session)).done.model, "a")
        wish = user.send(model_load=pb.ModelLoadRequest(model="b", on_demand=True))
        while (reply := user.next(wish)).WhichOneof("op") == "model_load_progress":
            pass
        self.assertEqual((reply.model_load.model.name, reply.model_load.model.state), ("b", READY))
        for wrong, words in ((pb.ModelLoadRequest(model="/b", on_demand=True), "a path"),
                             (pb.ModelLoadRequest(model="b", on_demand=True, with_file=True), "with_file")):
            with self.assertRaisesRegex(Refused, "INVALID_ARGUMENT"):
                user.call(model_load=wrong)
        daemon.stop()

    def test_unload_and_at_once_a_request(self):
        """What is being unloaded when a request names it comes again."""
        daemon = self.start()
        admin = daemon.connect(admin=True)
        self.assertEqual(answered_by(admin, "a"), "a")
        self.wait_ready(daemon, admin, "a")
        for _ in range(3):
            going = admin.send(model_unload=pb.ModelUnloadRequest(model="a"))
            generation = admin.start(prompt("Once", 2, model="a"))
            admin.next(going)
            self.assertEqual(generation.finish().done.model, "a")
            self.wait_ready(daemon, admin, "a")
        daemon.stop()

    def test_preload(self):
        other = self.folder / "other.cgm"
        other.symlink_to(self.package)
        daemon = self.start(f"--preload=b, {other},none")
        admin = daemon.connect(admin=True)
        self.wait_ready(daemon, admin, "b", "other")
        self.assertEqual({name for name, state in states(admin).items() if state == READY}, {"b", "other"})
        self.assertIn("preload: there is no model 'none'", daemon.log())
        unload(admin, "other")  # it is known by its name all the same
        self.assertEqual(answered_by(self.user(daemon), "other"), "other")
        daemon.stop()

    def test_ctl_says_what_it_waits_for(self):
        daemon = self.start()
        environment = dict(os.environ, COORDGEN_SOCKET=str(daemon.api), TERM="dumb", NO_COLOR="1")
        run = run_ctl("chat", "a", "-n", "2", env=environment)
        self.assertEqual((run.returncode, run.stderr), (0, "coordgenctl: waiting for a model: loading a\n"))
        terminal = Terminal([str(CTL), "chat", "b", "-n", "2"], environment)
        said = terminal.read_until("> ")
        self.assertRegex(said, r"(?s)loading b .*b: llama, 134.5 M parameters, context of 4096 tokens, int8.*> $")
        terminal.write("\x04")
        self.assertEqual(terminal.wait(), 0)
        run = run_ctl("chat", "none", env=environment)
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("no model 'none'", run.stderr)
        daemon.stop()


class Room(Case):
    """Room for two models."""

    def setUp(self):
        super().setUp()
        self.daemon = self.start("--memory-limit=490M", "--prefix-cache-max=0", "--weights-image=off", "--context-tokens=8192")
        self.admin = self.daemon.connect(admin=True)

    def loaded(self):
        return {name for name, state in states(self.admin).items() if state == READY}

    def test_least_recently_used_goes(self):
        for name, loaded in (("a", {"a"}), ("b", {"a", "b"}), ("a", {"a", "b"}), ("last", {"a", "last"}), ("b", {"b", "last"})):
            self.assertEqual(answered_by(self.admin, name), name)
            self.assertEqual(self.loaded(), loaded)
        self.assertIn("model b: unloaded to make room for last", self.daemon.log())
        # A load by a command makes room in the same way.
        self.admin.load("a")
        self.assertEqual(self.loaded(), {"a", "b"})
        self.daemon.stop()

    def test_what_is_used_stays(self):
        busy = self.daemon.connect()
        generation = busy.start(prompt("Count: 1 2 3", 3000, model="a", ignore_end=True)).until("generate_delta")
        holder = self.daemon.connect()
        holder.open_session(model="b")
        self.wait_ready(self.daemon, self.admin, "b")
        error = self.assertRefused(pb.ERROR_CODE_MODEL_NOT_READY,
                                   r"last could not be loaded.*memory-limit \(490 MiB\).*(a, b|b, a), which are in use",
                                   answered_by, self.admin, "last")
        self.assertGreater(error.retry_after_ms, 0)
        self.assertRefused(pb.ERROR_CODE_MODEL_NOT_READY, r"could not be loaded: memory-limit \(490 MiB\) holds it only without",
                           answered_by, self.user(self.daemon), "last")
        self.assertEqual(self.loaded(), {"a", "b"})
        holder.close()
        self.daemon.wait_until(lambda status: status.sessions == 0, "the session has gone")
        self.assertEqual(answered_by(self.admin, "last"), "last")  # a failure of before is no obstacle
        self.assertEqual(self.loaded(), {"a", "last"})
        busy.cancel(generation.id)
        generation.finish()
        self.daemon.stop()

    def test_keys_and_values(self):
        """A model that nobody uses makes way for long requests, too."""
        self.assertEqual(answered_by(self.admin, "a"), "a")
        self.assertEqual(answered_by(self.admin, "b"), "b")
        self.wait_ready(self.daemon, self.admin, "a", "b")
        long = [self.admin.start(prompt("Count: 1 2 3", 8000, model="b", ignore_end=True)) for _ in range(2)]
        for generation in long:
            generation.until("generate_delta")
        self.assertEqual(self.loaded(), {"b"})
        for generation in long:
            self.admin.cancel(generation.id)
            generation.finish()
        self.assertIn("model a: unloaded to make room for the keys and values of requests", self.daemon.log())
        self.daemon.stop()

    def test_one_that_is_going_comes_again(self):
        """Requests for all of them at once: each is answered, whatever is unloaded for it meanwhile."""
        users = [self.daemon.connect() for _ in range(2)]
        for _ in range(3):
            for names in (("a", "b"), ("last", "a"), ("b", "last")):
                ids = [user.start(prompt("Once", 2, model=name)) for user, name in zip(users, names)]
                self.assertEqual(tuple(one.finish().done.model for one in ids), names)
        self.daemon.stop()

    def test_too_large(self):
        self.daemon.stop()
        daemon = self.start("--memory-limit=100M", "--weights-image=off")
        self.assertRefused(pb.ERROR_CODE_MODEL_NOT_READY, r"memory-limit \(100 MiB\) is too low for it", answered_by,
                           daemon.connect(), "a")
        daemon.stop()
        # One that cannot fit drives nobody out.
        run = run_ctl("model", "import", "--bits", "2", MODEL, "-o", self.models / "small.cgm")
        self.assertEqual(run.returncode, 0, run.stderr)
        daemon = self.start("--memory-limit=130M", "--prefix-cache-max=0", "--weights-image=off", "--threads=1",
                            "--chunk-tokens=64", "--preemption=no")
        user = daemon.connect()
        self.assertEqual(answered_by(user, "small"), "small")
        self.wait_ready(daemon, user, "small")
        self.assertRefused(pb.ERROR_CODE_MODEL_NOT_READY, r"memory-limit \(130 MiB\)", answered_by, user, "a")
        self.assertEqual(show(user, "small").state, READY)
        daemon.stop()


class Sections(Case):
    """Settings of single models, and what is told of the context."""

    def test_context(self):
        daemon = self.start(config="context-tokens = 64\n[model b]\ncontext-tokens = 100\n[model nowhere]\n"
                                   "context-tokens = 32\n")
        admin, user = daemon.connect(admin=True), self.user(daemon)
        self.assertRegex(daemon.log(), r"\[model nowhere\]: there is no model of this name")
        self.assertFalse(show(user, "a").HasField("context_tokens"))
        self.assertEqual(show(user, "a").setting_context_tokens, 64)
        for name, usable in (("a", 64), ("b", 100)):
            self.assertRefused(pb.ERROR_CODE_CONTEXT_FULL,
                               f"context of {usable}: .*raise context-tokens = {usable} in coordgend.conf.*up to 8192",
                               user.generate, prompt("one two " * 60, 2, model=name))
            self.wait_ready(daemon, admin, name)
            model = show(user, name)
            self.assertEqual((model.usable_context_tokens, model.setting_context_tokens, model.context_tokens),
                             (usable, usable, 8192))
        environment = dict(os.environ, COORDGEN_SOCKET=str(daemon.api))
        self.assertRegex(run_ctl("model", "list", env=environment).stdout, r"(?m)^  b .* 100 +8192$")
        self.assertRegex(run_ctl("status", env=environment).stdout, "b: ready.*context 100 of 8192")
        shown = run_ctl("model", "show", "b", env=environment).stdout
        self.assertRegex(shown, r"Context +100 tokens: raise context-tokens = 100 in coordgend.conf")
        self.assertRegex(shown, r"Trained for +8192 tokens")
        # Live, as the setting itself is; and the model's own limit is told as such.
        self.reload(daemon, "context-tokens = 64\n[model b]\ncontext-tokens = 20000\n")
        self.assertIn("[model b] context-tokens: 100 -> 20000", daemon.log())
        self.assertEqual(show(user, "b").usable_context_tokens, 8192)
        self.assertRefused(pb.ERROR_CODE_CONTEXT_FULL, "context of 8192, the model's own limit.*context-tokens = 20000 does not",
                           user.generate, prompt("one two " * 5000, 2, model="b"))
        self.assertRegex(run_ctl("model", "show", "b", env=environment).stdout, r"Context +8192 tokens: all that the model has")
        self.reload(daemon, "context-tokens = 64\n")
        self.assertEqual(show(user, "b").usable_context_tokens, 64)
        daemon.stop()

    def test_weights_and_device(self):
        (self.models / "g.gguf").symlink_to(MODEL)
        daemon = self.start(config="[model a]\nweights-memory = 50%\n[model g]\ndevice = reference\n")
        admin = daemon.connect(admin=True)
        token = {name: admin.generate(prompt("Once upon a", 2, model=name, ignore_end=True)).tokens for name in ("a", "b", "g")}
        self.assertEqual(token["a"], token["b"])
        self.assertGreater(show(admin, "a").streamed_layers, 0)
        self.assertEqual(show(admin, "b").streamed_layers, 0)
        self.assertNotEqual(show(admin, "g").kernel, show(admin, "b").kernel)
        self.reload(daemon, "[model a]\nweights-memory = 25%\n")
        self.assertIn("[model a] weights-memory: 50% -> 25% needs a restart", daemon.log())
        self.assertIn("[model g] device: reference -> cpu needs a restart", daemon.log())
        daemon.stop()

    def test_check(self):
        path = self.folder / "c.conf"

        def check(text, *flags):
            path.write_text(f"model-dir = {self.models}\ncache-dir = {self.folder}/cache\n" + text)
            return subprocess.run([BIN / "coordgend", f"--config={path}", *(flags or ("--check-config",))], text=True,
                                  capture_output=True, stdin=subprocess.DEVNULL, timeout=60 * SLOW)

        run = check("model = b\npreload = a, last\n[model a]\ncontext-tokens = 99\n")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        run = check("[model c]\ncontext-tokens = 99\n")
        self.assertEqual(run.returncode, 0)
        self.assertRegex(run.stderr, r"\[model c\]: there is no model of this name in model-dir")
        for text, words in (("model = c\n", r"model: there is no model 'c' in model-dir \(.*models\)"),
                            ("preload = a, c\n", "preload: there is no model 'c'"),
                            ("preload = a, x/c.cgm\n", "preload: 'x/c.cgm' is not an absolute path"),
                            ("[model a]\ncontext-token = 9\n", "c.conf:4: unknown setting.*mean 'context-tokens'"),
                            ("[model a]\ndevice = reference\nweights-memory = 50%\n", r"\[model a\]: weights-memory: only")):
            with self.subTest(text=text):
                run = check(text)
                self.assertEqual(run.returncode, 78, run.stderr)
                self.assertRegex(run.stderr, words)
        run = check("[model a]\ncontext-tokens = 99\n", "--print-config")
        self.assertTrue(run.stdout.endswith("\n[model a]\ncontext-tokens = 99\n"), run.stdout)


if __name__ == "__main__":
    unittest.main()
