// Starts `apns simulator` and asks it what arrived. Copy this file into your tests; Docs/Simulator.md lists
// the calls of its API.

import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

export class Simulator {
    #control;
    #process;
    #folder;

    /** Starts a simulator on free ports. --without-token: pushes need no JWT. */
    static async start() {
        const simulator = new Simulator();
        simulator.#folder = await mkdtemp(join(tmpdir(), "apns-"));
        const options = ["--port", "0", "--control", "0", "--without-token", "--write-credentials", simulator.#folder];
        simulator.#process = spawn(process.env.APNS ?? "apns", ["simulator", ...options], {
            stdio: ["ignore", "pipe", "inherit"],
        });
        let spawnError;
        simulator.#process.on("error", (error) => { spawnError = error; });
        // The last line of its greeting; the output ends early if the simulator cannot start.
        for await (const line of createInterface(simulator.#process.stdout)) {
            simulator.#control = line.match(/^The pushes appear at (\S+)\/$/)?.[1];
            if (simulator.#control) break;
        }
        if (!simulator.#control) throw spawnError ?? new Error("apns simulator ended before it was ready");
        simulator.endpoint = (await simulator.call("GET", "/v1/state")).endpoint;
        simulator.ca = await readFile(join(simulator.#folder, "ca.pem"));
        return simulator;
    }

    async stop() {
        this.#process.kill();
        await rm(this.#folder, { recursive: true });
    }

    /** The pushes that arrived, oldest first, at most 1000. Filters: token, topic, pushType, outcome, reason, … */
    received(filters = {}) {
        return this.#details(`/v1/pushes?${new URLSearchParams({ limit: 1000, ...filters })}`);
    }

    /** The first pushes that match, as soon as there are enough. Throws after ten seconds. */
    waitFor(count, filters = {}) {
        return this.#details(`/v1/pushes/wait?${new URLSearchParams({ count, timeoutSeconds: 10, ...filters })}`);
    }

    /** States: active, unregistered, expired, other-environment, other-topic, busy. */
    setToken(token, state, values = {}) {
        return this.call("PUT", `/v1/tokens/${token}`, { state, ...values });
    }

    /** What the device with this token shows now. */
    device(token) {
        return this.call("GET", `/v1/tokens/${token}/device`);
    }

    /** Any call of the API. A request that changes something needs the header x-apns-simulator. */
    async call(method, path, body) {
        const response = await fetch(this.#control + path, {
            method,
            headers: { "x-apns-simulator": "test" },
            body: body && JSON.stringify(body),
        });
        const text = await response.text();
        if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
        return text ? JSON.parse(text) : undefined;
    }

    async #details(path) {
        const { pushes } = await this.call("GET", path);
        return Promise.all(pushes.map(({ order }) => this.call("GET", `/v1/pushes/${order}`)));
    }
}
