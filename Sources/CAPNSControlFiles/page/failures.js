// Connections that failed before the client could send a push, above the list, grouped by cause.

import { get } from "./api.js";
import { clock } from "./format.js";
import { button, el, exact } from "./kit/dom.js";
import { count, number } from "./kit/format.js";

export class Failures {
    #root;
    #actions;
    #total = 0; // What is shown or dismissed.

    /** `actions`: `onError(error)`. */
    constructor(root, actions) {
        this.#root = root;
        this.#actions = actions;
    }

    /** Called with each state of the simulator, once a second: a flood of failures causes no more requests than that. */
    async update({ connections: { failed } }) {
        if (failed === this.#total) return;
        this.#total = failed;
        this.#root.hidden = failed === 0;
        if (failed === 0) return;
        try {
            this.#show(await get("/v1/failed-connections"));
        } catch (error) {
            this.#actions.onError(error);
        }
    }

    #show({ total, groups }) {
        const listed = groups.reduce((sum, group) => sum + group.count, 0);
        const latest = groups.toSorted((a, b) => b.lastMilliseconds - a.lastMilliseconds);
        this.#root.replaceChildren(
            el("div", { class: "section-head" },
                el("h2", { text: `${count(total, "connection")} failed before a push could be sent` }),
                button("Dismiss", () => this.#dismiss(), { class: "quiet small" })),
            el("ul", {}, latest.map((group) => this.#item(group))),
            el("p", { class: "muted small",
                text: total > listed ? `${number(total - listed)} more failed in other ways.` : "" }));
    }

    #item(group) {
        const place = [group.host && `to ${group.host}`, group.client && `from ${group.client}`].filter(Boolean);
        const times = group.count > 1 ? `${number(group.count)} times, last at` : "at";
        return el("li", { "data-cause": group.cause },
            el("p", { class: "failure-cause" }, exact(group.message)),
            el("p", {}, exact(group.remedy)),
            el("p", { class: "muted small" }, exact(
                `Connection ${number(group.connection)} ${place.join(" ")}, ${times} ${clock(group.lastMilliseconds)}`)));
    }

    #dismiss() {
        this.#root.hidden = true;
        this.#root.replaceChildren();
    }
}
