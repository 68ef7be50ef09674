// Tables with a row for each item, updated every two seconds, and lists of an item's members.

import { el, setExact } from "./kit/dom.js";
import { dateTime, number } from "./kit/format.js";
import { Rows } from "./rows.js";

export class Table {
    element;
    #rows;
    #key;

    /**
     * A row has the attribute `data-NAME` with the item's `key(item)`. `columns` has for each column its title, its name and
     * `cell(item, now)`, which returns a text or `{text, detail, title, tone}`; a text with a tone is a pill. Below a row
     * stand `note(item, now)` and the buttons that `actions(item)` makes, if any. A click on a row calls `onOpen(key)`, if any.
     */
    constructor({ name, label, key, columns, note = () => "", actions = () => undefined, onOpen }) {
        const head = el("thead", {}, el("tr", {}, columns.map(([text]) => el("th", { scope: "col", text }))));
        this.element = el("table", { class: `${name}-table`, "aria-label": label }, head);
        this.#key = key;
        this.#rows = new Rows(this.element, (item) => makeRow(item, { name, key, columns, note, actions, onOpen }), head);
    }

    update(items, now) {
        this.element.hidden = items.length === 0;
        this.#rows.update(items, this.#key, now);
    }
}

function makeRow(item, { name, key, columns, note, actions, onOpen }) {
    const cells = columns.map(([, column], index) => makeCell(column, index === 0, onOpen));
    const text = el("p", { "data-field": "note" });
    const buttons = actions(item);
    const below = el("tr", { class: "below" }, el("td", { colspan: columns.length }, text, buttons?.element));
    const row = el("tr", {}, cells.map(({ element }) => element));
    const onclick = onOpen && (() => onOpen(key(item)));
    return {
        element: el("tbody", { [`data-${name}`]: key(item), tabindex: -1, onclick }, row, below),
        update(newer, now) {
            for (const [index, [, , cell]] of columns.entries()) cells[index].update(cell(newer, now));
            setExact(text, note(newer, now));
            buttons?.update(newer, now);
            below.hidden = text.textContent === "" && !buttons;
        },
    };
}

/** The head of a row that can be opened is a button. Its click reaches the row. */
function makeCell(name, isHead, onOpen) {
    const main = isHead && onOpen ? el("button", { type: "button" }) : el("span");
    const more = el("span", { class: "detail muted" });
    const element = el(isHead ? "th" : "td", { scope: isHead && "row", "data-cell": name }, main, more);
    return {
        element,
        update(value) {
            const { text, detail, title = "", tone } = typeof value === "object" ? value : { text: value };
            setExact(main, text);
            setExact(more, detail);
            main.className = tone === undefined ? "main" : `pill ${tone}`;
            element.title = title;
        },
    };
}

/** A list of the members of a JSON object, whichever there are. */
export class Fields {
    element = el("dl", { class: "fields" });
    #name;
    #values = new Map();

    constructor(name) {
        this.#name = name;
    }

    update(values, except = []) {
        for (const [name, value] of Object.entries(values)) {
            if (!except.includes(name)) setExact(this.#field(name), memberText(name, value));
        }
    }

    #field(name) {
        if (!this.#values.has(name)) {
            const value = el("dd", { "data-field": `${this.#name}.${name}` });
            this.#values.set(name, value);
            this.element.append(el("div", {}, el("dt", { text: words(name) }), value));
        }
        return this.#values.get(name);
    }
}

/** `queuedAt` becomes `Queued at`. */
function words(name) {
    const text = name.replace(/[A-Z]+/g, (capitals) => ` ${capitals.length > 1 ? capitals : capitals.toLowerCase()}`);
    return text.charAt(0).toUpperCase() + text.slice(1);
}

function memberText(name, value) {
    if (value === null || value === undefined) return "–";
    if (name === "metadata" || typeof value === "object") return JSON.stringify(value);
    if (typeof value !== "number") return String(value);
    return /(At|Since|Before|^deadline)$/.test(name) ? dateTime(value) : number(value);
}
