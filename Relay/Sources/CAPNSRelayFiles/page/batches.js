// The newest batches.

import { get, query } from "./api.js";
import { makeBatch } from "./batch.js";
import { button, el, find, setText } from "./kit/dom.js";
import { number } from "./kit/format.js";
import { Reader } from "./reader.js";
import { Rows } from "./rows.js";

const STEP = 10;
const LIMIT = 1000; // The API returns no more.

export class Batches {
    #reader;
    #now = 0; // The relay's time.
    #limit = STEP;

    constructor(root) {
        const list = el("ul");
        const rows = new Rows(list, (batch) => makeBatch(batch, () => void this.#reader.load()));
        const more = button("Show older", () => {
            this.#limit = Math.min(LIMIT, this.#limit + STEP);
            this.#reader.load();
        }, { class: "small", "data-action": "more", hidden: true });
        this.#reader = new Reader("batches", {
            read: () => get("/v1/batches" + query({ limit: Math.min(LIMIT, this.#limit + 1) })),
            show: ({ batches }) => {
                const shown = batches.slice(0, this.#limit);
                rows.update(shown, ({ id }) => id, this.#now);
                more.hidden = batches.length <= this.#limit;
                const counts = [["running", "sending"], ["paused", "paused"], ["receiving", "receiving"]]
                    .map(([name, word]) => [shown.filter(({ state }) => state === name).length, word]);
                setText(find("batches-count"), counts.filter(([value]) => value > 0)
                    .map(([value, word]) => `${number(value)} ${word}`).join(", "));
                return shown.length > 0 ? ""
                    : "There are no batches. POST /v1/batches and apns-relay submit send one payload to many devices.";
            },
        });
        root.append(this.#reader.note, list, more);
    }

    /** Reads the batches. Called every two seconds. */
    update({ now }) {
        this.#now = now;
        this.#reader.poll();
    }
}
