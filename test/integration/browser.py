# SPDX-License-Identifier: Apache-2.0
"""A Chromium without a window, driven by the DevTools protocol over a pair of pipes."""

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from settings import SLOW

NAMES = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome")
# The protocol's pipes are descriptors 3 and 4; this program puts them there, whatever their numbers are here.
LAUNCH = "import fcntl, os, sys\n" \
         "a, b = (fcntl.fcntl(int(fd), fcntl.F_DUPFD, 10) for fd in sys.argv[1:3])\n" \
         "os.dup2(a, 3), os.dup2(b, 4)\n" \
         "os.execvp(sys.argv[3], sys.argv[3:])\n"


def find():
    """The path of a Chromium, or None."""
    return os.environ.get("COORDGEN_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


class BrowserError(AssertionError):
    """The browser, or a script in the page, has failed."""


class Browser:
    """One page. events has what the browser told: requests, errors of scripts, breaches of the page's policy."""

    def __init__(self, width=1200, height=860):
        self.folder = Path(tempfile.mkdtemp(prefix="coordgen-browser-"))
        their_in, our_out = os.pipe()
        our_in, their_out = os.pipe()
        flags = ["--headless", "--remote-debugging-pipe", f"--user-data-dir={self.folder}", f"--window-size={width},{height}",
                 "--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions", "--disable-background-networking",
                 "--disable-component-update", "--disable-sync", "--no-first-run", "--no-default-browser-check",
                 "--hide-scrollbars", "--mute-audio"]
        if os.geteuid() == 0:
            flags.append("--no-sandbox")  # root has none
        with open(self.folder / "log", "wb") as log:
            self.process = subprocess.Popen([sys.executable, "-c", LAUNCH, str(their_in), str(their_out), find(), *flags,
                                             "about:blank"],
                                            pass_fds=(their_in, their_out), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            start_new_session=True)
        os.close(their_in)
        os.close(their_out)
        self.out, self.input, self.rest = our_out, our_in, b""
        self.last_id, self.session, self.events = 0, None, []
        try:
            target = self.send("Target.createTarget", url="about:blank")["targetId"]
            self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Network", "Log"):
                self.send(f"{domain}.enable")
            self.resize(width, height)
        except BaseException:
            self.close()
            raise

    def read(self, deadline):
        """The next message."""
        while b"\0" not in self.rest:
            if not select.select([self.input], [], [], max(deadline - time.monotonic(), 0))[0]:
                raise BrowserError("the browser does not answer")
            piece = os.read(self.input, 1 << 20)
            if not piece:
                raise BrowserError("the browser has ended:\n" + (self.folder / "log").read_text(errors="replace")[-2000:])
            self.rest += piece
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def send(self, method, **params):
        """One command; its result."""
        self.last_id += 1
        message = {"id": self.last_id, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.out, data):]
        deadline = time.monotonic() + 60 * SLOW
        while True:
            answer = self.read(deadline)
            if answer.get("id") == self.last_id:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']}")
                return answer["result"]
            if "method" in answer:
                self.events.append(answer)

    def told(self, method):
        """The parameters of all events of a kind."""
        return [event["params"] for event in self.events if event["method"] == method]

    def complaints(self):
        """What scripts have thrown, and what the browser has logged as an error: breaches of a policy, for one."""
        thrown = [event["exceptionDetails"].get("exception", {}).get("description", event["exceptionDetails"]["text"])
                  for event in self.told("Runtime.exceptionThrown")]
        return thrown + [event["entry"]["text"] for event in self.told("Log.entryAdded")
                         if event["entry"]["level"] == "error" and event["entry"]["source"] != "network"]

    def open(self, url):
        self.send("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def run(self, script):
        """The value of an expression in the page; a promise is waited for."""
        result = self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True, userGesture=True,
                           allowUnsafeEvalBlockedByCSP=False)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise BrowserError(f"{script}: {details.get('exception', {}).get('description', details['text'])}")
        return result["result"].get("value")

    def wait(self, condition, timeout=60):
        """Waits until an expression is true; its value."""
        deadline = time.monotonic() + timeout * SLOW
        while True:
            value = self.run(condition)
            if value:
                return value
            if time.monotonic() > deadline:
                text = self.run("document.body.innerText")
                raise BrowserError(f"not within {timeout * SLOW:g} s: {condition}\n{self.complaints()}\n{text[-2000:]}")
            time.sleep(0.02)

    def type(self, text):
        self.send("Input.insertText", text=text)

    def press(self, key):
        codes = {"Enter": 13, "Escape": 27, "/": 191}
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=codes[key],
                      text="\r" if key == "Enter" and kind == "keyDown" else "")

    def click(self, selector):
        """A click of the mouse in the middle of an element, if nothing else is above it there."""
        place = self.run(f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
                         " const r = e.getBoundingClientRect(); const x = r.x + r.width / 2, y = r.y + r.height / 2;"
                         " return e.contains(document.elementFromPoint(x, y)) ? {x, y} : null; })()")
        if not place:
            raise BrowserError(f"{selector} cannot be clicked")
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **place)

    def resize(self, width, height, mobile=False):
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)

    def colours(self, scheme):
        """light or dark, as the system would ask for."""
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def screenshot(self, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"]))

    def close(self):
        with contextlib.suppress(OSError):
            os.close(self.out)  # the browser ends with its pipe
        try:
            self.process.wait(10 * SLOW)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        with contextlib.suppress(OSError):
            os.close(self.input)
        shutil.rmtree(self.folder, ignore_errors=True)
