"""A simulator for the tests of its page. Only this file knows how one is started and how pushes are sent."""
import json
import os
import pathlib
import re
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TOOL = os.environ.get("PAGE_TOOL", str(ROOT / ".build/debug/apns"))
START_SECONDS = 60


def page_address(line):
    """The page's address in a line that `apns simulator` prints, or None."""
    found = re.search(r"The pushes appear at (http://\S+)", line)
    return found and found[1]


class Simulator:
    """Runs `apns simulator`, or uses the one at PAGE_URL, whose --write-credentials is PAGE_CREDENTIALS."""

    def __init__(self, token=None, needs_token=False):
        self.token = token
        self.needs_token = needs_token
        self.folder = tempfile.TemporaryDirectory(prefix="apns-page-")
        self.credentials = pathlib.Path(os.environ.get("PAGE_CREDENTIALS", self.folder.name))
        self.process = None
        self.bulk = None
        self.address = os.environ.get("PAGE_URL")
        if self.address is None or token is not None or needs_token:
            self.credentials = pathlib.Path(self.folder.name)
            self.start()

    @property
    def can_restart(self):
        return self.process is not None

    @property
    def origin(self):
        parts = urllib.parse.urlsplit(self.address)
        return f"{parts.scheme}://{parts.netloc}"

    def start(self, port=0, control=0):
        command = [TOOL, "simulator", "--port", str(port), "--control", str(control)]
        if not self.needs_token:
            command.append("--without-token")
        command += ["--write-credentials", str(self.credentials)]
        if self.token:
            command += ["--control-token", self.token]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        until = time.monotonic() + START_SECONDS
        for line in self.process.stdout:
            address = page_address(line)
            if address:
                self.address = address
                return
            if time.monotonic() > until:
                break
        raise RuntimeError(f"{' '.join(command)} printed no address of its page")

    def restart(self):
        """A new process at the same ports."""
        port = urllib.parse.urlsplit(self.endpoint()).port
        control = urllib.parse.urlsplit(self.address).port
        self.stop_process()
        self.start(port, control)

    def stop_process(self):
        if self.process:
            self.process.terminate()
            self.process.wait(30)
            self.process.stdout.close()
            self.process = None

    def stop(self):
        if self.bulk:
            self.bulk.kill()
            self.bulk.wait()
        self.stop_process()
        self.folder.cleanup()

    def call(self, method, path, body=None):
        headers = {"x-apns-simulator": "test"}
        if self.token:
            headers["authorization"] = f"Bearer {self.token}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.origin + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as response:
            text = response.read()
        return json.loads(text) if text else None

    def endpoint(self):
        return self.call("GET", "/v1/state")["endpoint"]

    def push(self, token, payload, **headers):
        """Sends a push and returns its order. `apns_topic` becomes the header `apns-topic`; None leaves one out."""
        fields = {"apns-topic": "com.example.app", "apns-push-type": "alert", "apns-id": str(uuid.uuid4())}
        fields.update({name.replace("_", "-"): value for name, value in headers.items()})
        text = payload if isinstance(payload, str) else json.dumps(payload, ensure_ascii=False)
        self.send(token, {name: value for name, value in fields.items() if value is not None}, text)
        return self.call("GET", "/v1/state")["lastOrder"]

    def send(self, token, headers, payload):
        command = ["curl", "--silent", "--show-error", "--http2", "--max-time", "20"]
        command += ["--cacert", str(self.credentials / "ca.pem"), "--data-binary", "@-", "--output", os.devnull]
        for name, value in headers.items():
            command += ["--header", f"{name}: {value}"]
        command.append(f"{self.endpoint()}/3/device/{urllib.parse.quote(token, safe='')}")
        subprocess.run(command, input=payload.encode(), check=True, timeout=30)

    def load(self, count, rate):
        """Begins to send this number of pushes at this rate, each to a token of its own."""
        tokens = pathlib.Path(self.folder.name, "tokens")
        tokens.write_text("".join(f"{number:064x}\n" for number in range(1, count + 1)))
        payload = pathlib.Path(self.folder.name, "payload.json")
        payload.write_text(json.dumps({"aps": {"alert": {"title": "Hey There", "body": "Did you see it?"}}}))
        environment = dict(os.environ, APNS_ENDPOINT=self.endpoint(), APNS_TOPIC="com.example.app",
                           APNS_CA_FILE=str(self.credentials / "ca.pem"))
        self.bulk = subprocess.Popen(
            [TOOL, "bulk", "--tokens", tokens, "--payload", payload, "--rate", str(rate), "--quiet",
             "--results", pathlib.Path(self.folder.name, "results")],
            env=environment, stdout=subprocess.DEVNULL)
