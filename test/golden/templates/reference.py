# SPDX-License-Identifier: Apache-2.0
"""The reference: Jinja 3.1.6 with the settings and functions that transformers' chat templates get. Used when golden files
are made; no test needs it."""
import datetime
import json

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = 1753531200  # 2025-07-26 12:00:00 UTC


class Generation(Extension):
    """{% generation %}: marks what an assistant said; the text goes through as it is."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_support"), [], [], body).set_lineno(line)

    def _support(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def strftime_now(form):
    return datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc).replace(tzinfo=None).strftime(form)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = strftime_now
    return env


def render(template, variables):
    """{"out": text}, {"raised": the template's words} or {"error": what Jinja said}."""
    try:
        return {"out": environment().from_string(template).render(**variables)}
    except jinja2.exceptions.TemplateError as error:
        if type(error) is jinja2.exceptions.TemplateError:
            return {"raised": str(error)}
        return {"error": f"{type(error).__name__}: {error}"}
    except Exception as error:  # whatever Python says
        return {"error": f"{type(error).__name__}: {error}"}
