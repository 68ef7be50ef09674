// A table with a row for each route: the number of pushes, the age of the oldest push, and the state.

import { age, duration, moment, sentence } from "./format.js";
import { el, exact, setExact, setText } from "./kit/dom.js";
import { number } from "./kit/format.js";
import { Rows } from "./rows.js";

const FILTER_FROM = 21;
const STATES = new Map([
    ["sending", ["Sending", "good"]], ["idle", ["Idle", ""]], ["paused", ["Paused", "warn"]],
]);
const keyOf = ({ app, environment, lane }) => JSON.stringify([app, environment, lane]);

export class Routes {
    #rows;
    #table;
    #empty = el("p", { class: "muted" });
    #count;
    #filter;
    #last = { routes: [], now: 0 };

    constructor(root, heading, filter) {
        this.#count = heading;
        this.#filter = filter;
        const names = ["Route", "Queued", "In flight", "Parked", "Oldest", "State"];
        const head = el("thead", {}, el("tr", {}, names.map((text) => el("th", { scope: "col", text }))));
        this.#table = el("table", { class: "routes", "aria-labelledby": "routes-title" }, head);
        this.#rows = new Rows(this.#table, makeRow, head);
        root.append(this.#table, this.#empty);
        filter.querySelector("input").addEventListener("input", () => this.#draw());
    }

    update({ routes, now }) {
        this.#last = { routes, now };
        this.#draw();
    }

    #draw() {
        const { routes, now } = this.#last;
        this.#filter.hidden = routes.length < FILTER_FROM;
        const text = this.#filter.hidden ? "" : this.#filter.querySelector("input").value.trim().toLowerCase();
        const matches = (route) => [route.app, route.environment, route.lane, route.state, route.reason ?? ""]
            .join(" ").toLowerCase().includes(text);
        const visible = routes.filter(matches);
        this.#rows.update(visible, keyOf, now);
        const paused = routes.filter(({ state }) => state === "paused").length;
        setText(this.#count, [
            text === "" ? number(routes.length) : `${number(visible.length)} of ${number(routes.length)}`,
            paused > 0 && `${number(paused)} paused`,
        ].filter(Boolean).join(", "));
        this.#table.hidden = visible.length === 0;
        const none = text === "" ? "No push is waiting." : "No route matches.";
        setText(this.#empty, visible.length > 0 ? "" : none);
    }
}

function makeRow({ app, environment, lane }) {
    const cells = Object.fromEntries(["queued", "flight", "parked", "oldest"].map((name) =>
        [name, el("td", { class: "figure", "data-cell": name })]));
    const state = el("span", { class: "pill" });
    const reason = el("td", { colspan: "6", class: "route-reason" });
    const reasonRow = el("tr", { hidden: true }, reason);
    const element = el("tbody", { "data-route": `${app}/${environment}/${lane}` },
        el("tr", {},
            el("th", { scope: "row" },
                el("span", { class: "route-app" }, exact(app)),
                el("span", { class: "route-kind muted" }, exact(`${environment} · ${lane}`))),
            Object.values(cells), el("td", {}, state)),
        reasonRow);
    return {
        element,
        update(route, now) {
            setText(cells.queued, number(route.queued));
            setText(cells.flight, number(route.claimed + route.written));
            cells.flight.title = `${number(route.claimed)} claimed, ${number(route.written)} written`;
            setText(cells.parked, number(route.parked));
            setText(cells.oldest, route.oldestDue === null ? "–" : age(route.oldestDue, now));
            const [word, tone] = STATES.get(route.state) ?? [String(route.state), ""];
            setText(state, word);
            state.className = `pill ${tone}`;
            reasonRow.hidden = route.state !== "paused";
            setExact(reason, reasonText(route, now));
        },
    };
}

function reasonText({ reason, pausedUntil }, now) {
    const until = Number.isFinite(pausedUntil)
        ? `Resumes at ${moment(pausedUntil, now)}, in ${duration(pausedUntil - now + 0.5)}.` : "";
    return [reason && sentence(reason), until].filter(Boolean).join(" ");
}
