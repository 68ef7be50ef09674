// The preview of what a device holds. It shows what arrived, not how a particular iOS version draws it.

import { activityCard } from "./activity.js";
import { appName, sourceLink } from "./format.js";
import { button, el, exact } from "./kit/dom.js";
import { count, dateTime, timeOfDay } from "./kit/format.js";

const LEVELS = {
    passive: { text: "Passive", tone: "plain" },
    "time-sensitive": { text: "Time Sensitive", tone: "warn" },
    critical: { text: "Critical", tone: "bad" },
};

/** The nodes for one snapshot. `actions`: `onOpenPush(order)`. */
export function phoneNodes(snapshot, actions) {
    const apps = snapshot.apps ?? [];
    const activities = snapshot.activities ?? [];
    const isEmpty = activities.length === 0 && apps.every((app) => app.notifications.length === 0);
    const screen = el("div", { class: "screen" },
        el("div", { class: "screen-head" },
            el("span", { class: "screen-name" }, exact(snapshot.name || "Any device")),
            el("span", { class: snapshot.isOnline ? "muted" : "tag warn",
                text: snapshot.isOnline ? "Online" : "Offline" })),
        activities.length > 0 && el("section", { class: "group", "aria-label": "Live Activities" },
            el("h3", { class: "group-name", text: "Live Activities" }),
            activities.map((activity) => activityCard(activity, actions)),
            el("p", { class: "screen-note",
                text: "The app draws its Live Activities itself. These are the values that it gets." })),
        apps.map((app) => appGroup(app, actions)),
        isEmpty && el("p", { class: "screen-empty", text: "No notifications" }));
    return [
        el("div", { class: "phone" }, screen),
        list("Waiting at APNs", snapshot.waiting, waitingItem, actions,
            "APNs stores these until the device is online again."),
        list("Never delivered", snapshot.undelivered, undeliveredItem, actions),
        list("Notes", snapshot.notes, noteItem, actions),
    ];
}

function appGroup(app, actions) {
    const { topic, badge = 0, notifications = [], backgroundWakes = 0 } = app;
    const otherWakes = Object.entries(app.wakes ?? {}).filter(([type]) => type !== "background");
    const name = appName(topic);
    const threads = new Map();
    for (const notification of notifications) {
        const thread = notification.threadID ?? "";
        if (!threads.has(thread)) threads.set(thread, []);
        threads.get(thread).push(notification);
    }
    return el("section", { class: "group", "data-app": topic, "aria-label": name },
        el("header", { class: "app-head" },
            el("span", { class: "app-icon", "aria-hidden": "true" }, name.charAt(0),
                badge > 0 && el("span", { class: "badge", text: badge > 9999 ? "9999+" : String(badge) })),
            el("span", { class: "app-names" },
                el("h3", { class: "group-name" }, exact(name)),
                el("span", { class: "muted small" }, exact(topic))),
            el("span", { class: "app-numbers small muted" },
                badge > 0 && el("span", { "data-field": "badge", text: `Badge ${badge}` }),
                backgroundWakes > 0 && el("span", { "data-field": "wakes",
                    text: count(backgroundWakes, "background wake") }),
                otherWakes.map(([type, wakes]) => el("span", {}, exact(count(wakes, `${type} wake`)))))),
        [...threads].map(([thread, items]) => el("div", { class: "thread" },
            thread && el("p", { class: "thread-name small muted" }, "Thread ", exact(thread)),
            items.map((item) => notificationCard(item, actions)))));
}

function notificationCard(item, { onOpenPush }) {
    const level = item.isCritical ? LEVELS.critical : LEVELS[item.interruptionLevel];
    const tags = [];
    if (level) {
        tags.push(el("span", { class: `tag ${level.tone}`, "data-field": "level", text: level.text }));
    } else if (item.interruptionLevel && item.interruptionLevel !== "active") {
        tags.push(el("span", { class: "tag warn", "data-field": "level" }, exact(item.interruptionLevel)));
    }
    if (item.replaced > 0) {
        tags.push(el("span", { class: "tag plain", "data-field": "replaced", text: `replaced ${item.replaced}`,
            title: `It replaced ${count(item.replaced, "earlier notification")} with the same collapse id.` }));
    }
    if (item.webPushState) {
        const tone = item.webPushState === "decrypted" ? "good" : "warn";
        tags.push(el("span", { class: `tag ${tone}`, "data-field": "webpush" }, `Web Push, ${item.webPushState}`));
    }
    if (item.category) tags.push(el("span", { class: "tag plain" }, "category ", exact(item.category)));
    if (!item.sound) tags.push(el("span", { class: "tag plain", text: "no sound" }));
    return el("article", { class: "notification", "data-order": item.order },
        el("div", { class: "notification-line" },
            el("h4", {}, exact(item.title ?? item.body ?? "")),
            button(timeOfDay(item.deliveredMilliseconds / 1000), () => onOpenPush(item.order), {
                class: "link small", title: `Show push ${item.order}`, "data-key": `notification ${item.order}`,
                "aria-label": `Show push ${item.order}`,
            })),
        item.subtitle && el("p", { class: "subtitle" }, exact(item.subtitle)),
        item.title !== undefined && item.body !== undefined && el("p", { class: "text" }, exact(item.body)),
        tags.length > 0 && el("div", { class: "tags" }, tags));
}

/** A titled list, the newest entry first. */
function list(title, items, itemNode, actions, note) {
    if (!items?.length) return "";
    return el("section", { class: "section", "data-list": title },
        el("h3", { text: `${title} (${items.length})` }), note && el("p", { class: "muted small", text: note }),
        el("ul", { class: "plain-list" },
            items.slice(-200).reverse().map((item) => el("li", {}, itemNode(item, actions)))));
}

const pushLink = (order, { onOpenPush }) =>
    button(`Push ${order}`, () => onOpenPush(order), { class: "link", "data-key": `link ${order}` });

const waitingItem = (item, actions) => [
    pushLink(item.order, actions), " ", el("span", {}, exact(item.topic ?? "")),
    item.expiration > 0 && el("span", { class: "muted", text: ` until ${dateTime(item.expiration)}` }),
];

const undeliveredItem = (item, actions) => [
    pushLink(item.order, actions), " ", el("span", {}, exact(item.message ?? item.rule ?? "")), " ",
    sourceLink(item.source),
];

const noteItem = (item, actions) => [
    item.order !== undefined && pushLink(item.order, actions), " ", el("span", {}, exact(item.message ?? "")),
];
