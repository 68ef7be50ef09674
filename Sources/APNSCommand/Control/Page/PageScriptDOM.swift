/// How the page makes elements and formats values, served as `/dom.js`.
enum PageScriptDOM {
    static let text = #"""
        // How the page makes elements and formats values. Text becomes text nodes: nothing here parses markup.

        /** Makes an element. `props`: `class`, `text`, `on` + an event's name, otherwise attributes. */
        export function el(tag, props = {}, ...children) {
            const element = document.createElement(tag);
            for (const [name, value] of Object.entries(props)) {
                if (value === undefined || value === null || value === false) continue;
                if (name === "class") element.className = value;
                else if (name === "text") element.textContent = value;
                else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
                else element.setAttribute(name, value === true ? "" : value);
            }
            element.append(...children.flat(2).filter((child) => child || child === 0 || child === ""));
            return element;
        }

        export const button = (text, onclick, props = {}) => el("button", { type: "button", text, onclick, ...props });

        /** Sets an element's text only if it differs, to spare layout. */
        export function setText(element, text) {
            if (element.textContent !== text) element.textContent = text;
        }

        // Characters that a reader cannot see, or that reorder the text around them. Joiners stay: emoji need them.
        const INVISIBLE = new RegExp(
            "[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u200b\\u200e\\u200f\\u2028-\\u202e" +
                "\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb]|[\\ud800-\\udbff](?![\\udc00-\\udfff])|" +
                "(?<![\\ud800-\\udbff])[\\udc00-\\udfff]",
            "g"
        );

        /** The text as nodes, with invisible characters written as visible escapes such as `\u202e`. */
        export function exact(value) {
            const text = String(value);
            const nodes = [];
            let start = 0;
            for (const match of text.matchAll(INVISIBLE)) {
                if (match.index > start) nodes.push(text.slice(start, match.index));
                const code = "\\u" + match[0].charCodeAt(0).toString(16).padStart(4, "0");
                nodes.push(el("span", { class: "escape", title: "An invisible character", text: code }));
                start = match.index + match[0].length;
            }
            if (start < text.length || nodes.length === 0) nodes.push(text.slice(start));
            return nodes;
        }

        /** A link to documentation, or nothing if the address is not https. */
        export function sourceLink(address, text = "Documentation") {
            if (typeof address !== "string" || !address.startsWith("https://")) return undefined;
            return el("a", { href: address, target: "_blank", rel: "noopener noreferrer", text });
        }

        const two = (number) => String(number).padStart(2, "0");

        /** The local time of day with milliseconds. */
        export function clock(milliseconds) {
            const date = new Date(milliseconds);
            const fraction = String(date.getMilliseconds()).padStart(3, "0");
            return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${fraction}`;
        }

        /** The local date and time of a number of seconds since 1970. */
        export function dateTime(seconds) {
            const date = new Date(seconds * 1000);
            if (Number.isNaN(date.getTime())) return String(seconds);
            const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
            return `${day} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
        }

        export function duration(milliseconds) {
            if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
            return `${(milliseconds / 1000).toFixed(milliseconds < 10000 ? 1 : 0)} s`;
        }

        const grouped = new Intl.NumberFormat("en-US");
        export const number = (value) => grouped.format(value ?? 0);
        export const count = (value, noun) => `${number(value)} ${noun}${value === 1 ? "" : pluralEnding(noun)}`;
        const pluralEnding = (noun) => (noun.endsWith("sh") ? "es" : "s");

        /** The beginning and the end of a long token. */
        export function shortToken(token) {
            const text = String(token);
            return text.length > 18 ? `${text.slice(0, 8)}…${text.slice(-6)}` : text;
        }

        /** The last part of a bundle id, as a name for the app. */
        export function appName(topic) {
            const parts = String(topic).replace(/\.(push-type\.\w+|voip|complication|pushkit\.\w+)$/, "").split(".");
            const name = parts[parts.length - 1] || String(topic);
            return name.charAt(0).toUpperCase() + name.slice(1);
        }

        /** How a push ended, as `{text, tone}`; tones are good, bad and warn. */
        export function outcome(push) {
            const text = String(push.status ?? "?");
            if (push.outcome === "accepted") return { text, tone: "good", word: "Accepted" };
            if (push.outcome === "rejected") return { text, tone: "bad", word: "Rejected" };
            return { text: "none", tone: "warn", word: `No response: ${push.fate ?? "unknown"}` };
        }

        /** A button that copies a text to the clipboard. */
        export function copyButton(text, label) {
            const copy = button("Copy", async () => {
                let result = "Copied";
                try {
                    await navigator.clipboard.writeText(text);
                } catch {
                    result = "Not allowed";
                }
                setText(copy, result);
                setTimeout(() => setText(copy, "Copy"), 1500);
            }, { class: "quiet small", "aria-label": `Copy ${label}` });
            return copy;
        }
        """#
}
