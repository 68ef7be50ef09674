"""The panel with outcomes and pushes, and the table of webhooks."""
import time

from selenium.webdriver.common.keys import Keys

from case import MockCase


class PanelTests(MockCase):
    # Feeds

    def test_outcomes_show_the_newest(self):
        browser = self.browser
        ids = [self.relay.settle(gap=1 + number % 7)["id"] for number in range(130)][::-1]
        self.show()
        browser.wait("the newest", lambda: self.shown_pushes() == ids[:50])
        self.assertLessEqual(self.relay.count("GET", "/v1/outcomes.*"), 4)
        # New outcomes are counted, and do not move what one reads.
        new = [self.relay.settle()["id"] for _ in range(3)][::-1]
        with self.relay.lock:
            self.relay.totals["accepted"] += 2
            self.relay.totals["unknown"] += 1
        browser.wait_text("#panel-outcomes [data-action=newest]", "3 newer")
        self.assertEqual(self.shown_pushes(), ids[:50])
        browser.click("#panel-outcomes [data-action=newest]")
        browser.wait("the new ones", lambda: self.shown_pushes() == new + ids[:47])
        self.assertEqual(browser.text("#panel-outcomes [data-action=newest]"), "Refresh")

    def test_outcomes_after_a_long_gap(self):
        """A failover skips many positions. What is before them is not searched."""
        ids = [self.relay.settle(gap=gap)["id"] for gap in [1] * 300 + [1_000_000_000] + [40] * 30][::-1]
        self.show()
        self.browser.wait("the newest", lambda: self.shown_pushes() == ids[:31])
        self.assertLessEqual(self.relay.count("GET", "/v1/outcomes.*"), 4)

    def test_outcome_rows(self):
        browser = self.browser
        self.relay.settle({"outcome": "accepted", "status": 200}, app="fern", token="aa" * 32)
        # The message of APNs' rejections begins with status and reason.
        self.relay.settle({"outcome": "rejected", "status": 400, "reason": "BadTopic",
                           "message": "400 BadTopic: the topic is invalid"}, app="grasscove", lane="bulk")
        self.relay.settle({"outcome": "not-sent", "code": "expired", "message": "Too late."})
        self.relay.settle("not-processed")
        self.relay.settle("unknown")
        self.show()
        browser.wait("five rows", lambda: len(self.shown_pushes()) == 5)
        self.assertEqual(browser.texts("#panel-outcomes .pill"),
                         ["Unknown", "Not processed", "Not sent", "Rejected", "Accepted"])
        rows = browser.texts("#panel-outcomes [data-push]")
        self.assertIn("expired: Too late.", rows[2])
        self.assertIn("grasscove · production · bulk", rows[3])
        self.assertIn("400 BadTopic: the topic is invalid", rows[3])
        self.assertEqual(rows[3].count("400 BadTopic"), 1)
        self.assertIn("aaaaaaaa…aaaaaa", rows[4])

    def test_outcomes_of_one_app(self):
        browser = self.browser
        rare = [self.relay.settle(app="rare" if number % 300 == 7 else "fern")["id"] for number in range(700)]
        rare = [id for number, id in enumerate(rare) if number % 300 == 7][::-1]
        self.show()
        browser.wait("fifty", lambda: len(self.shown_pushes()) == 50)
        browser.find("#panel-outcomes [data-field=app]").send_keys("rare", Keys.ENTER)
        browser.wait("the app's outcomes", lambda: self.shown_pushes() == rare)
        browser.find("#panel-outcomes [data-field=app]").clear()
        browser.find("#panel-outcomes [data-field=app]").send_keys("nobody", Keys.ENTER)
        browser.wait_text("#panel-outcomes [data-field=note]", "There is no recent outcome.")
        self.assertEqual(self.shown_pushes(), [])

    def test_a_feed_that_fails_says_so_and_recovers(self):
        browser = self.browser
        self.allowed_errors = " 503 "
        push = self.relay.settle()
        self.relay.fail("GET", "/v1/outcomes", (503, {"error": {"code": "unavailable", "message": "Disk is slow."}}))
        self.show()
        browser.wait_text("#panel-outcomes [data-field=note]", "could not be loaded: Disk is slow.")
        self.relay.faults.clear()
        browser.wait("the outcome", lambda: self.shown_pushes() == [push["id"]])
        self.assertEqual(browser.text("#panel-outcomes [data-field=note]"), "")

    # One push

    def test_all_fields_of_a_push(self):
        browser = self.browser
        push = self.relay.settle(
            {"outcome": "rejected", "status": 429, "reason": "TooManyRequests", "code": "c0de", "message": "Slow down.",
             "apnsUniqueID": "unique-1", "attempts": 3, "tokenInvalidSince": 1_795_000_000, "advice": "retryLater",
             "retryAfterSeconds": 1_500}, attempts=4, caller="warehouse")
        self.show()
        browser.click(f"[data-push='{push['id']}']")
        browser.wait_text("#panel-push [data-field=title]", push["id"])
        self.assertEqual(browser.find("#tab-push").get_attribute("aria-selected"), "true")
        for name, value in {"outcome": "rejected", "status": "429", "reason": "TooManyRequests", "code": "c0de",
                            "message": "Slow down.", "apnsUniqueID": "unique-1", "attempts": "3",
                            "advice": "retryLater", "retryAfterSeconds": "1,500"}.items():
            self.assertEqual(browser.text(f"[data-field='outcome.{name}']"), value, name)
        self.assertRegex(browser.text("[data-field='outcome.tokenInvalidSince']"), r"^2026-11-1\d \d\d:\d\d:\d\d$")
        self.assertEqual(browser.text("[data-field='push.attempts']"), "4")
        self.assertEqual(browser.text("[data-field='push.caller']"), "warehouse")
        for name in ("queuedAt", "notBefore", "deadline", "settledAt"):
            self.assertRegex(browser.text(f"[data-field='push.{name}']"), r"^20\d\d-", name)
        # Each member of the response is shown.
        shown = browser.values("#panel-push dd", "data-field")
        self.assertEqual({*shown}, {f"push.{name}" for name in push if name not in ("id", "state", "outcome")}
                         | {f"outcome.{name}" for name in push["outcome"]})

    def test_an_open_push_follows_its_state(self):
        browser = self.browser
        push = self.relay.push("queued")
        self.show()
        browser.keys("/", push["id"], Keys.ENTER)
        browser.wait_text("#panel-push [data-field=state]", "Queued")
        self.assertTrue(browser.is_shown("#panel-push [data-action^=Cancel]"))
        push["state"] = "written"
        browser.wait_text("#panel-push [data-field=state]", "Written")
        self.assertFalse(browser.is_shown("#panel-push [data-action^=Cancel]"))
        push["state"] = "settled"
        browser.wait_text("#panel-push [data-field=state]", "Settled")
        before = self.relay.count("GET", "/v1/pushes/.*")
        self.tick(2)
        self.assertEqual(self.relay.count("GET", "/v1/pushes/.*"), before, "a settled push does not change")

    def test_a_push_that_cannot_be_cancelled_says_so(self):
        browser = self.browser
        self.allowed_errors = " 409 "
        push = self.relay.push("queued")
        self.show()
        browser.keys("/", push["id"], Keys.ENTER)
        browser.click("#panel-push [data-action^=Cancel]")
        push["state"] = "written"
        browser.click("#confirm-yes")
        browser.wait_text("#panel-push .row-actions .note", "Cancel push: The push is being sent.")
        self.assertTrue(browser.is_shown("#panel-push .row-actions .note"))

    # Webhooks

    def test_webhooks(self):
        browser = self.browser
        now = time.time()
        self.relay.clock = lambda: now
        self.relay.webhook("shop", position=12_345)
        request = {"id": "ware house-7/0", "outcomes": 500, "since": now - 7_200}
        warehouse = self.relay.webhook("ware house", failures=4, lastError="connection refused", nextAttempt=now + 61,
                                       request=request)
        self.relay.problems.append({
            "cause": "webhook", "effect": "Outcomes do not reach a webhook.", "message": "Nothing was acknowledged.",
            "remedy": "Skip it.", "since": now - 60, "waiting": 0, "apps": []})
        self.show("Outcomes wait")
        self.assertNotIn("wait", browser.text("[data-problem=webhook] [data-field=when]"))
        states = lambda: browser.texts("[data-webhook] [data-cell=state]")
        self.assertEqual(states(), ["Working", "Failing"])
        self.assertEqual(browser.text("[data-webhook=shop] [data-cell=position]"), "12,345")
        self.assertIn("https://shop.example/outcomes", browser.text("[data-webhook=shop]"))
        self.assertFalse(browser.is_shown("[data-webhook=shop] button"))
        error = browser.text("[data-webhook='ware house'] [data-field=note]")
        self.assertRegex(error, r"^4 failed attempts: connection refused\. Next attempt at [\d: -]+, in 1 min 1 s\.$")
        self.assertEqual(browser.text("[data-webhook='ware house'] [data-cell=request]"), "500 outcomes, 2 hware house-7/0")
        skip = "[data-webhook='ware house'] [data-action^=Skip]"
        self.allowed_errors = " 503 "
        self.relay.fail("POST", "/v1/webhooks/.*", (503, {"error": {"code": "unavailable", "message": "Busy."}}))
        browser.click(skip)
        self.assertIn("500 outcomes", browser.text("#confirm-text"))
        browser.click("#confirm-yes")
        browser.wait_text("[data-webhook='ware house'] .row-actions .note", "Skip the request: Busy.")
        self.relay.faults.clear()
        self.relay.problems.clear()
        browser.click(skip)
        browser.click("#confirm-yes")
        browser.wait("the button to go", lambda: not browser.is_shown(skip), 1.5)
        self.assertIsNone(warehouse["request"])
        self.assertEqual(self.relay.count("POST", "/v1/webhooks/ware%20house/requests/ware%20house-7%2F0/skip"), 2)
        self.assertEqual(states(), ["Working", "Working"])
