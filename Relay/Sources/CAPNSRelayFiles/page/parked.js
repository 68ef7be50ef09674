// Shows the parked pushes, in groups and one by one, and the buttons that retry or drop them.

import { Actions } from "./actions.js";
import { call, get, path, query } from "./api.js";
import { outcome, routeName } from "./format.js";
import { Groups } from "./groups.js";
import { button, el, exact, setExact, setText } from "./kit/dom.js";
import { count, dateTime, number, shortToken } from "./kit/format.js";
import { Reader } from "./reader.js";
import { Rows } from "./rows.js";

const PAGE_SIZE = 100;

const retry = (id) => call("POST", path("v1", "parked", id, "retry"));
const drop = (id) => call("DELETE", path("v1", "parked", id));

export class Parked {
    #groups;
    #reader;
    #rows;
    #pushes = [];
    #after; // The last push of the page that precedes the shown one.
    #next = null;
    #total = 0;
    #isVisible = false;
    #summary = el("p", { class: "muted", "data-field": "summary" });
    #note = el("p", { class: "note bad", "data-field": "note" });
    #first;
    #further;

    constructor(root, onOpen) {
        const list = el("ul", { class: "items" });
        this.#rows = new Rows(list, (push) => this.#makeRow(push, onOpen));
        this.#reader = new Reader({
            read: () => get("/v1/parked" + query({ after: this.#after, limit: PAGE_SIZE })),
            show: (page) => {
                [this.#pushes, this.#next] = [page.pushes, page.next];
                setExact(this.#note, "");
                this.#show();
            },
            fail: ({ message }) => setExact(this.#note, `The parked pushes could not be loaded: ${message}`),
        });
        this.#groups = new Groups(() => this.#reader.load());
        const turn = (text, name, after) =>
            button(text, () => this.#turn(after()), { class: "small", "data-action": name });
        this.#first = turn("First page", "first", () => undefined);
        this.#further = turn("Next page", "next", () => this.#next);
        root.append(this.#groups.element, el("div", { class: "bar" }, this.#summary, this.#first, this.#further),
            this.#note, list);
        this.#show();
    }

    set isVisible(isVisible) {
        this.#isVisible = isVisible;
        if (!isVisible) return;
        this.#groups.load(this.#total);
        this.#reader.load();
    }

    update({ queue }) {
        this.#total = queue.parked;
        if (!this.#isVisible) return;
        this.#reader.poll();
        this.#groups.update(queue.parked);
    }

    #turn(after) {
        this.#after = after ?? undefined;
        this.#reader.load();
    }

    #show() {
        this.#rows.update(this.#pushes, ({ id }) => id);
        const shown = this.#pushes.length;
        const all = Math.max(this.#total, shown);
        setText(this.#summary, shown === 0 && this.#after === undefined ? "No push is parked."
            : `${number(shown)} of ${count(all, "parked push")}, the oldest first`);
        this.#first.hidden = this.#after === undefined;
        this.#further.hidden = this.#next === null;
    }

    #makeRow(push, onOpen) {
        const actions = new Actions();
        const { app, token, id } = push;
        const name = `the push to ${shortToken(token)}`;
        actions.add("Retry", { label: `Retry ${name}`, work: () => retry(id).finally(() => this.#reader.load()) });
        actions.add("Drop…", {
            label: `Drop ${name}`, tone: "danger", work: () => drop(id).finally(() => this.#reader.load()),
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
