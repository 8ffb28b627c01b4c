# SPDX-License-Identifier: Apache-2.0
"""What a request gets that says nothing: how it is sampled, and how an answer that repeats itself ends."""

import json
import signal
import struct
import subprocess
import tempfile
import unittest
from pathlib import Path

import coordgen_pb2 as pb

from daemon import Daemon, DaemonCase
from settings import BIN, MODEL, SANITIZED, SLOW
from wire import chat, prompt

FIELDS = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "repetition_window")
REQUEST, FILE, FAMILY, SERVICE = (pb.SamplingOrigin.Value(f"SAMPLING_ORIGIN_{name}")
                                  for name in ("REQUEST", "FILE", "FAMILY", "SERVICE"))
# Its answer loops when it is greedy.
QUESTION = "Tell me a story about a dog."
N = 100 if SANITIZED else 600


def loop_at(tokens):
    """The rule of docs/protocol-messages.md, to the letter: how many tokens an answer keeps; None: it has no loop."""
    runs = [0] * 257
    for n, token in enumerate(tokens, 1):
        for period in range(1, min(256, n - 1) + 1):
            runs[period] = runs[period] + 1 if token == tokens[n - 1 - period] else 0
            length = runs[period] + period
            if length >= 256 and length >= 6 * period:
                factor = 2 if len(set(tokens[n - period:n])) < 8 else 1
                if length >= factor * 256 and length >= factor * 6 * period:
                    return n
    return None


def sampled(done):
    """Each option and who said it."""
    return {field: (round(getattr(done.sampling, field), 4), getattr(done.sampling_origins, field)) for field in FIELDS}


def ctl(daemon, *args, **options):
    return subprocess.run([BIN / "coordgenctl", f"--socket={daemon.api}", *args], capture_output=True, text=True,
                          timeout=120 * SLOW, **options)


def with_keys(path, keys):
    """A copy of the model whose file has more keys, of float32: as many bytes as keep the tensors aligned."""
    data = MODEL.read_bytes()
    text = b"".join(struct.pack("<Q", len(name)) + name.encode() + struct.pack("<If", 6, value) for name, value in keys)
    fill = b"test.fill"
    n_fill = -(len(text) + 8 + len(fill) + 4 + 8) % 32
    text += struct.pack("<Q", len(fill)) + fill + struct.pack("<IQ", 8, n_fill) + b" " * n_fill
    (n_keys,) = struct.unpack_from("<Q", data, 16)
    path.write_bytes(data[:16] + struct.pack("<Q", n_keys + len(keys) + 1) + text + data[24:])


class Sampling(DaemonCase):
    NEUTRAL = {"temperature": (0, SERVICE), "top_k": (0, SERVICE), "top_p": (1, SERVICE), "min_p": (0, SERVICE),
               "repetition_penalty": (1, SERVICE), "repetition_window": (64, SERVICE)}
    FAMILY_OF = {**NEUTRAL, "temperature": (0.2, FAMILY), "top_p": (0.9, FAMILY), "repetition_penalty": (1.1, FAMILY),
                 "repetition_window": (256, FAMILY)}  # of the default model

    def ask(self, sampling, **options):
        return self.connect().generate(chat("Name a river.", 8, sampling=sampling, **options)).done

    def test_what_a_request_leaves_out_is_the_models(self):
        for request in (chat("Hi", 2, sampling=None), prompt("Hi", 2, sampling=None), chat("Hi", 2, sampling={"seed": 4})):
            done = self.connect().generate(request).done
            self.assertEqual(sampled(done), self.FAMILY_OF)
            self.assertEqual(done.sampling_family, "smollm2")
        self.assertEqual(done.seed, 4)

    def test_what_a_request_sets_is_kept(self):
        self.assertEqual(sampled(self.ask({"top_k": 3})), {**self.FAMILY_OF, "top_k": (3, REQUEST)})
        self.assertEqual(sampled(self.ask({"temperature": 1.5})), {**self.FAMILY_OF, "temperature": (1.5, REQUEST)})
        self.assertEqual(sampled(self.ask({"top_p": 1})), {**self.FAMILY_OF, "top_p": (1, REQUEST)})

    def test_temperature_0_is_greedy(self):
        done = self.ask({"temperature": 0})
        self.assertEqual(sampled(done), {**self.NEUTRAL, "temperature": (0, REQUEST)})
        self.assertEqual(done.sampling_family, "")

    def test_the_same_with_drafts(self):
        """The model's own sampling takes drafts as any other does."""
        n_accepted = 0
        for seed in range(1 if SANITIZED else 3):
            request = chat("Say one to ten in words, three times.", 48, sampling={"seed": seed}, ignore_end=True)
            request.speculation = "off"
            plain = self.connect().generate(request)
            request.speculation = "lookup,sam,table"
            drafted = self.connect().generate(request)
            self.assertEqual(drafted.tokens, plain.tokens)
            n_accepted += drafted.done.usage.accepted_tokens
        drawn = self.connect().generate(chat("Name a river.", 24, sampling=None))
        again = self.connect().generate(chat("Name a river.", 24, sampling={"seed": drawn.done.seed}))
        self.assertEqual(drawn.tokens, again.tokens)
        if not SANITIZED:
            self.assertGreater(n_accepted, 0)

    def test_ctl_tells(self):
        run = ctl(self.daemon, "generate", "-n4", "--json=short", "--min-p=0.125", "Hello")
        told = json.loads(run.stdout.splitlines()[-1])["sampling"]
        self.assertEqual((told["from"]["temperature"], told["from"]["min_p"], told["from"]["top_k"], told["family"]),
                         ("family", "request", "service", "smollm2"))
        run = ctl(self.daemon, "generate", "-n4", "--timings", "--seed=9", "Hello")
        self.assertRegex(run.stderr, r"sampling: temperature 0\.2 \(family smollm2\), top-p 0\.9 \(family smollm2\), "
                                     r"repetition-penalty 1\.1 \(family smollm2\), seed 9; "
                                     r"at most 4 tokens; repetition ends it\n")
        run = ctl(self.daemon, "generate", "-n4", "--timings", "-t0", "--allow-repetition", "Hello")
        self.assertRegex(run.stderr, r"sampling: temperature 0 \(request\), seed \d+; at most 4 tokens; repetition is allowed\n")

    def test_an_answer_of_chat_has_a_limit(self):
        run = ctl(self.daemon, "chat", "--timings", "--stop", " ", input="Hello\n")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("at most 1024 tokens", run.stderr)
        self.assertNotIn("is cut", run.stderr)
        run = ctl(self.daemon, "chat", "-n5", "-t0", input="Tell me a story.\n")
        self.assertIn("(the answer is cut here: --max-tokens is 5, 0 lets it go on)", run.stderr)
        run = ctl(self.daemon, "chat", "--timings", "-n0", "--stop", " ", input="Hello\n")
        self.assertRegex(run.stderr, r"at most [34]\d\d\d tokens")


class Repetition(DaemonCase):
    def test_the_rule(self):
        """Where it ends is what the ids say, with drafts and without; nothing else is other than without the rule."""
        free = self.connect().generate(chat(QUESTION, N, end_repetition=False))
        self.assertFalse(free.done.end_repetition)
        self.assertEqual(free.done.end_reason, pb.END_REASON_MAX_TOKENS)
        keeps = loop_at(free.tokens)
        self.assertTrue(keeps or SANITIZED, "the answer does not loop: another question is needed")
        for speculation in ("off", "auto"):
            ended = self.connect().generate(chat(QUESTION, N, speculation=speculation))
            self.assertTrue(ended.done.end_repetition)
            self.assertEqual(ended.tokens, free.tokens[:keeps])
            self.assertEqual(ended.done.end_reason, pb.END_REASON_REPETITION if keeps else pb.END_REASON_MAX_TOKENS)
            self.assertTrue(free.text.startswith(ended.text))

    def test_when_it_is_on(self):
        connection = self.connect()
        for request, on in ((prompt("Hi", 2), False), (prompt("Hi", 2, end_repetition=True), True), (chat("Hi", 2), True),
                            (chat("Hi", 2, ignore_end=True), False), (chat("Hi", 2, end_repetition=False), False),
                            (chat("Hi", 2, ignore_end=True, end_repetition=True), True)):
            self.assertEqual(connection.generate(request).done.end_repetition, on)

    @unittest.skipIf(SANITIZED, "the answers are long")
    def test_ctl(self):
        run = ctl(self.daemon, "generate", "-t0", "-n", str(N), QUESTION)
        self.assertEqual((run.returncode, run.stderr),
                         (0, "coordgenctl: the answer repeats itself and ends here: --allow-repetition lets it go on\n"))
        run = ctl(self.daemon, "chat", "-t0", "-n", str(N), input=QUESTION + "\n")
        self.assertEqual((run.returncode, run.stderr),
                         (0, "(the answer repeats itself and ends here: --allow-repetition lets it go on)\n"))


class Settings(unittest.TestCase):
    def test_the_files_keys_and_the_setting(self):
        with tempfile.TemporaryDirectory(prefix="coordgen-") as folder:
            model = Path(folder, "keyed.gguf")
            with_keys(model, [("general.sampling.temp", 0.5), ("general.sampling.top_k", 12)])
            daemon = Daemon(model=model, cache=Path(folder))
            self.addCleanup(daemon.kill)
            said = {**Sampling.NEUTRAL, "temperature": (0.5, FILE), "top_k": (12, FILE)}
            connection = daemon.connect()
            done = connection.generate(chat("Hi", 2, sampling=None)).done
            self.assertEqual((sampled(done), done.sampling_family), (said, ""))
            daemon.config.write_text("sampling-defaults = greedy\n")
            daemon.signal(signal.SIGHUP)
            daemon.wait_until(lambda _: "sampling-defaults: model -> greedy" in daemon.log(), "the setting has changed")
            done = connection.generate(chat("Hi", 2, sampling={"top_k": 5})).done
            self.assertEqual(sampled(done), {**Sampling.NEUTRAL, "top_k": (5, REQUEST)})
            daemon.stop()


if __name__ == "__main__":
    unittest.main()
