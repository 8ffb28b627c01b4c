# SPDX-License-Identifier: Apache-2.0
"""Vectors of texts: the same bits alone, together, beside a generation and in chunks of another size; errors; cancel."""

import json
import math
import subprocess

import coordgen_pb2 as pb

from daemon import Daemon, DaemonCase
from settings import BIN, SLOW
from wire import Refused, prompt

TEXTS = ["The ship sailed at dawn.", "At daybreak the vessel put to sea.", "Interest rates rise again.",
         "She wrote a letter.", "int main(void) { return 0; }", "The vessel left the harbour in the morning. " * 12]
MANY = [f"{TEXTS[i % 5]} ({i})" for i in range(40)]


def embed(connection, texts, **options):
    return connection.call(embed=pb.EmbedRequest(text=texts, **options)).embed


def vectors(reply):
    return [tuple(embedding.value) for embedding in reply.embeddings]


def length(vector):
    return math.sqrt(sum(x * x for x in vector))


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b)) / (length(a) * length(b))


def run_ctl(daemon, *args, **options):
    return subprocess.run([BIN / "coordgenctl", f"--socket={daemon.api}", *args], capture_output=True, text=True,
                          timeout=120 * SLOW, **options)


class Vectors(DaemonCase):
    def test_alone_together_and_in_company(self):
        connection = self.connect()
        together = embed(connection, TEXTS)
        self.assertEqual([vectors(embed(connection, [text]))[0] for text in TEXTS], vectors(together))
        self.assertEqual(vectors(embed(connection, TEXTS[::-1])), vectors(together)[::-1])
        self.assertEqual(together.prompt_tokens, sum(embedding.tokens for embedding in together.embeddings))
        self.assertEqual((together.pooling, len(set(map(len, vectors(together))))), (pb.POOLING_MEAN, 1))
        beside = self.connect()
        running = beside.send(generate=prompt("Once upon a time", 48, ignore_end=True))
        beside.next(running)
        self.assertEqual(vectors(embed(connection, TEXTS)), vectors(together))

    def test_a_generation_beside_vectors(self):
        """Neither text nor tokens of a generation depend on vectors in its steps."""
        asked = prompt("Once upon a time", 24, ignore_end=True, no_reuse=True)
        alone = self.connect().generate(asked)
        connection = self.connect()
        sent = connection.send(embed=pb.EmbedRequest(text=MANY))
        beside = self.connect().generate(asked)
        self.assertEqual((beside.text, beside.tokens), (alone.text, alone.tokens))
        self.assertEqual(len(connection.next(sent).embed.embeddings), len(MANY))

    def test_more_texts_than_run_at_a_time(self):
        connection = self.connect()
        reply = embed(connection, MANY)
        self.assertEqual(len(reply.embeddings), 40)
        for i in (0, 15, 16, 17, 39):
            self.assertEqual(vectors(embed(connection, [MANY[i]]))[0], vectors(reply)[i])

    def test_meaning(self):
        dawn, daybreak, rates, *_ = vectors(embed(self.connect(), TEXTS))
        self.assertGreater(cosine(dawn, daybreak), cosine(dawn, rates))

    def test_poolings_and_length(self):
        connection = self.connect()
        seen = set()
        for pooling in (pb.POOLING_MEAN, pb.POOLING_LAST, pb.POOLING_CLS):
            plain, raw = (embed(connection, TEXTS[:1], pooling=pooling, raw=raw) for raw in (False, True))
            self.assertEqual(plain.pooling, pooling)
            self.assertAlmostEqual(length(vectors(plain)[0]), 1, places=5)
            self.assertGreater(abs(length(vectors(raw)[0]) - 1), 0.01)
            self.assertAlmostEqual(cosine(vectors(plain)[0], vectors(raw)[0]), 1, places=5)
            seen.add(vectors(plain)[0])
        self.assertEqual(len(seen), 3)

    def test_token_ids(self):
        connection = self.connect()
        ids = connection.tokenize(TEXTS[0], add_special=True)
        reply = connection.call(embed=pb.EmbedRequest(tokens=[pb.TokenIds(id=ids)])).embed
        self.assertEqual(vectors(reply), vectors(embed(connection, TEXTS[:1])))

    def test_errors(self):
        connection = self.connect()
        ids = [pb.TokenIds(id=[1])]
        for field, text, request in (
                ("embed.text", "1 to 256 texts", dict()),
                ("embed.text", "257 texts: at most 256", dict(text=["a"] * 257)),
                ("embed.text[1]", "empty", dict(text=["a", ""])),
                ("embed.tokens", "one of them", dict(text=["a"], tokens=ids)),
                ("embed.tokens[1]", "no token", dict(tokens=ids + [pb.TokenIds()])),
                ("embed.tokens", "text 1: token 0 is 4000000", dict(tokens=ids + [pb.TokenIds(id=[4000000])]))):
            with self.subTest(field=field, text=text):
                with self.assertRaises(Refused) as caught:
                    connection.call(embed=pb.EmbedRequest(**request))
                self.assertEqual((caught.exception.code, caught.exception.error.field),
                                 (pb.ERROR_CODE_INVALID_ARGUMENT, field))
                self.assertIn(text, caught.exception.error.message)
        with self.assertRaises(Refused) as caught:
            embed(connection, ["a", "word " * 9000])
        self.assertEqual(caught.exception.code, pb.ERROR_CODE_CONTEXT_FULL)
        self.assertIn("text 1: it has ", caught.exception.error.message)
        self.assertEqual(len(embed(connection, TEXTS).embeddings), len(TEXTS))

    def test_cancel(self):
        connection = self.connect()
        before = vectors(embed(connection, TEXTS))
        sent = connection.send(embed=pb.EmbedRequest(text=[TEXTS[5] * 6 + str(i) for i in range(100)]))
        connection.cancel(sent)
        with self.assertRaises(Refused) as caught:
            connection.next(sent)
        self.assertEqual(caught.exception.code, pb.ERROR_CODE_CANCELLED)
        self.assertEqual(vectors(embed(connection, TEXTS)), before)

    def test_a_client_that_leaves(self):
        with self.connect() as connection:
            connection.send(embed=pb.EmbedRequest(text=MANY))
        self.assertEqual(len(embed(self.connect(), TEXTS).embeddings), len(TEXTS))

    def test_coordgenctl(self):
        lines = run_ctl(self.daemon, "embed", *TEXTS[:2]).stdout.splitlines()
        told = [tuple(map(float, line.split())) for line in lines]
        for vector, expected in zip(told, vectors(embed(self.connect(), TEXTS[:2])), strict=True):
            self.assertLess(max(abs(x - y) for x, y in zip(vector, expected, strict=True)), 1e-7)
        shown = json.loads(run_ctl(self.daemon, "-j", "embed", "--pooling=last", "-", input="\n".join(MANY * 2)).stdout)
        self.assertEqual((shown["pooling"], len(shown["embeddings"])), ("last", 80))
        self.assertEqual(shown["embeddings"][3]["embedding"], shown["embeddings"][43]["embedding"])
        for args, text in ((("--pooling=max", "a"), "one of mean, last, cls"), (("a", ""), "text 2 is empty")):
            run = run_ctl(self.daemon, "embed", *args)
            self.assertEqual(run.returncode, 2, run.stderr)
            self.assertIn(text, run.stderr)


class SmallChunks(DaemonCase):
    flags = ("--chunk-tokens=16",)

    def test_the_same_bits(self):
        """Against a service of the default chunk."""
        small = vectors(embed(self.connect(), TEXTS))
        other = Daemon()
        try:
            self.assertEqual(vectors(embed(other.connect(), TEXTS)), small)
        finally:
            other.stop()
