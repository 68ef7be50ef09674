// Reads something again and again. The newest reading wins.

import { el, setExact } from "./kit/dom.js";

// A reading is followed by a pause of so many times its length, since some readings cost the relay much.
const REST = 9;

export class Reader {
    /** Says that there is nothing to show, or why. */
    note = el("p", { class: "note", role: "status", "data-field": "note" });
    #noun;
    #read;
    #show;
    #load = 0;
    #isLoading = false;
    #next = 0; // When `poll` may read again.

    /** `read()` requests a value. `show(value)` shows it, and may return a text for the note. `noun` names what is read. */
    constructor(noun, { read, show }) {
        this.#noun = noun;
        this.#read = read;
        this.#show = show;
    }

    /** Reads, unless a reading is under way: otherwise a slow relay's responses would always be too late. */
    poll() {
        if (!this.#isLoading && performance.now() >= this.#next) this.load();
    }

    /** Reads now. A reading that is under way is ignored. */
    async load() {
        this.#load += 1;
        const load = this.#load;
        const began = performance.now();
        this.#isLoading = true;
        try {
            const value = await this.#read();
            if (load === this.#load) this.#explain(this.#show(value) ?? "", "muted");
        } catch (error) {
            if (load !== this.#load || error.name === "AbortError") return;
            this.#explain(`The ${this.#noun} could not be loaded: ${error.message}`, "bad");
        } finally {
            if (load === this.#load) {
                this.#isLoading = false;
                this.#next = performance.now() + REST * (performance.now() - began);
            }
        }
    }

    #explain(text, tone) {
        setExact(this.note, text);
        this.note.className = `note ${tone}`;
    }
}
