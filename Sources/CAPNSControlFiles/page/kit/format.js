// Writes numbers, times and tokens.

const grouped = new Intl.NumberFormat("en-US");
const two = (number) => String(number).padStart(2, "0");

export const number = (value) => (Number.isFinite(value) ? grouped.format(value) : "–");
export const count = (value, noun) => `${number(value)} ${noun}${value === 1 ? "" : pluralEnding(noun)}`;
const pluralEnding = (noun) => (noun.endsWith("sh") ? "es" : "s");

/** The local time of day of a number of seconds since 1970. */
export function timeOfDay(seconds) {
    const date = new Date(seconds * 1000);
    if (!isTime(seconds, date)) return "–";
    return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** The local date and time of a number of seconds since 1970. */
export function dateTime(seconds) {
    const date = new Date(seconds * 1000);
    if (!isTime(seconds, date)) return "–";
    return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${timeOfDay(seconds)}`;
}

const isTime = (seconds, date) => Number.isFinite(seconds) && !Number.isNaN(date.getTime());

/** The beginning and the end of a long token. */
export function shortToken(token) {
    const text = String(token);
    return text.length > 18 ? `${text.slice(0, 8)}…${text.slice(-6)}` : text;
}
