# SPDX-License-Identifier: Apache-2.0
"""What `make install` lays down, seen by a third party: an example built against the installed library, uninstall."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from daemon import SANITIZER, DaemonCase
from settings import BUILD, MODEL, SANITIZED, SLOW, TOP

COMPILERS = [name for name in ("gcc", "clang", "g++") if shutil.which(name)]


@unittest.skipIf(SANITIZED, "a sanitized build is not one to install")
class Install(DaemonCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.root = Path(tempfile.mkdtemp(prefix="coordgen-install-"))
        cls.installed = cls.make("install").stdout.splitlines()

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.root)
        super().tearDownClass()

    @classmethod
    def make(cls, goal):
        environment = {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
        # As make itself names it: another name is another flag, and everything would be compiled again.
        build = os.path.relpath(BUILD, TOP)
        run = subprocess.run(["make", "-s", "-C", str(TOP), f"BUILD={build}", goal, f"DESTDIR={cls.root}", "PREFIX=/usr"],
                             capture_output=True, text=True, env=environment, stdin=subprocess.DEVNULL)
        if run.returncode:
            raise AssertionError(f"make {goal}: {run.stdout[-2000:]}{run.stderr[-2000:]}")
        return run

    def files(self):
        return {str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file() or path.is_symlink()}

    def path(self, pattern):
        found = [self.root / name for name in self.files() if re.fullmatch(pattern, name)]
        self.assertEqual(len(found), 1, f"{pattern}: {found}")
        return found[0]

    def test_everything_is_there(self):
        for pattern in (r"usr/bin/coordgend", r"usr/lib/coordgen/fetch-model",
                        r"usr/lib/coordgen/models\.json", r"usr/bin/coordgenctl", r"usr/bin/coordgen-eval", r"usr/bin/coordgen-bench",
                        r"usr/bin/coordgen-train-exit", r"usr/share/man/man1/coordgen-train-exit\.1",
                        r"usr/share/bash-completion/completions/coordgen-train-exit",
                        r"usr/include/coordgen-client\.h",
                        r"usr/lib/.*/libcoordgen-client\.so\.0", r"usr/lib/.*/libcoordgen-client\.so",
                        r"usr/lib/.*/libcoordgen-client\.a", r"usr/lib/.*/pkgconfig/libcoordgen-client\.pc",
                        r"usr/lib/systemd/system/coordgend\.service", r"usr/lib/systemd/system/coordgend\.socket",
                        r"usr/lib/systemd/user/coordgend\.service", r"usr/lib/systemd/user/coordgend\.socket",
                        r"usr/lib/systemd/user/coordgend-admin\.socket", r"usr/lib/systemd/system/coordgend-admin\.socket", r"usr/lib/sysusers\.d/coordgen\.conf",
                        r"usr/lib/tmpfiles\.d/coordgen\.conf", r"usr/share/man/man1/coordgenctl\.1",
                        r"usr/share/man/man1/coordgen-eval\.1", r"usr/share/man/man1/coordgen-bench\.1",
                        r"usr/bin/coordgen-httpd", r"usr/lib/systemd/user/coordgen-httpd\.service",
                        r"usr/lib/systemd/user/coordgen-httpd\.socket", r"usr/share/man/man8/coordgen-httpd\.8",
                        r"usr/share/bash-completion/completions/coordgen-httpd",
                        r"usr/share/man/man8/coordgend\.8", r"usr/share/bash-completion/completions/coordgenctl",
                        r"usr/share/bash-completion/completions/coordgen-eval",
                        r"usr/share/bash-completion/completions/coordgen-bench", r"usr/share/coordgen/coordgen\.proto",
                        r"usr/share/doc/coordgen/protocol\.md", r"usr/share/doc/coordgen/LICENSE"):
            self.path(pattern)

    def test_documents_that_are_named_are_there(self):
        """Each document that an installed page, header or configuration names, and each that a document shows."""
        folder = self.root / "usr/share/doc/coordgen"
        documents = {str(path.relative_to(folder)) for path in folder.rglob("*")}
        named = set()
        for name in self.files():
            path = self.root / name
            if path.suffix in (".1", ".3", ".5", ".8", ".h", ".conf", ".proto"):
                text = path.read_text().replace("\\-", "-")
                self.assertNotRegex(text, r"\bdocs/\w", f"{name}: the documents are in share/doc/coordgen")
                named |= set(re.findall(r"[\w.-]+\.md\b", text))
            elif path.parent.name == "coordgen" and path.suffix == ".md":
                named |= set(re.findall(r"\]\(((?:lab/)?[\w.-]+\.(?:md|svg|csv))[#)]", path.read_text()))
            elif path.parent.name == "lab" and path.suffix == ".md":
                names = re.findall(r"\]\(((?:\.\./)?[\w.-]+\.(?:md|svg|csv))[#)]", path.read_text())
                named |= {name[3:] if name.startswith("../") else f"lab/{name}" for name in names}
        self.assertLessEqual({"privacy.md", "speculation.md", "protocol.md", "performance.md", "lab/prefill.svg"}, named)
        self.assertEqual(named - documents, set())

    def test_wire_contract_is_where_pkg_config_says(self):
        [found] = self.pkg_config("--variable=protofile")
        found = found.removeprefix(str(self.root))  # some versions of pkg-config put the sysroot before it
        self.assertEqual(found, "/usr/share/coordgen/coordgen.proto")
        self.assertEqual((self.root / found[1:]).read_bytes(), (TOP / "proto/coordgen.proto").read_bytes())

    def test_licences_of_what_is_linked(self):
        text = self.path(r"usr/share/doc/coordgen/copyright").read_text()
        self.assertTrue(text.startswith("Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n"))
        used = re.search(r"(?m)^PKGS := ((?:.*\\\n)*.*)$", (TOP / "Makefile").read_text())[1].replace("\\\n", "").split()
        self.assertEqual([name for name in used if not re.search(rf"(?m)^  {re.escape(name)}  +\S", text)], [])
        # What a stanza names is there.
        for names in re.findall(r"(?m)^Files: (.*(?:\n [^\n]*)*)", text):
            for name in names.split():
                self.assertTrue(list(TOP.glob(name)), name)

    def test_nothing_of_the_build_machine_is_left_in_texts(self):
        for name in self.files():
            path = self.root / name
            if path.suffix in (".pc", ".service", ".socket", ".conf", ".1", ".5", ".8", ".3", ".h"):
                text = path.read_text()
                self.assertNotRegex(text, r"@[A-Z_]+@", name)
                self.assertNotIn(str(self.root), text, name)
                self.assertNotIn(str(TOP), text, name)

    def test_folders_are_chosen(self):
        """Of programs and of packaging, by the same variables."""
        build = tempfile.mkdtemp(prefix="coordgen-folders-")
        self.addCleanup(shutil.rmtree, build)
        chosen = ["RUNTIMEDIR=/srv/run", "STATEDIR=/srv/state", "CACHEDIR=/srv/cache", "SYSCONFDIR=/srv/etc"]
        units = ["systemd/coordgend.socket", "systemd/coordgend-admin.socket", "tmpfiles.d/coordgen.conf"]
        objects = ["client/service_socket", "model/model_dir", "daemon/config/config"]
        goals = [f"{build}/packaging/{unit}" for unit in units] + [f"{build}/obj/{name}.o" for name in objects]
        run = subprocess.run(["make", "-s", "-C", str(TOP), f"BUILD={build}", "OPT=-O0", *chosen, *goals], capture_output=True,
                             text=True, env={key: value for key, value in os.environ.items() if not key.startswith("MAKE")})
        self.assertEqual(run.returncode, 0, run.stderr)
        for name, words in zip(units + objects, (
                ["ListenStream=/srv/run/coordgen/api.sock"], ["ListenStream=/srv/run/coordgen/admin.sock"],
                ["/srv/run/coordgen ", "/srv/state/coordgen/models ", "/srv/cache/coordgen "],
                ["/srv/run/coordgen/api.sock"], ["/srv/state/coordgen/models"], ["/srv/cache/coordgen", "/srv/etc"])):
            folder, suffix = ("packaging", "") if name in units else ("obj", ".o")
            content = Path(build, folder, name + suffix).read_bytes()
            for word in words:
                self.assertTrue(word.encode() in content, f"{word} in {name}")
        run = subprocess.run(["make", "-s", "-C", str(TOP), f"BUILD={build}", "STATEDIR=state", "help"], capture_output=True,
                             text=True)
        self.assertIn("STATEDIR=state: say an absolute path", run.stderr)

    def test_units(self):
        service = self.path(r"usr/lib/systemd/system/coordgend\.service")
        self.assertIn("ExecStart=/usr/bin/coordgend", service.read_text())
        # A reload with a wrong file fails before the service hears of it; nothing that goes wrong takes the sockets down.
        self.assertRegex(service.read_text(), r"(?m)^ExecReload=/usr/bin/coordgend --check-config\nExecReload=/bin/sh -c 'kill")
        for line in ("StartLimitIntervalSec=0", "RestartSec=3s", "RestartPreventExitStatus=2 4 78", "LimitCORE=0"):
            self.assertRegex(service.read_text(), f"(?m)^{line}$")
        # Of @resources, which is taken out as a whole, what the service is to do comes back.
        allowed = service.read_text().partition("~@privileged @resources")[2]
        for call in ("mincore", "setpriority", "ioprio_set", "sched_setaffinity"):
            self.assertRegex(allowed, rf"(?m)^SystemCallFilter=(?!~).*\b{call}\b")
        if shutil.which("systemd-analyze"):
            # The program must be where the unit says, so the check runs on a copy that names the installed one.
            folder = Path(tempfile.mkdtemp(prefix="coordgen-units-"))
            self.addCleanup(shutil.rmtree, folder)
            for unit in service.parent.iterdir():
                (folder / unit.name).write_text(unit.read_text().replace("/usr/bin/coordgend", str(self.root / "usr/bin/coordgend")))
            # The drop-in for devices is one that the service manager understands.
            drop_in = self.path(r"usr/share/doc/coordgen/examples/coordgend-device\.conf").read_text()
            self.assertIn("\nPrivateDevices=no\n", drop_in)
            with_devices = folder / "with-devices"
            with_devices.mkdir()
            (with_devices / "coordgend.service").write_text((folder / "coordgend.service").read_text())
            (with_devices / "coordgend.service.d").mkdir()
            for name, text in (("all.conf", re.sub(r"(?m)^#(\w+=)", r"\1", drop_in)), ("device.conf", drop_in)):
                (with_devices / "coordgend.service.d" / name).write_text(text)
                run = subprocess.run(["systemd-analyze", "verify", "--man=no", str(with_devices / "coordgend.service")],
                                     capture_output=True, text=True, env=dict(os.environ, SYSTEMD_LOG_LEVEL="warning"))
                self.assertEqual([line for line in run.stderr.splitlines() if "device" in line], [], run.stderr)
            shutil.rmtree(with_devices)
            run = subprocess.run(["systemd-analyze", "verify", "--man=no", *map(str, folder.iterdir())], capture_output=True,
                                 text=True, env=dict(os.environ, SYSTEMD_LOG_LEVEL="warning"))
            ours = [line for line in run.stderr.splitlines() if "coordgen" in line]
            self.assertEqual(ours, [], run.stderr)
            self.assertLessEqual(self.exposure(folder / "coordgend.service"), 1.0)

    def exposure(self, unit):
        run = subprocess.run(["systemd-analyze", "security", "--offline=true", str(unit)], capture_output=True, text=True)
        exposure = re.search(r"Overall exposure level.*?: ([0-9.]+)", run.stdout)
        self.assertTrue(exposure, run.stdout[-500:] + run.stderr)
        return float(exposure[1])

    @unittest.skipUnless(shutil.which("systemd-analyze"), "no systemd-analyze")
    def test_units_of_the_gateway(self):
        """The user's unit and the example for a whole machine: understood, and sandboxed. Drop-ins change nothing of that."""
        examples = self.path(r"usr/share/doc/coordgen/examples/coordgen-httpd-system\.service").parent
        for name, service, sockets in (
                ("of a user", self.path(r"usr/lib/systemd/user/coordgen-httpd\.service"), ["coordgen-httpd.socket"]),
                ("of the machine", examples / "coordgen-httpd-system.service", ["coordgen-httpd-system.socket"])):
            with self.subTest(name=name):
                text = service.read_text()
                self.assertIn("\nExecStart=/usr/bin/coordgen-httpd ", text)
                folder = Path(tempfile.mkdtemp(prefix="coordgen-units-"))
                self.addCleanup(shutil.rmtree, folder)
                unit = folder / "coordgen-httpd.service"
                unit.write_text(text.replace("/usr/bin/coordgen-httpd", str(self.root / "usr/bin/coordgen-httpd")))
                for socket in sockets:
                    shutil.copy(service.parent / socket, folder / socket.replace("-system", ""))
                for drop_in in ("socket", "service") if name == "of a user" else ():
                    target = folder / f"coordgen-httpd.{drop_in}.d" / "tcp.conf"
                    target.parent.mkdir()
                    target.write_text((examples / f"coordgen-httpd-tcp-{drop_in}.conf").read_text()
                                      .replace("/usr/bin/coordgen-httpd", str(self.root / "usr/bin/coordgen-httpd")))
                run = subprocess.run(["systemd-analyze", "verify", "--man=no", *map(str, folder.glob("*.s*t")), str(unit)],
                                     capture_output=True, text=True, env=dict(os.environ, SYSTEMD_LOG_LEVEL="warning"))
                self.assertEqual([line for line in run.stderr.splitlines() if "coordgen" in line or "tcp.conf" in line], [])
                self.assertLessEqual(self.exposure(unit), 1.5)

    def pkg_config(self, *args):
        pc = self.path(r"usr/lib/.*/pkgconfig/libcoordgen-client\.pc")
        environment = dict(os.environ, PKG_CONFIG_PATH=str(pc.parent), PKG_CONFIG_SYSROOT_DIR=str(self.root))
        run = subprocess.run(["pkg-config", *args, "libcoordgen-client"], capture_output=True, text=True, env=environment)
        self.assertEqual(run.returncode, 0, run.stderr)
        return run.stdout.split()

    def test_example_with_the_shared_library(self):
        library = self.path(r"usr/lib/.*/libcoordgen-client\.so").parent
        for compiler in (name for name in COMPILERS if name != "g++"):
            with self.subTest(compiler=compiler):
                program = self.root / f"example-{compiler}"
                subprocess.run([compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", str(TOP / "client/example/summarise.c"),
                                *self.pkg_config("--cflags", "--libs"), "-o", str(program)], check=True)
                self.run_example(program, {"LD_LIBRARY_PATH": str(library)})
                program.unlink()

    def test_example_with_the_static_library(self):
        archive = self.path(r"usr/lib/.*/libcoordgen-client\.a")
        program = self.root / "example-static"
        flags = [flag for flag in self.pkg_config("--cflags", "--libs", "--static") if flag != "-lcoordgen-client"]
        subprocess.run(["gcc", str(TOP / "client/example/summarise.c"), str(archive), *flags, "-o", str(program)], check=True)
        self.run_example(program, {})
        program.unlink()

    def test_other_examples_build(self):
        program = self.root / "example-other"
        for source in sorted((TOP / "client/example").glob("*.c")):
            with self.subTest(source.name):
                subprocess.run(["gcc", "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", str(source),
                                *self.pkg_config("--cflags", "--libs"), "-pthread", "-lm", "-o", str(program)], check=True)
                program.unlink()

    def run_example(self, program, environment):
        text = TOP / "packaging/examples/article.txt"
        run = subprocess.run([program, text], capture_output=True, text=True, timeout=300 * SLOW, stdin=subprocess.DEVNULL,
                             env={**os.environ, **environment, "COORDGEN_SOCKET": str(self.daemon.api)})
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertFalse(SANITIZER.search(run.stderr), run.stderr)
        self.assertGreater(len(run.stdout.strip()), 20, run.stdout)

    def test_the_documents_example(self):
        """Built as it stands; it fails with a word where there is no service, and answers where there is one."""
        [code] = re.findall(r"(?s)```c\n(.*?)```", (TOP / "docs/client.md").read_text())
        source, program = self.root / "app.c", self.root / "app"
        source.write_text(code)
        subprocess.run(["gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", str(source), *self.pkg_config("--cflags", "--libs"),
                        "-o", str(program)], check=True)
        library = self.path(r"usr/lib/.*/libcoordgen-client\.so").parent
        environment = {**os.environ, "LD_LIBRARY_PATH": str(library), "COORDGEN_SOCKET": "/nonexistent/api.sock"}
        run = subprocess.run([program], env=environment, capture_output=True, text=True, timeout=60 * SLOW)
        self.assertEqual((run.returncode, run.stdout), (1, ""))
        self.assertIn("/nonexistent/api.sock", run.stderr)
        environment["COORDGEN_SOCKET"] = str(self.daemon.api)
        run = subprocess.run([program], env=environment, capture_output=True, text=True, timeout=300 * SLOW)
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.assertTrue(run.stdout.strip())
        source.unlink()
        program.unlink()

    @unittest.skipUnless("g++" in COMPILERS, "no C++ compiler")
    def test_header_is_good_cpp(self):
        source = self.root / "h.cpp"
        source.write_text("#include <coordgen-client.h>\nint main() { return coordgen_client_version() == nullptr; }\n")
        subprocess.run(["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-pedantic", str(source),
                        *self.pkg_config("--cflags", "--libs"), "-o", str(self.root / "h")], check=True)
        source.unlink()
        (self.root / "h").unlink()

    def test_public_names_only(self):
        for pattern, flags in ((r"usr/lib/.*/libcoordgen-client\.so\.\d+\.\d+\.\d+", ["-D"]),
                               (r"usr/lib/.*/libcoordgen-client\.a", ["-g"])):
            run = subprocess.run(["nm", *flags, "--defined-only", str(self.path(pattern))], capture_output=True, text=True,
                                 check=True)
            names = {line.split()[-1].split("@")[0] for line in run.stdout.splitlines() if len(line.split()) == 3}
            names -= {"LIBCOORDGEN_CLIENT_0"}
            self.assertGreater(len(names), 30)
            texts = (path.read_text() for path in sorted((TOP / "client").glob("coordgen-client*.h")))
            header = re.sub(r"/\*.*?\*/", "", "".join(texts), flags=re.S)
            declared = re.findall(r"^COORDGEN_PUBLIC\s[^;(]*?\b(\w+)\(", header, re.M)
            listed = re.findall(r"^    (\w+);", (TOP / "client/libcoordgen-client.map").read_text(), re.M)
            self.assertEqual(sorted(names), sorted(declared))
            self.assertEqual(sorted(declared), listed)

    def test_uninstall_leaves_nothing(self):
        second = Path(tempfile.mkdtemp(prefix="coordgen-install-"))
        self.addCleanup(shutil.rmtree, second)
        first, type(self).root = self.root, second
        try:
            self.make("install")
            self.assertTrue(self.files())
            run = self.make("uninstall")
            self.assertEqual((self.files(), run.stdout), (set(), ""))
            self.assertFalse((self.root / "usr/share/coordgen").exists())
            # What a service has made stays, and is named with the command that removes it.
            for name in ("etc/coordgen/coordgend.conf", "var/lib/coordgen/models/a.cgm"):
                (second / name).parent.mkdir(parents=True)
                (second / name).write_text("x" * 5000)
            run = self.make("uninstall")
            self.assertEqual(self.files(), {"etc/coordgen/coordgend.conf", "var/lib/coordgen/models/a.cgm"})
            for name in ("/etc/coordgen", "/var/lib/coordgen"):
                self.assertRegex(run.stdout, rf"(?m)^Left: {re.escape(str(second))}{name} \(\d+K\)\. To remove it: rm -r ")
            self.assertNotIn("/var/cache", run.stdout)
        finally:
            type(self).root = first


class Scripts(unittest.TestCase):
    def packages(self, *words):
        return subprocess.run([TOP / "tools/install-deps", "--list", *words], capture_output=True, text=True, check=True,
                              stdin=subprocess.DEVNULL).stdout.split()

    def test_packages_to_build_with(self):
        """What the demonstration installs: no tool of the tests."""
        few, all_of_them = self.packages("--build"), self.packages()
        self.assertLess(set(few), set(all_of_them))
        self.assertEqual({name for name in few if re.match("clang|lld|libclang|libcmocka|systemd$|protobuf-compiler", name)}, set())
        self.assertLessEqual({"build-essential", "libevent-dev", "protobuf-c-compiler", "python3-pip"}, set(few))
        said = subprocess.run(["make", "-n", "-C", TOP, "demo"], capture_output=True, text=True, check=True,
                              env={**os.environ, "MAKEFLAGS": "", "MAKELEVEL": ""}, stdin=subprocess.DEVNULL).stdout
        self.assertEqual(re.findall(r"tools/(?:install-deps --build|install-deps|demo)", said), ["tools/install-deps --build", "tools/demo"])

    @unittest.skipIf(BUILD != TOP / "build", "the demonstration is of the build that make makes")
    def test_demo(self):
        with tempfile.TemporaryDirectory(prefix="coordgen-") as folder:
            prompt = Path(folder, "question.txt")
            prompt.write_text("Name a river.")
            run = subprocess.run([TOP / "tools/demo", "--model", MODEL, "--prompt", prompt], capture_output=True, text=True,
                                 timeout=300 * SLOW, stdin=subprocess.DEVNULL,
                                 env={**os.environ, "XDG_CACHE_HOME": folder, "XDG_RUNTIME_DIR": folder})
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertTrue(run.stdout.strip())
        for step in ("== building", "== asking: Name a river. (3 words)", "sampling: temperature 0 (request)",
                     "== coordgend has stopped"):
            self.assertIn(step, run.stderr)


if __name__ == "__main__":
    unittest.main()
