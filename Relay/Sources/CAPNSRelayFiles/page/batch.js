// A batch: its progress and speed, its details, and the buttons that pause, slow or stop it.

import { Actions } from "./actions.js";
import { call, path } from "./api.js";
import { Fields, json, time } from "./fields.js";
import { OUTCOMES } from "./figures.js";
import { duration, moment, rate, share } from "./format.js";
import { announce, el, exact, setExact, setText } from "./kit/dom.js";
import { count, number } from "./kit/format.js";
import { Meter } from "./meter.js";
import { askRate } from "./rate.js";
import { Samples } from "./samples.js";
import { saveDeadTokens } from "./tokens.js";

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
const FIELDS = [
    ["Batch", "id"], ["Caller", "caller"], ["Idempotency key", "idempotencyKey"], ["Metadata", "metadata", json],
    ["Submitted", "createdAt", time], ["Not before", "notBefore", time], ["Deadline", "deadline", time],
    ["Devices", "lines", (lines, { invalid }) => number(lines - invalid)], ["Invalid devices", "invalid", number],
    ["Dead tokens", "deadTokens", number],
];
const sum = (values) => values.reduce((total, value) => total + value, 0);
const waiting = ({ queued, inFlight }) => queued + inFlight;
const limitText = ({ pushesPerSecond: limit }) => (limit === null ? "no limit" : `limit ${number(limit)}/s`);

/** The row of a batch. `onChange()` is called after an action. */
export function makeBatch({ id, name: given, app, environment, caller, createdAt }, onChange) {
    let shown;
    let samples;
    const name = `the batch ${given === null ? "" : `${given} `}of ${app} from ${moment(createdAt)}`;
    const kind = `${environment} · bulk · ${caller} · ${moment(createdAt)}`;
    const state = el("span", { class: "pill", "data-field": "state" });
    const meter = new Meter(PARTS.map(({ tone }) => tone), { label: `Progress of ${name}`, role: "progressbar" });
    const figures = PARTS.map(({ name, text, tone, title }) => {
        const value = el("dd", { "data-part": name });
        return { name, value, element: el("div", { title }, el("dt", { class: `dot ${tone}`, text }), value) };
    });
    const progress = el("p", { class: "muted", "data-field": "progress" });
    const fields = new Fields("batch", FIELDS);
    const summary = el("summary", { text: "Details", "aria-label": `Details of ${name}` });
    const report = new Actions();
    report.add("Save dead tokens", { label: `Save the dead tokens of ${name}`, work: () => saveDeadTokens(id) });
    const { element: buttons, show: showButtons } = makeButtons(name, () => shown, onChange);

    return {
        element: el("li", { class: "batch", "data-batch": id },
            el("div", { class: "section-head" },
                el("h3", {}, el("span", { class: "route-app" }, exact(given ?? app)),
                    el("span", { class: "route-kind muted" }, exact(given === null ? kind : `${app} · ${kind}`))),
                state),
            meter.element, el("dl", { class: "legend" }, figures.map(({ element }) => element)), progress, buttons,
            el("details", {}, summary, fields.element, report.element)),
        update(batch, now) {
            const isOther = shown && (shown.state !== batch.state || shown.pushesPerSecond !== batch.pushesPerSecond);
            // The speed before a change says nothing about the time that remains.
            if (!shown || isOther) samples = new Samples();
            shown = batch;
            const [word, tone] = stateOf(batch, now);
            setExact(state, word);
            state.className = `pill ${tone}`;
            if (isOther) announce(`${name[0].toUpperCase()}${name.slice(1)}: ${word}, ${limitText(batch)}`);
            const values = PARTS.map(({ name }) => batch.outcomes[name] ?? batch[name]);
            for (const [index, { value, element }] of figures.entries()) {
                setText(value, number(values[index]));
                element.hidden = !(values[index] > 0);
            }
            const [settled, total] = [sum(Object.values(batch.outcomes)), sum(values)];
            samples.add(performance.now() / 1000, { settled });
            const done = total > 0 ? share(settled, total) : "No devices";
            meter.update(values, total, settled, done);
            setText(progress, [done, ...pace(batch, samples.rate("settled"), now)].join(" · "));
            showButtons(batch, summary);
            fields.update(batch);
        },
    };
}

function stateOf({ state, notBefore }, now) {
    if (state === "running" && notBefore > now) return ["Scheduled", "accent"];
    return STATES.get(state) ?? [String(state), ""];
}

/** What the batch does now, and how long it will take. */
function pace(batch, speed, now) {
    if (batch.state === "receiving") return ["nothing is sent until all devices are stored", limitText(batch)];
    if (batch.state === "paused") return [limitText(batch)];
    if (batch.state === "cancelled") return waiting(batch) > 0 ? ["the other pushes are being cancelled"] : [];
    if (batch.state !== "running") return [];
    if (batch.notBefore > now) return [`starts in ${duration(batch.notBefore - now + 0.5)}`, limitText(batch)];
    if (waiting(batch) === 0) return ["only parked pushes are left: retry or drop them"];
    const left = speed > 0 ? [`about ${duration(waiting(batch) / speed)} left`] : [];
    return [`${rate(speed)}/s, ${limitText(batch)}`, ...left];
}

/** The buttons of a batch: `{element, show(batch, other)}`. `other` gets the focus if the focused button disappears. */
function makeButtons(name, subject, onChange) {
    const actions = new Actions();
    const at = ({ id }) => path("v1", "batches", id);
    const change = (batch, body) => call("PATCH", at(batch), { body }).finally(onChange);
    const pause = actions.add("Pause", {
        label: `Pause ${name}`, subject, work: (batch) => change(batch, { paused: true }),
    });
    const resume = actions.add("Resume", {
        label: `Resume ${name}`, subject, work: (batch) => change(batch, { paused: false }),
    });
    const slow = actions.add("Slow…", {
        label: `Slow ${name}`, subject,
        work: async (batch) => {
            const pushesPerSecond = await askRate(`Slow ${name}`, batch.pushesPerSecond);
            return pushesPerSecond === undefined ? undefined : change(batch, { pushesPerSecond });
        },
    });
    const stop = actions.add("Stop…", {
        label: `Stop ${name}`, subject, tone: "danger",
        question: (batch) => ({
            title: `Stop ${name}?`,
            text: `Pushes that are not in flight are cancelled, about ${number(batch.queued + batch.parked)} of ` +
                `${count(sum(PARTS.map((part) => batch.outcomes[part.name] ?? batch[part.name])), "push")}. ` +
                "They are not sent. The batch cannot be resumed.",
            yes: "Stop batch",
        }),
        work: (batch) => call("DELETE", at(batch)).finally(onChange),
    });
    const visible = new Map([
        ["receiving", [slow, stop]], ["running", [pause, slow, stop]], ["paused", [resume, slow, stop]],
    ]);
    return {
        element: actions.element,
        show({ state }, other) {
            const shown = visible.get(state) ?? [];
            const focused = document.activeElement;
            for (const control of [pause, resume, slow, stop]) control.hidden = !shown.includes(control);
            if (focused.hidden && actions.element.contains(focused)) (shown[0] ?? other).focus();
        },
    };
}
