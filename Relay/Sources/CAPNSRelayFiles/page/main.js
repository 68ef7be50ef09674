// Connects the parts of the page. Reads the overview every two seconds while the page is visible, and switches tabs.

import { get, hasToken, whenRefused } from "./api.js";
import { Batches } from "./batches.js";
import { Chart, speed } from "./charts.js";
import { Figures } from "./figures.js";
import { showFirst } from "./first.js";
import { duration, OUTCOMES, rate, share } from "./format.js";
import { announce, find, setExact, setText } from "./kit/dom.js";
import { number, timeOfDay } from "./kit/format.js";
import { followTabs, selectTab } from "./kit/tabs.js";
import { Login } from "./login.js";
import { Outcomes } from "./outcomes.js";
import { Parked } from "./parked.js";
import { Problems } from "./problems.js";
import { PushPanel } from "./push.js";
import { makeQuotas, makeRelays, makeWebhooks, Routes } from "./tables.js";

const INTERVAL = 2000;
const SLOW = 4000;
const TABS = ["outcomes", "parked", "push"];
const TOTALS = [
    ...OUTCOMES,
    { name: "queued", text: "Queued", title: "Pushes stored by requests" },
    { name: "duplicates", text: "Duplicates", title: "Pushes that requests submitted again" },
    { name: "retried", text: "Retried", title: "Attempts after which a push returned to the queue" },
    { name: "parked", text: "Parked", title: "Pushes that were parked" },
    { name: "late", text: "Late", title: "Outcomes that were ignored, because their push already had one" },
];

const push = new PushPanel(find("panel-push"));
const openPush = (id) => {
    showTab("push");
    push.open(id);
};
const outcomes = new Outcomes(find("panel-outcomes"), openPush);
const parked = new Parked(find("panel-parked"), openPush);
const sections = [
    new Problems(find("problems")), new Batches(find("batches")), new Routes(), makeWebhooks(refresh), makeQuotas(),
    makeRelays(), parked, push,
];
const totals = new Figures("total", TOTALS, "figures");
const charts = [
    new Chart(find("charts"), "Queued", [{ name: "queued", tone: "accent" }]),
    new Chart(find("charts"), "Outcomes", OUTCOMES),
];
const login = new Login(refresh);
find("totals").append(totals.element);

// The overview

let timer;
let isLoading = false;
let began = 0; // When the pending request began.
let isLocked = false;
let updated; // When the last overview arrived, on this machine's clock.
let problem = "";

async function refresh() {
    clearTimeout(timer);
    if (document.hidden || isLoading) return;
    isLoading = true;
    began = performance.now();
    isLocked = false;
    try {
        show(await get("/v1/overview"));
    } catch (error) {
        if (error.status === 403 && hasToken()) {
            lock("This token is not an operator's. Enter one of a caller with the role operate.");
        } else if (error.status !== 401 && error.name !== "AbortError") {
            fail(error.message);
        }
    } finally {
        isLoading = false;
    }
    if (!isLocked) timer = setTimeout(refresh, INTERVAL);
}

function show(overview) {
    updated = Date.now() / 1000;
    login.finish();
    showFirst(overview, hasToken());
    for (const section of sections) section.update(overview);
    showCapacity(overview.queue);
    // A rate over less than a second says nothing.
    const history = overview.history.filter(({ now }) => now < overview.now - 1);
    const samples = [...history, { now: overview.now, totals: overview.totals }];
    for (const chart of charts) chart.draw(samples);
    totals.update((name) => `${rate(speed(samples, name))}/s`, (name) => number(overview.totals[name]));
    outcomes.update(OUTCOMES.reduce((sum, { name }) => sum + overview.totals[name], 0));
    outcomes.open();
    find("parked-count").hidden = overview.queue.parked === 0;
    setText(find("parked-count"), number(overview.queue.parked));
    setExact(find("version"), overview.version);
    if (problem !== "") announce("The relay responds again.");
    problem = "";
    showState(...stateOf(overview));
    showAge();
}

function showCapacity({ queued, claimed, written, parked: waiting, capacity }) {
    const used = queued + claimed + written + waiting;
    setText(find("capacity"), `Pushes without an outcome: ${share(used, capacity)}`);
    find("capacity").className = capacity > 0 && used >= 0.9 * capacity ? "bad" : "muted";
}

/** The state of the pill, its word, and the reason beside it. */
function stateOf({ ready, reason, problems: found, readAt, now }) {
    if (!ready) return ["not-ready", "Not ready", reason ?? ""];
    if (found.some(({ cause }) => cause !== "webhook")) return ["not-delivering", "Not delivering", ""];
    if (found.length > 0) return ["not-delivering", "Outcomes wait", ""];
    const isOld = readAt !== null && now - readAt >= SLOW / 1000;
    return ["ready", "Ready", isOld ? `The figures are from ${timeOfDay(readAt)}.` : ""];
}

/** Shows the error. The old figures stay, with their time. */
function fail(message) {
    if (problem === "") announce(message, true);
    problem = message;
    showState("lost", "No connection", "");
    showAge();
}

function lock(reason) {
    isLocked = true;
    login.ask(reason);
    showState("lost", "No access", "");
}

function showState(state, word, reason) {
    const pill = find("state");
    const isBad = state === "not-ready" || state === "not-delivering";
    if (state !== pill.dataset.state && isBad) announce([word, reason].filter(Boolean).join(": "), true);
    pill.dataset.state = state;
    setText(pill, word);
    setExact(find("reason"), reason);
    document.title = state === "ready" ? "APNs relay" : `${word} · APNs relay`;
}

function showAge() {
    if (problem !== "" && !isLocked) {
        const old = updated === undefined ? "There are no figures yet."
            : `The figures are from ${timeOfDay(updated)}, ${duration(Date.now() / 1000 - updated)} ago.`;
        setExact(find("reason"), `${problem} ${old} Trying again every ${INTERVAL / 1000} s.`);
    }
    setText(find("updated"), isLocked || updated === undefined ? "" : `Updated ${timeOfDay(updated)}`);
}

// The panel

function showTab(name) {
    selectTab(TABS, name);
    parked.isVisible = name === "parked";
    push.isVisible = name === "push";
}

followTabs(TABS, showTab);

document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest("input, dialog") !== null;
    const isModified = event.ctrlKey || event.metaKey || event.altKey;
    if (event.key !== "/" || isTyping || isModified || find("main").hidden) return;
    event.preventDefault();
    showTab("push");
    push.focus();
});

// While the page is hidden, it reads nothing.
document.addEventListener("visibilitychange", () => {
    if (!isLocked) refresh();
});
setInterval(() => {
    if (document.hidden) return;
    const isSlow = isLoading && performance.now() - began > SLOW;
    if (isSlow && problem === "") fail("The relay has not responded yet.");
    else showAge();
}, 1000);
whenRefused(() => lock(hasToken() ? "The relay does not accept this token." : ""));
refresh();
