// Compares a push with the one before it for the same device token or channel.

import { get } from "./api.js";
import { el, exact } from "./kit/dom.js";
import { number } from "./kit/format.js";

/** What differs between two pushes, as nodes; a note if there is no earlier one. */
export async function comparison(push, signal) {
    const query = new URLSearchParams({ before: push.order, newest: true, limit: 1 });
    query.set(push.channelID ? "channelID" : "token", push.channelID ?? push.deviceToken);
    const [earlier] = (await get(`/v1/pushes?${query}`, signal)).pushes;
    if (!earlier) return el("p", { class: "notice plain", text: "This is the first push that is kept for this recipient." });
    const before = await get(`/v1/pushes/${earlier.order}`, signal);
    const [old, now] = [flat(before), flat(push)];
    const names = [...new Set([...old.keys(), ...now.keys()])].filter((name) => old.get(name) !== now.get(name));
    const rows = names.map((name) => el("div", { "data-name": name }, el("dt", {}, exact(name)), el("dd", {},
        old.has(name) && el("span", { class: "old" }, exact(old.get(name))),
        now.has(name) && el("span", { class: "new" }, exact(now.get(name))))));
    const heading = el("h3", { text: `Compared with push ${number(before.order)}` });
    const same = el("p", { class: "muted", text: "Headers, payload and response are equal." });
    return el("section", { class: "section", "data-field": "comparison" }, heading,
        rows.length > 0 ? el("dl", { class: "fields mono comparison" }, rows) : same);
}

/** The values of a push by their places: `apns-priority`, `aps.alert.title`, `:status`. */
function flat(push) {
    const values = new Map();
    const add = (path, value) => {
        if (value !== null && typeof value === "object" && Object.keys(value).length > 0) {
            for (const [key, item] of Object.entries(value)) add(path ? `${path}.${key}` : key, item);
        } else values.set(path, typeof value === "string" ? value : JSON.stringify(value));
    };
    for (const [name, value] of Object.entries(push.headers ?? {})) {
        if (name !== "apns-id" && name !== "content-length") values.set(name, value);
    }
    if (push.payloadJSON !== undefined) add("", push.payloadJSON);
    else values.set("payload", push.payload ?? push.payloadBase64 ?? "");
    values.set(":status", String(push.status ?? push.fate));
    if (push.reason) values.set("reason", push.reason);
    return values;
}
