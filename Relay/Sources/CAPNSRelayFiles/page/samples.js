// The relay's counters over the last five minutes, and rates from their differences.

export const SECONDS = 300;
const RATE_SECONDS = 10;

export class Samples {
    #samples = [];

    /** Adds the totals at a time of the relay's clock. If a total is smaller than before, the relay has restarted. */
    add(now, totals) {
        const last = this.#samples.at(-1);
        if (last) {
            const hasRestarted = Object.keys(totals).some((name) => totals[name] < last.totals[name]);
            if (hasRestarted || now < last.now) this.#samples = [];
            else if (now === last.now) return;
        }
        this.#samples.push({ now, totals });
        while (this.#samples.length > 2 && this.#samples[1].now <= now - SECONDS) this.#samples.shift();
    }

    /** Replaces all samples: `{now, totals}`, the oldest first. */
    set(samples) {
        this.#samples = [];
        for (const { now, totals } of samples) this.add(now, totals);
    }

    /** The rate per second over the last ten seconds; NaN if it is not known yet. */
    rate(name) {
        const last = this.#samples.at(-1);
        if (this.#samples.length < 2) return NaN;
        const recent = this.#samples.find(({ now }) => now >= last.now - RATE_SECONDS - 0.5);
        const first = recent === last ? this.#samples.at(-2) : recent;
        return (last.totals[name] - first.totals[name]) / (last.now - first.now);
    }

    /** The intervals between the samples, as `{from, to, rate(name)}` in seconds. The newest sample is at 0. */
    intervals() {
        const newest = this.#samples.at(-1)?.now;
        return this.#samples.slice(1).map((sample, index) => {
            const before = this.#samples[index];
            return {
                from: Math.max(-SECONDS, before.now - newest),
                to: sample.now - newest,
                rate: (name) => (sample.totals[name] - before.totals[name]) / (sample.now - before.now),
            };
        });
    }
}
