"""A simulator of APNs for pytest, without other packages. Copy this file, and write into conftest.py:

from apns_simulator import apns, apns_process  # noqa: F401
"""

import json
import os
import re
import shlex
import subprocess
from urllib import error, parse, request

import pytest


class Simulator:
    def __init__(self, control, folder):
        self.control = control
        # APNS_ENDPOINT, APNS_CA_FILE, APNS_KEY_FILE, APNS_KEY_ID, APNS_TEAM_ID and APNS_TOPIC.
        self.settings = dict(word.split("=", 1) for word in shlex.split((folder / "apns.env").read_text()))
        self.allows_hints = False

    def call(self, method, path, body=None):
        """Any call of the API, which /openapi.json describes: faults, devices and more."""
        data = None if body is None else json.dumps(body).encode()
        query = request.Request(self.control + path, data, {"x-apns-simulator": "test"}, method=method)
        try:
            with request.urlopen(query, timeout=330) as response:
                return json.loads(response.read() or "null")
        except error.HTTPError as failure:
            raise AssertionError(f"{method} {path}: {failure.read().decode()}") from None

    def wait(self, count=1, **filters):
        """The first pushes that match, with their payloads. Filters: token, topic, pushType, outcome, reason, …"""
        page = self.call("GET", f"/v1/pushes/wait?{parse.urlencode({'count': count, **filters})}")
        return [self.call("GET", f"/v1/pushes/{push['order']}") for push in page["pushes"]]

    def set_token(self, token, state, **values):
        """States: active, unregistered, expired, other-environment, other-topic, busy."""
        self.call("PUT", f"/v1/tokens/{token}", {"state": state, **values})

    def check_hints(self):
        """Fails if a push has hints: APNs accepts it, and something in it has no effect or is a mistake."""
        pushes = self.call("GET", "/v1/pushes?hints=true")["pushes"]
        details = [self.call("GET", f"/v1/pushes/{push['order']}") for push in pushes]
        assert not details, [hint["message"] for push in details for hint in push["hints"]]


@pytest.fixture(scope="session")
def apns_process(tmp_path_factory):
    folder = tmp_path_factory.mktemp("apns")
    command = [os.environ.get("APNS", "apns"), "simulator", "--port", "0", "--control", "0"]
    with subprocess.Popen([*command, "--write-credentials", folder], stdout=subprocess.PIPE, text=True) as process:
        try:
            found = (re.match(r"The pushes appear at (\S+)/$", line) for line in process.stdout)
            yield Simulator(next(line[1] for line in found if line), folder)
        finally:
            process.terminate()


@pytest.fixture
def apns(apns_process):
    """A simulator without pushes, faults and devices. The test fails if a push has hints, unless it allows them."""
    apns_process.call("POST", "/v1/reset")
    apns_process.allows_hints = False
    yield apns_process
    if not apns_process.allows_hints:
        apns_process.check_hints()
