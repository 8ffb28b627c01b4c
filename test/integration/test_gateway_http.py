# SPDX-License-Identifier: Apache-2.0
"""coordgen-httpd as an HTTP server: methods, connections, who is let in, how it starts and ends."""

import json
import socket
import unittest

from gateway import GatewayCase

CHAT = "/v1/chat/completions"


def question(text="Name three rivers.", **more):
    return {"messages": [{"role": "user", "content": text}], "max_tokens": 8, **more}


def read_reply(stream):
    """Status, headers and body of one reply on a raw connection."""
    status = int(stream.readline().split()[1])
    headers = {}
    while line := stream.readline().strip():
        name, _, value = line.partition(b":")
        headers[name.decode().lower()] = value.strip().decode()
    return status, headers, stream.read(int(headers.get("content-length", 0)))


class Http(GatewayCase):
    def raw(self, data, n=1):
        """The first n replies to bytes on a connection of their own."""
        with self.gateway.connect() as connection, connection.makefile("rb") as stream:
            connection.sendall(data)
            return [read_reply(stream) for _ in range(n)]

    def test_answer_whole_and_streamed(self):
        whole = self.assertAnswer(self.post(CHAT, question(temperature=0)))
        text = whole["choices"][0]["message"]["content"]
        self.assertTrue(text)
        with self.gateway.stream("POST", CHAT, question(temperature=0, stream=True)) as stream:
            self.assertEqual(stream.headers["content-type"], "text/event-stream")
            events = [event.data for event in stream]
        self.assertEqual(events[-1], "[DONE]")
        deltas = [event["choices"][0]["delta"].get("content") or "" for event in events[:-1] if event["choices"]]
        self.assertEqual("".join(deltas), text)

    def test_methods(self):
        self.assertAnswer(self.get("/health"))
        answer = self.gateway.request("HEAD", "/health")
        self.assertEqual((answer.status, answer.body), (200, b""))
        self.assertGreater(int(answer.headers["content-length"]), 0)
        answer = self.get(CHAT)
        self.assertError(answer, 405, code="method_not_allowed")
        self.assertEqual(answer.headers["allow"], "POST")
        answer = self.gateway.request("OPTIONS", CHAT)
        self.assertEqual((answer.status, answer.headers["allow"]), (204, "POST"))
        self.assertError(self.get("/nothing"), 404, code="unknown_path")
        self.assertError(self.gateway.request("DELETE", "/nothing"), 404)

    def test_connection_is_kept(self):
        connection = self.gateway.connection()
        self.addCleanup(connection.close)
        self.assertAnswer(self.get("/health", connection=connection))
        first = connection.sock
        self.assertAnswer(self.post(CHAT, question(), connection=connection))
        self.assertError(self.get("/nothing", connection=connection), 404)
        self.assertIs(connection.sock, first)

    def test_pipelined_requests(self):
        body = json.dumps(question()).encode()
        post = b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (CHAT.encode(), len(body), body)
        get = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
        replies = self.raw(get + post + get, 3)
        self.assertEqual([status for status, _, _ in replies], [200, 200, 200])
        self.assertIn(b"choices", replies[1][2])

    def test_http_1_0(self):
        with self.gateway.connect() as connection, connection.makefile("rb") as stream:
            connection.sendall(b"GET /health HTTP/1.0\r\n\r\n")
            self.assertEqual(read_reply(stream)[0], 200)
            self.assertEqual(stream.read(), b"")  # the connection is closed
        body = json.dumps(question(stream=True)).encode()
        with self.gateway.connect() as connection, connection.makefile("rb") as stream:
            connection.sendall(b"POST %s HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s" % (CHAT.encode(), len(body), body))
            status, headers, _ = read_reply(stream)
            self.assertEqual(status, 200)
            self.assertNotIn("transfer-encoding", headers)
            self.assertTrue(stream.read().endswith(b"data: [DONE]\n\n"))

    def test_chunked_request(self):
        body = json.dumps(question()).encode()
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:5], body[5:30], body[30:]))
        head = b"POST %s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" % CHAT.encode()
        (status, _, data), = self.raw(head + chunks + b"0\r\n\r\n")
        self.assertEqual(status, 200, data)

    def test_half_closed_client(self):
        """A client that has closed its side gets a reply that is there at once, and counts as gone for a long one."""
        with self.gateway.connect() as connection, connection.makefile("rb") as stream:
            connection.sendall(b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n")
            connection.shutdown(socket.SHUT_WR)
            self.assertEqual(read_reply(stream)[0], 404)
        body = json.dumps(question(max_tokens=500)).encode()
        with self.gateway.connect() as connection:
            connection.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (CHAT.encode(), len(body), body))
            connection.shutdown(socket.SHUT_WR)
            self.assertEqual(connection.recv(1), b"")
        self.daemon.wait_idle()


if __name__ == "__main__":
    unittest.main()
