// Looks up a push by its id, shows all its fields, and cancels it or decides about it while it is parked.

import { Actions } from "./actions.js";
import { call, get, path } from "./api.js";
import { outcome } from "./format.js";
import { announce, el, setExact } from "./kit/dom.js";
import { Reader } from "./reader.js";
import { Fields } from "./table.js";

const TONES = { queued: "accent", claimed: "accent", written: "accent", parked: "warn" };
const isParked = ({ state }) => state === "parked";

export class PushPanel {
    isVisible = false;
    #input = el("input", {
        class: "mono", autocomplete: "off", spellcheck: "false", "data-field": "id", placeholder: "apns-id of a push",
        "aria-label": "apns-id of a push",
    });
    #body = el("div", { class: "push", tabindex: -1, hidden: true });
    #title = el("h3", { class: "mono", "data-field": "title" });
    #state = el("span", { class: "pill", "data-field": "state" });
    #fields = new Fields("push");
    #heading = el("h4");
    #outcome = new Fields("outcome");
    #actions;
    #reader;
    #id;
    #push;

    constructor(root) {
        const form = el("form", { class: "bar", onsubmit: (event) => {
            event.preventDefault();
            this.open(this.#input.value.trim().toLowerCase());
        } }, this.#input, el("button", { class: "primary", text: "Look up" }));
        this.#reader = new Reader("push", {
            read: () => get(path("v1", "pushes", this.#id)).catch((error) => {
                if (error.status !== 404) throw error;
            }),
            show: (push) => this.#show(push),
        });
        const change = (method, ...parts) => call(method, path("v1", ...parts)).finally(() => void this.#reader.load());
        this.#actions = new Actions("", [
            {
                text: "Cancel push…", tone: "danger", shows: ({ state }) => state === "queued" || state === "claimed",
                question: () => ({
                    title: "Cancel this push?", text: "It will not be sent. It ends as cancelled.", yes: "Cancel push",
                }),
                work: ({ id }) => change("DELETE", "pushes", id).then(() => "The push is cancelled."),
            },
            { text: "Retry", shows: isParked, work: ({ id }) => change("POST", "parked", id, "retry") },
            {
                text: "Drop…", tone: "danger", shows: isParked,
                question: ({ app }) => ({
                    title: "Drop this push?", yes: "Drop",
                    text: `This push of ${app} is never sent again. It ends with the outcome of its last attempt.`,
                }),
                work: ({ id }) => change("DELETE", "parked", id),
            },
        ]);
        this.#body.append(el("div", { class: "section-head" }, this.#title, this.#state), this.#actions.element,
            this.#fields.element, this.#heading, this.#outcome.element);
        root.append(form, this.#reader.note, this.#body);
    }

    /** Reads the push again, because it may have changed. Called every two seconds. */
    update() {
        if (this.isVisible && this.#push && this.#push.state !== "settled") this.#reader.poll();
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
        this.#reader.load();
    }

    /** Returns a text for the note if there is no such push. */
    #show(push) {
        const isNew = this.#push === undefined;
        this.#push = push;
        this.#body.hidden = push === undefined;
        if (push === undefined) return "No push has this id, or its outcome is no longer kept.";
        setExact(this.#title, push.id);
        const word = push.state.charAt(0).toUpperCase() + push.state.slice(1);
        setExact(this.#state, word);
        this.#state.className = `pill ${TONES[push.state] ?? ""}`;
        this.#actions.update(push);
        this.#fields.update(push, ["id", "state", "outcome"]);
        setExact(this.#heading, push.state === "settled" ? "Outcome" : "Last attempt");
        this.#outcome.element.hidden = this.#heading.hidden = push.outcome === null;
        this.#outcome.update(push.outcome ?? {});
        if (isNew) announce(`Push ${push.id}: ${word}${push.outcome ? `, ${outcome(push.outcome).word}` : ""}`);
        return "";
    }
}
