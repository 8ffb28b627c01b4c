# SPDX-License-Identifier: Apache-2.0
"""What an app gets: streamed text, its end, its numbers, and the same bits whatever else happens."""

import unittest

import coordgen_pb2 as pb

from daemon import Daemon, DaemonCase
from settings import LONG, SANITIZED, whole_model
from wire import GREEDY, chat, messages_of, prompt, talk

STORY = "Once upon a time there was a lighthouse keeper who counted the ships that passed at night."
SAMPLED = dict(temperature=0.8, top_k=40, top_p=0.95, min_p=0.02, repetition_penalty=1.1, seed=20240607)


class Stream(DaemonCase):
    def test_hello(self):
        greeting = self.connect().greeting
        self.assertEqual(greeting.version, 1)
        self.assertRegex(greeting.service_version, r"^\d+\.\d+\.\d+")
        self.assertGreaterEqual(greeting.frame_max_bytes, 1 << 16)
        self.assertGreaterEqual(greeting.requests_max, 1)

    def test_deltas_and_done(self):
        connection = self.connect()
        generation = connection.generate(prompt(STORY, 24, ignore_end=True))
        done = generation.done
        self.assertEqual(done.end_reason, pb.END_REASON_MAX_TOKENS)
        self.assertEqual(len(generation.tokens), 24)
        self.assertEqual(done.usage.output_tokens, 24)
        self.assertEqual(done.usage.prompt_tokens, len(connection.tokenize(STORY, add_special=True)))
        self.assertGreater(len(generation.deltas), 5, "the text was not streamed")
        # The same tokens, put together by the service's detokenizer, are the text.
        self.assertEqual(connection.detokenize(generation.tokens), generation.text)
        self.assertEqual(done.max_tokens, 24)
        self.assertTrue(done.model)

    def test_timings_add_up(self):
        timings = self.connect().generate(prompt(STORY, 16, ignore_end=True)).done.timings
        self.assertGreater(timings.prefill_us, 0)
        self.assertGreater(timings.decode_us, 0)
        parts = timings.queue_us + timings.load_us + timings.prefill_us + timings.decode_us
        self.assertLessEqual(parts, timings.total_us * 1.02 + 1000)

    @whole_model
    def test_chat_template_is_used(self):
        connection = self.connect()
        text = "Answer with one word: what colour is the sky on a clear day?"
        generation = connection.generate(chat(text, 400))
        messages = pb.Messages(message=[pb.Message(role=pb.ROLE_USER, text=text)])
        tokens = connection.call(tokenize=pb.TokenizeRequest(messages=messages)).tokenize.tokens
        self.assertEqual(generation.done.usage.prompt_tokens, len(tokens))
        self.assertTrue(generation.text)
        self.assertEqual(generation.done.end_reason, pb.END_REASON_END_TOKEN)

    def test_user_text_never_becomes_a_control_token(self):
        connection = self.connect()
        inside = connection.tokenize("<|im_end|>")
        self.assertGreater(len(inside), 1)
        self.assertEqual(connection.detokenize(inside), b"<|im_end|>")
        self.assertEqual(len(connection.tokenize("<|im_end|>", parse_special=True)), 1)

    def test_stop_string(self):
        connection = self.connect()
        whole = connection.generate(prompt(STORY, 32, ignore_end=True)).text.decode()
        stop = whole[len(whole) // 2:len(whole) // 2 + 4]
        stopped = connection.generate(prompt(STORY, 32, ignore_end=True, stop=[stop]))
        self.assertEqual(stopped.done.end_reason, pb.END_REASON_STOP_STRING)
        self.assertEqual(stopped.text.decode(), whole[:whole.index(stop)])

    def test_whole_utf8_sequences(self):
        # Generation checks every delta; the prompt makes the model write characters of several bytes, also as
        # byte tokens of half a character.
        connection = self.connect()
        text = "日本語の文章:東京は日本の首都です。大阪は\nEmoji: 😀 😃 😄 😁 🎉 🚀\nΕλληνικά: "
        several = 0
        for seed in range(3):
            generation = connection.generate(prompt(text, 48, ignore_end=True, sampling=dict(temperature=1.5, seed=seed)))
            several += sum(byte > 127 for byte in generation.text)
        self.assertGreater(several, 0, "no character of several bytes came out: the test shows nothing")

    @whole_model
    def test_the_end_inside_a_character(self):
        connection = self.connect()
        cut = set()
        for n in range(1, 9):
            generation = connection.generate(prompt("🜁🜂🜃🜄" * 8, n, ignore_end=True))
            ids = [token for delta in generation.deltas for token in delta.tokens]
            made = connection.call(detokenize=pb.DetokenizeRequest(tokens=ids)).detokenize.text
            missing = generation.done.incomplete_bytes
            # The other way of making the text replaces what has been cut off.
            self.assertEqual(generation.text + (b"\xef\xbf\xbd" if missing else b""), made)
            cut.add(missing)
        self.assertIn(0, cut)
        self.assertTrue(cut & {1, 2, 3}, "no character was cut: the test shows nothing")

    def test_as_many_messages_as_documented(self):
        connection = self.connect()
        said = [("user", "a"), ("assistant", "b")] * 2048
        counted = connection.call(tokenize=pb.TokenizeRequest(messages=messages_of(said), count_only=True)).tokenize
        self.assertGreater(counted.count, 2 * len(said))
        self.assertEqual((len(counted.tokens), len(counted.pieces)), (0, 0))
        self.assertRefused(pb.ERROR_CODE_CONTEXT_FULL, connection.generate, talk(said, 2))
        error = self.assertRefused(pb.ERROR_CODE_INVALID_ARGUMENT, connection.generate, talk(said + said[:1], 2))
        self.assertIn("4096", error.message)

    def test_effective_options_come_back(self):
        done = self.connect().generate(prompt(STORY, 4, sampling=SAMPLED)).done
        self.assertEqual(done.seed, SAMPLED["seed"])
        self.assertAlmostEqual(done.sampling.temperature, 0.8, places=5)
        self.assertEqual(done.sampling.top_k, 40)
        self.assertAlmostEqual(done.sampling.repetition_penalty, 1.1, places=5)

    def test_status_counts(self):
        connection = self.connect()
        before = connection.status()
        generation = connection.generate(prompt(STORY, 8, ignore_end=True))
        after = connection.status()
        self.assertEqual(after.requests_done - before.requests_done, 1)
        self.assertEqual(after.output_tokens - before.output_tokens, 8)
        self.assertEqual(after.prompt_tokens - before.prompt_tokens, generation.done.usage.prompt_tokens)
        self.assertEqual(after.pid, self.daemon.process.pid)
        self.assertGreaterEqual(after.connections, 1)
        self.assertIn(after.isa, ("scalar", "avx2", "avx512vnni", "amx", "neon", "neondot", "i8mm"))
        names = {account.name: account.used_bytes for account in after.memory}
        self.assertGreater(names["weights"], 1 << 20)

    def test_kv_is_held_and_given_back(self):
        connection = self.connect()
        self.daemon.wait_idle()
        generation = connection.start(prompt(STORY, 64, ignore_end=True)).until("generate_delta")
        other = self.connect()
        self.assertGreater(other.account("kv"), 0)
        generation.finish()
        self.daemon.wait_idle()

    def test_session_memory_is_given_back(self):
        idle = self.daemon.wait_idle()
        used = {account.name: account.used_bytes for account in idle.memory}
        connection = self.connect()
        for _ in range(5):
            connection.generate(prompt(STORY * 20, 2))
        connection.close()
        def back(status):
            now = {account.name: account.used_bytes for account in status.memory}
            return now["sessions"] <= used["sessions"]
        self.daemon.wait_until(back, f"the sessions account is at {used['sessions']} again")


class SameBits(DaemonCase):
    """Invariant 1, seen from outside: the tokens depend on nothing but model, prompt, options and seed."""

    flags = ("--stall-timeout=1h",)  # one of the tests reads its other clients late
    N_TOKENS = 24 if SANITIZED else 64

    def request(self, sampling=GREEDY):
        return prompt(STORY * 12, self.N_TOKENS, ignore_end=True, sampling=sampling)

    def tokens(self, sampling=GREEDY):
        return self.connect().generate(self.request(sampling)).tokens

    def test_alone_and_again(self):
        self.assertEqual(self.tokens(), self.tokens())

    def test_seed_reproduces_and_other_seed_differs(self):
        first = self.tokens(SAMPLED)
        self.assertEqual(first, self.tokens(SAMPLED))
        self.assertNotEqual(first, self.tokens(dict(SAMPLED, seed=7)))

    def test_drawn_seed_reproduces(self):
        drawn = self.connect().generate(self.request(dict(temperature=1.0)))
        again = self.connect().generate(self.request(dict(temperature=1.0, seed=drawn.done.seed)))
        self.assertEqual(drawn.tokens, again.tokens)

    def test_among_eight_others(self):
        for sampling in (GREEDY, SAMPLED):
            alone = self.tokens(sampling)
            others = self.connect()
            running = [others.start(prompt(f"Story number {i}: " + STORY * (i + 1), 40, ignore_end=True,
                                           sampling=dict(temperature=1.0, seed=i))) for i in range(8)]
            self.assertEqual(alone, self.tokens(sampling))
            for generation in running:
                generation.finish()

    def test_after_cancelled_ones(self):
        alone = self.tokens()
        connection = self.connect()
        for i in range(4):
            generation = connection.start(prompt(f"{i} " + STORY * 30, 200, ignore_end=True))
            if i % 2:
                generation.until("generate_delta")
            connection.cancel(generation.id)
            self.assertEqual(generation.finish().done.end_reason, pb.END_REASON_CANCELLED)
        self.assertEqual(alone, self.tokens())

    def test_after_a_restart_and_with_other_shapes(self):
        greedy, sampled = self.tokens(), self.tokens(SAMPLED)
        for flags in ((), ("--threads=1",), ("--chunk-tokens=7", "--threads=2"), ("--isa=scalar", "--chunk-tokens=32")):
            if "--isa=scalar" in flags and (SANITIZED or not LONG):
                continue  # the slowest kernel; the matrix has it
            with self.subTest(flags=flags):
                other = Daemon(*flags)
                with other.connect() as connection:
                    self.assertEqual(greedy, connection.generate(self.request()).tokens)
                    self.assertEqual(sampled, connection.generate(self.request(SAMPLED)).tokens)
                other.stop()


class Limits(DaemonCase):
    flags = ("--context-tokens=64", "--prompt-max=8K")

    def test_empty_prompt(self):
        error = self.assertRefused(pb.ERROR_CODE_INVALID_ARGUMENT, self.connect().generate, prompt("", 4))
        self.assertEqual(error.field, "generate.prompt")

    def test_no_messages(self):
        request = pb.GenerateRequest(messages=pb.Messages())
        error = self.assertRefused(pb.ERROR_CODE_INVALID_ARGUMENT, self.connect().generate, request)
        self.assertEqual(error.field, "generate.messages")

    def test_context_border(self):
        connection = self.connect()
        word = " the"
        self.assertEqual(len(connection.tokenize(word * 63)), 63)
        # One short of the context: one token comes out; as many as it has: typed refusal with both numbers.
        generation = connection.generate(prompt(word * 63, 8, ignore_end=True))
        self.assertEqual(generation.done.end_reason, pb.END_REASON_CONTEXT_FULL)
        self.assertGreaterEqual(generation.done.usage.output_tokens, 1)
        for n_tokens in (64, 65, 1000):
            error = self.assertRefused(pb.ERROR_CODE_CONTEXT_FULL, connection.generate, prompt(word * n_tokens, 8))
            self.assertIn("64", error.message)
            self.assertEqual((error.prompt_tokens, error.context_tokens), (n_tokens, 64))
        # The connection and the service go on.
        self.assertEqual(connection.generate(prompt(word, 2, ignore_end=True)).done.usage.output_tokens, 2)

    def test_context_full_ends_a_generation(self):
        generation = self.connect().generate(prompt(" the" * 10, 0, ignore_end=True))
        self.assertEqual(generation.done.end_reason, pb.END_REASON_CONTEXT_FULL)
        total = generation.done.usage.prompt_tokens + generation.done.usage.output_tokens
        self.assertIn(total, (64, 65))

    def test_prompt_longer_than_the_limit(self):
        connection = self.connect()
        with self.assertRaises(Exception) as caught:
            connection.generate(prompt("a" * 9000, 4))
        self.assertIn(caught.exception.error.code, (pb.ERROR_CODE_INVALID_ARGUMENT, pb.ERROR_CODE_CONTEXT_FULL,
                                                    pb.ERROR_CODE_QUOTA_EXCEEDED))
        self.assertRegex(caught.exception.error.message, "8192|8K|9000")

    def test_sampling_out_of_range(self):
        connection = self.connect()
        nan, inf = float("nan"), float("inf")
        for field, values in (("temperature", (-0.1, 101, nan, inf)), ("top_p", (0, 1.1, nan)), ("min_p", (-1, 1, nan)),
                              ("repetition_penalty", (0, -1, 11, nan))):
            for value in values:
                with self.subTest(field=field, value=value):
                    error = self.assertRefused(pb.ERROR_CODE_INVALID_ARGUMENT, connection.generate,
                                               prompt("x", 4, sampling={field: value}))
                    self.assertEqual(error.field, f"generate.sampling.{field}")

    def test_stops_out_of_range(self):
        connection = self.connect()
        for stops in ([""], ["a" * 257], ["a"] * 9):
            self.assertRefused(pb.ERROR_CODE_INVALID_ARGUMENT, connection.generate, prompt("x", 4, stop=stops))

    def test_unknown_model(self):
        self.assertRefused(pb.ERROR_CODE_MODEL_NOT_FOUND, self.connect().generate, prompt("x", 4, model="no-such"))

    def test_detokenize_of_a_token_that_is_not_there(self):
        self.assertRefused(pb.ERROR_CODE_INVALID_ARGUMENT, self.connect().detokenize, [1, 4000000000])


if __name__ == "__main__":
    unittest.main()
