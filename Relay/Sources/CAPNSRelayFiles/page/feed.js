// Reads a feed backward from its end. The API only reads forward from a position, and positions have gaps, so the
// end is found by a search over positions. The first page of a feed of ten million outcomes takes about forty
// small requests, and each further page takes a few.

import { get, query } from "./api.js";

const PAGE_SIZE = 50;
const WINDOW = 200;

const position = (value) => (value === null || value === undefined ? 0 : Number.parseInt(value, 10));

export class Feed {
    #path;
    #field;
    #app;
    #end = 0; // The end of the feed when it was last searched for.

    /** `field` is the member of a response with the entries. If there is an `app`, only its entries are read. */
    constructor(path, field, app) {
        this.#path = path;
        this.#field = field;
        this.#app = app;
    }

    /** The newest entries, newest first: `{entries, older}`. Pass `older` to `before`; it is null on the last page. */
    async newest() {
        return this.before((await this.#findEnd()) + 1);
    }

    /** The newest entries before a position. */
    async before(limit) {
        let tooLow = -1; // After this position, there are more entries than one request returns.
        let tooHigh = limit; // After this position, there are fewer entries than a page.
        let width = PAGE_SIZE;
        for (;;) {
            const after = Math.max(0, tooLow < 0 ? limit - 1 - width : Math.floor((tooLow + tooHigh) / 2));
            const { entries, isComplete } = await this.#range(after, limit);
            const isEnough = isComplete && entries.length >= PAGE_SIZE;
            if (isEnough || (isComplete && after === 0) || tooHigh - after <= 1) {
                const page = entries.slice(-PAGE_SIZE).reverse();
                const isLast = after === 0 && entries.length <= PAGE_SIZE;
                const older = isLast || page.length === 0 ? null : position(page.at(-1).cursor);
                return { entries: page, older };
            }
            if (isComplete) tooHigh = after;
            else tooLow = after;
            width *= 4;
        }
    }

    /** The entries between two positions, oldest first, and whether these are all of them. */
    async #range(after, limit) {
        const entries = [];
        for (;;) {
            const page = await this.#read(after, WINDOW, this.#app);
            const reached = position(page.cursor);
            entries.push(...page.entries.filter(({ cursor }) => position(cursor) < limit));
            if (reached <= after || reached >= limit - 1) return { entries, isComplete: true };
            if (entries.length >= WINDOW) return { entries, isComplete: false };
            after = reached;
        }
    }

    async #findEnd() {
        let low = this.#end;
        let step = 1;
        while (!(await this.#isEnd(low + step))) {
            low += step;
            step *= 4;
        }
        let high = low + step; // No entry follows `high`.
        while (high - low > 1) {
            const middle = Math.floor((low + high) / 2);
            if (await this.#isEnd(middle)) high = middle;
            else low = middle;
        }
        this.#end = low;
        return high;
    }

    /** Whether no entry, of any app, follows this position. */
    async #isEnd(after) {
        const { entries, cursor } = await this.#read(after, 1);
        return entries.length === 0 && position(cursor) <= after;
    }

    async #read(after, limit, app) {
        const response = await get(this.#path + query({ after: after > 0 ? after : null, limit, app, skipMissing: true }));
        return { entries: response[this.#field], cursor: response.cursor };
    }
}
