"""Tests pushes against a simulator of APNs, which also checks the signature of each provider token (JWT).

    python3 -m venv .venv && .venv/bin/pip install -r requirements.txt
    APNS=<the tool apns> .venv/bin/pytest
"""

import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from sender import PushSender

ANNA = "740f4707bebcf74f9b7c25d48e3358945f6aa01da5ddb387462c7eaf61bb78ad"
BEN = "80f1a52b7c93d046e8b2f71c5a0d94e63b17f8c25d60ae49f3127b8c6e05d1f4"
TOPIC = "com.example.app"


def alert(title):
    return {"aps": {"alert": {"title": title}}}


def test_a_push_arrives_with_headers_and_payload(apns, sender, settings):
    response = sender.send(ANNA, alert("Hello"), TOPIC, priority=5, expiration=0)
    assert response.status == 200

    [push] = apns.wait(token=ANNA)
    assert push["apnsID"] == response.apns_id.lower()
    assert push["headers"]["apns-priority"] == "5"
    assert push["headers"]["apns-expiration"] == "0"
    assert push["payloadJSON"] == alert("Hello")
    assert push["keyID"] == settings["key_id"]


def test_a_push_that_no_device_shows_fails_the_test(apns, sender):
    apns.allows_hints = True
    assert sender.send(ANNA, {"aps": {"title": "Hello"}}, TOPIC).status == 200
    with pytest.raises(AssertionError, match="aps.title is not a key of Apple's"):
        apns.check_hints()


def test_waiting_in_vain_says_what_failed(apns, settings):
    settings["ca_file"] = None
    with pytest.raises(httpx.ConnectError):
        PushSender(**settings).send(ANNA, alert("Hello"), TOPIC)
    while apns.call("GET", "/v1/failed-connections")["total"] == 0:
        pass
    with pytest.raises(AssertionError, match="does not trust the simulator's certificate.*ca.pem"):
        apns.wait(timeoutSeconds=0)


def test_a_foreign_key_is_refused(apns, sender, settings):
    settings["key"] = ec.generate_private_key(ec.SECP256R1())
    response = PushSender(**settings).send(ANNA, alert("Hello"), TOPIC)
    assert (response.status, response.body["reason"]) == (403, "InvalidProviderToken")


def test_an_unregistered_token_is_refused(apns, sender):
    apns.set_token(BEN, "unregistered", sinceMilliseconds=1_700_000_000_123)
    response = sender.send(BEN, alert("Hello"), TOPIC)
    assert response.status == 410
    assert response.body == {"reason": "Unregistered", "timestamp": 1_700_000_000_123}
    assert sender.send(ANNA, alert("Hello"), TOPIC).status == 200


def test_the_sender_retries_until_apns_is_available(apns, sender):
    fault = {"when": {"always": True}, "effect": {"kind": "respond", "reason": "ServiceUnavailable"}}
    apns.call("POST", "/v1/faults", fault)
    with ThreadPoolExecutor() as pool:
        sending = pool.submit(sender.send, ANNA, alert("Hello"), TOPIC, attempts=200)
        apns.wait(2, reason="ServiceUnavailable")
        apns.call("DELETE", "/v1/faults")
        assert sending.result(timeout=10).status == 200
    assert len(apns.call("GET", "/v1/pushes?outcome=accepted")["pushes"]) == 1


def test_a_newer_push_replaces_the_older_one_on_the_device(apns, sender):
    sender.send(ANNA, alert("1:0"), TOPIC, collapse_id="game")
    sender.send(ANNA, alert("2:0"), TOPIC, collapse_id="game")

    [app] = apns.call("GET", f"/v1/tokens/{ANNA}/device")["apps"]
    [notification] = app["notifications"]
    assert notification["title"] == "2:0"
    assert notification["replaced"] == 1


def test_a_live_activity_starts_changes_and_ends(apns, sender):
    to_start, to_update = "a1" * 40, "a2" * 40
    tokens = [{"token": to_start, "kind": "push-to-start", "topic": TOPIC}]
    device = apns.call("POST", "/v1/devices", {"name": "Anna's iPhone", "tokens": tokens})["id"]
    now = int(time.time())

    def send(token, event, seconds, state, **values):
        aps = {"event": event, "timestamp": now + seconds, "content-state": state, **values}
        response = sender.send(token, {"aps": aps}, f"{TOPIC}.push-type.liveactivity", "liveactivity", priority=10)
        assert response.status == 200

    send(to_start, "start", 0, {"score": "0:0"}, alert={"title": "Kick-off", "body": "Final"},
         **{"attributes-type": "GameAttributes", "attributes": {"home": "Fern"}})
    # Now the app on a device would send the token of its new activity to your server.
    token = {"token": to_update, "kind": "activity", "topic": TOPIC}
    apns.call("POST", f"/v1/devices/{device}/tokens", token)
    send(to_update, "update", 2, {"score": "1:0"})
    send(to_update, "update", 1, {"score": "0:0"})  # older than the last one: the device ignores it
    [activity] = apns.call("GET", f"/v1/tokens/{to_update}/device")["activities"]
    assert (activity["state"], activity["contentState"]) == ("active", {"score": "1:0"})

    send(to_update, "end", 3, {"score": "1:1"})
    [activity] = apns.call("GET", f"/v1/tokens/{to_update}/device")["activities"]
    assert (activity["state"], activity["contentState"]) == ("ended", {"score": "1:1"})
    events = [(event["event"], event["isIgnored"]) for event in activity["history"]]
    assert events == [("start", False), ("update", False), ("update", True), ("end", False)]
