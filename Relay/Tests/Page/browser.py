"""Headless Chromium, for the tests of the relay's page."""
import json
import os
import pathlib
import time

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By

HERE = pathlib.Path(__file__).resolve().parent
SHOTS = pathlib.Path(os.environ.get("PAGE_SHOTS", HERE.parent.parent / ".build/page"))


# How long tests wait, in seconds: longer than any stall of the machine, so that only a fault exceeds it.
PATIENCE = 120


class Browser:
    def __init__(self):
        options = webdriver.ChromeOptions()
        for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        chromium = os.environ.get("PAGE_CHROMIUM")
        if chromium:
            options.binary_location = chromium
        self.driver = webdriver.Chrome(options, Service(os.environ.get("PAGE_CHROMEDRIVER", "/usr/bin/chromedriver")))
        self.driver.set_script_timeout(PATIENCE)
        self.set_screen(1280, 900)

    def set_screen(self, width, height, scheme="light", scale=1):
        self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False)
        self.command("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"}])

    def command(self, name, **parameters):
        return self.driver.execute_cdp_cmd(name, parameters)

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def click(self, selector):
        self.wait(f"{selector} to click", lambda: self.all(selector) and self.find(selector).is_displayed())
        self.find(selector).click()

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0])?.textContent ?? ''", selector)

    def texts(self, selector):
        return self.run("return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)", selector)

    def values(self, selector, name):
        """The values of an attribute."""
        script = "return [...document.querySelectorAll(arguments[0])].map((e) => e.getAttribute(arguments[1]))"
        return self.run(script, selector, name)

    def is_shown(self, selector):
        return any(element.is_displayed() for element in self.all(selector))

    def stop_timers(self):
        """Ends all timers of the page, and lets it start no others. What it still does, it does at once."""
        self.run("for (let id = setTimeout(() => {}); id > 0; id--) clearTimeout(id); window.setTimeout = () => 0")

    def focused(self, name="id"):
        return self.run("return document.activeElement?.getAttribute(arguments[0])", name)

    def wait(self, what, condition, seconds=PATIENCE):
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

    def wait_text(self, selector, text, seconds=PATIENCE):
        try:
            return self.wait(f"'{text}' in {selector}", lambda: text in self.text(selector), seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}; it has '{self.text(selector)}'") from None

    def shot(self, name):
        SHOTS.mkdir(parents=True, exist_ok=True)
        self.driver.save_screenshot(str(SHOTS / f"{name}.png"))

    def keys(self, *keys):
        ActionChains(self.driver).send_keys(*keys).perform()

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
        messages = [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
        # Chromium may ask for the icon of a document that names none, such as JSON.
        return [message for message in messages if "/favicon.ico - " not in message]


# Texts whose contrast to the opaque background behind them is below 4.5 (3 for large text).
CONTRAST = r"""
    const parse = (text) => {
        const parts = text.match(/[\d.]+/g).map(Number);
        return { rgb: parts.slice(0, 3), alpha: parts[3] ?? 1 };
    };
    const over = (top, alpha, bottom) => top.map((value, index) => value * alpha + bottom[index] * (1 - alpha));
    const light = (rgb) => rgb.map((v) => v / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
        .reduce((sum, v, index) => sum + v * [0.2126, 0.7152, 0.0722][index], 0);
    function background(element) {
        if (!element) return [255, 255, 255];
        const { rgb, alpha } = parse(getComputedStyle(element).backgroundColor);
        return alpha === 1 ? rgb : over(rgb, alpha, background(element.parentElement));
    }
    const poor = [];
    for (const element of document.querySelectorAll('body *')) {
        const hasText = [...element.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
        if (!hasText || element.getClientRects().length === 0) continue;
        if (element.closest('.visually-hidden, .skip, option, :disabled')) continue;
        const style = getComputedStyle(element);
        const below = background(element);
        const { rgb, alpha } = parse(style.color);
        const [a, b] = [light(over(rgb, alpha, below)), light(below)].sort((x, y) => y - x);
        const ratio = (a + 0.05) / (b + 0.05);
        const text = element.textContent.trim().slice(0, 40);
        if (ratio < (parseFloat(style.fontSize) >= 18.66 ? 3 : 4.5)) poor.push(`${text}: ${ratio.toFixed(2)}`);
    }
    return [...new Set(poor)];
"""

# What is wider than the window or than its scrolling place.
WIDE = r"""
    const width = document.documentElement.clientWidth;
    const wide = [...document.querySelectorAll('body *')].filter((e) =>
        e.getClientRects().length > 0 && !e.closest('.visually-hidden, .skip, svg')
        && e.getBoundingClientRect().right > width + 0.5).map((e) => `${e.tagName} ${e.id} ${e.className}`);
    const places = '.overview, .panel-body, .panel, body, html, table, .batch, .tabs, .dialog';
    for (const e of document.querySelectorAll(places)) {
        const isWider = e.clientWidth > 0 && e.scrollWidth > e.clientWidth;
        if (isWider) wide.push(`${e.tagName} ${e.id} ${e.className} scrolls`);
    }
    const cells = [...document.querySelectorAll('.route-table tbody tr:first-child')].map((row) => [...row.children]);
    for (const row of cells) {
        const range = document.createRange();
        const rects = row.filter((e) => e.getClientRects().length > 0).map((e) => {
            range.selectNodeContents(e);
            return range.getBoundingClientRect();
        });
        for (let i = 1; i < rects.length; i++) {
            if (rects[i - 1].right > rects[i].left) wide.push(`${row[0].textContent}: cells overlap`);
        }
    }
    return [...new Set(wide)];
"""
