// Connects the parts: loads the kept pushes, follows the event stream, and draws once per frame at most.

import { APIError, call, get, readEvents, takeToken } from "./api.js";
import { Charts } from "./charts.js";
import { Detail } from "./detail.js";
import { DevicePanel } from "./device.js";
import { Failures } from "./failures.js";
import { FaultsPanel } from "./faults.js";
import { Filters } from "./filters.js";
import { announce, copyButton, el, find, setText } from "./kit/dom.js";
import { count, number } from "./kit/format.js";
import { followTabs, selectTab } from "./kit/tabs.js";
import { PushList } from "./list.js";
import { PushStore } from "./store.js";

const PAGE_SIZE = 1000;
const FOLLOW_MILLISECONDS = 300;
const TABS = ["push", "device", "faults"];
const narrow = matchMedia("(max-width: 899px)");

let state;
let wanted = wantedPush(); // The push that the address names, until it is shown.
let isFollowing = true; // Until something else is selected, the newest push is.
let followedAt = 0;
let loadedStart; // The start of the simulator whose pushes are in the store.
let isPaused = false;
let isScheduled = false;
let messageTimer;

const actions = {
    onError: (error) => showMessage(error.message, "error"),
    onMessage: (text) => showMessage(text, "info"),
    onOpenPush: (order) => open(order, "pointer"),
    onFilter: (name, value) => {
        filters.set(name, value);
        if (narrow.matches) closePanel();
    },
    onDevice: (push) => {
        device.showPush(push);
        showTab("device", { focus: true });
    },
    onCount: (faults) => {
        setText(find("fault-count"), String(faults));
        find("fault-count").hidden = faults === 0;
    },
};

const store = new PushStore(schedule);
const charts = new Charts(find("charts"));
const list = new PushList(find("list"), store, { onOpen: open, onScroll: scrolled });
const filters = new Filters(find("filters"), (filter) => {
    store.setFilter(filter);
    list.scrollToTop();
    schedule();
});
const detail = new Detail(find("panel-push"), actions);
const device = new DevicePanel(find("panel-device"), actions);
const faults = new FaultsPanel(find("panel-faults"), actions);
const failures = new Failures(find("failures"), actions);

// Drawing

function schedule() {
    if (isScheduled) return;
    isScheduled = true;
    requestAnimationFrame(() => {
        isScheduled = false;
        draw();
    });
}

/** The push in the address (`/#push=12`). */
function wantedPush() {
    const match = /^#push=(\d+)$/.exec(location.hash);
    return match ? Number(match[1]) : undefined;
}

/** Opens the push that the address names, or the newest one as long as nothing else was selected. */
function follow() {
    if (wanted !== undefined && loadedStart !== undefined) {
        const order = wanted;
        wanted = undefined;
        open(order, "address");
        return;
    }
    if (!isFollowing || store.count === 0 || narrow.matches || document.body.dataset.tab !== "push") return;
    const newest = store.at(0).order;
    if (newest === detail.order || performance.now() - followedAt < FOLLOW_MILLISECONDS) return;
    followedAt = performance.now();
    open(newest, "page");
}

function draw() {
    follow();
    list.render();
    const { total, matching, heldBack } = store;
    const searching = store.isSearching ? ", searching" : "";
    setText(find("shown"), store.isFiltered ? `${number(matching)} of ${count(total, "push")}${searching}`
        : count(total, "push"));
    const newer = find("newer");
    newer.hidden = heldBack === 0;
    if (heldBack > 0) setText(newer, `${number(heldBack)} newer`);
    showEmpty();
}

function showEmpty() {
    const empty = find("empty");
    const isNoneFound = store.matching === 0 && !store.isSearching;
    const kind = store.total === 0 ? "first" : isNoneFound ? "filtered" : "";
    if (empty.dataset.kind === kind && kind !== "first") return;
    empty.hidden = kind === "";
    if (kind === "filtered") {
        empty.replaceChildren(el("h2", { text: "No push matches the filter" }),
            el("button", { type: "button", text: "Clear the filter", onclick: () => filters.clear() }));
    } else if (kind === "first" && state && empty.dataset.endpoint !== state.endpoint) {
        empty.dataset.endpoint = state.endpoint;
        empty.replaceChildren(...firstPush(state));
    } else if (kind === "first" && empty.dataset.kind === "filtered" && state) {
        empty.replaceChildren(...firstPush(state));
    }
    empty.dataset.kind = kind;
}

/** How to send the first push. The simulator knows its files, so it knows the commands. */
function firstPush({ endpoint, commands }) {
    return [
        el("h2", { text: "Waiting for the first push" }),
        el("p", { class: "muted", text: `Send pushes to ${endpoint}. They appear here as they arrive.` }),
        ...commands.map(({ title, command }) => el("div", { class: "command" },
            el("div", { class: "section-head" }, el("h3", { text: title }), copyButton(command, "the command")),
            el("pre", { class: "code", tabindex: "0", text: command }))),
    ];
}

function showMessage(text, kind) {
    clearTimeout(messageTimer);
    const message = find("message");
    message.className = `message ${kind}`;
    message.hidden = false;
    setText(find("message-text"), text);
    announce(text, kind === "error");
    if (kind !== "error") messageTimer = setTimeout(hideMessage, 5000);
}

function hideMessage() {
    find("message").hidden = true;
    setText(find("alert-region"), "");
}

function showLive(name, text) {
    const live = find("live");
    live.dataset.state = name;
    setText(live, text);
}

// State

let announcedAt = 0;
let announcedText = "";

function applyState(next) {
    state = next;
    detail.state = next;
    store.keep = next.keep;
    charts.synchronize(next.nowMilliseconds);
    faults.update(next);
    failures.update(next);
    device.update(next);
    setText(find("endpoint"), next.endpoint);
    find("endpoint").title = `Version ${next.version}`;
    const values = { ...next.counts, connections: next.connections.open };
    for (const element of find("counts").querySelectorAll("[data-count]")) {
        setText(element, number(values[element.dataset.count]));
    }
    const { received, rejected, noResponse } = next.counts;
    const text = `${count(received, "push")} received, ${number(rejected)} rejected, ` +
        `${number(noResponse)} without a response`;
    // A screen reader could not follow each change.
    if (received > 0 && text !== announcedText && performance.now() - announcedAt > 5000) {
        announcedText = text;
        announcedAt = performance.now();
        setText(find("status-region"), text);
    }
    schedule();
}

function clearAll() {
    store.clear();
    charts.clear();
    list.clear();
    detail.close();
    document.body.classList.remove("has-push");
    isFollowing = true;
    device.clear();
    if (isPaused) store.hold();
    schedule();
}

// Loading and following

function arrived(push) {
    if (!store.add(push)) return;
    charts.add(push);
    device.pushArrived(push);
    filters.addType(push.pushType);
    schedule();
}

const eventHandlers = {
    push: arrived,
    state: applyState,
    reset: clearAll,
    dropped: ({ from, to }) => {
        const text = `${count(to - from + 1, "push")} passed before this page could read them.`;
        showMessage(`${text} The simulator no longer keeps them.`, "info");
    },
};

const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

async function loadNewest() {
    const { pushes, next } = await get(`/v1/pushes?newest=true&limit=${PAGE_SIZE}`);
    addOlder(pushes);
    return next;
}

function addOlder(pushes) {
    for (const push of pushes) {
        store.addOlder(push);
        charts.add(push);
        filters.addType(push.pushType);
    }
    schedule();
}

/** Loads what was kept before the page was opened, a page at a time, while new pushes already arrive. */
async function loadOlder(next, started) {
    while (next !== undefined && !store.isFull) {
        await sleep(30);
        const page = await get(`/v1/pushes?newest=true&limit=${PAGE_SIZE}&before=${next}`);
        // After a reset or a restart, these pushes are history.
        if (loadedStart !== started || store.total === 0) return;
        addOlder(page.pushes);
        next = page.next;
    }
}

/** Reads the events of the simulator for as long as the page is open. */
async function readAll() {
    let failures = 0;
    for (;;) {
        try {
            const next = await get("/v1/state");
            const wasReset = next.counts.received < (state?.counts.received ?? 0);
            const isNew = loadedStart !== next.startedMilliseconds || wasReset;
            applyState(next);
            if (isNew) {
                clearAll();
                const older = await loadNewest();
                loadedStart = next.startedMilliseconds;
                loadOlder(older, loadedStart).catch(actions.onError);
            }
            await readEvents(Math.max(store.newestOrder, isNew ? next.lastOrder : 0), {
                onOpen: () => {
                    if (failures > 0) hideMessage();
                    failures = 0;
                    showLive(isPaused ? "paused" : "live", isPaused ? "Paused" : "Live");
                },
                onEvent: (name, data) => eventHandlers[name]?.(data),
            });
            failures += 1;
        } catch (error) {
            failures += 1;
            showLive("lost", "Not connected");
            showMessage(error.message, "error");
            if (error instanceof APIError && error.status === 401) await tokenChanged();
        }
        await sleep(Math.min(5000, 250 * 2 ** Math.min(failures, 5)));
    }
}

function tokenChanged() {
    return new Promise((resolve) => {
        addEventListener("hashchange", function changed() {
            if (!takeToken()) return;
            removeEventListener("hashchange", changed);
            resolve();
        });
    });
}

// The list

function scrolled(isAway = false) {
    if (isAway || !list.isAtTop) store.hold();
    else if (!isPaused) store.release();
    schedule();
}

function setPaused(paused) {
    isPaused = paused;
    find("pause").setAttribute("aria-pressed", paused);
    setText(find("pause"), paused ? "Resume" : "Pause");
    if (find("live").dataset.state !== "lost") showLive(paused ? "paused" : "live", paused ? "Paused" : "Live");
    if (paused) store.hold();
    else if (list.isAtTop) store.release();
    schedule();
}

// The panel

function showTab(name, { focus = false } = {}) {
    selectTab(TABS, name);
    device.isVisible = name === "device";
    faults.isVisible = name === "faults";
    document.body.dataset.tab = name;
    document.body.classList.add("panel-open");
    if (focus || narrow.matches) find(`panel-${name}`).focus();
}

function open(order, source) {
    if (source !== "page") isFollowing = false;
    const index = store.indexOf(order);
    const known = index < store.count && store.at(index)?.order === order ? store.at(index) : undefined;
    device.suggest(known);
    document.body.classList.add("has-push");
    showTab("push", { focus: source === "keyboard" });
    list.select(order);
    detail.open(order, known);
}

function closePanel() {
    document.body.classList.remove("panel-open", "has-push");
    if (narrow.matches) device.isVisible = faults.isVisible = false;
    isFollowing = false;
    detail.close();
    list.select(undefined);
    list.focus();
}

function showHelp() {
    for (const element of document.querySelectorAll("[data-help]")) {
        setText(element, { endpoint: state?.endpoint, ca: state?.caFile }[element.dataset.help] ?? "");
    }
    find("help-dialog").showModal();
}

// Input

find("pause").addEventListener("click", () => setPaused(!isPaused));
find("newer").addEventListener("click", () => {
    setPaused(false);
    list.scrollToTop();
    store.release();
    schedule();
    list.focus();
});
find("show-charts").addEventListener("click", () => {
    const isShown = document.body.classList.toggle("with-charts");
    find("show-charts").setAttribute("aria-expanded", isShown);
});
find("close-panel").addEventListener("click", closePanel);
find("message-close").addEventListener("click", hideMessage);
// Who looks into the panel does not want another push there.
for (const name of ["pointerdown", "wheel", "focusin"]) {
    find("panel").addEventListener(name, () => { isFollowing = false; }, { passive: true });
}
find("help").addEventListener("click", showHelp);
find("clear").addEventListener("click", () => call("DELETE", "/v1/pushes").catch(actions.onError));
addEventListener("hashchange", () => {
    wanted = wantedPush();
    schedule();
});
find("reset").addEventListener("click", () => find("reset-dialog").showModal());
find("reset-dialog").addEventListener("close", async (event) => {
    if (event.target.returnValue !== "reset") return;
    event.target.returnValue = "";
    try {
        await call("POST", "/v1/reset");
        showMessage("The simulator was reset.", "info");
    } catch (error) {
        actions.onError(error);
    }
});
for (const control of document.querySelectorAll("[data-open]")) {
    control.addEventListener("click", () => showTab(control.dataset.open));
}
followTabs(TABS, (name) => showTab(name));

document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const isTyping = event.target.closest("input, textarea, select") !== null;
    // Where nothing else takes the keys, the list does.
    const isForList = event.target === find("list") || event.target === document.body;
    if (event.key === "/" && !isTyping) {
        event.preventDefault();
        if (narrow.matches) document.body.classList.remove("panel-open");
        find("search").focus();
    } else if (event.key === "Escape") {
        if (isTyping && find("filters").contains(event.target)) list.focus();
        else if (!isTyping) closePanel();
    } else if (event.key === "?" && !isTyping) {
        showHelp();
    } else if (event.key.toLowerCase() === "p" && !isTyping) {
        setPaused(!isPaused);
    } else if (isForList) {
        isFollowing = false;
        list.key(event);
    }
});

setInterval(() => device.tick(), 250);
setInterval(() => {
    if (!document.hidden) charts.draw();
}, 1000);

takeToken();
readAll();
