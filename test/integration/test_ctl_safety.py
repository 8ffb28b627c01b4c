# SPDX-License-Identifier: Apache-2.0
"""coordgenctl with hostile text, full disks and misspelt words; what editing a line in chat does."""

import json
import random
import re
import subprocess
import tempfile
import unittest

import test_ctl
from daemon import SANITIZER, DaemonCase
from settings import MODEL, SLOW, whole_model
from wire import prompt


def ctl(*words, socket, text="", timeout=120, **options):
    run = subprocess.run([test_ctl.CTL, f"--socket={socket}", *words], input=text if isinstance(text, bytes) else text.encode(),
                         timeout=timeout * SLOW, stderr=subprocess.PIPE, **{"stdout": subprocess.PIPE, **options})
    run.out, run.err = (run.stdout or b"").decode(), run.stderr.decode()
    if SANITIZER.search(run.err):
        raise AssertionError(run.err[-8000:])
    return run


class WithoutService(unittest.TestCase):
    SOCKET = "/nonexistent/api.sock"

    def test_hints(self):
        for words, hint in ((["genrate"], "'generate'"), (["generate", "--temprature=1"], "--temperature"),
                            (["model", "lst"], "'list'"), (["sattus"], "'status'")):
            with self.subTest(words):
                run = ctl(*words, socket=self.SOCKET)
                self.assertEqual(run.returncode, 2)
                self.assertIn(hint, run.err)

    def test_errors_as_json(self):
        run = ctl("-j", "status", socket=self.SOCKET)
        self.assertEqual(run.returncode, 69)
        shown = json.loads(run.out)
        self.assertEqual(shown["format"], 1)
        self.assertEqual(shown["error"]["code"], "unreachable")
        self.assertIn(self.SOCKET, shown["error"]["message"])

    def test_wait_ready_gives_up(self):
        self.assertEqual(ctl("wait-ready", "--timeout=0", socket=self.SOCKET).returncode, 69)

    @whole_model
    def test_show_file_as_json(self):
        for mode in ("short", "pretty"):
            shown = json.loads(ctl(f"--json={mode}", "model", "show", str(MODEL), socket=self.SOCKET).out)
            self.assertEqual(shown["format"], 1)
            self.assertGreater(len(shown["tensors"]), 100)
            used = [entry["name"] for entry in shown["use"] if (entry["kind"], entry["fate"]) == ("tensor", "used")]
            self.assertEqual(used, [tensor["name"] for tensor in shown["tensors"]])
            self.assertEqual([entry for entry in shown["use"] if entry["fate"] == "refused"], [])

    @whole_model
    def test_show_file_says_what_becomes_of_it(self):
        shown = ctl("model", "show", str(MODEL), socket=self.SOCKET).out
        self.assertRegex(shown, r"\nHere: the model can be used\n  used     \d+ keys, 272 tensors\n")
        self.assertIn("\n  used     architecture llama\n", shown)
        self.assertIn("\n  used     chat template\n", shown)

    def test_every_command_has_help_with_examples(self):
        verbs = re.findall(r"^  (model [a-z]+|[a-z-]+) ", ctl("--help", socket=self.SOCKET).out.split("Options of every")[0], re.M)
        self.assertGreaterEqual(len(verbs), 11)
        for verb in verbs:
            with self.subTest(verb):
                run = ctl(*verb.split(), "--help", socket=self.SOCKET)
                self.assertEqual(run.returncode, 0)
                self.assertIn("Examples\n", run.out)


class WithService(DaemonCase):
    def ctl(self, *words, text="", **options):
        return ctl(*words, socket=self.daemon.api, text=text, **options)

    def terminal(self, *words):
        return test_ctl.Terminal([test_ctl.CTL, f"--socket={self.daemon.api}", *words], {"LC_ALL": "C.UTF-8"})

    def test_whole_seed_goes_there_and_back(self):
        words = ["--json=pretty", "generate", "--raw", "--seed=18446744073709551615", "-t1", "-n8", "--ignore-end", "The sea"]
        first, second = (json.loads(self.ctl(*words).out) for _ in range(2))
        self.assertEqual(first["sampling"]["seed"], "18446744073709551615")
        self.assertEqual(first["text"], second["text"])

    def test_prompt_of_arguments_and_file(self):
        path = self.daemon.folder / "note.txt"
        path.write_text("A short note.")

        def count(*words, text=""):
            return int(self.ctl("tokenize", "--count", *words, text=text).out)

        self.assertEqual(count("Read this:", "--file", str(path)), count(text="Read this:\n\nA short note."))
        self.assertEqual(count("one", "two"), count("one two"))

    def test_refusals(self):
        for words, text, code, hint in ((["generate", "--top-p=2", "x"], "", 2, "top_p"),
                                        (["generate", "-t-1", "x"], "", 2, "--temperature=-1: a number from 0 on"),
                                        (["generate"], "a\0b", 1, "NUL"),
                                        (["generate"], b"\xff\xfe", 2, "UTF-8"),
                                        (["generate"], "", 1, "empty"),
                                        (["generate"], "x" * (5 << 20), 1, "longer"),
                                        (["generate", "--raw", "--system=s", "x"], "", 2, "--system"),
                                        (["generate", *["--stop=x"] * 9, "x"], "", 2, "--stop"),
                                        (["tokenize", "-d", "1,2,x"], "", 2, "token id"),
                                        (["chat", "--json=short"], "", 2, "--json")):
            with self.subTest(words):
                run = self.ctl(*words, text=text)
                self.assertEqual(run.returncode, code, run.err)
                self.assertIn(hint, run.err)

    def test_full_disk(self):
        for words in (["generate", "-n4", "x"], ["-j", "generate", "-n4", "x"], ["-j", "status"], ["status"], ["--help"]):
            with self.subTest(words), open("/dev/full", "wb") as full:
                run = self.ctl(*words, stdout=full)
                self.assertEqual(run.returncode, 1)
                self.assertIn("standard output", run.err)

    def test_failed_questions_decide_on_the_status(self):
        said = self.ctl("chat", "no-such-model", text="Hello\n/help\n")
        self.assertEqual(said.returncode, 1)
        self.assertEqual(said.err.count("no-such-model"), 1)
        for words, code in ((["--top-p=2"], 2), (["-n4"], 0)):
            self.assertEqual(self.ctl("chat", *words, text="Hello\n").returncode, code)

    def test_75_only_where_trying_again_helps(self):
        admin = self.connect(admin=True)
        name = admin.status().models[0].name
        holder = self.connect()
        generation = holder.start(prompt("Count: 1 2 3", 3000, ignore_end=True))
        self.daemon.wait_until(lambda status: status.requests_running == 1, "the request runs")
        run = self.ctl("--admin-socket", "model", "unload", name)
        self.assertEqual(run.returncode, 75, run.err)
        self.assertIn("try again", run.err)
        holder.close()
        del generation
        self.daemon.wait_idle()
        self.assertEqual(self.ctl("--admin-socket", "model", "unload", name).returncode, 0)
        for words in (["generate", "-n4", "x"], ["tokenize", "x"], ["chat", "-n4"]):
            run = self.ctl(*words, text="Hello\n")
            self.assertEqual(run.returncode, 1, run.err)
            self.assertIn("a request that names it loads it again", run.err)
        self.assertEqual(self.ctl("wait-ready", "--timeout=0").returncode, 75)
        self.assertEqual(self.ctl("--admin-socket", "model", "load", name).returncode, 0)

    def test_terminal_gets_no_control_characters(self):
        text = "a\x1b]0;b\x07c\x7f\u009b2Jd"
        ids = self.ctl("tokenize", "--ids", text=text).out.split()
        self.assertEqual(self.ctl("tokenize", "-d", *ids).out, text)  # a pipe gets every byte
        terminal = self.terminal("tokenize", "-d", *ids)
        terminal.read_until(r"a\]0;bc2Jd\r\n")
        self.assertEqual(terminal.wait(), 0)

    def test_the_last_line_of_an_answer_stays(self):
        terminal = self.terminal("generate", "--raw", "--ignore-end", "-t0", "-n6", "The sea is")
        said = terminal.read_until(r"output 6 tokens")
        self.assertEqual(terminal.wait(), 0)
        answer = said.rpartition("\x1b[K")[2]  # after the progress line
        self.assertRegex(answer, r"[a-z]{2,}.*\r\n\[")

    def questions(self, text):
        """How many tokens each prompt of a chat on a pipe had."""
        run = self.ctl("chat", "-t0", "-n1", "--timings", "--no-reuse", text=text)
        self.assertEqual(run.returncode, 0, run.err)
        return re.findall(r"prompt (\d+) tokens", run.err)

    def test_chat_on_a_pipe(self):
        one, two = self.questions("Hello\n"), self.questions("Hello\nAnd you?\n")
        self.assertEqual((len(one), len(two)), (1, 2))
        for text, expected in (("Hello", one), ("Hello\r\n", one), ("Hello\r", one), ("Hello\r\nAnd you?\r\n", two),
                               ("\ufeffHello\r\nAnd you?", two), ("Hello\\", one), ("Hello\\\n", one),
                               ("Hello\nAnd you?\\\r\n", two), ("\r\n", []), ("\ufeff", []), ("", [])):
            with self.subTest(text):
                self.assertEqual(self.questions(text), expected)
        self.assertEqual(self.questions("one\\\r\ntwo\r\n"), self.questions("one\\\ntwo"))
        run = self.ctl("chat", "-n1", text=b"Hello\nwith a \0 byte\n")
        self.assertEqual(run.returncode, 1)
        self.assertIn("line 2 holds a NUL byte at 7", run.err)

    def test_count_of_a_text_whose_tokens_do_not_fit(self):
        text = "".join(map(chr, random.Random(7).choices(range(0xac00, 0xd7a4), k=(1 << 20) // 3)))  # a byte a token
        run = self.ctl("tokenize", "--ids", text=text)
        self.assertEqual(run.returncode, 2, run.out[:100])
        self.assertIn("does not fit", run.err)
        count = int(self.ctl("tokenize", "--count", text=text).out)
        self.assertGreater(count, 500000)
        for short in ("", "--chat"):
            words = [word for word in (short,) if word]
            shown = json.loads(self.ctl("-j", "tokenize", *words, text="Hello, world").out)
            self.assertEqual(shown["count"], len(shown["tokens"]))
            self.assertEqual(int(self.ctl("tokenize", "--count", *words, text="Hello, world").out), shown["count"])
            shown.pop("tokens"), shown.pop("pieces")
            self.assertEqual(json.loads(self.ctl("-j", "tokenize", "--count", *words, text="Hello, world").out), shown)

    def test_byte_order_mark(self):
        plain, marked = (self.ctl("tokenize", "--ids", text=mark + "Hello\ufeff").out for mark in ("", "\ufeff"))
        self.assertEqual(plain, marked)
        with tempfile.NamedTemporaryFile() as file:
            file.write("\ufeffHello\ufeff".encode())
            file.flush()
            self.assertEqual(self.ctl("tokenize", "--ids", "--file", file.name).out, plain)

    def test_letters_in_a_locale_without_them(self):
        counts = []
        for locale in ("C.UTF-8", "C", "no_SUCH.ISO-8859-1"):
            terminal = test_ctl.Terminal([test_ctl.CTL, f"--socket={self.daemon.api}", "chat", "-n1"], {"LC_ALL": locale})
            terminal.read_until(r"(?m)^> $")
            terminal.write("Grüße, 世界!\r")
            terminal.read_until(r"Grüße, 世界!")
            counts.append(re.search(r"prompt (\d+) tokens", terminal.read_until(r"prompt \d+ tokens"))[1])
            terminal.read_until(r"(?m)^> $")  # what is typed while the line editor takes the terminal over is lost
            terminal.write("\x04")
            self.assertEqual(terminal.wait(), 0)
        self.assertEqual(counts, counts[:1] * 3)

    def test_lines_of_chat(self):
        terminal = self.terminal("chat", "-t0", "-n8")
        prompt = r"(?m)^> $"
        terminal.read_until(prompt)
        terminal.write("this line is dropped\x03")
        terminal.read_until(prompt)
        terminal.write("/rest\r")
        terminal.read_until(r"did you mean /reset\?")
        terminal.read_until(prompt)
        terminal.write("Grüße!\r")
        terminal.read_until(r"Grüße!")
        first = int(re.search(r"prompt (\d+) tokens", terminal.read_until(r"prompt \d+ tokens"))[1])
        terminal.read_until(prompt)
        terminal.write("\x1b[A\r")  # the line before, called back
        second = int(re.search(r"prompt (\d+) tokens", terminal.read_until(r"prompt \d+ tokens"))[1])
        self.assertGreater(second, first + 8)
        terminal.read_until(prompt)
        terminal.write("/reset\r")
        terminal.read_until(r"new conversation")
        terminal.read_until(prompt)
        terminal.write("Grüße!\r")
        self.assertEqual(int(re.search(r"prompt (\d+) tokens", terminal.read_until(r"prompt \d+ tokens"))[1]), first)
        terminal.read_until(prompt)
        terminal.write("\x04")
        self.assertEqual(terminal.wait(), 0)


if __name__ == "__main__":
    unittest.main()
