# SPDX-License-Identifier: Apache-2.0
"""Where the programs under test, the model and the scratch folders are."""

import os
import unittest
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("COORDGEN_BUILD") or TOP / "build").absolute()
BIN = BUILD / "bin"
SLOW = float(os.environ.get("COORDGEN_SLOW") or 1)  # sanitizers: all limits are longer
LONG = bool(os.environ.get("COORDGEN_LONG"))  # make check-long: more of everything
SANITIZED = "san-" in str(BUILD)


def default_model():
    cache = os.environ.get("XDG_CACHE_HOME", "")
    if not cache.startswith("/"):
        cache = os.path.expanduser("~/.cache")
    return Path(cache) / "coordgen" / "fetched" / "smollm2-135m.gguf"


MODEL = Path(os.environ.get("COORDGEN_MODEL") or default_model())
CUT = MODEL.parent.name == "cut"  # a few of its layers, by test/run-check: what it says makes no sense
CACHE = Path(os.environ.get("COORDGEN_TEST_CACHE") or TOP / "build" / "check" / "cache").absolute()


def whole_model(test):
    """Marks a test, or a class, that a model of few layers cannot show. test/run-check runs it on the whole model. Goes above
    other decorators, so that its reason is the one that counts."""
    test = unittest.skipIf(CUT, "it is about the whole model")(test)
    test.whole_model = True
    return test
