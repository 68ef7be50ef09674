// What to do while the relay has nothing to show: a first command.

import { find, setExact } from "./kit/dom.js";

/** A token of the form that devices have. */
const TOKEN = "00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0";

export function showFirst({ apps, totals, queue }, needsToken) {
    const isEmpty = totals.queued === 0 && queue.queued + queue.claimed + queue.written + queue.parked === 0;
    find("first").hidden = !isEmpty;
    if (!isEmpty) return;
    const push = {
        app: apps?.[0]?.name ?? "APP", token: TOKEN, headers: { "apns-push-type": "alert" },
        payload: { aps: { alert: "Hello" } },
    };
    const lines = [
        `curl ${location.origin}/v1/pushes`, needsToken && "-H 'Authorization: Bearer TOKEN'",
        "-H 'Content-Type: application/json'", `-d '${JSON.stringify(push)}'`,
    ];
    setExact(find("first-command"), lines.filter(Boolean).join(" \\\n    "));
}
