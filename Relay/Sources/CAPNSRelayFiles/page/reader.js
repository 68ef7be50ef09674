// Reads something again and again. The newest reading wins.

export class Reader {
    #read;
    #show;
    #fail;
    #load = 0;
    #isLoading = false;

    /** `read()` requests a value, `show(value)` shows it, and `fail(error)` shows an error. */
    constructor({ read, show, fail }) {
        this.#read = read;
        this.#show = show;
        this.#fail = fail;
    }

    /** Reads, unless a reading is under way. Otherwise a slow relay's responses would always be too late. */
    poll() {
        if (!this.#isLoading) this.load();
    }

    /** Reads now. A reading that is under way is ignored. */
    async load() {
        this.#load += 1;
        const load = this.#load;
        this.#isLoading = true;
        try {
            const value = await this.#read();
            if (load === this.#load) this.#show(value);
        } catch (error) {
            if (load === this.#load && error.name !== "AbortError") this.#fail(error);
        } finally {
            if (load === this.#load) this.#isLoading = false;
        }
    }
}
