// The device panel: it selects a device, keeps its preview up to date, and changes devices.

import { APIError, call, get, path } from "./api.js";
import { sourceLink } from "./format.js";
import { button, el, exact } from "./kit/dom.js";
import { shortToken } from "./kit/format.js";
import { phoneNodes } from "./phone.js";
import { reveal } from "./webpush.js";

const KINDS = [["app", "App"], ["activity", "Live Activity"], ["push-to-start", "Push to start"]];
const STORAGE = {
    latest: "Latest of each topic", all: "Every push", "collapse-id": "Latest of each collapse id",
};
const REFRESH_MILLISECONDS = 500;
const IDLE_MILLISECONDS = 5000; // Activities become stale by time alone.

export class DevicePanel {
    #actions;
    #devices = [];
    #target = undefined; // {id} or {token}
    #snapshot = undefined;
    #shown = "";
    #isVisible = false;
    #isLoading = false;
    #isDirty = false;
    #loadedAt = 0;
    #generation = 0;
    #suggestion = undefined;
    #rules = [];
    #rule = undefined;

    #select = el("select", { id: "device-select", onchange: () => this.#selected() });
    #online = el("button", { type: "button", role: "switch", class: "switch", id: "device-online",
        onclick: () => this.#toggleOnline() });
    #remove = button("Delete this device", () => this.#delete());
    #storage = el("select", { id: "offline-storage", onchange: () => this.#changeRule() });
    #storageText = el("p", { class: "muted small", id: "offline-storage-text" });
    #notice = el("p", { class: "notice plain" });
    #preview = el("div", { class: "preview" });
    #links = el("div", { class: "links" });
    #create;
    #add;
    #subscribe;

    /** `actions`: `onOpenPush(order)`, `onError(error)`, `onMessage(text)`. */
    constructor(root, actions) {
        this.#actions = actions;
        this.#create = this.#form("New device", "create-device", [
            ["name", "Name", "iPhone"], ["token", "Device token", ""], ["kind", "Kind", KINDS],
            ["topic", "Topic", "com.example.app"],
        ], "Create device", (values) => this.#createDevice(values));
        this.#add = this.#form("Add a token", "add-token", [
            ["token", "Device token", ""], ["kind", "Kind", KINDS], ["topic", "Topic", "com.example.app"],
        ], "Add token", (values) => this.#change("POST", "tokens", values));
        this.#subscribe = this.#form("Subscribe to a broadcast channel", "subscribe", [
            ["channelID", "Channel id", ""], ["topic", "Topic", "com.example.app"],
        ], "Subscribe", (values) => this.#change("POST", "subscriptions", values));
        root.append(
            el("div", { class: "device-bar" },
                el("label", { class: "device-choice" }, "Device", this.#select), this.#online),
            el("div", { class: "storage" },
                el("label", { class: "device-choice" }, "Stored while offline", this.#storage),
                this.#storageText),
            this.#notice, this.#create, this.#preview, this.#links);
        this.#arrange();
    }

    set isVisible(isVisible) {
        this.#isVisible = isVisible;
        if (!isVisible) return;
        this.#loadDevices();
        if (this.#rules.length === 0) this.#loadRules();
    }

    /** Called with each state of the simulator. */
    update({ settings }) {
        this.#showRule(settings.offlineStorage);
    }

    #loadRules() {
        return this.#perform(async () => this.#showSettings(await get("/v1/settings")));
    }

    async #changeRule() {
        const change = { offlineStorage: this.#storage.value };
        const isDone = await this.#perform(async () =>
            this.#showSettings(await call("PATCH", "/v1/settings", change)));
        if (!isDone) this.#storage.value = this.#rule;
    }

    #showSettings({ offlineStorage, offlineStorageRules }) {
        this.#rules = offlineStorageRules;
        this.#storage.replaceChildren(...offlineStorageRules.map(({ name }) =>
            el("option", { value: name, text: STORAGE[name] ?? name })));
        this.#rule = undefined;
        this.#showRule(offlineStorage);
    }

    #showRule(name) {
        const rule = this.#rules.find((rule) => rule.name === name);
        if (!rule || name === this.#rule) return;
        this.#rule = name;
        this.#storage.value = name;
        this.#storageText.replaceChildren(`${rule.message} `, sourceLink(rule.source, "Apple’s page") ?? "");
    }

    /** Shows the device of a push: its own, or one that holds what its token received. */
    showPush(push) {
        this.suggest(push);
        if (push.device) this.#target = { id: push.device };
        else if (push.deviceToken) this.#target = { token: push.deviceToken };
        this.#reset();
        this.#loadDevices();
    }

    /** Offers a push's token and topic in the form for a new device. */
    suggest(push) {
        if (!push?.deviceToken) return;
        this.#suggestion = push;
        const kind = push.pushType === "liveactivity" ? "activity" : "app";
        for (const form of [this.#create, this.#add]) {
            const { token, topic, kind: kinds } = form.querySelector("form").elements;
            token.value = push.deviceToken;
            topic.value = (push.topic ?? "").replace(/\.push-type\.liveactivity$/, "");
            kinds.value = kind;
        }
    }

    pushArrived(push) {
        if (this.#isDirty || !this.#target) return;
        const { token } = this.#target;
        this.#isDirty = push.channelID !== undefined || push.deviceToken === token ||
            (this.#snapshot?.tokens ?? []).some((entry) => entry.token === push.deviceToken);
    }

    /** Called several times a second while the page is open. */
    tick() {
        if (!this.#isVisible || this.#isLoading || !this.#target) return;
        const age = performance.now() - this.#loadedAt;
        if (age > (this.#isDirty ? REFRESH_MILLISECONDS : IDLE_MILLISECONDS)) this.#load();
    }

    clear() {
        this.#target = undefined;
        this.#devices = [];
        this.#reset();
    }

    #reset() {
        this.#generation += 1;
        this.#isLoading = false;
        this.#snapshot = undefined;
        this.#shown = "";
        this.#arrange();
    }

    async #loadDevices() {
        try {
            this.#devices = (await get("/v1/devices")).devices;
            if (!this.#target && this.#devices.length > 0) this.#target = { id: this.#devices[0].id };
            if (!this.#target && this.#suggestion) this.#target = { token: this.#suggestion.deviceToken };
        } catch (error) {
            this.#actions.onError(error);
        }
        this.#arrange();
        if (this.#target) await this.#load();
    }

    async #load() {
        const { id, token } = this.#target;
        const generation = this.#generation;
        this.#isLoading = true;
        this.#isDirty = false;
        try {
            const snapshot = await reveal(
                await get(id ? path("v1", "devices", id) : path("v1", "tokens", token, "device")));
            if (generation === this.#generation) this.#show(snapshot);
        } catch (error) {
            if (generation !== this.#generation) return;
            if (error instanceof APIError && error.status === 404) this.clear(); // Deleted, or reset.
            else this.#actions.onError(error);
        } finally {
            if (generation === this.#generation) this.#isLoading = false;
            this.#loadedAt = performance.now();
        }
    }

    #show(snapshot) {
        this.#snapshot = snapshot;
        const text = JSON.stringify({ ...snapshot, nowMilliseconds: 0 });
        if (text === this.#shown) return;
        this.#shown = text;
        this.#arrange();
        const focused = document.activeElement?.dataset?.key;
        const wasOpen = new Map();
        for (const details of this.#preview.querySelectorAll("details")) {
            wasOpen.set(details.dataset.key, details.open);
        }
        this.#preview.replaceChildren(...phoneNodes(snapshot, this.#actions));
        for (const details of this.#preview.querySelectorAll("details")) {
            details.open = wasOpen.get(details.dataset.key) ?? details.open;
        }
        if (focused) {
            const keyed = [...this.#preview.querySelectorAll("[data-key]")];
            keyed.find((element) => element.dataset.key === focused)?.focus();
        }
    }

    /** Shows the parts that suit the target: a created device, a token without one, or nothing. */
    #arrange() {
        const { id, token } = this.#target ?? {};
        const options = this.#devices.map((device) =>
            el("option", { value: device.id }, exact(`${device.name} (${device.id})`)));
        if (token) options.push(el("option", { value: "token", text: `Token ${shortToken(token)}` }));
        if (options.length === 0) options.push(el("option", { value: "", text: "No device yet" }));
        this.#select.replaceChildren(...options);
        this.#select.value = id ?? (token ? "token" : "");
        this.#select.disabled = options.length < 2;
        this.#online.hidden = !id;
        const isOnline = this.#snapshot?.isOnline ?? true;
        this.#online.setAttribute("aria-checked", isOnline);
        this.#online.textContent = isOnline ? "Online" : "Offline";
        this.#notice.hidden = Boolean(id);
        this.#notice.textContent = token
            ? "No device owns this token. This is what a device that was always online holds. "
                + "Create a device to take it offline, and to give it more tokens."
            : "A device shows what its tokens received. Select a push and choose “Show on device”, "
                + "or create a device here.";
        if (!this.#snapshot) this.#preview.replaceChildren();
        this.#add.hidden = this.#subscribe.hidden = !id;
        this.#arrangeLinks(id);
    }

    #arrangeLinks(id) {
        if (!id || !this.#snapshot) {
            this.#links.replaceChildren(this.#add, this.#subscribe);
            return;
        }
        const { tokens = [], subscriptions = [] } = this.#snapshot;
        const item = (text, title, remove) => el("li", {},
            el("span", { class: "mono", title }, exact(text)),
            button("Remove", remove, { class: "quiet small", "aria-label": `Remove ${title}` }));
        this.#links.replaceChildren(
            el("section", { class: "section" }, el("h3", { text: "Tokens and channels" }),
                el("ul", { class: "link-list" },
                    tokens.map((entry) => item(`${shortToken(entry.token)} · ${entry.kind} · ${entry.topic}`,
                        entry.token, () => this.#change("DELETE", ["tokens", entry.token]))),
                    subscriptions.map((entry) => item(`${entry.channelID} · channel · ${entry.topic}`,
                        entry.channelID, () => this.#unsubscribe(entry.channelID))))),
            this.#add, this.#subscribe, el("section", { class: "section" }, this.#remove));
    }

    #selected() {
        const value = this.#select.value;
        if (value && value !== "token") this.#target = { id: value };
        else if (this.#suggestion) this.#target = { token: this.#suggestion.deviceToken };
        this.#reset();
        this.#load();
    }

    async #perform(work) {
        try {
            await work();
            return true;
        } catch (error) {
            this.#actions.onError(error);
            return false;
        }
    }

    #createDevice({ name, token, kind, topic }) {
        return this.#perform(async () => {
            const tokens = token ? [{ token, kind, topic }] : [];
            const snapshot = await call("POST", "/v1/devices", { name, tokens });
            this.#target = { id: snapshot.id };
            this.#reset();
            this.#actions.onMessage(`${snapshot.name} was created.`);
            await this.#loadDevices();
        });
    }

    /** Changes the shown device, and loads it again: some calls return no snapshot. */
    #change(method, parts, body) {
        const { id } = this.#target;
        return this.#perform(async () => {
            await call(method, path("v1", "devices", id, ...[parts].flat()), body);
            await this.#load();
        });
    }

    #unsubscribe(channelID) {
        const { id } = this.#target;
        return this.#perform(async () => {
            const query = `?channelID=${encodeURIComponent(channelID)}`;
            await call("DELETE", path("v1", "devices", id, "subscriptions") + query);
            await this.#load();
        });
    }

    #toggleOnline() {
        const { id } = this.#target;
        const isOnline = this.#online.getAttribute("aria-checked") !== "true";
        return this.#perform(async () => {
            this.#show(await reveal(await call("PATCH", path("v1", "devices", id), { isOnline })));
        });
    }

    #delete() {
        const { id } = this.#target;
        return this.#perform(async () => {
            await call("DELETE", path("v1", "devices", id));
            this.clear();
            await this.#loadDevices();
        });
    }

    #form(title, name, inputs, action, submit) {
        const rows = inputs.map(([field, label, value]) => el("label", {}, label, Array.isArray(value)
            ? el("select", { name: field }, value.map(([key, text]) => el("option", { value: key, text })))
            : el("input", { name: field, value, autocomplete: "off", spellcheck: "false",
                class: field === "token" || field === "channelID" ? "mono" : "" })));
        const form = el("form", { class: "stack", id: name }, rows,
            el("button", { class: "primary", text: action }));
        const details = el("details", { class: "form" }, el("summary", { text: title }), form);
        form.addEventListener("submit", async (event) => {
            event.preventDefault();
            const values = {};
            for (const [field] of inputs) values[field] = form.elements[field].value.trim();
            if (await submit(values)) details.open = false;
        });
        return details;
    }
}
