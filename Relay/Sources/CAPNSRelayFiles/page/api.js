// Calls the relay's API with the operator's token. The token is kept only in the session storage of this tab.

import { APIError, failure } from "./kit/api.js";

export { path } from "./kit/api.js";

const TOKEN_KEY = "apns-relay-token";
const TIMEOUT_SECONDS = 10;

let session = new AbortController();
let isClosed = false; // The token was forgotten, and no other was set yet.
let onRefused = () => {};

export const hasToken = () => sessionStorage.getItem(TOKEN_KEY) !== null;

/** Keeps the token for this tab. Throws if a request could not carry it. */
export function setToken(text) {
    const token = text.trim();
    if (!/^[\x21-\x7e]+$/.test(token)) throw new Error("A token has only visible ASCII characters and no spaces.");
    sessionStorage.setItem(TOKEN_KEY, token);
    isClosed = false;
}

/** Forgets the token. Pending requests throw `AbortError`, and so do later ones until another token is set. */
export function forgetToken() {
    sessionStorage.removeItem(TOKEN_KEY);
    isClosed = true;
    session.abort();
    session = new AbortController();
}

/** Calls this function when a request is refused with status 401. */
export function whenRefused(handler) {
    onRefused = handler;
}

/**
 * Sends a request and returns the decoded body. Throws `APIError`; `AbortError` if the token is forgotten.
 * `body`, if any, is sent as JSON. `seconds` is the time limit.
 */
export async function call(method, path, { body, seconds = TIMEOUT_SECONDS } = {}) {
    if (isClosed) throw new DOMException("The token was forgotten.", "AbortError");
    const token = sessionStorage.getItem(TOKEN_KEY);
    const headers = token === null ? {} : { authorization: `Bearer ${token}` };
    if (body !== undefined) headers["content-type"] = "application/json";
    const signal = AbortSignal.any([session.signal, AbortSignal.timeout(seconds * 1000)]);
    let error;
    try {
        const options = { method, headers, body: JSON.stringify(body), cache: "no-store", signal };
        const response = await fetch(path, options);
        if (response.ok) return await response.json();
        error = await failure(response, "The relay");
        signal.throwIfAborted();
    } catch (reason) {
        if (reason.name === "AbortError") throw reason;
        throw unreachable(reason, seconds);
    }
    if (error.status === 401) onRefused(error);
    throw error;
}

function unreachable(reason, seconds) {
    if (reason.name === "TimeoutError") {
        return new APIError(0, "timeout", `The relay did not respond within ${seconds} s.`);
    }
    if (reason instanceof SyntaxError) {
        return new APIError(0, "badResponse", "The relay's response is not valid JSON.");
    }
    return new APIError(0, "unreachable", "The relay cannot be reached.");
}

export const get = (path) => call("GET", path);

/** A query without the parameters that have no value. */
export function query(parameters) {
    const fields = new URLSearchParams();
    for (const [name, value] of Object.entries(parameters)) {
        if (value !== undefined && value !== null && value !== "") fields.set(name, value);
    }
    const text = fields.toString();
    return text === "" ? "" : `?${text}`;
}
