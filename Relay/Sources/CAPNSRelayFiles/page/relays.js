// A table with a row for each relay of the fleet. It is hidden if there is only one relay.

import { duration } from "./format.js";
import { el, setExact, setText } from "./kit/dom.js";
import { dateTime, number } from "./kit/format.js";
import { Rows } from "./rows.js";

export class Relays {
    #section;
    #rows;
    #count;

    constructor(section, root, heading) {
        this.#section = section;
        this.#count = heading;
        const names = ["Relay", "Version", "Running for", "Posts to webhooks"];
        const head = el("thead", {}, el("tr", {}, names.map((text) => el("th", { scope: "col", text }))));
        const body = el("tbody");
        root.append(el("table", { class: "relays", "aria-labelledby": "relays-title" }, head, body));
        this.#rows = new Rows(body, makeRow);
    }

    update({ relays, now }) {
        this.#section.hidden = relays.length < 2;
        setText(this.#count, number(relays.length));
        this.#rows.update(relays, ({ id }) => id, now);
    }
}

function makeRow({ id }) {
    const host = el("span", { class: "route-app" });
    const process = el("span", { class: "route-kind muted" });
    const version = el("td", { "data-cell": "version" });
    const since = el("td", { "data-cell": "since" });
    const posts = el("td", { "data-cell": "posts" });
    return {
        element: el("tr", { "data-relay": id },
            el("th", { scope: "row" }, host, process), version, since, posts),
        update(relay, now) {
            setExact(host, relay.host);
            setExact(process, `${relay.isSelf ? "this page · " : ""}${relay.id} · process ${relay.process}`);
            setExact(version, relay.version);
            setText(since, duration(now - relay.since));
            since.title = `Since ${dateTime(relay.since)}`;
            setText(posts, relay.postsWebhooks ? "yes" : "–");
        },
    };
}
