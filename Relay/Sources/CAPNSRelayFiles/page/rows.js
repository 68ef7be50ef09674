// Lists that are updated every two seconds. A row keeps its focus and its message.

/** Keeps one row for each item for as long as the item is in the list. */
export class Rows {
    #root;
    #make;
    #head;
    #rows = new Map();

    /** `make(item)` returns `{element, update(item, now)}`. The rows follow the element `head`, if any. */
    constructor(root, make, head) {
        this.#root = root;
        this.#make = make;
        this.#head = head;
    }

    /** Shows these items. `key(item)` identifies an item. */
    update(items, key, now) {
        const old = this.#rows;
        this.#rows = new Map();
        for (const item of items) {
            const name = key(item);
            if (this.#rows.has(name)) continue;
            const row = old.get(name) ?? this.#make(item);
            row.update(item, now);
            this.#rows.set(name, row);
        }
        const successor = this.#successor(old);
        for (const [name, row] of old) {
            if (!this.#rows.has(name)) row.element.remove();
        }
        let next = this.#head ? this.#head.nextElementSibling : this.#root.firstElementChild;
        for (const { element } of this.#rows.values()) {
            if (element === next) next = next.nextElementSibling;
            else this.#root.insertBefore(element, next);
        }
        successor?.focus();
    }

    /** The next element to focus if the focused row is removed: the same control in the row after or before it. */
    #successor(old) {
        const focused = document.activeElement;
        const entries = [...old];
        const index = entries.findIndex(([, row]) => row.element.contains(focused));
        if (index < 0 || this.#rows.has(entries[index][0])) return undefined;
        const candidates = [...entries.slice(index + 1), ...entries.slice(0, index).reverse()];
        const found = candidates.find(([name]) => this.#rows.has(name))?.[1].element;
        const action = focused.dataset.action;
        const control = [...(found?.querySelectorAll("button") ?? [])].find((e) => e.dataset.action === action);
        return control ?? this.#root.closest("[tabindex]");
    }
}
