"""Senders of Web Push that we did not write push through a relay to a simulated APNs, and their messages are decrypted.

The programs are named by the variables APNS_TOOL and APNS_RELAY.
"""

import base64
import json
import os
import subprocess
import time
import unittest
from pathlib import Path

import http_ece
import requests
from cryptography.hazmat.primitives.asymmetric import ec
from gateway import TOKEN, Device, Gateway, decoded, encoded, point
from py_vapid import Vapid01, Vapid02
from pywebpush import webpush

KILLS = 3
MESSAGES = 300


class Senders(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.gateway = Gateway(
            APNS_RELAY_WEB_PUSH_PUSHES_PER_MINUTE="100000",
            APNS_RELAY_LOG_LEVEL="trace",
        )
        cls.url, cls.control = cls.gateway.url, cls.gateway.control

    @classmethod
    def tearDownClass(cls):
        cls.gateway.close()

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
            stored = b"".join(file.read_bytes() for file in self.gateway.folder.glob("queue.sqlite*"))
        finally:
            self.set_paused_apps([])
        # Otherwise the next test would receive them.
        self.received(3)
        logged = b"".join(file.read_bytes() for file in self.gateway.folder.glob("relay-*.log"))
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

    def test_node(self):
        device = Device(self.url)
        text = "written from the RFC, Grüße"
        request = json.dumps({"subscription": device.info, "text": text, "ttl": 60})
        sender = Path(__file__).with_name("sender.mjs")
        sent = subprocess.run(["node", sender], input=request, capture_output=True, text=True, timeout=60)
        self.assertRegex(sent.stdout, r"^201 http\S+/messages/\S+$", sent.stderr)
        self.assertEqual(device.open(self.received()[0]).decode(), text)

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
                self.gateway.relay.kill()
                self.gateway.start_relay()
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
