// The list of pushes. Only the visible rows are in the document. The focus stays on the list, and
// aria-activedescendant names the active row, because rows are reused while pushes arrive.

import { clock, duration, outcome } from "./format.js";
import { el, setText } from "./kit/dom.js";
import { count, shortToken } from "./kit/format.js";

const ROW = 52; // The height of .row in page.css.
const MARGIN = 6; // The number of rows above and below the visible ones.
const LIMIT = 500_000; // Browsers limit the height of an element.

export class PushList {
    #viewport;
    #spacer;
    #store;
    #onOpen;
    #onScroll;
    #rows = [];
    #active = undefined; // The order of the row that the keyboard is on.
    #selected = undefined; // The order of the push in the detail view.
    #pressed = undefined;

    constructor(viewport, store, { onOpen, onScroll }) {
        this.#viewport = viewport;
        this.#spacer = viewport.firstElementChild;
        this.#store = store;
        this.#onOpen = onOpen;
        this.#onScroll = onScroll;
        viewport.addEventListener("scroll", () => this.#onScroll(), { passive: true });
        viewport.addEventListener("focus", () => this.render());
        // New pushes can fill the row with another push before the button is released, so the click opens the push
        // that was there when the button was pressed.
        viewport.addEventListener("pointerdown", (event) => {
            this.#pressed = this.#orderAt(event.target);
        });
        viewport.addEventListener("click", (event) => {
            const order = this.#pressed ?? this.#orderAt(event.target);
            this.#pressed = undefined;
            if (order === undefined) return;
            this.#active = order;
            this.#onOpen(order, "pointer");
        });
        new ResizeObserver(() => this.render()).observe(viewport);
    }

    get isAtTop() {
        return this.#viewport.scrollTop < 2;
    }

    scrollToTop() {
        this.#viewport.scrollTop = 0;
    }

    focus() {
        this.#viewport.focus({ preventScroll: true });
    }

    select(order) {
        this.#selected = order;
        this.render();
    }

    clear() {
        this.#active = undefined;
        this.#selected = undefined;
    }

    #orderAt(target) {
        const row = target instanceof Element ? target.closest(".row") : null;
        return row ? Number(row.dataset.order) : undefined;
    }

    render() {
        const size = Math.min(this.#store.count, LIMIT);
        const height = `${size * ROW}px`;
        if (this.#spacer.style.height !== height) this.#spacer.style.height = height;
        const first = Math.max(0, Math.floor(this.#viewport.scrollTop / ROW) - MARGIN);
        const visible = Math.ceil(this.#viewport.clientHeight / ROW) + 2 * MARGIN;
        const last = Math.min(size, first + visible);
        while (this.#rows.length < visible) this.#addRow();
        for (const [number, row] of this.#rows.entries()) {
            // The row for index i is always rows[i % length], so scrolling moves few of them.
            const length = this.#rows.length;
            const index = first + ((number - first) % length + length) % length;
            const push = index < last ? this.#store.at(index) : undefined;
            if (push) this.#fillRow(row, push, index, size);
            else if (!row.element.hidden) this.#hide(row);
        }
        const active = this.#active === undefined ? null : `push-${this.#active}`;
        if (active && document.getElementById(active)) {
            this.#viewport.setAttribute("aria-activedescendant", active);
        } else this.#viewport.removeAttribute("aria-activedescendant");
    }

    #addRow() {
        const row = {
            push: undefined,
            index: -1,
            status: el("span", { class: "pill" }),
            title: el("span", { class: "row-title" }),
            detail: el("span", { class: "row-detail" }),
            type: el("span", { class: "row-type" }),
            topic: el("span", { class: "row-topic" }),
            token: el("span", { class: "row-token mono" }),
            collapse: el("span", { class: "row-collapse" }),
            time: el("span", { class: "row-time" }),
            delay: el("span", { class: "row-delay" }),
            hints: el("span", { class: "row-hints" }),
        };
        row.detail.append(row.type, row.topic, row.token, row.collapse);
        row.element = el("div", { class: "row", role: "option", hidden: true },
            row.status, el("span", { class: "row-main" }, row.title, row.detail),
            el("span", { class: "row-side" }, row.time, row.delay, row.hints));
        this.#rows.push(row);
        this.#spacer.append(row.element);
    }

    #hide(row) {
        row.element.hidden = true;
        row.element.removeAttribute("id");
        row.push = undefined;
    }

    #fillRow(row, push, index, size) {
        const element = row.element;
        if (row.index !== index || element.hidden) {
            element.style.transform = `translateY(${index * ROW}px)`;
            row.index = index;
        }
        element.setAttribute("aria-posinset", index + 1);
        element.setAttribute("aria-setsize", size);
        const isActive = push.order === this.#active;
        const isSelected = push.order === this.#selected;
        if (element.classList.contains("active") !== isActive) element.classList.toggle("active", isActive);
        if ((element.getAttribute("aria-selected") === "true") !== isSelected || !row.push) {
            element.setAttribute("aria-selected", isSelected);
        }
        if (row.push === push) return;
        row.push = push;
        element.hidden = false;
        element.id = `push-${push.order}`;
        element.dataset.order = push.order;
        const { text, tone, word } = outcome(push);
        row.status.className = `pill ${tone}`;
        row.status.title = push.reason ? `${word}: ${push.reason}` : word;
        setText(row.status, text === "none" ? "—" : text);
        setText(row.title, push.summary || push.pushType || "(no summary)");
        const isFailure = push.reason || text === "none";
        setText(row.type, isFailure ? push.reason ?? word : push.pushType ?? "no push type");
        row.type.className = isFailure ? `row-type ${tone}` : "row-type";
        setText(row.topic, push.topic ?? "no topic");
        const recipient = push.channelID ? `channel ${push.channelID}` : shortToken(push.deviceToken ?? "");
        setText(row.token, recipient);
        row.collapse.hidden = push.collapseID === undefined;
        setText(row.collapse, push.collapseID ?? "");
        setText(row.time, clock(push.timeMilliseconds));
        const delay = push.delayMilliseconds > 0 ? `+${duration(push.delayMilliseconds)}` : "";
        setText(row.delay, delay || (push.faults?.length ? "fault" : ""));
        setText(row.hints, push.hintCount ? count(push.hintCount, "hint") : "");
    }

    /** Moves, or opens the active row. Without one, the push in the detail view is active, or else the newest. */
    key(event) {
        const page = Math.max(1, Math.floor(this.#viewport.clientHeight / ROW) - 1);
        const steps = {
            ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity,
        };
        if (event.key in steps) {
            event.preventDefault();
            this.#move(steps[event.key]);
        } else if (event.key === "Enter" && this.#store.count > 0) {
            event.preventDefault();
            this.#active ??= this.#selected ?? this.#store.at(0).order;
            this.#onOpen(this.#active, "keyboard");
        }
    }

    #move(step) {
        const size = Math.min(this.#store.count, LIMIT);
        if (size === 0) return;
        let index = Math.floor(this.#viewport.scrollTop / ROW);
        const current = this.#active ?? this.#selected;
        if (current !== undefined) index = this.#store.indexOf(current) + step;
        else if (!Number.isFinite(step)) index = step;
        index = Math.min(Math.max(index, 0), size - 1);
        this.#active = this.#store.at(index).order;
        const top = index * ROW;
        const height = this.#viewport.clientHeight;
        if (top < this.#viewport.scrollTop) this.#viewport.scrollTop = top;
        else if (top + ROW > this.#viewport.scrollTop + height) this.#viewport.scrollTop = top + ROW - height;
        // From the second row on the list stands still, or the row would run away from its reader.
        this.#onScroll(index > 0);
        this.render();
    }
}
