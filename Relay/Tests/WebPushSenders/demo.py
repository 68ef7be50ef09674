"""A virtual device subscribes, pywebpush sends to it through the relay, and the simulator's page shows the decrypted texts.

    demo.py [--no-wait]

It waits until it is interrupted, so that you can look at the page. With --no-wait it ends at once.
"""

import json
import sys
import time

import requests
from gateway import TOKEN, TOPIC, Device, Gateway, encoded, point
from py_vapid import Vapid02
from pywebpush import webpush

MESSAGES = [
    {"title": "Ann mentioned you", "body": "Is the kettle on?"},
    {"title": "New reply", "body": "Grüße aus Köln"},
    {"title": "Door", "body": "Somebody is at the garden gate"},
]


def add_virtual_device(control, device):
    """Creates the device at the simulator, with the keys that only it and the sender know."""
    new = {"name": "Web Push demo", "tokens": [{"token": TOKEN, "topic": TOPIC}]}
    # A page of another origin cannot send this header.
    headers = {"x-apns-simulator": "demo"}
    created = requests.post(f"{control}/v1/devices", json=new, headers=headers, timeout=30)
    created.raise_for_status()
    private_key = device.key.private_numbers().private_value.to_bytes(32, "big")
    keys = {
        "subscription": device.id,
        "privateKey": encoded(private_key),
        "publicKey": encoded(point(device.key)),
        "auth": encoded(device.secret),
    }
    identifier = created.json()["id"]
    added = requests.post(f"{control}/v1/devices/{identifier}/web-push-keys", json=keys, headers=headers, timeout=30)
    added.raise_for_status()
    return identifier


def notifications(control, identifier):
    apps = requests.get(f"{control}/v1/devices/{identifier}", timeout=30).json()["apps"]
    return [notification for app in apps for notification in app["notifications"]]


def run(gateway):
    """Returns the texts of the notifications as APNs has them, and as the device decrypts them."""
    device = Device(gateway.url)
    identifier = add_virtual_device(gateway.control, device)
    print(f"A device has subscribed. Its endpoint: {device.endpoint}")
    vapid = Vapid02()
    vapid.generate_keys()
    for message in MESSAGES:
        response = webpush(
            device.info,
            json.dumps(message),
            ttl=60,
            vapid_private_key=vapid,
            vapid_claims={"sub": "mailto:ops@example.com"},
        )
        print(f"pywebpush sent {message['body']!r}, encrypted: {response.status_code}")
    for _ in range(300):
        shown = notifications(gateway.control, identifier)
        if len(shown) == len(MESSAGES):
            break
        time.sleep(0.1)
    else:
        raise SystemExit("The notifications did not arrive.")
    for notification in reversed(shown):
        text = device.open({"payload": {"webpush": notification["webPush"]}}).decode()
        print(f"Apple and the relay see {notification['body']!r}; the device reads {json.loads(text)['body']!r}")


def main():
    gateway = Gateway()
    try:
        run(gateway)
        print(f"The decrypted texts are on the page {gateway.control}/ under Device.", flush=True)
        if "--no-wait" in sys.argv:
            return
        print("Stop with Control-C.", flush=True)
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        pass
    finally:
        gateway.close()


if __name__ == "__main__":
    main()
