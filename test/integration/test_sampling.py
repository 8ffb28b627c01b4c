# SPDX-License-Identifier: Apache-2.0
"""Further ways of sampling and log probabilities: what each does, and that drafts and company change no bit of it."""

import json
import math
import subprocess
import unittest

import coordgen_pb2 as pb

from daemon import DaemonCase
from settings import BIN, SLOW, TOP, whole_model
from wire import GREEDY, prompt

TEXT = ("The keeper wrote: ship, lamp, rope, sail, tide, wind. The keeper wrote: ship, lamp, rope, sail, tide, wind. "
        "The keeper wrote: ship, lamp,")
N = 24
NEVER = -math.inf
ALONE = dict(temperature=1, top_k=0, top_p=1, min_p=0, repetition_penalty=1)  # nothing is the model's
GOLDEN = TOP / "test/golden/logits/smollm2-135m.logits.jsonl"
# Every option, alone and with others; on a text that drafts of "lookup" continue.
WAYS = (
    dict(temperature=0, presence_penalty=1.5, frequency_penalty=0.5),
    dict(temperature=0, dry_multiplier=1.5, dry_allowed_length=3),
    dict(temperature=1, seed=3, typical_p=0.5),
    dict(temperature=1, seed=4, xtc_probability=0.5, xtc_threshold=0.05),
    dict(temperature=0.8, seed=5, top_k=50, typical_p=0.9, top_p=0.95, min_p=0.01, xtc_probability=0.3, xtc_threshold=0.1,
         repetition_penalty=1.1, presence_penalty=0.2, frequency_penalty=0.1, dry_multiplier=0.8, dry_window=64,
         dry_breaker=["wrote", ":"], logit_bias=[pb.LogitBias(token=28, bias=1.5)]),
)


def ask(sampling=GREEDY, n=N, text=TEXT, **options):
    return prompt(text, n, ignore_end=True, sampling=sampling, **options)


def logprobs(generation):
    return [one for delta in generation.deltas for one in delta.logprobs]


def outcome(generation):
    """What must be the same to the bit."""
    return generation.tokens, generation.text, [one.SerializeToString() for one in logprobs(generation)]


class Sampling(DaemonCase):
    def generate(self, *args, **options):
        return self.connect().generate(ask(*args, **options))

    def test_the_same_with_drafts_and_in_company(self):
        options = dict(logprobs=3, no_reuse=True)
        expected = [self.generate(way, speculation="off", **options) for way in WAYS]
        self.assertEqual(len({tuple(one.tokens) for one in expected}), len(WAYS))
        n_drafted = 0
        for sources in ("lookup", "auto"):
            # All at once: the rows of several requests share steps.
            begun = [self.connect().start(ask(way, speculation=sources, **options)) for way in WAYS]
            for way, generation, wanted in zip(WAYS, begun, expected):
                with self.subTest(sources=sources, **way):
                    self.assertEqual(outcome(generation.finish()), outcome(wanted))
                    n_drafted += generation.done.usage.drafted_tokens
        self.assertGreater(n_drafted, 0)

    def test_logprobs_are_the_models(self):
        """Whatever is sampled, and by whatever rules: the model's own distribution, best tokens first."""
        plain = logprobs(self.generate(logprobs=20))
        for ways in (dict(), dict(logit_bias=[pb.LogitBias(token=28, bias=1000)]), dict(repetition_penalty=10)):
            given = self.generate(dict(temperature=2, seed=9, **ways), logprobs=20)
            for token, one in zip(given.tokens, logprobs(given), strict=True):
                self.assertEqual(one.chosen.token, token)
                self.assertEqual(len(one.top), 20)
                values = [top.logprob for top in one.top]
                self.assertEqual(values, sorted(values, reverse=True))
                self.assertLessEqual(sum(map(math.exp, values)), 1 + 1e-5)
                same = [top for top in one.top if top.token == token]
                self.assertEqual(same, [one.chosen] if same else [])
                self.assertLessEqual(one.chosen.logprob, values[0])
            # The first token stands behind the same text, so its place has the same distribution.
            self.assertEqual(list(logprobs(given)[0].top), list(plain[0].top))
        self.assertEqual([one.top[0] for one in plain], [one.chosen for one in plain])

    def test_how_many_are_asked_for(self):
        connection = self.connect()
        self.assertEqual(logprobs(connection.generate(ask(n=3))), [])
        for n in (0, 1, 20):
            given = connection.generate(ask(n=3, logprobs=n))
            self.assertEqual([len(one.top) for one in logprobs(given)], [n] * 3)
            self.assertEqual(b"".join(one.chosen.piece for one in logprobs(given)), given.text)
        request = ask(n=3, logprobs=2)
        request.want_tokens = False  # log probabilities come without the list of tokens, too
        given = connection.generate(request)
        self.assertEqual((given.tokens, len(logprobs(given))), ([], 3))
        error = self.assertRefused(pb.ERROR_CODE_INVALID_ARGUMENT, connection.generate, ask(logprobs=21))
        self.assertEqual(error.field, "generate.logprobs")

    def test_held_back_tokens_keep_theirs(self):
        """Text that may begin a stop string is held back; each token has its own log probabilities all the same."""
        whole = self.generate(logprobs=1)
        stop = whole.text.decode()[12:30]
        stopped = self.generate(logprobs=1, stop=[stop, "never"])
        self.assertEqual(stopped.done.end_reason, pb.END_REASON_STOP_STRING)
        self.assertEqual(stopped.text, whole.text[:whole.text.index(stop.encode())])
        for generation in (whole, stopped):
            for delta in generation.deltas:
                self.assertEqual([one.chosen.token for one in delta.logprobs], list(delta.tokens))
        n = len(stopped.tokens)
        self.assertEqual(logprobs(stopped), logprobs(whole)[:n])

    @whole_model
    def test_logprobs_beside_the_float_model(self):
        """The last place of each golden text, whose logits a forward pass in float64 gave."""
        connection, errors = self.connect(), []
        for line in GOLDEN.read_text().splitlines():
            golden = json.loads(line)
            if not golden["id"].startswith("text"):
                continue
            text = connection.detokenize(golden["ids"]).decode()
            given = connection.generate(ask(n=1, text=text, logprobs=20))
            self.assertEqual(given.done.usage.prompt_tokens, len(golden["ids"]))
            last = golden["positions"][-1]
            wanted = {token: logit - last["lse"] for token, logit in last["top"]}
            errors += [abs(one.logprob - wanted[one.token]) for one in logprobs(given)[0].top[:5] if one.token in wanted]
        self.assertGreater(len(errors), 25)
        self.assertLess(max(errors), 0.6)  # 8-bit weights and keys
        self.assertLess(sum(errors) / len(errors), 0.15, errors)

    def test_bias(self):
        plain = self.generate()
        banned = sorted(set(plain.tokens))
        other = self.generate(dict(temperature=0, logit_bias=[pb.LogitBias(token=one, bias=NEVER) for one in banned]))
        self.assertFalse(set(banned) & set(other.tokens))
        wanted = self.generate(dict(temperature=1, seed=1, logit_bias=[pb.LogitBias(token=42, bias=1000)]))
        self.assertEqual(wanted.tokens, [42] * N)

    def test_presence_and_frequency(self):
        """A penalty that no logit outweighs: no token of the answer comes twice. The prompt does not count."""
        plain = self.generate()
        self.assertLess(len(set(plain.tokens)), N)
        for ways in (dict(presence_penalty=10), dict(frequency_penalty=10), dict(presence_penalty=5, frequency_penalty=5)):
            other = self.generate(dict(temperature=0, **ways))
            self.assertGreater(len(set(other.tokens)), len(set(plain.tokens)))
            self.assertEqual(other.tokens[0], plain.tokens[0])
        likes = self.generate(dict(temperature=0, presence_penalty=-10, frequency_penalty=-10))
        self.assertEqual(set(likes.tokens), {plain.tokens[0]})

    def test_dry(self):
        """A text that repeats itself goes on with the repetition, but for DRY. Breakers end the repetition."""
        plain = self.generate()
        other = self.generate(dict(temperature=0, dry_multiplier=10, dry_breaker=[""]))
        self.assertNotEqual(other.tokens, plain.tokens)
        for ways in (dict(dry_allowed_length=1000), dict(dry_window=2), dict(dry_breaker=[",", ".", ":"], dry_allowed_length=3)):
            self.assertEqual(self.generate(dict(temperature=0, dry_multiplier=10, **ways)).tokens, plain.tokens, ways)

    def test_xtc_by_the_models_distribution(self):
        """At temperature 1 and without other cuts, log probabilities tell which tokens were dropped."""
        threshold, n_dropped = 0.05, 0
        for seed in range(3):
            given = self.generate(dict(ALONE, seed=seed, xtc_probability=1, xtc_threshold=threshold), logprobs=20)
            for one in logprobs(given):
                likely = [top.token for top in one.top if math.exp(top.logprob) >= threshold]
                self.assertNotIn(one.chosen.token, likely[:-1])
                n_dropped += len(likely) > 1
        self.assertGreater(n_dropped, 10)

    def test_typical_by_the_models_distribution(self):
        """A small typical_p leaves tokens near the entropy alone: the likeliest of a sure place, hardly ever a rare one."""
        given = self.generate(dict(ALONE, seed=2, typical_p=0.05), logprobs=20)
        for one in logprobs(given):
            if math.exp(one.top[0].logprob) > 0.95:
                self.assertEqual(one.chosen, one.top[0])
        self.assertNotEqual(given.tokens, self.generate(dict(ALONE, seed=2)).tokens)

    def test_values_in_effect(self):
        done = self.generate(WAYS[4], n=1).done
        for name, value in WAYS[4].items():
            told = getattr(done.sampling, name)
            if isinstance(value, list):
                self.assertEqual(list(told), value, name)
            else:
                self.assertAlmostEqual(told, value, 6, name)
        self.assertEqual((done.sampling.dry_base, done.sampling.dry_allowed_length), (1.75, 2))
        plain = self.generate(n=1).done.sampling
        for name in ("presence_penalty", "typical_p", "xtc_probability", "xtc_threshold", "dry_multiplier", "dry_window"):
            self.assertFalse(plain.HasField(name), name)
        told = self.generate(dict(temperature=0, dry_multiplier=1), n=1).done.sampling
        self.assertEqual(list(told.dry_breaker), ["\n", ":", '"', "*"])
        told = self.generate(dict(temperature=1, xtc_probability=1), n=1).done.sampling
        self.assertAlmostEqual(told.xtc_threshold, 0.1, 6)

    def test_refusals(self):
        connection = self.connect()
        for field, ways in (("presence_penalty", dict(presence_penalty=10.5)), ("typical_p", dict(typical_p=0)),
                            ("xtc_threshold", dict(xtc_threshold=0.6)), ("dry_base", dict(dry_base=0.5)),
                            ("logit_bias[1]", dict(logit_bias=[pb.LogitBias(token=1, bias=1), pb.LogitBias(token=1)])),
                            ("dry_breaker[0]", dict(dry_breaker=["x" * 33]))):
            error = self.assertRefused(pb.ERROR_CODE_INVALID_ARGUMENT, connection.generate, ask(ways))
            self.assertEqual(error.field, f"generate.sampling.{field}")
        error = self.assertRefused(pb.ERROR_CODE_INVALID_ARGUMENT, connection.generate,
                                   ask(dict(logit_bias=[pb.LogitBias(token=1 << 30, bias=1)])))
        self.assertIn(str(1 << 30), error.message)
        self.assertIn("logit_bias", error.message)

    # --- coordgenctl

    def ctl(self, *args, expect=0):
        run = subprocess.run([BIN / "coordgenctl", f"--socket={self.daemon.api}", *map(str, args)], capture_output=True,
                             text=True, timeout=60 * SLOW, stdin=subprocess.DEVNULL)
        self.assertEqual(run.returncode, expect, run.stderr)
        return run

    def test_ctl(self):
        words = ("generate", "--raw", TEXT, "-n4", "-t0", "--ignore-end")
        expected = self.generate(n=4, logprobs=2)
        table = self.ctl(*words, "--logprobs=2").stdout.splitlines()
        self.assertEqual([int(line.split()[0]) for line in table], expected.tokens)
        for line, one in zip(table, logprobs(expected)):
            self.assertEqual(float(line.split()[1]), round(one.chosen.logprob, 4))
            self.assertIn(json.dumps(one.top[1].piece.decode()), line)
        told = json.loads(self.ctl("--json=pretty", *words, "--logprobs=2").stdout)["logprobs"]
        lines = [json.loads(line) for line in self.ctl("--json=short", *words, "--logprobs=2").stdout.splitlines()]
        self.assertEqual([one for line in lines for one in line.get("logprobs", [])], told)
        for got, one in zip(told, logprobs(expected), strict=True):
            self.assertEqual((got["token"], bytes(got["bytes"])), (one.chosen.token, one.chosen.piece))
            self.assertEqual(got["logprob"], one.chosen.logprob)
            self.assertEqual([top["token"] for top in got["top"]], [top.token for top in one.top])
        sampling = json.loads(self.ctl(
            "-j", "--json=pretty", *words, "--presence-penalty=-1.5", "--frequency-penalty=0.25", "--typical-p=0.5",
            "--xtc-probability=0.5", "--xtc-threshold=0.25", "--dry-multiplier=1", "--dry-base=2", "--dry-allowed-length=4",
            "--dry-window=9", "--dry-breaker=;", "--dry-breaker=!", "--logit-bias=42=1.5", "--logit-bias=7=-inf",
        ).stdout)["sampling"]
        self.assertEqual({key: sampling[key] for key in (
            "presence_penalty", "frequency_penalty", "typical_p", "xtc_probability", "xtc_threshold", "dry_multiplier", "dry_base",
            "dry_allowed_length", "dry_window", "dry_breakers", "logit_bias")}, {
                "presence_penalty": -1.5, "frequency_penalty": 0.25, "typical_p": 0.5, "xtc_probability": 0.5,
                "xtc_threshold": 0.25, "dry_multiplier": 1, "dry_base": 2, "dry_allowed_length": 4, "dry_window": 9,
                "dry_breakers": [";", "!"], "logit_bias": {"42": 1.5, "7": None}})
        for word in ("--logit-bias=x=1", "--logit-bias=1", "--logit-bias=1=x", "--logprobs=21", "--typical-p=0"):
            self.assertIn(word.split("=")[0].lstrip("-").replace("-", "_").split("_")[0], self.ctl(*words, word, expect=2).stderr)
        self.assertIn("dry-multiplier 1", self.ctl(*words, "--dry-multiplier=1", "--timings").stderr)


if __name__ == "__main__":
    unittest.main()
