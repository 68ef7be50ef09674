// Formats rates, ages and outcomes, which only this page shows.

import { dateTime, number, timeOfDay } from "./kit/format.js";

/** How a push can end. */
export const OUTCOMES = [
    { name: "accepted", text: "Accepted", tone: "good", title: "APNs accepted the push" },
    { name: "rejected", text: "Rejected", tone: "bad", title: "APNs rejected the push" },
    { name: "notProcessed", text: "Not processed", tone: "accent", title: "Sent, and provably not processed" },
    { name: "notSent", text: "Not sent", tone: "soft", title: "Never sent: overdue, cancelled or superseded" },
    { name: "unknown", text: "Unknown", tone: "warn", title: "May or may not have been processed" },
];

/** A number of events per second. */
export function rate(value) {
    if (!Number.isFinite(value)) return "–";
    return value < 10 && value > 0 ? value.toFixed(1) : number(Math.round(value));
}

/** A part of a total in words. The total may be null: there is no limit. */
export function share(part, total) {
    if (!(total > 0)) return `${number(part)}, no limit`;
    const percent = part > 0 && part < 0.01 * total ? "less than 1" : Math.floor((part / total) * 100);
    return `${number(part)} of ${number(total)}, ${percent} %`;
}

/** The time of day. The date is added unless it is the date of `now`. */
export function moment(seconds, now = Date.now() / 1000) {
    const text = dateTime(seconds);
    return text.slice(0, 10) === dateTime(now).slice(0, 10) ? timeOfDay(seconds) : text;
}

/** The text with a full stop, so that another sentence can follow. */
export const sentence = (text) => (/[.!?…]$/.test(text) ? String(text) : `${text}.`);

/** A duration in its one or two largest units. */
export function duration(seconds) {
    if (!Number.isFinite(seconds)) return "–";
    const whole = Math.max(0, Math.floor(seconds));
    if (whole < 60) return `${whole} s`;
    const units = [[86_400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
    const first = units.findIndex(([size]) => whole >= size);
    return units.slice(first, first + 2).map(([size, unit], index) => {
        const value = index === 0 ? Math.floor(whole / size) : Math.floor((whole % units[first][0]) / size);
        return value > 0 ? `${value} ${unit}` : "";
    }).filter(Boolean).join(" ");
}

/** The time since something became due, or the time until it is due. */
export function age(due, now) {
    if (!Number.isFinite(due)) return "–";
    return due > now + 0.5 ? `in ${duration(due - now + 0.5)}` : duration(now - due);
}

export const routeName = ({ app, environment, lane }) => [app, environment, lane].join(" · ");

/** How a push ended: `{word, tone, detail}`. */
export function outcome(value) {
    if (!value) return { word: "No outcome", tone: "", detail: "" };
    const { text, tone } = OUTCOMES.find(({ text }) => text.toLowerCase() === String(value.outcome).replace("-", " "))
        ?? { text: String(value.outcome), tone: "" };
    const name = [value.status, value.reason ?? value.code].filter((part) => part ?? false).join(" ");
    const message = value.message ?? "";
    // Some messages begin with the name.
    const detail = message.startsWith(name) ? message : [name, message].filter(Boolean).join(": ");
    return { word: text, tone, detail };
}
