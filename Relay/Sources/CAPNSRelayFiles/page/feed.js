// Reads a feed from its end. The API reads feeds forward from a position, and positions have gaps, so a search
// over positions finds the end: about forty small requests for the first page of a feed of ten million
// outcomes, and a few for each further page.

import { get, query } from "./api.js";

const PAGE_SIZE = 50;
const WINDOW = 200;

const position = (value) => (value === null || value === undefined ? 0 : Number.parseInt(value, 10));

export class Feed {
    #path;
    #field;
    #app;
    #end = 0; // No entry had a larger position when the end was last looked for.

    /** `field` is the member of a response that has the entries. An `app` limits the feed to that app. */
    constructor(path, field, app) {
        this.#path = path;
        this.#field = field;
        this.#app = app;
    }

    /** The newest entries, the newest first: `{entries, older}`. Pass `older` to `before`; null at the end. */
    async newest() {
        return this.before((await this.#findEnd()) + 1);
    }

    /** The newest entries before a position. */
    async before(limit) {
        let tooLow = -1; // From here, there are more entries before the limit than one request returns.
        let tooHigh = limit; // From here, there are fewer than a page.
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

    /** The entries between two positions, the oldest first, and whether these are all. */
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
        let high = low + step; // Nothing follows `high`.
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
