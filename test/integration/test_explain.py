# SPDX-License-Identifier: Apache-2.0
"""What generations are at, and what drafts have brought them: in the last message, by number, and as top shows it."""

import fcntl
import json
import os
import re
import signal
import struct
import subprocess
import tempfile
import termios
import time
import unittest

import coordgen_pb2 as pb

from daemon import SANITIZER, Daemon, DaemonCase
from settings import BIN, SLOW
from test_ctl import Terminal
from wire import Connection, prompt

CTL = str(BIN / "coordgenctl")
TEXT = ("The keeper wrote: ship, lamp, rope, sail, tide, wind. The keeper wrote: ship, lamp, rope, sail, tide, wind. "
        "The keeper wrote: ship, lamp,")
N = 40
KEPT = 64  # of each user


def drafting(max_tokens=N, **options):
    return prompt(TEXT, max_tokens, ignore_end=True, speculation="lookup", **options)


class ExplainCase(DaemonCase):
    def requests(self, connection):
        return connection.call(request_list=pb.RequestListRequest()).request_list

    def explain(self, connection, number):
        return connection.call(explain=pb.ExplainRequest(number=number)).explain.request

    def running(self, connection, condition=lambda request: True):
        """The only request that there is, once it is so."""
        deadline = time.monotonic() + 20 * SLOW
        while time.monotonic() < deadline:
            listed = self.requests(connection).requests
            if len(listed) == 1 and condition(listed[0]):
                return listed[0]
            time.sleep(0.01)
        self.fail(f"not one request that is so: {listed}")

    def ctl(self, *args, expect=0, stderr=None):
        run = subprocess.run([CTL, *map(str, args)], env=dict(os.environ, COORDGEN_SOCKET=str(self.daemon.api)),
                             capture_output=True, text=True, timeout=120 * SLOW, stdin=subprocess.DEVNULL)
        self.assertFalse(SANITIZER.search(run.stderr), run.stderr)
        self.assertEqual(run.returncode, expect, f"{args}: {run.stdout}{run.stderr}")
        return run

    def assertSums(self, explanation, usage):
        """Of a request that went on to its last token."""
        rows = explanation.valid_rows + explanation.wasted_rows
        self.assertEqual(explanation.decode_steps, usage.decode_steps)
        self.assertEqual(explanation.valid_rows, usage.decode_steps + usage.accepted_tokens)
        self.assertEqual(explanation.valid_rows, usage.output_tokens - 1)  # the first comes with the prompt
        self.assertEqual(rows, usage.decode_steps + usage.drafted_tokens)
        for source in explanation.sources:
            self.assertLessEqual(source.accepted_tokens, source.drafted_tokens)
            self.assertLessEqual(source.accepted_tokens, usage.accepted_tokens)
            self.assertLessEqual(source.drafted_tokens, usage.drafted_tokens)
        self.assertGreaterEqual(sum(source.accepted_tokens for source in explanation.sources), usage.accepted_tokens)
        self.assertGreaterEqual(sum(source.drafted_tokens for source in explanation.sources), usage.drafted_tokens)
        self.assertEqual(sum(explanation.accept_lengths), explanation.verifications)
        self.assertEqual(sum(i * n for i, n in enumerate(explanation.accept_lengths)), usage.accepted_tokens)
        self.assertLessEqual(explanation.verifications, explanation.decode_steps)
        self.assertLessEqual(explanation.head_us, explanation.steps_us)

    def until(self, ask, condition):
        """What is asked for until it is so: whether drafts are tried is decided by the clock, on a busy machine too."""
        for _ in range(60):  # more tokens than the times of steps are believed for
            given = ask()
            if condition(given):
                return given
        self.fail(f"not in 60 tries: {given}")


class Explain(ExplainCase):
    def test_the_last_message_explains_when_asked(self):
        connection = self.connect()
        done = self.until(lambda: connection.generate(drafting(explain=True)).done, lambda done: done.usage.accepted_tokens)
        self.assertEqual([source.name for source in done.explanation.sources], ["lookup"])
        self.assertTrue(done.explanation.sources[0].is_on)
        self.assertEqual(done.explanation.off, pb.SPECULATION_OFF_UNSPECIFIED)
        self.assertSums(done.explanation, done.usage)
        self.assertEqual(done.explanation.sources[0].accepted_tokens, done.usage.accepted_tokens)
        self.assertFalse(connection.generate(drafting()).done.HasField("explanation"))

    def test_several_sources(self):
        connection = self.connect()
        plain = connection.generate(prompt(TEXT, N, ignore_end=True, speculation="off"))
        for asked, names in (("auto", {"sam", "history", "table", "reuse"}), ("sam,table", {"sam", "table"}),
                             ("reuse,calibration,lookup", {"lookup", "calibration", "reuse"})):
            with self.subTest(asked=asked):
                given = connection.generate(prompt(TEXT, N, ignore_end=True, speculation=asked, explain=True))
                self.assertEqual(given.tokens, plain.tokens)
                self.assertEqual({source.name for source in given.done.explanation.sources}, names)
                self.assertSums(given.done.explanation, given.done.usage)
                self.assertEqual(given.done.explanation.off, pb.SPECULATION_OFF_UNSPECIFIED)

    def test_what_is_learned_from_the_prompt(self):
        connection = self.connect()
        for i in range(3):
            text = f"{TEXT} Nobody has said this before: {i}."
            done = connection.generate(prompt(text, 8, ignore_end=True, speculation="table", explain=True,
                                              no_reuse=True)).done
            explanation = done.explanation
            learning = explanation.prompt_learning
            self.assertIn(learning, (pb.PROMPT_LEARNING_PAYS, pb.PROMPT_LEARNING_LOSES, pb.PROMPT_LEARNING_TRIAL))
            learned = done.usage.prompt_tokens if learning != pb.PROMPT_LEARNING_LOSES else 0
            self.assertEqual(explanation.prompt_rows, learned)
            self.assertEqual(explanation.prompt_head_us > 0, learned > 0)
            if learning == pb.PROMPT_LEARNING_PAYS:
                self.assertGreaterEqual(explanation.prompt_gain_us, explanation.prompt_cost_us)
            if learning == pb.PROMPT_LEARNING_LOSES:
                self.assertLessEqual(explanation.prompt_gain_us, explanation.prompt_cost_us)
        done = connection.generate(prompt(TEXT, 8, ignore_end=True, speculation="sam", explain=True)).done
        self.assertEqual(done.explanation.prompt_learning, pb.PROMPT_LEARNING_UNSPECIFIED)
        self.assertEqual(done.explanation.prompt_rows, 0)

    def test_no_source_that_is_there(self):
        done = self.connect().generate(prompt(TEXT, 3, speculation="history", no_history=True, explain=True)).done
        self.assertEqual(done.explanation.off, pb.SPECULATION_OFF_NO_SOURCE)
        self.assertFalse(done.explanation.sources[0].is_on)

    def test_without_a_draft_model(self):
        """The source alone has nothing to draft from; with others those go on."""
        connection = self.connect()
        plain = connection.generate(prompt(TEXT, N, ignore_end=True, speculation="off"))
        for asked in ("model", "ours"):
            with self.subTest(asked=asked):
                given = connection.generate(prompt(TEXT, N, ignore_end=True, speculation=asked, explain=True))
                self.assertEqual(given.tokens, plain.tokens)
                explanation = given.done.explanation
                self.assertEqual((explanation.model_passes, explanation.model_rows, explanation.model_us), (0, 0, 0))
                self.assertEqual(explanation.off, pb.SPECULATION_OFF_UNSPECIFIED if asked == "ours" else
                                 pb.SPECULATION_OFF_NO_SOURCE)
                self.assertEqual("model" in {source.name for source in explanation.sources}, asked == "model")

    def test_the_request_decides(self):
        """Against the setting, which is off here, and on there; the tokens are the same."""
        here, there = Daemon("--speculation=off"), Daemon("--speculation=lookup")
        self.addCleanup(here.stop)
        self.addCleanup(there.stop)
        connection = here.connect()
        self.addCleanup(connection.close)
        plain = connection.generate(prompt(TEXT, N, ignore_end=True, explain=True))
        self.assertEqual(plain.done.usage.drafted_tokens, 0)
        self.assertEqual(plain.done.explanation.off, pb.SPECULATION_OFF_SETTING)
        self.assertEqual(plain.done.explanation.valid_rows, plain.done.usage.decode_steps)
        self.assertEqual(connection.generate(drafting()).tokens, plain.tokens)
        with there.connect() as other:
            given = other.generate(prompt(TEXT, N, ignore_end=True, explain=True))
            self.assertEqual([source.name for source in given.done.explanation.sources], ["lookup"])
            self.assertEqual(given.done.explanation.off, pb.SPECULATION_OFF_UNSPECIFIED)
            without = other.generate(prompt(TEXT, N, ignore_end=True, explain=True, speculation="off"))
            self.assertEqual(without.done.usage.drafted_tokens, 0)
            self.assertEqual(without.done.explanation.off, pb.SPECULATION_OFF_REQUEST)
            self.assertEqual([given.tokens, without.tokens], [plain.tokens] * 2)

    def test_bad_speculation_is_refused(self):
        connection = self.connect()
        for text, words in (("bogus", 'no source "bogus"'), ("edgellm", 'no source "edgellm"; say auto'), ("lookup,,sam", 'no source ""'), ("", "no source"),
                            ("sam,sam", "named twice"), ("auto,lookup", '"auto"'), ("x" * 129, "129 bytes: at most 128"),
                            ("é" * 50, "é" * 32 + '"')):
            with self.subTest(text=text):
                error = self.assertRefused(pb.ERROR_CODE_INVALID_ARGUMENT, connection.generate,
                                           prompt("x", 2, speculation=text))
                self.assertEqual(error.field, "generate.speculation")
                self.assertTrue(error.message.startswith("generate.speculation: "), error.message)
                self.assertIn(words, error.message)
        run = self.ctl("generate", "--raw", "--speculation=lookup,bogus", "x", expect=2)
        self.assertIn('generate.speculation: no source "bogus"', run.stderr)

    def test_one_that_runs_and_has_ended(self):
        connection, other = self.connect(), self.connect()
        generation = connection.start(drafting(1000, explain=True)).until("generate_delta")
        listed = self.running(other)
        self.assertEqual(listed.state, pb.REQUEST_STATE_DECODE)
        self.assertEqual((listed.uid, listed.priority), (os.geteuid(), pb.PRIORITY_NORMAL))
        self.assertFalse(listed.explanation.accept_lengths)
        live = self.explain(other, listed.number)
        self.assertEqual((live.number, live.state, live.outcome), (listed.number, pb.REQUEST_STATE_DECODE, ""))
        self.assertEqual(sum(live.explanation.accept_lengths), live.explanation.verifications)
        self.assertEqual(live.read_tokens, live.prompt_tokens)
        self.assertGreaterEqual(live.output_tokens, listed.output_tokens)
        connection.cancel(generation.id)
        done = generation.finish().done
        self.assertEqual(done.usage.request_number, listed.number)
        kept = self.explain(other, listed.number)
        self.assertEqual((kept.state, kept.outcome), (pb.REQUEST_STATE_ENDED, "cancelled"))
        self.assertEqual(kept.explanation, done.explanation)
        self.assertEqual((kept.prompt_tokens, kept.output_tokens), (done.usage.prompt_tokens, done.usage.output_tokens))
        self.assertFalse(self.requests(other).requests)
        self.assertEqual(self.requests(other).more, 0)

    def test_the_last_ones_are_kept(self):
        connection = self.connect()
        numbers = [connection.generate(prompt("Hi", 1)).done.usage.request_number for _ in range(KEPT + 1)]
        self.assertEqual(sorted(set(numbers)), numbers)
        error = self.assertRefused(pb.ERROR_CODE_NOT_FOUND, self.explain, connection, numbers[0])
        self.assertEqual(error.field, "explain.number")
        for number in numbers[1], numbers[-1]:
            self.assertEqual(self.explain(connection, number).number, number)
        for request in pb.ExplainRequest(), pb.ExplainRequest(number=0):
            self.assertRefused(pb.ERROR_CODE_INVALID_ARGUMENT, connection.call, explain=request)

    @unittest.skipIf(os.geteuid() != 0, "only root can be two users")
    def test_of_another_user(self):
        root, nobody = self.connect(), Connection.as_nobody(self.daemon.api)
        self.opened.append(nobody)
        ended = root.generate(drafting()).done.usage.request_number
        generation = root.start(drafting(1000)).until("generate_delta")
        number = self.running(root).number
        self.assertFalse(self.requests(nobody).requests)
        for asked in ended, number:
            self.assertRefused(pb.ERROR_CODE_NOT_FOUND, self.explain, nobody, asked)
        root.cancel(generation.id)
        generation.finish()
        own = nobody.generate(drafting()).done.usage.request_number
        self.assertEqual(self.explain(nobody, own).uid, 65534)
        self.assertEqual(self.explain(root, own).uid, 65534)  # an administrator
        self.assertRefused(pb.ERROR_CODE_NOT_FOUND, self.explain, nobody, ended)

    def test_cancel_by_number(self):
        """What top and the log show is enough to end a generation, of the own user's or for administrators anybody's."""
        generation = self.connect().start(drafting(2000)).until("generate_delta")
        number = self.running(self.connect()).number
        self.assertEqual(self.ctl("cancel", number).stdout, f"Request {number} is cancelled.\n")
        self.assertEqual(generation.finish().done.end_reason, pb.END_REASON_CANCELLED)
        self.assertIn(f"no generation {number} of this user runs or waits", self.ctl("cancel", number, expect=1).stderr)
        self.assertIn("is no request", self.ctl("cancel", "all", expect=2).stderr)
        connection = self.connect()
        generation = connection.start(drafting(2000)).until("generate_delta")
        number = self.running(connection).number
        connection.call(request_cancel=pb.RequestCancelRequest(number=number))
        self.assertEqual(generation.finish().done.end_reason, pb.END_REASON_CANCELLED)
        self.assertRefused(pb.ERROR_CODE_INVALID_ARGUMENT, connection.call, request_cancel=pb.RequestCancelRequest())

    @unittest.skipIf(os.geteuid() != 0, "only root can be two users")
    def test_cancel_of_another_user(self):
        root, nobody = self.connect(), Connection.as_nobody(self.daemon.api)
        self.opened.append(nobody)
        generation = root.start(drafting(2000)).until("generate_delta")
        number = self.running(root).number
        cancel = lambda connection: connection.call(request_cancel=pb.RequestCancelRequest(number=number))
        hidden = self.assertRefused(pb.ERROR_CODE_NOT_FOUND, cancel, nobody)
        self.assertEqual(hidden.field, "request_cancel.number")
        self.assertEqual(self.explain(root, number).state, pb.REQUEST_STATE_DECODE)
        root.cancel(generation.id)
        generation.finish()
        generation = nobody.start(drafting(2000)).until("generate_delta")
        number = self.running(root).number
        cancel(root)
        self.assertEqual(generation.finish().done.end_reason, pb.END_REASON_CANCELLED)
        self.assertIn(f"request {number} of uid 65534 is cancelled by uid 0, an administrator", self.daemon.log())

    def test_generate_explains_behind_the_answer(self):
        plain = self.ctl("generate", "--raw", "-t", 0, "-n", N, "--ignore-end", "--speculation=off", TEXT)
        words = ("--raw", "-t", 0, "-n", N, "--ignore-end", "--speculation=lookup", "--explain", "--timings", TEXT)
        run = self.until(lambda: self.ctl("generate", *words), lambda run: "Accepted" in run.stderr)
        self.assertEqual(run.stdout, plain.stdout)
        self.assertEqual(plain.stderr, "")
        for pattern in (r"accept length \d", r"\nlookup +\d+ +\d+ ", r"\nAccepted +.*\d+: \d+", r"\nSteps +\d+ \(\d+ with drafts\)",
                        r"\nRows +\d+ valid \(\d+ %\), \d+ wasted \(\d+ %\), \d+ idle", r"\nTime +steps "):
            self.assertRegex(run.stderr, pattern)
        number = int(re.search(r"request (\d+)\n", run.stderr)[1])
        told = self.ctl("explain", number).stdout
        self.assertRegex(told, rf"^Request +{number}, uid {os.geteuid()}, .*ended, max-tokens")
        self.assertIn(re.search(r"Steps .*\n", run.stderr)[0], told)
        one = json.loads(self.ctl("explain", number, "--json=short").stdout)
        self.assertEqual((one["number"], one["explanation"]["off_by"]), (number, None))
        self.assertEqual(sum(one["explanation"]["accept_lengths"]), one["explanation"]["verifications"])
        end = json.loads(self.ctl("generate", "--raw", "-n", 4, "--speculation=off", "--explain", "-j", TEXT).stdout.splitlines()[-1])
        self.assertEqual(end["explanation"]["off_by"], "request")
        self.assertGreater(end["usage"]["request_number"], number)

    def test_explain_of_what_is_not_there(self):
        self.assertIn("explain.number", self.ctl("explain", 1 << 40, expect=1).stderr)
        for word in "x", "0", "7x", "-1":
            self.assertIn("is no request", self.ctl("explain", "--", word, expect=2).stderr)

    def test_top(self):
        generation = self.connect().start(drafting(2000)).until("generate_delta")
        number = self.running(self.connect(), lambda request: request.output_tokens > N).number
        heads, line = self.ctl("top", "--once").stdout.splitlines()
        self.assertRegex(heads, "REQUEST +USER +CLASS +STATE")
        self.assertRegex(line, rf"^ *{number} \S+ +normal +decode +\d+ +\d+ +\d+\.\d +\d+\.\d\d +\d+\.\d +lookup ")
        looks = [json.loads(line) for line in self.ctl("top", "-n2", "--json=pretty").stdout.splitlines()]
        self.assertEqual([[request["number"] for request in look["requests"]] for look in looks], [[number]] * 2)
        first, second = (look["requests"][0] for look in looks)
        self.assertEqual((first["state"], first["priority"]), ("decode", "normal"))
        self.assertGreater(second["output_tokens"], first["output_tokens"])
        self.assertGreater(second["explanation"]["decode_steps"], first["explanation"]["decode_steps"])
        generation.connection.cancel(generation.id)
        generation.finish()
        self.assertEqual(len(self.ctl("top", "--once").stdout.splitlines()), 1)
        for words in ("--count=0",), ("--once", "-n", "3"), ("--count=many",):
            self.ctl("top", *words, expect=2)

    def test_top_ends_with_an_interrupt(self):
        for words, status in ((), 0), (("-n", "100"), 130):
            top = subprocess.Popen([CTL, "top", *words], env=dict(os.environ, COORDGEN_SOCKET=str(self.daemon.api)),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
            self.assertIn("REQUEST", top.stdout.readline())
            top.send_signal(signal.SIGINT)
            _, said = top.communicate(timeout=20 * SLOW)
            self.assertEqual((top.returncode, said), (status, ""))


    def test_top_on_a_terminal(self):
        """Each look takes the place of the one before."""
        top = Terminal([CTL, "top"], {"COORDGEN_SOCKET": str(self.daemon.api)})
        top.read_until("\x1b\\[H\x1b\\[2J *REQUEST .*\n")
        top.read_until("\x1b\\[H\x1b\\[J *REQUEST .*\n")
        top.write("\x03")
        self.assertEqual(top.wait(), 0)


    def test_top_on_a_narrow_terminal(self):
        """No line is wider than the terminal is, however that changes, or than COLUMNS says."""
        generation = self.connect().start(drafting(2000)).until("generate_delta")
        for columns, environment in ((60, {}), (50, {"COLUMNS": "50"})):
            top = Terminal(["/bin/sh", "-c", f"stty cols 60; exec {CTL} top"],
                           {"COORDGEN_SOCKET": str(self.daemon.api), **environment})
            look = top.read_until("\x1b\\[H\x1b\\[2J *REQUEST[^\\n]*\\n[^\\n]* normal [^\\n]*\\n")
            widths = [len(line) for line in look.rpartition("\x1b[2J")[2].splitlines()]
            self.assertEqual(widths, [columns] * 2)
            fcntl.ioctl(top.fd, termios.TIOCSWINSZ, struct.pack("4H", 24, 30, 0, 0))
            width = 30 if columns == 60 else columns
            top.read_until(rf"\x1b\[H\x1b\[J REQUEST[^\n]{{{width - 8}}}\r\n")
            top.write("\x03")
            self.assertEqual(top.wait(), 0)
        generation.connection.cancel(generation.id)
        generation.finish()


class States(ExplainCase):
    """Of requests that wait: one place, and a prompt of many steps."""

    flags = ("--max-active=1", "--chunk-tokens=16", "--prefix-cache-max=0")

    def test_queued_and_prefill(self):
        connection, other = self.connect(), self.connect()
        first = connection.start(prompt("word " * 1500, 2))
        at_work = self.running(other, lambda request: request.read_tokens)
        self.assertEqual((at_work.state, at_work.output_tokens), (pb.REQUEST_STATE_PREFILL, 0))
        self.assertGreater(at_work.prompt_tokens, at_work.read_tokens)
        second = connection.start(prompt("word", 2, priority=pb.PRIORITY_BACKGROUND, speculation="lookup"))
        self.daemon.wait_until(lambda status: status.requests_queued == 1, "the second one waits")
        listed = self.requests(other).requests
        self.assertEqual([request.state for request in listed], [pb.REQUEST_STATE_PREFILL, pb.REQUEST_STATE_QUEUED])
        self.assertEqual(listed[1].priority, pb.PRIORITY_BACKGROUND)
        self.assertEqual(listed[1].explanation.off, pb.SPECULATION_OFF_UNSPECIFIED)
        self.assertTrue(listed[1].explanation.sources[0].is_on)  # nothing says otherwise yet
        lines = self.ctl("top", "--once").stdout.splitlines()
        self.assertRegex(lines[1], r" prefill \d+ % ")
        self.assertRegex(lines[2], r" background +queued( 1)? .* lookup ")
        for generation in first, second:
            connection.cancel(generation.id)
            generation.finish()

    def test_many_are_cut(self):
        """The list has an end, and says what it leaves out."""
        daemon = Daemon("--max-active=1", "--max-queue=1000", "--max-requests-per-connection=1000")
        self.addCleanup(daemon.stop)
        with daemon.connect() as connection, daemon.connect(admin=True) as admin:
            begun = [admin.start(prompt("word " * 300, 2)) for _ in range(300)]
            daemon.wait_until(lambda status: status.requests_queued >= 290, "they wait", through=connection)
            reply = self.requests(connection)
            self.assertEqual(len(reply.requests), 256)
            self.assertLess(reply.ByteSize(), 64 << 10)
            self.assertTrue(0 < reply.more <= 44, reply.more)
            for generation in begun:
                admin.cancel(generation.id)
            for generation in begun:
                generation.finish()


class Setting(unittest.TestCase):
    """`speculation` is checked like a request's option, in files, in flags and in a reload."""

    def test_check(self):
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
            file.write("speculation = lookup,bogus\n")
            file.flush()
            run = subprocess.run([BIN / "coordgend", f"--config={file.name}", "--check-config"], capture_output=True,
                                 text=True, timeout=60 * SLOW, stdin=subprocess.DEVNULL)
            self.assertEqual(run.returncode, 78, run.stderr)
            self.assertIn(f'{file.name}:1: speculation: no source "bogus"', run.stderr)
        for value in "off", "auto", "lookup", "sam,table,reuse":
            run = subprocess.run([BIN / "coordgend", "--config=/dev/null", f"--speculation={value}", "--print-config"],
                                 capture_output=True, text=True, timeout=60 * SLOW, stdin=subprocess.DEVNULL)
            self.assertRegex(run.stdout, rf"(?m)^speculation = {value}$")

    def test_reload(self):
        daemon = Daemon()
        self.addCleanup(daemon.stop)
        with daemon.connect() as connection:
            for text, names in (("speculation = lookup", ["lookup"]), ("speculation = nonsense", ["lookup"]),
                                ("speculation = sam,table", ["sam", "table"]), ("speculation = off", [])):
                daemon.config.write_text(text + "\n")
                n = len(daemon.notices)
                daemon.signal(signal.SIGHUP)
                daemon.wait_notice("READY=1", after=n)
                done = connection.generate(prompt(TEXT, 4, ignore_end=True, explain=True)).done
                self.assertEqual([source.name for source in done.explanation.sources], names, text)
        self.assertIn('speculation: no source "nonsense"', daemon.log())


if __name__ == "__main__":
    unittest.main()
