# SPDX-License-Identifier: Apache-2.0
"""Loads by path: the client opens the file and hands it over, so that the service need not be able to reach it."""

import array
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import unittest
from pathlib import Path

import coordgen_pb2 as pb

from daemon import Daemon, DaemonCase
from settings import BIN, MODEL, SLOW
from wire import Connection, prompt

CTL = BIN / "coordgenctl"
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]
# The sockets are in the folder that the daemon is told its notices go to.
AS_NOBODY = ["sh", "-c", 'd=${NOTIFY_SOCKET%/*} && chmod 755 "$d" && chown 65534 "$d" "$d"/* && exec ' + " ".join(NOBODY) +
             ' "$0" "$@" --listen="$d/api.sock" --admin-listen="$d/admin.sock"']


def why_not():
    """Why no other user can run the daemon here, or None."""
    if os.geteuid():
        return "only root can run the service as another user"
    if not shutil.which("setpriv"):
        return "setpriv is missing"
    if subprocess.run([*NOBODY, BIN / "coordgend", "--version"], capture_output=True).returncode:
        return f"another user cannot run {BIN}/coordgend"
    return None


def frame(**op):
    (field, message), = op.items()
    request = pb.Request(request_id=op_id())
    getattr(request, field).CopyFrom(message)
    body = request.SerializeToString()
    return struct.pack("<I", len(body)) + body


def op_id(_count=[1000]):
    _count[0] += 1
    return _count[0]


def send_with(connection, data, *fds):
    """One message with these descriptors."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    assert connection.socket.sendmsg([data], rights) == len(data)


def load_of(path, with_file=True):
    return pb.ModelLoadRequest(model=str(path), with_file=with_file)


@unittest.skipIf(why_not(), why_not())
class Unreachable(unittest.TestCase):
    """The daemon runs as a user who may not read the file, as the system's service does with one in a home."""

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="coordgen-handover-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.cache = self.folder / "cache"
        self.cache.mkdir()
        os.chown(self.cache, 65534, 65534)
        self.folder.chmod(0o755)
        self.home = self.folder / "home"
        self.home.mkdir(mode=0o700)
        self.source = self.home / "source.gguf"
        shutil.copyfile(MODEL, self.source)
        self.source.chmod(0o600)
        self.daemon = Daemon(model=None, cache=self.cache, command=AS_NOBODY)
        self.addCleanup(self.daemon.kill)

    def ctl(self, *args, before=()):
        run = subprocess.run([*before, CTL, "--socket", str(self.daemon.api), *map(str, args)], capture_output=True, text=True,
                             stdin=subprocess.DEVNULL, timeout=300 * SLOW)
        return run.returncode, run.stdout, run.stderr

    def test_source_and_package(self):
        package = self.home / "package.cgm"
        subprocess.run([CTL, "model", "import", "--quiet", self.source, "-o", package], check=True, stdout=subprocess.DEVNULL)
        package.chmod(0o600)
        admin = self.daemon.connect(admin=True)
        with self.assertRaisesRegex(Exception, "MODEL_NOT_FOUND.*Permission denied"):
            admin.load(self.source)
        tokens = []
        for path in (self.source, package):
            code, out, err = self.ctl("model", "load", path)
            self.assertEqual((code, out), (0, f"{path.stem}: ready\n"), err)
            tokens.append(admin.generate(prompt("Once upon a time", 8, model=path.stem, ignore_end=True)).tokens)
            shown = admin.call(model_show=pb.ModelShowRequest(model=path.stem)).model_show.model
            self.assertEqual((shown.path, shown.file_bytes), (str(path), path.stat().st_size))
        self.assertEqual(*tokens)
        # By another path it is the same model; a link has the name of the link.
        link = self.home / "link.cgm"
        link.symlink_to(package)
        self.assertEqual(self.ctl("model", "load", link)[1], "package: ready\n")
        for name in ("source", "package"):
            self.assertEqual(self.ctl("model", "unload", name)[0], 0)
        self.assertEqual(self.ctl("model", "list", "--no-legend")[1], "")
        held = [os.readlink(entry) for entry in Path(f"/proc/{self.daemon.process.pid}/fd").iterdir()]
        self.assertEqual([name for name in held if str(self.home) in name], [])
        self.assertEqual(self.ctl("model", "load", link)[1], "link: ready\n")
        self.daemon.stop()

    def test_client_that_may_not_read_it(self):
        code, _, err = self.ctl("model", "load", self.source, before=NOBODY)
        self.assertEqual(code, 77, err)
        self.assertIn(f"{self.source}: Permission denied", err)
        for path, why in ((self.home / "none.gguf", "No such file"), (self.home, "not a regular file")):
            code, _, err = self.ctl("model", "load", f"{path}/" if path == self.home else path)
            self.assertNotEqual(code, 0)
            self.assertIn(why, err)
        damaged = self.home / "damaged.gguf"
        damaged.write_bytes(b"GGUF" + bytes(100))
        code, _, err = self.ctl("model", "load", damaged)
        self.assertEqual(code, 1)
        self.assertIn(str(damaged), err)
        self.daemon.stop()


class Descriptors(DaemonCase):
    """What comes where none belongs is closed, and the connection goes on or is told."""

    def n_open(self):
        return len(os.listdir(f"/proc/{self.daemon.process.pid}/fd"))

    def settled(self, n):
        self.daemon.wait_until(lambda _: self.n_open() == n, f"{n} open files", through=self.opened[0])

    def test_other_messages(self):
        connection = self.connect()
        n = self.n_open()
        with open(MODEL, "rb") as file:
            for _ in range(100):
                send_with(connection, frame(status=pb.StatusRequest()), file.fileno())
                self.assertEqual(connection.read_frame().WhichOneof("op"), "status")
            send_with(connection, frame(model_load=load_of(MODEL, False)), file.fileno())
            self.assertEqual(connection.read_frame().WhichOneof("op"), "model_load")
            send_with(connection, frame(model_load=load_of(MODEL)), file.fileno())  # loaded: the file is not needed
            self.assertEqual(connection.read_frame().WhichOneof("op"), "model_load")
            # Of a frame that never comes whole, and of a message that is none.
            for data in (frame(status=pb.StatusRequest())[:3], b"\x02\0\0\0\xff\xff"):
                with Connection(self.daemon.api) as other:
                    send_with(other, data, file.fileno())
        self.settled(n)

    def test_more_than_one(self):
        connection = self.connect()
        n = self.n_open()
        with open(MODEL, "rb") as file:
            for count in (2, 3, 200):
                with Connection(self.daemon.api) as other:
                    send_with(other, frame(model_load=load_of(MODEL)), *[file.fileno()] * count)
                    self.assertEqual(other.read_frame().error.code, pb.ERROR_CODE_PROTOCOL)
                    other.read_end()
            with Connection(self.daemon.api) as other:
                for byte in frame(model_load=load_of(MODEL)):
                    try:
                        send_with(other, bytes([byte]), file.fileno())
                    except OSError:
                        break
                self.assertEqual(other.read_frame().error.code, pb.ERROR_CODE_PROTOCOL)
        self.settled(n)

    def refused(self, connection, fd):
        send_with(connection, frame(model_load=load_of("/nowhere/m.gguf")), *([] if fd is None else [fd]))
        error = connection.read_frame().error
        self.assertEqual((error.code, error.field), (pb.ERROR_CODE_INVALID_ARGUMENT, "model_load.with_file"), error)

    def test_what_is_no_model_file(self):
        connection = self.connect()
        n = self.n_open()
        self.refused(connection, None)
        pipe = os.pipe()
        write_only = os.open("/tmp", os.O_WRONLY | os.O_TMPFILE)
        others = [*pipe, write_only, os.open("/tmp", os.O_RDONLY), os.open(MODEL, os.O_PATH), connection.socket.fileno()]
        for fd in others:
            self.refused(connection, fd)
        for fd in others[:-1]:
            os.close(fd)
        with tempfile.TemporaryFile() as file:
            os.truncate(file.fileno(), (1 << 40) + 1)
            self.refused(connection, file.fileno())
        with open(MODEL, "rb") as file:
            send_with(connection, frame(model_load=load_of("m.gguf")), file.fileno())
            self.assertEqual(connection.read_frame().error.field, "model_load.with_file")
        self.settled(n)

    def test_in_pieces_and_behind_others(self):
        """The file belongs to the frame that it was sent with, wherever reads end."""
        admin = self.connect(admin=True)
        name = Path(tempfile.mkdtemp(prefix="coordgen-handover-")) / "other.gguf"
        self.addCleanup(shutil.rmtree, name.parent)
        shutil.copyfile(MODEL, name)
        status = frame(status=pb.StatusRequest())
        for n_before, cut in ((0, 1), (0, 4), (0, 20), (5, 1), (5, 20), (20, -1), (20, None)):
            with open(name, "rb") as file, Connection(self.daemon.admin) as connection:
                data = frame(model_load=load_of("/elsewhere/other.gguf"))
                connection.send_bytes(status * n_before)
                send_with(connection, data[:cut], file.fileno())
                if cut is not None:
                    connection.send_bytes(data[cut:] + status)
                kinds = []
                while kinds.count("model_load") < 1:
                    reply = connection.read_frame()
                    self.assertNotEqual(reply.WhichOneof("op"), "error", reply)
                    kinds.append(reply.WhichOneof("op"))
            admin.call(model_unload=pb.ModelUnloadRequest(model="other"))

    @unittest.skipUnless(os.geteuid() == 0, "only root can be another user")
    def test_who_may_not_load_by_path(self):
        first = self.connect()
        with open(MODEL, "rb") as file, Connection.as_nobody(self.daemon.api) as connection:
            connection.call(status=pb.StatusRequest())
            n = self.n_open()
            for _ in range(20):
                send_with(connection, frame(status=pb.StatusRequest()), *[file.fileno()] * 10)
                connection.read_frame()
            send_with(connection, frame(model_load=load_of(MODEL)), file.fileno())
            self.assertEqual(connection.read_frame().error.code, pb.ERROR_CODE_DENIED)
            self.settled(n)
        first.status()


if __name__ == "__main__":
    unittest.main()
