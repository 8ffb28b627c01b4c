# SPDX-License-Identifier: Apache-2.0
"""coordgen-eval as a user meets it: reports, JSON, and what it says of files that are not as they should be."""

import json
import math
import os
import re
import statistics
import struct
import subprocess
import tempfile
import unittest
from pathlib import Path

from completion import complete
from settings import BIN, MODEL, SLOW, TOP, whole_model

CHOICES = TOP / "test" / "golden" / "choices"


def run_eval(*args):
    return subprocess.run([BIN / "coordgen-eval", *map(str, args)], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=900 * SLOW)


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
        self.refused("cloze", good + '{"prompt": "a b ", "reference": ""}\n', f"{self.rows}:2:", "empty")
        long = json.dumps({"prompt": " no" * 9000, "reference": " yes"})
        self.refused("cloze", good + long + "\n", f"{self.rows}:2:", "8192 positions")

    def test_usage(self):
        for words, expected in ((("mcq",), "mcq needs a file"), (("cloze", "x", "--limit=0"), "--limit"),
                                (("mcq", "x", "--normalise=tokens"), "tokens"), (("mcqs", "x"), "unknown verb 'mcqs': did you mean 'mcq'?"), (("none", "x"), "unknown verb 'none'; see"),
                                *((("logits", "x", f"{option}={value}"), value) for value in ("nan", "0x1", "1e999", "-1", "")
                                  for option in ("--tolerance", "--greedy-margin"))):
            run = run_eval(*words, "--model", MODEL)
            self.assertEqual(run.returncode, 2)
            self.assertIn(expected, run.stderr)
        missing = run_eval("mcq", self.rows, "--model", MODEL)
        self.assertEqual(missing.returncode, 1)
        self.assertIn(str(self.rows), missing.stderr)


class Output(unittest.TestCase):
    """What was printed has arrived, or the exit code says that it has not."""

    def test_full(self):
        for words in (("--json=short",), ()):
            with open("/dev/full", "w") as full:
                run = subprocess.run([BIN / "coordgen-eval", "cloze", CHOICES / "own.cloze.jsonl", "--limit=1", "--model",
                                      MODEL, *words], stdout=full, stderr=subprocess.PIPE, text=True, timeout=900 * SLOW)
            self.assertEqual(run.returncode, 1)
            self.assertIn("standard output", run.stderr)

    def test_names_that_are_not_utf8(self):
        with tempfile.TemporaryDirectory(prefix="coordgen-eval-") as folder:
            model, rows = (os.path.join(os.fsencode(folder), name) for name in (b"m\xff.gguf", b"q\xff.jsonl"))
            os.symlink(MODEL, model)
            os.symlink(CHOICES / "own.cloze.jsonl", rows)
            for file, status in ((rows, 0), (rows + b"x", 1)):
                run = subprocess.run([BIN / "coordgen-eval", "cloze", file, "--limit=1", "--json=short", "--model", model],
                                     capture_output=True, timeout=900 * SLOW)
                made = json.loads(run.stdout)
                self.assertEqual((run.returncode, made["ok"]), (status, not status), run.stderr)
                self.assertIn("q\\xff.jsonl" if status else "q\ufffd.jsonl", made["error"] if status else made["file"])


class Matrix(unittest.TestCase):
    def test_recipe(self):
        """The cell after a restart is a process of its own, which knows no recipe."""
        made = report("matrix", "--recipe=int8:4", "--tokens=2", "--cells=after a restart")
        self.assertTrue(made["ok"], made)
        self.assertEqual(["alone", "after a restart"], [row["company"] for row in made["rows"]])

    def test_dump(self):
        """One run: greedy and seeded, a token and its logits each step; the same whatever computes it, and not those of
        the other prompt."""
        with tempfile.TemporaryDirectory(prefix="coordgen-eval-") as folder:
            dumped = []
            for words in (("--brief",), ("--brief", "--isa=scalar", "--threads=1", "--chunk=50"), ()):
                run = run_eval("matrix", "--model", MODEL, "--tokens=2", f"--dump={folder}/run", *words)
                self.assertEqual(run.returncode, 0, run.stderr)
                dumped.append(Path(f"{folder}/run").read_bytes())
            self.assertEqual(dumped[0], dumped[1])
            self.assertNotEqual(dumped[0], dumped[2])
            n_vocab = (len(dumped[0]) // 4 - 4) // 4
            self.assertEqual(len(dumped[0]), 2 * 2 * 4 * (1 + n_vocab))
            self.assertTrue(all(token < n_vocab for token in struct.unpack_from("2I", dumped[0])))
        for words, text in ((("--brief",), "--dump"), (("--brief", "--dump=/none/run"), "/none/run"),
                            (("--full", "--dump=/none/run"), "--full"), (("--cells=some",), "'some'"),
                            (("--cells=few", "--dump=/none/run"), "--cells")):
            run = run_eval("matrix", "--model", MODEL, "--tokens=2", *words)
            self.assertEqual(run.returncode, 1)
            self.assertIn(text, run.stderr)


class Divergence(unittest.TestCase):
    WHAT = ("divergence", "--file", TOP / "test/golden/text.txt", "--window=64", "--windows=3")

    def test_from_float(self):
        eight, four = (report(*self.WHAT, "--against", MODEL, "--recipe", recipe) for recipe in ("int8", "int8:4"))
        self.assertEqual(eight["rows"], 3 * 31)
        self.assertTrue(0 < eight["nats"] < 0.05 < four["nats"])
        self.assertTrue(0 < eight["nats_standard_error"] < eight["nats"])
        self.assertTrue(1 >= eight["same_top"] > four["same_top"] > 0)
        alone, reference = (report("perplexity", *self.WHAT[1:], device) for device in
                            ("--device=cpu", "--device=reference"))
        self.assertAlmostEqual(eight["perplexity"], alone["perplexity"], places=5)
        self.assertAlmostEqual(eight["against_perplexity"], reference["perplexity"], places=5)
        text = run_eval(*self.WHAT, "--against", MODEL, "--model", MODEL).stdout
        self.assertRegex(text, r"divergence 0\.\d+ \+- 0\.\d+ nats from .*gguf over 93 tokens of 3 windows")

    def test_from_itself(self):
        made = report(*self.WHAT, "--against", MODEL, "--device=reference")
        self.assertEqual((made["nats"], made["same_top"], made["loss_change"]), (0, 1, 0))

    def test_recipe_is_not_for_a_package(self):
        """A package may be what is compared with; as the model it is as it is."""
        with tempfile.TemporaryDirectory(prefix="coordgen-") as folder:
            package = f"{folder}/made.cgm"
            subprocess.run([BIN / "coordgenctl", "model", "import", MODEL, "--output", package], check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=600 * SLOW)
            self.assertGreater(report(*self.WHAT, "--against", package, "--recipe=int8:4")["nats"], 0)
            for option in ("--recipe=int8:4", f"--calibration={TOP}/README.md"):
                run = run_eval(*self.WHAT, "--against", package, "--model", package, option)
                self.assertEqual(run.returncode, 1)
                self.assertIn(f"{package} is a package", run.stderr)
                self.assertIn(option.split("=")[0], run.stderr)

    def test_refused(self):
        for words, expected in (((), "--against"), (("--against", "/none.gguf"), "/none.gguf"),
                                (("--against", MODEL, "--window=63"), "--window")):
            run = run_eval(*self.WHAT, *words, "--model", MODEL)
            self.assertEqual(run.returncode, 1)
            self.assertIn(expected, run.stderr)


@whole_model
class Golden(unittest.TestCase):
    """Perplexity beside golden values. Three windows do not tell a loss of 1 % from chance, and one of 2 % they do."""

    def compare(self, factor):
        """The exit code and the report against golden values of a model whose perplexity is `factor` times as high."""
        golden = json.loads((TOP / "test/golden/perplexity-text.json").read_text())["smollm2-135m"]
        golden["window_mean_nll"] = [mean + math.log(factor) for mean in golden["window_mean_nll"]]
        with tempfile.NamedTemporaryFile("w", suffix=".json") as expected:
            json.dump(golden, expected)
            expected.flush()
            run = run_eval("perplexity", "--file", TOP / "test/golden/text.txt", "--windows=3", "--expect",
                           expected.name, "--json=short", "--model", MODEL)
        return run.returncode, json.loads(run.stdout)

    def test_a_loss_fails(self):
        code, made = self.compare(1)
        self.assertEqual((code, made["ok"]), (0, True))
        differences = [mean - golden for mean, golden in zip(made["window_mean_nll"], json.loads(
            (TOP / "test/golden/perplexity-text.json").read_text())["smollm2-135m"]["window_mean_nll"])]
        self.assertAlmostEqual(made["deviation"], math.expm1(statistics.mean(differences)), places=6)
        self.assertAlmostEqual(made["limit"], 0.005 + 2 * statistics.stdev(differences) / 3 ** 0.5, places=6)
        code, made = self.compare(1 / 1.02)
        self.assertEqual((code, made["ok"]), (1, False))


class QuantTable(unittest.TestCase):
    """Two recipes on a short text and the own questions."""

    WHAT = ("--file", TOP / "test/golden/text.txt", "--window=64", "--windows=2", "--mcq", CHOICES / "own.mcq.jsonl",
            "--limit=3")

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="coordgen-table-")
        self.addCleanup(scratch.cleanup)
        self.work = Path(scratch.name)
        self.saved = self.work / f"{MODEL.stem}.quant-table.json"
        self.args = ("--model", MODEL, "--work-dir", self.work, "--rows=int8:5,int8:8:-rotation", *self.WHAT)

    def packages(self):
        return sorted(self.work.glob("*.cgm"))

    @staticmethod
    def over_float(row, stored):
        """By the perplexities that are stored; these measures come first."""
        perplexity, reference = (one["measures"][0]["perplexity"] for one in (row, stored["float"]))
        return perplexity / reference - 1

    def run_table(self, *args):
        run = run_eval("quant-table", *self.args, *args)
        self.assertEqual(run.returncode, 0, run.stderr)
        return run

    @whole_model
    def test_rows(self):
        plot = self.work / "plot.csv"
        run = self.run_table("--plot", plot)
        lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in run.stdout.splitlines()]
        self.assertEqual(lines[0], ["recipe", "bits", "package MB", "layers MB", "embeddings MB", "perplexity",
                                    "over float", "own.mcq %", "import s"])
        self.assertEqual([line[0] for line in lines[2:]], ["float", "int8:5", "int8:8:-rotation"])
        self.assertEqual({len(line) for line in lines}, {9})
        stored = {row["recipe"]: row for row in json.loads(self.saved.read_text())["rows"]}
        for line in lines[2:]:
            row = stored[line[0]]
            measured = {measure["settings"]["kind"]: measure for measure in row["measures"]}
            device = "--device=reference" if line[0] == "float" else "--device=cpu"
            alone = report("perplexity", *self.WHAT[:4], device, "--recipe", line[0] if line[0] != "float" else "int8")
            self.assertAlmostEqual(measured["perplexity"]["perplexity"], alone["perplexity"], places=4)
            self.assertEqual(line[5], f"{measured['perplexity']['perplexity']:.4f}")
            self.assertEqual(measured["mcq"]["n_rows"], 3)
            self.assertAlmostEqual(measured["mcq"]["accuracy"], measured["mcq"]["n_right"] / 3)
            self.assertEqual(line[7], "{:.1f} +- {:.1f}".format(*(100 * measured["mcq"][key] for key in
                                                                  ("accuracy", "standard_error"))))
            if line[0] == "float":
                self.assertEqual([line[1], line[2], line[3], line[4], line[6], line[8]], [""] * 6)
            else:
                package = self.work / row["package"]["file"]
                self.assertEqual(package.stat().st_size, row["package"]["bytes"])
                self.assertEqual(line[1], f"{row['package']['bits']:g}")
                self.assertEqual(line[2:5], [f"{row['package'][key] / 1e6:.1f}" for key in
                                             ("bytes", "layers_bytes", "embedding_bytes")])
                self.assertEqual(line[6], f"{100 * self.over_float(row, stored):+.2f} %")
                self.assertEqual(line[8], f"{row['package']['import_seconds']:.1f}")
                self.assertGreater(row["package"]["bytes"],
                                   row["package"]["layers_bytes"] + row["package"]["embedding_bytes"])
        self.assertLess(stored["int8:5"]["package"]["layers_bytes"],
                        0.65 * stored["int8:8:-rotation"]["package"]["layers_bytes"])
        numbers = plot.read_text()
        for expected in (f"title,{MODEL.name}", r"level,float,[\d.]+", r"point,int8:5,[\d.]+,[\d.]+",
                         r"point,int8:8:-rotation,[\d.]+,[\d.]+"):
            self.assertRegex(numbers, f"(?m)^{expected}$")
        self.run_table("--plot", plot, "--rows=int8:5,int8:8,int8:8:-rotation")
        numbers = plot.read_text()
        for expected in (r"int8,[\d.]+,[\d.]+,5", r"int8,[\d.]+,[\d.]+,8", r"int8:8:-rotation,[\d.]+,[\d.]+"):
            self.assertRegex(numbers, f"(?m)^point,{expected}$")  # rows that differ in their bits alone are one line
        made = json.loads(self.run_table("--json=short").stdout)["rows"]
        self.assertEqual([row["recipe"] for row in made], [line[0] for line in lines[2:]])
        for row in made:
            other = stored[row["recipe"]]
            self.assertAlmostEqual(row["over_float"], self.over_float(other, stored), places=7)
            for key in ("sha256", "bytes", "layers_bytes", "embedding_bytes", "bits"):
                self.assertEqual(row.get("package", {}).get(key), other.get("package", {}).get(key))
            for key in ("n_rows", "n_right", "accuracy", "standard_error"):
                self.assertAlmostEqual(row["measures"][1][key], other["measures"][1][key])

    def test_goes_on_after_what_is_done(self):
        process = subprocess.Popen([BIN / "coordgen-eval", "quant-table", *map(str, self.args)], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        with process.stdout:
            for line in process.stdout:
                if line.startswith("| int8:5"):
                    break
            process.kill()
        process.wait()
        before = json.loads(self.saved.read_text())
        self.packages()[0].unlink()  # of the row that is done
        made = json.loads(self.run_table("--json=short").stdout)
        self.assertEqual([row["recipe"] for row in made["rows"]], ["float", "int8:5", "int8:8:-rotation"])
        self.assertEqual([path.name for path in self.packages()], [made["rows"][2]["package"]["file"]])
        after = json.loads(self.saved.read_text())
        self.assertEqual(after["rows"][:2], before["rows"][:2])
        # All done: nothing is imported, and the same text comes out.
        again = self.run_table("--json=short")
        self.assertEqual(json.loads(again.stdout), made)
        self.assertEqual(again.stderr, "")
        # More questions: only those are asked, on packages that are made again, with the same bytes.
        more = json.loads(self.run_table("--json=short", "--limit=2").stdout)
        for row, other in zip(made["rows"], more["rows"]):
            self.assertEqual(row.get("package", {}).get("sha256"), other.get("package", {}).get("sha256"))
            self.assertEqual(row["measures"][0], other["measures"][0])
            self.assertEqual(other["measures"][1]["n_rows"], 2)

    def test_divergence(self):
        """From the reference's rows, which are computed once, as the verb divergence has it from the reference itself."""
        text = TOP / "test/golden/text.txt"
        made = json.loads(self.run_table("--divergence", text, "--json=short").stdout)["rows"]
        found, n_windows = [row["measures"][2] for row in made], 2
        self.assertEqual((found[0]["nats"], found[0]["same_top"], found[0]["n_rows"]), (0, 1, 31 * n_windows))
        for row, measure in zip(made[1:], found[1:]):
            exact = report("divergence", *self.WHAT[:4], "--against", MODEL, "--recipe", row["recipe"])
            self.assertTrue(0.9 * exact["nats"] < measure["nats"] < 1.0001 * exact["nats"])
            self.assertAlmostEqual(measure["same_top"], exact["same_top"])
            self.assertAlmostEqual(measure["loss_change"], exact["loss_change"], places=5)
            self.assertGreater(measure["worst_hundredth_nats"], measure["nats"])
        kept, = self.work.glob("*.reference")
        before = kept.stat().st_mtime_ns
        run = self.run_table("--divergence", text, "--rows=int8:5,int8:4")
        self.assertEqual(kept.stat().st_mtime_ns, before)
        self.assertIn("| text nats | worst 1 % | same top % | import s |", run.stdout)
        self.assertRegex(run.stdout, r"(?m)^\| int8:4 .* \| 0\.\d{5} \+- 0\.\d{5} \| \d\.\d{3} \| \d\d\.\d\d \+- \d+\.\d\d \| ")
        kept.write_bytes(kept.read_bytes()[:-1])  # a file that is not whole is made again
        self.run_table("--divergence", text, "--rows=int8:3")
        self.assertGreater(kept.stat().st_mtime_ns, before)

    def test_drop_packages(self):
        self.run_table("--drop-packages")
        self.assertEqual(self.packages(), [])

    def test_refuses(self):
        for words, code, expected in (
                (("--rows=int8,int7", ), 1, "no recipe is called 'int7'"),
                (("--rows=", ), 1, "no recipe is called ''"),
                (("--save", self.work / "none/x.json"), 1, "none/x.json"),
                (("--plot", self.work / "none/x.csv"), 1, "none/x.csv"),
                (("--mcq", self.work / "none.jsonl"), 1, "none.jsonl"),
                (("--divergence", self.work / "none.txt"), 1, "none.txt"),
                (("--divergence=a",) * 9, 2, "'a' is one too many"),
                (("--recipe=int8:99",), 2, "99 bits"),
                (("extra",), 2, "extra")):
            run = run_eval("quant-table", *self.args, *words)
            self.assertEqual(run.returncode, code, words)
            self.assertIn(expected, run.stderr)
            self.assertEqual(self.packages(), [])
        self.saved.unlink(missing_ok=True)
        questions, long = self.work / "bad.jsonl", {"answer": 0, "ctxs": [" no" * 9000] * 2, "conts": [" a", " b"]}
        good = (CHOICES / "own.mcq.jsonl").read_text().splitlines()[0]
        for row, expected in (('{"answer": 0}', "'ctxs'"), ("{", "not a JSON object"),
                              (json.dumps(long), "8192 positions")):
            questions.write_text(f"{good}\n{row}\n")
            run = run_eval("quant-table", *self.args, "--mcq", questions)
            self.assertEqual(run.returncode, 1)
            self.assertIn(f"{questions}:2:", run.stderr)
            self.assertIn(expected, run.stderr)
            self.assertFalse(self.saved.exists())  # nothing was begun
        run = run_eval("quant-table", "--model", MODEL)
        self.assertEqual(run.returncode, 1)
        self.assertIn("--work-dir is missing", run.stderr)
        self.saved.write_text('{"format": 1, "source": {"file": "other.gguf", "sha256": "0"}, "rows": []}')
        run = run_eval("quant-table", *self.args)
        self.assertEqual(run.returncode, 1)
        self.assertIn("other.gguf", run.stderr)


class Help(unittest.TestCase):
    """What --help lists, the man page and the completion of bash have."""

    def setUp(self):
        help_ = run_eval("--help").stdout
        self.verbs = re.findall(r"^  ([a-z-]+)", help_.split("\nVerbs\n")[1].split("\n\n")[0], re.M)
        # Of every option the names, and the name of its value, in brackets where it may be left out.
        self.options = re.findall(r"^  (?:(-\w), |    )(--[a-z-]+)(?:(=[A-Z]\S*)|(\[=[A-Z]+\]))?", help_, re.M)
        self.assertGreater(len(self.verbs), 5)
        self.assertGreater(len(self.options), 25)

    def complete(self, *words):
        return complete("coordgen-eval", *words)

    def test_every_option_is_in_the_man_page(self):
        page = (TOP / "packaging/man/coordgen-eval.1").read_text().replace("\\-", "-").split(".SH OPTIONS")[1]
        self.assertEqual([names[1] for names in self.options if not re.search(rf"{names[1]}\b(?!-)", page)], [])

    def test_completion_has_the_verbs(self):
        self.assertEqual(self.complete(""), self.verbs)
        for verb in self.verbs:
            with self.subTest(verb=verb):
                self.assertEqual(self.complete(verb, ""), [] if verb in ("quant-table", "matrix") else ["<file>"])

    def test_completion_has_the_options(self):
        offered = [word.rstrip("=") for word in self.complete("-")]
        self.assertEqual(sorted(offered), sorted(name for names in self.options for name in names[:2] if name))

    def test_completion_has_the_values(self):
        """Those of a list are the ones that the program names when it gets another."""
        listed = {option for option in self.complete("-") if option.endswith("=")}
        self.assertGreater(len(listed), 3)
        for _, option, value, _ in self.options:
            with self.subTest(option=option):
                if f"{option}=" in listed:
                    named = re.search(r" is (.*), not '\?'", run_eval(f"{option}=?").stderr)[1]
                    self.assertEqual(self.complete(f"{option}="), re.split(", | or ", named))
                elif value in ("=FILE", "=TEXT", "=FILE.json", "=FILE.csv", "=DIR"):
                    self.assertEqual(self.complete(option, ""), ["<file>"])
                elif value:  # not a file for what is none
                    self.assertEqual(self.complete(option, ""), [])


if __name__ == "__main__":
    unittest.main()
