# SPDX-License-Identifier: Apache-2.0
"""What coordgend makes of the place where it is started: signals, limits, sockets of systemd, a wrong configuration."""

import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest
from pathlib import Path

import coordgen_pb2 as pb

from daemon import Daemon
from settings import BIN, SANITIZED, SLOW
from wire import Connection

# systemd tells a process by its number that its standard error is read with <N> prefixes.
AS_SERVICE = ["sh", "-c", 'SYSTEMD_EXEC_PID=$$ exec "$@"', "sh"]


def run_daemon(*args, **options):
    return subprocess.run([BIN / "coordgend", *map(str, args)], capture_output=True, text=True, timeout=60 * SLOW,
                          stdin=subprocess.DEVNULL, **options)


class Signals(unittest.TestCase):
    def test_blocked_and_early_signals(self):
        """A parent may have blocked them, and one may come before there is a handler: it is not lost, nor deadly."""
        def block_and_send():
            signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
            os.kill(os.getpid(), signal.SIGHUP)

        daemon = Daemon(model=None, preexec=block_and_send)
        self.addCleanup(daemon.kill)
        daemon.wait_notice("RELOADING=1")
        daemon.stop()  # by SIGTERM

    def test_file_size_limit(self):
        """It becomes an error of the write, here of a log that is full."""
        daemon = Daemon(model=None, preexec=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000)))
        self.addCleanup(daemon.kill)
        while daemon.log_path.stat().st_size < 20000:
            with daemon.connect() as connection:
                self.assertTrue(connection.status().pid)
        for _ in range(10):
            with daemon.connect() as connection:
                self.assertTrue(connection.status().pid)
        daemon.stop()


class OpenFiles(unittest.TestCase):
    def limited(self, n, *flags, **options):
        return Daemon(*flags, model=None, preexec=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (n, n)), **options)

    def test_too_few(self):
        for n in (80, 83):
            with self.subTest(n=n):
                daemon = self.limited(n, wait=False)
                self.addCleanup(daemon.kill)
                self.assertEqual(daemon.wait_exit(), 1)
                self.assertIn(f"({n}) allows {n - 80} connections", daemon.log())
                self.assertIn("LimitNOFILE= of the unit", daemon.log())
                self.assertIn("at least to 84", daemon.log())

    def test_fewer(self):
        daemon = self.limited(90)
        self.addCleanup(daemon.kill)
        self.assertIn("allows 10 connections instead of 256", daemon.log())
        self.assertEqual(daemon.connect().status().connections_max, 10)
        daemon.stop()


@unittest.skipIf(SANITIZED, "a sanitizer's handler takes the signal")
class CoreDumps(unittest.TestCase):
    def is_dumped(self, *flags):
        def allow():
            resource.setrlimit(resource.RLIMIT_CORE, (1 << 20, resource.getrlimit(resource.RLIMIT_CORE)[1]))
            os.chdir(folder)

        with tempfile.TemporaryDirectory(prefix="coordgen-core-") as folder:
            try:
                daemon = Daemon(*flags, model=None, preexec=allow)
            except (ValueError, subprocess.SubprocessError):
                self.skipTest("core dumps are not allowed here")
            daemon.process.send_signal(signal.SIGSEGV)
            _, status = os.waitpid(daemon.process.pid, 0)
            daemon.process.returncode = -os.WTERMSIG(status)
            daemon.kill()
            return os.WCOREDUMP(status)

    def test_no_core_dump_unless_it_is_asked_for(self):
        if not self.is_dumped("--core-dumps=yes"):
            self.skipTest("this machine writes no core dumps")
        self.assertFalse(self.is_dumped())


class Check(unittest.TestCase):
    """--check-config says what would not work, and what to do, without making anything."""

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="coordgen-check-"))
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "file").write_text("")
        (self.folder / "file.gguf").write_text("")
        (self.folder / "bad.jinja").write_text("x\n{% endif %}\n")

    def check(self, *lines):
        path = self.folder / "c.conf"
        path.write_text("".join(line + "\n" for line in lines))
        return run_daemon(f"--config={path}", "--check-config")

    def test_what_works(self):
        run = self.check(f"listen = {self.folder}/api", f"admin-listen = unix:{self.folder}/admin",
                         f"model = {self.folder}/file.gguf", f"model-dir = {self.folder}", f"cache-dir = {self.folder}/a/b")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["bad.jinja", "c.conf", "file", "file.gguf"])

    def test_what_cannot_work(self):
        for lines, words in (
                ([f"listen = {self.folder}/{'x' * 108}"], "longer than 107 bytes"),
                (["listen = @abstract"], "abstract"),
                (["listen = unix:"], "not a path"),
                (["listen = 127.0.0.1:8080"], "not a path"),
                (["listen = unix:api.sock"], "not a path"),
                (["admin-listen = localhost"], "not a path"),
                ([f"listen = {self.folder}/none/api"], "No such file or directory"),
                ([f"listen = {self.folder}/file/api"], "Not a directory|not a folder"),
                ([f"listen = {self.folder}/file"], "not a socket"),
                ([f"admin-listen = {self.folder}/none/api"], "No such file or directory"),
                ([f"listen = {self.folder}/a", f"admin-listen = unix:{self.folder}/a"], "is that of listen"),
                ([f"model = {self.folder}/none.gguf"], "No such file or directory"),
                ([f"model = {self.folder}/file"], "ends in .gguf or .cgm"),
                ([f"model-dir = {self.folder}/none"], "No such file or directory"),
                ([f"model-dir = {self.folder}/file"], "not a folder|Not a directory"),
                ([f"cache-dir = {self.folder}/file/cache"], "not a folder|Not a directory"),
                (["device = reference", "weights-memory = 50%"], "only with device = cpu"),
                ([f"chat-template = {self.folder}/none"], "No such file or directory"),
                ([f"chat-template = {self.folder}/bad.jinja"], "bad.jinja: chat template line 2: .*'endif'"),
                (["session-memory-limit = 1M", "output-buffer = 1M"], "no app could connect: .*session-memory-limit"),
                (["memory-limit = 2M", "output-buffer = 2M"], "no app could connect: .* memory-limit"),
                (["cache-dir ="], "XDG_CACHE_HOME or HOME")):
            with self.subTest(lines=lines):
                run = self.check(*lines)
                self.assertEqual(run.returncode, 78, run.stderr)
                self.assertIn(lines[-1].split()[0], run.stderr)
                self.assertRegex(run.stderr, words)

    def test_what_the_service_goes_without(self):
        open_folder = self.folder / "open"
        open_folder.mkdir(mode=0o755)
        for line, words in (
                (f"state-dir = {self.folder}/file/state", "state-dir: .*not a folder|Not a directory.*cannot be stored"),
                (f"draftdb-dir = {self.folder}/file/db", "draftdb-dir: .*nothing is stored"),
                (f"draftdb-dir = {open_folder}", "draftdb-dir: .*chmod 700.*nothing is stored")):
            with self.subTest(line=line):
                run = self.check(line)
                self.assertEqual(run.returncode, 0, run.stderr)
                self.assertRegex(run.stderr, words)

    def test_default_socket(self):
        """Where nothing is said of sockets, the check looks at the default ones, where the environment names them."""
        path = self.folder / "c.conf"
        path.write_text(f"cache-dir = {self.folder}\nstate-dir =\ndraftdb-dir =\nmodel-dir =\n")
        another = dict(user=65534, group=65534, extra_groups=[]) if os.geteuid() == 0 else {}  # root has a folder of its own
        self.folder.chmod(0o777)
        long = self.folder / ("x" * 100)
        long.mkdir(0o700)
        if another:
            os.chown(long, 65534, 65534)
        for runtime, expect in ((None, ""), (self.folder, ""), (long, "longer than 107 bytes")):
            with self.subTest(runtime=runtime):
                environment = {key: value for key, value in os.environ.items() if key != "XDG_RUNTIME_DIR"}
                if runtime:
                    environment["XDG_RUNTIME_DIR"] = str(runtime)
                run = run_daemon(f"--config={path}", "--check-config", env=environment, **another)
                self.assertIn(expect, run.stderr)
                self.assertEqual(run.returncode, 78 if expect else 0, run.stderr)

    def test_start_says_the_same(self):
        """What the check refuses for itself, and not for what is missing, no start accepts."""
        for lines in (["listen = 127.0.0.1:8080"], [f"listen = {self.folder}/a", f"admin-listen = unix:{self.folder}/a"],
                      ["session-memory-limit = 1M", "output-buffer = 1M"], ["device = reference", "weights-memory = 50%"],
                      [f"listen = {self.folder}/{'x' * 108}"]):
            with self.subTest(lines=lines):
                check = self.check(*lines)
                start = run_daemon(f"--config={self.folder}/c.conf", "--log-target=stderr")
                self.assertNotEqual(start.returncode, 0)
                self.assertIn(check.stderr.removeprefix("coordgend: ").strip(), start.stderr)

    def test_priority(self):
        """What the journal reads has the priority of an error."""
        path = self.folder / "c.conf"
        path.write_text("max-queue = many\n")
        run = subprocess.run([*AS_SERVICE, BIN / "coordgend", f"--config={path}", "--check-config"], text=True,
                             capture_output=True, timeout=60 * SLOW)
        self.assertEqual(run.returncode, 78)
        self.assertRegex(run.stderr, r"^<3>.*c\.conf:1: max-queue")


class WrongConfiguration(unittest.TestCase):
    def test_reload_keeps_the_settings(self):
        folder = Path(tempfile.mkdtemp(prefix="coordgen-start-"))
        self.addCleanup(shutil.rmtree, folder)
        daemon = Daemon(f"--listen={folder}/api", config="max-queue = 5\n", model=None, command=AS_SERVICE)
        self.addCleanup(daemon.kill)
        daemon.api = folder / "api"
        n_notices = len(daemon.notices)
        daemon.config.write_text("max-queue = 7\nmax-active = none\n")
        daemon.signal(signal.SIGHUP)
        daemon.wait_notice("READY=1", after=n_notices)
        self.assertEqual(daemon.connect().status().queue_max, 5)
        self.assertRegex(daemon.log(), r"(?m)^<3>.*coordgend\.conf:2: max-active")
        daemon.stop()

    def test_sockets_stay_and_clients_are_told(self):
        folder = Path(tempfile.mkdtemp(prefix="coordgen-start-"))
        self.addCleanup(shutil.rmtree, folder)
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        listener.bind(str(folder / "api"))
        listener.listen()

        # As systemd hands it over.
        command = ["sh", "-c", f'LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=api exec "$@" 3<&{listener.fileno()}', "sh"]
        for config, word in (("max-queue = many\n", "c.conf|coordgend.conf:1"), ("model = /nonexistent/model.txt\n", "model.txt")):
            with self.subTest(config=config):
                clients = [Connection(folder / "api", hello=False) for _ in range(2)]
                daemon = Daemon(config=config, model=None, wait=False, command=command,
                                pass_fds=(listener.fileno(),))
                self.addCleanup(daemon.kill)
                for client in clients:
                    error, = client.read_end()
                    self.assertEqual(pb.ErrorCode.Name(error.error.code), "ERROR_CODE_SHUTTING_DOWN")
                    self.assertIn("cannot start", error.error.message)
                    self.assertNotIn("/", error.error.message)  # the reason is the administrator's
                    client.close()
                self.assertEqual(daemon.wait_exit(), 78)
                self.assertRegex(daemon.log(), word)
                self.assertTrue(any(line.startswith("STATUS=") and re.search(word, line) for _, line in daemon.notices))
        self.assertTrue((folder / "api").exists())


if __name__ == "__main__":
    unittest.main()
