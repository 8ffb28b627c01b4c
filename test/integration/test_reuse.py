# SPDX-License-Identifier: Apache-2.0
"""Prompts that begin as an earlier one did: reported, the same tokens, never across users, within the limit."""

import os
import unittest

import coordgen_pb2 as pb

from daemon import DaemonCase
from settings import MODEL, whole_model
from wire import Connection, prompt, talk

STORY = " ".join(f"On day {day} the keeper of the lighthouse counted {day * 7 % 31} ships and wrote it down."
                 for day in range(1, 20))
PAGE = 64


def usage(generation):
    return generation.done.usage


class Reuse(DaemonCase):
    flags = ("--prefix-cache-max=64M",)

    def ask(self, text, n=6, connection=None, **options):
        return (connection or self.connect()).generate(prompt(text, n, ignore_end=True, **options))

    def alone(self, text, n=6):
        generation = self.ask(text, n, no_reuse=True)
        self.assertEqual(usage(generation).cached_tokens, 0)
        self.assertEqual(usage(generation).reuse, pb.REUSE_DECLINED)
        return generation

    def test_the_same_again(self):
        text = "The same again. " + STORY
        alone = self.alone(text)
        first = self.ask(text)
        self.assertEqual(usage(first).cached_tokens, 0)
        again = self.ask(text)  # on another connection
        self.assertGreater(usage(again).cached_tokens, usage(again).prompt_tokens - 10)
        self.assertLess(usage(again).cached_tokens, usage(again).prompt_tokens)
        self.assertEqual(usage(again).reuse, pb.REUSE_WHOLE)
        self.assertEqual(alone.tokens, first.tokens)
        self.assertEqual(alone.tokens, again.tokens)

    def test_a_common_beginning(self):
        text = "A common beginning. " + STORY
        self.ask(text)
        other = text[:len(text) // 2] + " Then a storm came up, and nobody counted anything."
        branch = self.ask(other)
        common = len(os.path.commonprefix([self.connect().tokenize(text, add_special=True),
                                           self.connect().tokenize(other, add_special=True)]))
        self.assertGreater(common, 2 * PAGE)
        self.assertIn(usage(branch).cached_tokens, (common, common // PAGE * PAGE))
        self.assertEqual(usage(branch).reuse, pb.REUSE_DIFFERENT)
        self.assertEqual(branch.tokens, self.alone(other).tokens)

    def test_conversation(self):
        """Every question sends all that was said: what the model said is not computed again either."""
        connection = self.connect()
        said = [("user", "Name three rivers of Europe. " + STORY)]
        for question in ("And three of Asia?", "Which of all is the longest?"):
            first = connection.generate(talk(said, 20))
            said += [("assistant", first.text.decode()), ("user", question)]
            second = connection.generate(talk(said, 20))
            self.assertGreater(usage(second).cached_tokens, usage(first).prompt_tokens - 1)
            alone = connection.generate(talk(said, 20, no_reuse=True))
            self.assertEqual(second.tokens, alone.tokens)

    def test_progress_counts_what_was_there(self):
        connection = self.connect()
        before = connection.status()
        text = "Progress. " + STORY
        self.ask(text, connection=connection)
        done = self.ask(text, connection=connection).done
        after = connection.status()
        self.assertEqual(after.prompt_tokens - before.prompt_tokens, 2 * done.usage.prompt_tokens)
        self.assertEqual(after.cached_tokens - before.cached_tokens, done.usage.cached_tokens)

    def test_each_progress_of_a_prompt(self):
        text = "Each progress. " + STORY
        first = self.ask(text, each_progress=True)
        again = self.ask(text, each_progress=True)
        for generated, cached in ((first, 0), (again, usage(again).cached_tokens)):
            prefilled = [progress.prefilled_tokens for progress in generated.progress]
            self.assertEqual((prefilled[0], prefilled[-1]), (cached, usage(generated).prompt_tokens))
            self.assertEqual(prefilled, sorted(set(prefilled)))
            self.assertEqual({progress.cached_tokens for progress in generated.progress}, {cached})
            self.assertEqual([delta.model for delta in generated.deltas], ["smollm2-135m"] + [""] * (len(generated.deltas) - 1))
        self.assertGreater(usage(again).cached_tokens, 0)

    def test_after_a_cancel(self):
        text = "After a cancel. " + 8 * STORY
        connection = self.connect()
        generation = connection.start(prompt(text, 6, ignore_end=True))
        while connection.next(generation.id).generate_progress.prefilled_tokens < 2 * 256:
            pass
        connection.cancel(generation.id)
        generation.finish()
        again = self.ask(text)
        self.assertGreaterEqual(usage(again).cached_tokens, 2 * 256)
        self.assertEqual(usage(again).reuse, pb.REUSE_NEW_TEXT)

    @unittest.skipIf(os.geteuid() != 0, "only root can be two users")
    def test_not_for_other_users(self):
        text = "Not for other users. " + STORY
        self.ask(text)
        other = Connection.as_nobody(self.daemon.api)
        self.opened.append(other)
        theirs = self.ask(text, connection=other)
        self.assertEqual(usage(theirs).cached_tokens, 0)
        self.assertEqual(usage(theirs).reuse, pb.REUSE_FIRST_USE)
        self.assertEqual(usage(self.ask(text, connection=other)).reuse, pb.REUSE_WHOLE)
        self.assertEqual(usage(self.ask(text)).reuse, pb.REUSE_WHOLE)

    def test_unload_drops(self):
        text = "Unload drops. " + STORY
        self.ask(text)
        admin = self.daemon.connect(admin=True)
        self.assertGreater(admin.status().prefix_cache_bytes, 0)
        admin.call(model_unload=pb.ModelUnloadRequest(model=MODEL.stem))
        status = admin.status()
        self.assertEqual(status.prefix_cache_bytes, 0)
        self.assertEqual({account.name: account.used_bytes for account in status.memory}["cache"], 0)
        admin.load(MODEL.stem)
        admin.close()
        self.assertEqual(usage(self.ask(text)).reuse, pb.REUSE_FIRST_USE)


class Limit(DaemonCase):
    flags = ("--prefix-cache-max=3M",)  # three pages of the default model

    @whole_model
    def test_limit(self):
        connection = self.connect()
        for n in range(3):
            connection.generate(prompt(f"Limit {n}. " + STORY[:500], 2, ignore_end=True))
            status = connection.status()
            self.assertLessEqual(status.prefix_cache_bytes, 3 << 20)
            self.assertGreater(status.prefix_cache_bytes, 1 << 20)
        again = connection.generate(prompt("Limit 0. " + STORY[:500], 2, ignore_end=True))
        self.assertEqual(usage(again).reuse, pb.REUSE_EVICTED)
        self.assertEqual(status.prefix_cache_max_bytes, 3 << 20)


@whole_model
class MemoryLimit(DaemonCase):
    """What is kept grows as far as memory-limit lets it, and clients find room all the same."""

    flags = ("--memory-limit=190M", "--threads=1")

    def test_clients_have_their_part(self):
        connection, n, kept = self.connect(), 0, -1
        while (now := connection.status().prefix_cache_bytes) > kept:
            kept, n = now, n + 1
            self.assertLess(n, 20)
            connection.generate(prompt(f"Text {n}. " + STORY[:1000], 2, ignore_end=True))
        used = sum(account.used_bytes for account in connection.status().memory)
        self.assertGreater(used, 160 << 20, "nothing stood in the way")
        self.assertTrue(self.connect(admin=True).status().pid)
        for _ in range(20):
            self.assertTrue(self.connect().status().pid)
        self.assertTrue(self.connect().tokenize("a " * 100_000))


class Off(DaemonCase):
    flags = ("--prefix-cache-max=0",)

    def test_off(self):
        connection = self.connect()
        for _ in range(2):
            generation = connection.generate(prompt(STORY[:300], 2, ignore_end=True))
            self.assertEqual(usage(generation).cached_tokens, 0)
            self.assertEqual(usage(generation).reuse, pb.REUSE_OFF)
        self.assertEqual(connection.status().prefix_cache_bytes, 0)
