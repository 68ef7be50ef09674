// Shows the parked pushes with their reasons, and the buttons that retry or drop them.

import { Actions, each } from "./actions.js";
import { call, get, path, query } from "./api.js";
import { outcome, routeName } from "./format.js";
import { button, el, exact, setExact, setText } from "./kit/dom.js";
import { count, dateTime, number, shortToken } from "./kit/format.js";
import { Rows } from "./rows.js";

const PAGE_SIZE = 100;

const retry = (id) => call("POST", path("v1", "parked", id, "retry"));
const drop = (id) => call("DELETE", path("v1", "parked", id));

export class Parked {
    #rows;
    #pushes = [];
    #after; // The last push of the page that precedes the shown one.
    #next = null;
    #total = 0;
    #isVisible = false;
    #load = 0;
    #all = new Actions();
    #summary = el("p", { class: "muted", "data-field": "summary" });
    #note = el("p", { class: "note bad", "data-field": "note" });
    #first;
    #further;

    constructor(root, onOpen) {
        const list = el("ul", { class: "items" });
        this.#rows = new Rows(list, (push) => this.#makeRow(push, onOpen));
        const subject = () => this.#pushes.map(({ id }) => id);
        this.#all.add("Retry all", {
            label: "Retry all pushes that are shown", subject,
            work: (ids) => each(ids, "retried", retry).finally(() => this.load()),
        });
        this.#all.add("Drop all…", {
            label: "Drop all pushes that are shown", subject, tone: "danger",
            question: (ids) => ({
                title: `Drop ${count(ids.length, "parked push")}?`,
                text: "They are never sent again. Each push ends with the outcome of its last attempt.",
                yes: `Drop ${count(ids.length, "push")}`,
            }),
            work: (ids) => each(ids, "dropped", drop).finally(() => this.load()),
        });
        const turn = (text, name, after) =>
            button(text, () => this.#turn(after()), { class: "small", "data-action": name });
        this.#first = turn("First page", "first", () => undefined);
        this.#further = turn("Next page", "next", () => this.#next);
        root.append(el("div", { class: "bar" }, this.#summary, this.#first, this.#further), this.#all.element,
            this.#note, list);
        this.#show();
    }

    set isVisible(isVisible) {
        this.#isVisible = isVisible;
        if (isVisible) this.load();
    }

    update({ queue }) {
        this.#total = queue.parked;
        if (this.#isVisible) this.load();
    }

    async load() {
        this.#load += 1;
        const load = this.#load;
        try {
            const page = await get("/v1/parked" + query({ after: this.#after, limit: PAGE_SIZE }));
            if (load !== this.#load) return;
            [this.#pushes, this.#next] = [page.pushes, page.next];
            setExact(this.#note, "");
            this.#show();
        } catch (error) {
            if (load !== this.#load || error.name === "AbortError") return;
            setExact(this.#note, `The parked pushes could not be loaded: ${error.message}`);
        }
    }

    #turn(after) {
        this.#after = after ?? undefined;
        this.#all.clear();
        this.load();
    }

    #show() {
        this.#rows.update(this.#pushes, ({ id }) => id);
        const shown = this.#pushes.length;
        const all = Math.max(this.#total, shown);
        setText(this.#summary, shown === 0 && this.#after === undefined ? "No push is parked."
            : `${number(shown)} of ${count(all, "parked push")}, the oldest first`);
        this.#first.hidden = this.#after === undefined;
        this.#further.hidden = this.#next === null;
        for (const control of this.#all.element.querySelectorAll("button")) control.hidden = shown === 0;
    }

    #makeRow(push, onOpen) {
        const actions = new Actions();
        const { app, token, id } = push;
        const name = `the push to ${shortToken(token)}`;
        actions.add("Retry", { label: `Retry ${name}`, work: () => retry(id).finally(() => this.load()) });
        actions.add("Drop…", {
            label: `Drop ${name}`, tone: "danger", work: () => drop(id).finally(() => this.load()),
            question: () => ({
                title: "Drop this push?",
                text: `The push of ${app} to ${shortToken(token)} is never sent again. It ends with the ` +
                    "outcome of its last attempt.",
                yes: "Drop",
            }),
        });
        const reason = el("span", { class: "item-title" });
        const attempts = el("span");
        const element = el("li", { class: "item", "data-parked": id },
            el("span", { class: "item-main" }, reason,
                el("span", { class: "item-detail muted" }, exact(routeName(push)), " · ",
                    el("button", { type: "button", class: "link mono", "data-action": "open",
                        "aria-label": `Show ${name}`, onclick: () => onOpen(id) }, exact(shortToken(token)))),
                el("span", { class: "item-detail muted" }, `Queued ${dateTime(push.queuedAt)}, `, attempts),
                actions.element));
        return {
            element,
            update(push) {
                const { word, detail } = outcome(push.outcome);
                setExact(reason, detail || word);
                setText(attempts, count(push.attempts, "attempt"));
            },
        };
    }
}
