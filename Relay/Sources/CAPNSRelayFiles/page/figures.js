// The queue's depth and capacity, and the counters since the start of the relay.

import { age, rate, share } from "./format.js";
import { el, setText } from "./kit/dom.js";
import { number } from "./kit/format.js";
import { Meter } from "./meter.js";

/** Adds a figure with its name, and returns the function that sets its text. */
function figure(root, name, { id, tone = "", title } = {}) {
    const value = el("dd", { "data-figure": id, text: "–" });
    root.append(el("div", { title }, el("dt", { class: tone && `dot ${tone}`, text: name }), value));
    return (text) => setText(value, text);
}

export class QueueFigures {
    #figures;
    #meter = new Meter(["accent", "soft", "good", "warn"], { label: "Used capacity of the queue" });
    #text = el("p", { class: "meter-text", "data-figure": "capacity" });

    constructor(root) {
        const list = el("dl", { class: "figures large" });
        this.#figures = {
            queued: figure(list, "Queued", { id: "queued", tone: "accent", title: "Waiting to be sent" }),
            claimed: figure(list, "Claimed", { id: "claimed", tone: "soft", title: "About to be sent" }),
            written: figure(list, "Written", { id: "written", tone: "good", title: "In flight, without an outcome" }),
            parked: figure(list, "Parked", { id: "parked", tone: "warn", title: "Waiting for an operator" }),
            oldest: figure(list, "Oldest waiting", { id: "oldest", title: "How long a push has been due" }),
        };
        root.append(list, this.#meter.element, this.#text);
    }

    update({ queue, now }) {
        const counts = [queue.queued, queue.claimed, queue.written, queue.parked];
        for (const [index, name] of ["queued", "claimed", "written", "parked"].entries()) {
            this.#figures[name](number(counts[index]));
        }
        this.#figures.oldest(queue.oldestDue === null ? "none" : age(queue.oldestDue, now));
        const used = counts.reduce((sum, value) => sum + value, 0);
        const text = share(used, queue.capacity);
        this.#text.classList.toggle("bad", queue.capacity > 0 && used >= 0.9 * queue.capacity);
        setText(this.#text, text);
        this.#meter.update(counts, queue.capacity, used, text);
    }
}

export const OUTCOMES = [
    { name: "accepted", text: "Accepted", tone: "good", title: "APNs accepted the push" },
    { name: "rejected", text: "Rejected", tone: "bad", title: "APNs rejected the push" },
    { name: "notProcessed", text: "Not processed", tone: "accent", title: "Sent, and provably not processed" },
    { name: "notSent", text: "Not sent", tone: "soft", title: "Never sent: overdue, cancelled or superseded" },
    { name: "unknown", text: "Unknown", tone: "warn", title: "May or may not have been processed" },
];

const OTHERS = [
    { name: "queued", text: "Queued", title: "Pushes stored by requests" },
    { name: "duplicates", text: "Duplicates", title: "Pushes that requests submitted again" },
    { name: "retried", text: "Retried", title: "Attempts after which a push returned to the queue" },
    { name: "parked", text: "Parked", title: "Pushes that were parked" },
    { name: "late", text: "Late", title: "Outcomes that were ignored, because their push already had one" },
];

export class Totals {
    #cells = new Map();

    constructor(root) {
        const list = el("dl", { class: "figures totals" });
        for (const { name, text, tone, title } of [...OUTCOMES, ...OTHERS]) {
            const perSecond = el("dd", { "data-rate": name, text: "–" });
            const total = el("dd", { class: "muted", "data-total": name, text: "–" });
            const term = el("dt", { class: tone && `dot ${tone}`, text });
            list.append(el("div", { title }, term, perSecond, total));
            this.#cells.set(name, { perSecond, total });
        }
        root.append(list);
    }

    update(totals, samples) {
        for (const [name, { perSecond, total }] of this.#cells) {
            setText(perSecond, `${rate(samples.rate(name))}/s`);
            setText(total, number(totals[name]));
        }
    }
}
