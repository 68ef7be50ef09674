// A simulator of APNs for Node's test runner, without packages. Copy this file.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

/** Starts a simulator on free ports. Options: those of `apns simulator`, such as --without-token. */
export async function startAPNs(...options) {
    const folder = await mkdtemp(join(tmpdir(), "apns-"));
    const fixed = ["simulator", "--port", "0", "--control", "0", "--write-credentials", folder];
    const child = spawn(process.env.APNS ?? "apns", [...fixed, ...options], { stdio: ["ignore", "pipe", "inherit"] });
    const control = await new Promise((resolve, reject) => {
        child.on("error", reject).on("exit", () => reject(new Error("apns simulator ended before it was ready")));
        createInterface(child.stdout).on("line", (line) => {
            const address = line.match(/^The pushes appear at (\S+)\/$/)?.[1];
            if (address) resolve(address);
        });
    });
    // APNS_ENDPOINT, APNS_CA_FILE and, unless --without-token, APNS_KEY_FILE, APNS_KEY_ID and APNS_TEAM_ID.
    const lines = (await readFile(join(folder, "apns.env"), "utf8")).trim().split("\n");
    const settings = Object.fromEntries(lines.map((line) => line.split("=")));

    /** Any call of the API, which /openapi.json describes: faults, devices and more. */
    async function call(method, path, body) {
        const headers = { "x-apns-simulator": "test" };
        const response = await fetch(control + path, { method, headers, body: body && JSON.stringify(body) });
        const text = await response.text();
        assert(response.ok, `${method} ${path}: ${response.status} ${text}`);
        return text ? JSON.parse(text) : undefined;
    }
    const details = async (path) => Promise.all((await call("GET", path)).pushes
        .map(({ order }) => call("GET", `/v1/pushes/${order}`)));
    return {
        settings, call, endpoint: settings.APNS_ENDPOINT, ca: await readFile(join(folder, "ca.pem")),
        /** The first pushes that match. Filters: token, topic, pushType, outcome, reason, count, … */
        wait: (filters = {}) => details(`/v1/pushes/wait?${new URLSearchParams(filters)}`),
        /** States: active, unregistered, expired, other-environment, other-topic, busy. */
        setToken: (token, state, values = {}) => call("PUT", `/v1/tokens/${token}`, { state, ...values }),
        /** Forgets pushes, faults, states of tokens and devices. */
        reset: () => call("POST", "/v1/reset"),
        /** Fails if a push has hints: APNs accepts it, and something in it has no effect or is a mistake. */
        async checkHints() {
            const hints = (await details("/v1/pushes?hints=true")).flatMap((push) => push.hints);
            assert.deepEqual(hints.map(({ message }) => message), []);
        },
        async stop() {
            child.removeAllListeners("exit").kill();
            await rm(folder, { recursive: true });
        },
    };
}
