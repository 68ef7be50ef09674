// Decrypts Web Push messages (RFC 8291, and draft-ietf-webpush-encryption-04), as an app's extension does on a device.

const text = new TextEncoder();
const algorithm = { name: "ECDH", namedCurve: "P-256" };

function bytes(base64url) {
    const binary = atob(base64url.replaceAll("-", "+").replaceAll("_", "/"));
    return Uint8Array.from(binary, (character) => character.charCodeAt(0));
}

function base64url(array) {
    return btoa(String.fromCharCode(...array)).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

const joined = (...parts) => Uint8Array.from(parts.flatMap((part) => [...part]));
const info = (name, ...parts) => joined(text.encode(name), [0], ...parts);
const sized = (part) => joined([part.length >> 8, part.length & 255], part);

async function derive(secret, salt, label, count) {
    const key = await crypto.subtle.importKey("raw", secret, "HKDF", false, ["deriveBits"]);
    const bits = await crypto.subtle.deriveBits({ name: "HKDF", hash: "SHA-256", salt, info: label }, key, count * 8);
    return new Uint8Array(bits);
}

/** The parts of a message, wherever its encoding has them. */
function parts(message) {
    const body = bytes(message.body);
    if (message.encoding === "aesgcm") {
        return { salt: bytes(message.salt), sender: bytes(message.dh), ciphertext: body };
    }
    const end = 21 + body[20];
    const recordSize = new DataView(body.buffer).getUint32(16);
    if (body.length - end > recordSize) throw new Error("a message has one record (RFC 8291, section 4)");
    return { salt: body.subarray(0, 16), sender: body.subarray(21, end), ciphertext: body.subarray(end) };
}

async function agree(keys, sender) {
    const point = bytes(keys.publicKey);
    const jwk = {
        kty: "EC", crv: "P-256", d: keys.privateKey,
        x: base64url(point.subarray(1, 33)), y: base64url(point.subarray(33)),
    };
    const own = await crypto.subtle.importKey("jwk", jwk, algorithm, false, ["deriveBits"]);
    const other = await crypto.subtle.importKey("raw", sender, algorithm, false, []);
    return new Uint8Array(await crypto.subtle.deriveBits({ name: "ECDH", public: other }, own, 256));
}

/** The bytes that the sender has encrypted. Rejects if the message is not for these keys. */
async function open(message, keys) {
    const isOld = message.encoding === "aesgcm";
    const { salt, sender, ciphertext } = parts(message);
    const device = bytes(keys.publicKey);
    const context = isOld ? joined(text.encode("P-256\0"), sized(device), sized(sender)) : [];
    const label = isOld ? info("Content-Encoding: auth") : info("WebPush: info", device, sender);
    const secret = await derive(await agree(keys, sender), bytes(keys.auth), label, 32);
    const name = isOld ? "aesgcm" : "aes128gcm";
    const raw = await derive(secret, salt, info(`Content-Encoding: ${name}`, context), 16);
    const iv = await derive(secret, salt, info("Content-Encoding: nonce", context), 12);
    const key = await crypto.subtle.importKey("raw", raw, "AES-GCM", false, ["decrypt"]);
    const plain = new Uint8Array(await crypto.subtle.decrypt({ name: "AES-GCM", iv }, key, ciphertext));
    return isOld ? withoutOldPadding(plain) : withoutPadding(plain);
}

/** A message without its delimiter and the zeros that follow (RFC 8188, section 2). */
function withoutPadding(plain) {
    const end = plain.findLastIndex((byte) => byte !== 0);
    if (plain[end] !== 2) throw new Error("the last record ends with 2");
    return plain.subarray(0, end);
}

/** A message without its padding, which comes first and begins with its length. */
function withoutOldPadding(plain) {
    const start = 2 + (plain[0] << 8) + plain[1];
    // Not a number if there are less than two bytes.
    if (!(start <= plain.length) || plain.subarray(2, start).some((byte) => byte !== 0)) throw new Error("no padding");
    return plain.subarray(start);
}

/** What the extension shows: the title and the body of a JSON object, or the text. */
function content(plain) {
    const whole = new TextDecoder().decode(plain);
    try {
        const { title, body } = JSON.parse(whole);
        if (typeof title === "string" || typeof body === "string") return { title, body };
    } catch {
        // Not JSON: the text itself is shown.
    }
    return { title: undefined, body: whole };
}

const KEPT = 1000;
/** What the extension shows for each message, because a snapshot is loaded often. */
const revealed = new Map();

async function shown(message, keys) {
    const key = `${keys.subscription} ${message.body}`;
    if (!revealed.has(key)) {
        if (revealed.size >= KEPT) revealed.clear();
        revealed.set(key, content(await open(message, keys)));
    }
    return revealed.get(key);
}

/** Replaces the fallback texts of a snapshot's notifications, where the device has the keys. */
export async function reveal(snapshot) {
    for (const app of snapshot.apps ?? []) {
        for (const notification of app.notifications) {
            const message = notification.webPush;
            const keys = snapshot.webPushKeys?.find((entry) => entry.subscription === message?.id);
            if (!message || !keys) continue;
            try {
                Object.assign(notification, await shown(message, keys), { webPushState: "decrypted" });
            } catch {
                notification.webPushState = message.fetch ? "not fetched" : "cannot be decrypted";
            }
        }
    }
    return snapshot;
}
