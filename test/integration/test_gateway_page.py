# SPDX-License-Identifier: Apache-2.0
"""The page at /: its headers and its HTML, and what it does in a browser, where one is installed."""

import base64
import hashlib
import html.parser
import json
import re
import socket
import tempfile
import unittest

import browser
from gateway import Gateway, GatewayCase
from settings import TOP

VOID = {"meta", "link", "input", "br", "hr", "img"}  # SVG's empty elements end with "/>"
SCREENSHOTS = TOP / "build" / "check" / "page"


TOKEN = "a-token-of-this-test"
# What may not be in the page's own parts.
FOREIGN = r"@import|url\(|import\(|\bimport |WebSocket|XMLHttpRequest|sendBeacon"
MARKUP = (r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\b|new Function|setHTMLUnsafe|"
          r"createContextualFragment|srcdoc")

# --- scripts in the page; each %s is a text as JSON

# An answer of which the progress of the prompt, thinking and text come one by one.
THINKING = """(() => {
    const view = chat.addView(), end = {}, seen = [];
    for (const event of [{ prompt_progress: { total: 80, processed: 20 }, choices: [{ delta: {} }] },
                         { choices: [{ delta: { reasoning_content: 'Let me <b>see</b>.' } }] },
                         { choices: [{ delta: { content: 'It is so.' } }] }]) {
        chat.take(view, event, end);
        view.drawNow();
        seen.push([view.state.hidden ? '' : view.state.innerText, view.thought.hidden, view.thought.open,
                   view.thoughtHead.textContent.split(' ')[0], view.text.textContent]);
    }
    view.finish(chat.figures(view, end));
    return [seen, view.thoughtText.textContent, view.progress.value, view.raw];
})()"""

# The names of the elements and attributes that show a text, addresses included, and the text that is seen.
SHOWN = """(() => {
    const place = document.createElement('div');
    markdown.show(%s, place);
    const all = [...place.querySelectorAll('*')];
    const attributes = all.flatMap((one) => [...one.attributes].map((a) => a.name === 'href' ? `href=${a.value}` : a.name));
    return [[...new Set(all.map((one) => one.localName))], [...new Set(attributes)], place.textContent];
})()"""

# Whether a text that grows looks like the whole one at its end, and its markup.
GROWN = """(() => {
    const text = %s, place = document.createElement('div'), whole = document.createElement('div');
    for (let n = 0; n <= text.length; n++)
        markdown.show(text.slice(0, n), place);
    markdown.show(text, whole);
    return [place.isEqualNode(whole), whole.outerHTML];
})()"""

# The different results of a stream that is cut in two anywhere, or into single bytes.
CUT = """(() => {
    const bytes = new TextEncoder().encode(%s), results = new Set(), one = new EventParser();
    for (let n = 0; n <= bytes.length; n++) {
        const parser = new EventParser();
        results.add(JSON.stringify([bytes.slice(0, n), bytes.slice(n), null].flatMap((piece) => parser.push(piece))));
    }
    const single = [...bytes].flatMap((byte) => one.push(new Uint8Array([byte])));
    results.add(JSON.stringify(single.concat(one.push(null))));
    return [...results];
})()"""


def failing(script):
    """An expression with the name of the error that a script throws."""
    return "(() => { try { %s; return 'nothing'; } catch (error) { return error.name; } })()" % script


AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}


class Outline(html.parser.HTMLParser):
    """Elements that are not closed in their order, identifiers, addresses, and what labels each control."""

    def __init__(self, text):
        super().__init__()
        self.open, self.faults, self.ids, self.addresses, self.attributes = [], [], [], [], []
        self.controls, self.labelled, self.texts = [], set(), {}
        self.feed(text)
        self.close()
        self.faults += [f"<{name}> is not closed" for name in self.open]

    def handle_starttag(self, name, attrs):
        values = dict(attrs)
        self.attributes += values
        self.addresses += [values[key] for key in ("href", "src", "action", "srcset") if key in values]
        if "id" in values:
            self.ids.append(values["id"])
        if name == "label" and "for" in values:
            self.labelled.add(values["for"])
        if name in ("input", "select", "textarea", "button"):
            self.controls.append((name, values, "label" in self.open, self.getpos()))
        if name not in VOID:
            self.open.append(name)

    def handle_startendtag(self, name, attrs):
        self.attributes += dict(attrs)

    def handle_endtag(self, name):
        if not self.open or self.open[-1] != name:
            self.faults.append(f"</{name}> at {self.getpos()} does not end <{self.open[-1] if self.open else ''}>")
        else:
            self.open.pop()

    def handle_data(self, data):
        if data.strip() and self.controls and self.open and "button" in self.open:
            self.texts[self.controls[-1][3]] = data.strip()


class Page(GatewayCase):
    daemon_options = {"model": None}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.answer = cls.gateway.request("GET", "/")
        cls.html = cls.answer.body.decode()

    def inside(self, name):
        return re.search(f"<{name}>(.*?)</{name}>", self.html, re.S)[1]

    def test_headers(self):
        headers = self.answer.headers
        self.assertEqual(self.answer.status, 200)
        self.assertEqual(headers["content-type"], "text/html; charset=utf-8")
        self.assertEqual(headers["x-content-type-options"], "nosniff")
        self.assertEqual(headers["referrer-policy"], "no-referrer")
        self.assertEqual(headers["cache-control"], "no-cache")
        self.assertEqual(headers["cross-origin-opener-policy"], "same-origin")

    def test_policy_lets_only_the_page_itself_run(self):
        policy = dict(part.strip().split(" ", 1) for part in self.answer.headers["content-security-policy"].split(";"))

        def hash_of(name):
            return "'sha256-" + base64.b64encode(hashlib.sha256(self.inside(name).encode()).digest()).decode() + "'"

        self.assertEqual(policy["default-src"], "'none'")
        self.assertEqual(policy["script-src"], hash_of("script"))
        self.assertEqual(policy["style-src"], hash_of("style"))
        self.assertEqual(policy["connect-src"], "'self'")
        self.assertEqual(policy["frame-ancestors"], "'none'")
        self.assertEqual(policy["base-uri"], "'none'")
        self.assertEqual(policy["form-action"], "'none'")
        self.assertEqual(policy["require-trusted-types-for"], "'script'")

    def test_not_sent_again_while_it_is_the_same(self):
        etag = self.answer.headers["etag"]
        self.assertEqual(etag, '"' + hashlib.sha256(self.answer.body).hexdigest() + '"')
        for tags, status in ((etag, 304), (f'"other", W/{etag}', 304), ("*", 304), ('"other"', 200)):
            answer = self.get("/", headers={"If-None-Match": tags})
            self.assertEqual((answer.status, len(answer.body)), (status, 0 if status == 304 else len(self.answer.body)), tags)
            self.assertEqual(answer.headers["etag"], etag)

    def test_other_methods_and_paths(self):
        self.assertError(self.post("/", {}), 405)
        self.assertError(self.get("/index.html"), 404)

    def test_html(self):
        outline = Outline(self.html)
        self.assertEqual(outline.faults, [])
        self.assertEqual(len(outline.ids), len(set(outline.ids)), "an id is there twice")
        self.assertEqual([name for name in outline.attributes if name.startswith("on") or name == "style"], [])
        for name, values, is_in_label, place in outline.controls:
            text = is_in_label or values.get("id") in outline.labelled or values.get("aria-label") or outline.texts.get(place)
            self.assertTrue(text, f"<{name} {values}> has no label")
        for name in re.findall(r'byId\("([^"]+)"\)', self.html):
            self.assertIn(name, outline.ids)

    def test_nothing_from_elsewhere(self):
        for address in Outline(self.html).addresses:
            self.assertTrue(address.startswith(("#", "data:image/svg+xml,")), address)
        for text in ("style", "script"):
            self.assertEqual(re.findall(FOREIGN, self.inside(text)), [])
        named = [url for url in re.findall(r"https?://[\w.-]+", self.html) if url != "http://www.w3.org"]  # SVG's own name
        self.assertEqual(named, [])

    def test_model_text_never_becomes_markup(self):
        self.assertEqual(re.findall(MARKUP, self.inside("script")), [])


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@unittest.skipUnless(browser.find(), "no Chromium is installed (tools/install-deps --browser)")
class InBrowser(GatewayCase):
    flags = ("--threads=2", "--draftdb=no")

    @classmethod
    def setUpClass(cls):
        cls.port = free_port()
        with tempfile.NamedTemporaryFile("w", prefix="coordgen-token-") as file:  # of mode 0600
            file.write(TOKEN + "\n")
            file.flush()
            cls.gateway_flags = (f"--listen=127.0.0.1:{cls.port}", f"--token-file={file.name}")
            super().setUpClass()
        try:
            cls.browser = browser.Browser()
        except BaseException:
            cls.gateway.kill()
            cls.daemon.kill()
            raise

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        super().tearDownClass()

    def setUp(self):
        self.browser.events.clear()
        self.load()
        self.browser.run(f"sessionStorage.clear(), localStorage.clear(), chat.clear(), api.token = {json.dumps(TOKEN)}")
        self.load()

    def load(self, port=None):
        self.browser.open(f"http://127.0.0.1:{port or self.port}/")
        self.browser.wait("document.querySelector('#model').selectedOptions[0].textContent.includes('(default)') && "
                          "document.querySelector('#health').dataset.state === 'ready'")

    def tearDown(self):
        super().tearDown()
        self.assertEqual(self.browser.complaints(), [])
        for request in self.browser.told("Network.requestWillBeSent"):
            self.assertTrue(request["request"]["url"].startswith((f"http://127.0.0.1:{self.port}/", "data:image/svg+xml")),
                            request["request"]["url"])

    def ask(self, text, **settings):
        """Types a message and sends it. settings: the page's own, by their ids."""
        for name, value in settings.items():
            self.browser.run(f"byId({json.dumps(name)}).value = {json.dumps(value)}, saveSettings()")
        self.browser.run("byId('prompt').focus()")
        self.browser.type(text)
        self.browser.press("Enter")

    def wait_end(self):
        self.browser.wait("chat.running === null && chat.messages.at(-1)?.role === 'assistant'")

    def without_end(self):
        """The next answers run until they are stopped: their ends by the model do not count."""
        self.browser.run("(() => { const request = chat.request; chat.request = function () {"
                         " return { ...request.call(this), ignore_eos: true }; }; return 1; })()")

    def test_answer(self):
        self.ask("Name three rivers, as a list.", temperature="0", **{"max-tokens": "40"})
        self.wait_end()
        question = {"role": "user", "content": "Name three rivers, as a list."}
        expected = self.post("/v1/chat/completions", {"messages": [question], "temperature": 0, "max_tokens": 40},
                             headers=AUTHORIZED)
        text = self.assertAnswer(expected)["choices"][0]["message"]["content"]
        self.assertEqual(self.browser.run("chat.messages.at(-1).content"), text)
        below = self.browser.run("document.querySelector('.turn.assistant .below').innerText")
        self.assertIn(f"{expected.body['usage']['completion_tokens']} tokens", below)
        self.assertIn("tokens/s", below)
        self.browser.run("document.querySelector('.drafts').open = true")
        panel = self.browser.run("document.querySelector('.drafts .panel').innerText")
        self.assertRegex(panel, r"of the model|by itself")
        self.assertRegex(panel, rf"Prompt: \d+ tokens in .+ Answer: {expected.body['usage']['completion_tokens']} tokens in ")
        self.browser.screenshot(SCREENSHOTS / "answer.png")
        # A second message carries the first ones.
        self.ask("And one lake.")
        self.wait_end()
        body = [json.loads(request["request"]["postData"]) for request in self.browser.told("Network.requestWillBeSent")
                if request["request"]["method"] == "POST"][-1]
        self.assertEqual([message["role"] for message in body["messages"]], ["user", "assistant", "user"])
        # The conversation outlives a reload, not the tab.
        self.browser.run("location.reload(), 1")
        self.browser.wait("document.readyState === 'complete' && document.querySelectorAll('.turn').length === 4")

    def test_stop(self):
        for way in (lambda: self.browser.press("Escape"), lambda: self.browser.click("#stop")):
            self.without_end()
            self.ask("Count from one to one thousand.")
            self.browser.wait("chat.running !== null && document.querySelector('.writing .text')?.innerText.length > 0")
            way()
            self.wait_end()
            self.assertIn("stopped", self.browser.run("[...document.querySelectorAll('.below')].at(-1).innerText"))
            self.daemon.wait_idle()
            self.setUp()

    def test_connection_lost(self):
        port = free_port()
        with tempfile.NamedTemporaryFile("w", prefix="coordgen-token-") as file:
            file.write(TOKEN + "\n")
            file.flush()
            other = Gateway(self.daemon, f"--listen=127.0.0.1:{port}", f"--token-file={file.name}")
        self.addCleanup(other.kill)
        self.load(port)
        self.browser.run(f"api.token = {json.dumps(TOKEN)}")
        self.without_end()
        self.ask("Count from one to one thousand.")
        self.browser.wait("chat.running !== null && document.querySelector('.writing .text')?.innerText.length > 0")
        other.kill()
        self.wait_end()
        self.assertIn("broken off", self.browser.run("document.querySelector('[role=alert]').innerText"))
        self.assertNotEqual(self.browser.run("chat.messages.at(-1).content"), "")
        self.ask("Are you there?")
        self.wait_end()
        self.assertIn("cannot be reached", self.browser.run("[...document.querySelectorAll('[role=alert]')].at(-1).innerText"))
        self.daemon.wait_idle()
        self.browser.events.clear()

    def test_thinking_is_folded(self):
        """None of the models that are fetched thinks: the events are made here."""
        shown = self.browser.run(THINKING)
        self.assertEqual(shown, [[["Reading the prompt", True, False, "Thinking", ""], ["", False, False, "Thinking", ""],
                                  ["", False, False, "Thought", "It is so."]], "Let me <b>see</b>.", 0.25, "It is so."])

    def test_keys(self):
        self.browser.run("document.activeElement.blur()")
        self.browser.press("/")
        self.assertEqual(self.browser.run("document.activeElement.id"), "prompt")
        self.browser.type("one\ntwo")
        self.assertGreater(self.browser.run("byId('prompt').offsetHeight"), 50)
        self.assertEqual(self.browser.run("byId('send').disabled"), False)
        self.browser.run("byId('prompt').value = '  ', fitPrompt()")
        self.browser.press("Enter")
        self.assertEqual(self.browser.run("[byId('send').disabled, chat.messages.length]"), [True, 0])

    def test_edit(self):
        self.ask("Say one.", temperature="0", **{"max-tokens": "3"})
        self.wait_end()
        self.ask("Say two.")
        self.browser.wait("chat.running === null && chat.messages.length === 4")
        self.browser.run("document.querySelectorAll('.turn.user button')[0].click()")
        self.assertEqual(self.browser.run("[byId('prompt').value, chat.messages.length, byId('log').childElementCount]"),
                         ["Say one.", 0, 0])
        self.assertEqual(self.browser.run("byId('welcome').hidden"), False)

    def test_settings_are_sent_and_kept(self):
        self.browser.click("#open-settings")
        self.browser.run("byId('system').focus()")
        self.browser.type("Answer in one word.")
        self.browser.run("byId('temperature').focus()")
        self.browser.type("0.5")
        self.browser.run("byId('speculation').value = 'off', byId('thinking').value = '0', byId('no-history').click()")
        self.browser.screenshot(SCREENSHOTS / "settings.png")
        self.browser.press("Escape")
        self.browser.wait("!document.querySelector('dialog[open]')")
        self.load()
        body = json.loads(self.browser.run("JSON.stringify(chat.request())"))
        self.assertEqual(body, {"messages": [{"role": "system", "content": "Answer in one word."}], "stream": True,
                                "stream_options": {"include_usage": True}, "return_progress": True, "explain": True,
                                "temperature": 0.5, "thinking_tokens": 0, "speculation": "off", "no_history": True})

    def test_token(self):
        self.browser.run("api.token = ''")
        self.load()
        self.ask("Hello.", **{"max-tokens": "4"})
        self.browser.wait("document.querySelector('#token-dialog').open && document.activeElement.id === 'token'")
        self.browser.screenshot(SCREENSHOTS / "token.png")
        self.browser.type("another token")
        self.browser.press("Enter")
        self.browser.wait("document.querySelector('#token-dialog').open && byId('token-why').innerText.includes('refused')")
        self.browser.type(TOKEN)
        self.browser.press("Enter")
        self.wait_end()
        self.assertNotEqual(self.browser.run("chat.messages.at(-1).content"), "")
        self.assertEqual(self.browser.run("sessionStorage.getItem('coordgen-token')"), TOKEN)
        self.assertNotIn(TOKEN, self.browser.run("JSON.stringify(localStorage)"))
        # Without one, the request has failed, and says why.
        self.browser.run("byId('forget-token').click()")
        self.ask("Hello again.")
        self.browser.wait("document.querySelector('#token-dialog').open")
        self.browser.press("Escape")
        self.wait_end()
        self.assertIn("Not permitted", self.browser.run("document.querySelector('[role=alert]:not([hidden])').innerText"))

    def test_refused(self):
        self.ask("Hello.", temperature="500")
        self.wait_end()
        told = self.browser.run("document.querySelector('[role=alert]').innerText")
        self.assertIn("temperature", told)
        # A question without an answer is not part of the conversation; it can be asked again.
        self.browser.run("byId('temperature').value = '0', byId('max-tokens').value = '4', saveSettings()")
        self.assertEqual(self.browser.run("chat.messages.push({role: 'user', content: 'Next.'}) && chat.request().messages"),
                         [{"role": "user", "content": "Next."}])
        self.browser.run("chat.messages.pop()")
        self.browser.run("[...document.querySelectorAll('.actions button')].find((b) => b.textContent === 'Try again').click()")
        self.browser.wait("chat.running === null && chat.messages.length === 2 && chat.messages[1].content !== ''")

    def test_text_of_the_model_stays_text(self):
        hostile = ["<img src=x onerror=alert(1)>", "<script>alert(1)</script>", "[a](javascript:alert(1))", "**<b>bold</b>**",
                   "![x](http://example.com/x.png)", "`<i>`",
                   "| <u>a</u> | b |\n| --- | --- |\n| <svg/onload=alert(1)> | [c](data:text/html,x) |",
                   "> <iframe src=x>", "- <object data=x>\n  - **deep** _mark_", "# <h1>",
                   "```<style>\n</style><style>*{display:none}\n```", "[ok](https://example.com/a_(b))", "&lt;b&gt;",
                   "\\*not\\* 2 * 3 * 4 snake_case_name", "[x](JAVASCRIPT:alert(1)) [y](vbscript:x)"]
        names, attributes, text = self.browser.run(SHOWN % json.dumps("\n\n".join(hostile)))
        self.assertLessEqual(set(names), set("p strong em code pre div span button table thead tbody tr th td blockquote ul li a "
                                             "h2".split()))
        self.assertLessEqual(set(attributes), {"class", "type", "target", "rel", "href=https://example.com/a_(b)",
                                               "href=http://example.com/x.png"})
        for piece in ("<img src=x onerror=alert(1)>", "<script>alert(1)</script>", "<b>bold</b>", "<svg/onload=alert(1)>",
                      "&lt;b&gt;", "*not* 2 * 3 * 4 snake_case_name", "javascript:alert(1)"):
            self.assertIn(piece, text)

    def test_markdown(self):
        is_same, shown = self.browser.run(GROWN % json.dumps(
            "# Title\n\nOne *two* **three** `four`\nfive\n\n1. a\n2. b\n   - c\n\n"
            "```python\nx = [1]\n\n# no heading\n```\n\n| a | b |\n|---|:-:|\n| 1 | 2 |\n\n"
            "> said\n\n---\nend ~~gone~~ __x__ https://example.com/."))
        self.assertTrue(is_same, "a text that grows is shown in another way than the whole one")
        for part in ("<h2>Title</h2>", "<em>two</em> <strong>three</strong> <code>four</code>",
                     "<ol><li>a</li><li>b<ul><li>c</li></ul></li></ol>", "<span>python</span>",
                     "<code>x = [1]\n\n# no heading</code>", "<th>a</th><th>b</th>", "<td>1</td><td>2</td>",
                     "<blockquote><p>said</p></blockquote><hr>", "<del>gone</del> <strong>x</strong>",
                     ">https://example.com/</a>."):
            self.assertIn(part, shown)

    def test_events_however_they_are_cut(self):
        stream = (": comment\r\n\r\ndata: {\"a\":1}\n\ndata:two\r\ndata: lines\r\n\r\n"
                  "event: x\rdata: größe ✓\r\rid: 3\n\ndata: last\n\n")
        found = self.browser.run(CUT % json.dumps(stream))
        self.assertEqual([json.loads(text) for text in found], [['{"a":1}', "two\nlines", "größe ✓", "last"]])

    def test_policy_holds_in_the_browser(self):
        self.assertEqual(self.browser.run(failing("document.body.innerHTML = '<b>x</b>'")), "TypeError")
        self.assertEqual(self.browser.run(failing("(0, eval)('1')")), "EvalError")
        self.browser.events.clear()  # both were complained of

    def test_looks(self):
        """Light and dark, wide and narrow: nothing is wider than the window."""
        self.browser.screenshot(SCREENSHOTS / "welcome.png")
        self.ask("Write a Python function that adds two numbers, with an example.", temperature="0", **{"max-tokens": "120"})
        self.wait_end()
        for name, width, height, scheme in (("wide-dark", 1200, 860, "dark"), ("narrow-light", 390, 780, "light"),
                                            ("narrow-dark", 320, 640, "dark")):
            self.browser.resize(width, height, mobile=width < 600)
            self.browser.colours(scheme)
            self.browser.screenshot(SCREENSHOTS / f"{name}.png")
            self.assertLessEqual(self.browser.run("document.documentElement.scrollWidth"), width)
        self.browser.resize(1200, 860)
        self.browser.colours("")


if __name__ == "__main__":
    unittest.main()
