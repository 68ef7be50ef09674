// The filter fields. Their values make one function that says whether a push is shown.

import { button, el } from "./kit/dom.js";
import { shortToken } from "./kit/format.js";

const PART = ["deviceToken", "topic", "apnsID", "collapseID"];
const EXACT = ["outcome", "pushType"];
const NAMES = {
    text: "Text", outcome: "Outcome", pushType: "Type", deviceToken: "Token", topic: "Topic", apnsID: "apns-id",
    collapseID: "Collapse id",
};
const TYPES = [
    "alert", "background", "liveactivity", "voip", "widgets", "controls", "complication", "fileprovider",
    "location", "mdm", "pushtotalk", "accessory",
];

/** Returns a function that says whether a push has these values, or undefined if all are empty. */
function makeFilter(values) {
    const tests = [];
    if (values.outcome === "hints") tests.push((push) => push.hintCount > 0);
    for (const name of EXACT) {
        if (values[name] && values[name] !== "hints") tests.push((push) => push[name] === values[name]);
    }
    for (const name of PART) {
        const wanted = (values[name] ?? "").trim().toLowerCase();
        if (!wanted) continue;
        tests.push((push) => typeof push[name] === "string" && push[name].toLowerCase().includes(wanted));
    }
    for (const word of (values.text ?? "").toLowerCase().split(/\s+/).filter(Boolean)) {
        tests.push((push) => contains(push, word));
    }
    return tests.length > 0 ? (push) => tests.every((test) => test(push)) : undefined;
}

function contains(push, word) {
    for (const key in push) {
        const value = push[key];
        if (typeof value === "string" ? value.toLowerCase().includes(word) : false) return true;
    }
    return String(push.status ?? "") === word || (push.faults?.includes(word) ?? false);
}

export class Filters {
    #form;
    #active;
    #more;
    #onChange;
    #types = new Set(TYPES);

    constructor(form, onChange) {
        this.#form = form;
        this.#active = form.querySelector("#active-filters");
        this.#more = form.querySelector("#more");
        this.#onChange = onChange;
        for (const type of TYPES) this.#addType(type);
        let timer;
        form.addEventListener("submit", (event) => event.preventDefault());
        form.addEventListener("input", () => {
            clearTimeout(timer);
            timer = setTimeout(() => this.#changed(), 120);
        });
        this.#more.addEventListener("click", () => {
            this.#expand(this.#more.getAttribute("aria-expanded") !== "true");
        });
    }

    get values() {
        const values = {};
        for (const name of Object.keys(NAMES)) values[name] = this.#form.elements[name].value;
        return values;
    }

    /** Sets one filter, as the detail view does for the values that it shows. */
    set(name, value) {
        if (name === "pushType") this.addType(value);
        this.#form.elements[name].value = value;
        this.#changed();
    }

    /** Makes a push type selectable that Apple's list does not have. */
    addType(type) {
        if (!type || this.#types.has(type) || this.#types.size > 100) return;
        this.#types.add(type);
        this.#addType(type);
    }

    clear() {
        for (const name of Object.keys(NAMES)) this.#form.elements[name].value = "";
        this.#changed();
    }

    #addType(type) {
        this.#form.elements.pushType.append(el("option", { value: type, text: type }));
    }

    #expand(isExpanded) {
        this.#more.setAttribute("aria-expanded", isExpanded);
        this.#form.querySelector("#more-filters").hidden = !isExpanded;
        if (isExpanded) this.#form.elements.deviceToken.focus();
    }

    #changed() {
        const values = this.values;
        const set = Object.keys(NAMES).filter((name) => values[name].trim() !== "");
        const chips = set.map((name) => {
            const value = name === "deviceToken" ? shortToken(values[name]) : values[name];
            return button(`${NAMES[name]}: ${value}`, () => this.set(name, ""), {
                class: "chip", "aria-label": `Remove the filter ${NAMES[name]}: ${value}`,
            });
        });
        if (set.length > 1) chips.push(button("Clear all", () => this.clear(), { class: "quiet small" }));
        this.#active.replaceChildren(...chips);
        this.#active.hidden = set.length === 0;
        this.#onChange(makeFilter(values));
    }
}
