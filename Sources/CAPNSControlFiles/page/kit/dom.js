// Makes elements and sets their texts. Text becomes text nodes: nothing here parses markup.

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

export const find = (id) => document.getElementById(id);
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

const shown = new WeakMap();

/** Sets an element's text as `exact` does, only if it differs. */
export function setExact(element, value) {
    const text = String(value ?? "");
    if (shown.get(element) === text) return;
    shown.set(element, text);
    element.replaceChildren(...exact(text));
}

/** Tells users of screen readers about a change: at once, or when they pause. */
export function announce(text, isUrgent = false) {
    setExact(find("alert-region"), isUrgent ? text : "");
    setExact(find("status-region"), isUrgent ? "" : text);
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
