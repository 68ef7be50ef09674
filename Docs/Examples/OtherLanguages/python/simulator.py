"""Starts `apns simulator` and asks it what arrived. Copy this file into your tests; Docs/Simulator.md lists
the calls of its API."""

import os
import re
import subprocess
from contextlib import contextmanager

import httpx


class Simulator:
    """The HTTP API of a running simulator. A request that the simulator refuses raises httpx.HTTPStatusError."""

    def __init__(self, control):
        # Requests that change something need the header. The timeout is longer than any wait_for.
        self._http = httpx.Client(base_url=control, headers={"x-apns-simulator": "test"}, timeout=330)
        self.endpoint = self._call("GET", "/v1/state")["endpoint"]

    def received(self, **filters):
        """The pushes that arrived, oldest first, at most 1000. Filters: token, topic, pushType, outcome, reason, …"""
        return self._details(self._call("GET", "/v1/pushes", params={"limit": 1000, **filters}))

    def wait_for(self, count=1, seconds=10, **filters):
        """The first pushes that match, as soon as there are enough. The simulator answers 408 if they do not arrive."""
        params = {"count": count, "timeoutSeconds": seconds, **filters}
        return self._details(self._call("GET", "/v1/pushes/wait", params=params))

    def set_token(self, token, state, **values):
        """States: active, unregistered, expired, other-environment, other-topic, busy."""
        return self._call("PUT", f"/v1/tokens/{token}", json={"state": state, **values})

    def add_fault(self, effect, **when):
        """An effect such as {"kind": "respond", "reason": "ServiceUnavailable"}, and conditions such as times=2."""
        return self._call("POST", "/v1/faults", json={"when": when, "effect": effect})

    def remove_faults(self):
        self._call("DELETE", "/v1/faults")

    def add_device(self, name, *tokens):
        """A device with tokens such as {"token": "00fa11ce", "kind": "app", "topic": "com.example.app"}."""
        return self._call("POST", "/v1/devices", json={"name": name, "tokens": tokens})["id"]

    def add_token(self, device, token, kind, topic):
        self._call("POST", f"/v1/devices/{device}/tokens", json={"token": token, "kind": kind, "topic": topic})

    def device(self, token):
        """What the device with this token shows now."""
        return self._call("GET", f"/v1/tokens/{token}/device")

    def reset(self):
        """Forgets pushes, faults, states of tokens and devices."""
        self._call("POST", "/v1/reset")

    def _details(self, page):
        return [self._call("GET", f"/v1/pushes/{push['order']}") for push in page["pushes"]]

    def _call(self, method, path, **arguments):
        response = self._http.request(method, path, **arguments)
        if response.is_error:
            message = f"{method} {path}: {response.status_code} {response.text}"
            raise httpx.HTTPStatusError(message, request=response.request, response=response)
        return response.json() if response.content else None


@contextmanager
def running_simulator(folder):
    """Runs a simulator on free ports. It writes ca.pem, AuthKey_*.p8 and apns.env to the folder."""
    command = [os.environ.get("APNS", "apns"), "simulator", "--port", "0", "--control", "0"]
    with subprocess.Popen([*command, "--write-credentials", folder], stdout=subprocess.PIPE, text=True) as process:
        try:
            # The last line of its greeting; the output ends early if the simulator cannot start.
            lines = (re.match(r"The pushes appear at (\S+)/$", line) for line in process.stdout)
            control = next((line[1] for line in lines if line), None)
            assert control, "apns simulator ended before it was ready"
            yield Simulator(control)
        finally:
            process.terminate()
