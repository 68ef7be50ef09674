// Looks up a push by its id, and shows all its fields.

import { Actions } from "./actions.js";
import { call, get, path } from "./api.js";
import { Fields, json, time } from "./fields.js";
import { outcome } from "./format.js";
import { announce, el, setExact, setText } from "./kit/dom.js";
import { number } from "./kit/format.js";

const STATES = new Map([
    ["queued", ["Queued", "accent"]], ["claimed", ["Claimed", "accent"]], ["written", ["Written", "accent"]],
    ["parked", ["Parked", "warn"]], ["settled", ["Settled", ""]],
]);

const FIELDS = [
    ["App", "app"], ["Environment", "environment"], ["Lane", "lane"], ["Caller", "caller"],
    ["Device token", "token"], ["Batch", "batch"], ["Idempotency key", "idempotencyKey"],
    ["Metadata", "metadata", json],
    ["Queued at", "queuedAt", time], ["Not before", "notBefore", time], ["Deadline", "deadline", time],
    ["Attempts", "attempts"], ["Settled at", "settledAt", time],
];
const OUTCOME_FIELDS = [
    ["Outcome", "outcome"], ["Status", "status"], ["Reason", "reason"], ["Code", "code"],
    ["Message", "message"],
    ["Attempts", "attempts"], ["Token invalid since", "tokenInvalidSince", time], ["Advice", "advice"],
    ["Retry after", "retryAfterSeconds", (value) => (Number.isFinite(value) ? `${number(value)} s` : "–")],
    ["apns-unique-id", "apnsUniqueID"],
];

export class PushPanel {
    #input = el("input", { class: "mono", autocomplete: "off", spellcheck: "false", "data-field": "id",
        placeholder: "apns-id of a push" });
    #note = el("p", { class: "note bad", "data-field": "note" });
    #body = el("div", { class: "push", tabindex: "-1", hidden: true });
    #title = el("h3", { class: "mono", "data-field": "title" });
    #state = el("span", { class: "pill", "data-field": "state" });
    #fields = new Fields("push", FIELDS);
    #outcome = el("h4");
    #outcomeFields = new Fields("outcome", OUTCOME_FIELDS);
    #actions = new Actions();
    #cancel;
    #id;
    #push;
    #load = 0;
    #isVisible = false;

    constructor(root) {
        const form = el("form", { class: "bar" },
            el("label", {}, el("span", { class: "visually-hidden", text: "apns-id of a push" }), this.#input),
            el("button", { class: "primary", text: "Look up" }));
        form.addEventListener("submit", (event) => {
            event.preventDefault();
            this.open(this.#input.value.trim().toLowerCase());
        });
        this.#cancel = this.#actions.add("Cancel push…", {
            tone: "danger", subject: () => this.#id,
            question: () => ({ title: "Cancel this push?", text: "It will not be sent. It ends as cancelled.",
                yes: "Cancel push" }),
            work: (id) => call("DELETE", path("v1", "pushes", id))
                .then(() => "The push is cancelled.").finally(() => this.#reload(id)),
        });
        this.#body.append(el("div", { class: "section-head" }, this.#title, this.#state), this.#actions.element,
            this.#fields.element, this.#outcome, this.#outcomeFields.element);
        root.append(form, this.#note, this.#body);
    }

    set isVisible(isVisible) {
        this.#isVisible = isVisible;
    }

    /** Reads the push again, because it may have changed. Called every two seconds. */
    update() {
        if (this.#isVisible && this.#push && this.#push.state !== "settled") this.#reload(this.#id);
    }

    focus() {
        this.#input.select();
    }

    /** Shows the push with this id. */
    open(id) {
        if (id === "") {
            this.#input.focus();
            return;
        }
        this.#input.value = id;
        this.#id = id;
        this.#push = undefined;
        this.#body.hidden = true;
        this.#actions.clear();
        setExact(this.#note, "");
        this.#reload(id);
    }

    async #reload(id) {
        this.#load += 1;
        const load = this.#load;
        try {
            const push = await get(path("v1", "pushes", id));
            if (load === this.#load) this.#show(push);
        } catch (error) {
            if (load !== this.#load || error.name === "AbortError") return;
            const isUnknown = error.status === 404;
            const text = isUnknown ? "No push has this id, or its outcome is no longer kept." : error.message;
            setExact(this.#note, text);
            if (isUnknown) this.#body.hidden = true;
            if (!this.#push || isUnknown) announce(text, true);
            if (isUnknown) this.#push = undefined;
        }
    }

    #show(push) {
        const isNew = this.#push === undefined;
        this.#push = push;
        setExact(this.#note, "");
        setExact(this.#title, push.id);
        const [word, tone] = STATES.get(push.state) ?? [String(push.state), ""];
        setText(this.#state, word);
        this.#state.className = `pill ${tone}`;
        this.#cancel.hidden = push.state !== "queued" && push.state !== "claimed";
        this.#fields.update(push);
        const result = push.outcome;
        setText(this.#outcome, push.state === "settled" ? "Outcome" : "Last attempt");
        this.#outcomeFields.element.hidden = this.#outcome.hidden = result === null;
        if (result !== null) this.#outcomeFields.update(result);
        this.#body.hidden = false;
        if (isNew) announce(`Push ${push.id}: ${word}${result ? `, ${outcome(result).word}` : ""}`);
    }
}
