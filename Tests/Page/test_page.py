"""Tests the simulator's page in headless Chromium: ci/steps/page [NAME of a test]…

PAGE_PUSHES is the number of pushes of the load test (default 100000), PAGE_RATE how many of them a second (2000),
PAGE_SHOTS the folder for screenshots, PAGE_SIMULATOR a Python file with another class Simulator (see simulator.py).
"""
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import unittest
import urllib.parse
import urllib.request

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

HERE = pathlib.Path(__file__).resolve().parent
SHOTS = pathlib.Path(os.environ.get("PAGE_SHOTS", HERE.parent.parent / ".build/page"))
PUSHES = int(os.environ.get("PAGE_PUSHES", "100000"))
RATE = int(os.environ.get("PAGE_RATE", "2000"))
TOKEN = "740f4707bebcf74f9b7c25d48e3358945f6aa01da5ddb387462c7eaf61bb78ad"
OTHER = "9c1e0b7725f04d1f8b6a2b0e5d7c3f1200aa11bb22cc33dd44ee55ff66007788"
START = "5a" * 32
ACTIVITY = "80c1d2e3f4a5b6c7" * 4
# RFC 8291, section 5, and draft-ietf-webpush-encryption-04, section 5.
WEB_PUSH_KEYS = [
    {"subscription": "rfc", "auth": "BTBZMqHH6r4Tts7J_aSIgg",
        "privateKey": "q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94",
        "publicKey": "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"},
    {"subscription": "draft", "auth": "R29vIGdvbyBnJyBqb29iIQ",
        "privateKey": "9FWl15_QUQAWDaD3k3l50ZBZQJ4au27F1V4F0uLSD_M",
        "publicKey": "BCEkBjzL8Z3C-oi2Q7oE5t2Np-p7osjGLg93qUP0wvqRT21EEWyf0cQDQcakQMqz4hQKYOQ3il2nNZct4HgAUQU"},
]
RFC_BODY = (
    "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK"
    "6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
)
WEB_PUSH_MESSAGES = [
    {"id": "rfc", "body": RFC_BODY},
    {"id": "draft", "encoding": "aesgcm", "body": "6nqAQUME8hNqw5J3kl8cpVVJylXKYqZOeseZG8UueKpA",
        "salt": "lngarbyKfMoi9Z75xYXmkg",
        "dh": "BNoRDbb84JGm8g5Z5CFxurSqsXWJ11ItfXEWYVLE85Y7CYkDjXsIEc4aqxYaQ1G8BqkXCJ6DPpDrWtdWj_mugHU"},
    # For another device, and for a subscription whose keys are missing.
    {"id": "draft", "body": RFC_BODY},
    {"id": "other", "body": RFC_BODY},
]
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# What would turn text into markup or code.
FORBIDDEN = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|srcdoc"
    r"|\beval\(|new Function\("
)


def load_simulator():
    path = pathlib.Path(os.environ.get("PAGE_SIMULATOR", HERE / "simulator.py"))
    specification = importlib.util.spec_from_file_location("page_simulator", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module.Simulator


Simulator = load_simulator()


def figure(name, value):
    print(f"  {name}: {value}", flush=True)


class Browser:
    """Headless Chromium with the page's elements by their meaning."""

    def __init__(self):
        options = webdriver.ChromeOptions()
        for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--enable-precise-memory-info"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        chromium = os.environ.get("PAGE_CHROMIUM")
        if chromium:
            options.binary_location = chromium
        self.driver = webdriver.Chrome(options, Service(os.environ.get("PAGE_CHROMEDRIVER", "/usr/bin/chromedriver")))
        self.driver.set_script_timeout(60)
        self.set_screen(1280, 800)

    def set_screen(self, width, height, scheme="light", scale=1):
        self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False)
        self.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def command(self, name, **parameters):
        return self.driver.execute_cdp_cmd(name, parameters)

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0])?.textContent ?? ''", selector)

    def texts(self, selector):
        return self.run("return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)", selector)

    def wait(self, what, condition, seconds=10):
        """Waits for a condition, and returns its value."""
        until = time.monotonic() + seconds
        while True:
            value = condition()
            if value:
                return value
            if time.monotonic() > until:
                self.shot("failure")
                raise AssertionError(f"{what}: not within {seconds} s")
            time.sleep(0.02)

    def wait_text(self, selector, text, seconds=10):
        return self.wait(f"'{text}' in {selector}", lambda: text in self.text(selector), seconds)

    def shot(self, name):
        SHOTS.mkdir(parents=True, exist_ok=True)
        self.driver.save_screenshot(str(SHOTS / f"{name}.png"))

    def keys(self, *keys):
        ActionChains(self.driver).send_keys(*keys).perform()

    def orders(self):
        """The orders of the shown rows, from top to bottom."""
        script = """return [...document.querySelectorAll('.row:not([hidden])')]
            .map((e) => [Number(e.getAttribute('aria-posinset')), Number(e.dataset.order)])
            .sort((a, b) => a[0] - b[0]).map((e) => e[1])"""
        return self.run(script)

    def open(self, order):
        row = self.wait(f"the row of push {order}", lambda: self.all(f"#push-{order}"))
        row[0].click()
        self.wait(f"the detail of push {order}", lambda: self.all("#panel-push [data-field=payload]"))

    def tab(self, name):
        self.find(f"#tab-{name}").click()

    def network(self):
        """The addresses that were requested since the last call."""
        addresses = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] in ("Network.requestWillBeSent", "Network.webSocketCreated"):
                parameters = message["params"]
                addresses.append(parameters.get("request", {}).get("url") or parameters.get("url"))
        return addresses

    def errors(self):
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]


class PageTests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.simulator = Simulator()
        cls.browser = Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.driver.quit()
        cls.simulator.stop()

    def setUp(self):
        self.allowed_errors = None
        # The last test's page must not ask for what the reset removes.
        self.browser.driver.get("about:blank")
        self.simulator.call("POST", "/v1/reset")
        self.browser.set_screen(1280, 800)
        self.show()

    def tearDown(self):
        origins = (self.simulator.origin + "/", "data:", "about:blank", "blob:")
        foreign = [address for address in self.browser.network() if not address.startswith(origins)]
        self.assertEqual(foreign, [], "requests to other origins")
        errors = self.browser.errors()
        if self.allowed_errors:
            errors = [error for error in errors if not re.search(self.allowed_errors, error)]
        self.assertEqual(errors, [], "errors in the console")

    def show(self, address=None):
        self.browser.driver.get("about:blank")
        self.browser.driver.get(address or self.simulator.address)
        self.browser.wait_text("#live", "Live")

    def push(self, token=TOKEN, payload=None, **headers):
        if payload is None:
            payload = {"aps": {"alert": {"title": "Hey There", "body": "Did you see it?"}}}
        return self.simulator.push(token, payload, **headers)

    def device(self, *tokens):
        tokens = [{"token": token, "kind": kind, "topic": "com.example.app"} for token, kind in tokens]
        return self.simulator.call("POST", "/v1/devices", {"name": "Test phone", "tokens": tokens})["id"]

    # The list

    def test_push_appears_within_a_second(self):
        browser = self.browser
        self.assertIn("Waiting for the first push", browser.text("#empty"))
        self.assertIn(self.simulator.endpoint(), browser.text("#empty"))
        browser.run("""window.seen = new Promise((resolve) => {
            new MutationObserver(() => {
                if (document.querySelector('#list').textContent.includes('Appears soon')) resolve(Date.now());
            }).observe(document.querySelector('#list'), {subtree: true, childList: true, characterData: true});
        })""")
        began = time.time() * 1000
        self.push(payload={"aps": {"alert": {"title": "Appears soon"}}})
        seen = self.browser.driver.execute_async_script("window.seen.then(arguments[0])")
        figure("a push appears after", f"{seen - began:.0f} ms, of which some are the sender's start")
        self.assertLess(seen - began, 1000)
        self.assertFalse(browser.find("#empty").is_displayed())
        browser.wait("the totals", lambda: browser.text("[data-count=received]") == "1")

    def test_pushes_from_before_are_shown_newest_first(self):
        orders = [self.push(payload={"aps": {"alert": f"Number {number}"}}) for number in range(5)]
        self.show()
        self.browser.wait("five rows", lambda: self.browser.orders() == orders[::-1])

    def test_a_payload_without_a_text_says_why(self):
        browser = self.browser
        for payload, summary in [({"aps": {}}, "(empty aps)"), ('{"aps":', "(not JSON)"), ({"a": 1}, "(no aps)")]:
            order = self.push(payload=payload)
            browser.wait_text(f"#push-{order} .row-title", summary)

    def test_filters(self):
        browser = self.browser
        first = self.push(
            OTHER, {"aps": {"alert": "Aubergine"}}, apns_topic="com.grasscove.Fern", apns_collapse_id="menu-1")
        second = self.push(TOKEN, {"aps": {"content-available": 1}}, apns_push_type="background", apns_priority="5")
        third = self.push("zz", {"aps": {"alert": "Broccoli"}})
        everything = [third, second, first]
        browser.wait("three rows", lambda: browser.orders() == everything)
        identifier = self.simulator.call("GET", f"/v1/pushes/{second}")["apnsID"]
        browser.find("#more").click()
        cases = [
            ("text", "aubergine", [first]), ("text", "BROCC", [third]), ("text", "nothing has this", []),
            ("deviceToken", TOKEN[4:20], [second]), ("topic", "grasscove", [first]),
            ("pushType", "background", [second]), ("outcome", "rejected", [third]),
            ("outcome", "accepted", [second, first]), ("apnsID", identifier, [second]), ("collapseID", "menu", [first]),
        ]
        for name, value, expected in cases:
            with self.subTest(name=name, value=value):
                browser.find(f"[name={name}]").send_keys(value)
                browser.wait(f"{name} {value}", lambda: browser.orders() == expected)
                browser.find("#active-filters .chip").click()
                browser.wait("no filter", lambda: browser.orders() == everything)
        # A push must pass all filters.
        browser.find("[name=outcome]").send_keys("accepted")
        browser.find("[name=pushType]").send_keys("background")
        browser.wait("both filters", lambda: browser.orders() == [second])
        for _ in range(2):
            browser.find("#active-filters .chip").click()
        browser.wait("no filter", lambda: browser.orders() == everything)
        # A filter also decides about pushes that arrive later.
        browser.find("[name=topic]").send_keys("grasscove")
        browser.wait("one row", lambda: browser.orders() == [first])
        self.push(TOKEN)
        last = self.push(OTHER, apns_topic="com.grasscove.Fern")
        browser.wait("two rows", lambda: browser.orders() == [last, first])
        self.assertIn("2 of 5 pushes", browser.text("#shown"))

    def test_pause_and_scrolling_hold_the_list(self):
        browser = self.browser
        first = self.push()
        browser.wait("a row", lambda: browser.orders() == [first])
        browser.find("#pause").click()
        second = self.push()
        browser.wait_text("#newer", "1 newer")
        self.assertEqual(browser.orders(), [first])
        browser.find("#pause").click()
        browser.wait("both rows", lambda: browser.orders() == [second, first])
        for _ in range(20):
            self.push()
        browser.wait_text("#shown", "22 pushes")
        browser.run("document.querySelector('#list').scrollTop = 300")
        browser.wait("a held list", lambda: browser.orders()[-1] == first)
        held = browser.orders()
        newest = self.push()
        browser.wait("the button", lambda: browser.find("#newer").is_displayed())
        self.assertEqual(browser.text("#newer"), "1 newer")
        self.assertEqual(browser.orders(), held)
        browser.find("#newer").click()
        browser.wait("the newest row", lambda: browser.orders()[0] == newest)

    def test_reset(self):
        browser = self.browser
        order = self.push()
        browser.open(order)
        browser.find("#reset").click()
        browser.find("#reset-dialog button[value=cancel]").click()
        self.assertEqual(browser.orders(), [order])
        browser.find("#reset").click()
        browser.find("#reset-dialog button[value=reset]").click()
        browser.wait("an empty list", lambda: browser.orders() == [] and "Waiting" in browser.text("#empty"))
        browser.wait_text("#panel-push", "No push selected")
        self.assertEqual(self.simulator.call("GET", "/v1/state")["counts"]["received"], 0)

    # The detail view

    def test_detail(self):
        browser = self.browser
        payload = ('{"aps":{"alert":{"title":"Order shipped"},"badge":"3"},'
                   '"id":9007199254740993,"name":"Gr\\u00fc\\u00dfe"}')
        order = self.push(payload=payload, apns_collapse_id="order-1", apns_priority="10")
        browser.open(order)
        headers = browser.text("[data-field=headers]")
        for part in ("apns-topic", "com.example.app", "apns-collapse-id", "order-1", "apns-priority"):
            self.assertIn(part, headers)
        shown = browser.text("[data-field=payload]")
        self.assertIn('{\n  "aps": {\n    "alert": {\n      "title": "Order shipped"\n    },', shown)
        self.assertIn('"id": 9007199254740993', shown)  # Not rounded.
        self.assertIn('"name": "Grüße"', shown)
        self.assertIn(f"{len(payload.encode())} of 4,096 bytes", browser.text("[data-field=size]"))
        meter = browser.find(".meter")
        self.assertEqual(meter.get_attribute("aria-valuenow"), str(len(payload.encode())))
        self.assertIn("badge", browser.text(".hints"))
        self.assertTrue(browser.find(".hints a").get_attribute("href").startswith("https://developer.apple.com/"))
        self.assertIn("200", browser.text("[data-field=outcome]"))
        self.assertIn(":status200", browser.text("[data-field=response]"))
        self.assertRegex(browser.text(".facts"), r"Connection\d+, stream \d+")
        browser.shot("light-detail")

    def test_detail_of_a_rejection(self):
        browser = self.browser
        browser.open(self.push("zz"))
        self.assertIn("400 BadDeviceToken", browser.text("[data-field=outcome]"))
        self.assertIn('"reason": "BadDeviceToken"', browser.text("[data-field=response-body]"))

    def test_detail_of_a_payload_that_is_not_json(self):
        browser = self.browser
        browser.open(self.push(payload='{"aps": oops'))
        self.assertIn("not valid JSON", browser.text("#panel-push"))
        self.assertEqual(browser.text("[data-field=payload]"), '{"aps": oops')

    # Faults

    def test_fault_preset_changes_the_next_response(self):
        browser = self.browser
        browser.tab("faults")
        preset = browser.wait("the presets", lambda: browser.all("[data-preset=refuse-key]"))
        preset[0].click()
        browser.wait_text(".fault-list", "InvalidProviderToken")
        browser.wait_text("#fault-count", "1")
        order = self.push()
        browser.wait_text(f"#push-{order}", "403")
        browser.wait_text(".fault-list", "applied 1")
        browser.shot("light-faults")
        browser.find(".fault-list button").click()
        browser.wait("no fault", lambda: not browser.all(".fault-list"))
        order = self.push()
        browser.wait_text(f"#push-{order}", "200")

    def test_error_of_the_api_is_shown(self):
        browser = self.browser
        self.allowed_errors = r"/v1/faults .* 400"
        browser.tab("faults")
        browser.find("#panel-faults summary").click()
        area = browser.find("#panel-faults textarea")
        area.clear()
        area.send_keys('{"when": {}}')
        browser.find("#panel-faults .stack button").click()
        browser.wait_text("#message-text", "effect")
        self.assertIn("effect", browser.text("#alert-region"))

    # The device

    def test_preview_shows_collapsed_notifications(self):
        browser = self.browser
        self.device((TOKEN, "app"))
        for score in ("1 : 0", "2 : 0"):
            order = self.push(
                payload={"aps": {"alert": {"title": "Cup final", "body": score}, "badge": 7, "thread-id": "cup",
                                 "interruption-level": "time-sensitive"}},
                apns_collapse_id="score-7")
        browser.open(order)
        browser.find("#show-device").click()
        browser.wait_text(".notification", "2 : 0")
        self.assertEqual(len(browser.all(".notification")), 1)
        self.assertEqual(browser.text("[data-field=replaced]"), "replaced 1")
        self.assertEqual(browser.text("[data-field=level]"), "Time Sensitive")
        self.assertEqual(browser.text(".badge"), "7")
        self.assertIn("cup", browser.text(".thread-name"))
        # The preview follows later pushes.
        self.push(payload={"aps": {"alert": "Another one"}})
        browser.wait("two notifications", lambda: len(browser.all(".notification")) == 2, 3)

    def test_preview_of_a_token_without_device(self):
        browser = self.browser
        order = self.push(payload={"aps": {"alert": {"title": "Nobody's"}}})
        browser.open(order)
        browser.find("#show-device").click()
        browser.wait_text(".notification", "Nobody's")
        self.assertIn("No device owns this token", browser.text("#panel-device"))
        browser.find("#panel-device details.form summary").click()
        self.assertEqual(browser.find("#create-device [name=token]").get_attribute("value"), TOKEN)
        browser.find("#create-device button").click()
        browser.wait("a device", lambda: browser.find("#device-online").is_displayed())
        device = self.simulator.call("GET", "/v1/devices")["devices"][0]
        self.assertEqual([entry["token"] for entry in device["tokens"]], [TOKEN])

    def test_web_push(self):
        """The messages of RFC 8291 and of the earlier draft are decrypted; one for another subscription is not."""
        browser = self.browser
        device = self.device((TOKEN, "app"))
        for keys in WEB_PUSH_KEYS:
            self.simulator.call("POST", f"/v1/devices/{device}/web-push-keys", keys)
        for message in WEB_PUSH_MESSAGES:
            self.push(payload={"aps": {"alert": {"loc-key": "NEW_MESSAGE"}, "mutable-content": 1}, "webpush": message})
        browser.tab("device")
        browser.wait("the messages", lambda: len(browser.all(".preview [data-order]")) == len(WEB_PUSH_MESSAGES))
        self.assertEqual(browser.texts(".preview [data-order] h4"), [
            "NEW_MESSAGE", "NEW_MESSAGE", "I am the walrus", "When I grow up, I want to be a watermelon"])
        self.assertEqual(browser.texts(".preview [data-field=webpush]"), [
            "Web Push, cannot be decrypted", "Web Push, decrypted", "Web Push, decrypted"])

    def test_offline_device(self):
        browser = self.browser
        self.device((TOKEN, "app"))
        browser.tab("device")
        browser.wait("the switch", lambda: browser.find("#device-online").is_displayed())
        browser.find("#device-online").click()
        browser.wait("offline", lambda: browser.find("#device-online").get_attribute("aria-checked") == "false")
        expiration = str(int(time.time()) + 3600)
        replaced = self.push(payload={"aps": {"alert": "First call"}}, apns_expiration=expiration)
        waiting = self.push(payload={"aps": {"alert": "Second call"}}, apns_expiration=expiration)
        browser.wait_text('[data-list="Waiting at APNs"]', f"Push {waiting}")
        self.assertIn(f"Push {replaced}", browser.text('[data-list="Never delivered"]'))
        self.assertEqual(browser.all(".notification"), [])
        browser.find("#device-online").click()
        browser.wait_text(".notification", "Second call")
        self.assertEqual(browser.all('[data-list="Waiting at APNs"]'), [])

    def test_preview_of_a_live_activity(self):
        browser = self.browser
        device = self.device((START, "push-to-start"))
        now = int(time.time())
        headers = {"apns_push_type": "liveactivity", "apns_topic": "com.example.app.push-type.liveactivity"}

        def event(token, name, timestamp, state, **more):
            aps = {"timestamp": timestamp, "event": name, "content-state": state, **more}
            return self.push(token, {"aps": aps}, **headers)

        event(START, "start", now, {"score": "0 : 0"}, **{
            "attributes-type": "MatchAttributes", "attributes": {"home": "Fern United"},
            "alert": {"title": "Kick-off", "body": "Fern United"}})
        browser.tab("device")
        browser.wait_text("[data-field=content-state]", "0 : 0")
        self.simulator.call("POST", f"/v1/devices/{device}/tokens",
                            {"token": ACTIVITY, "kind": "activity", "topic": "com.example.app"})
        event(ACTIVITY, "update", now + 20, {"score": "2 : 1"})
        browser.wait_text("[data-field=content-state]", "2 : 1")
        self.assertEqual(browser.text("[data-field=state]"), "active")
        event(ACTIVITY, "update", now + 10, {"score": "1 : 1"})
        browser.wait("the ignored update", lambda: browser.all(".history .ignored"))
        self.assertIn("2 : 1", browser.text("[data-field=content-state]"))
        self.assertIn(str(now + 20), browser.text(".history .ignored"))
        event(ACTIVITY, "end", now + 30, {"score": "3 : 1"})
        browser.wait_text("[data-field=state]", "ended")
        self.assertIn("3 : 1", browser.text("[data-field=content-state]"))
        self.assertEqual(browser.texts(".history-event"), ["end", "update", "update", "start"])
        self.assertIn("score 2 : 1 → 3 : 1", browser.text(".history"))
        self.assertIn("draws its Live Activities itself", browser.text(".screen-note"))
        browser.shot("light-activity")
        browser.set_screen(1280, 800, "dark")
        browser.shot("dark-activity")

    # Safety

    def test_hostile_text_stays_text(self):
        browser = self.browser
        attack = "<img src=x onerror=window.hacked=1>"
        script = "</script><script>window.hacked=2</script>"
        reverse = "\u202egnp.elif\u202c\u2066"
        before = browser.run("return document.querySelectorAll('img, script, iframe, svg, style, link').length")
        self.device((TOKEN, "app"))
        texts = [attack, script, reverse, "W" * 3500, "javascript:window.hacked=3", "\u0000\u0007${window.hacked=4}"]
        orders = [
            self.push(payload={"aps": {"alert": {"title": text, "subtitle": text[:200], "body": text[:200]},
                                       "thread-id": text[:60], "category": text[:60], "interruption-level": text[:60]},
                               text[:100]: text[:100]} if len(text) < 3000 else {"aps": {"alert": {"title": text}}})
            for text in texts
        ]
        orders.append(self.push(token=attack))
        orders.append(self.push(apns_topic=script))
        orders.append(self.push(apns_collapse_id=attack, apns_push_type=attack))
        orders.append(self.push(user_agent=attack + script))
        for order in orders:
            with self.subTest(order=order):
                browser.open(order)
                self.assertIsNone(browser.run("return window.hacked ?? null"))
                wide = browser.run("return ['#panel-push', '#list'].filter((s) => {"
                                   "const e = document.querySelector(s); return e.scrollWidth > e.clientWidth; })")
                self.assertEqual(wide, [], "text is wider than its place")
        self.assertIn(attack, browser.text(f"#push-{orders[0]}"))
        browser.open(orders[0])
        self.assertIn(attack, browser.text("[data-field=payload]"))
        browser.open(orders[2])
        self.assertIn("\\u202egnp.elif", browser.text("[data-field=payload]"))
        self.assertNotIn("\u202e", browser.text("[data-field=payload]"))
        browser.open(orders[-1])
        self.assertIn(script, browser.text("[data-field=headers]"))
        browser.find("#show-device").click()
        browser.wait("the notifications", lambda: len(browser.all(".notification")) >= len(texts))
        self.assertTrue(any(attack in text for text in browser.texts(".notification")))
        browser.wait("no script", lambda: browser.run("return window.hacked ?? null") is None)
        after = browser.run("return document.querySelectorAll('img, script, iframe, svg, style, link').length")
        self.assertEqual(after, before, "elements came from text")
        self.assertEqual(browser.run("return document.documentElement.scrollWidth"), 1280)

    def test_files_are_static_and_safe(self):
        with urllib.request.urlopen(self.simulator.origin + "/") as response:
            self.assertEqual(re.sub(r"\s+", " ", response.headers["content-security-policy"]), POLICY)
            self.assertEqual(response.headers["x-content-type-options"], "nosniff")
            self.assertEqual(response.headers["referrer-policy"], "no-referrer")
            html = response.read().decode()
        self.assertNotRegex(html, r"<script(?![^>]*\bsrc=)|\son\w+=|\sstyle=|<style")
        files = ["/" + file for file in re.findall(r'(?:src|href)="([\w./]+)"', html)]
        read = {}
        while files:
            path = files.pop()
            if path in read:
                continue
            with urllib.request.urlopen(self.simulator.origin + path) as response:
                self.assertEqual(response.headers["x-content-type-options"], "nosniff")
                read[path] = response.read().decode()
            files += [urllib.parse.urljoin(path, file) for file in re.findall(r'from "([^"]+)"', read[path])]
        self.assertGreater(len(read), 8)
        for path, text in read.items():
            self.assertNotRegex(text, FORBIDDEN, path)
            if path.endswith(".css"):
                self.assertNotRegex(text, r"url\(|@import", path)

    def test_token(self):
        browser = self.browser
        simulator = Simulator(token="secret-token.0123")
        try:
            self.allowed_errors = "401"
            browser.driver.get("about:blank")
            browser.driver.get(simulator.origin + "/")
            browser.wait("the refusal", lambda: "oken" in browser.text("#message-text"))
            browser.wait_text("#live", "Not connected")
            browser.driver.get("about:blank")
            browser.driver.get(simulator.origin + "/#token=secret-token.0123")
            browser.wait_text("#live", "Live")
            self.assertNotIn("token", browser.driver.current_url)
            order = simulator.push(TOKEN, {"aps": {"alert": "Secret"}})
            browser.open(order)
            browser.driver.refresh()
            browser.wait_text("#live", "Live")
            origins = (simulator.origin + "/", self.simulator.origin + "/", "about:", "data:")
            self.assertEqual([address for address in browser.network() if not address.startswith(origins)], [])
        finally:
            browser.driver.get("about:blank")
            simulator.stop()

    def test_reconnects_after_a_restart(self):
        if not self.simulator.can_restart:
            self.skipTest("the simulator belongs to somebody else")
        browser = self.browser
        self.allowed_errors = r"ERR_CONNECTION|ERR_INCOMPLETE|ERR_EMPTY"
        old = self.push()
        browser.open(old)
        self.push()
        self.simulator.restart()
        order = self.push(payload={"aps": {"alert": "After the restart"}})
        browser.wait("only the new push", lambda: browser.orders() == [order], 20)
        browser.wait_text("#live", "Live")
        self.assertIn("After the restart", browser.text(f"#push-{order}"))

    # Settings

    def test_offline_storage(self):
        browser = self.browser
        identifier = self.device((TOKEN, "app"))
        self.simulator.call("PATCH", f"/v1/devices/{identifier}", {"isOnline": False})
        browser.tab("device")
        browser.wait_text("#offline-storage-text", "one push for each topic")
        self.assertEqual(browser.find("#offline-storage").get_attribute("value"), "latest")
        rules = [("all", "every push", 3), ("collapse-id", "collapse id", 2), ("latest", "each topic, the latest", 1)]
        for name, words, waiting in rules:
            option = browser.find(f"#offline-storage option[value='{name}']")
            option.click()
            browser.wait(f"the rule {name}", lambda: self.simulator.call(
                "GET", "/v1/settings")["offlineStorage"] == name)
            browser.wait_text("#offline-storage-text", words)
            self.assertTrue(browser.find("#offline-storage-text a").get_attribute("href").startswith(
                "https://developer.apple.com/documentation/"))
            for collapse in ("a", "b", "b"):
                self.push(payload={"aps": {"alert": "Hello"}}, apns_collapse_id=collapse)
            browser.wait_text("[data-list='Waiting at APNs']", f"Waiting at APNs ({waiting})")
            browser.shot(f"storage-{name}")
            self.simulator.call("PATCH", f"/v1/devices/{identifier}", {"isOnline": True})
            self.simulator.call("PATCH", f"/v1/devices/{identifier}", {"isOnline": False})
        # Another client's change is shown, too.
        self.simulator.call("PATCH", "/v1/settings", {"offlineStorage": "all"})
        browser.wait_text("#offline-storage-text", "every push")
        self.assertEqual(browser.find("#offline-storage").get_attribute("value"), "all")

    def test_token_limit(self):
        browser = self.browser
        browser.tab("faults")
        browser.wait_text("#token-limit-text", "does not check tokens")
        self.assertFalse(browser.find("#token-limit").is_displayed())
        if not self.simulator.can_restart:
            self.skipTest("needs a simulator of its own that requires tokens")
        simulator = Simulator(needs_token=True)
        try:
            self.show(simulator.address)
            browser.tab("faults")
            browser.wait_text("#token-limit-text", "TooManyProviderTokenUpdates")
            self.assertEqual(browser.find("#token-limit").get_attribute("aria-checked"), "true")
            browser.find("#token-limit").click()
            browser.wait("the change", lambda: browser.find("#token-limit").get_attribute("aria-checked") == "false")
            self.assertIs(simulator.call("GET", "/v1/settings")["limitsProviderTokenUpdates"], False)
            browser.wait_text("#token-limit-text", "any number")
            browser.shot("token-limit")
            browser.network()
        finally:
            browser.driver.get("about:blank")
            simulator.stop()

    # From the first connection to a test

    def stranger(self, *options):
        """A client that does not get in."""
        url = self.simulator.endpoint()
        subprocess.run(["curl", "--silent", "--http2", "--max-time", "20", *options, url], check=False, timeout=30)

    def test_failed_connections_are_shown(self):
        browser = self.browser
        for _ in range(2):
            self.stranger()
        browser.wait_text("#failures", "2 connections failed")
        text = browser.text("#failures [data-cause=untrusted]")
        self.assertIn("does not trust the simulator's certificate", text)
        self.assertIn(str(self.simulator.credentials / "ca.pem"), text)
        self.assertIn("2 times", text)
        self.stranger("--http1.1", "--cacert", str(self.simulator.credentials / "ca.pem"))
        browser.wait_text("#failures", "does not offer h2")
        self.assertEqual(len(browser.all("#failures li")), 2)
        browser.find("#failures button").click()
        self.assertFalse(browser.find("#failures").is_displayed())
        self.stranger()
        browser.wait("the next failure", lambda: browser.find("#failures").is_displayed())
        browser.find("#clear").click()
        browser.wait("no failure", lambda: not browser.find("#failures").is_displayed())

    def test_hints_are_counted_and_found(self):
        browser = self.browser
        good = self.push()
        silent = self.push(payload={"aps": {"title": "Hello"}, "id": None})
        browser.wait_text(f"#push-{silent} .row-hints", "3 hints")
        self.assertEqual(browser.text(f"#push-{good} .row-hints"), "")
        browser.find("[name=outcome]").send_keys("With hints")
        browser.wait("the push with hints", lambda: browser.orders() == [silent])
        browser.find("#active-filters .chip").click()
        browser.wait("both pushes", lambda: browser.orders() == [silent, good])

    def test_a_push_becomes_a_command_and_a_test(self):
        browser = self.browser
        order = self.push(payload={"aps": {"alert": {"title": "It's \"on\""}}, "n": None}, apns_priority="5")
        browser.open(order)
        browser.run("navigator.clipboard.writeText = async (text) => { window.copied = text; }")

        def copied(choice):
            browser.run("window.copied = undefined")
            browser.find(f"#copy-as option[value='{choice}']").click()
            return browser.wait(choice, lambda: browser.run("return window.copied"))

        command = copied("Command for curl")
        subprocess.run(["bash", "-c", command + " --silent --show-error"], check=True, timeout=30)
        again = browser.wait("the push of the command", lambda: browser.orders()[:2] and browser.orders()[0] > order
                             and browser.orders()[0])
        first, second = (self.simulator.call("GET", f"/v1/pushes/{number}") for number in (order, again))
        for name in ("payload", "topic", "pushType", "priority", "deviceToken", "status"):
            self.assertEqual(first[name], second[name], name)

        python = copied("Test in Python")
        test = {}
        exec(python, test)  # Its own assertions compare the push.
        test["test_push"](type("APNs", (), {"wait": lambda self, token: [first]})())
        node = copied("Test in Node")
        program = f"""import assert from "node:assert/strict";
            const apns = {{ wait: async () => [{json.dumps(first)}] }};
            const test = async (name, body) => body();
            {node}"""
        subprocess.run(["node", "--input-type=module", "--eval", program], check=True, timeout=30)
        swift = copied("Test in Swift")
        self.assertIn("withSimulatedAPNS", swift)
        self.assertIn("#expect(push.topic == \"com.example.app\")", swift)
        self.assertIn("push.payload, as: UTF8.self) == #\"{\"aps\"", swift)

        link = copied("Link")
        self.assertTrue(link.endswith(f"/#push={order}"))
        browser.driver.get("about:blank")
        browser.driver.get(link)
        browser.wait_text("#panel-push", "It's \"on\"")
        browser.wait("the selected row", lambda: browser.find(f"#push-{order}").get_attribute("aria-selected") == "true")

    def test_a_push_decides_later_answers_and_is_compared(self):
        browser = self.browser
        first = self.push(payload={"aps": {"alert": {"title": "1 : 0"}}})
        browser.open(first)
        self.allowed_errors = r"/v1/faults .* 400"
        browser.run("window.prompt = () => 'Unregisterd'")
        browser.find("#answer option:last-child").click()
        browser.wait_text("#message-text", "did you mean Unregistered?")
        browser.find("#answer option[value=Unregistered]").click()
        browser.wait_text("#message-text", "get Unregistered")
        second = self.push(payload={"aps": {"alert": {"title": "2 : 0"}, "badge": 1}})
        browser.wait_text(f"#push-{second} .row-type", "Unregistered")
        other = self.push(OTHER)
        browser.wait_text(f"#push-{other} .pill", "200")
        browser.open(second)
        self.assertIn("no longer active", browser.text("[data-field=meaning]"))
        browser.find("#compare").click()
        browser.wait_text("[data-field=comparison]", f"push {first}")
        names = browser.run("return [...document.querySelectorAll('.comparison [data-name]')].map((e) => e.dataset.name)")
        self.assertEqual(sorted(names), [":status", "aps.alert.title", "aps.badge", "reason"])
        title = browser.texts("[data-name='aps.alert.title'] dd > *")
        self.assertEqual(title, ["1 : 0", "2 : 0"])
        browser.open(first)
        browser.find("#compare").click()
        browser.wait_text("#panel-push", "the first push that is kept")
        # Clearing the list keeps the fault.
        browser.find("#clear").click()
        browser.wait("an empty list", lambda: browser.orders() == [])
        browser.wait_text("#fault-count", "1")

    def test_a_fresh_page_has_a_selection_and_keys(self):
        browser = self.browser
        orders = [self.push(payload={"aps": {"alert": f"Number {number}"}}) for number in range(3)]
        self.show()
        browser.wait_text("#panel-push", "Number 2")
        newest = self.push(payload={"aps": {"alert": "Number 3"}})
        browser.wait_text("#panel-push .detail-title", "Number 3")
        self.assertEqual(browser.run("return document.activeElement.tagName"), "BODY")
        browser.keys(Keys.ARROW_DOWN, Keys.ENTER)
        browser.wait_text("#panel-push .detail-title", "Number 2")
        # What was chosen stays.
        self.push(payload={"aps": {"alert": "Number 4"}})
        browser.wait_text("#shown", "5 pushes")
        self.assertEqual(browser.text("#panel-push .detail-title"), "Number 2")
        self.assertEqual(browser.find(f"#push-{orders[2]}").get_attribute("aria-selected"), "true")
        browser.keys(Keys.ESCAPE, "?")
        browser.wait("the help", lambda: browser.find("#help-dialog").is_displayed())
        self.assertIn(self.simulator.endpoint(), browser.text("#help-dialog"))
        self.assertIn("ca.pem", browser.text("#help-dialog"))
        self.assertNotIn("Docs/", browser.text("body"))
        browser.keys(Keys.ESCAPE)
        browser.wait("no help", lambda: not browser.find("#help-dialog").is_displayed())
        browser.keys("p")
        self.assertEqual(browser.find("#pause").get_attribute("aria-pressed"), "true")
        self.assertGreater(newest, orders[2])

    def test_views(self):
        """Screenshots of what a new user meets, on two screens and in both schemes; nothing is cut."""
        browser = self.browser

        def shoot(name, narrow_tab=None):
            for scheme in ("light", "dark"):
                for width, height in ((1280, 800), (390, 800)):
                    browser.set_screen(width, height, scheme)
                    if width == 390 and narrow_tab:
                        browser.run("document.body.classList.add('panel-open')")
                    elif width == 390:
                        browser.run("document.body.classList.remove('panel-open')")
                    cut = browser.run(CUT, width)
                    self.assertEqual(cut, [], f"{name} at {width}")
                    # Colours change in 80 ms.
                    browser.wait(f"contrast in {name}, {scheme}", lambda: browser.run(CONTRAST) == [])
                    browser.shot(f"view-{name}-{width}-{scheme}")
            browser.set_screen(1280, 800)

        shoot("empty")
        self.stranger()
        browser.wait_text("#failures", "ca.pem")
        shoot("failed")
        browser.find("#failures button").click()
        self.push()
        self.push(payload={"aps": {"title": "Hello"}, "id": None}, apns_push_type=None)
        last = self.push(payload={"aps": {"alert": {"title": "Order shipped", "body": "On Friday"}, "badge": 3}})
        browser.open(last)
        shoot("hints")
        browser.find("#compare").click()
        browser.wait_text("[data-field=comparison]", "Compared")
        shoot("comparison", narrow_tab="push")
        browser.find("#answer option[value=Unregistered]").click()
        self.push(payload={"aps": {"alert": "Gone"}})
        browser.tab("faults")
        browser.wait_text(".fault-list", "Unregistered")
        browser.find("#message-close").click()
        shoot("fault", narrow_tab="faults")
        browser.keys(Keys.ESCAPE)
        browser.find("#help").click()
        shoot("help")
        browser.keys(Keys.ESCAPE)

    # Use

    def test_keyboard(self):
        browser = self.browser
        orders = [self.push(payload={"aps": {"alert": f"Number {number}"}}) for number in range(40)]
        newest = orders[::-1]
        browser.wait_text("#shown", "40 pushes")
        browser.keys("/")
        self.assertEqual(browser.run("return document.activeElement.id"), "search")
        browser.keys("a/b")
        browser.wait_text("#empty", "No push matches")
        browser.keys(Keys.BACKSPACE * 3, Keys.ESCAPE)
        self.assertEqual(browser.run("return document.activeElement.id"), "list")
        browser.wait("all rows", lambda: browser.orders()[:1] == newest[:1] and not browser.all(".chip"))

        def active():
            return browser.find("#list").get_attribute("aria-activedescendant")

        browser.wait("the newest push is selected", lambda: browser.find(
            f"#push-{newest[0]}").get_attribute("aria-selected") == "true")
        browser.keys(Keys.ARROW_DOWN)
        self.assertEqual(active(), f"push-{newest[1]}")
        browser.keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_UP)
        self.assertEqual(active(), f"push-{newest[2]}")
        outline = browser.run("return getComputedStyle(document.querySelector('.row.active')).boxShadow")
        self.assertNotEqual(outline, "none", "the active row is not visible")
        browser.keys(Keys.END)
        self.assertEqual(active(), f"push-{newest[-1]}")
        browser.wait("the last row", lambda: browser.orders()[-1] == newest[-1])
        browser.keys(Keys.ENTER)
        browser.wait_text("#panel-push", "Number 0")
        self.assertEqual(browser.run("return document.activeElement.id"), "panel-push")
        self.assertEqual(browser.find(f"#push-{newest[-1]}").get_attribute("aria-selected"), "true")
        browser.keys(Keys.ESCAPE)
        browser.wait_text("#panel-push", "No push selected")
        self.assertEqual(browser.run("return document.activeElement.id"), "list")
        browser.keys(Keys.HOME, "p")
        self.assertEqual(browser.find("#pause").get_attribute("aria-pressed"), "true")
        browser.find("#tab-push").click()
        browser.keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
        self.assertEqual(browser.run("return document.activeElement.id"), "tab-faults")
        self.assertTrue(browser.find("#panel-faults").is_displayed())
        unnamed = browser.run("""return [...document.querySelectorAll('button, input, select, textarea')]
            .filter((e) => !e.hidden)
            .filter((e) => !(e.textContent.trim() || e.getAttribute('aria-label') || e.labels?.length)).length""")
        self.assertEqual(unnamed, 0, "controls without a name")

    def fill(self):
        """Some pushes of each sort, to look at."""
        self.device((TOKEN, "app"))
        self.push("zz")
        self.push(apns_push_type="background", payload={"aps": {"content-available": 1}}, apns_priority="5")
        alert = {"title": "Order shipped", "body": "It arrives on Friday."}
        return self.push(payload={"aps": {"alert": alert, "badge": 3}})

    def test_light_and_dark_have_contrast(self):
        browser = self.browser
        order = self.fill()
        backgrounds = {}
        for scheme in ("light", "dark"):
            browser.set_screen(1280, 800, scheme)
            browser.open(order)
            for name in ("push", "device", "faults"):
                browser.tab(name)
                browser.wait("its content", lambda: len(browser.text(f"#panel-{name}")) > 100)
                poor = browser.run(CONTRAST)
                self.assertEqual(poor, [], f"{scheme}, {name}")
                browser.shot(f"{scheme}-{name}")
            backgrounds[scheme] = browser.run("return getComputedStyle(document.body).backgroundColor")
        self.assertNotEqual(backgrounds["light"], backgrounds["dark"])

    def test_narrow_screen_does_not_scroll_sideways(self):
        browser = self.browser
        order = self.fill()
        browser.set_screen(400, 800, scale=2)
        self.show()

        def check(name):
            self.assertEqual(browser.run("return document.documentElement.scrollWidth"), 400, name)
            wide = browser.run("""return [...document.querySelectorAll('body *')].filter((e) =>
                e.getClientRects().length > 0 && !e.closest('.visually-hidden, .skip')
                && getComputedStyle(e).visibility === 'visible' && e.getBoundingClientRect().right > 400.5)
                .map((e) => `${e.tagName} ${e.id} ${e.className}`)""")
            self.assertEqual(wide, [], name)
            browser.shot(f"narrow-{name}")

        browser.wait_text(f"#push-{order}", "Order shipped")
        check("list")
        browser.open(order)
        frame = browser.run("return getComputedStyle(document.querySelector('#panel-push')).outlineStyle")
        self.assertEqual(frame, "none", "only the keyboard needs a frame around the panel")
        check("push")
        self.assertFalse(browser.find("#list").is_displayed())
        browser.find("#show-device").click()
        browser.wait_text(".notification", "Order shipped")
        check("device")
        browser.tab("faults")
        browser.wait("the presets", lambda: browser.all(".preset"))
        check("faults")
        browser.find("#close-panel").click()
        self.assertTrue(browser.find("#list").is_displayed())
        browser.find("[data-open=device]").click()
        browser.wait_text(".notification", "Order shipped")

    def test_phone_shows_mostly_pushes(self):
        browser = self.browser
        order = self.fill()
        browser.set_screen(375, 667, scale=2)
        self.show()
        browser.wait_text(f"#push-{order}", "Order shipped")
        browser.shot("phone-list")
        bottom = "return Math.max(...[...document.querySelectorAll('.top, .charts')]" \
            ".map((e) => e.getBoundingClientRect().bottom))"
        share = browser.run(bottom) / 667
        figure("header and charts on a phone", f"{share:.0%} of the height")
        self.assertLess(share, 0.15)
        self.assertFalse(browser.find("#charts").is_displayed())
        self.assertEqual(browser.run("return document.documentElement.scrollWidth"), 375)
        browser.find("#show-charts").click()
        self.assertTrue(browser.find("#charts").is_displayed())
        browser.wait("drawn charts", lambda: browser.run(
            "return document.querySelector('#charts canvas').width") == round(browser.run(
                "return document.querySelector('#charts canvas').clientWidth * 2")))
        browser.shot("phone-charts")
        browser.find("#show-charts").click()
        self.assertFalse(browser.find("#charts").is_displayed())
        browser.set_screen(1280, 800)
        self.assertTrue(browser.find("#charts").is_displayed())
        self.assertFalse(browser.find("#show-charts").is_displayed())

    # Load

    def test_stays_responsive_under_load(self):
        browser = self.browser
        browser.driver.get_log("performance")
        # The time from the press of the button to the shown payload, as the page's own clock sees it.
        browser.run("""
            window.clicks = []; window.longTasks = []; window.pressed = undefined;
            const list = document.querySelector('#list');
            list.addEventListener('pointerdown', (e) => { window.pressed = e.timeStamp; }, true);
            new MutationObserver(() => {
                if (window.pressed === undefined || !document.querySelector('#panel-push [data-field=payload]')) return;
                window.clicks.push(performance.now() - window.pressed); window.pressed = undefined;
            }).observe(document.querySelector('#panel-push'), {subtree: true, childList: true});
            new PerformanceObserver((list) => window.longTasks.push(...list.getEntries().map((e) => e.duration)))
                .observe({type: 'longtask'});
        """)
        began = time.monotonic()
        self.simulator.load(PUSHES, RATE)
        received, most_rows, worst_wall = 0, 0, 0
        while received < PUSHES:
            self.assertLess(time.monotonic() - began, PUSHES / RATE * 2 + 60, f"only {received} pushes arrived")
            if browser.all(".row:not([hidden])"):
                clicked = time.monotonic()
                pointer = ActionChains(browser.driver)
                pointer.move_to_element_with_offset(browser.find("#list"), 0, -100).click().perform()
                browser.wait("a detail", lambda: browser.all("#panel-push [data-field=payload]"), 5)
                worst_wall = max(worst_wall, time.monotonic() - clicked)
                browser.keys(Keys.ESCAPE)
            most_rows = max(most_rows, browser.run("return document.querySelectorAll('.row').length"))
            browser.driver.get_log("performance")
            time.sleep(0.5)
            received = int(browser.text("[data-count=received]").replace(",", "") or 0)
        browser.wait_text("#shown", f"{PUSHES:,} pushes", 20)
        seconds = time.monotonic() - began
        browser.shot("load")
        clicks, tasks = browser.run("return [window.clicks, window.longTasks]")
        browser.command("HeapProfiler.collectGarbage")
        heap = browser.run("return performance.memory.usedJSHeapSize")
        figure("pushes", f"{PUSHES} in {seconds:.0f} s")
        median = sorted(clicks)[len(clicks) // 2]
        figure("click to detail", f"median {median:.0f} ms, longest {max(clicks):.0f} ms of {len(clicks)}; "
                                  f"with the driver at most {worst_wall * 1000:.0f} ms")
        figure("long tasks", f"{len(tasks)}, longest {max(tasks, default=0):.0f} ms")
        figure("rows in the document", most_rows)
        figure("heap", f"{heap / 1048576:.0f} MiB")
        self.assertLess(most_rows, 200)
        # Times say something only about a long load, and on a machine that does nothing else.
        if PUSHES >= 100_000:
            self.assertLess(max(clicks), 1000)
            self.assertLess(worst_wall, 1)
            self.assertLess(max(tasks, default=0), 500)
            self.assertLess(sum(tasks) / 1000 / seconds, 0.05, "the share of the time in tasks of more than 50 ms")
        # All of them are there: the filter finds the oldest, and the end of the list shows it.
        browser.find("#list").click()
        browser.keys(Keys.ESCAPE, Keys.END)
        oldest = browser.orders()[-1]
        self.assertEqual(browser.find(f"#push-{oldest}").get_attribute("aria-posinset"), str(PUSHES))
        token = self.simulator.call("GET", f"/v1/pushes/{oldest}")["deviceToken"]
        browser.find("#newer" if browser.find("#newer").is_displayed() else "#search").click()
        typed = time.monotonic()
        browser.find("#search").send_keys(token)
        browser.wait("the oldest push alone", lambda: browser.orders() == [oldest], 5)
        figure("search in all", f"{(time.monotonic() - typed) * 1000:.0f} ms, with the driver's typing")


# Elements beyond the right edge, and controls whose text does not fit into them.
CUT = r"""
    const width = arguments[0];
    const shown = (e) => e.getClientRects().length > 0 && !e.closest('.visually-hidden, .skip')
        && getComputedStyle(e).visibility === 'visible';
    const wide = [...document.querySelectorAll('body *')].filter((e) =>
        shown(e) && e.getBoundingClientRect().right > width + 0.5);
    const clipped = [...document.querySelectorAll('button, h2, h3, label, dt, li p')].filter((e) =>
        shown(e) && e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX !== 'visible');
    return [...wide, ...clipped].map((e) => `${e.tagName} ${e.id} ${e.className}`);
"""


# Texts whose contrast to the opaque background behind them is below 4.5 (3 for large text).
CONTRAST = r"""
    const parse = (text) => {
        const parts = text.match(/[\d.]+/g).map(Number);
        return { rgb: parts.slice(0, 3), alpha: parts[3] ?? 1 };
    };
    const over = (top, alpha, bottom) => top.map((value, index) => value * alpha + bottom[index] * (1 - alpha));
    const light = (rgb) => rgb.map((v) => v / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
        .reduce((sum, v, index) => sum + v * [0.2126, 0.7152, 0.0722][index], 0);
    const gradientOf = (style) => [...style.backgroundImage.matchAll(/rgb\([^)]*\)/g)].map((m) => parse(m[0]).rgb);
    function backgrounds(element) {
        if (!element) return [[255, 255, 255]];
        const style = getComputedStyle(element);
        const gradient = gradientOf(style);
        if (gradient.length > 0 && element.matches('.screen')) return gradient;
        const { rgb, alpha } = parse(style.backgroundColor);
        if (alpha === 1) return [rgb];
        return backgrounds(element.parentElement).map((below) => over(rgb, alpha, below));
    }
    const poor = [];
    for (const element of document.querySelectorAll('body *')) {
        const hasText = [...element.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
        if (!hasText || element.getClientRects().length === 0) continue;
        if (element.closest('.visually-hidden, .skip, option, :disabled')) continue;
        const style = getComputedStyle(element);
        if (style.visibility !== 'visible') continue;
        const isLarge = parseFloat(style.fontSize) >= 18.66;
        for (const background of backgrounds(element)) {
            const { rgb, alpha } = parse(style.color);
            const [a, b] = [light(over(rgb, alpha, background)), light(background)].sort((x, y) => y - x);
            const ratio = (a + 0.05) / (b + 0.05);
            const text = element.textContent.trim().slice(0, 40);
            if (ratio < (isLarge ? 3 : 4.5)) poor.push(`${text}: ${ratio.toFixed(2)}`);
        }
    }
    return [...new Set(poor)];
"""


class Names(unittest.TextTestResult):
    """Prints each test's name and a closing line with the counts."""

    def startTest(self, test):
        print(test.id().split(".")[-1], flush=True)
        super().startTest(test)


if __name__ == "__main__":
    names = [f"PageTests.{name}" for name in sys.argv[1:]]
    module = sys.modules["__main__"]
    loader = unittest.defaultTestLoader
    suite = loader.loadTestsFromNames(names, module) if names else loader.loadTestsFromModule(module)
    result = unittest.TextTestRunner(stream=sys.stdout, resultclass=Names, verbosity=0).run(suite)
    failed = len({test.id().split(" ")[0] for test, _ in result.failures + result.errors})
    skipped = len(result.skipped)
    print(f"page: {result.testsRun - failed - skipped} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed or result.testsRun == 0 else 0)
