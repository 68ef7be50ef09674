// Named figures, and a bar with the shares of a total.

import { el, setText } from "./kit/dom.js";

/** A list of figures. Each of `parts` has a `name`, a `text`, a `tone` if it has a colour, and a `title`. */
export class Figures {
    element;
    #kind;
    #figures;

    /** A figure has the attribute `data-KIND` with its name. */
    constructor(kind, parts, style) {
        this.#kind = kind;
        this.#figures = parts.map(({ name, text, tone, title }) => {
            const [value, more] = [el("dd", { [`data-${kind}`]: name }), el("dd", { class: "muted" })];
            const element = el("div", { title }, el("dt", { class: tone && `dot ${tone}`, text }), value, more);
            return { name, value, more, element };
        });
        this.element = el("dl", { class: style }, this.#figures.map(({ element }) => element));
    }

    /** `text(name)` returns the text of a figure, or undefined to hide it, and `second(name)` a second line. */
    update(text, second = () => "") {
        for (const { name, value, more, element } of this.#figures) {
            const shown = text(name);
            element.hidden = shown === undefined;
            setText(value, shown ?? "");
            setText(more, second(name));
        }
    }
}

export class Meter {
    element;
    #segments;

    /** `tones` has the colour of each segment. */
    constructor(tones, label) {
        this.#segments = tones.map((tone) => el("span", { class: `segment ${tone}` }));
        this.element = el("div", { class: "meter", role: "progressbar", "aria-label": label }, this.#segments);
    }

    /** Shows values, one for each segment. `now` is the meter's value, `text` says it in words. */
    update(values, total, now, text) {
        for (const [index, segment] of this.#segments.entries()) {
            segment.style.width = total > 0 ? `${Math.min(100, (values[index] / total) * 100)}%` : "0";
        }
        const state = { valuemin: 0, valuemax: total, valuenow: now, valuetext: text };
        for (const [name, value] of Object.entries(state)) this.element.setAttribute(`aria-${name}`, value);
    }
}
