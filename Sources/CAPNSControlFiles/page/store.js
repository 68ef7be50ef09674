// The pushes that the page keeps, ordered by arrival, and those that the filter selects.

/** A queue that grows at both ends and loses its oldest element. Index 0 is the newest. */
class Deque {
    #newer = []; // oldest first
    #start = 0;
    #older = []; // newest first

    get length() {
        return this.#newer.length - this.#start + this.#older.length;
    }

    addNewest(value) {
        this.#newer.push(value);
    }

    addOldest(value) {
        this.#older.push(value);
    }

    removeOldest() {
        if (this.#older.length > 0) return this.#older.pop();
        const value = this.#newer[this.#start];
        this.#newer[this.#start] = undefined;
        this.#start += 1;
        if (this.#start > 4096 && this.#start * 2 > this.#newer.length) {
            this.#newer = this.#newer.slice(this.#start);
            this.#start = 0;
        }
        return value;
    }

    at(index) {
        const newer = this.#newer.length - this.#start;
        return index < newer ? this.#newer[this.#newer.length - 1 - index] : this.#older[index - newer];
    }

    /** The index of the newest push whose order is at most this one. */
    indexOf(order) {
        let low = 0;
        let high = this.length;
        while (low < high) {
            const middle = (low + high) >> 1;
            if (this.at(middle).order > order) low = middle + 1;
            else high = middle;
        }
        return low;
    }
}

const SHARED = ["topic", "pushType", "reason", "fate", "outcome", "collapseID", "channelID"];
const SLICE_MILLISECONDS = 8;

export class PushStore {
    keep = 100_000;
    #pushes = new Deque();
    #matches = this.#pushes;
    #filter = undefined;
    #scan = undefined; // The order below which the filter has yet to search.
    #held = undefined; // The order of the newest push that the list shows, while it stands still.
    #texts = new Map();
    #onChange;

    constructor(onChange) {
        this.#onChange = onChange;
    }

    get total() {
        return this.#pushes.length;
    }

    get matching() {
        return this.#matches.length;
    }

    get isFiltered() {
        return this.#filter !== undefined;
    }

    get isSearching() {
        return this.#scan !== undefined;
    }

    get newestOrder() {
        return this.#pushes.length > 0 ? this.#pushes.at(0).order : 0;
    }

    get oldestOrder() {
        return this.#pushes.length > 0 ? this.#pushes.at(this.#pushes.length - 1).order : 0;
    }

    get isFull() {
        return this.#pushes.length >= this.keep;
    }

    // What the list shows: the matches, without those that arrived after `hold`.

    get heldBack() {
        return this.#held === undefined ? 0 : this.#matches.indexOf(this.#held);
    }

    get count() {
        return this.#matches.length - this.heldBack;
    }

    at(index) {
        return this.#matches.at(index + this.heldBack);
    }

    /** The index in the list of the push with this order, or of the next older one. */
    indexOf(order) {
        return Math.max(0, this.#matches.indexOf(order) - this.heldBack);
    }

    hold() {
        if (this.#held === undefined) this.#held = this.newestOrder;
    }

    release() {
        this.#held = undefined;
    }

    add(push) {
        if (push.order <= this.newestOrder) return false;
        this.#share(push);
        this.#pushes.addNewest(push);
        if (this.#filter?.(push)) this.#matches.addNewest(push);
        while (this.#pushes.length > this.keep) this.#removeOldest();
        return true;
    }

    /** Adds a push from before the page was opened. */
    addOlder(push) {
        if (this.isFull || (this.total > 0 && push.order >= this.oldestOrder)) return;
        this.#share(push);
        this.#pushes.addOldest(push);
        // A running search gets there by itself.
        if (!this.isSearching && this.#filter?.(push)) this.#matches.addOldest(push);
    }

    #removeOldest() {
        const removed = this.#pushes.removeOldest();
        if (this.#matches === this.#pushes || this.#matches.length === 0) return;
        if (this.#matches.at(this.#matches.length - 1) === removed) this.#matches.removeOldest();
    }

    clear() {
        this.#pushes = new Deque();
        this.#texts.clear();
        this.#scan = undefined;
        this.#held = undefined;
        this.#matches = this.#filter ? new Deque() : this.#pushes;
    }

    /** Shows only the pushes for which `filter` is true; all, if it is undefined. */
    setFilter(filter) {
        this.#filter = filter;
        this.#scan = undefined;
        if (!filter) {
            this.#matches = this.#pushes;
            return;
        }
        this.#matches = new Deque();
        this.#scan = this.newestOrder;
        this.#search();
    }

    /** Searches from the newest to the oldest, in slices, so that input is never blocked for long. */
    #search() {
        const until = performance.now() + SLICE_MILLISECONDS;
        let index = this.#pushes.indexOf(this.#scan);
        for (; index < this.#pushes.length; index++) {
            const push = this.#pushes.at(index);
            if ((index & 63) === 0 && performance.now() > until) {
                this.#scan = push.order;
                const filter = this.#filter;
                setTimeout(() => {
                    if (this.#filter === filter && this.isSearching) this.#search();
                    this.#onChange();
                });
                return;
            }
            if (this.#filter(push)) this.#matches.addOldest(push);
        }
        this.#scan = undefined;
    }

    /** Keeps one copy of the texts that most pushes have in common. */
    #share(push) {
        for (const key of SHARED) {
            const text = push[key];
            if (typeof text !== "string") continue;
            const known = this.#texts.get(text);
            if (known !== undefined) push[key] = known;
            else if (this.#texts.size < 10_000) this.#texts.set(text, text);
        }
    }
}
