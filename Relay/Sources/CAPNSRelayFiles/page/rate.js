// The dialog for the rate of a batch.

import { showDialog } from "./actions.js";
import { find, setExact } from "./kit/dom.js";

for (const answer of ["cancel", "none"]) {
    find(`rate-${answer}`).addEventListener("click", () => find("rate").close(answer));
}

/** Asks for a rate in pushes a second. Returns null for no limit, and undefined if the operator goes back. */
export async function askRate(title, present) {
    setExact(find("rate-title"), title);
    find("rate-value").value = present ?? "";
    const closed = showDialog(find("rate"));
    find("rate-value").select();
    const answer = await closed;
    if (answer === "none") return null;
    return answer === "set" ? find("rate-value").valueAsNumber : undefined;
}
