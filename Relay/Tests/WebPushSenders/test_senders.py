"""Senders of Web Push that we did not write push through a relay to a simulated APNs, and their messages are decrypted.

The programs are named by the variables APNS_TOOL and APNS_RELAY.
"""

import base64
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

import http_ece
import requests
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from py_vapid import Vapid01, Vapid02
from pywebpush import webpush

TOPIC = "com.grasscove.Fern"
TOKEN = "00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0"
KILLS = 3
MESSAGES = 300


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


class Senders(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        folder = Path(cls.folder.name)
        tool = os.environ.get("APNS_TOOL", ".build/debug/apns")
        cls.simulator = Program(
            [tool, "simulator", "--port", "0", "--control", "0", "--without-token", "--write-credentials", folder / "sim"],
            folder / "simulator.log",
        )
        port = cls.simulator.wait_for(r"APNs at https://localhost:(\d+)")[1]
        cls.control = cls.simulator.wait_for(r"(http://localhost:\d+)/")[1]
        relay_port = free_port()
        cls.url = f"http://127.0.0.1:{relay_port}"
        cls.environment = {
            "APNS_RELAY_APPS": "fern",
            "APNS_RELAY_APP_FERN_TOPIC": TOPIC,
            "APNS_RELAY_APP_FERN_ENVIRONMENTS": "production",
            "APNS_RELAY_SERVER_PRODUCTION": f"localhost:{port}",
            "APNS_RELAY_CLIENT_CA_FILE": str(folder / "sim" / "ca.pem"),
            "APNS_RELAY_STORAGE_FILE": str(folder / "queue.sqlite"),
            "APNS_RELAY_HTTP_PORT": str(relay_port),
            "APNS_RELAY_WEB_PUSH_ORIGINS": cls.url,
            "APNS_RELAY_WEB_PUSH_KEY": base64.b64encode(bytes(32)).decode(),
            "APNS_RELAY_WEB_PUSH_PUSHES_PER_MINUTE": "100000",
            "APNS_RELAY_WEB_PUSH_KEPT_MESSAGES": "10",
            "APNS_RELAY_LOG_LEVEL": "trace",
        }
        cls.start_relay()

    @classmethod
    def start_relay(cls):
        relay = os.environ.get("APNS_RELAY", "Relay/.build/debug/apns-relay")
        cls.starts = getattr(cls, "starts", 0) + 1
        cls.relay = Program([relay, "serve"], Path(cls.folder.name) / f"relay-{cls.starts}.log", cls.environment)
        cls.relay.wait_for("is listening")

    @classmethod
    def tearDownClass(cls):
        cls.relay.kill()
        cls.simulator.kill()
        cls.folder.cleanup()

    def setUp(self):
        self.vapid = Vapid02()
        self.vapid.generate_keys()
        self.last = max((push["order"] for push in self.pushes()), default=0)

    def pushes(self):
        return requests.get(f"{self.control}/v1/pushes", params={"limit": 1000}, timeout=30).json()["pushes"]

    def received(self, count=1):
        """The pushes that the simulator has received in this test."""
        for _ in range(300):
            orders = [push["order"] for push in self.pushes() if push["order"] > self.last]
            if len(orders) >= count:
                return [self.push(order) for order in orders]
            time.sleep(0.1)
        raise AssertionError(f"{count} pushes did not arrive")

    def push(self, order):
        push = requests.get(f"{self.control}/v1/pushes/{order}", timeout=30).json()
        # The control API shows it as text.
        return {**push, "payload": json.loads(push["payload"])}

    def send(self, device, text, **options):
        return webpush(
            device.info,
            text,
            vapid_private_key=self.vapid,
            vapid_claims={"sub": "mailto:ops@example.com"},
            **options,
        )

    def set_paused_apps(self, apps):
        etag = requests.get(f"{self.url}/v1/settings", timeout=30).headers["etag"]
        response = requests.put(
            f"{self.url}/v1/settings", json={"pausedApps": apps}, headers={"if-match": etag}, timeout=30
        )
        self.assertEqual(response.status_code, 200, response.text)

    def test_pywebpush(self):
        device = Device(self.url)
        for encoding in ("aes128gcm", "aesgcm"):
            text = json.dumps({"title": encoding, "body": "Grüße"})
            response = self.send(device, text, ttl=60, content_encoding=encoding, headers={"urgency": "high", "topic": encoding})
            self.assertEqual(response.status_code, 201)
            push = self.received(1 if encoding == "aes128gcm" else 2)[-1]
            self.assertEqual(device.open(push).decode(), text)
            self.assertEqual(push["payload"]["aps"]["mutable-content"], 1)
            self.assertNotIn(text, json.dumps(push))

    def test_large_message(self):
        device = Device(self.url)
        for encoding in ("aes128gcm", "aesgcm"):
            text = encoding + "x" * 3900
            response = self.send(device, text, ttl=60, content_encoding=encoding)
            self.assertEqual(response.status_code, 201)
            push = self.received(1 if encoding == "aes128gcm" else 2)[-1]
            self.assertIn("fetch", push["payload"]["webpush"])
            self.assertEqual(device.open(push).decode(), text)

    def test_no_secret_is_stored_or_logged(self):
        """Not in the database, with pushes that have an outcome, that wait, and that are kept; and not in any log."""
        device = Device(self.url)
        text = "a text that nobody may read"
        self.send(device, text, ttl=60)
        self.assertEqual(self.received()[0]["deviceToken"], TOKEN)
        self.set_paused_apps(["fern"])
        try:
            self.send(device, text + " twice", ttl=60)
            self.send(device, text + "x" * 3800, ttl=60)
            stored = b"".join(file.read_bytes() for file in Path(self.folder.name).glob("queue.sqlite*"))
        finally:
            self.set_paused_apps([])
        logged = b"".join(file.read_bytes() for file in Path(self.folder.name).glob("relay-*.log"))
        self.assertIn(device.id.encode(), stored)
        self.assertIn(b"is listening", logged)
        endpoint_secret = device.endpoint.rsplit("/", 1)[1]
        for secret in [endpoint_secret, device.fetch_secret, encoded(device.secret), TOKEN, encoded(bytes.fromhex(TOKEN))]:
            self.assertNotIn(secret.encode(), stored + logged)
            self.assertNotIn(secret.upper().encode(), stored + logged)
        for secret in [endpoint_secret, device.fetch_secret]:
            self.assertNotIn(decoded(secret), stored + logged)
        self.assertNotIn(bytes.fromhex(TOKEN), stored + logged)
        self.assertNotIn(base64.b64encode(bytes.fromhex(TOKEN)), stored + logged)
        self.assertNotIn(text.encode(), stored + logged)

    def test_mastodon(self):
        """The header fields that Mastodon sends by default, with a token of the earlier draft that lasts 24 hours."""
        device = Device(self.url, vapid=encoded(point(self.vapid.private_key)))
        sender, salt = ec.generate_private_key(ec.SECP256R1()), os.urandom(16)
        text = json.dumps({"access_token": "x" * 43, "title": "Ann mentioned you", "body": "Hello"}).encode()
        body = http_ece.encrypt(
            text, private_key=sender, dh=point(device.key), auth_secret=device.secret, salt=salt, version="aesgcm"
        )
        old = Vapid01(self.vapid.private_key)
        signed = old.sign({"aud": self.url, "exp": int(time.time()) + 86_400, "sub": "mailto:ops@example.com"})
        response = requests.post(
            device.endpoint,
            data=body,
            headers={
                "Content-Type": "application/octet-stream",
                "Ttl": "172800",
                "Urgency": "normal",
                "Content-Encoding": "aesgcm",
                "Encryption": f"salt={encoded(salt)}",
                "Crypto-Key": f"dh={encoded(point(sender))};{signed['Crypto-Key']}",
                "Authorization": signed["Authorization"],
            },
            timeout=30,
        )
        self.assertEqual(response.status_code, 201, response.text)
        self.assertEqual(device.open(self.received()[0]), text)

    def test_other_sender(self):
        device = Device(self.url, vapid=encoded(point(ec.generate_private_key(ec.SECP256R1()))))
        response = requests.post(device.endpoint, headers={"ttl": "60"}, timeout=30)
        self.assertEqual(response.status_code, 401)

    def test_killed_relay(self):
        """A relay that is killed has sent, or will send, each message for which it has answered 201."""
        device = Device(self.url)
        accepted = []
        for number in range(MESSAGES):
            if number and number % (MESSAGES // (KILLS + 1)) == 0:
                self.relay.kill()
                self.start_relay()
            response = self.send(device, f"message {number}", ttl=600)
            if response.status_code == 201:
                accepted.append((number, response.headers["location"].rsplit("/", 1)[1]))
        self.assertEqual(len(accepted), MESSAGES)
        outcomes = {}
        deadline = time.monotonic() + 120
        for number, push in accepted:
            while time.monotonic() < deadline:
                status = requests.get(f"{self.url}/v1/pushes/{push}", timeout=30).json()
                if status["state"] == "settled":
                    outcomes[number] = status["outcome"]["outcome"]
                    break
                time.sleep(0.2)
        self.assertEqual(len(outcomes), MESSAGES)
        self.assertLessEqual(set(outcomes.values()), {"accepted", "unknown"})
        texts = [device.open(push).decode() for push in self.received(list(outcomes.values()).count("accepted"))]
        self.assertEqual(len(texts), len(set(texts)))
        for number, outcome in outcomes.items():
            if outcome == "accepted":
                self.assertIn(f"message {number}", texts)


if __name__ == "__main__":
    unittest.main(verbosity=2)
