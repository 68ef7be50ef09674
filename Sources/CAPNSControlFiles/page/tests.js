// Writes what a push becomes outside this page: a command for curl, and tests that expect it.

/** The push as a command that sends it again. `curl` is the beginning of the command. */
export function asCurl(push, { curl, endpoint }) {
    const skipped = new Set(["content-length", "accept-encoding", "accept", "user-agent"]);
    const headers = Object.entries(push.headers ?? {}).filter(([name]) => !skipped.has(name));
    const options = headers.map(([name, value]) => `-H ${shell(`${name}: ${value}`)}`);
    return [curl, ...options, `--data-binary ${shell(push.payload ?? "")}`,
        shell(`${endpoint}/3/device/${push.deviceToken}`)].join(" \\\n  ");
}

const shell = (text) => `'${String(text).replaceAll("'", "'\\''")}'`;

/** The languages of `asTest`, by name. */
export const LANGUAGES = { Swift: swiftTest, Python: pythonTest, Node: nodeTest };

/** What a test compares: the fields of the push that its sender chose. */
const expected = (push) => ["pushType", "topic", "priority", "collapseID", "status", "reason"]
    .filter((name) => push[name] !== undefined).map((name) => [name, push[name]]);

function pythonTest(push) {
    const lines = expected(push).map(([name, value]) => `    assert push["${name}"] == ${python(value)}`);
    return `def test_push(apns):
    ...  # Let your code send the push to apns.endpoint.
    [push] = apns.wait(token=${python(push.deviceToken)})
${lines.join("\n")}
    assert push["payloadJSON"] == ${python(push.payloadJSON ?? null)}
`;
}

function nodeTest(push) {
    const lines = expected(push).map(([name, value]) => `    assert.equal(push.${name}, ${JSON.stringify(value)});`);
    return `test("push", async () => {
    // Let your code send the push to apns.endpoint.
    const [push] = await apns.wait({ token: ${JSON.stringify(push.deviceToken)} });
${lines.join("\n")}
    assert.deepEqual(push.payloadJSON, ${JSON.stringify(push.payloadJSON ?? null)});
});
`;
}

function swiftTest(push) {
    const values = { pushType: (value) => `PushType(rawValue: ${swift(value)})`,
        priority: (value) => `Priority(rawValue: ${value})`,
        reason: (value) => `RejectionReason(rawValue: ${swift(value)})` };
    const lines = expected(push).map(([name, value]) =>
        `        #expect(push.${name} == ${values[name]?.(value) ?? swift(value)})`);
    return `@Test func push() async throws {
    try await withSimulatedAPNS { client, simulator in
        // Let your code send the push with this client.
        let push = try await simulator.waitFor(1, PushFilter(deviceToken: ${swift(push.deviceToken)}))[0]
${lines.join("\n")}
        #expect(String(decoding: push.payload, as: UTF8.self) == ${swift(push.payload ?? "")})
    }
}
`;
}

/** A JSON value as Python writes it. */
function python(value) {
    if (value === null) return "None";
    if (value === true) return "True";
    if (value === false) return "False";
    if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
    if (typeof value !== "object") return JSON.stringify(value);
    return `{${Object.entries(value).map(([key, item]) => `${JSON.stringify(key)}: ${python(item)}`).join(", ")}}`;
}

/** A value as Swift writes it. A raw string has no escapes. */
function swift(value) {
    if (typeof value !== "string") return String(value);
    const needsRaw = /["\\]/.test(value);
    let marks = needsRaw ? "#" : "";
    while (needsRaw && value.includes(`"${marks}`)) marks += "#";
    const isLong = /[\r\n]/.test(value);
    return isLong ? `${marks}"""\n${value}\n"""${marks}` : `${marks}"${value}"${marks}`;
}
