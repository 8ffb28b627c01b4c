# SPDX-License-Identifier: Apache-2.0
"""The README's way from `make install` to the first answer, as an administrator and as users, in a root of its own."""

import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from settings import BUILD, MODEL, SANITIZED, SLOW, TOP

# A user in the group, one who is not, and what systemd-sysusers gives the service.
ADA, BOB = 31234, 31235
IN_ROOT = """mount --rbind /proc "$1/proc" && mount --rbind /dev "$1/dev" || exit 99
root=$1 user=$2 groups=$3; shift 3; export LISTEN_PID=$$; umask "$MASK"
exec chroot --userspec="$user" --groups="$groups" "$root" "$@" """
# The sockets as descriptors 3 and 4, which is where systemd puts them.
ACTIVATED = "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execvp(sys.argv[3], sys.argv[3:])"


def why_not():
    if SANITIZED:
        return "a sanitized build is not one to install"
    if os.geteuid():
        return "only root can make a root of its own"
    if not shutil.which("unshare") or subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
        return "mount namespaces are not allowed here"
    return None


@unittest.skipIf(why_not(), why_not())
class FirstUse(unittest.TestCase):
    def setUp(self):
        self.root = Path(tempfile.mkdtemp(prefix="coordgen-root-"))
        self.addCleanup(shutil.rmtree, self.root)
        self.root.chmod(0o755)
        self.daemons = []
        self.addCleanup(self.stop)
        for folder in ("etc", "proc", "dev", "run", "srv", "tmp", "var/lib", "var/cache"):
            (self.root / folder).mkdir(parents=True)
        (self.root / "etc/passwd").write_text(f"root:x:0:0::/root:/bin/sh\nada:x:{ADA}:{ADA}::/home/ada:/bin/sh\n"
                                              f"bob:x:{BOB}:{BOB}::/home/bob:/bin/sh\n")
        (self.root / "etc/group").write_text(f"root:x:0:\nada:x:{ADA}:\nbob:x:{BOB}:\n")
        for name, uid in (("ada", ADA), ("bob", BOB)):
            (self.root / "home" / name).mkdir(parents=True)
            os.chown(self.root / "home" / name, uid, uid)
        shutil.copyfile(MODEL, self.root / "srv/smollm2-135m.gguf")

    def stop(self):
        for process in self.daemons:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(30 * SLOW)
                process.kill()
                process.wait()

    # --- what the administrator's commands do

    def make_install(self):
        environment = {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
        subprocess.run(["make", "-s", "-C", TOP, f"BUILD={os.path.relpath(BUILD, TOP)}", "install", f"DESTDIR={self.root}",
                        "PREFIX=/usr"], check=True, env=environment, capture_output=True, stdin=subprocess.DEVNULL)
        # What packages of the distribution would bring.
        for program in ("coordgend", "coordgenctl"):
            run = subprocess.run(["ldd", self.root / "usr/bin" / program], check=True, capture_output=True, text=True)
            for library in re.findall(r"(/\S+) \(0x", run.stdout):
                copy = self.root / library.lstrip("/")
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(library, copy)
                copy.chmod(0o755)

    def make_users_and_folders(self):
        if shutil.which("systemd-sysusers"):
            subprocess.run(["systemd-sysusers", f"--root={self.root}"], check=True, capture_output=True)
        else:
            self.assertRegex((self.root / "usr/lib/sysusers.d/coordgen.conf").read_text(), r"(?m)^u\s+coordgen\s")
            for name, text in (("passwd", "coordgen:x:990:990::/var/lib/coordgen:/usr/sbin/nologin\n"),
                               ("group", "coordgen:x:990:\n")):
                with open(self.root / "etc" / name, "a") as file:
                    file.write(text)
        [line] = [line for line in (self.root / "etc/passwd").read_text().splitlines() if line.startswith("coordgen:")]
        self.uid, self.gid = map(int, line.split(":")[2:4])
        if shutil.which("systemd-tmpfiles"):
            subprocess.run(["systemd-tmpfiles", f"--root={self.root}", "--create"], check=True, capture_output=True)
        else:
            for kind, path, mode, user, _ in re.findall(r"(?m)^(d)\s+(\S+)\s+(\d+)\s+(\S+)\s+(\S+)",
                                                        (self.root / "usr/lib/tmpfiles.d/coordgen.conf").read_text()):
                folder = self.root / path.lstrip("/")
                folder.mkdir(parents=True, exist_ok=True)
                folder.chmod(int(mode, 8))
                os.chown(folder, *((0, 0) if user == "root" else (self.uid, self.gid)))

    def unit(self, name):
        """The settings of a unit; the last of each name."""
        text = (self.root / "usr/lib/systemd/system" / name).read_text()
        return dict(re.findall(r"(?m)^([A-Za-z]+)=(.*)$", text))

    def start_socket(self):
        """What systemd does with the units: sockets, folders, then the program as its user."""
        service, fds = self.unit("coordgend.service"), []
        for name in ("coordgend.socket", "coordgend-admin.socket"):
            unit = self.unit(name)
            path = self.root / unit["ListenStream"].lstrip("/")
            sock = socket.socket(socket.AF_UNIX)
            self.addCleanup(sock.close)
            sock.bind(str(path))
            sock.listen()
            os.chown(path, 0, {"root": 0, "coordgen": self.gid}[unit["SocketGroup"]])
            path.chmod(int(unit["SocketMode"], 8))
            fds.append(fcntl.fcntl(sock.fileno(), fcntl.F_DUPFD, 10))
            self.addCleanup(os.close, fds[-1])
        self.assertEqual((service["User"], service["Group"]), ("coordgen", "coordgen"))
        for kind, parent in (("StateDirectory", "var/lib"), ("CacheDirectory", "var/cache")):
            folder = self.root / parent / service[kind]
            folder.chmod(int(service[f"{kind}Mode"], 8))
            os.chown(folder, self.uid, self.gid)
        self.daemon([service["ExecStart"]], self.uid, self.gid, service["UMask"], fds=fds, LISTEN_FDS="2",
                    LISTEN_FDNAMES="api:admin", STATE_DIRECTORY=f"/var/lib/{service['StateDirectory']}",
                    CACHE_DIRECTORY=f"/var/cache/{service['CacheDirectory']}")

    # --- programs in the root

    def command(self, words, uid, gid, groups):
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", IN_ROOT, "sh", self.root, f"{uid}:{gid}", groups,
                *words]

    def daemon(self, words, uid, gid, mask, fds=(), **environment):
        command = self.command([*words, "--log-target=stderr"], uid, gid, "")
        if fds:
            command = [sys.executable, "-c", ACTIVATED, *map(str, fds), *command]
        log = open(self.root / "tmp" / f"log-{uid}", "wb")
        self.addCleanup(log.close)
        self.daemons.append(subprocess.Popen(command, pass_fds=fds, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                             env={"PATH": os.environ["PATH"], "MASK": mask, **environment}))

    def ctl(self, words, uid=0, groups="", text=None, mask="0022", **environment):
        """coordgenctl, as a user types it: its exit status, output and what it says."""
        home = {0: "/root", ADA: "/home/ada", BOB: "/home/bob"}[uid]
        run = subprocess.run(self.command(["coordgenctl", *words], uid, uid, groups), input=text, capture_output=True, text=True,
                             timeout=300 * SLOW, env={"PATH": os.environ["PATH"], "MASK": mask, "HOME": home, **environment})
        return run.returncode, run.stdout, run.stderr

    def log(self, uid):
        return (self.root / "tmp" / f"log-{uid}").read_text(errors="replace")

    # --- the way

    def test_from_the_install_to_the_answer(self):
        self.make_install()
        self.make_users_and_folders()
        group = str(self.gid)
        question = ["generate", "--max-tokens", "4", "Name three rivers."]
        code, _, err = self.ctl(question, ADA, group)
        self.assertEqual(code, 69, err)
        self.assertIn("To start it: sudo systemctl start coordgend.socket", err)
        self.start_socket()
        code, _, err = self.ctl(question, BOB)
        self.assertEqual(code, 77, err)
        self.assertIn("sudo usermod -aG coordgen $USER", err)
        code, _, err = self.ctl(question, BOB, group)
        self.assertEqual(code, 1, err + self.log(self.uid))
        self.assertIn("coordgenctl model import FILE.gguf", err)
        # To the letter, without sudo: she gets one of her own, and is told how the service gets it.
        code, out, err = self.ctl(["model", "import", "/srv/smollm2-135m.gguf"], ADA, group)
        self.assertEqual((code, out), (0, "/home/ada/.local/share/coordgen/models/smollm2-135m.cgm\n"), err)
        self.assertIn("sudo coordgenctl model import FILE.gguf", err)
        code, out, err = self.ctl(["model", "import", "/srv/smollm2-135m.gguf"], mask="0077")
        self.assertEqual((code, out), (0, "/var/lib/coordgen/models/smollm2-135m.cgm\n"), err)
        self.assertIn("Imported as smollm2-135m: coordgenctl chat smollm2-135m\n", err)
        code, out, err = self.ctl(["chat", "--max-tokens", "4", "smollm2-135m"], ADA, group, "Name three rivers.\n")
        self.assertEqual(code, 0, err + self.log(self.uid))
        self.assertTrue(out.strip())
        code, out, err = self.ctl(question, BOB, group)
        self.assertEqual(code, 0, err)
        self.assertTrue(out.strip())
        self.assertRegex(self.ctl(["model", "list"], BOB, group)[1], r"(?m)^\* smollm2-135m +ready")
        # The first stays the default. What the import says to do next works for everybody.
        code, out, err = self.ctl(["model", "import", "--bits", "6", "/srv/smollm2-135m.gguf"])
        self.assertEqual((code, out), (0, "/var/lib/coordgen/models/smollm2-135m-int8-6.cgm\n"), err)
        self.assertIn("coordgenctl chat smollm2-135m-int8-6\n", err)
        code, out, err = self.ctl(["chat", "--max-tokens", "4", "smollm2-135m-int8-6"], ADA, group, "Name three rivers.\n")
        self.assertEqual((code, bool(out.strip())), (0, True), err)
        self.assertIn("loading smollm2-135m-int8-6\n", err)
        code, out, err = self.ctl([*question, "--json=short"], ADA, group)
        self.assertEqual(code, 0, err)
        self.assertIn('"model":"smollm2-135m"', out)
        code, _, err = self.ctl(["model", "default", "smollm2-135m-int8-6"], ADA, group)
        self.assertEqual(code, 77, err)
        self.assertEqual(self.ctl(["model", "default", "smollm2-135m-int8-6"])[0], 0)
        code, out, err = self.ctl([*question, "--json=short"], ADA, group)
        self.assertIn('"model":"smollm2-135m-int8-6"', out)
        self.check_service_of_a_user(question)
        for process in self.daemons:
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(60 * SLOW), 0, self.log(self.uid) + self.log(ADA))

    def check_service_of_a_user(self, question):
        """README's `coordgend --user` beside the system's service: it has her settings, and she talks to it first."""
        (self.root / "run/ada").mkdir(mode=0o700)
        os.chown(self.root / "run/ada", ADA, ADA)
        own = {"XDG_RUNTIME_DIR": "/run/ada"}
        (self.root / "etc/coordgen").mkdir()
        (self.root / "etc/coordgen/coordgend.conf").write_text("of the system = and no setting at all\n")
        config = self.root / "home/ada/.config/coordgen"
        config.mkdir(parents=True)
        (config / "coordgend.conf").write_text("max-queue = 17\n")
        # She is not in the group: what answers her is not the system's.
        self.assertEqual(self.ctl(question, ADA, **own)[0], 77)
        self.daemon(["coordgend", "--user"], ADA, ADA, "0022", HOME="/home/ada", **own)
        self.wait_for_service(own)
        code, out, err = self.ctl(question, ADA, **own)
        self.assertEqual((code, bool(out.strip())), (0, True), err + self.log(ADA))
        status = json.loads(self.ctl(["status", "--json=short"], ADA, **own)[1])
        self.assertEqual(status["queue_max"], 17)
        self.assertTrue(status["memory"], "whoever runs a service is its administrator")
        self.assertEqual(self.ctl(["ping", "--system-socket"], ADA, **own)[0], 77)
        # Another user's runtime directory, as a shell of su has it, is not followed.
        self.assertNotEqual(json.loads(self.ctl(["status", "--json=short"], 0, **own)[1])["queue_max"], 17)
        # A service that was killed leaves its socket, which hides nothing.
        self.daemons[-1].kill()
        self.end_of_namespace(ADA)
        self.assertEqual(self.ctl(["ping"], ADA, str(self.gid), **own)[0], 0)
        code, _, err = self.ctl(["ping"], ADA, **own)
        self.assertEqual(code, 77, err)

    def end_of_namespace(self, uid):
        """Ends what runs as a user: the shell before the program may have gone without it."""
        for path in Path("/proc").glob("[0-9]*/status"):
            with contextlib.suppress(OSError):
                if re.search(rf"(?m)^Uid:\t{uid}\t", path.read_text()):
                    os.kill(int(path.parent.name), signal.SIGKILL)
        self.daemons.pop().wait(60 * SLOW)

    def wait_for_service(self, environment):
        for _ in range(int(600 * SLOW)):
            if self.ctl(["ping", "--quiet"], ADA, **environment)[0] == 0:
                return
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.fail(f"it ended with {self.daemons[-1].wait(0.1)}: {self.log(ADA)}")
        self.fail(f"it does not answer: {self.log(ADA)}")


if __name__ == "__main__":
    unittest.main()
