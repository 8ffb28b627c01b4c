# SPDX-License-Identifier: Apache-2.0
"""coordgen-train-exit as a user meets it: what it prints and writes, what it says of bad words and files, and that
help, man page and completion agree."""

import re
import subprocess
import tempfile
import unittest
from pathlib import Path

from completion import complete
from settings import BIN, CUT, MODEL, SLOW, TOP

N_LAYERS = 4 if CUT else 30
EXIT = N_LAYERS // 2 - 1  # not one of those from the middle on, which are measured together


def train(*args):
    return subprocess.run([BIN / "coordgen-train-exit", *map(str, args)], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=600 * SLOW)


class Training(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="coordgen-train-exit-")
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        self.output = self.folder / "model.exit"

    def test_figures_and_file(self):
        run = train(MODEL, "--draft", MODEL, "-o", self.output, "--windows=10", "--window=32", "--epochs=1",
                    f"--layer={EXIT}", "--answers=2")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(run.stderr, "")
        lines = run.stdout.splitlines()
        self.assertRegex(lines[0], r"^10 windows of 32 tokens, 2 held out; ")
        self.assertRegex(lines[2], rf"^ridge +{EXIT}( +[01]\.\d\d / [01]\.\d\d){{4}} +\d+\.\d\d \d+\.\d\d +-?\d+\.\d\d +-?\d\.\d{{3}}$")
        self.assertRegex(lines[3], rf"^refined +{EXIT} ")
        self.assertRegex(lines[4], rf"^in file +{EXIT} ")
        for name in ("specinfer", "opt-tree", "ours"):
            for way in ("draft and map", "no shadows", "no safeguards", "draft alone"):
                self.assertRegex(run.stdout, rf"(?m)^{name} +{way}( +\d+\.\d){{4}} +-\d+\.\d\d$")
            self.assertRegex(run.stdout, rf"(?m)^{name} +\d+\.\d( +-?\d+\.\d+){{7}}$")
        self.assertEqual(lines[-1], str(self.output))
        self.assertEqual(self.output.read_bytes()[:8], b"CGMEXIT\0")
        self.assertEqual([path.name for path in self.folder.iterdir()], ["model.exit"])

    def test_short_text(self):
        text = self.folder / "short.txt"
        text.write_text("A few words are not enough. " * 20)
        run = train(MODEL, "--draft", MODEL, "--text", text, "-o", self.output)
        self.assertEqual(run.returncode, 1)
        self.assertIn("short.txt", run.stderr)
        self.assertFalse(self.output.exists())

    def test_words(self):
        for words, expected in (((), "MODEL is missing"), ((MODEL,), "--draft is missing"),
                                ((MODEL, MODEL, "--draft", MODEL), "unexpected argument"),
                                ((MODEL, "--draft", MODEL, "--layer=0"), "--layer is a number from 1 on, not '0'"),
                                ((MODEL, "--draft", MODEL, "--answers=1"), "--answers is 0 or 2..1000, not '1'"),
                                ((MODEL, "--draft", MODEL, "--isa=mmx"), "--isa is best, scalar, avx2, avx512vnni"),
                                ((MODEL, "--draft", MODEL, "--say=200"), "--say is at most half of --window"),
                                ((MODEL, "--draft", MODEL, "--windows=9"), "--windows is 10..4096, not '9'")):
            with self.subTest(words=words):
                run = train(*words)
                self.assertEqual(run.returncode, 2)
                self.assertIn(expected, run.stderr)
        run = train(MODEL, "--draft", MODEL, f"--layer={N_LAYERS}", "-o", self.output)
        self.assertEqual(run.returncode, 1)
        self.assertIn(f"--layer {N_LAYERS}: the model has {N_LAYERS} layers, 1 to {N_LAYERS - 1} can be the exit", run.stderr)
        run = train(self.folder / "none.gguf", "--draft", MODEL)
        self.assertEqual(run.returncode, 1)
        self.assertIn("none.gguf", run.stderr)


class Help(unittest.TestCase):
    """What --help lists, the man page and the completion of bash have."""

    def setUp(self):
        self.options = re.findall(r"^  (?:(-\w), |    )(--[a-z-]+)(=[A-Z]\S*)?", train("--help").stdout, re.M)
        self.assertGreater(len(self.options), 10)

    def test_man_page(self):
        page = (TOP / "packaging/man/coordgen-train-exit.1").read_text().replace("\\-", "-").split(".SH OPTIONS")[1]
        self.assertEqual([names[1] for names in self.options if not re.search(rf"{names[1]}\b(?!-)", page)], [])

    def test_completion(self):
        self.assertEqual(sorted(complete("coordgen-train-exit", "-")),
                         sorted(name for names in self.options for name in names[:2] if name))
        self.assertEqual(complete("coordgen-train-exit", ""), ["<file>"])
        for _, option, value in self.options:
            with self.subTest(option=option):
                if value:
                    self.assertEqual(complete("coordgen-train-exit", option, ""), ["<file>"] if value == "=FILE" else [])


if __name__ == "__main__":
    unittest.main()
