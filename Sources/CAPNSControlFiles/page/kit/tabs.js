// Tabs of which one is selected. The tab `name` is the element `tab-name`, and its panel is `panel-name`.

import { find } from "./dom.js";

/** Selects one of the tabs, and shows its panel instead of the others. */
export function selectTab(names, name) {
    for (const other of names) {
        const isSelected = other === name;
        find(`tab-${other}`).setAttribute("aria-selected", isSelected);
        find(`tab-${other}`).tabIndex = isSelected ? 0 : -1;
        find(`panel-${other}`).hidden = !isSelected;
    }
}

/** Calls `show(name)` when the user chooses a tab with the pointer, an arrow key, Home or End. */
export function followTabs(names, show) {
    for (const [index, name] of names.entries()) {
        find(`tab-${name}`).addEventListener("click", () => show(name));
        find(`tab-${name}`).addEventListener("keydown", (event) => {
            const next = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: names.length - 1 }[event.key];
            if (next === undefined) return;
            event.preventDefault();
            const target = names[(next + names.length) % names.length];
            show(target);
            find(`tab-${target}`).focus();
        });
    }
}
