// The newest batches.

import { get, query } from "./api.js";
import { makeBatch } from "./batch.js";
import { button, el, setExact, setText } from "./kit/dom.js";
import { number } from "./kit/format.js";
import { Reader } from "./reader.js";
import { Rows } from "./rows.js";

const STEP = 10;
const LIMIT = 1000; // The API returns no more.

export class Batches {
    #reader;
    #rows;
    #count;
    #now = 0; // The relay's time.
    #limit = STEP;
    #note = el("p", { class: "note bad", "data-field": "note" });
    #empty = el("p", { class: "muted", "data-field": "empty", hidden: true,
        text: "There are no batches. POST /v1/batches and apns-relay submit send one payload to many devices." });
    #more;

    constructor(root, heading) {
        this.#count = heading;
        this.#reader = new Reader({
            read: () => get("/v1/batches" + query({ limit: Math.min(LIMIT, this.#limit + 1) })),
            show: ({ batches }) => this.#show(batches),
            fail: ({ message }) => setExact(this.#note, `The batches could not be loaded: ${message}`),
        });
        const list = el("ul", { class: "batches" });
        this.#rows = new Rows(list, (batch) => makeBatch(batch, () => void this.#reader.load()));
        this.#more = button("Show older", () => {
            this.#limit = Math.min(LIMIT, this.#limit + STEP);
            this.#reader.load();
        }, { class: "small", "data-action": "more", hidden: true });
        root.append(this.#note, list, this.#empty, this.#more);
    }

    /** Reads the batches. Called every two seconds. */
    update({ now }) {
        this.#now = now;
        this.#reader.poll();
    }

    #show(batches) {
        const shown = batches.slice(0, this.#limit);
        this.#rows.update(shown, ({ id }) => id, this.#now);
        setExact(this.#note, "");
        this.#empty.hidden = shown.length > 0;
        this.#more.hidden = batches.length <= this.#limit;
        const inState = (name) => shown.filter(({ state }) => state === name).length;
        const counts = [["running", "sending"], ["paused", "paused"], ["receiving", "receiving"]];
        setText(this.#count, counts.map(([name, word]) => inState(name) > 0 && `${number(inState(name))} ${word}`)
            .filter(Boolean).join(", "));
    }
}
