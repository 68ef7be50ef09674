"""Points libraries for APNs at the simulator, as Docs/ClientLibraries.md describes, and makes their first mistake."""

import asyncio
import ssl
from pathlib import Path
from urllib.parse import urlsplit

import aioapns
import aioapns.connection
import pyapns_client
import pytest
from kalyke import ApnsClient, ApnsConfig

TOKEN = "740f4707bebcf74f9b7c25d48e3358945f6aa01da5ddb387462c7eaf61bb78ad"
TOPIC = "com.example.app"
PAYLOAD = {"aps": {"alert": {"title": "Hello", "body": "It works"}}}


def push_with_aioapns(settings, ca_file, monkeypatch):
    address = urlsplit(settings["APNS_ENDPOINT"])
    protocol = aioapns.connection.APNsDevelopmentClientProtocol
    monkeypatch.setattr(protocol, "APNS_SERVER", address.hostname)
    monkeypatch.setattr(protocol, "APNS_PORT", address.port)

    async def push():
        client = aioapns.APNs(
            key=Path(settings["APNS_KEY_FILE"]).read_text(), key_id=settings["APNS_KEY_ID"], team_id=settings["APNS_TEAM_ID"],
            topic=TOPIC, use_sandbox=True, max_connection_attempts=1,
            ssl_context=ssl.create_default_context(cafile=ca_file))
        request = aioapns.NotificationRequest(
            device_token=TOKEN, message=PAYLOAD, push_type=aioapns.PushType.ALERT)
        result = await client.send_notification(request)
        client.pool.close()
        assert result.is_successful, result.description

    asyncio.run(push())


def push_with_kalyke(settings, ca_file, monkeypatch):
    if ca_file:
        monkeypatch.setenv("SSL_CERT_FILE", ca_file)
    monkeypatch.setattr(ApnsClient, "_base_url", settings["APNS_ENDPOINT"])
    client = ApnsClient(
        use_sandbox=True, team_id=settings["APNS_TEAM_ID"], auth_key_id=settings["APNS_KEY_ID"],
        auth_key_filepath=Path(settings["APNS_KEY_FILE"]))
    asyncio.run(client.send_message(device_token=TOKEN, payload=PAYLOAD, apns_config=ApnsConfig(topic=TOPIC)))


def push_with_pyapns_client(settings, ca_file, monkeypatch):
    monkeypatch.setitem(pyapns_client.APNSClient.BASE_URLS, "dev", settings["APNS_ENDPOINT"])
    client = pyapns_client.APNSClient(
        mode="dev", root_cert_path=ca_file, auth_key_path=settings["APNS_KEY_FILE"],
        auth_key_id=settings["APNS_KEY_ID"], team_id=settings["APNS_TEAM_ID"])
    alert = pyapns_client.IOSPayloadAlert(title="Hello", body="It works")
    payload = pyapns_client.IOSPayload(alert=alert)
    notification = pyapns_client.IOSNotification(payload=payload, topic=TOPIC, push_type="alert")
    client.push(notification=notification, device_token=TOKEN)
    client.close()


LIBRARIES = {"aioapns": push_with_aioapns, "kalyke": push_with_kalyke, "pyapns_client": push_with_pyapns_client}
# kalyke 1.5 sends iat as a text, and pyapns_client 2.0 with a fraction.
ISSUE_TIME = "iat in the provider token is not a whole number"
HINTS = {"kalyke": [ISSUE_TIME], "pyapns_client": [ISSUE_TIME]}


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_push_arrives(apns, monkeypatch, name):
    apns.allows_hints = True
    LIBRARIES[name](apns.settings, apns.settings["APNS_CA_FILE"], monkeypatch)
    [push] = apns.wait(token=TOKEN)
    assert (push["status"], push["topic"], push["pushType"]) == (200, TOPIC, "alert")
    assert push["payloadJSON"]["aps"]["alert"]["title"] == "Hello"
    expected = HINTS.get(name, [])
    assert len(push["hints"]) == len(expected), push["hints"]
    assert all(words in hint["message"] for words, hint in zip(expected, push["hints"]))


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_missing_ca_is_explained(apns, monkeypatch, name):
    with pytest.raises(Exception):
        LIBRARIES[name](apns.settings, None, monkeypatch)
    while not (failed := apns.call("GET", "/v1/failed-connections"))["groups"]:
        pass
    # asyncio and the JDK close the connection without saying why.
    assert failed["groups"][0]["cause"] in ["untrusted", "closed-in-handshake"]
    assert apns.settings["APNS_CA_FILE"] in failed["groups"][0]["remedy"]
