// Saves the dead tokens of a batch in a file.

import { get, query } from "./api.js";
import { el } from "./kit/dom.js";

const PAGE_SIZE = 1000;

/** Saves the dead tokens as CSV: the token, and the time since which it is invalid. Returns a text about the result. */
export async function saveDeadTokens(batch) {
    const lines = [];
    let after;
    let page;
    do {
        page = await get("/v1/dead-tokens" + query({ after, batch, limit: PAGE_SIZE, skipMissing: true }));
        for (const { token, since } of page.tokens) lines.push(`${token},${since ?? ""}\n`);
        after = page.cursor;
    } while (!page.end);
    if (lines.length === 0) return "APNs has declared no token of this batch invalid.";
    const url = URL.createObjectURL(new Blob(["token,invalid since\n", ...lines], { type: "text/csv" }));
    el("a", { href: url, download: `dead-tokens-${batch}.csv` }).click();
    URL.revokeObjectURL(url);
    return "";
}
