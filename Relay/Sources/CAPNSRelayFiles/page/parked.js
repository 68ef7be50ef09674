// The parked pushes: by app and reason, with the buttons that retry or drop those of a group, and the oldest ones.

import { Actions } from "./actions.js";
import { call, get, query } from "./api.js";
import { el, setText } from "./kit/dom.js";
import { count, dateTime, number } from "./kit/format.js";
import { pushTable } from "./outcomes.js";
import { Reader } from "./reader.js";
import { Table } from "./table.js";

const SHOWN = 100;
const ACTION_SECONDS = 60;

export class Parked {
    #reader;
    #isVisible = false;

    constructor(root, onOpen) {
        const summary = el("p", { class: "muted", "data-field": "summary" });
        const table = pushTable("Parked pushes", ["Queued", "queuedAt"], onOpen);
        const groups = new Table({
            name: "group", label: "Parked pushes by app and reason", key: ({ app, reason }) => `${app}/${reason}`,
            columns: [
                ["Reason", "reason", ({ app, reason }) => ({ text: reason ?? "No reason", detail: app })],
                ["Pushes", "pushes", ({ pushes }) => number(pushes)],
                ["Oldest queued", "oldest", ({ oldest }) => dateTime(oldest)],
            ],
            actions: (group) => makeActions(group, () => void this.#reader.load()),
        });
        this.#reader = new Reader("parked pushes", {
            read: () => Promise.all([get("/v1/parked/groups"), get("/v1/parked" + query({ limit: SHOWN }))]),
            show: ([counted, { pushes }]) => {
                groups.update(counted.groups);
                table.update(pushes);
                const all = counted.groups.reduce((sum, group) => sum + group.pushes, 0);
                const total = `${counted.complete ? "" : "at least "}${count(all, "parked push")}`;
                setText(summary, pushes.length > 0 ? `The oldest ${number(pushes.length)} of ${total}:` : "");
                return pushes.length > 0 ? "" : "No push is parked.";
            },
        });
        root.append(this.#reader.note, groups.element, summary, table.element);
    }

    set isVisible(isVisible) {
        this.#isVisible = isVisible;
        if (isVisible) this.#reader.load();
    }

    /** Reads the parked pushes. Called every two seconds. */
    update() {
        if (this.#isVisible) this.#reader.poll();
    }
}

function makeActions({ app, reason }, onChange) {
    // Without a reason, the API would retry or drop all pushes of the app.
    if (!reason) return undefined;
    const decide = (method, path, verb) => call(method, path + query({ app, reason }), { seconds: ACTION_SECONDS })
        .then((decided) => `${count(decided.pushes, "push")} ${verb}.`).finally(onChange);
    return new Actions(`parked pushes of ${app} with the reason ${reason}`, [
        { text: "Retry all", work: () => decide("POST", "/v1/parked/retry", "retried") },
        {
            text: "Drop all…", tone: "danger",
            question: ({ pushes }) => ({
                title: `Drop ${count(pushes, "parked push")}?`, yes: "Drop all",
                text: `All pushes of ${app} that are parked with the reason ${reason} are never sent again, also ` +
                    "those that were parked a moment ago. Each push ends with the outcome of its last attempt.",
            }),
            work: () => decide("DELETE", "/v1/parked", "dropped"),
        },
    ]);
}
