// Formats JSON as coloured nodes. It works on the text: numbers and duplicate keys look as they were sent.

import { el, exact } from "./kit/dom.js";

const TOKEN = /\s*(?:("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d[\d.eE+-]*)|(true|false|null)|([{}[\],]))/y;
const MAX_TEXT = 65_536;
const MAX_INDENT = 40;

/** The payload's text as a fragment: formatted if it is JSON, otherwise as it is. */
export function payloadNodes(text) {
    const shown = text.length > MAX_TEXT ? text.slice(0, MAX_TEXT) : text;
    const fragment = document.createDocumentFragment();
    if (shown.length < text.length || !isJSON(text)) fragment.append(...exact(shown));
    else format(shown, fragment);
    if (shown.length < text.length) {
        const rest = `\n… and ${text.length - shown.length} more characters`;
        fragment.append(el("span", { class: "muted", text: rest }));
    }
    return fragment;
}

export function isJSON(text) {
    try {
        JSON.parse(text);
        return true;
    } catch {
        return false;
    }
}

function format(text, fragment) {
    let depth = 0;
    let isOpened = false; // The last token was { or [: a closing one makes it {} or [].
    const line = () => "\n" + "  ".repeat(Math.min(depth, MAX_INDENT));
    TOKEN.lastIndex = 0;
    for (let match = TOKEN.exec(text); match; match = TOKEN.exec(text)) {
        const [, string, colon, numeral, word, mark] = match;
        if (mark === "}" || mark === "]") {
            depth -= 1;
            fragment.append((isOpened ? "" : line()) + mark);
            isOpened = false;
            continue;
        }
        if (isOpened) fragment.append(line());
        isOpened = false;
        if (mark === ",") fragment.append("," + line());
        else if (mark) {
            fragment.append(mark);
            depth += 1;
            isOpened = true;
        } else if (string !== undefined) {
            // Resolves escapes that hide readable text; stringify writes those again that matter.
            const value = JSON.stringify(JSON.parse(string));
            fragment.append(el("span", { class: colon ? "json-key" : "json-string" }, exact(value)));
            if (colon) fragment.append(": ");
        } else {
            const kind = numeral ? "json-number" : "json-word";
            fragment.append(el("span", { class: kind, text: numeral ?? word }));
        }
    }
}
