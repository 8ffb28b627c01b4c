# SPDX-License-Identifier: Apache-2.0
"""What a third party gets: the installed library, its names, and the examples built against it."""

import os
import subprocess
import unittest

from settings import BUILD, MODEL, SANITIZED, TOP


class Installed(unittest.TestCase):
    @unittest.skipIf(SANITIZED, "an installed library is not built with a sanitizer")
    def test_example(self):
        env = {**os.environ, "COORDGEN_MODEL": str(MODEL)}
        for name in ("MAKEFLAGS", "MFLAGS", "COORDGEN_SOCKET"):
            env.pop(name, None)
        run = subprocess.run([TOP / "test/integration/test_example.sh", str(BUILD)], env=env, text=True,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600)
        self.assertEqual(run.returncode, 0, run.stdout[-6000:])
        self.assertIn("test_example: passed", run.stdout)
