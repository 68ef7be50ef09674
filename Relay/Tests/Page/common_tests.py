"""What the page does with every relay, be it a mock or a real one."""
import os
import re
import time
import urllib.parse
import urllib.request
import uuid

from selenium.webdriver.common.keys import Keys

from browser import CONTRAST, WIDE
from case import TABS, PageCase, RealRelay, call
from mock_relay import POLICY, TOTALS, MockRelay, fill

# What would turn text into markup or code.
FORBIDDEN = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|srcdoc"
    r"|\beval\(|new Function\(|localStorage|document\.cookie"
)
# Another origin; the namespace of SVG is no address.
ADDRESS = re.compile(r"https?://(?!www\.w3\.org/2000/svg)")


class CommonTests(PageCase):
    """What the page does with every relay."""

    @staticmethod
    def make_relay():
        if RealRelay.url:
            return RealRelay()
        relay = MockRelay(token="operator-token.0123")
        fill(relay)
        return relay

    def test_files_are_static_and_safe(self):
        with urllib.request.urlopen(self.relay.url + "/") as response:
            directives = response.headers["content-security-policy"].split(";")
            self.assertEqual({" ".join(directive.split()) for directive in directives},
                             {" ".join(directive.split()) for directive in POLICY.split(";")})
            self.assertEqual(response.headers["x-content-type-options"], "nosniff")
            self.assertEqual(response.headers["referrer-policy"], "no-referrer")
            self.assertEqual(response.headers["content-type"], "text/html; charset=utf-8")
            html = response.read().decode()
        self.assertNotRegex(html, r"<script(?![^>]*\bsrc=)|\son\w+=|\sstyle=|<style")
        self.assertNotRegex(html, ADDRESS)
        files = ["/" + file for file in re.findall(r'(?:src|href)="([\w./]+)"', html)]
        read = {}
        while files:
            path = files.pop()
            if path in read:
                continue
            with urllib.request.urlopen(self.relay.url + path) as response:
                self.assertEqual(response.headers["x-content-type-options"], "nosniff")
                kind = "text/css" if path.endswith(".css") else "text/javascript"
                self.assertEqual(response.headers["content-type"], f"{kind}; charset=utf-8")
                read[path] = response.read().decode()
            files += [urllib.parse.urljoin(path, file) for file in re.findall(r'from "([^"]+)"', read[path])]
        self.assertGreater(len(read), 15)
        for path, text in read.items():
            self.assertNotRegex(text, FORBIDDEN, path)
            self.assertNotRegex(text, ADDRESS, path)
            if path.endswith(".css"):
                self.assertNotRegex(text, r"url\(|@import", path)

    def test_shows_the_overview(self):
        self.show()
        overview = call(self.relay, "GET", "/v1/overview")
        self.assertEqual(self.browser.text("#version"), overview["version"])
        self.assertRegex(self.browser.text("#capacity"), f"{overview['queue']['capacity']:,}")
        routes = [f"{r['app']}/{r['environment']}/{r['lane']}" for r in overview["routes"]]
        self.browser.wait("the routes", lambda: self.browser.values("tbody[data-route]", "data-route") == routes)
        for name in TOTALS:
            self.assertRegex(self.browser.text(f"[data-total={name}] + dd"), r"^[\d,]+$")

    def test_asks_for_the_token(self):
        if not self.relay.token:
            self.skipTest("the relay asks for no token")
        browser = self.browser
        self.allowed_errors = " 401 "
        self.show_without_token()
        browser.wait("the form", lambda: browser.is_shown("#login"))
        self.assertFalse(browser.find("#main").is_displayed())
        self.assertFalse(browser.find("#forget").is_displayed())
        self.assertEqual(browser.focused(), "token")
        browser.keys("a wrong token", Keys.ENTER)
        browser.wait_text("#login-note", "no spaces")
        browser.find("#token").clear()
        browser.find("#token").send_keys("wrong", Keys.ENTER)
        browser.wait_text("#login-note", "does not accept this token")
        self.assertEqual(browser.text("#state"), "No access")
        self.assertIsNone(browser.run("return sessionStorage.getItem('apns-relay-token')"))
        browser.find("#token").clear()
        browser.find("#token").send_keys(self.relay.token, Keys.ENTER)
        browser.wait_text("#state", "Ready")
        self.assertTrue(browser.find("#main").is_displayed())
        self.assertFalse(browser.find("#login").is_displayed())
        self.assertEqual(browser.find("#token").get_attribute("value"), "")
        # The token is in this tab's session storage, and nowhere else.
        kept = browser.run("return [sessionStorage.length, localStorage.length, document.cookie, location.href]")
        self.assertEqual(kept, [1, 0, "", self.relay.url + "/"])
        browser.driver.refresh()
        browser.wait_text("#state", "Ready")
        browser.click("#forget")
        browser.wait("the form", lambda: browser.is_shown("#login"))
        self.assertEqual(browser.run("return sessionStorage.length"), 0)
        self.assertEqual(browser.text("#version"), "", "what the token allowed to see is gone")

    def test_look_up_and_cancel_a_push(self):
        browser = self.browser
        later = int(time.time()) + 3600
        # A new token, so that nothing else is sent to it.
        answer = call(self.relay, "POST", "/v1/pushes", {
            "app": os.environ.get("RELAY_APP", "fern"), "token": uuid.uuid4().hex * 2, "notBefore": later,
            "deadline": later + 3600, "headers": {"apns-push-type": "alert"}, "payload": {"aps": {"alert": "Hello"}}})
        id = answer["pushes"][0]["id"]
        self.show()
        browser.keys("/")
        self.assertEqual(browser.focused("data-field"), "id")
        browser.keys(id.upper(), Keys.ENTER)
        browser.wait_text("#panel-push [data-field=title]", id)
        self.assertEqual(browser.text("#panel-push [data-field=state]"), "Queued")
        push = call(self.relay, "GET", f"/v1/pushes/{id}")
        for name in ("app", "environment", "lane", "token", "caller", "attempts"):
            self.assertEqual(browser.text(f"[data-field='push.{name}']"), str(push[name]), name)
        shown = browser.run("return new Date(arguments[0].replace(' ', 'T')).getTime() / 1000",
                            browser.text("[data-field='push.notBefore']"))
        self.assertEqual(shown, later)
        self.assertFalse(browser.is_shown("[data-field='outcome.outcome']"))
        browser.click("#panel-push [data-action^=Cancel]")
        browser.click("#confirm-no")
        self.assertEqual(call(self.relay, "GET", f"/v1/pushes/{id}")["state"], "queued")
        browser.click("#panel-push [data-action^=Cancel]")
        browser.click("#confirm-yes")
        browser.wait_text("#panel-push [data-field=state]", "Settled")
        self.assertEqual(browser.text("[data-field='outcome.outcome']"), "not-sent")
        self.assertEqual(browser.text("[data-field='outcome.code']"), "cancelled")
        self.assertFalse(browser.is_shown("#panel-push [data-action^=Cancel]"))
        self.assertEqual(call(self.relay, "GET", f"/v1/pushes/{id}")["state"], "settled")

    def test_pause_slow_and_stop_a_batch(self):
        browser = self.browser
        later = int(time.time()) + 3600
        answer = call(self.relay, "POST", "/v1/batches", {
            "app": os.environ.get("RELAY_APP", "fern"), "headers": {"apns-push-type": "alert"},
            "payload": {"aps": {"alert": "Hello"}}, "tokens": [uuid.uuid4().hex * 2 for _ in range(5)],
            "notBefore": later, "deadline": later + 3600, "metadata": {"campaign": 17}})
        id = answer["batch"]["id"]
        batch = f"[data-batch='{id}']"
        now = lambda: call(self.relay, "GET", f"/v1/batches/{id}")
        self.show()
        browser.wait_text(f"{batch} [data-field=progress]", "0 of 5, 0 %")
        browser.click(f"{batch} summary")
        self.assertEqual(browser.text(f"{batch} [data-field='batch.metadata']"), '{"campaign":17}')
        browser.click(f"{batch} [data-action='Save dead tokens']")
        browser.wait_text(f"{batch} details .note", "no token of this batch")
        browser.click(f"{batch} [data-action=Pause]")
        browser.wait_text(f"{batch} [data-field=state]", "Paused")
        self.assertEqual(now()["state"], "paused")
        browser.click(f"{batch} [data-action=Slow…]")
        browser.find("#confirm-value").send_keys("250", Keys.ENTER)
        browser.wait_text(f"{batch} [data-field=progress]", "limit 250/s")
        self.assertEqual(now()["pushesPerSecond"], 250)
        browser.click(f"{batch} [data-action=Slow…]")
        browser.find("#confirm-value").clear()
        browser.click("#confirm-yes")
        browser.wait_text(f"{batch} [data-field=progress]", "no limit")
        self.assertIsNone(now()["pushesPerSecond"])
        browser.click(f"{batch} [data-action=Resume]")
        browser.wait("resumed", lambda: now()["state"] == "running")
        browser.click(f"{batch} [data-action=Stop…]")
        browser.click("#confirm-yes")
        browser.wait_text(f"{batch} [data-field=state]", "Cancelled")
        browser.wait_text(f"{batch} [data-part=notSent]", "5")
        self.assertEqual(now()["state"], "cancelled")

    def test_look_up_of_an_unknown_push(self):
        self.allowed_errors = " 404 "
        self.show()
        self.browser.keys("/", str(uuid.uuid4()), Keys.ENTER)
        self.browser.wait_text("#panel-push [data-field=note]", "No push has this id")
        self.assertFalse(self.browser.is_shown("#panel-push [data-field=title]"))

    def test_keyboard(self):
        browser = self.browser
        self.show()
        browser.find("#tab-outcomes").click()
        browser.keys(Keys.ARROW_RIGHT)
        self.assertEqual(browser.focused(), "tab-parked")
        self.assertTrue(browser.find("#panel-parked").is_displayed())
        self.assertFalse(browser.find("#panel-outcomes").is_displayed())
        browser.keys(Keys.ARROW_LEFT, Keys.ARROW_LEFT)
        self.assertEqual(browser.focused(), "tab-push")
        browser.keys(Keys.HOME)
        self.assertEqual(browser.focused(), "tab-outcomes")
        browser.keys(Keys.TAB)
        self.assertEqual(browser.focused("data-field"), "app", "one tab of the list is in the order, the selected one")
        for name in TABS:
            browser.tab(name)
            browser.wait("its content", lambda: browser.find(f"#panel-{name}").is_displayed())
            unnamed = browser.run("""return [...document.querySelectorAll('button, input, summary, svg[role=img], [role=meter], [role=progressbar]')]
                .filter((e) => e.getClientRects().length > 0)
                .filter((e) => !(e.textContent.trim() || e.getAttribute('aria-label')
                    || [...e.labels ?? []].some((label) => label.textContent.trim())))
                .map((e) => e.outerHTML)""")
            self.assertEqual(unnamed, [], "controls without a name")
        browser.find("#tab-push").click()
        browser.keys(Keys.TAB)
        outline = browser.run("return getComputedStyle(document.activeElement).outlineStyle")
        self.assertEqual(outline, "solid", "the focus is not visible")

    def test_light_and_dark_have_contrast(self):
        browser = self.browser
        self.show()
        backgrounds = {}
        for scheme in ("light", "dark"):
            browser.set_screen(1280, 900, scheme)
            for name in TABS:
                browser.tab(name)
                browser.wait("its content", lambda: len(browser.text(f"#panel-{name}")) > 5)
                self.assertEqual(browser.run(CONTRAST), [], f"{scheme}, {name}")
                browser.shot(f"{scheme}-{name}")
            backgrounds[scheme] = browser.run("return getComputedStyle(document.body).backgroundColor")
        self.assertNotEqual(backgrounds["light"], backgrounds["dark"])

    def test_narrow_screen_does_not_scroll_sideways(self):
        browser = self.browser
        self.show()
        for width in (360, 700, 1000, 1100):
            browser.set_screen(width, 800)
            for name in TABS:
                browser.tab(name)
                browser.wait("its content", lambda: len(browser.text(f"#panel-{name}")) > 5)
                self.assertEqual(browser.run(WIDE), [], f"{name} at {width}")
            browser.run("scrollTo(0, 0)")
            browser.shot(f"narrow-{width}")
        # On a wide screen, only the sections scroll.
        self.assertEqual(browser.run("return document.documentElement.scrollHeight - innerHeight"), 0)
