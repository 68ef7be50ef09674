/// How the page writes numbers, times and outcomes, served as `/format.js`.
enum PageScriptFormat {
    static let text = #"""
        // How the page writes numbers, times and outcomes.

        const grouped = new Intl.NumberFormat("en-US");
        const two = (number) => String(number).padStart(2, "0");

        export const number = (value) => (Number.isFinite(value) ? grouped.format(value) : "–");
        export const count = (value, noun) => `${number(value)} ${noun}${value === 1 ? "" : pluralEnding(noun)}`;
        const pluralEnding = (noun) => (noun.endsWith("sh") ? "es" : "s");

        /** A number of events per second. */
        export function rate(value) {
            if (!Number.isFinite(value)) return "–";
            return value < 10 && value > 0 ? value.toFixed(1) : number(Math.round(value));
        }

        /** The local time of day of a number of seconds since 1970. */
        export function clock(seconds) {
            const date = new Date(seconds * 1000);
            if (!isTime(seconds, date)) return "–";
            return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
        }

        /** The local date and time of a number of seconds since 1970. */
        export function dateTime(seconds) {
            const date = new Date(seconds * 1000);
            if (!isTime(seconds, date)) return "–";
            return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${clock(seconds)}`;
        }

        const isTime = (seconds, date) => Number.isFinite(seconds) && !Number.isNaN(date.getTime());

        /** The time of day, with the date unless it is that of `now`. */
        export function moment(seconds, now = Date.now() / 1000) {
            const text = dateTime(seconds);
            return text.slice(0, 10) === dateTime(now).slice(0, 10) ? clock(seconds) : text;
        }

        /** The text with a full stop, so that another sentence can follow. */
        export const sentence = (text) => (/[.!?…]$/.test(text) ? String(text) : `${text}.`);

        /** A length of time in its one or two largest units. */
        export function duration(seconds) {
            if (!Number.isFinite(seconds)) return "–";
            const whole = Math.max(0, Math.floor(seconds));
            if (whole < 60) return `${whole} s`;
            const units = [[86_400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
            const first = units.findIndex(([size]) => whole >= size);
            return units.slice(first, first + 2).map(([size, unit], index) => {
                const value = index === 0 ? Math.floor(whole / size) : Math.floor((whole % units[first][0]) / size);
                return value > 0 ? `${value} ${unit}` : "";
            }).filter(Boolean).join(" ");
        }

        /** How long something has been due, or in how long it will be. */
        export function age(due, now) {
            if (!Number.isFinite(due)) return "–";
            return due > now + 0.5 ? `in ${duration(due - now + 0.5)}` : duration(now - due);
        }

        /** The beginning and the end of a long token. */
        export function shortToken(token) {
            const text = String(token);
            return text.length > 18 ? `${text.slice(0, 8)}…${text.slice(-6)}` : text;
        }

        export const routeName = ({ app, environment, lane }) => [app, environment, lane].join(" · ");

        const OUTCOMES = new Map([
            ["accepted", ["Accepted", "good"]], ["rejected", ["Rejected", "bad"]],
            ["not-processed", ["Not processed", "warn"]], ["not-sent", ["Not sent", "warn"]],
            ["unknown", ["Unknown", "warn"]],
        ]);

        /** How a push ended: `{word, tone, detail}`. */
        export function outcome(value) {
            if (!value) return { word: "No outcome", tone: "", detail: "" };
            const [word, tone] = OUTCOMES.get(value.outcome) ?? [String(value.outcome), ""];
            const name = [value.status, value.reason ?? value.code].filter((part) => part ?? false).join(" ");
            const detail = [name, value.message].filter(Boolean).join(": ");
            return { word, tone, detail };
        }
        """#
}
