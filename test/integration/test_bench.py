# SPDX-License-Identifier: Apache-2.0
"""coordgen-bench as a user meets it: that every verb runs on the real model and its figures fit together. Never how fast."""

import csv
import io
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from completion import complete
from settings import BIN, BUILD, MODEL, SLOW, TOP, whole_model

OTHER = MODEL.parent / "gemma3-270m.gguf"  # another vocabulary
VERBS = {
    "pp": (["-p", "3,40"], "tokens_per_s", 2),
    "tg": (["-p", "0,20", "-n", "3"], "tokens_per_s", 2),
    "ttft": (["-p", "16"], "ms", 2),
    "mixed": (["-p", "9", "-n", "2", "-c", "1,3"], None, 4),
    "latency": (["-p", "9", "-n", "3", "-b", "400"], "ms", 6),
}


HAS_MATPLOTLIB = not subprocess.run([TOP / "tools/plot", "--help"], capture_output=True, stdin=subprocess.DEVNULL).returncode

# Packages of its own: a cold start drops the file's pages, which it cannot while a daemon beside it is loading the same.
CACHE = tempfile.TemporaryDirectory()


def run_bench(*args):
    return subprocess.run([BIN / "coordgen-bench", *map(str, args)], env=dict(os.environ, XDG_CACHE_HOME=CACHE.name),
                          capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=600 * SLOW)


class Help(unittest.TestCase):
    """What --help lists, the man page and the completion of bash have."""

    def setUp(self):
        help_ = run_bench("--help").stdout
        self.verbs = re.findall(r"^  ([a-z-]+)", help_.split("\nVerbs\n")[1].split("\n\n")[0], re.M)
        self.options = re.findall(r"^  (?:(-\w), |    )(--[a-z-]+)(?:(=[A-Z]\S*)|(\[=[A-Z]+\]))?", help_, re.M)
        self.assertGreater(len(self.verbs), 7)
        self.assertGreater(len(self.options), 35)

    def test_man_page(self):
        page = (TOP / "packaging/man/coordgen-bench.1").read_text().replace("\\-", "-")
        options = page.split(".SH OPTIONS")[1]
        self.assertEqual([names[1] for names in self.options if not re.search(rf"{names[1]}\b(?!-)", options)], [])
        verbs = page.split(".SH VERBS")[1].split(".SH OPTIONS")[0]
        self.assertEqual(re.findall(r"^\.TP\n\.B ([a-z]+)$", verbs, re.M), self.verbs)

    def test_completion(self):
        self.assertEqual(complete("coordgen-bench", ""), self.verbs)
        offered = [word.rstrip("=") for word in complete("coordgen-bench", "-")]
        self.assertEqual(sorted(offered), sorted(name for names in self.options for name in names[:2] if name))
        for _, option, value, _ in self.options:
            with self.subTest(option=option):
                if option not in ("--isa", "--graph-files") and value:
                    self.assertEqual(complete("coordgen-bench", option, ""), ["<file>"] if value.startswith("=FILE") else [])
        self.assertEqual(complete("coordgen-bench", "--graph-files="), ["auto", "packed", "materialised"])
        isa = complete("coordgen-bench", "--isa=")
        self.assertIn(", ".join(isa[:-1]) + " or " + isa[-1], run_bench("pp", "-m", "x", "--isa=?").stderr)


class Bench(unittest.TestCase):
    def report(self, *args):
        run = run_bench(*args, "--json=short")
        self.assertEqual(run.returncode, 0, run.stderr)
        return json.loads(run.stdout)

    def test_verbs(self):
        for verb, (args, unit, n) in VERBS.items():
            with self.subTest(verb=verb):
                repeats = 1 if verb in ("pp", "tg", "mixed") else 2  # every repetition has its own floor there
                report = self.report(verb, "--model", MODEL, "-r", str(repeats), *args)
                self.assertEqual(report["machine"]["threads"], report["results"][0]["threads"])
                self.assertEqual(len(report["results"]), n)
                for result in report["results"]:
                    value = result[unit or ("ms" if "first token" in result["name"] else "tokens_per_s")]
                    self.assertEqual(result["test"], verb)
                    self.assertEqual(result["repeats"], repeats)
                    self.assertTrue(0 < result["least"] <= value <= result["most"], result)
                    if "floor" not in result:  # a kernel without a loop for its peak has none
                        continue
                    share = result["floor"] / value if "ms" in result else value / result["floor"]
                    self.assertAlmostEqual(result["of_floor"], share, places=3)

    def test_floor_needs_no_model(self):
        results = self.report("floor", "-t", "1")["results"]
        self.assertEqual([result["gbytes_per_s"] > 0 for result in results if result["name"] == "memory, reading"], [True])

    def test_floor_of_the_disk(self):
        """With a file to read; without one it is said that there is none."""
        run = run_bench("floor", "-t", "1", "--json=short")
        self.assertIn("--model names the file", run.stderr)
        self.assertNotIn("disk, O_DIRECT", run.stdout)
        disk = [result for result in self.report("floor", "-t", "1", "--model", MODEL)["results"]
                if result["name"] == "disk, O_DIRECT"]
        self.assertEqual(len(disk), 1)
        self.assertTrue(0 < disk[0]["least"] <= disk[0]["gbytes_per_s"] <= disk[0]["most"], disk)
        run = run_bench("floor", "-t", "1", "--model", "/nonexistent.gguf")
        self.assertEqual(run.returncode, 1)
        self.assertIn("/nonexistent.gguf", run.stderr)
        report = self.report("ttft", "--model", MODEL, "-p", "3", "-r", "1")
        self.assertGreater(report["machine"]["disk_gbytes_per_s"], 0)

    def test_forms_agree(self):
        args = ("pp", "--model", MODEL, "-p", "2,3", "-r", "1", "--threads=1", "--isa=scalar")
        rows = list(csv.DictReader(io.StringIO(run_bench(*args, "--csv").stdout)))
        self.assertEqual([(row["test"], row["rows"], row["threads"], row["unit"]) for row in rows],
                         [("pp", "2", "1", "tokens/s"), ("pp", "3", "1", "tokens/s")])
        machine = self.report(*args)["machine"]["name"]
        self.assertEqual([row["machine"] for row in rows], [machine, machine])
        table = run_bench(*args, "--markdown").stdout.splitlines()
        self.assertTrue(table[0].startswith(machine))
        self.assertIn("int8_product__scalar", table[0])
        aligned = run_bench(*args).stdout.splitlines()
        self.assertRegex(aligned[2], "^test +tokens +after +threads +median +least +most +unit")
        self.assertEqual({line.index("tokens/s") for line in aligned[3:]}, {aligned[2].index("unit")}, aligned)
        self.assertEqual([line.split("|")[2].strip() for line in table[4:]], ["2", "3"])

    def events(self, path):
        """Spans of a trace, each with the name of its lane."""
        events = json.loads(path.read_text())["traceEvents"]
        lanes = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
        return [dict(event, lane=lanes[event["tid"]]) for event in events if event["ph"] == "X"]

    def traced(self, *args):
        with tempfile.TemporaryDirectory(prefix="coordgen-bench-") as folder:
            path = Path(folder) / "trace.json"
            report = self.report(*args, "--model", MODEL, "--trace", path)
            return report["results"], self.events(path)

    def test_trace_of_chunks(self):
        """Four chunks, of which the last one alone has a row whose logits are wanted."""
        _, events = self.traced("pp", "-p", "50", "-r", "1", "--chunk", "16")
        head, embedding = ([event["args"]["rows"] for event in events if event["name"] == name]
                           for name in ("output.weight", "token_embd.weight"))
        self.assertEqual(head, [1])
        self.assertEqual(embedding, [16, 16, 16, 2])

    def test_trace_of_first_token(self):
        """The last turns of both states, from the beginning of the load on: reads, the tokenizer, and steps that begin
        while weights arrive."""
        _, events = self.traced("ttft", "-p", "9", "-r", "2")
        measured = [event for event in events if event["lane"] == "measured"]
        self.assertEqual([event["name"] for event in measured], ["page cache dropped", "file in the page cache"])
        for state in measured:
            inside = [event for event in events if state["ts"] <= event["ts"] <= state["ts"] + state["dur"]]
            self.assertEqual({event["lane"] for event in inside if event["name"] == "tokenizer"}, {"tokenizer"})
            self.assertEqual(sum(event["name"] == "output.weight" for event in inside), 1)
            self.assertTrue({"arrival", "load", "ffn_down.weight"} <= {event["name"] for event in inside})
        cold, warm = [{event["name"] for event in events if state["ts"] <= event["ts"] <= state["ts"] + state["dur"]}
                      for state in measured]
        self.assertTrue({"read", "lay out"} <= cold, cold)
        self.assertIn("copy and lay out", warm)
        reads = [event for event in events if event["name"] == "read"]
        self.assertTrue(all(re.fullmatch("read [1-8]", event["lane"]) for event in reads))

    def test_trace_of_mixed(self):
        _, events = self.traced("mixed", "-p", "9", "-n", "2", "-c", "1,3", "-r", "2")
        self.assertEqual([event["args"]["rows"] for event in events if event["name"] == "requests at once"], [1, 3])
        heads = [event["args"]["rows"] for event in events if event["name"] == "output.weight"]
        self.assertEqual(sum(heads), (1 + 3) * 2)

    def test_trace_of_latency(self):
        """Its longest operator is the longest of all that the background prompt consists of, not a mean of layers."""
        results, events = self.traced("latency", "-p", "9", "-n", "3", "-b", "400", "-r", "1")
        self.assertEqual([event["name"] for event in events if event["lane"] == "measured"],
                         ["background prompt", "first token, alone", "first token, behind a step",
                          "first token, preempting", "next token, alone", "next token, alone", "next token, beside",
                          "next token, beside"])
        prompt = next(event for event in events if event["name"] == "background prompt")
        longest_us = max(event["dur"] for event in events if re.fullmatch(r"engine|worker \d+", event["lane"]) and
                         prompt["ts"] <= event["ts"] <= prompt["ts"] + prompt["dur"])
        result = next(result for result in results if result["name"] == "longest operator of 400")
        self.assertAlmostEqual(result["ms"] * 1000 / longest_us, 1, places=3)

    def test_trace(self):
        with tempfile.TemporaryDirectory(prefix="coordgen-bench-") as folder:
            path = Path(folder) / "trace.json"
            run = run_bench("tg", "--model", MODEL, "-n", "3", "-r", "2", "--operators", "--trace", path)
            self.assertEqual(run.returncode, 0, run.stderr)
            events = self.events(path)
            self.assertEqual(sum(event["name"] == "output.weight" for event in events), 3)  # the last turn alone
            ends = [event["ts"] + event["dur"] for event in events]
            self.assertTrue(all(end <= event["ts"] + 0.01 for end, event in zip(ends, events[1:])))
            self.assertRegex(run.stderr, r"ffn_down.weight +\d+ times")
            run = run_bench("tg", "--model", MODEL, "-n", "1", "-r", "1", "--trace", Path(folder) / "absent" / "trace.json")
            self.assertEqual(run.returncode, 1)
            self.assertIn("absent", run.stderr)

    def test_parts_of_a_first_token(self):
        """Of every state; together they are all of its time."""
        run = run_bench("ttft", "--model", MODEL, "-p", "32", "-r", "1", "--image", "--operators", "--json=short")
        self.assertEqual(run.returncode, 0, run.stderr)
        results = json.loads(run.stdout)["results"]
        parts = re.findall(r"(?m)^ttft, (.*): (\d+) ms: begin ([-\d.]+) %, wait for reads ([-\d.]+) %, lay out ([-\d.]+) %, "
                           r"compute ([-\d.]+) %$", run.stderr)
        self.assertEqual([part[0] for part in parts], [result["name"] for result in results])
        for (name, ms, *shares), result in zip(parts, results):
            shares = [float(share) for share in shares]
            self.assertAlmostEqual(int(ms), result["ms"], delta=0.6)
            self.assertAlmostEqual(sum(shares), 100, delta=0.3)
            self.assertTrue(all(share >= 0 for share in shares), name)
            self.assertEqual(shares[2] > 0, "image" not in name)  # an image is as it is in memory

    def test_latency_outlasts_the_background(self):
        """Nine steps share 16 rows each with background prompts of 20."""
        results = self.report("latency", "--model", MODEL, "-p", "4", "-n", "10", "-b", "20", "-r", "1")["results"]
        self.assertEqual([result["repeats"] for result in results if result["name"].startswith("next token")], [9, 9])

    def test_pipeline_is_a_switch(self):
        """Rows of the layers' products: a group's, or the whole chunk's."""
        for option, rows in ((["--group-rows=64"], {64}), (["--group-rows=100"], {128}), (["--no-pipeline"], {256})):
            with self.subTest(option=option), tempfile.TemporaryDirectory(prefix="coordgen-") as folder:
                run = run_bench("pp", "--model", MODEL, "-p", "256", "-r", "1", "-t", "2", "--trace", f"{folder}/t", *option)
                self.assertEqual(run.returncode, 0, run.stderr)
                with open(f"{folder}/t") as file:
                    events = json.load(file)["traceEvents"]
                self.assertEqual({event["args"]["rows"] for event in events
                                  if event.get("cat") == "product" and "layer" in event["args"]}, rows)

    def requests(self, *rows):
        """A file of requests; the folder goes with the test."""
        folder = tempfile.TemporaryDirectory(prefix="coordgen-bench-")
        self.addCleanup(folder.cleanup)
        path = Path(folder.name) / "requests.jsonl"
        path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
        return path

    ECHO = "Say it again, word for word: the ferry leaves at nine, the ferry returns at noon, the ferry leaves at nine."

    def test_spec(self):
        """Every mode beside plain decoding on the first rows of each task; the same answers, or it would have failed."""
        data = self.requests({"task": "echo", "id": "e1", "prompt": self.ECHO}, {"task": "hello", "prompt": "Hello!"},
                             {"task": "echo", "id": "e2", "prompt": self.ECHO + " Thank you."},
                             {"task": "echo", "id": "e3", "prompt": "This one is one too many."})
        plot = data.with_suffix(".csv")
        report = self.report("spec", "--model", MODEL, "--data", data, "--requests", "2", "-n", "40", "--plot", plot)
        results = report["results"]
        modes = ["plain", "pld", "sam", "calibration", "table", "reuse", "history", "auto"]
        self.assertEqual([(result["task"], result["mode"]) for result in results],
                         [(task, mode) for task in ("echo", "hello") for mode in modes])
        for result in results:
            with self.subTest(task=result["task"], mode=result["mode"]):
                self.assertIs(result["identical"], True)
                self.assertEqual(result["test"], "spec")
                self.assertEqual(result["requests"], 2 if result["task"] == "echo" else 1)
                self.assertEqual(result["tokens"], results[0 if result["task"] == "echo" else len(modes)]["tokens"])
                self.assertTrue(1 <= result["accept_length"] <= result["rows_per_step"] + 1e-6, result)
                self.assertTrue(result["tokens_per_s"] > 0 and result["ratio_to_plain"] > 0 and result["end_to_end_ratio"] > 0)
                self.assertAlmostEqual(result["valid_share"] + result["wasted_share"] + result["idle_share"], 1, places=4)
        for plain in (result for result in results if result["mode"] == "plain"):
            self.assertEqual((plain["accept_length"], plain["ratio_to_plain"], plain["end_to_end_ratio"], plain["sources"],
                              plain["draft_bytes"]), (1, 1, 1, {}, 0))
        lookup = next(result for result in results if (result["task"], result["mode"]) == ("echo", "pld"))
        self.assertGreater(lookup["accept_length"], 1)  # the prompt asks for its own words
        self.assertGreater(lookup["draft_bytes"], 0)
        self.assertEqual(list(lookup["sources"]), ["lookup"])
        numbers = plot.read_text()
        self.assertRegex(numbers, r"(?m)^level,plain,1$")
        self.assertEqual(len(re.findall(r"(?m)^bar,auto,(?:echo|hello),[\d.]+$", numbers)), 2)

    def test_spec_history(self):
        """The same request again: what was answered before is drafted, by the modes that have a history and within the task."""
        said = {"task": "a", "prompt": "Tell me about the sea in five sentences."}
        data = self.requests(said, dict(said, task="b"), said)
        results = self.report("spec", "--model", MODEL, "--data", data, "-n", "48", "--modes", "sam,history", "--always",
                              "--chains")["results"]
        accepted = {(result["task"], result["mode"]): result["sources"].get("history", {}).get("accepted", 0)
                    for result in results}
        self.assertGreater(accepted["a", "history"], 20)
        self.assertEqual({key: n for key, n in accepted.items() if n}, {("a", "history"): accepted["a", "history"]})
        sizes = {(result["task"], result["mode"]): result["draft_bytes"] for result in results}
        self.assertGreater(sizes["a", "history"], sizes["b", "history"])

    def test_spec_settings(self):
        data = self.requests({"task": "echo", "prompt": self.ECHO})
        args = ("spec", "--model", MODEL, "--data", data, "--modes", "pld", "-n", "20", "--rows", "3")
        report = self.report(*args, "--temperature=0.7", "--seed=5")
        self.assertEqual([result["mode"] for result in report["results"]], ["plain", "pld"])
        self.assertLessEqual(report["results"][1]["rows_per_step"], 3)
        with tempfile.TemporaryDirectory(prefix="coordgen-bench-") as folder:
            path = Path(folder) / "trace.json"
            run = run_bench(*args, "--csv", "--operators", "--trace", path)
            steps = [event["args"]["rows"] for event in self.events(path) if event["name"] == "token_embd.weight"]
        rows = list(csv.DictReader(io.StringIO(run.stdout)))
        self.assertEqual([(row["task"], row["mode"]) for row in rows], [("echo", "plain"), ("echo", "pld")])
        self.assertIn("ffn_down.weight", run.stderr)
        self.assertEqual(max(steps[1:]), 3, "of the mode with drafts, not of plain decoding")
        table = run_bench(*args, "--markdown").stdout.splitlines()
        self.assertEqual([line.split("|")[2].strip() for line in table[4:]], ["plain", "pld"])

    def test_spec_refusals(self):
        good = {"task": "t", "prompt": "Hello"}
        for row, text in (({"task": "t"}, "requests.jsonl:2: 'prompt' is missing"),
                          ({"prompt": "Hello"}, "requests.jsonl:2: 'task' is missing"), ("[1]", "requests.jsonl:2: not a JSON")):
            with self.subTest(row=row):
                run = run_bench("spec", "-m", MODEL, "--data", self.requests(good, row))
                self.assertEqual(run.returncode, 1)
                self.assertIn(text, run.stderr)
        run = run_bench("spec", "-m", MODEL, "--data", self.requests(good), "-n", "100000")
        self.assertEqual(run.returncode, 1)
        self.assertIn("no row that leaves room for 100000 tokens", run.stderr)
        long = {"task": "t", "prompt": "water " * 9000}
        run = run_bench("spec", "-m", MODEL, "--data", self.requests(good, long), "-n", "2", "--modes=plain", "--json=short")
        self.assertIn("1 rows are left out", run.stderr)
        self.assertEqual([result["requests"] for result in json.loads(run.stdout)["results"]], [1])

    def test_flash(self):
        """A model as the draft of itself, by budgets and rates: the same answers everywhere, or it would have failed."""
        data = self.requests({"task": "echo", "id": "e1", "prompt": self.ECHO}, {"task": "hello", "prompt": "Hello!"},
                             {"task": "echo", "prompt": "This one is one too many."})
        plot = data.with_suffix(".csv")
        args = ("flash", "--model", MODEL, "--draft", MODEL, "--data", data, "-n", "12", "--budgets", "0,100")
        report = self.report(*args, "--rates", "2000")
        policies = ["flash-ar", "chain-sd", "edgellm", "specinfer", "opt-tree", "lever", "ours", "auto", "retrieval"]
        cells = [(0, 2000), (100, 0)]
        self.assertEqual([(result["budget"], result["rate"], result["task"], result["policy"]) for result in report["results"]],
                         [(*cell, task, policy) for cell in cells for task in ("echo", "hello") for policy in policies])
        tokens = {}
        for result in report["results"]:
            with self.subTest(**{key: result[key] for key in ("budget", "rate", "task", "policy")}):
                self.assertIs(result["identical"], True)
                self.assertEqual((result["test"], result["requests"]), ("flash", 1))
                self.assertEqual(result["tokens"], tokens.setdefault(result["task"], result["tokens"]))
                self.assertTrue(1 <= result["accept_length"] <= result["rows_per_step"] + 1e-6, result)
                self.assertTrue(result["tokens_per_s"] > 0 and result["ratio_to_flash_ar"] > 0)
                self.assertTrue(0 <= result["draft_share"] <= 1 and result["verification_share"] > 0, result)
                self.assertEqual(result["streamed_layers"] > 0, result["budget"] == 0)
                self.assertEqual("read_mb_per_token" in result, result["budget"] == 0)
                self.assertEqual("read_mb_per_s" in result, result["budget"] == 0)
                if result["policy"] == "flash-ar":
                    self.assertEqual((result["accept_length"], result["ratio_to_flash_ar"], result["draft_share"]), (1, 1, 0))
                if result["policy"] in ("chain-sd", "edgellm"):  # itself: nothing that it drafts first is wrong
                    self.assertGreater(result["accept_length"], 2)
        self.assertEqual([(mean["budget"], mean["rate"], mean["policy"]) for mean in report["means"]],
                         [(*cell, policy) for cell in cells for policy in policies])
        self.assertEqual(report["models"]["target"], report["models"]["draft"])
        self.assertEqual([path.suffix for path in Path(CACHE.name).glob("coordgen/models/images/*")], [".weights"])
        rates = args[:-3] + ("4", "--budgets", "0", "--rates", "2000,0", "--policies", "ours")
        rows = list(csv.DictReader(io.StringIO(run_bench(*rates, "--csv", "--plot", plot).stdout)))
        self.assertEqual([(row["rate"], row["task"], row["policy"]) for row in rows],
                         [(rate, task, policy) for rate in ("2000", "0") for task in ("echo", "hello")
                          for policy in ("flash-ar", "ours")])
        self.assertIn("\nx,MB/s of the flash,log\n", plot.read_text())
        self.assertEqual(len(re.findall(r"(?m)^point,ours,[\d.]+,[\d.]+$", plot.read_text())), 2)
        table = run_bench(*rates, "--markdown").stdout
        self.assertIn("flash of 2000 MB/s:\n\n| workload | 0% |\n", table)
        self.assertIn("\n| ours / echo | ", table)

    def test_flash_plain_tokens(self):
        """Plain decoding of four tokens: the others' twelve are compared with an answer from memory, and so are those four."""
        data = self.requests({"task": "echo", "prompt": self.ECHO}, {"task": "hello", "prompt": "Hello!"})
        plot = data.with_suffix(".csv")
        report = self.report("flash", "--model", MODEL, "--draft", MODEL, "--data", data, "-n", "12", "--budgets", "0,50",
                             "--rates", "2000", "--policies", "ours", "--plain-tokens", "4", "--plot", plot)
        self.assertEqual([(result["policy"], result["tokens"]) for result in report["results"] if result["task"] == "echo"],
                         2 * [("flash-ar", 4), ("ours", 12)])
        self.assertIn("\nx,% of the layers in memory\n", plot.read_text())  # at one rate
        for result in report["results"]:
            self.assertIs(result["identical"], True)
            if result["policy"] == "flash-ar":
                self.assertEqual((result["accept_length"], result["ratio_to_flash_ar"]), (1, 1))
                speed = result["tokens_per_s"]
            else:
                self.assertAlmostEqual(result["ratio_to_flash_ar"], result["tokens_per_s"] / speed, delta=1e-3)

    def test_flash_self(self):
        """Without a draft model: of a target that has half of its layers in memory those draft."""
        data = self.requests({"task": "echo", "prompt": self.ECHO})
        report = self.report("flash", "--model", MODEL, "--draft=self", "--data", data, "-n", "12", "--budgets", "50",
                             "--rates", "2000", "--policies", "chain-sd,ours")
        self.assertEqual(report["models"]["draft"], "its own layers in memory")
        shares = {result["policy"]: result["draft_share"] for result in report["results"]}
        self.assertEqual(shares["flash-ar"], 0)
        self.assertGreater(shares["chain-sd"], 0)

    def test_flash_refusals(self):
        data = self.requests({"task": "t", "prompt": "Hello"})
        run = run_bench("flash", "-m", MODEL, "--draft", "/nonexistent.gguf", "-d", data)
        self.assertEqual(run.returncode, 1)
        self.assertIn("/nonexistent.gguf", run.stderr)

    @whole_model
    @unittest.skipUnless(OTHER.exists(), f"{OTHER} is not there: tools/fetch-model gemma3-270m")
    def test_flash_other_tokens(self):
        data = self.requests({"task": "t", "prompt": "Hello"})
        run = run_bench("flash", "-m", MODEL, "--draft", OTHER, "-d", data, "--budgets", "0", "--rates", "0")
        self.assertEqual(run.returncode, 1)
        self.assertRegex(run.stderr, "cannot draft for .*: token 0 is ")

    def test_full_output(self):
        for form in ("--json=short", "--csv", "--json=off"):
            with open("/dev/full", "w") as full:
                run = subprocess.run([BIN / "coordgen-bench", "floor", "-t", "1", form], stdout=full,
                                     stderr=subprocess.PIPE, text=True, timeout=600 * SLOW)
            self.assertEqual(run.returncode, 1)
            self.assertIn("standard output", run.stderr)

    def test_wrong_usage(self):
        for args, text in (([], "a verb is missing"), (["fast"], "unknown verb 'fast'"), (["mixd"], "did you mean 'mixed'?"),
                           (["pp"], "--model is missing"),
                           (["pp", "-m", "x", "-p", "1,,2"], "'1,,2'"), (["pp", "-m", "x", "-p", "0"], "'0'"),
                           (["mixed", "-m", "x", "-c", "65"], "'65'"), (["tg", "-m", "x", "-n", "-1"], "'-1'"),
                           (["pp", "-m", "x", "-r", "0"], "'0'"), (["pp", "--json=yes", "-m", "x"], "'yes'"),
                           (["pp", "-m", "x", "--group-rows=0"], "'0'"),
                           (["pp", "-m", "x", "--json", "--csv"], "choose one"), (["spec", "-m", "x"], "--data is missing"),
                           (["spec", "-m", "x", "-d", "y", "--modes", "pld,fast"], "no mode 'fast'"),
                           (["spec", "-m", "x", "-d", "y", "--rows", "65"], "'65'"),
                           (["spec", "-m", "x", "-d", "y", "--requests", "1,2"], "'1,2'"),
                           (["spec", "-m", "x", "-d", "y", "--temperature=-1"], "'-1'"),
                           (["spec", "-m", "x", "-d", "y", "--always", "--controlled"], "choose one"),
                           (["flash", "-m", "x", "-d", "y"], "--draft is missing"),
                           (["flash", "-m", "x", "--draft", "y"], "--data is missing"),
                           (["flash", "-m", "x", "--draft", "y", "-d", "z", "--budgets", "0,101"], "'0,101'"),
                           (["flash", "-m", "x", "--draft", "y", "-d", "z", "--rates", "250;0"], "'250;0'"),
                           (["flash", "-m", "x", "--draft", "y", "-d", "z", "--policies", "our"], "no policy 'our'"),
                           (["flash", "-m", "x", "--draft", "y", "-d", "z", "--plain-tokens", "1"], "'1'"),
                           (["flash", "-m", "x", "--draft", "y", "-d", "z", "--requests", "0"], "'0'")):
            with self.subTest(args=args):
                run = run_bench(*args)
                self.assertEqual(run.returncode, 2)
                self.assertIn(text, run.stderr)

    def test_options_of_other_verbs(self):
        """A figure that was not measured as asked is worse than none."""
        for args, option in ((["floor", "-p", "5"], "--prompt"), (["floor", "--isa", "scalar"], "--isa"),
                             (["floor", "--trace", "t"], "--trace"), (["floor", "--no-pipeline"], "--no-pipeline"),
                             (["floor", "--chunk", "8"], "--chunk"),
                             (["floor", "--group-rows", "64"], "--group-rows"), (["floor", "--recipe", "int8"], "--recipe"),
                             (["floor", "-r", "2"], "--repeat"), (["tg", "-c", "3"], "--requests"),
                             (["tg", "-b", "5"], "--background"), (["pp", "-n", "3"], "--output"),
                             (["spec", "-p", "5"], "--prompt"), (["pp", "--data", "x"], "--data"), (["tg", "--always"], "--always"),
                             (["spec", "--draft", "y"], "--draft"), (["flash", "--modes", "sam"], "--modes"),
                             (["flash", "--weights-memory", "0%"], "--weights-memory"), (["flash", "-r", "2"], "--repeat"),
                             (["mixed", "--image"], "--image"), (["latency", "--operators"], "--operators")):
            with self.subTest(args=args):
                run = run_bench(*args, "-m", "x")
                self.assertEqual(run.returncode, 2)
                self.assertRegex(run.stderr, f"{option} is for .*, not for '{args[0]}'")

    def test_floor_is_always_there(self):
        run = run_bench("pp", "--model", MODEL, "-p", "5", "-r", "1", "--csv")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("floor", next(csv.DictReader(io.StringIO(run.stdout))))

    def test_refusals(self):
        for args, text in ((["pp", "-m", "/nonexistent.gguf"], "/nonexistent.gguf: No such file"),
                           (["pp", "-m", MODEL, "-p", "1000000"], "a context of"),
                           (["mixed", "-m", MODEL, "-p", "8190", "-n", "10"], "10 tokens after 8190"),
                           (["latency", "-m", MODEL, "-p", "8190", "-n", "10"], "10 tokens after 8190"),
                           (["latency", "-m", MODEL, "-b", "8192"], "1 tokens after 8192"),
                           (["ttft", "-m", TOP / "README.md"], "README.md")):
            with self.subTest(args=args):
                run = run_bench(*args)
                self.assertEqual(run.returncode, 1)
                self.assertIn(text, run.stderr)

    def test_manual_has_all_options(self):
        page = (TOP / "packaging/man/coordgen-bench.1").read_text().replace("\\-", "-").split(".SH OPTIONS")[1]
        for option in re.findall(r"(--[a-z-]+)", run_bench("--help").stdout):
            self.assertIn(option, page)


STUB = """#!/bin/sh
echo "$@" >>"$(dirname "$0")/calls"
case "$1 $*" in
"$FAILS"*) echo 'it fails' >&2; exit 1 ;;
mixed*) results='{"test":"mixed","name":"2 at once, all","rows":9,"depth":0,"tokens_per_s":5,"least":5,"most":5}' ;;
*) results='{"test":"'$1'","rows":9,"depth":0,"tokens_per_s":7,"least":6,"most":8,"floor":14,"of_floor":0.5}' ;;
esac
echo '{"machine":{"name":"a machine","threads":1,"date":"2026-01-02"},"results":['"$results"']}'
"""


class BenchLlama(unittest.TestCase):
    """tools/bench-llama, with programs that only say what they were asked."""

    def test_ratio(self):
        folder = Path(tempfile.mkdtemp(prefix="coordgen-bench-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        (folder / "bin").mkdir()
        for path, text in (("bin/coordgen-bench", '{"machine":{"name":"a machine"},"results":[{"tokens_per_s":30}]}'),
                           ("llama-bench", '[{"avg_ts":20,"model_type":"tiny Q8_0"}]')):
            (folder / path).write_text(f"#!/bin/sh\necho \"$*\" >>{folder}/calls\necho '{text}'\n")
            (folder / path).chmod(0o755)
        command = [TOP / "tools/bench-llama", "--build", folder, "--llama", folder, "--model", "x.gguf", "--repeat", "2",
                   "--threads", "3", "--prompt", "50", "--output", "7"]
        run = subprocess.run(command, capture_output=True, text=True, timeout=60 * SLOW)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("a machine, 3 threads, x.gguf (tiny Q8_0; int8)", run.stdout)
        self.assertRegex(run.stdout, r"prefill of 50 +coordgen +30\.0 +30\.0 \.\. 30\.0 +1\.50")
        self.assertRegex(run.stdout, r"decode of 7 +llama\.cpp +20\.0 +20\.0 \.\. 20\.0\n")
        calls = (folder / "calls").read_text().splitlines()
        self.assertEqual([call.split()[0] for call in calls[2:]], 2 * ["--model", "pp"] + 2 * ["--model", "tg"])
        self.assertTrue(all("--threads 3" in call for call in calls))
        (folder / "llama-bench").write_text("#!/bin/sh\necho broken >&2; exit 3\n")
        run = subprocess.run(command, capture_output=True, text=True, timeout=60 * SLOW)
        self.assertEqual(run.returncode, 1)
        self.assertIn("exit code 3: broken", run.stderr)


class BenchModels(unittest.TestCase):
    """tools/bench-models, with a coordgen-bench that only says that it was called, and once with the real one."""

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="coordgen-bench-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        (self.folder / "bin").mkdir()
        stub = self.folder / "bin/coordgen-bench"
        stub.write_text(STUB)
        stub.chmod(0o755)
        (self.folder / "coordgen/fetched").mkdir(parents=True)
        (self.folder / "coordgen/fetched/gemma3-270m.gguf").touch()

    def run_tool(self, *args, fails="none"):
        environment = dict(os.environ, XDG_CACHE_HOME=str(self.folder), FAILS=fails)
        return subprocess.run([TOP / "tools/bench-models", "--build", self.folder, *map(str, args)], env=environment,
                              capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60 * SLOW)

    def verbs_in(self, run, model="gemma3"):
        rows = [line.split() for line in run.stdout.splitlines() if line.startswith(model)]
        return [row[2].rstrip(",") for row in rows]

    def test_unknown_model(self):
        run = self.run_tool("--models", "gemma3-270m,nosuch")
        self.assertEqual(run.returncode, 2)
        self.assertRegex(run.stderr, "'nosuch' is not known; known are smollm2-135m, .*qwen2.5-coder-1.5b")
        self.assertFalse((self.folder / "bin/calls").exists())
        for args in (["--models", ""], ["--repeat", "x"]):
            self.assertEqual(self.run_tool(*args).returncode, 2, args)

    def test_not_fetched(self):
        run = self.run_tool("--models", "smollm2-135m,gemma3-270m", "--bits", "8")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(self.verbs_in(run), ["pp", "pp", "tg", "ttft", "mixed", "latency"])
        self.assertIn("Not fetched, left out: smollm2-135m", run.stdout)
        run = self.run_tool("--models", "smollm2-135m")
        self.assertEqual(run.returncode, 1)
        self.assertIn("nothing was measured", run.stderr)

    def test_a_verb_that_fails(self):
        """The others keep their rows, before it and after it."""
        for verb in ("pp", "ttft", "latency"):
            run = self.run_tool("--models", "gemma3-270m", "--bits", "8,4", fails=verb)
            self.assertEqual(run.returncode, 1)
            self.assertIn(f"bench-models: {verb} of gemma3-270m failed", run.stderr)
            self.assertEqual(self.verbs_in(run),
                             [name for name in ("pp", "pp", "tg", "pp", "tg", "ttft", "mixed", "latency") if name != verb])
            self.assertTrue(run.stdout.startswith("a machine, 1 threads"))

    @unittest.skipUnless(HAS_MATPLOTLIB, "plots need python3-matplotlib: tools/install-deps --plot")
    def test_plots(self):
        run = self.run_tool("--models", "gemma3-270m", "--plot-dir", self.folder / "plots")
        self.assertEqual(run.returncode, 0, run.stderr)
        for name in ("prefill", "requests"):
            csv = (self.folder / f"plots/{name}.csv").read_text()
            self.assertRegex(csv, r"(?m)^point,gemma3-270m,\d+,\d+\.\d$")
            drawn = (self.folder / f"plots/{name}.svg").read_text()
            self.assertIn(">gemma3-270m<", drawn)

    @unittest.skipUnless(HAS_MATPLOTLIB, "plots need python3-matplotlib: tools/install-deps --plot")
    def test_plots_of_the_documents(self):
        """They are what their numbers give, so that neither is changed without the other. Coordinates are the library's."""
        found = sorted((TOP / "docs").rglob("*.csv"))
        self.assertTrue(found)
        copies = [self.folder / f"{i}.csv" for i in range(len(found))]
        for csv, copy in zip(found, copies):
            shutil.copy(csv, copy)
        subprocess.run([TOP / "tools/plot", *copies], check=True, stdin=subprocess.DEVNULL)
        for csv, copy in zip(found, copies):
            again, before = (re.findall(r"(?s)<text[^>]*>(.*?)</text>|<use [^>]*()/>", path.read_text())
                             for path in (copy.with_suffix(".svg"), csv.with_suffix(".svg")))
            self.assertEqual(again, before, csv.name)

    def plot(self, text, **env):
        numbers = self.folder / "numbers.csv"
        numbers.write_text(text)
        return subprocess.run([TOP / "tools/plot", numbers], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              env=os.environ | env)

    def test_plot_without_matplotlib(self):
        """The error names the package."""
        (self.folder / "matplotlib.py").write_text("raise ImportError\n")
        run = self.plot("point,a,1,2\n", PYTHONPATH=str(self.folder))
        self.assertEqual(run.returncode, 1)
        self.assertEqual(run.stderr, "plot: matplotlib is missing: install the Debian package python3-matplotlib "
                                     "(tools/install-deps --plot)\n")

    @unittest.skipUnless(HAS_MATPLOTLIB, "plots need python3-matplotlib: tools/install-deps --plot")
    def test_plot_refuses(self):
        for text, expected in (("line,a,1,2\n", ":1: not one of title,TEXT"), ("\npoint,a,1\n", ":2: not one of"),
                               ("point,a,1,x\n", ":1: could not convert"), ("point,a,1,nan\n", "'nan' is no finite number"),
                               ("x,t,log\npoint,a,0,1\n", "above 0"), ("x,t,lin\n", ":1: not one of"),
                               ("bar,a,g,-1\n", "0 or more"), ("bar,a,g,1\nbar,a,g,2\n", "one bar in each group"),
                               ("bar,a,g,1\npoint,a,1,2\n", "choose one"), ("band,1,0,b\npoint,a,1,2\n", "choose one"),
                               ("span,l,products,0,1\n", "the band before it"),
                               ("band,1,0,b\nspan,l,naps,0,1\n", "'naps' is no kind of span")):
            with self.subTest(text=text):
                run = self.plot(text)
                self.assertEqual(run.returncode, 1)
                self.assertIn(expected, run.stderr)
                self.assertEqual(list(self.folder.glob("*.svg")), [])

    def test_make_bench(self):
        """Floors come first, kernels are among what runs, and plots go where PLOTS says."""
        env = {name: value for name, value in os.environ.items() if name != "COORDGEN_DATA"}
        run = subprocess.run(["make", "-n", "bench", "PLOTS=some/folder", "MODEL=x.gguf"], cwd=TOP, capture_output=True,
                             text=True, timeout=60 * SLOW, env=env)
        self.assertEqual(run.returncode, 0, run.stderr)
        floor, kernels, models, service, layouts = (run.stdout.rindex(word) for word in (
            'bin/coordgen-bench floor --model "x.gguf"', "bin/bench-kernels", "tools/bench-models --build",
            "tools/bench-service --build", "bin/bench-layouts --csv"))
        self.assertTrue(floor < kernels < models < service < layouts)
        self.assertIn("--plot-dir 'some/folder'", run.stdout[models:service])
        self.assertNotIn("bench-spec", run.stdout)
        run = subprocess.run(["make", "-n", "bench", "COORDGEN_DATA=some/data", "MODELS=a,b"], cwd=TOP, capture_output=True,
                             text=True, timeout=60 * SLOW)
        self.assertRegex(run.stdout, "tools/bench-spec --build .* --data 'some/data' --models 'a,b'")

    @whole_model
    def test_the_real_one(self):
        if MODEL.name != "smollm2-135m.gguf" or MODEL.parent.name != "fetched":
            self.skipTest("the model is not the fetched smollm2-135m")
        run = subprocess.run([TOP / "tools/bench-models", "--build", BUILD, "--models", "smollm2-135m", "--bits", "8",
                              "--prompts", "9", "--depths", "20", "--requests", "2", "--background", "100",
                              "--repeat", "1"],
                             capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=600 * SLOW)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(self.verbs_in(run, "smollm2"), ["pp", "pp", "tg", "tg"] + 4 * ["ttft"] + 2 * ["mixed"] + 6 * ["latency"])


class BenchService(unittest.TestCase):
    def test_computes_what_it_counts(self):
        """The same prompt again and again: if any of it came from the service's memory of the one before, it would fail."""
        run = subprocess.run([TOP / "tools/bench-service", "--build", BUILD, "--model", MODEL, "--prompt", "200,8", "--repeat", "3"],
                             capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=600 * SLOW)
        self.assertEqual(run.returncode, 0, run.stderr)
        head, *rows = (line.split(",") for line in run.stdout.splitlines())
        rows = [dict(zip(head, row)) for row in rows]
        self.assertEqual([row["output_tokens"] for row in rows], ["64", "64"])
        self.assertGreaterEqual(int(rows[0]["prompt_tokens"]), 200)
        for row in rows:
            self.assertGreater(float(row["prefill_tokens_per_s"]), 0)
            self.assertGreater(float(row["decode_tokens_per_s"]), 0)


DAEMON_STUB = """#!/bin/sh
exec sleep 100
"""
# Answers in time, and with another text where speculation is on and the request is the second one.
CTL_STUB = """#!/bin/sh
[ "$1" = generate ] || exit 0
text=$(cat)
case "$COORDGEN_SOCKET $text" in
*/1/api.sock*two*) text=other ;;
esac
echo '{"text": "'"$text"'", "usage": {"output_tokens": 3}}'
"""


class BenchSpec(unittest.TestCase):
    """tools/bench-spec on requests of our own."""

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="coordgen-bench-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def run_tool(self, build, *prompts, more=()):
        rows = [{"task": "t", "id": f"row-{i}", "prompt": prompt} for i, prompt in enumerate(prompts)]
        (self.folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return subprocess.run([TOP / "tools/bench-spec", "--build", build, "--data", self.folder, "--files", "rows.jsonl",
                               "--models", MODEL, "--json", self.folder / "results.json", *more],
                              capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=600 * SLOW)

    def test_both_parts(self):
        """A setting that is plain in both would not be told apart by the texts: the second daemon must have drafted."""
        prompt = "Say it again, word for word: the ferry leaves at nine, the ferry returns at noon, the ferry leaves."
        run = self.run_tool(BUILD, prompt, prompt + " Thank you.", "one too many",
                            more=("--output", "24", "--requests", "2", *(("--plot-dir", self.folder / "plots") if HAS_MATPLOTLIB else ())))
        self.assertEqual(run.returncode, 0, run.stderr)
        results = json.loads((self.folder / "results.json").read_text())["results"]
        self.assertEqual([result["test"] for result in results], 8 * ["spec"] + ["socket"])
        self.assertEqual({result["requests"] for result in results}, {2})
        socket = results[-1]
        self.assertAlmostEqual(socket["end_to_end_ratio"], socket["off_s"] / socket["on_s"])
        self.assertLessEqual(socket["lowest_ratio"], socket["end_to_end_ratio"])
        self.assertIs(socket["identical"], True)
        self.assertEqual(socket["tokens"], results[0]["tokens"])
        self.assertGreater(socket["drafted_tokens"], 0)
        self.assertEqual((self.folder / "plots" / f"speculation-{MODEL.stem}.svg").exists(), HAS_MATPLOTLIB)

    def stubs(self):
        (self.folder / "bin").mkdir()
        for name, text in (("coordgend", DAEMON_STUB), ("coordgenctl", CTL_STUB)):
            (self.folder / "bin" / name).write_text(text)
            (self.folder / "bin" / name).chmod(0o755)

    def test_another_answer_fails(self):
        self.stubs()
        run = self.run_tool(self.folder, "one", "two", more=("--part", "socket"))
        self.assertEqual(run.returncode, 1)
        self.assertIn("task 't', request 'row-1': the answer with speculation is another one", run.stderr)
        run = self.run_tool(self.folder, "one", "one", more=("--part", "socket"))
        self.assertEqual(run.returncode, 0, run.stderr)

    def test_wrong_usage(self):
        run = self.run_tool(BUILD, "one", more=("--files", "rows.jsonl,nosuch.jsonl"))
        self.assertEqual(run.returncode, 2)
        self.assertIn("nosuch.jsonl", run.stderr)


if __name__ == "__main__":
    unittest.main()
