# SPDX-License-Identifier: Apache-2.0
"""The npu device in the service: the answers of the cpu device on the same package, graphs within their memory, and what
is refused."""

import json
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import coordgen_pb2 as pb

from daemon import Daemon
from settings import BIN, MODEL, SANITIZED, whole_model
from wire import messages_of, prompt, talk

REQUESTS = (prompt("A ship wants to know how late it is, and a ledger wants to know", 24, ignore_end=True),
            prompt("The tide tables say", 24, ignore_end=True, sampling={"temperature": 0.9, "seed": 11}),
            prompt("One clock and two temperatures. " * 80, 8, ignore_end=True))
MIB = 1 << 20


class Npu(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="npu-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        text = cls.folder / "text"
        text.write_text("".join(f"Line {i} of a text that says little, {i * i} times.\n" for i in range(60)))
        cls.package = cls.folder / "mobile.cgm"
        subprocess.run([BIN / "coordgenctl", "model", "import", MODEL, "--profile", "mobile", "--calibration", text, "-q",
                        "-o", cls.package], check=True, stdout=subprocess.DEVNULL)
        cls.expected = cls.answers(cls.start(device="cpu"))

    @classmethod
    def start(cls, *flags, device="npu", **options):
        options = {"model": cls.package, "cache": cls.folder / "cache", **options}
        return Daemon("--threads=2", "--prefix-cache-max=0", f"--device={device}", *flags, **options)

    @classmethod
    def answers(cls, daemon):
        with daemon.connect() as app:
            tokens = [app.generate(request).tokens for request in REQUESTS]
            cls.status = app.status()
        daemon.stop()
        return tokens

    def graphs_bytes(self):
        return next(account for account in self.status.memory if account.name == "graphs").peak_bytes

    @whole_model
    def test_same_answers(self):
        self.assertEqual(self.answers(self.start()), self.expected)
        one_kind = self.graphs_bytes()
        self.assertEqual(len(list((self.folder / "cache" / "images").glob("*.weights"))), 1)
        self.assertEqual(self.answers(self.start("--graph-switch=none", "--graph-blocks=4", "--op-order=position", "--op-placement=npu")), self.expected)
        self.assertGreater(self.graphs_bytes(), one_kind * 16 // 10)
        self.assertEqual(self.answers(self.start("--graph-switch=sync", f"--graphs-memory={one_kind}", "--op-order=static",
                                                 "--op-placement=all")),
                         self.expected)

    def conversation(self, daemon, speculation):
        """Turns of a session, then one of a fork: what was said, and what it took. All that is known is the text before."""
        said, usages = [], []
        repeats = "The keeper wrote: ship, lamp, rope, sail, tide, wind. " * 6
        with daemon.connect() as app:
            session = app.open_session(messages=messages_of([("system", repeats)]))
            for turn, question in enumerate(("What did the keeper write?", "And then?", "Once more: ship, lamp,")):
                if turn == 2:
                    session = app.fork_session(session)
                answer = app.generate(talk([("user", question)], 32, session=session, speculation=speculation, ignore_end=True,
                                           sampling={"temperature": 0.7 * (turn == 1), "seed": 5}))
                said.append((answer.tokens, answer.text))
                usages.append(answer.done.usage)
        daemon.stop()
        return said, usages

    @whole_model
    def test_conversation_with_drafts(self):
        flags = ("--prefix-cache-max=64M", "--max-sessions-per-uid=4")
        expected, _ = self.conversation(self.start(*flags, device="cpu"), "off")
        n_drafted = 0
        for policy, speculation in (("progressive", "auto"), ("sync", "sam")):
            said, usages = self.conversation(self.start(*flags, f"--graph-switch={policy}"), speculation)
            self.assertEqual(said, expected, (policy, speculation))
            n_drafted += sum(usage.drafted_tokens for usage in usages)
            for before, usage in zip(usages, usages[1:]):
                self.assertGreaterEqual(usage.cached_tokens, before.prompt_tokens - 1)
        self.assertGreater(n_drafted, 0)

    def test_bench(self):
        run = subprocess.run([BIN / "coordgen-bench", "mobile", "-m", self.package, "-p", "300", "-n", "2", "-r", "1",
                              "--graph-blocks=4", "--timeline", self.folder / "t.csv", "--json=short"], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        results = json.loads(run.stdout)["results"]
        rows = {row["policy"]: row for row in results if row["test"] == "mobile"}
        self.assertEqual(list(rows), ["none", "sync", "async", "progressive", "progressive, free"])
        for name, row in rows.items():
            self.assertEqual((row["prompt_tokens"], row["output_tokens"], row["chunks"]), (300, 2, 2))
            self.assertGreater(row["total_ms"], row["prefill_ms"])
            self.assertLess(row["peak_bytes"] / row["shared_graph_bytes"], 2.5 if name == "none" else 1.3)  # both graphs, and buffers that overlap by chance
        self.assertGreater(rows["sync"]["prefill_stall_ms"] + rows["sync"]["decode_stall_ms"], 0)
        self.assertGreaterEqual(rows["sync"]["loads"], 8)  # four blocks there and back
        self.assertLessEqual(rows["none"]["loads"], 4)  # those of decoding, where the first request was over before
        self.assertIn("4 blocks", rows["progressive"]["why"])
        orders = [row for row in results if row["test"] == "mobile-order"]
        self.assertEqual([(row["order"], row["placement"]) for row in orders],
                         [(order, "npu") for order in ("in-order", "static", "out-of-order", "position", "position, stealing past 5",
                                                       "position, stealing")] +
                         [(order, "profile") for order in ("static", "position, stealing", "out-of-order")] +
                         [("out-of-order", "all")])
        for row in orders:
            self.assertTrue(row["placement"] == "profile" or not row["placed"], row)
            self.assertTrue("stealing" in row["order"] or not row["stolen"], row)
            self.assertTrue(row["placement"] == "profile" or (row["joint"] > 0) == (row["placement"] == "all"), row)
            self.assertEqual("predicted" in row["why"], row["placement"] == "profile", row)
            self.assertEqual(row["products"] + row["placed"] + row["stolen"], orders[0]["products"], row)
            self.assertTrue(0 <= row["npu_bubble"] < 1 and 0 <= row["cpu_bubble"] < 1, row)
            self.assertGreater(row["products"], 0)
            self.assertGreater(row["prefill_ms"], 0)
        lines = [line.split(",") for line in (self.folder / "t.csv").read_text().splitlines()]
        self.assertEqual([line[3] for line in lines if line[0] == "band"],
                         ["switching none", "switching sync", "switching async", "switching progressive", "switching progressive",
                          "order in-order", "order static", "order out-of-order", "order position"])
        self.assertEqual({line[1] for line in lines if line[0] == "span"}, {"NPU", "processors", "loads"})

    @whole_model
    def test_bench_table(self):
        """All rows of the papers' table on real requests: each there once, none of which could have come out otherwise."""
        data = self.folder / "data.jsonl"
        rows = [{"task": "names", "id": f"names-{i}", "prompt": "Write again: ship, lamp, rope, sail. " * (5 + i)} for i in range(2)]
        data.write_text("".join(json.dumps(row) + "\n" for row in rows + [{"task": "tide", "prompt": "When is the tide?"}]))
        command = [BIN / "coordgen-bench", "mobile", "-m", self.package, "--data", data, "-n", "8"]
        run = subprocess.run([*command, "-c", "2", "--json=short"], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        results = json.loads(run.stdout)["results"]
        self.assertEqual([row["row"] for row in results], 2 * ["cpu-vanilla", "cpu-sam", "npu-vanilla", "npu-sam", "npu-graph",
                                                               "npu-sam-graph", "ours"])
        for i, row in enumerate(results):
            self.assertEqual((row["test"], row["task"], row["identical"]), ("mobile-table", "names" if i < 7 else "tide", True))
            self.assertEqual((row["requests"], row["prompt_tokens"]), (results[i // 7 * 7]["requests"], results[i // 7 * 7]["prompt_tokens"]))
            self.assertGreater(row["prefill_ms_per_token"], 0)
            self.assertGreater(row["ms_per_token"], row["decode_ms_per_token"])
        self.assertEqual(results[0]["requests"], 2)
        self.assertTrue(any(row["tokens_per_step"] > 1 for row in results if row["row"].endswith("sam")))
        for options, word in ((["-p", "8"], "--prompt"), (["-r", "1"], "--repeat")):
            run = subprocess.run([*command, *options], capture_output=True, text=True)
            self.assertEqual(run.returncode, 2)
            self.assertIn(f"{word} is for prompts that are made up", run.stderr)
        run = subprocess.run([BIN / "coordgen-bench", "mobile", "-m", self.package, "-c", "2"], capture_output=True, text=True)
        self.assertEqual(run.returncode, 2)
        self.assertIn("--requests is for the requests of --data", run.stderr)

    def bench_within(self, budget):
        return subprocess.run([BIN / "coordgen-bench", "mobile", "-m", self.package, "-p", "40,600", "-n", "8", "-r", "2",
                               f"--memory={budget}", "--json=short"], capture_output=True, text=True)

    @whole_model
    @unittest.skipIf(SANITIZED, "a sanitizer's own memory is no part of a budget")
    def test_bench_within_memory(self):
        """A budget that is too small says which is not; within that one all accounts and the process stay."""
        run = self.bench_within("60M")
        self.assertEqual(run.returncode, 1)
        words = re.search(r"--memory is 62914560 bytes, and this takes (\d+), .*no memory for the graphs of the npu device", run.stderr)
        self.assertTrue(words, run.stderr)
        needed = int(words[1])
        self.assertLess(needed, 300 * MIB)
        run = self.bench_within(needed + MIB)  # what a process has before the model is not the same each time
        self.assertEqual(run.returncode, 0, run.stderr)
        row = json.loads(run.stdout)["results"][0]
        self.assertEqual((row["test"], row["requests"], row["prompt_tokens"]), ("mobile-memory", 4, 600))
        self.assertLessEqual(row["process_bytes"], needed + MIB)
        self.assertGreater(row["process_bytes"], row["peak_bytes"]["graphs"] + row["peak_bytes"]["weights"])
        self.assertLessEqual(max(row["peak_bytes"].values()), row["accounts_bytes"])
        for account in ("weights", "graphs", "kv", "draftdb", "activations"):
            self.assertGreater(row["peak_bytes"][account], 0)

    @whole_model
    @unittest.skipIf(SANITIZED, "a sanitizer's own memory is no part of a limit")
    def test_memory_limit(self):
        """memory-limit is that of the graphs too, in the service; where they do not fit it says what they take."""
        daemon = self.start("--memory-limit=280M", "--prefix-cache-max=64M")
        with daemon.connect() as app:
            for request in REQUESTS:
                app.generate(request)
            accounts = {account.name: account.peak_bytes for account in app.status().memory}
        status = Path(f"/proc/{daemon.process.pid}/status").read_text()
        daemon.stop()
        self.assertGreater(accounts["graphs"], 60 * MIB)
        self.assertLess(sum(accounts.values()), 280 * MIB)
        self.assertLess(int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024, 280 * MIB)
        daemon = self.start("--memory-limit=90M", wait=False)
        daemon.wait_notice("READY=1")
        daemon.wait_model(state=pb.MODEL_STATE_FAILED)
        with daemon.connect() as app:
            self.assertRegex(app.call(model_show=pb.ModelShowRequest()).model_show.model.detail,
                             r"no memory for the graphs of the npu device .*MiB\): memory-limit \(90\.0 MiB\) is reached")
        daemon.stop()

    def test_bench_cold(self):
        run = subprocess.run([BIN / "coordgen-bench", "mobile", "--cold", "-m", self.package, "-p", "40", "-r", "1",
                              "--flash-rate=2000", "--json=short"], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        rows = json.loads(run.stdout)["results"]
        self.assertEqual([row["test"] for row in rows], ["mobile-cold"] * 5)
        self.assertEqual([row["form"] for row in rows[:4]], ["materialised", "packed"] * 2)
        for row in rows:
            self.assertIn(row["form"], ("materialised", "packed"))
            self.assertGreater(row["first_token_ms"], row["read_ms"])
            self.assertGreater(row["read_bytes"], 0.7 * self.package.stat().st_size)
            self.assertEqual(row["expand_ms"] > 0, row["form"] == "packed")
            self.assertGreater(min(row["fill_ms"], row["compute_ms"], row["wait_ms"], row["prefill_ms"]), 0)
            self.assertLessEqual(row["compute_ms"], row["first_token_ms"])
        self.assertTrue(rows[4]["why"].startswith(rows[4]["form"]), rows[4]["why"])

    @whole_model
    def test_graph_files(self):
        images = self.folder / "packed-cache" / "images"
        daemon = self.start("--graph-files=packed", f"--cache-dir={images.parent}")
        self.assertEqual(self.answers(daemon), self.expected)
        self.assertEqual(list(images.glob("*.weights")), [])

    @whole_model
    def test_too_little_memory(self):
        daemon = self.start("--graphs-memory=20M", wait=False)
        daemon.wait_notice("READY=1")
        daemon.wait_model(state=pb.MODEL_STATE_FAILED)
        with daemon.connect() as app:
            self.assertIn("graphs-memory (20.0 MiB) is reached", app.call(model_show=pb.ModelShowRequest()).model_show.model.detail)
        daemon.stop()

    def test_other_package(self):
        """One that was imported for other devices is refused, with what to do."""
        native = self.folder / "native.cgm"
        subprocess.run([BIN / "coordgenctl", "model", "import", MODEL, "-q", "-o", native], check=True, stdout=subprocess.DEVNULL)
        daemon = self.start(model=native, wait=False)
        daemon.wait_notice("READY=1")
        daemon.wait_model(state=pb.MODEL_STATE_FAILED)
        with daemon.connect() as app:
            self.assertIn("--profile mobile", app.call(model_show=pb.ModelShowRequest()).model_show.model.detail)
        daemon.stop()


if __name__ == "__main__":
    unittest.main()
