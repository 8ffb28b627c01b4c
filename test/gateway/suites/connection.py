# SPDX-License-Identifier: Apache-2.0
"""Where the service of a run is, for the suites; run-peers says it."""

import os

URL = os.environ["PEERS_URL"]
BASE = URL + "/v1"
TOKEN = os.environ["PEERS_TOKEN"]
MODEL = os.environ["PEERS_MODEL"]
MODELS = os.environ["PEERS_MODELS"].split(",")
