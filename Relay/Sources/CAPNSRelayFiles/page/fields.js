// A list of names with their values.

import { el, setExact } from "./kit/dom.js";
import { dateTime } from "./kit/format.js";

const plain = (value) => (value === null || value === undefined ? "–" : String(value));

/** The format of times, which may be null. */
export const time = (value) => (value === null || value === undefined ? "–" : dateTime(value));

/** The format of JSON values, which may be null. */
export const json = (value) => (value === null || value === undefined ? "–" : JSON.stringify(value));

export class Fields {
    element;
    #fields;
    #values = new Map();

    /** `fields`: for each row its title, the member with the value, and a format, if any. */
    constructor(name, fields) {
        this.#fields = fields;
        const rows = fields.map(([title, field]) => {
            const value = el("dd", { "data-field": `${name}.${field}` });
            this.#values.set(field, value);
            return el("div", {}, el("dt", { text: title }), value);
        });
        this.element = el("dl", { class: "fields" }, rows);
    }

    update(values) {
        for (const [, field, format = plain] of this.#fields) {
            setExact(this.#values.get(field), format(values[field], values));
        }
    }
}
