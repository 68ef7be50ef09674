// Buttons that change something. A button may ask for confirmation. If its action fails, it shows the error.

import { announce, button, el, find, setExact } from "./kit/dom.js";

/** Shows a dialog, and returns the value with which it is closed; an empty text if the operator presses Escape. */
export function showDialog(dialog) {
    dialog.returnValue = "";
    dialog.showModal();
    return new Promise((resolve) => {
        dialog.addEventListener("close", () => resolve(dialog.returnValue), { once: true });
    });
}

/** Asks the operator for confirmation in the dialog. Returns whether the operator confirmed. */
async function ask({ title, text, yes }) {
    setExact(find("confirm-title"), title);
    setExact(find("confirm-text"), text);
    setExact(find("confirm-yes"), yes);
    return (await showDialog(find("confirm"))) === "confirm";
}

/** A group of buttons, and a note for the result. Only one action of a group runs at a time. */
export class Actions {
    element = el("div", { class: "row-actions" });
    #note = el("p", { class: "note" });
    #isBusy = false;

    constructor() {
        this.element.append(this.#note);
    }

    /**
     * Adds a button. `work()` may return a text to show. `question()`, if any, returns the arguments of `ask`. Both
     * receive the value of `subject()` at the click, so that the work concerns what the operator confirmed.
     */
    add(text, { label, work, subject = () => undefined, question, tone = "" }) {
        const added = button(text, () => this.#run(text, work, subject, question), {
            class: `small ${tone}`, "aria-label": label, "data-action": text,
        });
        this.element.insertBefore(added, this.#note);
        return added;
    }

    clear() {
        this.#show("", "");
    }

    async #run(text, work, subject, question) {
        if (this.#isBusy) return;
        this.#isBusy = true;
        this.element.setAttribute("aria-busy", "true");
        this.#show("", "");
        try {
            const value = subject();
            if (question && !(await ask(question(value)))) return;
            const result = await work(value);
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
        announce(text, tone === "bad");
    }
}
