# SPDX-License-Identifier: Apache-2.0
"""coordgend and coordgen-httpd of a build folder, for the suites of others."""

import asyncio
import contextlib
import ctypes
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("COORDGEN_BUILD") or TOP / "build").absolute()
BIN = BUILD / "bin"
CACHE = Path(os.environ.get("COORDGEN_TEST_CACHE") or TOP / "build" / "check" / "cache").absolute()
PR_SET_PDEATHSIG = 1


class ServiceError(Exception):
    """What went wrong and what to do about it, for the user."""


def model_path(name):
    """Path of a model that tools/fetch-model knows; fetches it if it is not there."""
    asked = os.environ.get("COORDGEN_MODEL")
    if asked and Path(asked).stem == name:
        return Path(asked)
    done = subprocess.run([TOP / "tools" / "fetch-model", "--quiet", name], capture_output=True, text=True)
    if done.returncode:
        raise ServiceError(done.stderr.strip() or f"{name} could not be fetched")
    return Path(done.stdout.strip())


def share_import(path, name):
    """Gives an import of a model that the cache has another name, so that a model with two names is imported once."""
    for package in (CACHE / "models").glob(f"{path.stem}-*.cgm"):
        source = package.name.removeprefix(path.stem)  # "-" and the beginning of the source's hash
        if re.fullmatch(r"-[0-9a-f]{12}\.cgm", source):
            with contextlib.suppress(FileExistsError):
                (CACHE / "models" / f"{name}{source}").hardlink_to(package)


def die_with_parent(number=signal.SIGKILL):
    """Makes the kernel signal this process when its parent is killed, which leaves the parent no time to do it."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)


def further_flags(variable):
    return os.environ.get(variable, "").split()


class Relay:
    """Passes bytes between a TCP port of this machine and a Unix socket. A gateway without a token has no TCP port of
    its own, and suites that send no token know TCP alone."""

    def __init__(self, hosts, port, path):
        self.path = str(path)
        self.loop = asyncio.new_event_loop()
        self.listeners = [self.listen(host, port) for host in hosts]
        threading.Thread(target=self.run, daemon=True).start()

    @staticmethod
    def listen(host, port):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((host, port))
        listener.listen(128)
        return listener

    def run(self):
        asyncio.set_event_loop(self.loop)
        for listener in self.listeners:
            self.loop.run_until_complete(asyncio.start_server(self.serve, sock=listener))
        self.loop.run_forever()

    async def serve(self, reader, writer):
        try:
            upstream = await asyncio.open_unix_connection(self.path)
        except OSError:
            writer.close()
            return
        both = [asyncio.create_task(self.copy(reader, upstream[1])),
                asyncio.create_task(self.copy(upstream[0], writer))]
        # The end of either side is the end of both: these clients never close one direction alone.
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        for task in both:
            task.cancel()
        for end in (writer, upstream[1]):
            end.close()

    @staticmethod
    async def copy(reader, writer):
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass


class Service:
    """Started on construction, in a new folder that must be short: a socket's path has 107 bytes. `names` says which
    model has which name for clients; the first is the default model. A port needs a token."""

    def __init__(self, folder, names, port=None, hosts=("127.0.0.1",), token=None, daemon_flags=(), httpd_flags=()):
        self.folder = Path(folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / "models").mkdir(parents=True)
        for name, path in names.items():
            (self.folder / "models" / f"{name}.gguf").symlink_to(path)
            share_import(Path(path), name)
        (self.folder / "coordgend.conf").write_text("")
        CACHE.mkdir(parents=True, exist_ok=True)
        self.api, self.http = self.folder / "api.sock", self.folder / "http.sock"
        self.processes = {}
        self.start("coordgend", [
            f"--config={self.folder}/coordgend.conf", f"--cache-dir={CACHE}", f"--model-dir={self.folder}/models",
            f"--model={next(iter(names))}", f"--listen={self.api}", f"--admin-listen={self.folder}/admin.sock",
            "--log-target=stderr", f"--draftdb-dir={self.folder}/draftdb", f"--state-dir={self.folder}/state",
            *daemon_flags, *further_flags("COORDGEN_PEERS_DAEMON")])
        self.wait_socket("coordgend", self.api)
        self.ctl("wait-ready", timeout=600)
        listen = [f"--listen={self.http}"]
        if port:
            (self.folder / "token").write_text(token + "\n")
            (self.folder / "token").chmod(0o600)
            listen = [f"--listen=[{host}]:{port}" if ":" in host else f"--listen={host}:{port}" for host in hosts]
            listen.append(f"--token-file={self.folder}/token")
        self.start("coordgen-httpd", [f"--socket={self.api}", *listen, *httpd_flags,
                                      *further_flags("COORDGEN_PEERS_HTTPD")])
        if not port:
            self.wait_socket("coordgen-httpd", self.http)

    def start(self, program, flags):
        with open(self.folder / f"{program}.log", "ab") as log:
            self.processes[program] = subprocess.Popen([BIN / program, *flags], stdin=subprocess.DEVNULL, stdout=log,
                                                       stderr=log, preexec_fn=die_with_parent)

    def log(self, program):
        return (self.folder / f"{program}.log").read_text(errors="replace")

    def check(self):
        """Raises if one of the programs has ended by itself."""
        for program, process in self.processes.items():
            if process.poll() is not None:
                raise ServiceError(f"{program} ended with {process.returncode}:\n{self.log(program)[-3000:]}")

    def wait_socket(self, program, path, timeout=120):
        deadline = time.monotonic() + timeout
        while True:
            self.check()
            with socket.socket(socket.AF_UNIX) as probe:
                try:
                    probe.connect(str(path))
                    return
                except OSError as error:
                    if time.monotonic() > deadline:
                        raise ServiceError(f"{program} does not listen on {path}: {error}") from None
            time.sleep(0.01)

    def ctl(self, *words, stdin=None, timeout=120):
        """The standard output of coordgenctl."""
        done = subprocess.run([BIN / "coordgenctl", f"--socket={self.api}", *words], input=stdin, capture_output=True,
                              text=True, timeout=timeout)
        if done.returncode:
            raise ServiceError(f"coordgenctl {' '.join(words)} ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def stop(self):
        """Ends both; returns what each has ended with, the gateway first."""
        codes = {}
        for program in reversed(list(self.processes)):
            process = self.processes[program]
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(4)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
            codes[program] = process.returncode
        return codes
