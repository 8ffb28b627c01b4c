# SPDX-License-Identifier: Apache-2.0
"""Sessions: what the service remembers gives the tokens of the whole conversation, computed once."""

import os
import unittest

import coordgen_pb2 as pb

from daemon import DaemonCase
from settings import CUT, MODEL, SANITIZED
from wire import Connection, Refused, chat, messages_of, prompt, talk

SYSTEM = ("system", "You count ships. " + " ".join(f"On day {day} there were {day * 7 % 31}." for day in range(1, 14 if SANITIZED else 20)))
SAMPLED = dict(temperature=0.9, top_k=50, seed=11)


def usage(generation):
    return generation.done.usage


class Sessions(DaemonCase):
    flags = ("--prefix-cache-max=64M", "--max-sessions-per-uid=4")

    def tearDown(self):
        super().tearDown()
        self.daemon.wait_until(lambda status: status.sessions == 0, "sessions end with their connections")
        self.daemon.wait_idle()

    def turn(self, connection, session, said, question, **options):
        """One question in the session beside the whole conversation in one request: the same tokens."""
        in_session = connection.generate(chat(question, 10, session=session, **options))
        said = said + [("user", question)]
        whole = connection.generate(talk(said, 10, no_reuse=True, **options))
        self.assertEqual(in_session.tokens, whole.tokens)
        self.assertEqual(in_session.text, whole.text)
        self.assertEqual(usage(in_session).prompt_tokens, usage(whole).prompt_tokens)
        return in_session, said + [("assistant", in_session.text.decode())]

    def test_append_is_the_whole_conversation(self):
        connection = self.connect()
        session, said = connection.open_session(messages=messages_of([SYSTEM])), [SYSTEM]
        before = 0
        for question in ("How many ships were there on day 3?", "And on day 4?", "In which week were there most?"):
            generation, said = self.turn(connection, session, said, question, sampling=SAMPLED)
            self.assertGreaterEqual(usage(generation).cached_tokens, before)
            before = usage(generation).prompt_tokens - 1
        self.assertGreater(before, 150)

    def test_raw_text(self):
        connection = self.connect()
        session, text = connection.open_session(prompt="The lighthouse "), "The lighthouse "
        for part in ("stood on a rock. " + SYSTEM[1], " The keeper said:"):
            in_session = connection.generate(prompt(part, 10, ignore_end=True, session=session))
            text += part
            whole = connection.generate(prompt(text, 10, ignore_end=True, no_reuse=True))
            self.assertEqual(in_session.tokens, whole.tokens)
            text += in_session.text.decode()
        self.assertGreater(usage(in_session).cached_tokens, 100)

    def test_fork(self):
        connection = self.connect()
        session = connection.open_session(messages=messages_of([SYSTEM]))
        _, said = self.turn(connection, session, [SYSTEM], "How many on day 5?")
        fork, early = connection.fork_session(session), connection.fork_session(session, keep_messages=1)
        first, _ = self.turn(connection, session, said, "Was that many?")
        second, _ = self.turn(connection, fork, said, "Name a colour.")
        third, _ = self.turn(connection, early, [SYSTEM], "Name a colour.")
        for generation in (second, third):
            self.assertGreater(usage(generation).cached_tokens, 100)
        if not CUT:  # a few layers say the same to all questions
            self.assertNotEqual(first.tokens, second.tokens)
        # A fork lives on without its source.
        connection.close_session(session)
        self.turn(connection, fork, said + [("user", "Name a colour."), ("assistant", second.text.decode())], "Another.")
        self.assertRefused(pb.ERROR_CODE_NOT_FOUND, connection.generate, chat("Hello", 2, session=session))
        self.assertRefused(pb.ERROR_CODE_INVALID_ARGUMENT, connection.fork_session, fork, keep_messages=99)

    def test_fork_waits_behind_others(self):
        """The engine takes small requests one a step: the fork's own first answer may begin before its turn comes."""
        connection = self.connect()
        connection.tokenize("Behind what earlier tests have closed.")
        before = connection.status().prefix_cache_bytes
        session = connection.open_session(messages=messages_of([("system", "A fork comes late. " + SYSTEM[1])]))
        connection.generate(chat("How many on day 5?", 4, session=session))
        running = connection.start(chat("Write a long story.", 2000, session=session, ignore_end=True))
        running.until("generate_delta")
        small = [connection.send(tokenize=pb.TokenizeRequest(text="one two three " * 4)) for _ in range(8)]
        fork = connection.fork_session(session)
        first = connection.generate(chat("Name a colour.", 1, session=fork))
        self.assertGreater(usage(first).cached_tokens, 100)
        for request in small:
            connection.next(request)
        connection.close_session(fork)
        connection.close_session(session)
        running.finish()
        self.daemon.wait_until(lambda status: status.prefix_cache_bytes == before, "nothing of the sessions is kept")

    def test_close_gives_memory_back(self):
        connection = self.connect()
        connection.tokenize("Behind what earlier tests have closed.")
        before = connection.status().prefix_cache_bytes
        kept_text = "Only in this session. " + SYSTEM[1]
        session = connection.open_session(messages=messages_of([("system", kept_text)]))
        fork = connection.fork_session(session)
        connection.generate(chat("How many on day 5?", 4, session=session))
        self.assertGreater(connection.status().prefix_cache_bytes, before)
        self.assertEqual(connection.status().sessions, 2)
        connection.close_session(session)
        connection.close_session(fork)
        connection.tokenize("Behind what was closed.")  # the engine thread takes small requests in their order
        status = connection.status()
        self.assertEqual(status.prefix_cache_bytes, before)
        self.assertEqual(status.sessions, 0)

    def test_cancelled_turn(self):
        """What had been written of it stays; a turn without a word leaves the session as it was."""
        connection = self.connect()
        session, said = connection.open_session(messages=messages_of([SYSTEM])), [SYSTEM]
        generation = connection.start(chat("Write a long story.", 2000, session=session, ignore_end=True))
        connection.cancel(generation.until("generate_delta").id)
        generation.finish()
        self.assertEqual(generation.done.end_reason, pb.END_REASON_CANCELLED)
        said += [("user", "Write a long story."), ("assistant", generation.text.decode())]
        _, said = self.turn(connection, session, said, "Go on.")
        silent = connection.start(chat("Never answered.", 2000, session=session))
        connection.cancel(silent.id)
        silent.finish()
        if not silent.text:
            self.turn(connection, session, said, "And the end?")

    def test_one_answer_at_a_time(self):
        connection = self.connect()
        session = connection.open_session(messages=messages_of([SYSTEM]))
        running = connection.start(chat("Write a long story.", 2000, session=session, ignore_end=True))
        running.until("generate_delta")
        self.assertRefused(pb.ERROR_CODE_BUSY, connection.generate, chat("Me too.", 2, session=session))
        fork = connection.fork_session(session)  # without the question that is being answered
        self.turn(connection, fork, [SYSTEM], "Me too.")
        connection.close_session(session)
        self.assertEqual(running.finish().done.end_reason, pb.END_REASON_CANCELLED)

    def test_refusals(self):
        connection = self.connect()
        session = connection.open_session()
        raw = connection.open_session(prompt="Raw ")
        invalid = pb.ERROR_CODE_INVALID_ARGUMENT
        self.assertRefused(invalid, connection.generate, chat("Hello", 2, session=raw))
        self.assertRefused(invalid, connection.generate, chat("Hello", 2, session=session, model="another"))
        self.assertRefused(invalid, connection.generate, chat("Hello", 2, session=0))
        self.assertRefused(invalid, connection.close_session, 0)
        self.assertRefused(invalid, connection.fork_session, raw, keep_messages=0)
        self.assertRefused(pb.ERROR_CODE_MODEL_NOT_FOUND, connection.open_session, model="no such model")
        self.assertRefused(invalid, connection.open_session, messages=pb.Messages())
        self.assertRefused(pb.ERROR_CODE_NOT_FOUND, connection.close_session, session + 1000)
        # Sessions are the connection's own.
        self.assertRefused(pb.ERROR_CODE_NOT_FOUND, self.connect().generate, chat("Hello", 2, session=session))
        connection.open_session(), connection.open_session()
        self.assertRefused(pb.ERROR_CODE_QUOTA_EXCEEDED, self.connect().open_session)
        connection.generate(chat("Hello", 2, session=session))  # an empty one is of the kind that comes first
        self.assertRefused(invalid, connection.generate, prompt("Hello", 2, session=session))

    def test_outlives_unload(self):
        connection = self.connect()
        session = connection.open_session(messages=messages_of([SYSTEM]))
        _, said = self.turn(connection, session, [SYSTEM], "How many on day 5?")
        with self.daemon.connect(admin=True) as admin:
            admin.call(model_unload=pb.ModelUnloadRequest(model=MODEL.stem))
        generation, _ = self.turn(connection, session, said, "And on day 6?")
        self.assertEqual(usage(generation).reuse, pb.REUSE_FIRST_USE)

    def test_gone_in_the_middle(self):
        connection = self.connect()
        session = connection.open_session(messages=messages_of([SYSTEM]))
        connection.fork_session(session)
        connection.start(chat("Write a long story.", 2000, session=session, ignore_end=True)).until("generate_delta")
        connection.close()

    @unittest.skipIf(os.geteuid() != 0, "only root can be two users")
    def test_limit_is_one_users(self):
        connection = self.connect()
        for _ in range(4):
            connection.open_session()
        other = Connection.as_nobody(self.daemon.api)
        self.opened.append(other)
        other.open_session()


class Memory(DaemonCase):
    flags = ("--session-memory-limit=8M", "--prompt-max=400K", "--prefix-cache-max=0")

    def test_texts_are_counted(self):
        connection = self.connect()
        session = connection.open_session(messages=messages_of([("system", "x" * 300_000)]))
        with self.assertRaises(Refused) as caught:
            for _ in range(30):
                connection.fork_session(session)
        self.assertEqual(caught.exception.code, pb.ERROR_CODE_BUSY)
        opened = connection.status().sessions
        self.assertGreaterEqual(opened, 2)
        connection.close()
        self.daemon.wait_until(lambda status: status.sessions == 0, "sessions end with their connections")
        again = self.connect()
        session = again.open_session(prompt="x" * 300_000)
        self.assertRefused(pb.ERROR_CODE_INVALID_ARGUMENT, again.generate, prompt("y" * 150_000, 2, session=session))
        # Without a prefix cache a session is the conversation all the same.
        session = again.open_session(messages=messages_of([("system", "Be brief.")]))
        said = [("system", "Be brief.")]
        for question in ("Name a river.", "Another."):
            generation = again.generate(chat(question, 8, session=session))
            said.append(("user", question))
            self.assertEqual(generation.tokens, again.generate(talk(said, 8)).tokens)
            said.append(("assistant", generation.text.decode()))
