"""coordgen-eval as a user meets it: reports, JSON, and what it says of files that are not as they should be."""

import json
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

from settings import BIN, MODEL, SLOW, TOP

CHOICES = TOP / "test" / "golden" / "choices"


def run_eval(*args):
    return subprocess.run([BIN / "coordgen-eval", *map(str, args)], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=300 * SLOW)


def report(*args):
    run = run_eval(*args, "--json=short", "--model", MODEL)
    if run.returncode:
        raise AssertionError(run.stderr)
    return json.loads(run.stdout)


class Choices(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="coordgen-eval-")
        self.addCleanup(scratch.cleanup)
        self.rows = Path(scratch.name) / "rows.jsonl"

    def refused(self, verb, text, *expected):
        self.rows.write_text(text)
        run = run_eval(verb, self.rows, "--model", MODEL)
        self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
        for part in expected:
            self.assertIn(part, run.stderr)

    def test_mcq(self):
        made = report("mcq", CHOICES / "own.mcq.jsonl")
        self.assertEqual(made["n_rows"], len(made["rows"]))
        self.assertEqual(made["n_right"], sum(row["right"] for row in made["rows"]))
        self.assertAlmostEqual(made["accuracy"], made["n_right"] / made["n_rows"])
        for row in made["rows"]:
            scale = row["bytes"] if row["normalised"] == "bytes" else [1] * len(row["bytes"])
            values = [value / by for value, by in zip(row["log_likelihood"], scale)]
            self.assertEqual(row["chosen"], values.index(max(values)))
        text = run_eval("mcq", CHOICES / "own.mcq.jsonl", "--model", MODEL, "--limit=4").stdout
        self.assertRegex(text, r"accuracy [0-9.]+ % \+- [0-9.]+ \(standard error\), \d of 4 rows \(cpu, int8_product__")

    def test_threads_and_chunks_change_nothing(self):
        made = report("mcq", CHOICES / "own.mcq.jsonl", "--threads=2")["rows"]
        self.assertEqual(report("mcq", CHOICES / "own.mcq.jsonl", "--threads=1", "--chunk=3")["rows"], made)

    def test_cloze(self):
        made = report("cloze", CHOICES / "own.cloze.jsonl")
        self.assertEqual(made["n_rows"], 5)
        self.assertEqual(made["n_right"], sum(row["right"] for row in made["rows"]))
        self.assertGreater(made["perplexity"], 1)
        one = report("cloze", CHOICES / "own.cloze.jsonl", "--limit=1")
        self.assertEqual(one["rows"], made["rows"][:1])
        self.assertIsNone(one["standard_error"])

    def test_devices_agree(self):
        int8 = report("mcq", CHOICES / "own.mcq.jsonl", "--limit=2")
        reference = report("mcq", CHOICES / "own.mcq.jsonl", "--limit=2", "--device=reference")
        for row, other in zip(int8["rows"], reference["rows"]):
            self.assertEqual(row["tokens"], other["tokens"])
            for a, b in zip(row["log_likelihood"], other["log_likelihood"]):
                self.assertLess(abs(a - b), 0.05 * abs(b))

    def test_bad_rows_are_named(self):
        good = '{"prompt": "a b", "reference": " c"}\n'
        self.refused("cloze", good + '{"prompt": "a b"}\n', f"{self.rows}:2:", "'reference'")
        self.refused("cloze", good + "\n{", f"{self.rows}:3:", "not a JSON object")
        self.refused("cloze", "", str(self.rows), "empty")
        self.refused("mcq", good, f"{self.rows}:1:", "'ctxs'")
        long = json.dumps({"prompt": " no" * 9000, "reference": " yes"})
        self.refused("cloze", good + long + "\n", f"{self.rows}:2:", "8192 positions")

    def test_usage(self):
        for words, expected in ((("mcq",), "mcq needs a file"), (("cloze", "x", "--limit=0"), "--limit"),
                                (("mcq", "x", "--normalise=tokens"), "tokens"), (("mcqs", "x"), "unknown verb")):
            run = run_eval(*words, "--model", MODEL)
            self.assertEqual(run.returncode, 2)
            self.assertIn(expected, run.stderr)
        missing = run_eval("mcq", self.rows, "--model", MODEL)
        self.assertEqual(missing.returncode, 1)
        self.assertIn(str(self.rows), missing.stderr)

    def test_every_option_is_in_the_man_page(self):
        page = (TOP / "packaging/man/coordgen-eval.1").read_text().replace("\\-", "-")
        options = set(re.findall(r"--[a-z-]+", run_eval("--help").stdout))
        self.assertGreater(len(options), 15)
        self.assertEqual([option for option in sorted(options) if option not in page], [])


if __name__ == "__main__":
    unittest.main()
