// The newest outcomes. All of them are in the feed of the API.

import { get, query } from "./api.js";
import { moment, outcome, routeName } from "./format.js";
import { button, el, setText } from "./kit/dom.js";
import { number, shortToken } from "./kit/format.js";
import { Reader } from "./reader.js";
import { Table } from "./table.js";

const SHOWN = 50;
const PAGE_SIZE = 1000;
// How many of the last positions are searched. Positions have gaps, and an app may have few of the outcomes.
const WIDTHS = [100, 1_000, 10_000];

/** A table of pushes. `time` is the title and the member of the last column. A click on a push calls `onOpen(id)`. */
export const pushTable = (label, [title, time], onOpen) => new Table({
    name: "push", label, key: ({ id }) => id, onOpen,
    columns: [
        ["Push", "push", (push) => ({ text: shortToken(push.token), detail: routeName(push) })],
        ["Outcome", "outcome", (push) => {
            const { word, tone, detail } = outcome(push.outcome);
            return { text: word, tone, detail };
        }],
        [title, "time", (push) => moment(push[time])],
    ],
});

const position = (cursor) => Number.parseInt(cursor ?? "0", 10);

/** Reads a page of the feed. A position before its beginning or after its end becomes the beginning or the end. */
const read = (after, limit, app) => get("/v1/outcomes" + query({ after, limit, app, skipMissing: true }));

/** The newest outcomes among the last positions, the newest first. The API reads forward. */
async function newest(app) {
    const end = position((await read(Number.MAX_SAFE_INTEGER, 1)).cursor);
    let found = [];
    for (const width of WIDTHS) {
        found = [];
        let page = { cursor: String(Math.max(0, end - width)), end: false };
        do {
            page = await read(page.cursor, PAGE_SIZE, app);
            found.push(...page.outcomes);
        } while (!page.end && position(page.cursor) < end);
        if (found.length >= SHOWN) break;
    }
    return found.slice(-SHOWN).reverse();
}

export class Outcomes {
    #reader;
    #app = "";
    #total = 0;
    #shownTotal; // The number of outcomes when the list was read.
    #refresh = button("Refresh", () => this.#reader.load(), { "data-action": "newest" });

    constructor(root, onOpen) {
        const table = pushTable("Outcomes", ["Settled", "settledAt"], onOpen);
        this.#reader = new Reader("outcomes", {
            read: async () => ({ total: this.#total, pushes: await newest(this.#app) }),
            show: ({ total, pushes }) => {
                this.#shownTotal = total;
                table.update(pushes);
                this.#count();
                return pushes.length > 0 ? "" : "There is no recent outcome.";
            },
        });
        const input = el("input", {
            type: "search", placeholder: "All apps", autocomplete: "off", spellcheck: "false", "data-field": "app",
            "aria-label": "App of the outcomes",
        });
        const filter = () => {
            if (input.value.trim() === this.#app) return;
            this.#app = input.value.trim();
            this.#reader.load();
        };
        input.addEventListener("change", filter);
        const form = el("form", { class: "bar", onsubmit: (event) => {
            event.preventDefault();
            filter();
        } }, input, this.#refresh);
        root.append(form, this.#reader.note, table.element);
    }

    /** Loads the outcomes when the panel is opened for the first time. */
    open() {
        if (this.#shownTotal === undefined) this.#reader.poll();
    }

    /** Called with the number of outcomes since the start of the relay. */
    update(total) {
        this.#total = total;
        this.#count();
    }

    #count() {
        const more = this.#app === "" ? this.#total - (this.#shownTotal ?? this.#total) : 0;
        setText(this.#refresh, more > 0 ? `${number(more)} newer` : "Refresh");
    }
}
