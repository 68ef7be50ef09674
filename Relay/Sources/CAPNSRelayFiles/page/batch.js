// A batch: its progress and speed, its details, and the buttons that pause, slow or stop it.

import { Actions } from "./actions.js";
import { call, get, path, query } from "./api.js";
import { speed } from "./charts.js";
import { Figures, Meter } from "./figures.js";
import { duration, moment, OUTCOMES, rate, share } from "./format.js";
import { announce, el, exact, setExact, setText } from "./kit/dom.js";
import { count, number } from "./kit/format.js";
import { Fields } from "./table.js";

const STATES = new Map([
    ["receiving", ["Receiving", "accent"]], ["running", ["Sending", "good"]], ["paused", ["Paused", "warn"]],
    ["cancelled", ["Cancelled", ""]], ["finished", ["Finished", ""]],
]);
// Pushes without an outcome are hatched.
const PARTS = [
    ...OUTCOMES,
    { name: "inFlight", text: "In flight", tone: "accent hatched", title: "Being sent, without an outcome" },
    { name: "parked", text: "Parked", tone: "warn hatched", title: "Waiting for an operator" },
    { name: "queued", text: "Queued", tone: "rest", title: "Waiting to be sent" },
];
const PAGE_SIZE = 1000;

const sum = (values) => values.reduce((total, value) => total + value, 0);
const part = (batch, name) => batch.outcomes[name] ?? batch[name];
const total = (batch) => sum(PARTS.map(({ name }) => part(batch, name)));
const waiting = ({ queued, inFlight }) => queued + inFlight;
const limitText = ({ pushesPerSecond: limit }) => (limit === null ? "no limit" : `limit ${number(limit)}/s`);

/** The row of a batch. `onChange()` is called after an action. */
export function makeBatch({ id, name: given, app, environment, caller, createdAt }, onChange) {
    let shown;
    let samples = [];
    const name = `the batch ${given === null ? "" : `${given} `}of ${app} from ${moment(createdAt)}`;
    const kind = `${environment} · bulk · ${caller} · ${moment(createdAt)}`;
    const state = el("span", { class: "pill", "data-field": "state" });
    const meter = new Meter(PARTS.map(({ tone }) => tone), `Progress of ${name}`);
    const figures = new Figures("part", PARTS, "legend");
    const progress = el("p", { class: "muted", "data-field": "progress" });
    const fields = new Fields("batch");
    const report = new Actions(`of ${name}`, [{ text: "Save dead tokens", work: () => saveDeadTokens(id) }]);
    const buttons = makeButtons(name, path("v1", "batches", id), onChange);
    return {
        element: el("li", { class: "batch", "data-batch": id, tabindex: -1 },
            el("div", { class: "section-head" },
                el("h3", {}, el("span", { class: "main" }, exact(given ?? app)),
                    el("span", { class: "detail muted" }, exact(given === null ? kind : `${app} · ${kind}`))),
                state),
            meter.element, figures.element, progress, buttons.element,
            el("details", {}, el("summary", { text: "Details", "aria-label": `Details of ${name}` }), fields.element,
                report.element)),
        update(batch, now) {
            const isOther = shown && (shown.state !== batch.state || shown.pushesPerSecond !== batch.pushesPerSecond);
            // The speed before a change says nothing about the time that remains.
            if (isOther) samples = [];
            shown = batch;
            const [word, tone] = stateOf(batch, now);
            setExact(state, word);
            state.className = `pill ${tone}`;
            if (isOther) announce(`${name[0].toUpperCase()}${name.slice(1)}: ${word}, ${limitText(batch)}`);
            figures.update((name) => (part(batch, name) > 0 ? number(part(batch, name)) : undefined));
            const [settled, all] = [sum(Object.values(batch.outcomes)), total(batch)];
            samples = [...samples.slice(-5), { now: performance.now() / 1000, totals: { settled } }];
            const done = all > 0 ? share(settled, all) : "No devices";
            meter.update(PARTS.map(({ name }) => part(batch, name)), all, settled, done);
            setText(progress, [done, ...pace(batch, speed(samples, "settled"), now)].join(" · "));
            buttons.update(batch);
            fields.update(batch, ["outcomes"]);
        },
    };
}

function stateOf({ state, notBefore }, now) {
    if (state === "running" && notBefore > now) return ["Scheduled", "accent"];
    return STATES.get(state) ?? [String(state), ""];
}

/** What the batch does now, and how long it will take. */
function pace(batch, perSecond, now) {
    if (batch.state === "receiving") return ["nothing is sent until all devices are stored", limitText(batch)];
    if (batch.state === "paused") return [limitText(batch)];
    if (batch.state === "cancelled") return waiting(batch) > 0 ? ["the other pushes are being cancelled"] : [];
    if (batch.state !== "running") return [];
    if (batch.notBefore > now) return [`starts in ${duration(batch.notBefore - now + 0.5)}`, limitText(batch)];
    if (waiting(batch) === 0) return ["only parked pushes are left: retry or drop them"];
    const left = perSecond > 0 ? [`about ${duration(waiting(batch) / perSecond)} left`] : [];
    return [`${rate(perSecond)}/s, ${limitText(batch)}`, ...left];
}

function makeButtons(name, address, onChange) {
    const isIn = (...states) => ({ state }) => states.includes(state);
    const change = (body) => call("PATCH", address, { body }).finally(onChange);
    return new Actions(name, [
        { text: "Pause", shows: isIn("running"), work: () => change({ paused: true }) },
        { text: "Resume", shows: isIn("paused"), work: () => change({ paused: false }) },
        {
            text: "Slow…", shows: isIn("receiving", "running", "paused"),
            question: ({ pushesPerSecond }) => ({
                title: `Slow ${name}`, yes: "Set limit", tone: "primary", value: pushesPerSecond,
                text: "The limit holds for all relays together. Without one, the batch is sent as fast as possible.",
                field: "Pushes a second, or nothing for no limit",
            }),
            work: (_, pushesPerSecond) => change({ pushesPerSecond }),
        },
        {
            text: "Stop…", tone: "danger", shows: isIn("receiving", "running", "paused"),
            question: (batch) => ({
                title: `Stop ${name}?`, yes: "Stop batch",
                text: `Pushes that are not in flight are cancelled, about ${number(batch.queued + batch.parked)} of ` +
                    `${count(total(batch), "push")}. They are not sent. The batch cannot be resumed.`,
            }),
            work: () => call("DELETE", address).finally(onChange),
        },
    ]);
}

/** Saves the dead tokens as CSV: the token, and the time since which it is invalid. Returns a text about the result. */
async function saveDeadTokens(batch) {
    const lines = [];
    let page;
    do {
        const after = page?.cursor;
        page = await get("/v1/dead-tokens" + query({ after, batch, limit: PAGE_SIZE, skipMissing: true }));
        for (const { token, since } of page.tokens) lines.push(`${token},${since ?? ""}\n`);
    } while (!page.end);
    if (lines.length === 0) return "APNs has declared no token of this batch invalid.";
    const url = URL.createObjectURL(new Blob(["token,invalid since\n", ...lines], { type: "text/csv" }));
    el("a", { href: url, download: `dead-tokens-${batch}.csv` }).click();
    URL.revokeObjectURL(url);
    return "";
}
