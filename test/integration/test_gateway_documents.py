# SPDX-License-Identifier: Apache-2.0
"""The gateway's pages name every path and every field of its tables, and no path that there is not."""

import re
import unittest

from settings import TOP

FIELD = re.compile(r'^\s*(?:static const FieldTable .*)?\{ "([a-z][\w.]*)", (?:field_|set_|check_|NULL)|^\s*X\("([a-z][\w.]*)"', re.M)
# What the table of a field inside another field has, and fields of events.
INNER = {"id", "type", "function", "index", "arguments", "schema", "strict", "description", "text", "time", "name", "mode", "parameters"}


class Documents(unittest.TestCase):
    def test_every_field_is_named(self):
        text = (TOP / "docs" / "gateway-fields.md").read_text()
        named = set(re.findall(r"[a-z]\w*", " ".join(re.findall(r"`([^`\n]*)`", text))))
        seen = set()
        for folder in ("request", "endpoints"):
            for path in (TOP / "gateway" / folder).glob("*.c"):
                for match in FIELD.finditer(path.read_text()):
                    field = match[1] or match[2]
                    seen.add(field)
                    with self.subTest(file=path.name, field=field):
                        self.assertTrue(field in INNER or field.partition(".")[0] in named)
        self.assertGreater(len(seen), 90, "the tables look otherwise: correct the pattern")

    def test_every_path_is_named(self):
        text = (TOP / "docs" / "gateway.md").read_text()
        named = set(re.findall(r"`(?:GET |POST )?(/[^` \n]*)`", text))
        routes = re.findall(r'\{ "(?:GET|POST)", "(/[^"]*)"', (TOP / "gateway" / "gateway.c").read_text())
        self.assertGreater(len(routes), 20, "the routes look otherwise: correct the pattern")
        for path in routes:
            path = path.replace("*", "NAME")
            with self.subTest(path=path):
                self.assertTrue({path, f"/v1{path}", path.removeprefix("/v1")} & named)
        for path in named - {"/v1"}:
            with self.subTest(path=path):
                self.assertIn(path, [route.replace("*", "NAME") for route in routes] + ["/slots"])


if __name__ == "__main__":
    unittest.main()
