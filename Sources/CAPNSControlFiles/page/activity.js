// The cards of Live Activities: their data and its history. The app draws its own views from this data.

import { button, el, exact } from "./kit/dom.js";
import { dateTime, shortToken, timeOfDay } from "./kit/format.js";

const TONES = { active: "good", stale: "warn", ended: "plain", dismissed: "plain" };

export function activityCard(activity, { onOpenPush }) {
    const first = activity.history?.[0]?.order ?? "";
    const key = activity.token ?? activity.channelID ?? `${activity.topic} ${first}`;
    const origin = activity.channelID ? `Channel ${activity.channelID}`
        : activity.token ? `Token ${shortToken(activity.token)}` : "No activity token yet";
    const dates = [];
    if (activity.staleDate !== undefined) dates.push(`Stale from ${dateTime(activity.staleDate)}`);
    if (activity.dismissalDate !== undefined) dates.push(`Dismissed at ${dateTime(activity.dismissalDate)}`);
    const { title, body } = activity.alert ?? {};
    const alert = [title, body].filter(Boolean).map(words).join(" – ");
    return el("article", { class: "activity", "data-activity": key },
        el("header", {},
            el("h4", {}, exact(activity.attributesType ?? "Live Activity")),
            el("span", { class: `tag ${TONES[activity.state] ?? "plain"}`, "data-field": "state" },
                exact(activity.state ?? ""))),
        el("p", { class: "muted small" }, exact(origin)),
        el("div", { class: "data", "data-field": "content-state" }, values(activity.contentState)),
        activity.attributes && el("details", { "data-key": `attributes ${key}` },
            el("summary", { text: "Attributes" }), el("div", { class: "data" }, values(activity.attributes))),
        alert && el("p", { class: "small" }, "Alert: ", exact(alert)),
        dates.length > 0 && el("p", { class: "muted small", text: dates.join(". ") + "." }),
        history(activity.history ?? [], key, onOpenPush));
}

/** An object as rows of a name and a value. */
function values(object) {
    const isObject = object !== null && typeof object === "object";
    if (!isObject) return el("p", { class: "muted", text: "No content-state." });
    const entries = Object.entries(object);
    if (entries.length === 0) return el("p", { class: "muted", text: "Empty." });
    return el("dl", {}, entries.map(([name, value]) =>
        el("div", {}, el("dt", {}, exact(name)), el("dd", {}, exact(words(value))))));
}

const words = (value) => (typeof value === "string" ? value : JSON.stringify(value));

function history(rows, key, onOpenPush) {
    let last = {};
    const items = rows.map((row) => {
        const state = row.contentState !== null && typeof row.contentState === "object" ? row.contentState : {};
        const changes = row.isIgnored ? [] : difference(last, state);
        if (!row.isIgnored && row.contentState) last = state;
        return el("li", { class: row.isIgnored ? "ignored" : "", "data-event": row.event },
            el("div", { class: "history-line" },
                el("span", { class: "history-event" }, exact(row.event ?? "?")),
                row.isIgnored && el("span", { class: "tag warn", text: "ignored" }),
                button(`Push ${row.order}`, () => onOpenPush(row.order), {
                    class: "link small", "data-key": `history ${key} ${row.order}`,
                }),
                row.timestamp !== undefined &&
                    el("span", { class: "muted small", title: `timestamp ${row.timestamp}`,
                        text: timeOfDay(row.timestamp) })),
            row.reason && el("p", { class: "small" }, exact(row.reason)),
            changes.map((change) => el("p", { class: "change small" }, exact(change))));
    });
    return el("details", { class: "history", "data-key": `history ${key}`, open: true },
        el("summary", { text: `History (${rows.length})` }), el("ol", {}, items.reverse()));
}

/** What changed between two states: `homeScore 1 → 2`. */
function difference(before, after) {
    const changes = [];
    for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
        const [old, now] = [before[name], after[name]];
        if (JSON.stringify(old) === JSON.stringify(now)) continue;
        if (old === undefined) changes.push(`${name} ${words(now)}`);
        else changes.push(`${name} ${words(old)} → ${now === undefined ? "removed" : words(now)}`);
    }
    return changes;
}
