// Rates from the counters that the relay keeps for five minutes, and stacked charts of them as SVG paths. A sample has the
// counters (`totals`) at a time of the relay's clock (`now`); samples are in the order of time.

import { rate } from "./format.js";
import { el, setText } from "./kit/dom.js";

const SECONDS = 300;
const RATE_SECONDS = 10;
const HEIGHT = 48;
const SVG = "http://www.w3.org/2000/svg";

/** What a counter gains per second, over the last ten seconds of the samples; NaN if there are fewer than two. */
export function speed(samples, name) {
    const last = samples.at(-1);
    const first = samples.slice(0, -1).find(({ now }) => now >= last.now - RATE_SECONDS - 0.5) ?? samples.at(-2);
    return first === undefined ? NaN : (last.totals[name] - first.totals[name]) / (last.now - first.now);
}

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
        this.#paths = series.map(({ tone, name }) => svg("path", { class: tone, "data-series": name }));
        this.#drawing.append(...this.#paths, svg("line", { x1: 0, x2: SECONDS, y1: HEIGHT, y2: HEIGHT }));
        root.append(el("figure", { class: "chart" },
            el("figcaption", {}, el("span", { class: "chart-title", text: title }), this.#highest, this.#value),
            this.#drawing));
    }

    draw(samples) {
        const end = samples.at(-1)?.now;
        const intervals = samples.slice(1).map((sample, index) => {
            const pair = [samples[index], sample];
            const [left, right] = pair.map(({ now }) => Math.max(0, SECONDS + now - end).toFixed(2));
            return { left, right, bottom: HEIGHT, rates: this.#series.map(({ name }) => speed(pair, name)) };
        });
        const sum = (values) => values.reduce((total, value) => total + value, 0);
        const highest = Math.max(0, ...intervals.map(({ rates }) => sum(rates)));
        const scale = highest > 0 ? (HEIGHT - 2) / highest : 0;
        for (const [number, path] of this.#paths.entries()) {
            path.setAttribute("d", intervals.filter(({ rates }) => rates[number] > 0).map((interval) => {
                const { left, right, bottom, rates } = interval;
                interval.bottom = Math.max(0, bottom - Math.max(1.5, rates[number] * scale));
                return `M${left} ${bottom.toFixed(2)}V${interval.bottom.toFixed(2)}H${right}V${bottom.toFixed(2)}Z`;
            }).join(""));
        }
        const now = rate(sum(this.#series.map(({ name }) => speed(samples, name))));
        setText(this.#value, `${now}/s`);
        setText(this.#highest, `5 min, highest ${rate(highest)}/s`);
        const label = `${this.#title}: ${now}, highest of the last 5 minutes ${rate(highest)}`;
        this.#drawing.setAttribute("aria-label", label);
    }
}
