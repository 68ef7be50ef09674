// The banner: what keeps pushes from being delivered or accepted, or outcomes from a webhook, since when, and what to do.

import { duration, moment, sentence } from "./format.js";
import { el, setExact, setText } from "./kit/dom.js";
import { count } from "./kit/format.js";
import { Rows } from "./rows.js";

export class Problems {
    #root;
    #rows;

    constructor(root) {
        this.#root = root;
        const list = el("ul", { class: "problems" });
        this.#rows = new Rows(list, makeRow);
        root.append(list);
    }

    update({ problems, now }) {
        this.#root.hidden = problems.length === 0;
        this.#rows.update(problems, ({ cause, message }) => JSON.stringify([cause, message]), now);
    }
}

function makeRow({ cause }) {
    const [effect, when, message, remedy] = ["effect", "when", "message", "remedy"].map((name) =>
        el("span", { class: `problem-${name}`, "data-field": name }));
    return {
        element: el("li", { class: "problem", "data-problem": cause },
            el("p", {}, el("strong", {}, effect), " ", when), el("p", {}, message), el("p", {}, remedy)),
        update(problem, now) {
            setText(effect, problem.effect);
            const waiting = `${count(problem.waiting, "push")} ${problem.waiting === 1 ? "waits" : "wait"}.`;
            setText(when, `Since ${moment(problem.since, now)} (${duration(Math.max(0, now - problem.since))}).` +
                (cause === "webhook" ? "" : ` ${waiting}`));
            const apps = problem.apps.map(({ app, environment }) => `${app} (${environment})`);
            const shown = apps.length > 5 ? [...apps.slice(0, 5), `${apps.length - 5} more`] : apps;
            setExact(message, (shown.length > 0 ? `${shown.join(", ")}: ` : "") + sentence(problem.message));
            setText(remedy, problem.remedy);
        },
    };
}
