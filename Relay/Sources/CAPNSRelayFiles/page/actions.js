// Buttons that change something. A button may ask first. If its action fails, the error stands beside it.

import { announce, button, el, find, setExact } from "./kit/dom.js";

find("confirm-no").addEventListener("click", () => find("confirm").close("no"));

/**
 * Asks the operator in a dialog, which has a field for a number if `field` names one. Returns undefined if the operator goes
 * back, otherwise the number; null if there is none.
 */
async function ask({ title, text, yes, field = "", value = null, tone = "danger" }) {
    const [dialog, input] = [find("confirm"), find("confirm-value")];
    setExact(find("confirm-title"), title);
    setExact(find("confirm-text"), text);
    setExact(find("confirm-yes"), yes);
    setExact(find("confirm-name"), field);
    find("confirm-yes").className = tone;
    find("confirm-field").hidden = input.disabled = field === "";
    input.value = value ?? "";
    dialog.returnValue = "";
    dialog.showModal();
    if (field === "") find("confirm-no").focus();
    else input.select();
    await new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
    if (dialog.returnValue !== "yes") return undefined;
    return input.value === "" ? null : input.valueAsNumber;
}

/** The buttons of an item, and a note for the result. Only one of them acts at a time. */
export class Actions {
    element = el("div", { class: "row-actions" });
    #note = el("p", { class: "note" });
    #item;
    #isBusy = false;
    #buttons;

    /**
     * `name` says what the buttons change. Each action has a `text` and `work(item, number)`, which may return a text to
     * show. If needed, it has `shows(item, now)`, whether the item has the button, `question(item)`, the arguments of `ask`,
     * and a `tone`. The work concerns the item of the click, and so what the operator was asked.
     */
    constructor(name, actions) {
        this.#buttons = actions.map(({ text, tone = "", shows = () => true, ...action }) => ({
            shows,
            element: button(text, () => this.#run(text, action), {
                class: `small ${tone}`, "data-action": text, "aria-label": name && `${text} ${name}`,
            }),
        }));
        this.element.append(...this.#buttons.map(({ element }) => element), this.#note);
    }

    /** Shows the buttons that the item has. */
    update(item, now) {
        this.#item = item;
        const focused = this.element.contains(document.activeElement) ? document.activeElement : null;
        for (const { element, shows } of this.#buttons) element.hidden = !shows(item, now);
        const successor = this.element.querySelector("button:not([hidden])") ?? this.element.closest("[tabindex]");
        if (focused?.hidden) successor?.focus();
    }

    clear() {
        this.#show("", "");
    }

    async #run(text, { work, question }) {
        if (this.#isBusy) return;
        this.#isBusy = true;
        this.element.setAttribute("aria-busy", "true");
        this.clear();
        try {
            const item = this.#item;
            const answer = question && (await ask(question(item)));
            if (question && answer === undefined) return;
            const result = await work(item, answer);
            this.#show(typeof result === "string" ? result : "", "");
        } catch (error) {
            if (error.name !== "AbortError") this.#show(`${text.replace("…", "")}: ${error.message}`, "bad");
        } finally {
            this.#isBusy = false;
            this.element.removeAttribute("aria-busy");
        }
    }

    #show(text, tone) {
        this.#note.className = `note ${tone}`;
        setExact(this.#note, text);
        if (text !== "") announce(text, tone === "bad");
    }
}
