// The rows of recent outcomes and of dead tokens.

import { moment, outcome, routeName } from "./format.js";
import { button, copyButton, el, exact } from "./kit/dom.js";
import { dateTime, shortToken } from "./kit/format.js";

const still = (element) => ({ element, update() {} });

/** The row of a settled push. A click opens the push. */
export function outcomeRow(push, onOpen) {
    const { word, tone, detail } = outcome(push.outcome);
    return still(el("li", {}, el("button", { type: "button", class: "item", "data-push": push.id,
        onclick: () => onOpen(push.id) },
        el("span", { class: `pill fixed ${tone}` }, exact(word)),
        el("span", { class: "item-main" },
            el("span", { class: "item-title" }, exact(routeName(push))),
            el("span", { class: "item-detail muted" },
                detail && el("span", { class: tone, "data-field": "detail" }, exact(detail)), detail && " · ",
                el("span", { class: "mono" }, exact(shortToken(push.token))))),
        el("span", { class: "item-side muted", text: moment(push.settledAt) }))));
}

/** The row of a device token that APNs declared invalid. */
export function deadTokenRow(entry, onOpen) {
    const since = entry.since === null ? "" : `, invalid since ${dateTime(entry.since)}`;
    return still(el("li", { class: "item" },
        el("span", { class: "item-main" },
            el("span", { class: "mono token" }, exact(entry.token)),
            el("span", { class: "item-detail muted" }, exact(`${entry.app} · ${entry.environment}`), since)),
        el("span", { class: "item-side" },
            el("span", { class: "muted", text: moment(entry.settledAt) }),
            el("span", { class: "tools" },
                copyButton(String(entry.token), "the token"),
                button("Push", () => onOpen(entry.pushID), { class: "quiet small", "data-push": entry.pushID,
                    "aria-label": `Show the push to ${shortToken(entry.token)}` })))));
}
