"""A simulated APNs, a relay with a gateway for Web Push in front of it, and devices that subscribe.

The programs are named by the variables APNS_TOOL and APNS_RELAY.
"""

import base64
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import http_ece
import requests
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

TOPIC = "com.grasscove.Fern"
TOKEN = "00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0"


def encoded(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decoded(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def point(private_key):
    return private_key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Program:
    """A running program, and what it has printed."""

    def __init__(self, command, log, environment=None):
        self.log = log
        output = log.open("w")
        self.process = subprocess.Popen(command, stdout=output, stderr=output, env={**os.environ, **(environment or {})})
        output.close()

    def wait_for(self, pattern):
        for _ in range(300):
            found = re.search(pattern, self.log.read_text())
            if found:
                return found
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        raise AssertionError(f"{pattern} is missing: {self.log.read_text()}")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


class Device:
    """A subscription, as the app on a device has made it."""

    def __init__(self, relay_url, **members):
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.secret = os.urandom(16)
        body = {"app": "fern", "token": TOKEN, **members}
        response = requests.post(f"{relay_url}/webpush/subscriptions", json=body, timeout=30)
        assert response.status_code == 201, response.text
        self.id, self.endpoint = response.json()["id"], response.json()["endpoint"]
        self.relay_url, self.fetch_secret = relay_url, response.json()["fetchSecret"]

    @property
    def info(self):
        """What the app gives to the server that will push."""
        return {"endpoint": self.endpoint, "keys": {"p256dh": encoded(point(self.key)), "auth": encoded(self.secret)}}

    def open(self, push):
        """Decrypts the message of a push, as the notification service extension does."""
        member = push["payload"]["webpush"]
        assert member["id"] == self.id
        if "fetch" in member:
            response = requests.get(
                f"{self.relay_url}/webpush/subscriptions/{self.id}/messages/{member['fetch']}",
                headers={"authorization": f"Bearer {self.fetch_secret}"},
                timeout=30,
            )
            assert response.status_code == 200, response.text
            member = response.json()
            assert member["id"] == self.id
        body = decoded(member["body"])
        if member.get("encoding") == "aesgcm":
            return http_ece.decrypt(
                body,
                private_key=self.key,
                auth_secret=self.secret,
                version="aesgcm",
                salt=decoded(member["salt"]),
                dh=decoded(member["dh"]),
            )
        return http_ece.decrypt(body, private_key=self.key, auth_secret=self.secret, version="aes128gcm")


class Gateway:
    """A running simulator and a relay, whose storage and logs are in a temporary folder."""

    def __init__(self, **settings):
        self._folder = tempfile.TemporaryDirectory()
        self.folder = Path(self._folder.name)
        tool = os.environ.get("APNS_TOOL", "Relay/.build/debug/apns")
        self.simulator = Program(
            [
                tool, "simulator", "--port", "0", "--control", "0", "--without-token",
                "--write-credentials", self.folder / "sim",
            ],
            self.folder / "simulator.log",
        )
        port = self.simulator.wait_for(r"APNs at https://localhost:(\d+)")[1]
        self.control = self.simulator.wait_for(r"(http://localhost:\d+)/")[1]
        relay_port = free_port()
        self.url = f"http://127.0.0.1:{relay_port}"
        self.environment = {
            "APNS_RELAY_APPS": "fern",
            "APNS_RELAY_APP_FERN_TOPIC": TOPIC,
            "APNS_RELAY_APP_FERN_ENVIRONMENTS": "production",
            "APNS_RELAY_SERVER_PRODUCTION": f"localhost:{port}",
            "APNS_RELAY_CLIENT_CA_FILE": str(self.folder / "sim" / "ca.pem"),
            "APNS_RELAY_STORAGE_FILE": str(self.folder / "queue.sqlite"),
            "APNS_RELAY_HTTP_PORT": str(relay_port),
            "APNS_RELAY_WEB_PUSH_ORIGINS": self.url,
            "APNS_RELAY_WEB_PUSH_KEY": base64.b64encode(os.urandom(32)).decode(),
            **settings,
        }
        self.starts = 0
        self.start_relay()

    def start_relay(self):
        relay = os.environ.get("APNS_RELAY", "Relay/.build/debug/apns-relay")
        self.starts += 1
        self.relay = Program([relay, "serve"], self.folder / f"relay-{self.starts}.log", self.environment)
        self.relay.wait_for("is listening")

    def close(self):
        self.relay.kill()
        self.simulator.kill()
        self._folder.cleanup()
