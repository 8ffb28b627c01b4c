# SPDX-License-Identifier: Apache-2.0
"""coordgend as a service: readiness, activation, watchdog, reload, shutdown, configuration errors."""

import ctypes
import os
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

from daemon import Daemon, DaemonCase
from settings import BIN, CACHE, MODEL, SLOW
from wire import Closed, Connection, Refused, prompt


class Shutdown(unittest.TestCase):
    def test_sigterm_when_idle(self):
        daemon = Daemon()
        with daemon.connect() as connection:
            connection.generate(prompt("Hello", 2))
        started = time.monotonic()
        daemon.signal(signal.SIGTERM)
        daemon.wait_notice("STOPPING=1")
        self.assertEqual(daemon.wait_exit(), 0)
        self.assertLess(time.monotonic() - started, 5 * SLOW)
        self.assertFalse(daemon.api.exists(), "the socket is left behind")
        daemon.stop()

    def test_sigterm_under_load_drains(self):
        daemon = Daemon(f"--drain-timeout={int(60 * SLOW)}s")
        connections = [daemon.connect() for _ in range(4)]
        running = [connection.start(prompt(f"Request {i}", 40, ignore_end=True)) for i, connection in enumerate(connections)]
        for generation in running:
            generation.until("generate_delta")
        daemon.signal(signal.SIGTERM)
        daemon.wait_notice("STOPPING=1")
        # What runs is finished; what is new is refused, or finds no socket.
        try:
            connections[0].generate(prompt("Too late", 4))
            self.fail("a request was taken while draining")
        except Refused as error:
            self.assertEqual(pb.ErrorCode.Name(error.code), "ERROR_CODE_SHUTTING_DOWN")
        except (Closed, BrokenPipeError):
            pass
        for generation in running:
            self.assertEqual(generation.finish().done.end_reason, pb.END_REASON_MAX_TOKENS)
        self.assertEqual(daemon.wait_exit(), 0)
        daemon.stop()

    def test_drain_timeout_cancels_what_runs(self):
        daemon = Daemon("--drain-timeout=1s")
        connection = daemon.connect()
        generation = connection.start(prompt("Count: 1 2 3", 4000, ignore_end=True)).until("generate_delta")
        started = time.monotonic()
        daemon.signal(signal.SIGTERM)
        with self.assertRaises(Refused) as caught:
            generation.finish()
        error = caught.exception.error
        self.assertEqual(pb.ErrorCode.Name(error.code), "ERROR_CODE_SHUTTING_DOWN")
        self.assertIn(f"after {len(generation.tokens)} tokens", error.message)
        self.assertGreater(error.retry_after_ms, 0)
        self.assertEqual(daemon.wait_exit(), 0)
        self.assertLess(time.monotonic() - started, 10 * SLOW)
        daemon.stop()

    def test_coordgenctl_says_that_it_is_not_all(self):
        daemon = Daemon("--drain-timeout=100ms")
        with daemon.connect():  # the model is ready
            ctl = subprocess.Popen([BIN / "coordgenctl", "--socket", str(daemon.api), "generate", "--raw", "--ignore-end",
                                    "--max-tokens=4000", "Count: 1 2 3"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        first = ctl.stdout.read(1)
        daemon.signal(signal.SIGTERM)
        rest, complaint = ctl.communicate(timeout=60 * SLOW)
        self.assertEqual(ctl.returncode, 75)
        self.assertTrue(first)
        self.assertIn(b"shutting down", complaint)
        self.assertEqual(daemon.wait_exit(), 0)
        daemon.stop()

    def test_sigterm_while_importing(self):
        with tempfile.TemporaryDirectory() as cache:
            daemon = Daemon(wait=False, cache=Path(cache))
            daemon.wait_notice("READY=1")
            daemon.signal(signal.SIGTERM)
            self.assertEqual(daemon.wait_exit(), 0)
            left = [path.name for path in Path(cache).rglob("*") if path.suffix == ".cgm"]
            # Either it was done already or nothing that looks like a package is there.
            for name in left:
                subprocess.run([BIN / "coordgenctl", "model", "show", next(Path(cache).rglob(name))], check=True,
                               stdout=subprocess.DEVNULL)
            daemon.stop()

    def test_killed_daemon_leaves_nothing_that_stops_the_next(self):
        daemon = Daemon()
        connection = daemon.connect()
        connection.start(prompt("Count: 1 2 3", 400, ignore_end=True)).until("generate_delta")
        daemon.process.kill()
        daemon.process.wait()
        # The socket file is still there; the next daemon takes its place.
        self.assertTrue(daemon.api.exists())
        n_notices = len(daemon.notices)
        with open(daemon.log_path, "ab") as log:
            daemon.process = subprocess.Popen([str(BIN / "coordgend")] + daemon.args, stdin=subprocess.DEVNULL, stdout=log,
                                              stderr=log, env=dict(os.environ, NOTIFY_SOCKET=str(daemon.folder / "notify")))
        daemon.wait_notice("READY=1", after=n_notices)
        daemon.wait_model()
        with daemon.connect() as connection:
            connection.generate(prompt("Hello", 2))
        daemon.stop()

    def test_second_daemon_on_one_socket_is_refused(self):
        daemon = Daemon()
        second = subprocess.run([str(BIN / "coordgend")] + daemon.args, capture_output=True, timeout=60 * SLOW, text=True)
        self.assertNotEqual(second.returncode, 0)
        self.assertIn(str(daemon.api), second.stderr + second.stdout)
        with daemon.connect() as connection:
            connection.generate(prompt("Hello", 2))
        daemon.stop()


class Notify(unittest.TestCase):
    def test_ready_and_status(self):
        daemon = Daemon()
        self.assertTrue(any(line.startswith("STATUS=") for _, line in daemon.notices), daemon.notices)
        daemon.stop()

    def test_watchdog(self):
        period_us = 2_000_000  # a ping in half of it, so that one may be a second late on a busy machine
        daemon = Daemon(watchdog_us=period_us)
        # Idle, and while it computes.
        connection = daemon.connect()
        generation = connection.start(prompt("Count: 1 2 3", 3000, ignore_end=True)).until("generate_delta")
        time.sleep(5)
        connection.cancel(generation.id)
        generation.finish()
        pings = [when for when, line in daemon.notices if line == "WATCHDOG=1"]
        self.assertGreaterEqual(len(pings), 4)
        gaps = [b - a for a, b in zip(pings, pings[1:])]
        self.assertLess(max(gaps), period_us / 1e6, "a gap that a service manager would kill for")
        daemon.stop()

    def reload(self, daemon, config):
        n_notices = len(daemon.notices)
        daemon.config.write_text(config)
        daemon.signal(signal.SIGHUP)
        daemon.wait_notice("RELOADING=1", after=n_notices)
        daemon.wait_notice("READY=1", after=n_notices)

    def test_reload_of_frame_max(self):
        """An open connection keeps the limit of its Hello reply, whether the new one is higher or lower."""
        text = "hello " * 3000
        daemon = Daemon(config="frame-max = 8K\nframe-timeout = 5s\n")
        narrow = daemon.connect()
        self.reload(daemon, "frame-max = 64K\nframe-timeout = 5s\n")
        wide = daemon.connect()
        self.assertEqual((narrow.greeting.frame_max_bytes, wide.greeting.frame_max_bytes), (8192, 65536))
        expected = wide.tokenize(text)
        narrow.send(tokenize=pb.TokenizeRequest(text=text))
        self.assertIn("8192", narrow.read_end()[-1].error.message)
        self.reload(daemon, "frame-max = 8K\nframe-timeout = 5s\n")
        self.assertEqual(wide.tokenize(text), expected)
        self.assertEqual(daemon.connect().greeting.frame_max_bytes, 8192)
        daemon.stop()

    def test_reload(self):
        daemon = Daemon(config="max-queue = 5\nlog-level = info\n")
        connection = daemon.connect()
        self.assertEqual(connection.status().queue_max, 5)
        generation = connection.start(prompt("Count: 1 2 3", 64, ignore_end=True)).until("generate_delta")
        self.reload(daemon, "max-queue = 9\n")
        self.assertEqual(connection.status().queue_max, 9)
        self.assertEqual(generation.finish().done.end_reason, pb.END_REASON_MAX_TOKENS)
        # A wrong file changes nothing and is named, with its line, in the log.
        n_notices = len(daemon.notices)
        daemon.config.write_text("max-queue = 12\nmax-queue = many\n")
        daemon.signal(signal.SIGHUP)
        daemon.wait_notice("READY=1", after=n_notices)
        self.assertEqual(connection.status().queue_max, 9)
        self.assertIn(f"{daemon.config}:2", daemon.log())
        daemon.stop()


ACCEPTS = 1 << 16  # __SO_ACCEPTCON of linux/net.h, among the flags of /proc/net/unix


def listening(path):
    """Whether a socket takes connections. Its file says less: it is there from bind() on, and until listen() refuses
    them. The kernel is asked, because an attempt would start the daemon."""
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        fields = line.split(maxsplit=7)  # number, references, protocol, flags, type, state, inode, path
        if fields[7:] == [str(path)] and int(fields[3], 16) & ACCEPTS:
            return True
    return False


@unittest.skipUnless(shutil.which("systemd-socket-activate"), "systemd-socket-activate is not installed (package systemd)")
class SocketActivation(unittest.TestCase):
    def start(self, names, n_sockets=2):
        folder = Path(tempfile.mkdtemp(prefix="coordgen-act-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        self.sockets = [folder / "one.sock", folder / "two.sock"][:n_sockets]
        command = ["systemd-socket-activate", f"--fdname={names}"]
        for variable in os.environ:
            if variable.endswith("_OPTIONS") or variable in ("HOME", "COORDGEN_ISA"):
                command += ["-E", variable]
        command += ["-E", "NOTIFY_SOCKET"]
        for path in self.sockets:
            command += ["-l", str(path)]
        daemon = Daemon(wait=False, command=command)
        deadline = time.monotonic() + 20 * SLOW
        while not all(listening(path) for path in self.sockets):
            if time.monotonic() > deadline:
                daemon.kill()
                self.fail(f"systemd-socket-activate does not listen on {self.sockets}")
            time.sleep(0.02)
        return daemon

    def test_api_and_admin(self):
        daemon = self.start("api:admin")
        daemon.api, daemon.admin = self.sockets
        # The first connection starts the daemon; it is served, not lost.
        with Connection(daemon.api) as connection:
            self.assertEqual(connection.greeting.version, 1)
            daemon.wait_notice("READY=1")
            daemon.wait_model()
            connection.generate(prompt("Hello", 2))
            with self.assertRaises(Refused):
                connection.call(model_unload=pb.ModelUnloadRequest(model="x"))
        with Connection(daemon.admin) as connection:
            name = connection.call(model_list=pb.ModelListRequest()).model_list.models[0].name
            connection.call(model_unload=pb.ModelUnloadRequest(model=name))
        # The sockets belong to the service manager: they stay.
        daemon.signal(signal.SIGTERM)
        self.assertEqual(daemon.wait_exit(), 0)
        self.assertTrue(all(path.exists() for path in self.sockets))
        daemon.stop()

    def test_order_does_not_matter(self):
        daemon = self.start("admin:api")
        daemon.admin, daemon.api = self.sockets
        with Connection(daemon.api) as connection:
            connection.call(status=pb.StatusRequest())
        if os.geteuid() == 0:
            with Connection.as_nobody(daemon.api) as connection:
                with self.assertRaises(Refused) as caught:
                    connection.call(model_unload=pb.ModelUnloadRequest(model="x"))
                self.assertEqual(caught.exception.code, pb.ERROR_CODE_DENIED)
        daemon.wait_notice("READY=1")
        daemon.stop()

    def test_unknown_name_is_an_error(self):
        daemon = self.start("api:nonsense")
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(self.sockets[0]))
            code = daemon.wait_exit()
        self.assertNotEqual(code, 0)
        self.assertIn("nonsense", daemon.log())
        daemon.kill()


class AndroidInit(unittest.TestCase):
    """Sockets as Android's init hands them over: bound, and named by the environment."""

    def hand_over(self, *names):
        folder = Path(tempfile.mkdtemp(prefix="coordgen-init-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        sockets = [socket.socket(socket.AF_UNIX) for _ in names]
        for name, handed in zip(names, sockets):
            self.addCleanup(handed.close)
            handed.bind(str(folder / name))
        variables = [f"ANDROID_SOCKET_{name}={handed.fileno()}" for name, handed in zip(names, sockets)]
        daemon = Daemon(wait=False, command=["env", *variables], pass_fds=[handed.fileno() for handed in sockets])
        self.addCleanup(daemon.kill)
        return daemon, folder

    def test_api_and_admin(self):
        daemon, folder = self.hand_over("coordgend", "coordgend_admin")
        daemon.wait_notice("READY=1")
        with Connection(folder / "coordgend") as connection, Connection(folder / "coordgend_admin") as admin:
            with self.assertRaises(Refused):
                connection.call(model_unload=pb.ModelUnloadRequest(model="x"))
            self.assertTrue(admin.call(model_list=pb.ModelListRequest()).model_list.models)
        daemon.signal(signal.SIGTERM)
        self.assertEqual(daemon.wait_exit(), 0)
        self.assertTrue((folder / "coordgend").exists())  # init's

    def test_no_socket_is_an_error(self):
        daemon = Daemon(wait=False, command=["env", "ANDROID_SOCKET_coordgend=0"])
        self.addCleanup(daemon.kill)
        self.assertEqual(daemon.wait_exit(), 78)
        self.assertIn("ANDROID_SOCKET_coordgend=0 is not the descriptor", daemon.log())


class Config(unittest.TestCase):
    """A wrong setting ends the start with a text that names the place and the value."""

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="coordgen-conf-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def run_daemon(self, *args):
        return subprocess.run([BIN / "coordgend", *args], capture_output=True, text=True, timeout=60 * SLOW,
                              stdin=subprocess.DEVNULL)

    def check(self, text):
        path = self.folder / "c.conf"
        path.write_text(text)
        return path, self.run_daemon(f"--config={path}", "--check-config")

    def test_good_file(self):
        _, run = self.check("# a comment\n\nmax-queue = 7   # another\nframe-timeout=500ms\n")
        self.assertEqual(run.returncode, 0, run.stderr)

    def test_wrong_lines(self):
        for line, words in (("max-queue = many", "many"), ("no-such-setting = 1", "no-such-setting"), ("max-queue", "max-queue"),
                            ("max-active = 0", "0"), ("max-active = 99999999999999999999", "99999999999999999999"),
                            ("device = toaster", "toaster"), ("frame-max = 1K", "1K"), ("frame-timeout = 5 parsecs", "parsecs"),
                            ("isa = mmx", "mmx"), ("max-queue = -1", "-1")):
            with self.subTest(line=line):
                path, run = self.check(f"# one\nlog-level = info\n{line}\n")
                self.assertEqual(run.returncode, 78, run.stderr)  # EX_CONFIG
                self.assertIn(f"{path}:3", run.stderr)
                self.assertIn(words, run.stderr)

    def test_settings_that_are_gone(self):
        """They keep nobody from a start, and say what holds instead."""
        said = "pin-threads has no effect any more: threads stay on a processor each"
        path, run = self.check("max-queue = 7\npin-threads = sometimes\n")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertRegex(run.stderr, rf"^coordgend: warning daemon: {path}:2: {said}.*\n$")
        run = self.run_daemon("--pin-threads", "yes", f"--config={os.devnull}", f"--cache-dir={self.folder}", "--check-config")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertRegex(run.stderr, rf"^coordgend: warning daemon: flag --{said}.*\n$")
        run = self.run_daemon(f"--config={path}", "--print-config")
        self.assertNotIn("pin-threads", run.stdout)

    def test_wrong_flags(self):
        for flag, words in (("--max-queue=many", "many"), ("--no-such-flag", "no-such-flag"), ("--isa=mmx", "mmx")):
            with self.subTest(flag=flag):
                run = self.run_daemon(flag, "--check-config")
                self.assertEqual(run.returncode, 2, run.stderr)
                self.assertIn(words, run.stderr)

    def test_missing_file_and_model(self):
        run = self.run_daemon("--config=/nonexistent/c.conf", "--check-config")
        self.assertEqual(run.returncode, 78)
        self.assertIn("/nonexistent/c.conf", run.stderr)

    def test_flags_win_over_the_file(self):
        path = self.folder / "c.conf"
        path.write_text("max-queue = 7\nmax-active = 3\n")
        run = self.run_daemon(f"--config={path}", "--max-queue=11", "--print-config")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertRegex(run.stdout, r"(?m)^max-queue *= *11\b")
        self.assertRegex(run.stdout, r"(?m)^max-active *= *3\b")

    def test_help_and_version(self):
        run = self.run_daemon("--help")
        self.assertEqual(run.returncode, 0)
        for word in ("--model", "--listen", "--config", "--threads"):
            self.assertIn(word, run.stdout)
        run = self.run_daemon("--version")
        self.assertEqual(run.returncode, 0)
        self.assertRegex(run.stdout, r"\d+\.\d+\.\d+")

    def test_socket_path_that_cannot_be_bound(self):
        for path in ("/nonexistent/folder/api.sock", "/tmp/" + "x" * 200):
            with self.subTest(path=path):
                run = self.run_daemon(f"--listen={path}", f"--model={MODEL}", f"--cache-dir={CACHE}", "--config=/dev/null")
                self.assertNotEqual(run.returncode, 0)
                self.assertIn(path[:60], run.stderr)

    def test_isa_that_the_machine_lacks(self):
        cpu = Path("/proc/cpuinfo").read_text()
        if "amx_int8" in cpu:
            self.skipTest("this machine has every level")
        run = self.run_daemon("--isa=amx", f"--listen={self.folder}/a.sock", f"--model={MODEL}", f"--cache-dir={CACHE}",
                              "--config=/dev/null")
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("amx", run.stderr)


# Covers every cgroup hierarchy by one whose top has the limits, as a container sees its own, and becomes "$@".
IN_SMALL_CGROUP = """
set -e
for point in $(awk '/ - cgroup2? / { print $5 }' /proc/self/mountinfo); do
    mount -t tmpfs none "$point"
    echo 314572800 | tee "$point/memory.max" >"$point/memory.limit_in_bytes"
    echo 50000 100000 >"$point/cpu.max"
    echo 50000 >"$point/cpu.cfs_quota_us"
    echo 100000 >"$point/cpu.cfs_period_us"
done
exec "$@"
"""


class SmallCgroup(unittest.TestCase):
    """Defaults go by what the cgroup leaves of the machine."""

    def setUp(self):
        if " - cgroup" not in Path("/proc/self/mountinfo").read_text():
            self.skipTest("no cgroup hierarchy is mounted")
        if self.run_inside("true").returncode:
            self.skipTest("mounts in a namespace of its own are not allowed here")

    def run_inside(self, *command):
        return subprocess.run(["unshare", "--map-root-user", "--mount", "sh", "-c", IN_SMALL_CGROUP, "sh", *command],
                              capture_output=True, text=True, timeout=60 * SLOW, stdin=subprocess.DEVNULL)

    def test_defaults(self):
        flags = (f"--config={os.devnull}", "--cache-dir=/nonexistent", "--print-config")
        run = self.run_inside(BIN / "coordgend", *flags)
        self.assertEqual(run.returncode, 0, run.stderr)
        for name, value in (("memory-limit", "240M"), ("kv-memory-limit", "75M"), ("prefix-cache-max", "30M")):
            self.assertRegex(run.stdout, rf"(?m)^{name} = {value}$")
        run = self.run_inside(BIN / "coordgend", *flags, "--memory-limit=3G")
        self.assertRegex(run.stdout, r"(?m)^memory-limit = 3G$")

    def test_log_says_which_file(self):
        """A start that fails at its socket has said it by then."""
        run = self.run_inside(BIN / "coordgend", f"--config={os.devnull}", "--cache-dir=/nonexistent",
                              "--listen=/nonexistent/api", "--log-target=stderr")
        self.assertRegex(run.stderr, r"may use 300 MiB of the machine's \d+ MiB of memory: /.*/memory\.")


CALL_SET_AFFINITY = {"x86_64": 203, "aarch64": 122}.get(os.uname().machine)


def deny_affinity():
    """For a child: sched_setaffinity() is EPERM, as in a unit that does not allow it."""
    lines = ((0x20, 0, 0, 0), (0x15, 0, 1, CALL_SET_AFFINITY), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7fff0000))
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in lines))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if prctl(38, 1, 0, 0, 0) or prctl(22, 2, struct.pack("@HP", len(lines), ctypes.addressof(code))):
        raise OSError(ctypes.get_errno(), "prctl")


class Pinning(unittest.TestCase):
    @unittest.skipUnless(CALL_SET_AFFINITY and len(os.sched_getaffinity(0)) > 1, "needs two processors and a known number")
    def test_log_says_why_not(self):
        """It is tried where there is a thread for every processor, and no more than a note when the system forbids it."""
        with tempfile.TemporaryDirectory(prefix="coordgen-") as folder:
            daemon = subprocess.Popen([BIN / "coordgend", f"--config={os.devnull}", f"--listen={folder}/api",
                                       f"--cache-dir={folder}", "--draftdb=no", "--log-level=info", "--threads=0",
                                       "--log-target=stderr"],
                                      preexec_fn=deny_affinity, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            patience = threading.Timer(30 * SLOW, daemon.kill)
            patience.start()
            lines = [line for line in iter(daemon.stderr.readline, "") if "a processor each" in line and not daemon.terminate()]
            patience.cancel()
            daemon.communicate()
            self.assertEqual(len(lines), 1)
            self.assertIn("threads do not stay on a processor each: Operation not permitted", lines[0])


class SharedMachine(DaemonCase):
    def test_daemon_computes_with_its_threads_only(self):
        status = self.connect().status()
        self.assertLessEqual(status.threads, os.cpu_count())
        self.assertFalse(status.draining)


if __name__ == "__main__":
    unittest.main()
