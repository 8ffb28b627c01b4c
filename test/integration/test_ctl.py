# SPDX-License-Identifier: Apache-2.0
"""coordgenctl as a user and as a script meet it: output, exit codes, Ctrl-C, chat on a terminal."""

import fcntl
import hashlib
import json
import os
import pty
import re
import select
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

import coordgen_pb2 as pb

from completion import complete
from daemon import SANITIZER, Daemon, DaemonCase
from settings import BIN, BUILD, MODEL, SLOW, TOP
from wire import messages_of, prompt

CTL = str(BIN / "coordgenctl")
HAS_LIBEDIT = not (BUILD / "obj/client/ctl/ctl_edit_none.o").exists()
PROMPT = r"(?m)^> $"
PASTES_ON, PASTES_OFF, PASTE = "\x1b[?2004h", "\x1b[?2004l", "\x1b[200~{}\x1b[201~"


class Terminal:
    """A program on a pseudo-terminal."""

    def __init__(self, command, env):
        env = {**os.environ, **env, "TERM": "xterm"}
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):  # a shell's & and nohup ignore them
                    signal.signal(number, signal.SIG_DFL)
                os.execve(command[0], command, env)
            finally:
                os._exit(127)  # never on into the tests
        self.text = ""
        self.seen = ""  # all of it

    def read_until(self, pattern, timeout=30):
        """What came up to and with the pattern; it is taken away."""
        deadline = time.monotonic() + timeout * SLOW
        while True:
            if match := re.search(pattern, self.text, re.S):
                before, self.text = self.text[:match.end()], self.text[match.end():]
                return before
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.fd], [], [], left)[0]:
                raise AssertionError(f"no {pattern!r} on the terminal within {timeout * SLOW:g} s:\n{self.text!r}")
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                data = b""
            if not data:
                raise AssertionError(f"the program ended without {pattern!r}:\n{self.text!r}")
            self.text += data.decode(errors="replace")
            self.seen += data.decode(errors="replace")

    def write(self, text):
        os.write(self.fd, text.encode())

    def wait(self, timeout=20):
        deadline = time.monotonic() + timeout * SLOW
        while time.monotonic() < deadline:
            # What it writes must be read, or it never ends.
            if select.select([self.fd], [], [], 0.05)[0]:
                try:
                    data = os.read(self.fd, 65536).decode(errors="replace")
                except OSError:
                    data = ""
                self.text += data
                self.seen += data
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self.fd)
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        raise AssertionError(f"the program does not end:\n{self.text!r}")


class Ctl(DaemonCase):
    def environment(self, **more):
        return dict(os.environ, COORDGEN_SOCKET=str(self.daemon.api), NO_COLOR="1", **more)

    def ctl(self, *args, expect=0, stdin=None):
        run = subprocess.run([CTL, *map(str, args)], env=self.environment(), capture_output=True, text=True,
                             timeout=120 * SLOW, **({"input": stdin} if stdin is not None else {"stdin": subprocess.DEVNULL}))
        self.assertFalse(SANITIZER.search(run.stderr), run.stderr)
        self.assertEqual(run.returncode, expect, f"{args}: {run.stdout}{run.stderr}")
        if expect:
            self.assertTrue(run.stderr.strip() or run.stdout.strip(), "a failure without a word")
        return run

    # --- generate

    def test_sources_of_the_prompt(self):
        text = "Once upon a time there was a"
        expected = self.connect().generate(prompt(text, 8)).text.decode()
        self.assertEqual(self.ctl("generate", "--raw", "-t", 0, "-n", 8, text).stdout.rstrip("\n"), expected)
        self.assertEqual(self.ctl("generate", "--raw", "-t", 0, "-n", 8, stdin=text).stdout.rstrip("\n"), expected)
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(text)
            file.flush()
            self.assertEqual(self.ctl("generate", "--raw", "-t", 0, "-n", 8, "--file", file.name).stdout.rstrip("\n"), expected)

    def test_json_is_the_stream(self):
        run = self.ctl("generate", "--raw", "-n", 8, "--ignore-end", "--json=short", "Once upon a time")
        rows = [json.loads(line) for line in run.stdout.splitlines()]
        deltas, end = [row for row in rows if row["event"] == "delta"], rows[-1]
        self.assertEqual(end["event"], "end")
        self.assertEqual([row["sequence"] for row in deltas], list(range(len(deltas))))
        self.assertEqual("".join(row["text"] for row in deltas), end["text"])
        self.assertEqual(end["usage"]["output_tokens"], 8)
        self.assertEqual(end["end_reason"], "max-tokens")

    def test_timings_go_to_standard_error(self):
        run = self.ctl("generate", "-t", 0, "-n", 4, "--timings", "Hello")
        self.assertRegex(run.stderr, r"prompt \d+ tokens.*output 4 tokens")
        self.assertEqual(self.ctl("generate", "-t", 0, "-n", 4, "Hello").stderr, "")

    def test_seed(self):
        args = ("generate", "--raw", "-n", 16, "-t", "1", "--seed", "42", "Once upon a time")
        self.assertEqual(self.ctl(*args).stdout, self.ctl(*args).stdout)

    def test_interrupt_cancels_and_says_so(self):
        client = subprocess.Popen([CTL, "generate", "--raw", "-n", "3000", "--ignore-end", "Count: 1 2 3 4"],
                                  env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  stdin=subprocess.DEVNULL, text=True)
        self.assertTrue(client.stdout.read(4))
        client.send_signal(signal.SIGINT)
        _, said = client.communicate(timeout=20 * SLOW)
        self.assertEqual(client.returncode, 130, said)
        self.assertRegex(said, "(?i)cancel")
        self.daemon.wait_idle()

    def test_interrupt_while_waiting_for_the_first_token(self):
        client = subprocess.Popen([CTL, "generate", "--raw", "--ignore-end", "-n", "1000"], env=self.environment(),
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
        client.stdin.write("The river runs to the sea. " * 400)
        client.stdin.close()
        client.stdin = None
        self.daemon.wait_until(lambda status: status.requests_running == 1, "the request runs")
        client.send_signal(signal.SIGINT)
        _, said = client.communicate(timeout=20 * SLOW)
        self.assertEqual(client.returncode, 130, said)
        self.daemon.wait_idle()

    def test_closed_pipe_ends_it(self):
        client = subprocess.Popen(f"{CTL} generate --raw -n 3000 --ignore-end 'Count: 1 2 3 4' | head -c 20", shell=True,
                                  env=self.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                  stdin=subprocess.DEVNULL)
        client.communicate(timeout=30 * SLOW)
        self.daemon.wait_idle()

    # --- the rest

    def test_tokenize(self):
        text = "Hällo wörld, 世界"
        tokens = self.connect().tokenize(text)
        ids = self.ctl("tokenize", "--ids", text).stdout.split()
        self.assertEqual([int(word) for word in ids], tokens)
        self.assertEqual(self.ctl("tokenize", "--count", text).stdout.strip(), str(len(tokens)))
        self.assertEqual(self.ctl("tokenize", "--detokenize", *ids).stdout.rstrip("\n"), text)

    def test_status(self):
        status = json.loads(self.ctl("status", "--json=pretty").stdout)
        self.assertEqual(status["pid"], self.daemon.process.pid)
        self.assertEqual({account["name"] for account in status["memory"]},
                         {"weights", "graphs", "kv", "draftdb", "activations", "cache", "sessions"})
        self.assertEqual(len(self.ctl("status", "--json=short").stdout.splitlines()), 1)
        self.assertIn("weights", self.ctl("status").stdout)

    def test_models(self):
        listed = json.loads(self.ctl("model", "list", "--json=short").stdout)["models"]
        default, = [model for model in listed if model["default"]]
        self.assertEqual(default["state"], "ready")
        shown = json.loads(self.ctl("model", "show", default["name"], "--json=short").stdout)
        self.assertIn(default["source_sha256"], json.dumps(shown))
        self.assertIn("general.architecture", self.ctl("model", "show", MODEL).stdout)
        self.ctl("model", "unload", default["name"])  # the user that the service runs as
        self.ctl("model", "load", "--admin-socket", default["name"])
        self.assertTrue(self.ctl("generate", "--raw", "-n", 2, "--ignore-end", "Hello").stdout)

    def test_ping(self):
        self.assertIn("active", self.ctl("ping").stdout)
        nowhere = self.daemon.folder / "nowhere.sock"
        self.assertIn("inactive", self.ctl("ping", "--socket", nowhere, expect=3).stdout)

    def test_exit_codes(self):
        nowhere = self.daemon.folder / "nowhere.sock"
        for args, code, words in (
                (("generate", "--socket", nowhere, "Hello"), 69, str(nowhere)),
                (("generate", "-m", "no-such-model", "Hello"), 1, "no-such-model"),
                (("generate", "--file", "/nonexistent", "Hello"), 1, "/nonexistent"),
                (("generate", "--max-tokens=many", "Hello"), 2, "many"),
                (("generate", "--no-such-option"), 2, "no-such-option"),
                (("no-such-command",), 2, "no-such-command"), ((), 2, "coordgenctl"),
                (("modle", "list"), 2, "unknown command 'modle': did you mean 'model'?"),
                (("model", "lsit"), 2, "unknown command 'model lsit': did you mean 'list'?"),
                (("generate", "-m", "smolm2", "Hello"), 1, "there is no model 'smolm2': did you mean 'smollm2-135m'?"),
                (("model", "show", "gpt"), 1, "there is no model 'gpt': see coordgenctl model list"),
                (("status", "--json=yaml"), 2, "yaml"), (("model",), 2, "model"),
                (("model", "show", "/nonexistent.gguf"), 1, "/nonexistent.gguf"),
                (("tokenize", "--detokenize", "12x"), 2, "12x")):
            with self.subTest(args=args[:2]):
                run = self.ctl(*args, expect=code)
                self.assertIn(words, run.stderr)

    def test_prompt_that_does_not_fit(self):
        run = self.ctl("generate", "--raw", "-n", 4, stdin="the " * 9000, expect=1)
        self.assertRegex(run.stderr, r"(?s)9001|9000.*\b4096\b|context")

    def test_busy_is_75(self):
        # Its own daemon would be cleaner and slower: fill this user's half of this one's queue.
        connection = self.connect()
        long = prompt("Count: 1 2 3", 3000, ignore_end=True)
        limit = connection.status().queue_max // 2
        holders = [self.connect() for _ in range(limit // connection.greeting.requests_max + 2)]
        for holder in holders:
            for _ in range(holder.greeting.requests_max - 1):
                holder.start(long)
        self.daemon.wait_until(lambda status: status.requests_queued == limit, "its half is full")
        self.assertRegex(self.ctl("generate", "Hello", expect=75).stderr, f"{limit} requests of this user wait")
        for holder in holders:
            holder.close()
        self.daemon.wait_idle()

    def test_help(self):
        for args in (("--help",), ("generate", "--help"), ("model", "import", "--help"), ("chat", "--help")):
            run = self.ctl(*args)
            self.assertIn("Usage", run.stdout)
        self.assertRegex(self.ctl("--version").stdout, r"\d+\.\d+\.\d+")

    # --- chat

    def test_chat_on_a_terminal(self):
        terminal = Terminal([CTL, "chat", "-t", "0", "-n", "24"], self.environment())
        terminal.read_until(r"> ?$|>")
        terminal.write("Say hello.\n")
        terminal.read_until(r"Say hello\.")
        answer = terminal.read_until(r"\w{3,}.*\n.*>")
        self.assertTrue(answer.strip())
        terminal.write("/exit\n")
        self.assertEqual(terminal.wait(), 0)

    def test_chat_keeps_the_history(self):
        connection, read = self.connect(), [0]
        for lines in ("My name is Ada.\n", "My name is Ada.\nAnd again.\n"):
            before = connection.status().prompt_tokens
            self.ctl("chat", "-t", 0, "-n", 8, stdin=lines)
            read.append(connection.status().prompt_tokens - before)
        # The second question comes with the first one and its answer before it.
        self.assertGreater(read[2], 2 * read[1] + 8)

    def test_interrupt_in_chat_cancels_the_answer_only(self):
        terminal = Terminal([CTL, "chat", "-t", "0", "-n", "0"], self.environment())
        terminal.read_until(r">")
        terminal.write("Write a very long story about a river, a mill and a town by the sea, with many details.\n")
        # Not by what the terminal shows: the line may be echoed, and drawn anew, before it is read.
        self.daemon.wait_until(lambda status: status.requests_running == 1, "the question is being answered")
        terminal.write("\x03")
        terminal.read_until(r"(?i)cancel.*>")
        self.daemon.wait_idle()
        terminal.write("/exit\n")
        self.assertEqual(terminal.wait(), 0)

    def test_interrupt_at_the_prompt_of_chat_with_output_elsewhere(self):
        with tempfile.TemporaryDirectory(prefix="coordgen-") as folder:
            terminal = Terminal(["/bin/sh", "-c", f"exec {CTL} chat >{folder}/out"], self.environment())
            terminal.read_until(r"Ctrl-D ends")
            terminal.write("/help\nThis is half a question \\\n")
            terminal.read_until(r"clears the line")
            terminal.write("\x03")
            terminal.read_until(r"\^C")
            terminal.write("/exit\n")  # the first line of another question
            self.assertEqual(terminal.wait(), 0)
            self.assertEqual(Path(folder, "out").read_text(), "")

    def asked(self, terminal, text):
        """What was sent is the text: the tokens of the prompt are counted, in a conversation that has begun anew."""
        told = re.search(r"prompt (\d+) tokens", terminal.read_until(r"prompt \d+ tokens"))[1]
        counted = self.connect().call(tokenize=pb.TokenizeRequest(messages=messages_of([("user", text)]), count_only=True))
        self.assertEqual(int(told), counted.tokenize.count)
        terminal.read_until(PROMPT)
        terminal.write("/reset\r")
        terminal.read_until(r"new conversation")
        terminal.read_until(PROMPT)

    @unittest.skipUnless(HAS_LIBEDIT, "a build without libedit: a paste ends a line there")
    def test_paste_in_chat_is_one_text(self):
        terminal = Terminal([CTL, "chat", "-n2"], self.environment())
        before = self.connect().status().requests_done
        terminal.read_until(re.escape(PASTES_ON))
        terminal.read_until(PROMPT)
        terminal.write(PASTE.format("one\rtwo\r\nthree\nfour \\\r"))
        terminal.read_until(r"four")
        terminal.write(" and five\r")  # a paste can be edited, and Enter sends it
        self.asked(terminal, "one\ntwo\nthree\nfour \\\n and five")
        self.assertEqual(self.connect().status().requests_done, before + 1 + 1)  # the count is a request
        terminal.write(PASTE.format("a \x1b[31mred\x07\x04 \u009b5n \x1b[200~end\x00\t."))
        terminal.read_until(r"end")
        self.assertNotIn("\x1b[31mred", terminal.seen)
        self.assertNotIn("\u009b", terminal.seen)
        terminal.write("\r")
        self.asked(terminal, "a \x1b[31mred\x07\x04 \u009b5n \x1b[200~end\t.")
        terminal.write(PASTE.format("/etc/fstab:\rUUID=1") + "\r")  # no command
        self.asked(terminal, "/etc/fstab:\nUUID=1")
        terminal.write(PASTE.format("\r\r") + "\r")  # nothing
        terminal.read_until(PROMPT)
        terminal.write("\x1b[200~half a paste")
        terminal.write("\x03")
        terminal.read_until(PROMPT)
        terminal.write("whole\r")
        self.asked(terminal, "whole")
        terminal.write("/exit\r")
        self.assertEqual(terminal.wait(), 0)

    @unittest.skipUnless(HAS_LIBEDIT, "a build without libedit: a paste ends a line there")
    def test_texts_of_several_lines_in_chat(self):
        terminal = Terminal([CTL, "chat", "-n2"], self.environment())
        terminal.read_until(PROMPT)
        for typed, text in (("one \\\rtwo\r", "one \ntwo"), ("one\x1b\rtwo\x1b\nthree\r", "one\ntwo\nthree"),
                            ('"""\r/one\\\r\r"two\r"""\r', '/one\\\n\n"two'), ('"""one"""\r', "one"),
                            ('"""one\rtwo"""\r', "one\ntwo")):
            with self.subTest(typed=typed):
                for line in re.findall(r".*?(?<!\x1b)\r", typed, re.S):
                    terminal.write(line)
                    if not typed.endswith(line):
                        terminal.read_until(r"(?m)^\. $")
                self.asked(terminal, text)
        terminal.write('"""\r')
        terminal.read_until(r"(?m)^\. $")
        terminal.write("\x03")  # leaves it
        terminal.read_until(PROMPT)
        terminal.write("/quti\r")
        terminal.read_until(r"/quti is not known: did you mean /quit\?\r")
        terminal.read_until(PROMPT)
        terminal.write("/zzzz\r")
        terminal.read_until(r"/zzzz is not known: /help lists the commands\.\r")
        terminal.read_until(PROMPT)
        terminal.write("/exit\r")
        self.assertEqual(terminal.wait(), 0)

    def test_chat_leaves_the_terminal_as_it_was(self):
        """However it ends, in a paste or not: no bracketed paste, and the modes of before."""
        for end, status in (("/exit\r", 0), ("\x04", 0), ("\x1b[200~half", signal.SIGTERM), ("", signal.SIGHUP),
                            ("half", signal.SIGQUIT)):
            with self.subTest(end=end, status=status):
                # The shell holds on to the terminal, and says that it is ready to be looked at.
                terminal = Terminal(["/bin/sh", "-c", f"stty -a; {CTL} chat; echo ended $?; stty -a"], self.environment())
                modes = terminal.read_until(r"-a?echoprt[^\n]*\n|extproc[^\n]*\n")
                terminal.read_until(PROMPT)
                terminal.write(end)
                if status:
                    child, = Path(f"/proc/{terminal.pid}/task/{terminal.pid}/children").read_text().split()
                    os.kill(int(child), status)
                terminal.read_until(rf"ended {128 + status if status else 0}")
                self.assertEqual(modes, terminal.read_until(r"-a?echoprt[^\n]*\n|extproc[^\n]*\n").lstrip("\r\n"))
                if HAS_LIBEDIT:
                    self.assertGreater(terminal.seen.rfind(PASTES_OFF), terminal.seen.rfind(PASTES_ON))
                self.assertEqual(terminal.wait(), 0)
        terminal = Terminal(["/bin/sh", "-c", f"TERM=dumb {CTL} chat"], self.environment())
        terminal.read_until(PROMPT)
        terminal.write("\x04")
        self.assertEqual(terminal.wait(), 0)
        self.assertNotIn("\x1b[?2004", terminal.seen)
        before = self.connect().status().requests_done
        terminal = Terminal([CTL, "chat"], self.environment())
        terminal.read_until(PROMPT)
        terminal.write("\x1b[200~half a paste\r")
        os.close(terminal.fd)  # the terminal has gone
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(terminal.pid, 0)[1]), -signal.SIGHUP)
        self.assertEqual(self.connect().status().requests_done, before)

    def test_interrupt_in_chat_with_piped_input(self):
        for lines in (b"/help\n", b"Hello\n/help\n", b"/help\nhalf a line"):
            with self.subTest(lines=lines):
                process = subprocess.Popen([CTL, "chat", "-n4"], env=self.environment(), stdin=subprocess.PIPE,
                                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
                self.addCleanup(process.kill)
                process.stdin.write(lines)
                process.stdin.flush()
                while b"clears the line" not in process.stderr.readline():
                    self.assertIsNone(process.poll())
                process.send_signal(signal.SIGINT)
                try:
                    self.assertEqual(process.wait(20 * SLOW), 130)
                finally:
                    process.stdin.close()
                    process.stderr.close()


class NotReady(unittest.TestCase):
    """A service whose model is being imported, as long as the test likes: the import waits for the test to let go of the
    package."""

    def setUp(self):
        cache = tempfile.TemporaryDirectory(prefix="coordgen-")
        self.addCleanup(cache.cleanup)
        models = Path(cache.name, "models")
        models.mkdir()
        source_sha256 = hashlib.sha256(MODEL.read_bytes()).hexdigest()
        part = open(models / f"{MODEL.stem}-{source_sha256[:12]}.cgm.part", "wb")
        self.addCleanup(part.close)
        fcntl.flock(part, fcntl.LOCK_EX)
        self.daemon = Daemon(wait=False, cache=Path(cache.name))
        self.addCleanup(self.daemon.kill)
        self.daemon.wait_notice("READY=1")
        self.daemon.wait_model(60, pb.MODEL_STATE_IMPORTING)

    def test_interrupt_is_130(self):
        for args in (("tokenize", "Hello"), ("tokenize", "-d", "1 2")):
            with self.subTest(args=args):
                client = subprocess.Popen([CTL, *args], env=dict(os.environ, COORDGEN_SOCKET=str(self.daemon.api)),
                                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                self.addCleanup(client.kill)
                self.daemon.wait_until(lambda status: status.requests_queued == 1, "it waits for the model")
                client.send_signal(signal.SIGINT)
                _, said = client.communicate(timeout=20 * SLOW)
                self.assertEqual(client.returncode, 130, said)
                self.assertIn("cancelled", said)
        self.daemon.stop()


class Help(unittest.TestCase):
    """What --help lists, the man page and the completion of bash have, and no more."""

    def help(self, *verb):
        return subprocess.run([CTL, *verb, "--help"], capture_output=True, text=True, check=True,
                              stdin=subprocess.DEVNULL, timeout=60 * SLOW).stdout

    def options(self, *verb):
        """Every option, short ones too, with the name of its value."""
        options = {}
        for line in self.help(*verb).splitlines():
            if re.match(" {2}-| {6}--", line):
                short, long, value = re.match(r"(-\w)?(?:, )?(--[a-z-]+)?(?:=([A-Z]+))?", line.strip()).groups()
                options.update({name: value for name in (short, long) if name})
        return options

    def verbs(self):
        """The words of every verb and of every short name of one."""
        lines = re.findall(r"^  ((?:model |draftdb )?[a-z-]+)(.*)$", self.help().split("\nOptions")[0], re.M)
        verbs = [verb.split() for verb, _ in lines]
        self.assertGreater(len(verbs), 10)
        return verbs + [alias for _, rest in lines for alias in map(str.split, re.findall(r"\(also: (.*)\)", rest))]

    def test_every_option_is_in_the_man_page(self):
        page = (TOP / "packaging/man/coordgenctl.1").read_text().replace("\\-", "-")
        page = page.split(".SH OPTIONS")[1].split("\n.SH ")[0]
        sections = {}  # those of a verb
        for section in page.split("\n.SS ")[1:]:
            heads = re.findall(r"^\.T[PQ]\n(.*)$", section, re.M)
            options = {option for head in heads for option in re.findall(r"(?<![\w-])--?[a-z][a-z-]*", head)}
            for name in re.split(", | and ", section.split("\n")[0]):
                sections.setdefault(name, set()).update(options)
        common = sections.pop("Of every command")
        listed = {}
        for verb in self.verbs():
            name = " ".join(verb)
            if not re.search(rf"^Also: coordgenctl {name}$", self.help(*verb), re.M):
                listed[name] = set(self.options(*verb))
        for name, options in listed.items():
            with self.subTest(verb=name):
                self.assertEqual(options - sections.get(name, set()) - common, set())
        self.assertEqual(common - set.intersection(*listed.values()), set())
        self.assertEqual(set.union(*sections.values()) - set.union(*listed.values()), set())

    def test_completion_has_the_options(self):
        for verb in self.verbs():
            with self.subTest(verb=verb):
                offered = complete("coordgenctl", *verb, "-")
                self.assertEqual(sorted({word.rstrip("=") for word in offered}), sorted(self.options(*verb)))
                self.assertEqual(len(offered), len(set(offered)))

    def test_completion_has_the_verbs(self):
        verbs = self.verbs()
        self.assertEqual(sorted(complete("coordgenctl", "")), sorted({words[0] for words in verbs}))
        for group in ("model", "draftdb"):
            self.assertEqual(sorted(complete("coordgenctl", group, "")),
                             sorted(words[1] for words in verbs if words[1:] and words[0] == group))

    def test_completion_has_the_values(self):
        """Those of a list are the ones that the program names when it gets another; a file is offered for a file."""
        for verb in (["generate"], ["model", "import"]):
            offered = complete("coordgenctl", *verb, "-")
            for option, value in self.options(*verb).items():
                with self.subTest(verb=verb, option=option):
                    if f"{option}=" in offered:
                        run = subprocess.run([CTL, *verb, "x", f"{option}=?"], capture_output=True, text=True,
                                             stdin=subprocess.DEVNULL, timeout=60 * SLOW)
                        named = re.search(r"one of (.*)$", run.stderr, re.M)[1].split(", ")
                        self.assertEqual(complete("coordgenctl", *verb, f"{option}="), named)
                        self.assertEqual(complete("coordgenctl", *verb, option, ""), named)
                    elif value:
                        self.assertEqual("<file>" in complete("coordgenctl", *verb, option, ""), value in ("FILE", "PATH"))


class NoDaemon(unittest.TestCase):
    """Files need no service."""

    def test_import_shows_progress_on_a_terminal(self):
        with tempfile.TemporaryDirectory(prefix="coordgen-") as folder:
            terminal = Terminal([CTL, "model", "import", str(MODEL), "-o", f"{folder}/m.cgm"], {})
            terminal.read_until(r"\d+ ?%")
            self.assertEqual(terminal.wait(120), 0)
            self.assertGreater(Path(folder, "m.cgm").stat().st_size, 1 << 20)

    def test_import_says_how_long_it_will_take(self):
        with tempfile.TemporaryDirectory(prefix="coordgen-") as folder:
            terminal = Terminal([CTL, "model", "import", str(MODEL), "-o", f"{folder}/m.cgm", "--recipe=edgeflow"], {})
            terminal.read_until(r"\] +\d+ % (\d+\.\d\d s|\d+ (min|h) \d+ (s|min)) left", 60)
            terminal.write("\x03")
            self.assertEqual(terminal.wait(60), 130)
            self.assertFalse(Path(folder, "m.cgm").exists())


if __name__ == "__main__":
    unittest.main()
