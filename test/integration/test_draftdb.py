# SPDX-License-Identifier: Apache-2.0
"""The draft database in the service: whose answers are stored and whose are not, what is forgotten, and what is there
after a kill, on a full disk, and when the file is damaged."""

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path

import coordgen_pb2 as pb

import test_ctl
from daemon import Daemon, DaemonCase
from settings import BIN, LONG, SANITIZED, SLOW
from wire import Closed, Connection, Refused, prompt

N = 6  # tokens of an answer


def ask(text="The ferry had left", n=N, **options):
    return prompt(text, n, ignore_end=True, **options)


def stats(connection, **options):
    """Of the asking user, or of one user, as DraftDbUser. What was answered before is stored before this is served."""
    (user,) = connection.call(draft_db_stats=pb.DraftDbStatsRequest(**options)).draft_db_stats.users
    return user


def forget(connection, **options):
    return connection.call(draft_db_forget=pb.DraftDbForgetRequest(**options)).draft_db_forget.documents


def freeze(connection, frozen):
    connection.call(draft_db_freeze=pb.DraftDbFreezeRequest(frozen=frozen))


def export(connection, **options):
    """All parts of an export, and how many documents it says it has."""
    data, total = b"", 1
    while len(data) < total:
        part = connection.call(draft_db_export=pb.DraftDbExportRequest(offset=len(data), **options)).draft_db_export
        assert part.data, part
        data, total = data + part.data, part.total_bytes
    return data, part.documents


def bring_in(connection, data, part_bytes=1000):
    """The reply to the last part."""
    parts = [data[at:at + part_bytes] for at in range(0, len(data), part_bytes)] or [b""]
    for i, part in enumerate(parts):
        request = pb.DraftDbImportRequest(data=part, first=i == 0, last=i == len(parts) - 1)
        reply = connection.call(draft_db_import=request).draft_db_import
    return reply


def nobody(daemon):
    connection = Connection.as_nobody(daemon.api)
    daemon.connections.append(connection)
    return connection


root_only = unittest.skipUnless(os.geteuid() == 0, "needs to be root for a second user")


class Stored(DaemonCase):
    """Each test counts from what is there."""

    def setUp(self):
        super().setUp()
        self.connection = self.connect()
        self.before = stats(self.connection)

    def assertAdded(self, n_documents, connection=None):
        now = stats(connection or self.connection)
        self.assertEqual(now.documents - self.before.documents, n_documents)
        return now

    def test_a_finished_answer(self):
        self.connection.generate(ask())
        now = self.assertAdded(1)
        self.assertEqual(now.tokens - self.before.tokens, N)
        self.assertGreater(now.bytes, self.before.bytes)
        self.assertAlmostEqual(now.newest_s, time.time(), delta=60 * SLOW)
        self.assertEqual(now.uid, os.geteuid())

    def test_every_good_end(self):
        answer = self.connection.generate(ask(n=20)).text.decode()
        words = answer.split()
        ended = self.connection.generate(prompt("The ferry had left", 20, ignore_end=True, stop=[words[len(words) // 2]]))
        self.assertEqual(ended.done.end_reason, pb.END_REASON_STOP_STRING)
        self.assertAdded(2)

    def test_a_session(self):
        session = self.connection.open_session()
        for _ in range(2):
            self.connection.generate(ask(session=session))
        self.assertAdded(2)

    def test_not_a_cancelled_one(self):
        generation = self.connection.start(ask(n=2000))
        while not generation.deltas:
            generation.step()
        self.connection.cancel(generation.id)
        self.assertEqual(generation.finish().done.end_reason, pb.END_REASON_CANCELLED)
        self.assertAdded(0)

    def test_not_one_whose_client_has_gone(self):
        with Connection(self.daemon.api) as connection:
            generation = connection.start(ask(n=2000))
            while not generation.deltas:
                generation.step()
        self.daemon.wait_idle()
        self.assertAdded(0)

    def test_not_a_failed_one(self):
        self.assertRefused(pb.ERROR_CODE_CONTEXT_FULL, self.connection.generate, ask("word " * 5000))
        self.assertAdded(0)

    def test_not_one_without_history(self):
        self.connection.generate(ask(no_history=True))
        self.assertAdded(0)
        self.connection.generate(ask(no_history=False))
        self.assertAdded(1)

    def test_nothing_of_the_prompt(self):
        """The answer alone, as CoordGen has it."""
        self.connection.generate(ask("word " * 200, n=3))
        self.assertEqual(self.assertAdded(1).tokens - self.before.tokens, 3)

    @root_only
    def test_other_users_do_not_see_it(self):
        other = nobody(self.daemon)
        self.connection.generate(ask())
        self.assertEqual(stats(other).documents, 0)
        self.assertEqual(stats(other).uid, 65534)
        for options in (dict(uid=0), dict(all_users=True)):
            self.assertRefused(pb.ERROR_CODE_DENIED, stats, other, **options)
            self.assertRefused(pb.ERROR_CODE_DENIED, forget, other, **options)
        self.assertRefused(pb.ERROR_CODE_DENIED, export, other, uid=0)
        self.assertEqual(export(other)[1], 0)
        self.assertEqual(forget(other), 0)
        other.generate(ask())
        self.assertEqual(stats(other).documents, 1)
        self.assertAdded(1)
        admin = self.connect(admin=True)
        users = admin.call(draft_db_stats=pb.DraftDbStatsRequest(all_users=True)).draft_db_stats.users
        self.assertEqual({user.uid for user in users}, {0, 65534})
        self.assertEqual(forget(admin, uid=65534), 1)
        self.assertEqual(stats(admin, uid=65534).documents, 0)
        self.assertAdded(1)

    def test_forget(self):
        for _ in range(3):
            self.connection.generate(ask())
        self.assertEqual(forget(self.connection, before_s=1000), 0)
        name = self.connection.call(model_show=pb.ModelShowRequest()).model_show.model.name
        self.assertEqual(forget(self.connection, model=name), self.before.documents + 3)
        self.assertEqual(stats(self.connection).documents, 0)
        self.connection.generate(ask())
        self.assertEqual(stats(self.connection).documents, 1)
        self.assertEqual(forget(self.connection, before_s=int(time.time()) + 3600), 1)
        self.assertRefused(pb.ERROR_CODE_MODEL_NOT_FOUND, forget, self.connection, model="no-such-model")

    def test_freeze(self):
        self.connection.generate(ask())
        freeze(self.connection, True)
        self.connection.generate(ask())
        self.assertTrue(self.assertAdded(1).frozen)
        freeze(self.connection, False)
        self.connection.generate(ask())
        self.assertFalse(self.assertAdded(2).frozen)

    def test_export_and_import(self):
        for i in range(3):
            self.connection.generate(ask(f"Number {i}:"))
        before = stats(self.connection)
        data, n = export(self.connection)
        self.assertEqual(n, before.documents)
        self.assertEqual(forget(self.connection), n)
        reply = bring_in(self.connection, data)
        self.assertEqual((reply.documents, reply.expired), (n, 0))
        self.assertEqual((stats(self.connection).documents, stats(self.connection).tokens), (n, before.tokens))
        self.assertEqual(export(self.connection), (data, n))

    def test_an_export_of_several_parts(self):
        self.connection.generate(ask())
        data, n = export(self.connection)
        while len(data) < 600_000:  # twice as many each time
            self.assertEqual(bring_in(self.connection, data, 100_000).documents, n)
            data, n = export(self.connection)
        self.assertEqual(n, stats(self.connection).documents)
        admin = self.connect(admin=True)
        before = admin.account("draftdb")
        with Connection(self.daemon.api) as connection:
            part = connection.call(draft_db_export=pb.DraftDbExportRequest()).draft_db_export
            self.assertLess(len(part.data), part.total_bytes)
            self.assertGreater(admin.account("draftdb"), before + 500_000)
            self.assertRefused(pb.ERROR_CODE_QUOTA_EXCEEDED, export, self.connection)  # one at a time
            self.assertRefused(pb.ERROR_CODE_INVALID_ARGUMENT, connection.call,
                               draft_db_export=pb.DraftDbExportRequest(offset=part.total_bytes))
        self.daemon.wait_until(lambda status: {a.name: a.used_bytes for a in status.memory}["draftdb"] == before,
                               "the memory of an export that nobody reads is given back", through=admin)
        self.assertEqual(export(self.connection), (data, n))
        forget(self.connection)

    def test_imports_that_are_none(self):
        self.connection.generate(ask())
        data, _ = export(self.connection)
        n = stats(self.connection).documents
        for bad in (b"", b"x", data[:-1], data + b"x", data[:20] + bytes([data[20] ^ 1]) + data[21:]):
            self.assertRefused(pb.ERROR_CODE_INVALID_ARGUMENT, bring_in, self.connection, bad)
        self.assertRefused(pb.ERROR_CODE_INVALID_ARGUMENT, self.connection.call,
                           draft_db_import=pb.DraftDbImportRequest(data=b"x"))
        self.assertRefused(pb.ERROR_CODE_INVALID_ARGUMENT, self.connection.call,
                           draft_db_export=pb.DraftDbExportRequest(offset=7))
        self.assertEqual(stats(self.connection).documents, n)

    def test_many_at_once(self):
        """Some are answered, the others refused at once; what a client has left behind counts as its user's."""
        def flood(connection):
            return [connection.send(draft_db_forget=pb.DraftDbForgetRequest(before_s=1)) for _ in range(50)]

        outcomes = []
        for request in flood(self.connection):
            try:
                self.connection.next(request)
                outcomes.append("served")
            except Refused as refused:
                self.assertEqual(refused.code, pb.ERROR_CODE_QUOTA_EXCEEDED)
                self.assertGreater(refused.error.retry_after_ms, 0)
                outcomes.append("refused")
        self.assertEqual(set(outcomes), {"served", "refused"})
        with Connection(self.daemon.api) as connection:
            flood(connection)
        deadline = time.monotonic() + 20 * SLOW
        while time.monotonic() < deadline:
            try:
                self.assertAdded(0)
                return
            except Refused:
                time.sleep(0.01)
        self.fail("what a client left behind was never done")

    def test_what_a_message_lacks(self):
        error = self.assertRefused(pb.ERROR_CODE_INVALID_ARGUMENT, self.connection.call,
                                   draft_db_freeze=pb.DraftDbFreezeRequest())
        self.assertEqual(error.field, "draft_db_freeze.frozen")

    def test_the_files_are_private(self):
        self.connection.generate(ask())
        stats(self.connection)
        folder = self.daemon.folder / "draftdb"
        self.assertEqual(folder.stat().st_mode & 0o777, 0o700)
        for path in folder.iterdir():
            self.assertEqual(path.stat().st_mode & 0o077, 0, path)


class Drafted(DaemonCase):
    """Later answers are drafted from earlier ones of the same user, with the same text, until they are forgotten."""

    def ask(self, connection, **options):
        generation = connection.generate(ask(n=60, speculation="history", no_reuse=True, **options))
        return generation.tokens, generation.text, generation.done.usage.drafted_tokens

    def asked_again(self, connection):
        """An answer that is the same as the one before, and with drafts; the history is made in the background."""
        deadline = time.monotonic() + 20 * SLOW
        while True:
            tokens, text, n_drafted = self.ask(connection)
            if n_drafted or time.monotonic() > deadline:
                return tokens, text, n_drafted

    def test_from_earlier_answers(self):
        connection = self.connect()
        plain = connection.generate(ask(n=60, speculation="off", no_history=True))
        self.assertEqual(self.ask(connection), (plain.tokens, plain.text, 0))
        tokens, text, n_drafted = self.asked_again(connection)
        self.assertEqual((tokens, text), (plain.tokens, plain.text))
        self.assertGreater(n_drafted, 0)
        self.assertEqual(self.ask(connection, no_history=True)[2], 0)
        forget(connection)
        self.assertEqual(self.ask(connection), (plain.tokens, plain.text, 0))

    @root_only
    def test_not_from_other_users(self):
        connection, other = self.connect(), nobody(self.daemon)
        self.ask(connection)
        self.assertGreater(self.asked_again(connection)[2], 0)
        for _ in range(2):
            forget(other)
            self.assertEqual(self.ask(other)[2], 0)
            self.assertEqual(self.ask(other, no_history=True)[2], 0)


class Ctl(DaemonCase):
    """coordgenctl draftdb."""

    def ctl(self, *words, admin=False, **options):
        options = {"stdin": subprocess.DEVNULL, **options}
        socket = ["--socket", self.daemon.api] + ["--admin-socket"] * admin
        return subprocess.run([BIN / "coordgenctl", *socket, *words], capture_output=True, timeout=60 * SLOW, **options)

    def answer(self, *words, **options):
        """What --json gives of a command that succeeds."""
        run = self.ctl(*words, "--json=short", **options)
        self.assertEqual(run.returncode, 0, run.stderr)
        return json.loads(run.stdout)

    def stats(self):
        (user,) = self.answer("draftdb", "stats")["users"]
        return user

    def generate(self, *words):
        run = self.ctl("generate", "-n4", "--ignore-end", "The ferry had left", *words)
        self.assertEqual(run.returncode, 0, run.stderr)

    def setUp(self):
        super().setUp()
        self.answer("draftdb", "forget", "--all", "--yes")
        self.folder = Path(tempfile.mkdtemp(prefix="coordgen-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def test_stats(self):
        self.generate()
        self.generate("--no-history")
        user = self.stats()
        self.assertEqual((user["documents"], user["tokens"], user["frozen"]), (1, 4, False))
        self.assertEqual(user["uid"], os.geteuid())
        run = self.ctl("draftdb", "stats", "--all-users", text=True)
        self.assertRegex(run.stdout, rf"(?m)^ +USER +ANSWERS.*\n +{os.geteuid()} +1 +4 ")
        self.assertRegex(run.stdout, r"(?m)^All users together: 64\.0 MiB at most, for 90 days 0 h$")
        self.assertGreater(self.answer("draftdb", "stats", admin=True)["stored"], 0)

    def test_forget_asks(self):
        self.generate()
        for words, status in (((), 2), (("--all", "--before=1d", "--yes"), 2), (("--before=soon", "--yes"), 2),
                              (("--all",), 2), (("--model=no-such", "--yes"), 1)):
            with self.subTest(words=words):
                self.assertEqual(self.ctl("draftdb", "forget", *words).returncode, status)
        self.assertEqual(self.stats()["documents"], 1)
        self.assertEqual(self.answer("draftdb", "forget", "--before=1d", "--yes")["forgotten"], 0)
        self.assertEqual(self.answer("draftdb", "forget", "--all", "--yes")["forgotten"], 1)

    def test_forget_on_a_terminal(self):
        self.generate()
        for typed, status, left in (("n\n", 1, 1), ("y\n", 0, 0)):
            terminal = test_ctl.Terminal([BIN / "coordgenctl", "--socket", str(self.daemon.api), "draftdb", "forget", "--all"], {})
            terminal.read_until(r"Forget them\?")
            terminal.write(typed)
            self.assertEqual(terminal.wait(60), status)
            self.assertEqual(self.stats()["documents"], left)

    def test_export_and_import(self):
        for _ in range(3):
            self.generate()
        path = self.folder / "answers"
        self.assertEqual(self.answer("draftdb", "export", path)["exported"], 3)
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        run = self.ctl("draftdb", "export", "-")
        self.assertEqual((run.returncode, run.stdout), (0, path.read_bytes()))
        self.assertEqual(self.ctl("draftdb", "export", "-", "--json=short").returncode, 2)
        self.answer("draftdb", "forget", "--all", "--yes")
        self.assertEqual(self.answer("draftdb", "import", path), {"format": 1, "imported": 3, "expired": 0})
        self.assertEqual(self.answer("draftdb", "import", "-", stdin=path.open("rb"))["imported"], 3)
        self.assertEqual(self.stats()["documents"], 6)
        path.write_bytes(path.read_bytes()[:-1])
        run = self.ctl("draftdb", "import", path)
        self.assertEqual(run.returncode, 2, run.stderr)
        self.assertIn(b"damaged or cut short", run.stderr)
        self.assertEqual(self.ctl("draftdb", "import", self.folder / "none").returncode, 1)
        self.assertEqual(self.stats()["documents"], 6)

    def test_freeze(self):
        self.answer("draftdb", "freeze")
        self.addCleanup(self.answer, "draftdb", "thaw")
        self.generate()
        self.assertEqual((self.stats()["documents"], self.stats()["frozen"]), (0, True))
        self.assertEqual(self.answer("draftdb", "thaw"), {"format": 1, "frozen": False})
        self.generate()
        self.assertEqual((self.stats()["documents"], self.stats()["frozen"]), (1, False))

    @root_only
    def test_other_users(self):
        self.generate()
        nobody(self.daemon).close()  # opens the socket for everybody
        as_nobody = dict(user=65534, group=65534, extra_groups=[])
        for words in (("stats", "--user=0"), ("stats", "--all-users"), ("forget", "--user=root", "--all", "--yes"),
                      ("freeze", "--user=0")):
            with self.subTest(words=words):
                self.assertEqual(self.ctl("draftdb", *words, **as_nobody).returncode, 77)
        self.assertEqual(self.ctl("draftdb", "stats", "--user=no-such-user").returncode, 2)
        self.assertEqual(self.stats()["documents"], 1)
        self.assertEqual(self.answer("draftdb", "forget", "--user=root", "--all", "--yes", admin=True)["forgotten"], 1)


class Settings(unittest.TestCase):
    def start(self, *flags, **options):
        daemon = Daemon(*flags, **options)
        self.addCleanup(daemon.kill)
        return daemon

    def test_off(self):
        daemon = self.start("--draftdb=no")
        connection = daemon.connect()
        connection.generate(ask())
        with self.assertRaises(Refused) as caught:
            stats(connection)
        self.assertEqual(caught.exception.code, pb.ERROR_CODE_NOT_FOUND)
        self.assertFalse((daemon.folder / "draftdb").exists())
        daemon.stop()

    def test_no_history(self):
        daemon = self.start(config="no-history = quiet app, 4242\n")
        quiet, other = daemon.connect(name="quiet app"), daemon.connect(name="quiet")
        quiet.generate(ask())
        self.assertEqual(stats(other).documents, 0)
        other.generate(ask())
        self.assertEqual(stats(other).documents, 1)
        daemon.config.write_text(f"no-history = {os.geteuid()}\n")
        daemon.signal(signal.SIGHUP)
        daemon.wait_notice("READY=1", after=len(daemon.notices))
        other.generate(ask())
        self.assertEqual(stats(other).documents, 1)
        daemon.stop()

    def test_limits_evict(self):
        daemon = self.start("--draftdb-documents=3", "--draftdb-bytes=64K")
        connection = daemon.connect()
        for _ in range(5):
            connection.generate(ask())
        self.assertEqual(stats(connection).documents, 3)
        with self.assertRaises(Refused) as caught:  # while it comes, before it is looked at
            bring_in(connection, b"x" * 80_000, 40_000)
        self.assertEqual(caught.exception.code, pb.ERROR_CODE_INVALID_ARGUMENT)
        self.assertIn("more than the draft database may hold", caught.exception.error.message)
        daemon.stop()

    def test_a_restart_finds_it(self):
        folder = Path(tempfile.mkdtemp(prefix="coordgen-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        daemon = self.start(f"--draftdb-dir={folder}/state/draftdb")
        daemon.connect().generate(ask())
        daemon.stop()  # stores what it has answered
        daemon = self.start(f"--draftdb-dir={folder}/state/draftdb")
        self.assertEqual(stats(daemon.connect()).documents, 1)
        # Another daemon on the same folder goes on without, and takes it when the first one has gone.
        second = self.start(f"--draftdb-dir={folder}/state/draftdb")
        connection = second.connect()
        connection.generate(ask())
        self.assert_held(second, connection, daemon.process.pid)
        daemon.stop()
        second.wait_until(lambda status: "it could not be opened before" in second.log(), "the second one takes it by itself")
        connection.generate(ask())
        self.assertEqual(stats(connection).documents, 2)
        second.stop()

    def assert_held(self, daemon, connection, pid):
        """Whoever asks is told at once who has it, and the log has said it once."""
        start = time.monotonic()
        for call in (stats, forget, export):
            with self.assertRaises(Refused) as caught:
                call(connection)
            self.assertEqual(caught.exception.code, pb.ERROR_CODE_BUSY)
            self.assertIn(f"process {pid} uses this draft database", caught.exception.error.message)
            self.assertGreater(caught.exception.error.retry_after_ms, 0)
        self.assertLess(time.monotonic() - start, 5 * SLOW)
        self.assertEqual(daemon.log().count("nothing is stored for later drafts: draft database"), 1)

    def test_held_by_sqlite(self):
        """Somebody looks into the file with another program: no call and no end of the service waits for that."""
        folder = Path(tempfile.mkdtemp(prefix="coordgen-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        daemon = self.start(f"--draftdb-dir={folder}/draftdb")
        daemon.connect().generate(ask())
        daemon.stop()
        other = sqlite3.connect(folder / "draftdb/drafts.db")
        self.addCleanup(other.close)
        other.execute("BEGIN EXCLUSIVE")
        daemon = self.start(f"--draftdb-dir={folder}/draftdb")
        connection = daemon.connect()
        for _ in range(3):
            connection.generate(ask())
        self.assert_held(daemon, connection, os.getpid())
        other.close()
        self.assertEqual(stats(connection).documents, 1)
        daemon.stop()
        other = sqlite3.connect(folder / "draftdb/drafts.db")
        other.execute("BEGIN EXCLUSIVE")
        daemon = self.start(f"--draftdb-dir={folder}/draftdb")
        connection = daemon.connect()
        for _ in range(3):
            connection.generate(ask())
        start = time.monotonic()
        daemon.stop()
        self.assertLess(time.monotonic() - start, 4 * SLOW)
        other.close()

    def test_a_wrong_date(self):
        """For one start the date is 200 days ahead of what the file has: nothing goes. Time that has run does count."""
        folder = Path(tempfile.mkdtemp(prefix="coordgen-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        flags = (f"--draftdb-dir={folder}/draftdb", "--draftdb-age=90d")

        def documents(change=None, model=None):
            """After a start of the machine, as the file has it, with a change to its clock."""
            if change:
                database = sqlite3.connect(folder / "draftdb/drafts.db")
                with database:
                    database.execute(f"UPDATE clock SET boot = zeroblob(16), {change}")
                database.close()
            daemon = self.start(*flags, **({} if model else {"model": None}))
            connection = daemon.connect()
            if model:
                connection.generate(ask())
            n = stats(connection).documents
            daemon.stop()
            return n

        self.assertEqual(documents(model=True), 1)
        self.assertEqual(documents(f"wall = wall - {200 * 86400}", model=True), 2)  # now is ahead of that
        self.assertEqual(documents(f"wall = wall + {200 * 86400}"), 2)              # and right again
        self.assertEqual(documents(f"wall = {3 * 365 * 86400}"), 2)                 # a clock that was not set before
        self.assertEqual(documents(f"ran = ran + {89 * 86400}"), 2)
        self.assertEqual(documents(f"ran = ran + {2 * 86400}"), 0)

    def test_damaged(self):
        folder = Path(tempfile.mkdtemp(prefix="coordgen-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        flags = (f"--draftdb-dir={folder}/draftdb",)
        daemon = self.start(*flags)
        daemon.connect().generate(ask())
        daemon.stop()
        (folder / "draftdb/drafts.db").write_bytes(b"this is no database " * 1000)
        daemon = self.start(*flags)
        connection = daemon.connect()
        self.assertEqual(stats(connection).documents, 0)
        connection.generate(ask())
        self.assertEqual(stats(connection).documents, 1)
        self.assertRegex(daemon.log(), "draft database .*damaged.*is set aside")
        self.assertTrue((folder / "draftdb/drafts.db.corrupt-1").exists())
        daemon.stop()

    def test_a_folder_that_others_may_read(self):
        folder = Path(tempfile.mkdtemp(prefix="coordgen-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        folder.chmod(0o755)
        daemon = self.start(f"--draftdb-dir={folder}")
        daemon.connect().generate(ask())
        with self.assertRaises(Refused) as caught:
            stats(daemon.connect())
        self.assertEqual(caught.exception.code, pb.ERROR_CODE_INTERNAL)
        self.assertRegex(daemon.log(), "chmod 700")
        daemon.stop()

    def test_disk_full(self):
        disk = Path(tempfile.mkdtemp(prefix="coordgen-"))
        self.addCleanup(shutil.rmtree, disk, ignore_errors=True)
        if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k,mode=700", "none", disk],
                                               capture_output=True).returncode:
            self.skipTest("needs to mount a small file system: run as root")
        self.addCleanup(subprocess.run, ["umount", "-l", disk], capture_output=True)
        daemon = self.start(f"--draftdb-dir={disk}/draftdb")
        connection = daemon.connect()
        connection.generate(ask())
        self.assertEqual(stats(connection).documents, 1)
        nobody(daemon).generate(ask())
        filler = disk / "filler"
        with open(filler, "wb", buffering=0) as file:
            try:
                while file.write(b"\0" * 4096):
                    pass
            except OSError:
                pass
        n = 1
        while "an answer is not stored" not in daemon.log() and n < 200:
            connection.generate(ask())
            n += 1
        self.assertLess(n, 200)
        self.assertRegex(daemon.log(), "no room for the draft database")
        other = nobody(daemon)
        n, of_other = stats(connection).documents, stats(other).documents
        self.assertGreater(n, 0)
        daemon.stop()

        # It starts with the disk full, and what is forgotten needs no room.
        daemon = self.start(f"--draftdb-dir={disk}/draftdb")
        connection, other = daemon.connect(), nobody(daemon)
        self.assertEqual((stats(connection).documents, stats(other).documents), (n, of_other))
        with open(filler, "ab", buffering=0) as file:
            try:
                while file.write(b"\0" * 4096):
                    pass
            except OSError:
                pass
        self.assertEqual(forget(other), of_other)
        self.assertEqual((stats(connection).documents, stats(other).documents), (n, 0))
        self.assertEqual(forget(connection), n)
        self.assertEqual(stats(connection).documents, 0)
        filler.unlink()
        connection.generate(ask())
        self.assertEqual(stats(connection).documents, 1)
        daemon.stop()


class Killed(unittest.TestCase):
    """kill -9 at a random moment under load: what was reported as stored is there afterwards, and nothing is half there.
    Reported: a count of `stats`, which the service gives when these documents are on the disk."""

    KILLS = 300 if LONG and not SANITIZED else 10

    def run_until_killed(self, flags, rng):
        """What two clients last heard of documents and tokens before the end."""
        daemon = Daemon(*flags)
        heard = []
        began = threading.Event()

        def client():
            try:
                with Connection(daemon.api) as connection:
                    while True:
                        connection.generate(ask(n=rng.randint(1, 8)))
                        user = stats(connection)
                        heard.append((user.documents, user.tokens))
                        if user.documents:
                            began.set()
            except (Closed, ConnectionError, OSError):
                pass

        clients = [threading.Thread(target=client) for _ in range(2)]
        for thread in clients:
            thread.start()
        began.wait(60 * SLOW)  # the model may take its time to load
        time.sleep(rng.uniform(0.05, 0.6) * SLOW)
        daemon.process.send_signal(signal.SIGKILL)
        daemon.process.wait()
        for thread in clients:
            thread.join()
        daemon.kill()
        return max(heard, default=(0, 0))

    def test_what_was_stored_is_there(self):
        folder = Path(tempfile.mkdtemp(prefix="coordgen-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        flags = (f"--draftdb-dir={folder}/draftdb",)
        seed = random.randrange(1 << 32)
        rng = random.Random(seed)
        reported = (0, 0)
        for kill in range(self.KILLS):
            reported = max(reported, self.run_until_killed(flags, rng))
            daemon = Daemon(*flags, model=None)
            with daemon.connect() as connection:
                there = stats(connection)
                _, n_exported = export(connection)  # reads every document, and checks its sum
            log = daemon.log()
            daemon.stop()
            what = f"kill {kill} of seed {seed}: {reported} were reported, {there.documents}, {there.tokens} are there"
            self.assertGreaterEqual((there.documents, there.tokens), reported, what)
            self.assertEqual(n_exported, there.documents, what)
            self.assertNotIn("damaged", log, what)
        self.assertGreater(reported[0], self.KILLS, f"seed {seed}: hardly anything was stored")


if __name__ == "__main__":
    unittest.main()
