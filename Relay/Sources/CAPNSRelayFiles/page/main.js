// Connects the parts of the page. Reads the overview every two seconds while the page is visible, and switches tabs.

import { get, hasToken, whenRefused } from "./api.js";
import { Batches } from "./batches.js";
import { Chart } from "./charts.js";
import { showFirst } from "./first.js";
import { OUTCOMES, QueueFigures, Totals } from "./figures.js";
import { duration } from "./format.js";
import { History } from "./history.js";
import { announce, el, find, setExact, setText } from "./kit/dom.js";
import { number, timeOfDay } from "./kit/format.js";
import { followTabs, selectTab } from "./kit/tabs.js";
import { Login } from "./login.js";
import { deadTokenRow, outcomeRow } from "./outcomes.js";
import { Parked } from "./parked.js";
import { Problems } from "./problems.js";
import { PushPanel } from "./push.js";
import { Quotas } from "./quotas.js";
import { Relays } from "./relays.js";
import { Routes } from "./routes.js";
import { Samples } from "./samples.js";
import { Webhooks } from "./webhooks.js";

const INTERVAL = 2000;
const SLOW = 4000;
const TABS = ["outcomes", "parked", "dead", "webhooks", "push"];

const samples = new Samples();
const problems = new Problems(find("problems"));
const queue = new QueueFigures(find("queue"));
const charts = [
    new Chart(find("charts"), "Queued", [{ name: "queued", tone: "accent" }]),
    new Chart(find("charts"), "Outcomes", OUTCOMES),
];
const totals = new Totals(find("totals"));
const batches = new Batches(find("batches"), find("batches-count"));
const routes = new Routes(find("routes"), find("routes-count"), find("routes-filter"));
const quotas = new Quotas(find("quotas-section"), find("quotas"));
const relays = new Relays(find("relays-section"), find("relays"), find("relays-count"));
const push = new PushPanel(find("panel-push"));
const openPush = (id) => {
    showTab("push");
    push.open(id);
};
const outcomes = new History(find("panel-outcomes"), {
    path: "/v1/outcomes", field: "outcomes", noun: "outcomes", empty: "No push has an outcome yet.",
    makeRow: (entry) => outcomeRow(entry, openPush),
});
const dead = new History(find("panel-dead"), {
    path: "/v1/dead-tokens", field: "tokens", noun: "dead tokens",
    empty: "No device token was declared invalid.",
    makeRow: (entry) => deadTokenRow(entry, openPush),
});
const parked = new Parked(find("panel-parked"), openPush);
const webhooks = new Webhooks(find("panel-webhooks"), refresh);
const login = new Login(refresh);
const apps = el("datalist", { id: "apps" });
document.body.append(apps);

// The overview

let tab = "outcomes";
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
        if (error.status === 403 && hasToken()) lock("This token is not an operator's. Enter one of a caller with the role operate.");
        else if (error.status !== 401 && error.name !== "AbortError") fail(error.message);
    } finally {
        isLoading = false;
    }
    if (!isLocked) timer = setTimeout(refresh, INTERVAL);
}

function show(overview) {
    updated = Date.now() / 1000;
    login.finish();
    samples.set([...overview.history, { now: overview.now, totals: overview.totals }]);
    problems.update(overview);
    showFirst(overview, hasToken());
    queue.update(overview);
    for (const chart of charts) chart.draw(samples);
    totals.update(overview.totals, samples);
    batches.update(overview);
    routes.update(overview);
    quotas.update(overview);
    relays.update(overview);
    outcomes.update(OUTCOMES.reduce((sum, { name }) => sum + overview.totals[name], 0));
    parked.update(overview);
    webhooks.update(overview);
    push.update();
    showCount("parked-count", overview.queue.parked);
    showCount("webhooks-count", overview.problems.filter(({ cause }) => cause === "webhook").length);
    showApps(overview.routes);
    setExact(find("version"), overview.version);
    if (problem !== "") announce("The relay responds again.");
    problem = "";
    if (tab === "outcomes") outcomes.open();
    if (tab === "dead") dead.open();
    showState(...stateOf(overview));
    showAge();
}

/** The state of the pill, its word, and the reason beside it. */
function stateOf({ ready, reason, problems: found, readAt, now }) {
    if (!ready) return ["not-ready", "Not ready", reason ?? ""];
    if (found.some(({ cause }) => cause !== "webhook")) return ["not-delivering", "Not delivering", ""];
    if (found.length > 0) return ["not-delivering", "Outcomes wait", ""];
    return ["ready", "Ready", readAt === null || now - readAt < SLOW / 1000 ? "" : `The figures are from ${timeOfDay(readAt)}.`];
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
    if (isLocked) {
        setText(find("updated"), "");
        return;
    }
    if (problem !== "") {
        const old = updated === undefined ? "There are no figures yet."
            : `The figures are from ${timeOfDay(updated)}, ${duration(Date.now() / 1000 - updated)} ago.`;
        setExact(find("reason"), `${problem} ${old} Trying again every ${INTERVAL / 1000} s.`);
    }
    setText(find("updated"), updated === undefined ? "" : `Updated ${timeOfDay(updated)}`);
}

function showCount(id, value) {
    find(id).hidden = !(value > 0);
    setText(find(id), number(value));
}

let knownApps = "";

function showApps(routes) {
    const names = [...new Set(routes.map(({ app }) => String(app)))].sort();
    if (names.join("\n") === knownApps) return;
    knownApps = names.join("\n");
    apps.replaceChildren(...names.map((value) => el("option", { value })));
}

// The panel

function showTab(name) {
    tab = name;
    selectTab(TABS, name);
    if (name === "outcomes") outcomes.open();
    if (name === "dead") dead.open();
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
