# SPDX-License-Identifier: Apache-2.0
"""How coordgen-httpd starts and ends, on which sockets, and whom it lets in."""

import http.client
import os
import re
import signal
import socket
import subprocess
import time
import unittest

from completion import complete
from daemon import DaemonCase
from gateway import Gateway, GatewayCase
from settings import BIN, SLOW, TOP
from test_gateway_http import CHAT, question, read_reply

TOKEN = "0123456789abcdef0123456789abcdef"


def run(*args, env=None):
    return subprocess.run([BIN / "coordgen-httpd", *args], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          timeout=60 * SLOW, env=dict(os.environ, **env) if env else None)


def ports(gateway):
    """The TCP ports that the log names, which the kernel has chosen."""
    deadline = time.monotonic() + 30 * SLOW
    while not (found := re.findall(r"serving on (127\.0\.0\.1|\[::1\]):(\d+)", gateway.log())):
        if time.monotonic() > deadline:
            raise AssertionError(gateway.log())
        time.sleep(0.02)
    return {host: int(port) for host, port in found}


class Options(unittest.TestCase):
    def test_wrong_ones_are_refused_by_name(self):
        for args, words in ((["--no-such"], "no-such"), (["--listen=0.0.0.0:80"], "0.0.0.0:80"), (["--listen=localhost:80"], "127.0.0.1:PORT"),
                            (["--listen=127.0.0.1:99999"], "99999"), (["--listen=[::]:80"], "this machine alone"),
                            (["--max-body=0"], "--max-body"), (["--max-body=1T"], "--max-body"), (["--max-connections=1"], "--max-connections"),
                            (["--allow-origin=example.org"], "--allow-origin"), (["--allow-origin=https://a/b"], "--allow-origin"),
                            (["--idle-timeout=0"], "--idle-timeout"), (["--listen="], "--listen"), (["argument"], "argument"),
                            (["--listen=127.0.0.1:0"], "--token-file")):
            with self.subTest(args=args):
                result = run(*args)
                self.assertIn(result.returncode, (2, 78), result.stderr)
                self.assertIn(words, result.stderr)

    def test_help_version_manual_and_completion(self):
        text = run("--help").stdout
        self.assertTrue(run("--version").stdout.startswith("coordgen-httpd "))
        listed = set(re.findall(r"(?m)^ +(?:-\w, )?--([a-z-]+)", text))
        self.assertGreater(len(listed), 15)
        page = (TOP / "packaging/man/coordgen-httpd.8").read_text().replace("\\-", "-").split(".SH OPTIONS")[1].split(".SH CLIENTS")[0]
        self.assertEqual(listed, set(re.findall(r"--([a-z-]+)", page)) - {"exit"})
        self.assertEqual({f"--{name}" for name in listed}, {word for word in complete("coordgen-httpd", "coordgen-httpd", "--")})

    def test_default_socket_needs_a_folder(self):
        if os.geteuid():
            self.assertIn("XDG_RUNTIME_DIR", run(env={"XDG_RUNTIME_DIR": "/nonexistent"}).stderr)
        else:
            self.assertIn("--listen", run().stderr)


class Sockets(DaemonCase):
    def gateway(self, *flags, **options):
        gateway = Gateway(self.daemon, *flags, **options)
        self.addCleanup(gateway.kill)
        return gateway

    def token_file(self, text=TOKEN + "\n", mode=0o600):
        path = self.daemon.folder / "token"
        path.unlink(missing_ok=True)
        path.write_text(text)
        path.chmod(mode)
        return path

    def test_socket_of_a_living_one_is_not_taken(self):
        first = self.gateway()
        self.assertEqual(first.path.stat().st_mode & 0o777, 0o600)
        result = run(f"--listen={first.path}", f"--socket={self.daemon.api}")
        self.assertEqual(result.returncode, 78, result.stderr)
        self.assertIn(str(first.path), result.stderr)
        self.assertEqual(first.request("GET", "/health").status, 200)
        first.process.kill()
        first.process.wait()
        self.assertTrue(first.path.exists())
        second = self.gateway(f"--listen={first.path}")  # takes the place of the dead one
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(first.path))
        second.stop()
        self.assertFalse(first.path.exists())

    def test_token_files(self):
        for text, mode, words in ((TOKEN, 0o644, "chmod 600"), (TOKEN, 0o660, "chmod 600"), ("", 0o600, "has no token"), ("short\n", 0o600, ":1: a token has 16"),
                                  (TOKEN + "\n" + TOKEN + " x\n", 0o600, ":2: a token has ASCII"), ("\n" + "a\0b" * 20, 0o600, "NUL")):
            with self.subTest(text=text, mode=mode):
                result = run("--listen=127.0.0.1:0", f"--token-file={self.token_file(text, mode)}")
                self.assertEqual(result.returncode, 78, result.stderr)
                self.assertIn(words, result.stderr)
                self.assertNotIn(TOKEN[:16], result.stderr)
        self.assertIn("No such file", run("--listen=127.0.0.1:0", "--token-file=/nonexistent").stderr)

    def test_tcp(self):
        flags = ["--listen=127.0.0.1:0", f"--token-file={self.token_file(TOKEN + chr(10) + TOKEN[::-1])}", "--allow-host=box.lan"]
        if os.path.exists("/proc/net/if_inet6") and "00000000000000000000000000000001" in open("/proc/net/if_inet6").read():
            flags.append("--listen=[::1]:0")
        gateway = self.gateway(*flags)
        for host, port in ports(gateway).items():
            def ask(path, name=None, **headers):
                connection = http.client.HTTPConnection(host.strip("[]"), port, timeout=60 * SLOW)
                connection.putrequest("GET", path, skip_host=name is not None)
                if name is not None:
                    connection.putheader("Host", name)
                for header, value in headers.items():
                    connection.putheader(header.replace("_", "-"), value)
                connection.endheaders()
                response = connection.getresponse()
                response.read()
                connection.close()
                return response.status, dict(response.getheaders())

            bearer = {"Authorization": f"Bearer {TOKEN}"}
            for headers in (bearer, {"Authorization": f"bearer {TOKEN[::-1]}"}, {"X_Api_Key": TOKEN}):
                self.assertEqual(ask("/nothing", **headers)[0], 404)
            for headers in ({}, {"Authorization": f"Bearer {TOKEN}x"}, {"Authorization": TOKEN}, {"Authorization": "Bearer "}, {"X_Api_Key": ""}):
                status, sent = ask("/nothing", **headers)
                self.assertEqual((status, sent["WWW-Authenticate"]), (401, "Bearer"))
            self.assertEqual(ask("/health")[0], 200)
            for name, status in (("localhost", 200), ("LOCALHOST:80", 200), (f"127.0.0.1:{port}", 200), (f"[::1]:{port}", 200), ("box.lan", 200),
                                 ("evil.example", 403), ("localhost.evil.example", 403), ("127.0.0.2", 403), ("[::1].evil", 403),
                                 ("", 403), ("localhost:80:x", 403)):
                with self.subTest(name=name):
                    self.assertEqual(ask("/health", name)[0], status)
        # A token counts on the Unix socket too, whose clients may call the gateway as they like.
        self.assertEqual(gateway.request("GET", "/nothing", headers={"Host": "evil.example"}).status, 401)
        self.assertEqual(gateway.request("GET", "/nothing", headers={"Host": "evil.example", **bearer}).status, 404)
        gateway.stop()
        self.assertNotIn(TOKEN, gateway.log())

    def test_pages_from_elsewhere(self):
        plain = self.gateway()
        for origin, status in (("http://localhost", 200), ("https://localhost", 200), ("http://evil.example", 403), ("null", 403)):
            answer = plain.request("GET", "/health", headers={"Origin": origin})
            self.assertEqual(answer.status, status, origin)
            self.assertNotIn("access-control-allow-origin", answer.headers)
        allowed = self.gateway("--allow-origin=https://page.example", f"--token-file={self.token_file()}")
        headers = {"Origin": "https://page.example", "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,x-stainless-os"}
        answer = allowed.request("OPTIONS", CHAT, headers=headers)
        self.assertEqual(answer.status, 204)
        self.assertEqual({name: value for name, value in answer.headers.items() if name.startswith("access-")},
                         {"access-control-allow-origin": "https://page.example", "access-control-allow-methods": "POST",
                          "access-control-allow-headers": "authorization,x-stainless-os", "access-control-max-age": "600",
                          "access-control-expose-headers": "Retry-After"})
        answer = allowed.request("POST", CHAT, question(), headers={"Origin": "https://page.example"})
        self.assertEqual((answer.status, answer.headers["access-control-allow-origin"]), (401, "https://page.example"))
        answer = allowed.request("OPTIONS", CHAT, headers={**headers, "Origin": "https://page.example.evil"})
        self.assertEqual(answer.status, 403)
        any_page = self.gateway("--allow-origin=*")
        self.assertEqual(any_page.request("GET", "/health", headers={"Origin": "null"}).headers["access-control-allow-origin"], "*")
        for gateway in (plain, allowed, any_page):
            gateway.stop()


class Activation(DaemonCase):
    """Sockets as systemd hands them over, and the end when no client comes."""

    def start(self, *listening, flags=(), names=None, wait=True):
        fds = [sock.fileno() for sock in listening]
        # The shell puts the sockets where systemd has them, and its number is the program's.
        moves = " ".join(f"{3 + index}<&{fd}" for index, fd in enumerate(fds))
        command = ["sh", "-c", f'export LISTEN_PID=$$ LISTEN_FDS={len(fds)}; exec "$@" {moves}', "sh"]
        env = {"LISTEN_FDNAMES": names} if names else {}
        gateway = Gateway(self.daemon, *flags, env=env, command=command, listen=False, wait=False, pass_fds=fds)
        self.addCleanup(gateway.kill)
        return gateway

    def unix(self):
        listening = socket.socket(socket.AF_UNIX)
        self.addCleanup(listening.close)
        path = self.daemon.folder / f"{self._testMethodName}.sock"
        listening.bind(str(path))
        listening.listen()
        return path, listening

    def tcp(self, address="127.0.0.1"):
        listening = socket.create_server((address, 0))
        self.addCleanup(listening.close)
        return listening

    def test_sockets_that_are_handed_over(self):
        path, listening = self.unix()
        token = self.daemon.folder / "activation-token"
        token.write_text(TOKEN)
        token.chmod(0o600)
        other = self.tcp()
        gateway = self.start(listening, other, flags=[f"--token-file={token}"], names="http:coordgen-httpd.socket")
        gateway.path = path
        gateway.wait_answer()
        self.assertEqual(gateway.request("GET", "/health").status, 200)
        with socket.create_connection(other.getsockname()) as connection, connection.makefile("rb") as stream:
            connection.sendall(b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertEqual(read_reply(stream)[0], 401)
        gateway.stop()
        self.assertTrue(path.exists())  # systemd's file

    def test_sockets_that_are_refused(self):
        bare = socket.socket(socket.AF_UNIX)
        self.addCleanup(bare.close)
        for listening, words in ((self.tcp(), "--token-file"), (bare, "not a listening")):
            with self.subTest(words=words):
                gateway = self.start(listening)
                self.assertEqual(gateway.wait_exit(), 78, gateway.log())
                self.assertIn(words, gateway.log())

    def test_open_tcp_is_refused(self):
        token = self.daemon.folder / "open-token"
        token.write_text(TOKEN)
        token.chmod(0o600)
        gateway = self.start(self.tcp("0.0.0.0"), flags=[f"--token-file={token}"])
        self.assertEqual(gateway.wait_exit(), 78, gateway.log())
        self.assertIn("127.0.0.1 or [::1]", gateway.log())

    def test_idle_exit(self):
        path, listening = self.unix()
        with socket.socket(socket.AF_UNIX) as client, client.makefile("rb") as stream:
            client.connect(str(path))  # waits at the socket before there is a process
            gateway = self.start(listening, flags=["--idle-exit=1"])
            client.sendall(b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n")
            self.assertEqual(read_reply(stream)[0], 404)
            time.sleep(1.5)  # a client that stays keeps the process
            self.assertIsNone(gateway.process.poll())
        self.assertEqual(gateway.wait_exit(), 0)
        gateway.expected_to_end = True
        gateway.stop()
        # The next client waits at the socket for the next process.
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))

    def test_service_manager_is_told(self):
        notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(notify.close)
        notify.settimeout(60 * SLOW)
        place = self.daemon.folder / "http-notify"
        notify.bind(str(place))
        gateway = Gateway(self.daemon, env={"NOTIFY_SOCKET": str(place), "WATCHDOG_USEC": "200000"})
        self.addCleanup(gateway.kill)
        self.assertTrue(notify.recv(1000).startswith(b"READY=1\n"))
        self.assertEqual(notify.recv(1000), b"WATCHDOG=1")
        gateway.signal(signal.SIGTERM)
        while (message := notify.recv(1000)) == b"WATCHDOG=1":
            pass
        self.assertTrue(message.startswith(b"STOPPING=1\n"), message)
        gateway.stop()


if __name__ == "__main__":
    unittest.main()
