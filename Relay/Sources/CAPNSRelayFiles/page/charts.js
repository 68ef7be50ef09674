// A stacked chart of rates over the last five minutes, as SVG paths.

import { rate } from "./format.js";
import { el, setText } from "./kit/dom.js";
import { SECONDS } from "./samples.js";

const HEIGHT = 48;
const SVG = "http://www.w3.org/2000/svg";

function svg(tag, attributes) {
    const element = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
}

export class Chart {
    #title;
    #series;
    #paths;
    #highest = el("span", { class: "chart-highest muted" });
    #value = el("span", { class: "chart-value" });
    #drawing = svg("svg", { viewBox: `0 0 ${SECONDS} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" });

    /** `series`: the counters to stack, the lowest first, as `{name, tone}`. */
    constructor(root, title, series) {
        this.#title = title;
        this.#series = series;
        this.#paths = series.map(({ tone, name }) =>
            svg("path", { class: tone, "data-series": name }));
        this.#drawing.append(...this.#paths, svg("line", { x1: 0, x2: SECONDS, y1: HEIGHT, y2: HEIGHT }));
        root.append(el("figure", { class: "chart" },
            el("figcaption", {}, el("span", { class: "chart-title", text: title }), this.#highest, this.#value),
            this.#drawing));
    }

    draw(samples) {
        const intervals = samples.intervals();
        const total = ({ rate: of }) => this.#series.reduce((sum, { name }) => sum + of(name), 0);
        const highest = Math.max(0, ...intervals.map(total));
        const scale = highest > 0 ? (HEIGHT - 2) / highest : 0;
        const bottoms = intervals.map(() => HEIGHT);
        for (const [number, { name }] of this.#series.entries()) {
            const parts = intervals.map((interval, index) => {
                const value = interval.rate(name);
                if (!(value > 0)) return "";
                const bottom = bottoms[index];
                bottoms[index] = Math.max(0, bottom - Math.max(1.5, value * scale));
                const [left, right] = [SECONDS + interval.from, SECONDS + interval.to].map((x) => x.toFixed(2));
                const [low, high] = [bottom, bottoms[index]].map((y) => y.toFixed(2));
                return `M${left} ${low}V${high}H${right}V${low}Z`;
            });
            this.#paths[number].setAttribute("d", parts.join(""));
        }
        const now = this.#series.reduce((sum, { name }) => sum + samples.rate(name), 0);
        setText(this.#value, `${rate(now)}/s`);
        setText(this.#highest, `5 min, highest ${rate(highest)}/s`);
        const label = `${this.#title}: ${rate(now)}, highest of the last 5 minutes ${rate(highest)}`;
        this.#drawing.setAttribute("aria-label", label);
    }
}
