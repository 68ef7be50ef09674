// The detail view of one push.

import { APIError, call, get, path } from "./api.js";
import { comparison } from "./compare.js";
import { clock, duration, outcome, sourceLink } from "./format.js";
import { isJSON, payloadNodes } from "./json.js";
import { button, copyButton, el, exact } from "./kit/dom.js";
import { dateTime, number } from "./kit/format.js";
import { LANGUAGES, asCurl } from "./tests.js";

// What a user is likely to test.
const REASONS = ["Unregistered", "ExpiredToken", "BadDeviceToken", "DeviceTokenNotForTopic", "TooManyRequests",
    "InternalServerError", "ServiceUnavailable", "PayloadTooLarge", "TopicDisallowed", "InvalidProviderToken"];

export class Detail {
    #root;
    #actions;
    #request = undefined;
    order = undefined;
    state = undefined; // Of the simulator.

    /** `actions`: `onFilter(name, value)`, `onDevice(push)`, `onMessage(text)`, `onError(error)`. */
    constructor(root, actions) {
        this.#root = root;
        this.#actions = actions;
        this.close();
    }

    close() {
        this.#request?.abort();
        this.order = undefined;
        this.#root.replaceChildren(el("div", { class: "placeholder" },
            el("h2", { text: "No push selected" }),
            el("p", { text: "Select a push to see its headers, its payload and the response." })));
    }

    /** Shows what the list knows at once, and the rest when it has arrived. */
    async open(order, known) {
        this.#request?.abort();
        const request = new AbortController();
        this.#request = request;
        this.order = order;
        if (known) this.#root.replaceChildren(this.#title(known));
        this.#root.scrollTop = 0;
        try {
            const push = await get(path("v1", "pushes", order), request.signal);
            if (this.order === order) this.#root.replaceChildren(this.#title(push), ...this.#sections(push));
        } catch (error) {
            if (error.name === "AbortError" || this.order !== order) return;
            const isGone = error instanceof APIError && error.status === 404;
            const text = isGone ? "The simulator no longer keeps this push." : error.message;
            this.#root.append(el("p", { class: "notice bad", text }));
            if (!isGone) this.#actions.onError(error);
        }
    }

    #title(push) {
        const { text, tone, word } = outcome(push);
        const result = text === "none" ? word : push.reason ? `${text} ${push.reason}` : `${text} ${word}`;
        return el("header", { class: "detail-head" },
            el("div", { class: "detail-line" },
                el("span", { class: `pill wide ${tone}`, "data-field": "outcome" }, exact(result)),
                el("span", { class: "muted" }, `Push ${number(push.order)}`)),
            el("h2", { class: "detail-title" }, exact(push.summary || push.pushType || "Push")));
    }

    #tools(push) {
        const compared = el("div", {});
        const compare = async () => {
            try {
                compared.replaceChildren(await comparison(push, this.#request.signal));
            } catch (error) {
                if (error.name !== "AbortError") this.#actions.onError(error);
            }
        };
        const isForDevice = push.deviceToken !== undefined;
        return [el("div", { class: "detail-tools" },
            isForDevice && button("Show on device", () => this.#actions.onDevice(push), { id: "show-device" }),
            button("Compare with the one before", compare, { id: "compare" }),
            isForDevice && this.#copyMenu(push), isForDevice && this.#answerMenu(push)), compared];
    }

    /** A menu that performs what is chosen, and shows its name again. */
    #menu(name, id, options, perform) {
        return el("select", { id, "aria-label": name, onchange: async ({ target }) => {
            const choice = target.value;
            target.value = "";
            try {
                this.#actions.onMessage(await perform(choice));
            } catch (error) {
                this.#actions.onError(error);
            }
        } }, el("option", { value: "", text: name }), options.map((value) => el("option", { value, text: value })));
    }

    #copyMenu(push) {
        const texts = {
            Link: () => `${location.origin}${location.pathname}#push=${push.order}`,
            "Command for curl": () => asCurl(push, this.state),
        };
        for (const [language, write] of Object.entries(LANGUAGES)) texts[`Test in ${language}`] = () => write(push);
        return this.#menu("Copy as…", "copy-as", Object.keys(texts), async (choice) => {
            await navigator.clipboard.writeText(texts[choice]());
            return `${choice} copied.`;
        });
    }

    #answerMenu(push) {
        const other = "Another reason…";
        return this.#menu("Answer from now on…", "answer", [...REASONS, other], async (choice) => {
            const reason = choice === other ? prompt("The reason, as APNs writes it:") : choice;
            if (!reason) return "Nothing was changed.";
            const effect = { kind: "respond", reason };
            if (reason === "Unregistered" || reason === "ExpiredToken") effect.timestamp = Date.now();
            await call("POST", "/v1/faults", { when: { deviceTokens: [push.deviceToken], always: true }, effect });
            return `Pushes to this token get ${reason}. The fault is in the list of faults.`;
        });
    }

    #sections(push) {
        return [
            ...this.#tools(push), this.#hints(push), this.#payload(push), this.#facts(push),
            this.#headers(push), this.#response(push),
        ];
    }

    #hints(push) {
        const meaning = push.meaning && el("p", { class: "notice bad", "data-field": "meaning" },
            exact(push.meaning.message), " ", sourceLink(push.meaning.source));
        if (!push.hints?.length) return meaning ?? "";
        return section("Hints", meaning, el("ul", { class: "hints" }, push.hints.map((hint) =>
            el("li", {}, el("span", {}, exact(hint.message)), " ", sourceLink(hint.source)))));
    }

    #facts(push) {
        const rows = [];
        const add = (name, value, { filter, copy, mono } = {}) => {
            if (value === undefined) return;
            const text = el("span", { class: mono ? "value mono" : "value" }, exact(value));
            const tools = [];
            if (filter) {
                const apply = () => this.#actions.onFilter(filter, push[filter]);
                tools.push(button("Filter", apply, {
                    class: "quiet small", "aria-label": `Show only pushes with this ${name}`,
                }));
            }
            if (copy) tools.push(copyButton(String(value), name));
            rows.push(el("div", {}, el("dt", { text: name }),
                el("dd", {}, text, tools.length > 0 && el("span", { class: "tools" }, tools))));
        };
        add("Device token", push.deviceToken, { filter: "deviceToken", copy: true, mono: true });
        add("Channel", push.channelID, { copy: true, mono: true });
        add("Topic", push.topic, { filter: "topic" });
        add("Push type", push.pushType, { filter: "pushType" });
        add("Collapse id", push.collapseID, { filter: "collapseID" });
        add("apns-id", push.apnsID, { copy: true, mono: true });
        add("Priority", push.priority);
        if (push.expiration !== undefined) add("Expiration", expiration(push.expiration));
        add("Arrived", clock(push.timeMilliseconds));
        if (push.delayMilliseconds > 0) add("Held back", duration(push.delayMilliseconds));
        add("Connection", `${push.connection}, stream ${push.streamID}`);
        if (push.keyID) add("Signed with", `key ${push.keyID}${push.teamID ? `, team ${push.teamID}` : ""}`);
        if (push.faults?.length) add("Faults", push.faults.join(", "));
        if (push.outcome === "no-response") {
            add("Processed", push.isProcessed ? "Yes: a device was notified" : "No: no device was notified");
        } else if (push.outcome === "rejected" && push.isProcessed) {
            add("Processed", "Yes, in spite of the response");
        }
        return section("Push", el("dl", { class: "facts" }, rows));
    }

    #payload(push) {
        const limit = push.payloadLimit ?? 4096;
        const share = push.payloadBytes / limit;
        const tone = share > 1 ? "bad" : share > 0.9 ? "warn" : "good";
        const fill = el("span", { class: `meter-fill ${tone}` });
        fill.style.width = `${Math.min(100, share * 100)}%`;
        const size = `${number(push.payloadBytes)} of ${number(limit)} bytes`;
        const head = el("div", { class: "meter-line" },
            el("span", { class: "meter", role: "meter", "aria-label": "Payload size", "aria-valuemin": 0,
                "aria-valuemax": limit, "aria-valuenow": Math.min(push.payloadBytes, limit),
                "aria-valuetext": size }, fill),
            el("span", { class: "muted", "data-field": "size" }, `${size} (${Math.round(share * 100)} %)`));
        if (push.payload === undefined) {
            const base64 = push.payloadBase64;
            const note = base64 === undefined ? "There is no payload." : "Not UTF-8. Shown as Base64:";
            return section("Payload", head, el("p", { class: "notice warn", text: note }),
                base64 && el("pre", { class: "code", "data-field": "payload", tabindex: "0" }, base64));
        }
        const heading = el("div", { class: "section-head" }, el("h3", { text: "Payload" }),
            copyButton(push.payload, "the payload"));
        const broken = !isJSON(push.payload) &&
            el("p", { class: "notice bad", text: "This is not valid JSON." });
        return el("section", { class: "section" }, heading, head, broken,
            el("pre", { class: "code", "data-field": "payload", tabindex: "0", "aria-label": "Payload" },
                payloadNodes(push.payload)));
    }

    #headers(push) {
        return section("Headers", fields(push.headers ?? {}, "headers"));
    }

    #response(push) {
        if (!push.response) {
            const text = `The simulator sent no response: ${push.fate ?? "unknown"}.`;
            return section("Response", el("p", { class: "notice warn", text }));
        }
        const { status, headers, body } = push.response;
        return section("Response", fields({ ":status": status, ...headers }, "response"),
            body
                ? el("pre", { class: "code", "data-field": "response-body", tabindex: "0" }, payloadNodes(body))
                : el("p", { class: "muted", text: "No body." }));
    }
}

const section = (title, ...children) =>
    el("section", { class: "section" }, el("h3", { text: title }), ...children);

const fields = (values, name) => el("dl", { class: "fields mono", "data-field": name },
    Object.entries(values).map(([key, value]) =>
        el("div", {}, el("dt", {}, exact(key)), el("dd", {}, exact(value)))));

function expiration(seconds) {
    if (seconds === 0) return "0: one attempt, never stored";
    return `${dateTime(seconds)} (${seconds})`;
}
