// Tests pushes against a simulator of APNs. Needs Node 20 or newer, and no packages.
//
//     APNS=<the tool apns> node --test

import assert from "node:assert/strict";
import { connect } from "node:http2";
import { after, afterEach, before, beforeEach, test } from "node:test";
import { startAPNs } from "./apns-simulator.mjs";

const anna = "740f4707bebcf74f9b7c25d48e3358945f6aa01da5ddb387462c7eaf61bb78ad";
const ben = "80f1a52b7c93d046e8b2f71c5a0d94e63b17f8c25d60ae49f3127b8c6e05d1f4";
const topic = "com.example.app";
const activityHeaders = {
    "apns-topic": `${topic}.push-type.liveactivity`,
    "apns-push-type": "liveactivity",
    "apns-priority": "10",
};

let apns;
let session;
let allowsHints;

before(async () => {
    // Pushes need no provider token.
    apns = await startAPNs("--without-token");
    session = connect(apns.endpoint, { ca: apns.ca });
});

after(async () => {
    session?.close();
    await apns?.stop();
});

beforeEach(async () => {
    allowsHints = false;
    await apns.reset();
});

afterEach(async () => {
    if (!allowsHints) await apns.checkHints();
});

/** Sends a push. It stands for your own application: replace it by yours. */
async function send(token, payload, headers = {}) {
    const request = session.request({
        ":method": "POST",
        ":path": `/3/device/${token}`,
        "apns-topic": topic,
        "apns-push-type": "alert",
        ...headers,
    });
    request.end(JSON.stringify(payload));
    const status = new Promise((resolve, reject) => {
        request.on("response", (headers) => resolve(headers[":status"]));
        request.on("error", reject);
    });
    let text = "";
    for await (const part of request.setEncoding("utf8")) text += part;
    return { status: await status, body: text ? JSON.parse(text) : undefined };
}

async function sendWithRetries(token, payload, attempts = 200) {
    for (let attempt = 1; ; attempt += 1) {
        const response = await send(token, payload);
        if (response.status !== 503 || attempt === attempts) return response;
        await new Promise((resolve) => setTimeout(resolve, 50));
    }
}

test("a push arrives with headers and payload", async () => {
    const payload = { aps: { alert: { title: "Hello" } } };
    assert.equal((await send(anna, payload, { "apns-priority": "5" })).status, 200);

    const [push] = await apns.wait({ token: anna });
    assert.equal(push.headers["apns-priority"], "5");
    assert.deepEqual(push.payloadJSON, payload);
});

test("a push that no device shows fails the test", async () => {
    allowsHints = true;
    assert.equal((await send(anna, { aps: { title: "Hello" } })).status, 200);
    await assert.rejects(apns.checkHints(), /aps.title is not a key of Apple's/);
});

test("waiting in vain says which connections failed", async () => {
    const stranger = connect(apns.endpoint);
    await new Promise((resolve) => stranger.on("error", resolve));
    while ((await apns.call("GET", "/v1/failed-connections")).total === 0);
    await assert.rejects(apns.wait({ timeoutSeconds: 0 }), /NODE_EXTRA_CA_CERTS/);
});

test("an unregistered token is refused with 410", async () => {
    await apns.setToken(ben, "unregistered", { sinceMilliseconds: 1700000000123 });
    const response = await send(ben, { aps: { alert: "Hello" } });
    assert.equal(response.status, 410);
    assert.deepEqual(response.body, { reason: "Unregistered", timestamp: 1700000000123 });
});

test("the sender retries until APNs is available", async () => {
    const effect = { kind: "respond", reason: "ServiceUnavailable" };
    await apns.call("POST", "/v1/faults", { when: { always: true }, effect });
    const sending = sendWithRetries(anna, { aps: { alert: "Hello" } });
    await apns.wait({ count: 2, reason: "ServiceUnavailable" });
    await apns.call("DELETE", "/v1/faults");
    assert.equal((await sending).status, 200);
    assert.equal((await apns.call("GET", "/v1/pushes?outcome=accepted")).pushes.length, 1);
});

test("a newer push replaces the older one on the device", async () => {
    await send(anna, { aps: { alert: { title: "1:0" } } }, { "apns-collapse-id": "game" });
    await send(anna, { aps: { alert: { title: "2:0" } } }, { "apns-collapse-id": "game" });
    const { notifications } = (await apns.call("GET", `/v1/tokens/${anna}/device`)).apps[0];
    assert.deepEqual(notifications.map(({ title, replaced }) => [title, replaced]), [["2:0", 1]]);
});

test("a Live Activity changes and ends", async () => {
    const activityToken = "a2".repeat(40);
    const now = Math.floor(Date.now() / 1000);
    const push = (event, seconds, score) => send(activityToken, {
        aps: { event, timestamp: now + seconds, "content-state": { score } },
    }, activityHeaders);

    await push("update", 2, "1:0");
    await push("update", 1, "0:0"); // older than the last one: the device ignores it
    await push("end", 3, "1:1");
    const [activity] = (await apns.call("GET", `/v1/tokens/${activityToken}/device`)).activities;
    assert.equal(activity.state, "ended");
    assert.deepEqual(activity.contentState, { score: "1:1" });
    assert.deepEqual(activity.history.map(({ isIgnored }) => isIgnored), [false, true, false]);
});
