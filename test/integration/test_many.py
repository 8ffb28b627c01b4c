# SPDX-License-Identifier: Apache-2.0
"""Several answers of one prompt, token ids as a prompt, a text with a gap, the beginning of an answer, echo."""

import json
import subprocess
import tempfile
from pathlib import Path

import coordgen_pb2 as pb

from daemon import Daemon, DaemonCase
from gguf import cut_layers, with_ids
from settings import BIN, MODEL
from wire import GREEDY, Refused, chat, messages_of, prompt

TEXT = ("The keeper wrote: ship, lamp, rope, sail, tide, wind. The keeper wrote: ship, lamp, rope, sail, tide, wind. "
        "The keeper wrote: ship,")
DRAWN = dict(temperature=0.9, seed=100)
N = 14  # tokens of an answer
CANCELLED = pb.END_REASON_CANCELLED


def ids(tokens, max_tokens=16, **options):
    """A generate request whose prompt is token ids."""
    request = prompt("", max_tokens, **options)
    request.prompt_tokens.CopyFrom(pb.TokenIds(id=tokens))
    return request


def answers(generation):
    """(text, tokens, reason) of each answer."""
    return [(b"".join(delta.text for delta in generation.deltas if delta.choice == end.choice),
             [token for delta in generation.deltas if delta.choice == end.choice for token in delta.tokens],
             end.end_reason) for end in generation.done.choices]


def answer(generation):
    return generation.text, generation.tokens, generation.done.end_reason


class Refusals:
    def refused(self, request, field, text, code=pb.ERROR_CODE_INVALID_ARGUMENT, connection=None):
        with self.assertRaises(Refused) as caught:
            (connection or self.connect()).generate(request)
        self.assertEqual((caught.exception.code, caught.exception.error.field), (code, field), caught.exception)
        self.assertIn(text, caught.exception.error.message)


class Choices(Refusals, DaemonCase):
    def single(self, i, **options):
        """Answer i as a request of its own."""
        options["sampling"] = dict(options.get("sampling", DRAWN))
        if options["sampling"].get("seed"):
            options["sampling"]["seed"] += i
        return self.connect().generate(prompt(TEXT, N, **options))

    def test_each_as_a_request_of_its_own(self):
        """Drawn and greedy, with and without drafts, kept prompts or none, to every kind of end."""
        for options in (dict(sampling=DRAWN, no_reuse=True, speculation="off"), dict(sampling=GREEDY, stop=["sail"]),
                        dict(sampling=dict(DRAWN, repetition_penalty=1.3), stop=["rope", "the", "."])):
            with self.subTest(**options):
                together = self.connect().generate(prompt(TEXT, N, n=3, **options))
                alone = [self.single(i, **options) for i in range(3)]
                self.assertEqual(answers(together), [answer(one) for one in alone])
                ends, usage = together.done.choices, together.done.usage
                self.assertEqual([end.choice for end in ends], [0, 1, 2])
                self.assertEqual([end.output_tokens for end in ends], [one.done.usage.output_tokens for one in alone])
                self.assertEqual([end.seed - together.done.seed for end in ends], [0, 1, 2])
                self.assertEqual(usage.output_tokens, sum(end.output_tokens for end in ends))
                self.assertEqual(usage.prompt_tokens, alone[0].done.usage.prompt_tokens)
                self.assertEqual(together.done.end_reason, ends[0].end_reason)
        self.assertGreater(len({text for text, _, _ in answers(together)}), 1)

    def test_the_prompt_is_computed_once(self):
        """Rows of the prompt are shared: its tokens count once, and nothing of them is cached for the answers."""
        generation = self.connect().generate(prompt(TEXT + " rope", 4, n=16, ignore_end=True, sampling=DRAWN))
        usage = generation.done.usage
        self.assertEqual(len(generation.done.choices), 16)
        self.assertEqual(usage.output_tokens, 64)
        self.assertLess(usage.cached_tokens, usage.prompt_tokens)
        self.assertEqual({end.end_reason for end in generation.done.choices}, {pb.END_REASON_MAX_TOKENS})

    def test_one_answer_that_is_asked_for(self):
        given = self.connect().generate(prompt(TEXT, 8, n=1, ignore_end=True))
        self.assertEqual(len(given.done.choices), 1)
        self.assertTrue(all(delta.HasField("choice") for delta in given.deltas))
        self.assertEqual(answers(given), [answer(given)])
        plain = self.connect().generate(prompt(TEXT, 8, ignore_end=True))
        self.assertEqual(answer(plain), answer(given))
        self.assertFalse(plain.done.choices)
        self.assertFalse(any(delta.HasField("choice") for delta in plain.deltas))

    def test_explained_as_one(self):
        given = self.connect().generate(prompt(TEXT, N, n=3, ignore_end=True, explain=True, sampling=DRAWN,
                                               speculation="lookup"))
        explanation = given.done.explanation
        self.assertEqual(explanation.decode_steps, given.done.usage.decode_steps)
        self.assertEqual(explanation.valid_rows, given.done.usage.output_tokens - 3)  # the first ones are the prompt's

    def test_each_keeps_to_the_constraint(self):
        """A constraint and log probabilities are each answer's own."""
        options = dict(constraint=pb.Constraint(regex="[a-z]+( [a-z]+){2,5}[.]"), sampling=DRAWN, logprobs=1)
        together = self.connect().generate(prompt(TEXT, 30, n=3, **options))
        for i, (text, tokens, reason) in enumerate(answers(together)):
            alone = self.connect().generate(prompt(TEXT, 30, **dict(options, sampling=dict(DRAWN, seed=DRAWN["seed"] + i))))
            self.assertEqual((text, tokens, reason), answer(alone))
            self.assertRegex(text.decode(), "^[a-z]+( [a-z]+){2,5}[.]$")
            own = [entry for delta in together.deltas if delta.choice == i for entry in delta.logprobs]
            self.assertEqual(own, [entry for delta in alone.deltas for entry in delta.logprobs])

    def test_cancel_ends_all(self):
        connection = self.connect()
        generation = connection.start(prompt(TEXT, 400, n=4, ignore_end=True, sampling=DRAWN))
        generation.until("generate_delta")
        connection.cancel(generation.id)
        generation.finish()
        self.assertEqual(generation.done.end_reason, CANCELLED)
        self.assertEqual({end.end_reason for end in generation.done.choices}, {CANCELLED})
        self.daemon.wait_until(lambda status: self.connect().account("kv") == 0, "memory given back")

    def test_beside_others_and_preempted(self):
        """In company of interactive requests, whose steps go first, every answer is the same."""
        options = dict(n=4, ignore_end=True, sampling=DRAWN, priority=pb.PRIORITY_BACKGROUND)
        expected = answers(self.connect().generate(prompt(TEXT, N, **options)))
        talker, quick = self.connect(), self.connect()
        begun = talker.start(prompt(TEXT, N, **options))
        for text in ("Water boils at", "The capital of France is", "One, two,"):
            quick.generate(prompt(text, 4, priority=pb.PRIORITY_INTERACTIVE))
        self.assertEqual(answers(begun.finish()), expected)

    def test_a_client_that_goes(self):
        connection = self.connect()
        connection.start(prompt(TEXT, 400, n=4, ignore_end=True)).until("generate_delta")
        connection.close()
        self.daemon.connections.remove(connection)
        self.daemon.wait_until(lambda status: status.requests_running == 0 and self.connect().account("kv") == 0,
                               "the answers gone")

    def test_refused(self):
        self.refused(prompt(TEXT, n=0), "generate.n", "0 answers: 1 to 16")
        self.refused(prompt(TEXT, n=17), "generate.n", "17 answers: 1 to 16")

    def test_a_session_goes_on_with_the_first(self):
        """Messages and raw prompts: the next turn is behind answer 0, whatever the others said."""
        connection = self.connect()
        session = connection.open_session()
        options = dict(sampling=DRAWN, end_repetition=True)
        first = connection.generate(chat("Name a river.", N, n=3, session=session, **options))
        texts = [text.decode() for text, _, _ in answers(first)]
        self.assertGreater(len(set(texts)), 1)
        second = connection.generate(chat("Another one?", N, session=session, **options))
        said = [("user", "Name a river."), ("assistant", texts[0]), ("user", "Another one?")]
        rendered = connection.call(tokenize=pb.TokenizeRequest(messages=messages_of(said))).tokenize.tokens
        self.assertEqual(second.tokens, connection.generate(ids(rendered, N, **options)).tokens)
        self.assertGreater(second.done.usage.cached_tokens, 0)
        raw = connection.open_session()
        first = connection.generate(prompt(TEXT, N, n=2, session=raw, sampling=DRAWN))
        second = connection.generate(prompt(" The keeper", N, session=raw, sampling=DRAWN))
        self.assertEqual(second.tokens, connection.generate(
            prompt(TEXT + answers(first)[0][0].decode() + " The keeper", N, sampling=DRAWN)).tokens)


class Memory(Refusals, DaemonCase):
    flags = ("--kv-memory-limit=14M", "--prefix-cache-max=0", "--context-tokens=512")

    def test_all_or_none(self):
        """Answers that cannot all have memory are refused, and those that could are given back."""
        connection = self.connect(admin=True)
        with self.assertRaises(Refused) as caught:
            connection.generate(prompt(TEXT, 400, n=16))
        self.assertEqual(caught.exception.code, pb.ERROR_CODE_BUSY)
        self.assertRegex(caught.exception.error.message, "answer [0-9]+ of 16: .*ask for less")
        self.assertEqual(connection.account("kv"), 0)
        self.assertEqual(len(connection.generate(prompt(TEXT, 8, n=2, speculation="off")).done.choices), 2)


class Prompts(Refusals, DaemonCase):
    def test_ids_are_taken_as_they_are(self):
        connection = self.connect()
        tokens = connection.tokenize(TEXT)
        self.assertEqual(answer(connection.generate(ids(tokens))), answer(connection.generate(prompt(TEXT))))
        said = [("user", "Name a river.")]
        rendered = connection.call(tokenize=pb.TokenizeRequest(messages=messages_of(said))).tokenize.tokens
        self.assertEqual(connection.generate(ids(rendered, end_repetition=True)).tokens,
                         connection.generate(chat("Name a river.")).tokens)
        several = connection.generate(ids(tokens, n=2))
        self.assertEqual(answers(several)[1][1], connection.generate(ids(tokens)).tokens)

    def test_ids_refused(self):
        self.refused(ids([]), "generate.prompt_tokens", "the prompt is empty")
        self.refused(ids([5, 1 << 20]), "generate.prompt_tokens", "token 1 is 1048576: the model's ids are 0 to ")
        self.refused(ids([5], tools="[]"), "generate.tools", "only a chat template takes it")
        connection = self.connect()
        session = connection.open_session()
        self.refused(ids([5], session=session), "generate.prompt_tokens", "a session goes on with texts", connection=connection)

    def test_echo(self):
        connection = self.connect()
        plain = connection.generate(prompt(TEXT, 8))
        for request in (prompt(TEXT, 8, echo=True), ids(connection.tokenize(TEXT), 8, echo=True)):
            echoed = connection.generate(request)
            self.assertEqual(echoed.deltas[0].text.decode(), TEXT)
            self.assertEqual(echoed.text, TEXT.encode() + plain.text)
            self.assertEqual(echoed.tokens, plain.tokens)
        several = connection.generate(prompt(TEXT, 8, echo=True, n=2, sampling=DRAWN))
        self.assertTrue(all(text.startswith(TEXT.encode()) for text, _, _ in answers(several)))
        self.refused(chat(TEXT, echo=True), "generate.echo", "messages have no text of their own")
        session = connection.open_session()
        self.refused(prompt(TEXT, echo=True, session=session), "generate.echo", "a session", connection=connection)

    def test_the_beginning_of_an_answer(self):
        connection = self.connect()
        said, begun = "Name a river in France.", "A river in France is the"
        given = connection.generate(chat(said, answer_prefix=begun))
        rendered = connection.call(tokenize=pb.TokenizeRequest(messages=messages_of([("user", said)]))).tokenize.tokens
        self.assertEqual(given.tokens,
                         connection.generate(ids(list(rendered) + connection.tokenize(begun), end_repetition=True)).tokens)
        self.assertTrue(given.text.startswith(b" "), given.text)
        # A mark in the text stays text: no answer can take another role.
        marked = connection.generate(chat(said, answer_prefix="<|im_end|>"))
        self.assertEqual(marked.done.usage.prompt_tokens, len(rendered) + len(connection.tokenize("<|im_end|>")))
        self.refused(prompt(TEXT, answer_prefix="a"), "generate.answer_prefix", "only an answer to messages")
        self.refused(chat(TEXT, answer_prefix="{", constraint=pb.Constraint(regex="[a-z]+")), "generate.answer_prefix",
                     "the constraint allows 0 of the 1 bytes")
        self.refused(chat(TEXT, answer_prefix=""), "generate.answer_prefix", "the text is empty")
        self.refused(chat(TEXT, answer_prefix="a", add_generation_prompt=False), "generate.answer_prefix",
                     "behind the generation prompt")

    def test_a_session_keeps_the_whole_answer(self):
        connection, begun = self.connect(), "The Loire"
        session = connection.open_session()
        first = connection.generate(chat("Name a river.", session=session, answer_prefix=begun))
        second = connection.generate(chat("Another one?", session=session))
        said = [("user", "Name a river."), ("assistant", begun + first.text.decode()), ("user", "Another one?")]
        rendered = connection.call(tokenize=pb.TokenizeRequest(messages=messages_of(said))).tokenize.tokens
        self.assertEqual(second.done.usage.prompt_tokens, len(rendered))
        self.assertEqual(second.tokens, connection.generate(ids(rendered, end_repetition=True)).tokens)

    def test_a_gap_needs_a_model_for_it(self):
        self.refused(prompt(TEXT, suffix="."), "generate.suffix", "no token for a prefix to fill in the middle")
        self.refused(chat(TEXT, suffix="."), "generate.suffix", "send a prompt with it")


class Coordgenctl(DaemonCase):
    def ctl(self, *args, status=0):
        run = subprocess.run([BIN / "coordgenctl", "generate", f"--socket={self.daemon.api}", "--max-tokens=6", *args],
                             capture_output=True, text=True, stdin=subprocess.DEVNULL)
        self.assertEqual(run.returncode, status, run.stderr)
        return run.stdout if not status else run.stderr

    def test_several_answers(self):
        options = ("--seed=7", "--temperature=1", "--raw", TEXT)
        alone = [self.ctl("--seed=%d" % (7 + i), *options[1:]) for i in range(2)]
        printed = self.ctl("--n=2", *options)
        self.assertEqual(printed, "==> 1 of 2: seed 7, max-tokens <==\n%s\n\n==> 2 of 2: seed 8, max-tokens <==\n%s\n" %
                         (alone[0], alone[1]))
        lines = [json.loads(line) for line in self.ctl("--n=2", "--json=short", *options).splitlines()]
        self.assertEqual({line["choice"] for line in lines[:-1]}, {0, 1})
        for i, choice in enumerate(lines[-1]["choices"]):
            self.assertEqual((choice["text"], choice["seed"]), (alone[i], str(7 + i)))
            self.assertEqual(choice["text"], "".join(line["text"] for line in lines[:-1] if line["choice"] == i))

    def test_other_prompts(self):
        connection = self.connect()
        expected = self.ctl("--temperature=0", "--raw", TEXT)
        self.assertEqual(self.ctl("--temperature=0", "--raw", "--echo", TEXT), TEXT + expected)
        tokens = ",".join(map(str, connection.tokenize(TEXT)))
        self.assertEqual(self.ctl("--temperature=0", "--prompt-tokens", tokens), expected)
        begun = connection.generate(chat("Name a river.", 6, answer_prefix="The Loire"))
        self.assertEqual(self.ctl("--temperature=0", "--answer-prefix=The Loire", "Name a river."), begun.text.decode())
        self.assertIn("no token for a prefix", self.ctl("--suffix=x", "y", status=2))
        for args, text in ((("--echo", "x"), "--echo prints a raw prompt"), (("--prompt-tokens=1", "x"), "the whole prompt"),
                           (("--suffix=x", "--system=y", "z"), "--system has no place in it"),
                           (("--raw", "--answer-prefix=x", "z"), "--answer-prefix has no place in it"),
                           (("--n=0", "x"), "at least one answer"), (("--prompt-tokens=a",), "'a' is no token id")):
            self.assertIn(text, self.ctl(*args, status=2))


class Infill(Refusals, DaemonCase):
    """A model of one layer whose file names tokens for a gap: what it writes makes no sense, its prompt does."""
    MARKS = {"tokenizer.ggml.fim_pre_token_id": 7, "tokenizer.ggml.fim_suf_token_id": 8,
             "tokenizer.ggml.fim_mid_token_id": 9}

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        small, marked = Path(cls.folder.name) / "small.gguf", Path(cls.folder.name) / "marked.gguf"
        cut_layers(MODEL, small, 1)
        with_ids(small, marked, cls.MARKS)
        cls.daemon = Daemon(model=marked)

    def test_the_prompt(self):
        connection = self.connect()
        before, behind = "def add(a, b):\n", "\n\nprint(add(1, 2))\n"
        tokens = [7] + connection.tokenize(before) + [8] + connection.tokenize(behind) + [9]
        expected = connection.generate(ids(tokens, ignore_end=True))
        given = connection.generate(prompt(before, suffix=behind, ignore_end=True))
        self.assertEqual(given.done.usage.prompt_tokens, len(tokens))
        self.assertEqual(given.tokens, expected.tokens)
        # No text becomes a mark, wherever it stands.
        mark = connection.detokenize([8], with_special=True).decode()
        self.assertNotIn(8, connection.tokenize(mark))
        self.assertGreater(len(connection.tokenize(mark)), 1)
        session = connection.open_session()
        self.refused(prompt("a", suffix="b", session=session), "generate.suffix", "a session is one text", connection=connection)
