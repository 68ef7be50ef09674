// Shows the webhooks with their states, and the parked requests with the buttons that retry or drop them.

import { Actions, each } from "./actions.js";
import { call, path } from "./api.js";
import { duration, moment, sentence } from "./format.js";
import { el, exact, setExact, setText } from "./kit/dom.js";
import { count, dateTime, number } from "./kit/format.js";
import { Rows } from "./rows.js";

const retry = (name, id) => call("POST", path("v1", "webhooks", name, "parked", id, "retry"));
const drop = (name, id) => call("DELETE", path("v1", "webhooks", name, "parked", id));

export class Webhooks {
    #rows;
    #empty = el("p", { class: "muted", text: "No webhook is configured." });

    /** `onChange()` is called after an action. */
    constructor(root, onChange) {
        const list = el("div", { class: "webhooks" });
        this.#rows = new Rows(list, (webhook) => makeWebhook(webhook, onChange));
        root.append(list, this.#empty);
    }

    update({ webhooks, now }) {
        this.#rows.update(webhooks, ({ name }) => name, now);
        this.#empty.hidden = webhooks.length > 0;
    }
}

function makeWebhook({ name }, onChange) {
    const state = el("span", { class: "pill", "data-field": "state" });
    const url = el("p", { class: "mono muted url" });
    const progress = el("p", { class: "muted", "data-field": "progress" });
    const error = el("p", { class: "note bad", "data-field": "error" });
    const list = el("ul", { class: "items" });
    const rows = new Rows(list, (request) => makeRequest(name, request, onChange));
    const all = new Actions();
    let shown = [];
    const subject = () => shown.map(({ id }) => id);
    all.add("Retry all", {
        label: `Retry all parked requests to ${name}`, subject,
        work: (ids) => each(ids, "retried", (id) => retry(name, id)).finally(onChange),
    });
    all.add("Drop all…", {
        label: `Drop all parked requests to ${name}`, subject, tone: "danger",
        question: (ids) => ({
            title: `Drop ${count(ids.length, "parked request")}?`,
            text: `${name} does not receive their outcomes. They stay in the relay's feed.`,
            yes: `Drop ${count(ids.length, "request")}`,
        }),
        work: (ids) => each(ids, "dropped", (id) => drop(name, id)).finally(onChange),
    });
    const element = el("section", { class: "webhook", "data-webhook": name, tabindex: "-1" },
        el("div", { class: "section-head" }, el("h3", {}, exact(name)), state),
        url, progress, error, all.element, list);
    return {
        element,
        update(webhook, now) {
            shown = webhook.parked;
            setExact(url, webhook.url);
            const [word, tone] = stateOf(webhook);
            setText(state, word);
            state.className = `pill ${tone}`;
            setText(progress, `At position ${number(webhook.position)} of the feed.`);
            setExact(error, problem(webhook, now));
            for (const control of all.element.querySelectorAll("button")) control.hidden = shown.length === 0;
            rows.update(shown, ({ id }) => id, now);
        },
    };
}

function stateOf({ failures, parked }) {
    if (failures > 0) return ["Failing", "bad"];
    return parked.length > 0 ? [`${number(parked.length)} parked`, "warn"] : ["Working", "good"];
}

function problem({ failures, lastError, nextAttempt }, now) {
    if (!(failures > 0)) return "";
    const next = Number.isFinite(nextAttempt)
        ? `Next attempt at ${moment(nextAttempt, now)}, in ${duration(nextAttempt - now + 0.5)}.` : "";
    const attempts = count(failures, "failed attempt") + (lastError ? `: ${lastError}` : "");
    return [sentence(attempts), next].filter(Boolean).join(" ");
}

function makeRequest(name, { id, outcomes }, onChange) {
    const actions = new Actions();
    actions.add("Retry", { label: `Retry request ${id}`, work: () => retry(name, id).finally(onChange) });
    actions.add("Drop…", {
        label: `Drop request ${id}`, tone: "danger", work: () => drop(name, id).finally(onChange),
        question: () => ({
            title: "Drop this request?",
            text: `${name} does not receive its ${count(outcomes, "outcome")}. They stay in the relay's feed.`,
            yes: "Drop",
        }),
    });
    const reason = el("span", { class: "item-title" });
    const detail = el("span", { class: "item-detail muted" });
    return {
        element: el("li", { class: "item", "data-request": id }, el("span", { class: "item-main" },
            reason, detail, el("span", { class: "item-detail muted mono" }, exact(id)), actions.element)),
        update(request) {
            setExact(reason, request.error);
            setText(detail, `${count(request.outcomes, "outcome")}, parked since ${dateTime(request.since)}`);
        },
    };
}
