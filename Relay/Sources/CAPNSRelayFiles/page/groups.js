// The parked pushes by app and reason, and the buttons that retry or drop those of a group.

import { Actions } from "./actions.js";
import { call, get, query } from "./api.js";
import { el, exact, setExact, setText } from "./kit/dom.js";
import { count, dateTime, number } from "./kit/format.js";
import { Reader } from "./reader.js";
import { Rows } from "./rows.js";

// The relay reads all parked pushes to count them. So it spends at most a tenth of its time on the page's readings.
const REST = 9;
const LONGEST_SECONDS = 30; // Between two readings while the number of parked pushes is the same.
const ACTION_SECONDS = 60;

export class Groups {
    element;
    #reader;
    #rows;
    #note = el("p", { class: "note", "data-field": "groups-note" });
    #total; // The number of parked pushes when the groups were last read.
    #present;
    #ended = -Infinity; // When they were last read, and how long that took.
    #took = 0;

    /** `onChange()` is called after an action. */
    constructor(onChange) {
        this.#reader = new Reader({
            read: () => this.#read(), show: (answer) => this.#show(answer),
            fail: ({ message }) => this.#explain(`The parked pushes could not be counted: ${message}`, "bad"),
        });
        const list = el("ul", { class: "items", "aria-label": "Parked pushes by app and reason" });
        this.#rows = new Rows(list, (group) => makeGroup(group, () => {
            this.load();
            onChange();
        }));
        this.element = el("div", { class: "groups" }, this.#note, list);
    }

    /** Reads the groups. `total` is the number of parked pushes. */
    load(total = this.#present) {
        this.#present = total;
        this.#reader.load();
    }

    /** Called every two seconds with the number of parked pushes. */
    update(total) {
        this.#present = total;
        const seconds = performance.now() / 1000 - this.#ended;
        if (total !== this.#total ? seconds > REST * this.#took : seconds > LONGEST_SECONDS) this.#reader.poll();
    }

    async #read() {
        const began = performance.now() / 1000;
        const total = this.#present;
        try {
            const answer = await get("/v1/parked/groups");
            this.#total = total;
            return answer;
        } finally {
            this.#ended = performance.now() / 1000;
            this.#took = this.#ended - began;
        }
    }

    #show({ groups, complete }) {
        this.#rows.update(groups, ({ app, reason }) => JSON.stringify([app, reason]));
        const counted = groups.reduce((sum, { pushes }) => sum + pushes, 0);
        this.#explain(complete ? "" : `Only the ${number(counted)} oldest parked pushes are counted here.`, "muted");
    }

    #explain(text, tone) {
        this.#note.className = `note ${tone}`;
        setExact(this.#note, text);
    }
}

function makeGroup({ app, reason }, onChange) {
    const actions = new Actions();
    const name = `the parked pushes of ${app} with the reason ${reason}`;
    const pushes = el("span", { class: "pill warn", "data-field": "pushes" });
    const oldest = el("span");
    const decide = (method, path, verb) => call(method, path + query({ app, reason }), { seconds: ACTION_SECONDS })
        .then((decided) => `${count(decided.pushes, "push")} ${verb}.`).finally(onChange);
    let shown;
    // Without a reason, the API would retry or drop all pushes of the app.
    if (reason) {
        actions.add("Retry all", { label: `Retry ${name}`, work: () => decide("POST", "/v1/parked/retry", "retried") });
        actions.add("Drop all…", {
            label: `Drop ${name}`, tone: "danger", subject: () => shown,
            question: (group) => ({
                title: `Drop ${count(group.pushes, "parked push")}?`,
                text: `All pushes of ${app} that are parked with the reason ${reason} are never sent again, also ` +
                    "those that were parked a moment ago. Each push ends with the outcome of its last attempt.",
                yes: "Drop all",
            }),
            work: () => decide("DELETE", "/v1/parked", "dropped"),
        });
    }
    return {
        element: el("li", { class: "item", "data-group": `${app}/${reason}` }, el("span", { class: "item-main" },
            el("span", { class: "item-title" }, exact(reason ?? "No reason")),
            el("span", { class: "item-detail muted" }, exact(app), " · ", oldest), actions.element), pushes),
        update(group) {
            shown = group;
            setText(pushes, number(group.pushes));
            pushes.title = count(group.pushes, "push");
            setText(oldest, `the oldest queued ${dateTime(group.oldest)}`);
        },
    };
}
