// Shows the webhooks with their states, and the button that skips a request.

import { Actions } from "./actions.js";
import { call, path } from "./api.js";
import { duration, moment, sentence } from "./format.js";
import { el, exact, setExact, setText } from "./kit/dom.js";
import { count, number } from "./kit/format.js";
import { Rows } from "./rows.js";

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
    const actions = new Actions();
    let request = null;
    actions.add("Skip the request…", {
        label: `Skip the request to ${name}`, subject: () => request, tone: "danger",
        question: ({ outcomes }) => ({
            title: "Skip this request?",
            text: `${name} does not receive its ${count(outcomes, "outcome")}. They stay in the relay's feed.`,
            yes: "Skip",
        }),
        work: ({ id }) => call("POST", path("v1", "webhooks", name, "requests", id, "skip")).finally(onChange),
    });
    const element = el("section", { class: "webhook", "data-webhook": name, tabindex: "-1" },
        el("div", { class: "section-head" }, el("h3", {}, exact(name)), state),
        url, progress, error, actions.element);
    return {
        element,
        update(webhook, now) {
            request = webhook.request;
            setExact(url, webhook.url);
            const [word, tone] = stateOf(webhook);
            setText(state, word);
            state.className = `pill ${tone}`;
            setExact(progress, `At position ${number(webhook.position)} of the feed.` + waiting(request, now));
            setExact(error, problem(webhook, now));
            for (const control of actions.element.querySelectorAll("button")) control.hidden = !needsOperator(webhook, now);
        },
    };
}

const needsOperator = ({ failures, request }, now) => request !== null && (failures > 0 || now - request.since > 60);

function waiting(request, now) {
    if (request === null) return "";
    return ` ${count(request.outcomes, "outcome")} in request ${request.id}, made ${duration(now - request.since)} ago.`;
}

function stateOf({ failures }) {
    return failures > 0 ? ["Failing", "bad"] : ["Working", "good"];
}

function problem({ failures, lastError, nextAttempt }, now) {
    if (!(failures > 0)) return "";
    const next = Number.isFinite(nextAttempt)
        ? `Next attempt at ${moment(nextAttempt, now)}, in ${duration(nextAttempt - now + 0.5)}.` : "";
    const attempts = count(failures, "failed attempt") + (lastError ? `: ${lastError}` : "");
    return [sentence(attempts), next].filter(Boolean).join(" ");
}
