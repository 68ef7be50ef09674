// The control API: requests with the token and the header that mark this page, and the event stream.

import { APIError, failure } from "./kit/api.js";

export { APIError, path } from "./kit/api.js";

const TOKEN_KEY = "apns-simulator-token";

/** Moves the token from the address (`/#token=T`) to this tab's storage. */
export function takeToken() {
    const match = /^#token=(.+)$/.exec(location.hash);
    if (!match) return false;
    let token = match[1];
    try {
        token = decodeURIComponent(token);
    } catch {
        // A token with a bare percent sign is taken as it is.
    }
    sessionStorage.setItem(TOKEN_KEY, token);
    history.replaceState(null, "", location.pathname + location.search);
    return true;
}

function headers(method, hasBody) {
    const fields = {};
    const token = sessionStorage.getItem(TOKEN_KEY);
    if (token) fields.authorization = `Bearer ${token}`;
    if (method !== "GET") fields["x-apns-simulator"] = "page";
    if (hasBody) fields["content-type"] = "application/json";
    return fields;
}

async function send(path, method, body, signal) {
    try {
        return await fetch(path, {
            method,
            headers: headers(method, body !== undefined),
            body: body === undefined ? undefined : JSON.stringify(body),
            cache: "no-store",
            signal,
        });
    } catch (error) {
        if (error.name === "AbortError") throw error;
        throw new APIError(0, "unreachable", "The simulator cannot be reached. Is it still running?");
    }
}

/** Sends a request and returns the decoded body, or undefined for 204. Throws `APIError`. */
export async function call(method, path, body, signal) {
    const response = await send(path, method, body, signal);
    if (!response.ok) throw await failure(response, "The simulator");
    if (response.status === 204) return undefined;
    return response.json();
}

export const get = (path, signal) => call("GET", path, undefined, signal);

/**
 * Reads one event stream until it ends. Calls `onEvent(name, data)` for each event, with decoded JSON, and
 * `onOpen()` when the response has begun. EventSource is no choice: it cannot send the token.
 */
export async function readEvents(after, { onOpen, onEvent, signal }) {
    const response = await send(`/v1/events?after=${after}`, "GET", undefined, signal);
    if (!response.ok) throw await failure(response, "The simulator");
    onOpen();
    const reader = response.body.getReader();
    const decoder = new TextDecoder();
    let rest = "";
    for (;;) {
        let part;
        try {
            part = await reader.read();
        } catch (error) {
            if (error.name === "AbortError") throw error;
            throw new APIError(0, "unreachable", "The connection to the simulator was lost.");
        }
        if (part.done) return;
        rest += decoder.decode(part.value, { stream: true }).replaceAll("\r\n", "\n");
        let start = 0;
        for (let end = rest.indexOf("\n\n"); end >= 0; end = rest.indexOf("\n\n", start)) {
            dispatch(rest.slice(start, end), onEvent);
            start = end + 2;
        }
        rest = rest.slice(start);
    }
}

function dispatch(block, onEvent) {
    let name = "message";
    let data = "";
    for (const line of block.split("\n")) {
        if (line.startsWith("event:")) name = line.slice(6).trim();
        else if (line.startsWith("data:")) data += line.slice(5);
    }
    if (name === "message") return;
    let value;
    try {
        value = JSON.parse(data || "{}");
    } catch {
        return;
    }
    onEvent(name, value);
}
