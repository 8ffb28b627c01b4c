# SPDX-License-Identifier: Apache-2.0
"""Many clients at once."""

import threading

import coordgen_pb2 as pb

from daemon import DaemonCase
from settings import SANITIZED
from wire import Connection, prompt

N_CLIENTS = 50


class FiftyClients(DaemonCase):
    def test_fifty_clients_at_once(self):
        n_tokens = 4 if SANITIZED else 12
        requests = [prompt(f"Client number {i % 5} says that", n_tokens, ignore_end=True) for i in range(N_CLIENTS)]
        with Connection(self.daemon.api) as connection:
            expected = [connection.generate(requests[i]).tokens for i in range(5)]
        results, barrier = [None] * N_CLIENTS, threading.Barrier(N_CLIENTS)

        def client(i):
            try:
                with Connection(self.daemon.api) as connection:
                    barrier.wait(60)
                    results[i] = connection.generate(requests[i])
            except Exception as error:
                results[i] = error

        threads = [threading.Thread(target=client, args=(i,)) for i in range(N_CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for i, result in enumerate(results):
            self.assertFalse(isinstance(result, Exception), f"client {i}: {result!r}")
            self.assertEqual(result.tokens, expected[i % 5], f"client {i}")
        self.daemon.wait_idle()

    def test_many_requests_on_one_connection(self):
        connection = self.connect()
        n = min(16, connection.greeting.requests_max)
        generations = [connection.start(prompt(f"Request number {i % 4} is", 4, ignore_end=True)) for i in range(n)]
        tokens = [generation.finish().tokens for generation in generations]
        for i in range(n):
            self.assertEqual(tokens[i], tokens[i % 4])

    def test_clients_that_come_and_go(self):
        generations = 0
        for i in range(30):
            with Connection(self.daemon.api) as connection:
                generation = connection.start(prompt("Going soon, " * (i + 1), 100, ignore_end=True))
                if i % 3 == 0:
                    generation.until("generate_delta")
                elif i % 3 == 1:
                    connection.cancel(generation.id)
                generations += 1
        self.assertEqual(generations, 30)
        self.daemon.wait_idle()
        self.daemon.wait_until(lambda status: status.connections == 1, "all connections are gone")
        with Connection(self.daemon.api) as connection:
            self.assertEqual(connection.generate(prompt("x", 2, ignore_end=True)).done.end_reason,
                             pb.END_REASON_MAX_TOKENS)
