# SPDX-License-Identifier: Apache-2.0
"""The installed units under a systemd that is process 1 of its own namespaces, over a copy of this machine's files: what
its sandbox, its sockets, a wrong setting and a killed service do to an administrator and to a user. make check-long."""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from settings import BUILD, LONG, MODEL, SANITIZED, SLOW, TOP

SYSTEMD = "/lib/systemd/systemd"
CONFIG = "/etc/coordgen/coordgend.conf"
NEW_NAMESPACES = ("unshare", "--mount", "--pid", "--fork", "--uts", "--ipc")
# $1: a folder, $2: a name for its control groups. The namespace of those begins below the groups, so that the systemd in
# it sees none of this machine's.
IN_GROUPS = """set -e
mount --make-rprivate /
for group in $(awk '/ - cgroup / { print $5 }' /proc/self/mountinfo); do
    mkdir "$group/$2"
    cat "$group/cpuset.cpus" 2>/dev/null >"$group/$2/cpuset.cpus" || :
    cat "$group/cpuset.mems" 2>/dev/null >"$group/$2/cpuset.mems" || :
    echo $$ >"$group/$2/cgroup.procs"
done
exec unshare --cgroup sh -c "$3" sh "$1"
"""
BOOT = """set -e
mount -t tmpfs none "$1/upper"
mkdir "$1/upper/files" "$1/upper/work"
cp -a "$1/installed/." "$1/upper/files"
mount -t overlay -o "lowerdir=/,upperdir=$1/upper/files,workdir=$1/upper/work" none "$1/root"
cd "$1/root"
mount -t proc none proc
mount --rbind /dev dev
mount -t sysfs none sys
for folder in run tmp sys/fs/cgroup; do mount -t tmpfs none $folder; done
mkdir sys/fs/cgroup/systemd sys/fs/cgroup/memory
mount -t cgroup -o none,name=systemd none sys/fs/cgroup/systemd
mount -t cgroup -o memory none sys/fs/cgroup/memory
mount --bind "$1/models" srv
mkdir old
pivot_root . old
umount -l old
exec env -i container=lxc PATH=/usr/sbin:/usr/bin:/sbin:/bin %s --system --unit=basic.target
""" % SYSTEMD

# The status of a GET: $1 a path of a socket or HOST:PORT, $2 the target, $3 a token.
ASK_HTTP = """import http.client, socket, sys
place, target, token = sys.argv[1:]
connection = http.client.HTTPConnection(place if place[0] != "/" else "localhost", timeout=60)
if place[0] == "/":
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(place)
connection.request("GET", target, headers={"Authorization": "Bearer " + token} if token else {})
print(connection.getresponse().status)
"""


def why_not():
    if not LONG:
        return "make check-long"
    if SANITIZED:
        return "a sanitized build is not one to install"
    if os.geteuid():
        return "only root can start a systemd"
    if not Path(SYSTEMD).exists():
        return "no systemd is installed"
    if " - cgroup " not in Path("/proc/self/mountinfo").read_text():
        return "there are no control groups of version 1"
    if subprocess.run([*NEW_NAMESPACES, "true"], capture_output=True).returncode:
        return "namespaces are not allowed here"
    return None


def child_of(pid):
    """The process number of a process's only child, as text; None before it has one."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if path.read_text().rpartition(")")[2].split()[1] == str(pid):
                return path.parent.name
    return None


def groups_left(name):
    """Control groups that cannot be removed yet, since processes in them are still ending."""
    tops = list(Path("/sys/fs/cgroup").glob(f"*/{name}"))
    for top in tops:
        for group in [*sorted((path for path in top.rglob("*") if path.is_dir()), reverse=True), top]:
            with contextlib.suppress(OSError):
                group.rmdir()
    return [top for top in tops if top.exists()]


@unittest.skipIf(why_not(), why_not())
class Systemd(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="coordgen-systemd-"))
        self.addCleanup(shutil.rmtree, self.folder)
        for name in ("installed", "upper", "root", "models"):
            (self.folder / name).mkdir()
        shutil.copyfile(MODEL, self.folder / "models" / "smollm2-135m.gguf")
        self.make_install()
        name = f"coordgen-test-{os.getpid()}"
        process = subprocess.Popen([*NEW_NAMESPACES, "sh", "-c", IN_GROUPS, "sh", self.folder, name, BOOT],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(self.end, process, name)
        self.wait(lambda: child_of(process.pid), "first process", process)
        self.init = child_of(process.pid)
        self.wait(lambda: self.run_inside("systemctl", "is-system-running").stdout.strip() in ("running", "degraded"),
                  "system that runs", process)
        self.administrate("systemd-sysusers")
        self.administrate("systemd-tmpfiles", "--create", "coordgen.conf")
        for name, options in (("ada", ("-G", "coordgen")), ("bob", ())):
            self.administrate("useradd", "--no-create-home", *options, name)
        self.administrate("systemctl", "daemon-reload")
        self.administrate("systemctl", "enable", "--now", "coordgend.socket", "coordgend-admin.socket")
        self.administrate("coordgenctl", "model", "import", "/srv/smollm2-135m.gguf")

    def make_install(self):
        environment = {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
        subprocess.run(["make", "-s", "-C", TOP, f"BUILD={os.path.relpath(BUILD, TOP)}", "install",
                        f"DESTDIR={self.folder}/installed", "PREFIX=/usr"], check=True, env=environment, capture_output=True,
                       stdin=subprocess.DEVNULL)

    def wait(self, condition, what, process=None):
        deadline = time.monotonic() + 30 * SLOW
        while not condition():
            if process and process.poll() is not None:
                self.fail(f"no {what}: {process.stdout.read()}")
            self.assertLess(time.monotonic(), deadline, f"no {what}")
            time.sleep(0.1)

    def end(self, process, name):
        """Everything of the namespace ends with its first process."""
        with contextlib.suppress(AttributeError, ProcessLookupError):
            os.kill(int(self.init), 9)
        process.kill()
        process.communicate()
        self.wait(lambda: not groups_left(name), "control groups that go")

    # --- in it

    def run_inside(self, *command, user=None):
        become = ("setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups") if user else ()
        return subprocess.run(["nsenter", "--target", self.init, "--mount", "--pid", "--uts", "--ipc", "--cgroup", "--root",
                               "--wd=/", *become, *command], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              timeout=120 * SLOW)

    def administrate(self, *command, code=0):
        run = self.run_inside(*command)
        self.assertEqual(run.returncode, code, f"{command}: {run.stdout}{run.stderr}")
        return run.stdout

    def configure(self, text):
        self.administrate("sh", "-c", f"mkdir -p /etc/coordgen && echo '{text}' >{CONFIG}")

    def assertAnswers(self):
        run = self.run_inside("coordgenctl", "generate", "Name three rivers.", "--max-tokens", "8", user="ada")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertTrue(run.stdout.strip())

    def test_first_use(self):
        """A user of the group gets an answer, which starts the service; another is told what to ask for."""
        self.assertAnswers()
        run = self.run_inside("coordgenctl", "generate", "Hi", user="bob")
        self.assertEqual(run.returncode, 77, run.stderr)
        self.assertIn("usermod -aG coordgen", run.stderr)
        self.assertIn("Serving, model smollm2-135m: ready", self.administrate("systemctl", "status", "coordgend"))

    def test_service_of_a_user(self):
        """The user's units under a manager of that user: sockets, an answer, a reload, beside the system's service."""
        uid = self.administrate("id", "-u", "ada").strip()
        runtime = f"/run/user/{uid}"
        # What the system's manager makes for the first sandbox, users' managers need.
        self.administrate("systemd-run", "--quiet", "--wait", "--property=ProtectSystem=yes", "true")
        self.administrate("systemd-run", "--quiet", "--unit=ada", "--uid=ada", "--property=Delegate=yes",
                          f"--property=RuntimeDirectory=user/{uid}", f"--setenv=XDG_RUNTIME_DIR={runtime}", "--setenv=HOME=/home/ada",
                          "--property=ExecStartPre=+/bin/install -d -o ada /home/ada", SYSTEMD, "--user", "--unit=basic.target")

        def own(*command, code=0):
            run = self.run_inside("env", f"XDG_RUNTIME_DIR={runtime}", "HOME=/home/ada", *command, user="ada")
            self.assertEqual(run.returncode, code, f"{command}: {run.stdout}{run.stderr}")
            return run.stdout

        self.wait(lambda: self.run_inside("env", f"XDG_RUNTIME_DIR={runtime}", "systemctl", "--user", "is-active", "basic.target",
                                          user="ada").stdout.strip() == "active", "manager of the user")
        own("coordgenctl", "model", "import", "/srv/smollm2-135m.gguf")
        own("systemctl", "--user", "enable", "--now", "coordgend.socket", "coordgend-admin.socket")
        self.assertTrue(own("coordgenctl", "generate", "Name three rivers.", "--max-tokens", "8").strip())
        self.assertEqual(own("systemctl", "--user", "is-active", "coordgend.service").strip(), "active")
        self.assertIn("/home/ada/.local/share/coordgen/models/", own("coordgenctl", "model", "show", "smollm2-135m"))
        own("systemctl", "--user", "reload", "coordgend.service")
        own("coordgenctl", "ping")
        # HTTP for this user, in its sandbox: over the socket of its own, and over TCP with a token.
        ask = ("python3", "-c", ASK_HTTP)
        own("systemctl", "--user", "enable", "--now", "coordgen-httpd.socket")
        self.assertEqual(own(*ask, f"{runtime}/coordgen/http.sock", "/v1/models", "").strip(), "200")
        self.assertEqual(own("systemctl", "--user", "is-active", "coordgen-httpd.service").strip(), "active")
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        for unit in ("socket", "service"):
            folder = f"/home/ada/.config/systemd/user/coordgen-httpd.{unit}.d"
            own("sh", "-c", f"mkdir -p {folder} && sed s/:8080/:{port}/ /usr/share/doc/coordgen/examples/coordgen-httpd-tcp-{unit}.conf "
                            f">{folder}/tcp.conf")
        own("sh", "-c", "umask 077; mkdir -p ~/.config/coordgen; echo 0123456789abcdef >~/.config/coordgen/http-token")
        # And so without name spaces of users.
        own("cp", "/usr/share/doc/coordgen/examples/coordgen-httpd-no-namespaces.conf",
            "/home/ada/.config/systemd/user/coordgen-httpd.service.d/")
        own("systemctl", "--user", "daemon-reload")
        own("systemctl", "--user", "stop", "coordgen-httpd.service")
        own("systemctl", "--user", "restart", "coordgen-httpd.socket")
        self.assertEqual(own(*ask, f"127.0.0.1:{port}", "/nothing", "").strip(), "401")
        self.assertEqual(own(*ask, f"127.0.0.1:{port}", "/nothing", "0123456789abcdef").strip(), "404")
        # The system's has not been started by any of this, and answers when it is asked for.
        self.administrate("systemctl", "is-active", "coordgend.service", code=3)
        own("coordgenctl", "ping", "--system-socket")

    def test_uninstall(self):
        """The service ends, its units are gone, and what is left is named."""
        self.assertAnswers()
        run = self.run_inside("make", "-s", "-C", str(TOP), f"BUILD={os.path.relpath(BUILD, TOP)}", "uninstall", "PREFIX=/usr")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertRegex(run.stdout, r"(?m)^Left: /var/lib/coordgen \(\S+\)\. To remove it: rm -r /var/lib/coordgen$")
        self.assertIn("To remove them: userdel coordgen", run.stdout)
        self.administrate("systemctl", "is-active", "coordgend.service", "coordgend.socket", code=3)
        self.administrate("test", "-e", "/usr/bin/coordgend", code=1)
        self.administrate("test", "-e", "/var/lib/coordgen/models")

    def test_wrong_setting(self):
        """Refused by a reload, the old ones stay; a start fails, the sockets stay and say so, and the journal why."""
        self.assertAnswers()
        self.configure("max-activ = 3")
        self.administrate("systemctl", "reload", "coordgend", code=1)
        self.assertAnswers()
        self.administrate("systemctl", "restart", "coordgend", code=1)
        self.administrate("systemctl", "is-active", "coordgend.socket", "coordgend-admin.socket")
        run = self.run_inside("coordgenctl", "ping", user="ada")
        self.assertEqual(run.returncode, 75, run.stderr)
        self.assertIn("journalctl -u coordgend", run.stderr)
        self.assertIn(f"{CONFIG}:1: unknown setting 'max-activ'",
                      self.administrate("journalctl", "--unit=coordgend", "--priority=err", "--no-pager"))
        self.configure("max-active = 3")
        self.administrate("systemctl", "restart", "coordgend")
        self.assertAnswers()

    def test_killed(self):
        self.assertAnswers()
        before = self.administrate("systemctl", "show", "--value", "--property=MainPID", "coordgend")
        self.administrate("systemctl", "kill", "--signal=KILL", "coordgend.service")
        self.assertAnswers()
        self.assertNotEqual(self.administrate("systemctl", "show", "--value", "--property=MainPID", "coordgend"), before)

    def test_limit_of_memory(self):
        """MemoryMax= is what the defaults go by."""
        self.administrate("systemctl", "set-property", "--runtime", "coordgend.service", "MemoryMax=300M")
        self.assertAnswers()
        self.assertIn("may use 300 MiB of the machine's", self.administrate("journalctl", "--unit=coordgend", "--no-pager"))
        self.assertIn("at most 30.0 MiB", self.administrate("coordgenctl", "status"))
