// A table of the callers and the apps with their limits, and how much of these they use.

import { share } from "./format.js";
import { el, exact, setText } from "./kit/dom.js";
import { number } from "./kit/format.js";
import { Meter } from "./meter.js";
import { Rows } from "./rows.js";

// A caller's rate is an average over this time.
const PERIOD_SECONDS = 10;

export class Quotas {
    #section;
    #rows;

    constructor(section, root) {
        this.#section = section;
        const names = ["Caller or app", "Pushes without an outcome", "Submitted pushes a second"];
        const head = el("thead", {}, el("tr", {}, names.map((text) => el("th", { scope: "col", text }))));
        const body = el("tbody");
        root.append(el("table", { class: "quotas", "aria-labelledby": "quotas-title" }, head, body));
        this.#rows = new Rows(body, makeRow);
    }

    update({ callers, apps }) {
        const quotas = [
            ...(callers ?? []).map((caller) => ({ ...caller, kind: "caller" })),
            ...(apps ?? []).map((app) => ({ ...app, kind: "app" })),
        ];
        this.#section.hidden = quotas.length === 0;
        this.#rows.update(quotas, ({ kind, name }) => `${kind} ${name}`);
    }
}

function makeRow({ kind, name }) {
    const unsettled = makeCell("unsettled", `Pushes of ${kind} ${name} without an outcome`);
    const submitted = makeCell("submitted", `Used rate of ${kind} ${name}`);
    return {
        element: el("tr", { "data-quota": `${kind}/${name}` },
            el("th", { scope: "row" }, el("span", { class: "route-app" }, exact(name)),
                el("span", { class: "route-kind muted", text: kind })),
            unsettled.element, submitted.element),
        update(quota) {
            unsettled.update(quota.unsettled, quota.capacity, share(quota.unsettled, quota.capacity));
            submitted.update(...usedRate(quota));
        },
    };
}

/** How much of its rate a caller has used, the maximum, and a text. */
function usedRate({ pushesPerSecond, available, capacity, unsettled }) {
    if (!(pushesPerSecond > 0)) return [0, null, "no limit"];
    const limit = `limit ${number(pushesPerSecond)}/s`;
    if (!Number.isFinite(available)) return [0, null, limit];
    // The capacity leaves less than the rate, so nothing is known about the rate.
    if (Number.isFinite(capacity) && available === Math.max(0, capacity - unsettled)) return [0, null, limit];
    const most = pushesPerSecond * PERIOD_SECONDS;
    const free = Math.min(most, Math.max(0, Math.floor(available)));
    return [most - free, most, free > 0 ? `${limit}, ${number(free)} free now` : `${limit}, used up`];
}

/** A cell with a bar and a text. There is no bar without a maximum. */
function makeCell(name, label) {
    const meter = new Meter(["accent"], { label });
    const text = el("p", { class: "meter-text" });
    return {
        element: el("td", { "data-cell": name }, meter.element, text),
        update(used, most, words) {
            meter.element.hidden = !(most > 0);
            meter.update([used], most, used, words);
            text.classList.toggle("bad", most > 0 && used >= 0.9 * most);
            setText(text, words);
        },
    };
}
