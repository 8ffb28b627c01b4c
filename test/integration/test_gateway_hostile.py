# SPDX-License-Identifier: Apache-2.0
"""Clients of coordgen-httpd that send what nobody should, take nothing, or go: refused, cleaned up after, others unharmed."""

import contextlib
import json
import re
import resource
import signal
import socket
import threading
import time
import unittest

from daemon import Daemon
from gateway import Gateway, GatewayCase
from settings import SLOW, whole_model
from test_gateway_http import CHAT, question, read_reply

PATIENCE = 60 * SLOW
HOST = b"Host: localhost\r\n"


def until(condition, what):
    """Waits until condition() is true; returns what it gave."""
    deadline = time.monotonic() + PATIENCE
    while not (result := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {PATIENCE:g} s: {what}")
        time.sleep(0.02)
    return result


def post(body, path=CHAT, more=b""):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return b"POST %s HTTP/1.1\r\n%sContent-Length: %d\r\n%s\r\n%s" % (path.encode(), HOST, len(body), more, body)


def read_end(connection):
    """What comes until the connection ends, however it ends."""
    data = b""
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(65536):
            data += part
    return data


class Bytes(GatewayCase):
    gateway_flags = ("--max-body=64K", "--idle-timeout=600")

    def tearDown(self):
        self.assertAnswer(self.get("/health"))
        super().tearDown()

    def exchange(self, data, half_close=False):
        with self.gateway.connect() as connection:
            with contextlib.suppress(OSError):
                connection.sendall(data)
                if half_close:
                    connection.shutdown(socket.SHUT_WR)
            return read_end(connection)

    def test_bytes_that_are_no_request(self):
        for data in (b"\0" * 100 + b"\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
                     b"GET\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"A" * 100000, b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 20000):
            with self.subTest(data=data[:20]):
                self.assertNotIn(b" 200 ", self.exchange(data + b"\r\n\r\n", half_close=True))

    def test_text_that_is_not_utf8(self):
        for body in (b'{"messages":[{"role":"user","content":"\xff\xfe"}]}', b'{"\xc0\x80":1}', b"\xff" * 100, b'{"a":"\xed\xa0\x80"}'):
            with self.subTest(body=body):
                self.assertError(self.gateway.request("POST", CHAT, body), 400)
        self.assertIn(b" 400 ", self.exchange(b"GET /%ff HTTP/1.1\r\nConnection: close\r\n" + HOST + b"\r\n"))
        self.assertIn(b" 400 ", self.exchange(b"GET /health%00 HTTP/1.1\r\nConnection: close\r\n" + HOST + b"\r\n"))

    def test_body_that_is_too_long(self):
        """Refused by its length before it is sent, by its bytes if no length is told; the refusal arrives all the same."""
        with self.gateway.connect() as connection, connection.makefile("rb") as stream:
            connection.sendall(b"POST %s HTTP/1.1\r\n%sContent-Length: 104857600\r\n\r\n" % (CHAT.encode(), HOST))
            status, headers, body = read_reply(stream)
        self.assertEqual((status, json.loads(body)["error"]["code"]), (413, "request_too_large"))
        self.assertIn("--max-body", json.loads(body)["error"]["message"])
        answer = self.gateway.request("POST", CHAT, b"x" * (100 << 20))
        self.assertError(answer, 413)
        chunk = b"8000\r\n" + b"x" * 0x8000 + b"\r\n"
        self.assertIn(b" 413 ", self.exchange(b"POST %s HTTP/1.1\r\n%sTransfer-Encoding: chunked\r\n\r\n" % (CHAT.encode(), HOST)
                                              + chunk * 8 + b"0\r\n\r\n"))
        with self.gateway.connect() as connection, connection.makefile("rb") as stream:
            connection.sendall(b"POST %s HTTP/1.1\r\n%sContent-Length: 70000\r\nExpect: 100-continue\r\n\r\n" % (CHAT.encode(), HOST))
            self.assertEqual(read_reply(stream)[0], 413)

    def test_lengths_told_twice(self):
        for head in (b"Content-Length: 3\r\nContent-Length: 4\r\n", b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"):
            with self.subTest(head=head):
                reply = self.exchange(b"POST %s HTTP/1.1\r\n%s%s\r\n0\r\n\r\nGET /health HTTP/1.1\r\n%s\r\n" % (CHAT.encode(), HOST, head, HOST))
                self.assertIn(b" 400 ", reply)
                self.assertNotIn(b" 200 ", reply)


class Slow(GatewayCase):
    gateway_flags = ("--head-timeout=1", "--body-timeout=1", "--idle-timeout=600")

    def test_slow_senders(self):
        """A byte now and then does not buy time: head and body have one limit each."""
        for start, rest in ((b"GET /health HTTP/1.1\r\n", b"X"), (b"POST %s HTTP/1.1\r\n%sContent-Length: 1000\r\n\r\n" % (CHAT.encode(), HOST), b"{")):
            with self.subTest(start=start), self.gateway.connect() as connection:
                connection.sendall(start)
                connection.settimeout(0.1)
                data, ended = b"", False

                def goes_on():
                    nonlocal data, ended
                    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                        connection.sendall(rest)
                    try:
                        part = connection.recv(4096)
                        data, ended = data + part, not part
                    except TimeoutError:
                        pass
                    except ConnectionResetError:
                        ended = True
                    return ended

                until(goes_on, "the connection is closed")
                self.assertTrue(data.startswith(b"HTTP/1.1 408 "), data)


@whole_model
class Gone(GatewayCase):
    """A client that goes frees its place, wherever its request is."""

    flags = ("--max-active=1", "--max-active-interactive=1")

    def requests(self):
        with self.daemon.connect() as connection:
            status = connection.status()
        return status.requests_running, status.requests_queued

    def wait_requests(self, running, queued):
        until(lambda: self.requests() == (running, queued), f"{running} requests run and {queued} wait")

    def ask(self, **more):
        connection = self.gateway.connect()
        self.addCleanup(connection.close)
        connection.sendall(post(question(max_tokens=4000, ignore_eos=True, **more)))
        return connection

    def test_decoding_queued_and_reset(self):
        for stream in (False, True):
            with self.subTest(stream=stream):
                running = self.ask(stream=stream)
                self.wait_requests(1, 0)
                waiting = self.ask(stream=stream)
                self.wait_requests(1, 1)
                waiting.close()
                self.wait_requests(1, 0)
                if stream:
                    self.assertTrue(running.recv(100))  # closed with unread bytes, the connection is reset
                running.close()
                self.daemon.wait_idle()

    def test_prefill(self):
        """The request runs, nothing has been written for it, and its client goes: no token is computed any more."""
        def ends_in_prefill(number):
            before = self.daemon.log()
            asked = self.gateway.connect()
            asked.sendall(post(question(f"{number} " + "bottle " * 1800, max_tokens=50, ignore_eos=True)))
            self.wait_requests(1, 0)
            asked.close()
            self.daemon.wait_idle()
            # What the service's log says of the request: tokens of the prompt and of the answer.
            found = until(lambda: re.findall(r"request \d+: generate .*: cancelled, (\d+) \+ (\d+) tokens",
                                             self.daemon.log()[len(before):]), "the request's end in the log")
            return found[-1][1] == "0"

        # A fast machine may be done with a prompt before the test sees that its request runs.
        self.assertTrue(any(ends_in_prefill(number) for number in range(20)))

    def test_many_go_at_once(self):
        clients = [self.ask(stream=True) for _ in range(20)]
        self.wait_requests(1, 19)
        for client in clients:
            client.close()
        self.daemon.wait_idle()
        self.assertAnswer(self.post(CHAT, question()))


class Crowd(GatewayCase):
    """As many connections as descriptors allow, up to 10,000."""

    gateway_flags = ("--max-connections=200", "--max-requests=150", "--head-timeout=600")

    def test_idle_connections_make_room(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft < hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        n = 10000 if hard == resource.RLIM_INFINITY else min(10000, hard - 100)
        connections = []
        try:
            for number in range(n):
                connections.append(self.gateway.connect())
                if number % 3 == 1:
                    connections[-1].sendall(b"GET /health HTTP/1.1\r\nHos")
                if number % (n // 4) == 5:
                    self.assertAnswer(self.post(CHAT, question()))
            self.assertAnswer(self.get("/health"))
            # The oldest ones had to go.
            self.assertEqual(read_end(connections[0]), b"")
        finally:
            for connection in connections:
                connection.close()
        self.assertAnswer(self.get("/health"))

    def test_more_requests_than_one_connection_of_the_service_has(self):
        """Hundreds wait, over several connections to the service, and all are answered, or told to come again."""
        answers = []

        def ask():
            answers.append(self.post(CHAT, question(max_tokens=1)))

        threads = [threading.Thread(target=ask) for _ in range(140)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        by_status = {status: [answer for answer in answers if answer.status == status] for status in (200, 503, 429)}
        self.assertEqual(sum(map(len, by_status.values())), 140, [answer for answer in answers if answer.status not in by_status])
        self.assertTrue(by_status[200])
        for answer in by_status[503] + by_status[429]:
            self.assertGreaterEqual(int(answer.headers["retry-after"]), 1)
        self.daemon.wait_idle()


class Ends(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon()
        self.addCleanup(self.daemon.kill)

    def gateway(self, *flags, **options):
        gateway = Gateway(self.daemon, *flags, **options)
        self.addCleanup(gateway.kill)
        return gateway

    @whole_model
    def test_daemon_restarts_in_the_middle_of_a_stream(self):
        gateway = self.gateway()
        with gateway.stream("POST", CHAT, question(max_tokens=4000, ignore_eos=True, stream=True)) as stream:
            events = iter(stream)
            self.assertEqual(next(events).data["object"], "chat.completion.chunk")
            self.daemon.process.kill()
            self.daemon.process.wait()
            last = [event.data for event in events][-1]
            self.assertEqual((last["error"]["code"], last["error"]["status"]), ("disconnected", 503))
        answer = gateway.request("POST", CHAT, question())
        self.assertEqual((answer.status, answer.body["error"]["code"]), (503, "unreachable"))
        self.assertGreaterEqual(int(answer.headers["retry-after"]), 1)
        # Another daemon at the same place, as after a restart.
        again = Daemon(f"--listen={self.daemon.api}", f"--admin-listen={self.daemon.admin}", command=["env"], wait=False)
        self.addCleanup(again.kill)
        again.api = self.daemon.api
        again.wait_notice("READY=1")
        again.wait_model()
        self.assertEqual(gateway.request("POST", CHAT, question()).status, 200)
        gateway.stop()
        again.stop()

    def test_sigterm_lets_answers_end(self):
        gateway = self.gateway()
        with gateway.stream("POST", CHAT, question(max_tokens=40, stream=True, temperature=0)) as stream:
            events = iter(stream)
            next(events)
            idle = gateway.connect()
            gateway.signal(signal.SIGTERM)
            self.assertEqual(idle.recv(1), b"")
            self.assertEqual([event.data for event in events][-1], "[DONE]")
            self.assertEqual(stream.response.read(), b"")
        gateway.stop()
        self.assertFalse(gateway.path.exists())
        self.daemon.stop()

    @whole_model
    def test_second_signal(self):
        gateway = self.gateway()
        with gateway.stream("POST", CHAT, question(max_tokens=4000, ignore_eos=True, stream=True)) as stream:
            next(iter(stream))
            gateway.signal(signal.SIGTERM)
            until(lambda: "shutting down" in gateway.log(), "the first signal is taken")
            gateway.signal(signal.SIGTERM)
            gateway.stop()
        self.daemon.wait_idle()
        self.daemon.stop()


if __name__ == "__main__":
    unittest.main()
