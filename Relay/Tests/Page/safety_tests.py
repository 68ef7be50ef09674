"""Text from outside stays text."""
import time

from selenium.webdriver.common.keys import Keys

from browser import WIDE
from case import TABS, MockCase

ATTACK = "<img src=x onerror=window.hacked=1>"
SCRIPT = "</script><script>window.hacked=2</script>"
REVERSE = "\u202egnp.elif\u202c\u2066\u0000"
LONG = "W" * 300


class SafetyTests(MockCase):
    def test_hostile_text_stays_text(self):
        browser = self.browser
        self.allowed_errors = " 503 "
        elements = "return document.querySelectorAll('img, script, iframe, style, link, a').length"
        self.show()
        before = browser.run(elements)
        texts = [ATTACK, SCRIPT, REVERSE, LONG, "__proto__", "javascript:window.hacked=3"]
        now = time.time()
        self.relay.version = ATTACK + LONG
        self.relay.reason = SCRIPT + REVERSE + LONG
        for text in texts:
            self.relay.route(text, text, text, state="paused", reason=text, pausedUntil=now + 60, queued=10**7,
                             oldestDue=now - 10**7)
            outcome = {"outcome": text, "status": text, "reason": text, "message": text, "code": text, "advice": text,
                       "apnsUniqueID": text, "tokenInvalidSince": now}
            self.relay.settle(outcome, app=text, environment=text, lane=text, token=text, caller=text)
            self.relay.push("parked", outcome, app=text, environment=text, lane=text, token=text)
            self.relay.batch(text, name=text, app=text, environment=text, caller=text, idempotencyKey=text, metadata={text: text})
            self.relay.webhook(text, url=text, failures=1, lastError=text, nextAttempt=now,
                               request={"id": text, "outcomes": 1, "since": now})
        self.relay.callers = self.relay.apps = [
            {"name": text, "unsettled": 1, "capacity": 2, "pushesPerSecond": 1, "available": 1} for text in texts]
        self.relay.routes[0]["state"] = ATTACK
        browser.wait("the routes", lambda: len(browser.all("tbody[data-route]")) == len(texts))

        def check(name):
            self.assertIsNone(browser.run("return window.hacked ?? null"), name)
            self.assertEqual(browser.run(elements), before, f"{name}: elements came from text")
            self.assertEqual(browser.run(WIDE), [], f"{name}: text is wider than its place")
            self.assertNotIn("\u202e", browser.text("body"), name)

        self.assertIn(ATTACK, browser.text("#version"))
        self.assertIn(SCRIPT + "\\u202egnp.elif", browser.text("#reason"))
        self.assertIn(ATTACK, browser.text("tbody[data-route] .main"))
        self.assertIn(ATTACK, browser.text("[data-route] .pill"))
        self.assertIn(SCRIPT, browser.texts("[data-route] .below")[1])
        browser.wait("the batches", lambda: len(browser.all("[data-batch]")) == len(texts))
        self.assertIn(ATTACK, browser.text("#batches"))
        self.assertIn(ATTACK, browser.text("#quotas"))
        self.assertIn(ATTACK, browser.text("#webhooks"))
        browser.run("for (const details of document.querySelectorAll('.batch details')) details.open = true")
        browser.click("#panel-outcomes [data-action=newest]")
        browser.wait("the outcomes", lambda: len(self.shown_pushes()) == len(texts))
        for width in (1280, 400):
            browser.set_screen(width, 900)
            for name in TABS[:-1]:
                browser.tab(name)
                browser.wait("its content", lambda: len(browser.all(f"#panel-{name} [data-push]")) >= len(texts))
                self.assertIn(ATTACK, browser.text(f"#panel-{name}"))
                self.assertIn(SCRIPT, browser.text(f"#panel-{name}"))
                check(f"{name} at {width}")
                browser.shot(f"hostile-{name}-{width}")
        browser.set_screen(1280, 900)
        browser.tab("parked")
        browser.click("[data-group^='<img'] [data-action^=Drop]")
        self.assertIn(ATTACK, browser.text("#confirm-text"))
        check("the dialog")
        browser.keys(Keys.ESCAPE)
        browser.tab("outcomes")
        browser.click(f"#panel-outcomes [data-push='{self.relay.feed[0][1]}']")
        browser.wait_text("#panel-push [data-field='push.token']", ATTACK)
        self.assertEqual(browser.text("#panel-push [data-field='outcome.reason']"), ATTACK)
        check("a push")
        # The message of an error, and an id that is no id.
        self.relay.fail("GET", "/v1/pushes/.*", (503, {"error": {"code": ATTACK, "message": ATTACK + REVERSE}}))
        browser.find("#tab-push").click()
        browser.keys("/", "../../overview?x=<b>", Keys.ENTER)  # It replaces the present id.
        browser.wait_text("#panel-push [data-field=note]", ATTACK)
        self.assertEqual(self.relay.count("GET", "/v1/pushes/..%2F..%2Foverview%3Fx%3D%3Cb%3E"), 1)
        check("an error")
