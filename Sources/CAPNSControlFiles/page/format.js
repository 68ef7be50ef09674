// Writes what only this page shows: delays, sources, apps and outcomes.

import { el } from "./kit/dom.js";
import { timeOfDay } from "./kit/format.js";

/** The local time of day with milliseconds. */
export const clock = (milliseconds) =>
    `${timeOfDay(milliseconds / 1000)}.${String(milliseconds % 1000).padStart(3, "0")}`;

export function duration(milliseconds) {
    if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
    return `${(milliseconds / 1000).toFixed(milliseconds < 10000 ? 1 : 0)} s`;
}

/** A link to documentation, or nothing if the address is not https. */
export function sourceLink(address, text = "Documentation") {
    if (typeof address !== "string" || !address.startsWith("https://")) return undefined;
    return el("a", { href: address, target: "_blank", rel: "noopener noreferrer", text });
}

/** The last part of a bundle id, as a name for the app. */
export function appName(topic) {
    const parts = String(topic).replace(/\.(push-type\.\w+|voip|complication|pushkit\.\w+)$/, "").split(".");
    const name = parts[parts.length - 1] || String(topic);
    return name.charAt(0).toUpperCase() + name.slice(1);
}

/** How a push ended, as `{text, tone, word}`; tones are good, bad and warn. */
export function outcome(push) {
    const text = String(push.status ?? "?");
    if (push.outcome === "accepted") return { text, tone: "good", word: "Accepted" };
    if (push.outcome === "rejected") return { text, tone: "bad", word: "Rejected" };
    return { text: "none", tone: "warn", word: `No response: ${push.fate ?? "unknown"}` };
}
