// A sender of Web Push, written from RFC 8188, 8291 and 8292 with Node's own modules.
//
//     node sender.mjs < request.json
//
// The request: {"subscription": {"endpoint", "keys": {"p256dh", "auth"}}, "text", "ttl"}. Prints the status and the address of
// the message.

import { createCipheriv, createECDH, createHmac, generateKeyPairSync, randomBytes, sign } from "node:crypto";

const { subscription, text, ttl } = JSON.parse(await new Response(process.stdin).text());

function hkdf(salt, secret, info, count) {
    const key = createHmac("sha256", salt).update(secret).digest();
    return createHmac("sha256", key).update(info).update(Buffer.of(1)).digest().subarray(0, count);
}

/** RFC 8291, section 3.4, and RFC 8188, section 2. */
function encrypt(plaintext, { p256dh, auth }) {
    const device = Buffer.from(p256dh, "base64url");
    const sender = createECDH("prime256v1");
    const publicKey = sender.generateKeys();
    const info = Buffer.concat([Buffer.from("WebPush: info\0"), device, publicKey]);
    const secret = hkdf(Buffer.from(auth, "base64url"), sender.computeSecret(device), info, 32);
    const salt = randomBytes(16);
    const key = hkdf(salt, secret, "Content-Encoding: aes128gcm\0", 16);
    const nonce = hkdf(salt, secret, "Content-Encoding: nonce\0", 12);
    const cipher = createCipheriv("aes-128-gcm", key, nonce);
    const padded = Buffer.concat([Buffer.from(plaintext), Buffer.of(2, 0, 0, 0)]);
    const record = Buffer.concat([cipher.update(padded), cipher.final(), cipher.getAuthTag()]);
    const size = Buffer.alloc(4);
    size.writeUInt32BE(4096);
    return Buffer.concat([salt, size, Buffer.of(publicKey.length), publicKey, record]);
}

/** RFC 8292, section 3. */
function authorization(endpoint) {
    const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "prime256v1" });
    const { x, y } = publicKey.export({ format: "jwk" });
    const point = Buffer.concat([Buffer.of(4), Buffer.from(x, "base64url"), Buffer.from(y, "base64url")]);
    const claims = { aud: new URL(endpoint).origin, exp: Math.floor(Date.now() / 1000) + 3600 };
    const part = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
    const signed = `${part({ typ: "JWT", alg: "ES256" })}.${part(claims)}`;
    const signature = sign("sha256", Buffer.from(signed), { key: privateKey, dsaEncoding: "ieee-p1363" });
    return `vapid t=${signed}.${signature.toString("base64url")}, k=${point.toString("base64url")}`;
}

const response = await fetch(subscription.endpoint, {
    method: "POST",
    body: encrypt(text, subscription.keys),
    headers: { TTL: String(ttl), "Content-Encoding": "aes128gcm", Authorization: authorization(subscription.endpoint) },
});
console.log(response.status, response.headers.get("location"));
