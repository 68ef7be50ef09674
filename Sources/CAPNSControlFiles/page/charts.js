// Three small charts of the last two minutes: pushes per second, outcomes, response delay.

import { duration } from "./format.js";
import { el, setText } from "./kit/dom.js";
import { number } from "./kit/format.js";

const SECONDS = 120;
const HEIGHT = 44;

/** Counts per second of the simulator's clock. */
class Series {
    #buckets = new Map();

    add(push) {
        const second = Math.floor(push.timeMilliseconds / 1000);
        let bucket = this.#buckets.get(second);
        if (!bucket) {
            bucket = { total: 0, accepted: 0, rejected: 0, none: 0, delay: 0, longest: 0, responses: 0 };
            this.#buckets.set(second, bucket);
        }
        bucket.total += 1;
        if (push.outcome === "accepted") bucket.accepted += 1;
        else if (push.outcome === "rejected") bucket.rejected += 1;
        else bucket.none += 1;
        if (push.outcome === "no-response") return;
        bucket.responses += 1;
        bucket.delay += push.delayMilliseconds;
        bucket.longest = Math.max(bucket.longest, push.delayMilliseconds);
    }

    /** The buckets of the two minutes before this second, oldest first; undefined where nothing happened. */
    last(second) {
        for (const key of this.#buckets.keys()) {
            if (key < second - SECONDS) this.#buckets.delete(key);
        }
        return Array.from({ length: SECONDS }, (_, index) => this.#buckets.get(second - SECONDS + index));
    }

    clear() {
        this.#buckets.clear();
    }
}

export class Charts {
    #series = new Series();
    #clockOffset = 0; // The simulator's clock minus this machine's.
    #figures;
    #pointed = undefined; // The index of the second under the pointer.

    constructor(root) {
        this.#figures = {
            rate: figure("Pushes per second"), outcomes: figure("Outcomes"), delay: figure("Response delay"),
        };
        for (const { element, canvas } of Object.values(this.#figures)) {
            root.append(element);
            canvas.addEventListener("pointermove", (event) => {
                const { left, width } = canvas.getBoundingClientRect();
                const index = Math.floor((event.clientX - left) / width * SECONDS);
                this.#pointed = Math.max(0, Math.min(SECONDS - 1, index));
                this.draw();
            });
            canvas.addEventListener("pointerleave", () => {
                this.#pointed = undefined;
                this.draw();
            });
        }
        new ResizeObserver(() => this.draw()).observe(root);
        matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    }

    add(push) {
        this.#series.add(push);
    }

    synchronize(simulatorMilliseconds) {
        this.#clockOffset = simulatorMilliseconds - Date.now();
    }

    clear() {
        this.#series.clear();
        this.draw();
    }

    draw() {
        const now = Math.floor((Date.now() + this.#clockOffset) / 1000);
        const buckets = this.#series.last(now);
        const shown = buckets[this.#pointed ?? SECONDS - 1] ?? {};
        const ago = this.#pointed === undefined ? "" : `${SECONDS - this.#pointed} s ago`;
        const { rate, outcomes, delay } = this.#figures;

        const highest = Math.max(4, ...buckets.map((bucket) => bucket?.total ?? 0));
        this.#draw(rate, [["accent", (bucket) => bucket.total / highest]], buckets);
        caption(rate, [["", number(shown.total ?? 0)]], ago);

        this.#draw(outcomes, [
            ["good", (bucket) => bucket.accepted / highest],
            ["bad", (bucket) => bucket.rejected / highest],
            ["warn", (bucket) => bucket.none / highest],
        ], buckets);
        caption(outcomes, [
            ["good", number(shown.accepted ?? 0), "accepted"],
            ["bad", number(shown.rejected ?? 0), "rejected"],
            ["warn", number(shown.none ?? 0), "without response"],
        ], ago);

        const longest = Math.max(10, ...buckets.map((bucket) => bucket?.longest ?? 0));
        const average = (bucket) => (bucket.responses > 0 ? bucket.delay / bucket.responses : 0);
        this.#draw(delay, [
            ["accent", (bucket) => average(bucket) / longest],
            ["soft", (bucket) => (bucket.longest - average(bucket)) / longest],
        ], buckets);
        caption(delay, [["", duration(shown.responses ? average(shown) : 0), "on average"],
            ["muted", `max ${duration(shown.longest ?? 0)}`]], ago);
    }

    /** Draws stacked bars: each part is a colour and the share of the height that it takes. */
    #draw({ canvas }, parts, buckets) {
        const width = canvas.clientWidth;
        if (width === 0) return;
        const scale = window.devicePixelRatio || 1;
        if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(HEIGHT * scale)) {
            canvas.width = Math.round(width * scale);
            canvas.height = Math.round(HEIGHT * scale);
        }
        const style = getComputedStyle(canvas);
        const context = canvas.getContext("2d");
        context.setTransform(scale, 0, 0, scale, 0, 0);
        context.clearRect(0, 0, width, HEIGHT);
        context.fillStyle = style.getPropertyValue("--line");
        context.fillRect(0, HEIGHT - 1, width, 1);
        const step = width / SECONDS;
        if (this.#pointed !== undefined) context.fillRect(this.#pointed * step, 0, Math.max(1, step), HEIGHT);
        const bar = step > 2.5 ? step - 0.75 : step;
        const colors = parts.map(([name]) => style.getPropertyValue(`--chart-${name}`));
        for (const [index, bucket] of buckets.entries()) {
            if (!bucket) continue;
            let bottom = HEIGHT - 1;
            for (const [number, [, share]] of parts.entries()) {
                const value = share(bucket);
                if (value <= 0) continue;
                const height = Math.max(1.5, value * (HEIGHT - 3));
                bottom -= height;
                context.fillStyle = colors[number];
                context.fillRect(index * step, bottom, bar, height);
            }
        }
    }
}

function figure(title) {
    const canvas = el("canvas", { role: "img" });
    const values = el("span", { class: "chart-values" });
    const ago = el("span", { class: "chart-ago muted" });
    const element = el("figure", { class: "chart" },
        el("figcaption", {}, el("span", { class: "chart-title", text: title }), ago, values), canvas);
    return { element, canvas, values, ago, title, shown: "" };
}

function caption(figure, parts, ago) {
    setText(figure.ago, ago);
    const text = parts.map(([, value, noun]) => (noun ? `${value} ${noun}` : value)).join(", ");
    if (text === figure.shown) return;
    figure.shown = text;
    figure.canvas.setAttribute("aria-label", `${figure.title}: ${text}`);
    figure.values.replaceChildren(...parts.map(([tone, value, noun]) =>
        el("span", { class: `chart-value ${tone}`, title: noun, text: value })));
}
