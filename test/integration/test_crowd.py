# SPDX-License-Identifier: Apache-2.0
"""Clients that ask for much at once: everybody else is answered meanwhile."""

import shutil
import struct
import tempfile
import unittest
from pathlib import Path

import coordgen_pb2 as pb
import gguf

from daemon import Daemon
from wire import Refused

N_FILES, N_CONNECTIONS, N_PIPELINED = 1000, 8, 700


def frames(n, **op):
    """Requests with ids from 1, as one piece of bytes."""
    (field, message), = op.items()
    pieces = []
    for number in range(1, n + 1):
        request = pb.Request(request_id=number + 1)
        getattr(request, field).CopyFrom(message)
        body = request.SerializeToString()
        pieces.append(struct.pack("<I", len(body)) + body)
    return b"".join(pieces)


class Folder(unittest.TestCase):
    """A thousand files in model-dir, and requests that look there by the thousand."""

    def setUp(self):
        self.models = Path(tempfile.mkdtemp(prefix="coordgen-crowd-"))
        self.addCleanup(shutil.rmtree, self.models)
        for number in range(N_FILES):
            (self.models / f"m{number:03}.gguf").write_bytes(gguf.TINY)
        self.daemon = Daemon(f"--model-dir={self.models}", "--output-buffer=64M", "--session-memory-limit=0", model=None)
        self.addCleanup(self.daemon.kill)

    def test_pings_are_answered_meanwhile(self):
        """Another client's pings do not wait for all that the crowd has asked for."""
        for what, message in (("model_list", pb.ModelListRequest()),
                              ("model_load", pb.ModelLoadRequest(model="none")),
                              ("model_load", pb.ModelLoadRequest(model="/n.gguf"))):
            with self.subTest(what=what, message=message):
                data = frames(N_PIPELINED, **{what: message})
                self.assertLess(len(data), 16 << 10)  # what the service reads of a connection in one go
                # Where this process is held up the crowd is done before it looks: then once more.
                self.assertTrue(any(self.n_pings(data, admin=what == "model_load") >= 5 for _ in range(5)),
                                "the pings were answered behind the crowd")
        self.daemon.stop()

    def n_pings(self, data, admin):
        """How many answers a client gets, one after the other, before the whole crowd has its own."""
        n = 0
        with self.daemon.connect() as ping:
            crowd = [self.daemon.connect(admin=admin) for _ in range(N_CONNECTIONS)]
            for connection in crowd:
                connection.send_bytes(data)
                connection.send(hello=pb.HelloRequest())  # a second one: behind the last answer is the end
            while crowd:
                self.assertTrue(ping.status().pid)
                n += 1
                crowd = [connection for connection in crowd if not self.has_ended(connection)]
        return n - 1

    @staticmethod
    def has_ended(connection):
        """Takes what has come."""
        connection.socket.setblocking(False)
        try:
            while connection.socket.recv(1 << 20):
                pass
        except BlockingIOError:
            return False
        except ConnectionResetError:
            pass
        connection.close()
        return True

    def test_new_files_are_seen_at_once(self):
        app, admin = self.daemon.connect(), self.daemon.connect(admin=True)

        def names():
            return {model.name for model in app.call(model_list=pb.ModelListRequest()).model_list.models}

        before = names()
        self.assertEqual(len(before), N_FILES)
        for number in range(5):
            (self.models / f"new{number}.gguf").write_bytes(gguf.TINY)
            self.assertEqual(names() - before, {f"new{i}" for i in range(number + 1)})
            (self.models / f"later{number}.gguf").write_bytes(gguf.TINY)
            with self.assertRaises(Refused) as caught:
                admin.load(f"later{number}")
            self.assertEqual(caught.exception.code, pb.ERROR_CODE_MODEL_CORRUPT, caught.exception)
            (self.models / f"later{number}.gguf").unlink()
        (self.models / "m000.gguf").unlink()
        self.assertNotIn("m000", names())
        self.daemon.stop()


class Loads(unittest.TestCase):
    def test_loads_that_wait_are_bounded(self):
        """They do not go through the queue, and its limits hold for them too: half of it for one user."""
        cache = Path(tempfile.mkdtemp(prefix="coordgen-crowd-"))
        self.addCleanup(shutil.rmtree, cache)
        daemon = Daemon("--max-queue=8", wait=False, cache=cache)  # it is imported: that takes longer than this
        self.addCleanup(daemon.kill)
        daemon.wait_notice("READY=1")
        with daemon.connect() as app:
            name = app.call(model_show=pb.ModelShowRequest()).model_show.model.name
            loads = [app.send(model_load=pb.ModelLoadRequest(model=name)) for _ in range(5)]
            with self.assertRaises(Refused) as caught:
                while True:
                    app.next(loads[4])
            self.assertEqual(caught.exception.code, pb.ERROR_CODE_QUOTA_EXCEEDED, caught.exception)
            self.assertFalse(any(reply.WhichOneof("op") == "error" for load in loads[:4] for reply in app.replies[load]))
        daemon.stop()


if __name__ == "__main__":
    unittest.main()
