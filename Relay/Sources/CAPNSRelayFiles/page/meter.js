// A bar whose segments are shares of a total.

import { el } from "./kit/dom.js";

export class Meter {
    element;
    #segments;

    /** `tones` has the colour of each segment. `role` is `meter` or `progressbar`. */
    constructor(tones, { label, role = "meter" }) {
        this.#segments = tones.map((tone) => el("span", { class: `segment ${tone}` }));
        this.element = el("div", { class: "meter", role, "aria-label": label }, this.#segments);
    }

    /** Shows values, one for each segment. `now` is the meter's value, `text` says it in words. */
    update(values, total, now, text) {
        const isLimited = total > 0;
        for (const [index, segment] of this.#segments.entries()) {
            segment.style.width = isLimited ? `${Math.min(100, (values[index] / total) * 100)}%` : "0";
        }
        const state = { valuemin: 0, valuemax: isLimited ? total : now, valuenow: now, valuetext: text };
        for (const [name, value] of Object.entries(state)) this.element.setAttribute(`aria-${name}`, value);
    }
}
