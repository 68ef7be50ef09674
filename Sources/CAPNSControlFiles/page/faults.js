// Fault presets, the faults that can still apply, and a field for a fault of one's own.

import { call, get, path } from "./api.js";
import { button, el, exact, setText } from "./kit/dom.js";
import { count, number } from "./kit/format.js";

const EXAMPLE = '{"when": {"times": 3}, "effect": {"kind": "respond", "reason": "Unregistered"}}';

const TEN_SECONDS = { always: true, toMilliseconds: 10000 };
const NOW = { on: "time" };
const PRESETS = [
    { name: "unavailable", title: "503 for ten seconds", text: "Each request gets 503 ServiceUnavailable.",
        fault: { when: TEN_SECONDS, effect: { kind: "respond", reason: "ServiceUnavailable" } } },
    { name: "goaway", title: "GOAWAY now", text: "All connections end after the requests that have arrived.",
        fault: { when: NOW, effect: { kind: "goaway" } } },
    { name: "drop", title: "Drop all connections", text: "All connections are closed without GOAWAY.",
        fault: { when: NOW, effect: { kind: "drop" } } },
    { name: "slow", title: "Slow responses for ten seconds", text: "Each response is sent two seconds late.",
        fault: { when: TEN_SECONDS, effect: { kind: "delay", milliseconds: 2000 } } },
    { name: "refuse-key", title: "Refuse the key",
        text: "Each request gets 403 InvalidProviderToken, until you remove this fault.",
        fault: { when: { always: true }, effect: { kind: "respond", reason: "InvalidProviderToken" } } },
];

export class FaultsPanel {
    #actions;
    #isVisible = false;
    #shown = "";
    #active = el("div", {});
    #limit = el("button", { type: "button", role: "switch", class: "switch", id: "token-limit",
        text: "Limit provider tokens", onclick: () => this.#toggleLimit() });
    #limitText = el("p", { class: "muted small", id: "token-limit-text" });
    #own = el("textarea", { rows: "4", class: "mono", spellcheck: "false", "aria-label": "Fault as JSON" });

    /** `actions`: `onError(error)`, `onMessage(text)`, `onCount(number)`. */
    constructor(root, actions) {
        this.#actions = actions;
        this.#own.value = EXAMPLE;
        root.append(
            el("section", { class: "section" }, el("h3", { text: "Presets" }),
                el("div", { class: "presets" }, PRESETS.map((preset) => this.#preset(preset)))),
            el("section", { class: "section" }, el("h3", { text: "Active faults" }), this.#active),
            el("section", { class: "section" }, el("h3", { text: "Provider tokens" }), this.#limit,
                this.#limitText),
            el("details", { class: "form" }, el("summary", { text: "Add a fault as JSON" }),
                el("div", { class: "stack" }, this.#own,
                    el("p", { class: "muted small",
                        text: "One fault, a list of faults or a script. Help lists the keys." }),
                    button("Add fault", () => this.#add(), { class: "primary" }))));
    }

    set isVisible(isVisible) {
        this.#isVisible = isVisible;
        if (isVisible) this.load();
    }

    /** Called with each state of the simulator. */
    update(state) {
        this.#actions.onCount(state.faults);
        this.#showLimit(state.settings);
        if (this.#isVisible) this.load();
    }

    async load() {
        try {
            this.#show((await get("/v1/faults")).faults);
        } catch (error) {
            this.#actions.onError(error);
        }
    }

    #preset({ name, title, text, fault }) {
        const add = () => this.#perform(() => call("POST", "/v1/faults", fault), () => `${title}: done.`);
        return el("button", { type: "button", class: "preset", "data-preset": name, onclick: add },
            el("span", { class: "preset-title", text: title }), el("span", { class: "muted small", text }));
    }

    #showLimit({ limitsProviderTokenUpdates: isOn }) {
        this.#limit.hidden = isOn === null;
        this.#limit.setAttribute("aria-checked", isOn === true);
        setText(this.#limitText, {
            null: "This simulator accepts requests without a provider token, and does not check tokens.",
            true: "A second token of one key within 20 minutes gets 429 TooManyProviderTokenUpdates.",
            false: "A key may have any number of tokens. APNs would respond to a second one within 20 minutes "
                + "with 429.",
        }[isOn]);
    }

    #toggleLimit() {
        const limitsProviderTokenUpdates = this.#limit.getAttribute("aria-checked") !== "true";
        return this.#perform(async () =>
            this.#showLimit(await call("PATCH", "/v1/settings", { limitsProviderTokenUpdates })));
    }

    async #perform(work, message) {
        try {
            const result = await work();
            if (message) this.#actions.onMessage(message(result));
        } catch (error) {
            this.#actions.onError(error);
        }
        await this.load();
    }

    #add() {
        let fault;
        try {
            fault = JSON.parse(this.#own.value);
        } catch (error) {
            this.#actions.onError(new Error(`The fault is not valid JSON: ${error.message}`));
            return;
        }
        this.#perform(() => call("POST", "/v1/faults", fault), ({ faults }) =>
            `${count(faults.length, "fault")} added.`);
    }

    #show(faults) {
        this.#actions.onCount(faults.length);
        const text = JSON.stringify(faults);
        if (text === this.#shown) return;
        this.#shown = text;
        const focused = document.activeElement?.dataset?.fault;
        if (faults.length === 0) {
            this.#active.replaceChildren(
                el("p", { class: "muted", text: "None: the simulator responds as APNs does." }));
            return;
        }
        this.#active.replaceChildren(
            el("ul", { class: "fault-list" }, faults.map((fault) => this.#item(fault))),
            button("Remove all", () => this.#perform(() => call("DELETE", "/v1/faults"))));
        if (focused) this.#active.querySelector(`[data-fault="${CSS.escape(focused)}"]`)?.focus();
    }

    #item(fault) {
        const remove = () => this.#perform(() => call("DELETE", path("v1", "faults", fault.id)));
        const condition = describe(fault.when ?? {});
        return el("li", {},
            el("div", { class: "fault-text" },
                el("span", { class: "fault-effect" }, exact(describe(fault.effect ?? {}))),
                condition && el("span", { class: "muted small" }, "when ", exact(condition)),
                el("span", { class: "muted small",
                    text: `matched ${number(fault.matched)}, applied ${number(fault.applied)}` })),
            button("Remove", remove, { class: "small", "data-fault": fault.id,
                "aria-label": `Remove fault ${fault.id}` }));
    }
}

/** The keys and values of a condition or an effect; the kind of an effect comes first, without its key. */
function describe({ kind, ...rest }) {
    const parts = Object.entries(rest).map(([key, value]) =>
        value === true ? key : `${key} ${typeof value === "string" ? value : JSON.stringify(value)}`);
    return [kind, parts.join(", ")].filter(Boolean).join(": ");
}
