// The sections of the overview that are tables: routes, webhooks, quotas and relays.

import { Actions } from "./actions.js";
import { call, path } from "./api.js";
import { age, duration, moment, sentence, share } from "./format.js";
import { el, find, setText } from "./kit/dom.js";
import { count, dateTime, number } from "./kit/format.js";
import { Table } from "./table.js";

/** A section that is hidden while it has less than `least` items. `items(overview)` returns them. */
class Section {
    #section;
    #least;
    #items;
    #table;

    constructor(id, { least = 1, items, ...table }) {
        this.#section = find(id);
        this.#least = least;
        this.#items = items;
        this.#table = new Table({ label: id, ...table });
        this.#section.append(this.#table.element);
    }

    update(overview) {
        const items = this.#items(overview);
        this.#section.hidden = items.length < this.#least;
        this.#table.update(items, overview.now);
    }
}

export const makeRelays = () => new Section("relays", {
    name: "relay", key: ({ id }) => id, items: ({ relays }) => relays, least: 2,
    columns: [
        ["Relay", "host", ({ host, id, process, isSelf }) => ({
            text: host, detail: `${isSelf ? "this page · " : ""}${id} · process ${process}`,
        })],
        ["Version", "version", ({ version }) => version],
        ["Running for", "since", ({ since }, now) => ({ text: duration(now - since), title: `Since ${dateTime(since)}` })],
        ["Posts to webhooks", "posts", ({ postsWebhooks }) => (postsWebhooks ? "yes" : "–")],
    ],
});

export const makeQuotas = () => new Section("quotas", {
    name: "quota", key: ({ kind, name }) => `${kind}/${name}`,
    items: ({ callers = [], apps = [] }) => [
        ...callers.map((caller) => ({ ...caller, kind: "caller" })), ...apps.map((app) => ({ ...app, kind: "app" })),
    ],
    columns: [
        ["Caller or app", "name", ({ kind, name }) => ({ text: name, detail: kind })],
        ["Pushes without an outcome", "unsettled", ({ unsettled, capacity }) => ({
            text: share(unsettled, capacity), detail: capacity > 0 && unsettled >= 0.9 * capacity ? "nearly full" : "",
        })],
        ["Submitted pushes a second", "submitted", rateText],
    ],
});

function rateText({ pushesPerSecond, available }) {
    if (!(pushesPerSecond > 0)) return "no limit";
    const limit = `limit ${number(pushesPerSecond)}/s`;
    if (!Number.isFinite(available)) return limit;
    return available >= 1 ? `${limit}, ${number(Math.floor(available))} free now` : `${limit}, used up`;
}

/** `onChange()` is called after an action. */
export const makeWebhooks = (onChange) => new Section("webhooks", {
    name: "webhook", key: ({ name }) => name, items: ({ webhooks }) => webhooks,
    columns: [
        ["Webhook", "name", ({ name, url }) => ({ text: name, detail: url })],
        ["Position in the feed", "position", ({ position }) => number(position)],
        ["Request", "request", ({ request }, now) => (request === null ? "–" : {
            text: `${count(request.outcomes, "outcome")}, ${duration(now - request.since)}`,
            detail: request.id,
        })],
        ["State", "state", ({ failures }) =>
            (failures > 0 ? { text: "Failing", tone: "bad" } : { text: "Working", tone: "good" })],
    ],
    note: ({ failures, lastError, nextAttempt }, now) => (failures > 0 ? [
        sentence(count(failures, "failed attempt") + (lastError ? `: ${lastError}` : "")),
        Number.isFinite(nextAttempt)
            && `Next attempt at ${moment(nextAttempt, now)}, in ${duration(nextAttempt - now + 0.5)}.`,
    ].filter(Boolean).join(" ") : ""),
    actions: ({ name }) => new Actions(`to ${name}`, [{
        text: "Skip the request…", tone: "danger",
        shows: ({ failures, request }, now) => request !== null && (failures > 0 || now - request.since > 60),
        question: ({ request }) => ({
            title: "Skip this request?", yes: "Skip",
            text: `${name} does not receive its ${count(request.outcomes, "outcome")}. They stay in the relay's feed.`,
        }),
        work: ({ request }) =>
            call("POST", path("v1", "webhooks", name, "requests", request.id, "skip")).finally(onChange),
    }]),
});

const STATES = new Map([
    ["sending", ["Sending", "good"]], ["idle", ["Idle", ""]], ["paused", ["Paused", "warn"]],
]);
const FILTER_FROM = 21;

/** The routes, with a filter if there are many. */
export class Routes {
    #table;
    #filter = find("routes-filter");
    #empty = el("p", { class: "muted" });
    #last = { routes: [], now: 0 };

    constructor() {
        this.#table = new Table({
            name: "route", label: "Routes", key: ({ app, environment, lane }) => `${app}/${environment}/${lane}`,
            columns: [
                ["Route", "route", ({ app, environment, lane }) => ({ text: app, detail: `${environment} · ${lane}` })],
                ["Queued", "queued", ({ queued }) => number(queued)],
                ["In flight", "flight", ({ claimed, written }) => ({
                    text: number(claimed + written), title: `${number(claimed)} claimed, ${number(written)} written`,
                })],
                ["Parked", "parked", ({ parked }) => number(parked)],
                ["Oldest", "oldest", ({ oldestDue }, now) => age(oldestDue, now)],
                ["State", "state", ({ state }) => {
                    const [text, tone] = STATES.get(state) ?? [state, ""];
                    return { text, tone };
                }],
            ],
            note: ({ state, reason, pausedUntil }, now) => (state !== "paused" ? "" : [
                reason && sentence(reason),
                Number.isFinite(pausedUntil)
                    && `Resumes at ${moment(pausedUntil, now)}, in ${duration(pausedUntil - now + 0.5)}.`,
            ].filter(Boolean).join(" ")),
        });
        find("routes").append(this.#table.element, this.#empty);
        this.#filter.querySelector("input").addEventListener("input", () => this.#draw());
    }

    update({ routes, now }) {
        this.#last = { routes, now };
        this.#draw();
    }

    #draw() {
        const { routes, now } = this.#last;
        this.#filter.hidden = routes.length < FILTER_FROM;
        const text = this.#filter.hidden ? "" : this.#filter.querySelector("input").value.trim().toLowerCase();
        const matches = ({ app, environment, lane, state, reason }) =>
            [app, environment, lane, state, reason ?? ""].join(" ").toLowerCase().includes(text);
        const visible = routes.filter(matches);
        this.#table.update(visible, now);
        const paused = routes.filter(({ state }) => state === "paused").length;
        setText(find("routes-count"), [
            text === "" ? number(routes.length) : `${number(visible.length)} of ${number(routes.length)}`,
            paused > 0 && `${number(paused)} paused`,
        ].filter(Boolean).join(", "));
        const none = text === "" ? "No push is waiting." : "No route matches.";
        setText(this.#empty, visible.length > 0 ? "" : none);
    }
}
