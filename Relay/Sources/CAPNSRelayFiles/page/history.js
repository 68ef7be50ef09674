// The pages of a feed, the newest first: recent outcomes and dead tokens.

import { Feed } from "./feed.js";
import { announce, button, el, setExact, setText } from "./kit/dom.js";
import { number } from "./kit/format.js";
import { Rows } from "./rows.js";

export class History {
    #options;
    #feed;
    #app = "";
    #newer = []; // For each page newer than the shown one, the position that was passed to `before`.
    #shown; // The position for the shown page; undefined for the newest page.
    #older = null;
    #load = 0;
    #isLoaded = false;
    #loadedTotal = 0;
    #total = 0;
    #list = el("ul", { class: "items" });
    #rows;
    #buttons;
    #note = el("p", { class: "note", "data-field": "note" });
    #empty = el("p", { class: "muted", "data-field": "empty" });

    /** `options`: `path`, `field`, `noun`, `empty` (a text), and `makeRow(entry)` as in `Rows`. */
    constructor(root, options) {
        this.#options = options;
        this.#feed = new Feed(options.path, options.field);
        this.#rows = new Rows(this.#list, options.makeRow);
        const input = el("input", { type: "search", list: "apps", placeholder: "All apps", autocomplete: "off",
            spellcheck: "false", "data-field": "app" });
        input.addEventListener("change", () => this.#filter(input.value.trim()));
        const form = el("form", { class: "bar" },
            el("label", {}, el("span", { class: "visually-hidden", text: `App of the ${options.noun}` }),
                input));
        form.addEventListener("submit", (event) => {
            event.preventDefault();
            this.#filter(input.value.trim());
        });
        this.#buttons = {
            newest: button("Refresh", () => this.show([], undefined), { "data-action": "newest" }),
            newer: button("Newer", () => this.show(this.#newer.slice(0, -1), this.#newer.at(-1)),
                { "data-action": "newer" }),
            older: button("Older", () => this.show([...this.#newer, this.#shown], this.#older),
                { "data-action": "older" }),
        };
        form.append(...Object.values(this.#buttons));
        root.append(form, this.#note, this.#list, this.#empty);
    }

    /** Loads the newest page when the panel is opened for the first time. */
    open() {
        if (!this.#isLoaded) this.show([], undefined);
    }

    /** Called with the number of entries since the start of the relay, as far as it is known. */
    update(total) {
        this.#total = total;
        const more = this.#isLoaded && this.#app === "" ? total - this.#loadedTotal : 0;
        setText(this.#buttons.newest, more > 0 ? `${number(more)} newer` : "Refresh");
    }

    #filter(app) {
        if (app === this.#app) return;
        this.#app = app;
        this.#feed = new Feed(this.#options.path, this.#options.field, app);
        this.show([], undefined);
    }

    /** Shows the page before a position; the newest page if there is none. */
    async show(newer, before) {
        this.#load += 1;
        const load = this.#load;
        const total = this.#total;
        setExact(this.#note, "");
        this.#list.setAttribute("aria-busy", "true");
        try {
            const page = await (before === undefined ? this.#feed.newest() : this.#feed.before(before));
            if (load !== this.#load) return;
            this.#isLoaded = true;
            if (before === undefined) this.#loadedTotal = total;
            [this.#newer, this.#shown, this.#older] = [newer, before, page.older];
            this.#rows.update(page.entries, ({ cursor }) => String(cursor));
            setText(this.#empty, page.entries.length > 0 ? "" : this.#options.empty);
            this.#setEnabled();
            this.update(this.#total);
        } catch (error) {
            if (load !== this.#load || error.name === "AbortError") return;
            setExact(this.#note, `The ${this.#options.noun} could not be loaded: ${error.message}`);
            this.#note.className = "note bad";
            announce(this.#note.textContent, true);
        } finally {
            if (load === this.#load) this.#list.removeAttribute("aria-busy");
        }
    }

    #setEnabled() {
        this.#buttons.newer.disabled = this.#newer.length === 0;
        this.#buttons.older.disabled = this.#older === null;
    }
}
