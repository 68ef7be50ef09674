"""The batches: their progress, and the buttons that pause, slow and stop them."""
import pathlib
import re
import tempfile
import threading
import time

from selenium.webdriver.common.keys import Keys

from case import MockCase


class BatchTests(MockCase):
    def batch(self, batch, selector=""):
        return f"[data-batch='{batch['id']}'] {selector}"

    def shown_batches(self):
        return self.browser.values("[data-batch]", "data-batch")

    def progress(self, batch):
        return self.browser.text(self.batch(batch, "[data-field=progress]"))

    def actions(self, batch):
        """The buttons that are shown."""
        return [button.get_attribute("data-action") for button in self.browser.all(self.batch(batch, "button"))
                if button.is_displayed()]

    def wait_state(self, batch, text):
        self.browser.wait_text(self.batch(batch, "[data-field=state]"), text)

    def test_no_batches(self):
        self.show()
        self.browser.wait_text("#batches > [data-field=note]", "There are no batches.")
        self.assertTrue(self.browser.is_shown("#batches > [data-field=note]"))
        batch = self.relay.batch()
        self.browser.wait("the batch", lambda: self.shown_batches() == [batch["id"]])
        self.assertFalse(self.browser.is_shown("#batches > [data-field=note]"))

    def test_progress(self):
        browser = self.browser
        now = time.time()
        self.relay.clock = lambda: now
        outcomes = {"accepted": 4_000, "rejected": 500, "notProcessed": 20, "notSent": 30, "unknown": 50}
        batch = self.relay.batch("running", outcomes, queued=5_000, inFlight=300, parked=100, lines=10_004, invalid=4,
                                 createdAt=now, notBefore=now, caller="news", pushesPerSecond=0.5)
        self.show()
        self.wait_state(batch, "Sending")
        self.assertEqual(browser.text("#batches-count"), "1 sending")
        heading = browser.text(self.batch(batch, "h3"))
        self.assertEqual(heading, f"fernproduction · bulk · news · {time.strftime('%H:%M:%S', time.localtime(now))}")
        parts = dict(zip(browser.values(self.batch(batch, "dd[data-part]"), "data-part"),
                         browser.texts(self.batch(batch, "dd[data-part]"))))
        self.assertEqual(parts, {"accepted": "4,000", "rejected": "500", "notProcessed": "20", "notSent": "30",
                                 "unknown": "50", "inFlight": "300", "parked": "100", "queued": "5,000"})
        widths = browser.run("""const meter = document.querySelector(arguments[0]);
            return [...meter.children].map((e) => e.getBoundingClientRect().width / meter.getBoundingClientRect().width)
            """, self.batch(batch, ".meter"))
        for shown, count in zip(widths, [4_000, 500, 20, 30, 50, 300, 100, 5_000], strict=True):
            self.assertAlmostEqual(shown, count / 10_000, 3)
        meter = browser.find(self.batch(batch, "[role=progressbar]"))
        values = [meter.get_attribute(f"aria-value{name}") for name in ("min", "now", "max", "text")]
        self.assertEqual(values, ["0", "4600", "10000", "4,600 of 10,000, 46 %"])
        self.assertEqual(self.progress(batch), "4,600 of 10,000, 46 % · –/s, limit 0.5/s")
        # What there is none of is not listed.
        batch["outcomes"]["unknown"] = 0
        browser.wait("seven figures", lambda: not browser.is_shown(self.batch(batch, "[data-part=unknown]")))
        self.assertTrue(browser.is_shown(self.batch(batch, "[data-part=notSent]")))

    def test_speed_and_remaining_time(self):
        browser = self.browser
        batch = self.relay.batch(outcomes={"accepted": 1_000}, queued=90_000)
        times = lambda: [at for _, path, _, at in self.relay.requests if path.startswith("/v1/batches")]
        self.show()
        browser.wait_text(self.batch(batch, "[data-field=progress]"), "1,000 of 91,000")
        first = len(times())
        with self.relay.lock:
            batch["outcomes"].update(accepted=2_000, rejected=1_000)
            batch.update(queued=88_000)
        browser.wait_text(self.batch(batch, "[data-field=progress]"), "3,000 of 91,000")
        elapsed = times()[first] - times()[0]
        speed, left = re.search(r"· ([\d,.]+)/s, no limit · about (.+) left$", self.progress(batch)).groups()
        speed = float(speed.replace(",", ""))
        self.assertAlmostEqual(speed * elapsed, 2_000, delta=500)
        minutes, seconds = re.fullmatch(r"(?:(\d+) min)?(?: ?(\d+) s)?", left).groups()
        self.assertAlmostEqual(int(minutes or 0) * 60 + int(seconds or 0), 88_000 / speed, delta=2)
        # After a change, the speed before it says nothing.
        batch["pushesPerSecond"] = 10
        browser.wait_text(self.batch(batch, "[data-field=progress]"), "· –/s, limit 10/s")
        self.assertNotIn("left", self.progress(batch))

    def test_what_a_batch_waits_for(self):
        browser = self.browser
        now = time.time()
        self.relay.clock = lambda: now
        expected = {}
        for state, values, word, text, buttons in [
            ("receiving", {"queued": 10}, "Receiving", "nothing is sent until all devices are stored · no limit",
             ["Slow…", "Stop…"]),
            ("running", {"queued": 10, "notBefore": now + 3_600}, "Scheduled", "starts in 1 h · no limit",
             ["Pause", "Slow…", "Stop…"]),
            ("running", {"parked": 3}, "Sending", "only parked pushes are left: retry or drop them",
             ["Pause", "Slow…", "Stop…"]),
            ("paused", {"queued": 10, "pushesPerSecond": 1_500}, "Paused", "limit 1,500/s",
             ["Resume", "Slow…", "Stop…"]),
            ("cancelled", {"queued": 10}, "Cancelled", "the other pushes are being cancelled", []),
            ("cancelled", {}, "Cancelled", "", []), ("finished", {}, "Finished", "", []), ("new", {}, "new", "", []),
        ]:
            batch = self.relay.batch(state, {"accepted": 90}, **values)
            total = 90 + sum(values.get(name, 0) for name in ("queued", "parked"))
            done = f"90 of {total}, {90 * 100 // total} %"
            expected[batch["id"]] = (word, " · ".join(filter(None, [done, text])), buttons)
        self.show()
        browser.wait("the batches", lambda: len(self.shown_batches()) == len(expected))
        shown = {id: (browser.text(f"[data-batch='{id}'] [data-field=state]"), self.progress({"id": id}),
                      self.actions({"id": id})) for id in expected}
        self.assertEqual(shown, expected)
        self.assertEqual(browser.text("#batches-count"), "2 sending, 1 paused, 1 receiving")

    def test_a_batch_of_invalid_devices(self):
        batch = self.relay.batch("finished", lines=3, invalid=3)
        self.show()
        self.browser.wait("the batch", lambda: self.progress(batch) == "No devices")

    def test_pause_and_resume(self):
        browser = self.browser
        batch = self.relay.batch(outcomes={"accepted": 10}, queued=990)
        other = self.relay.batch(queued=5)
        self.show()
        browser.click(self.batch(batch, "[data-action=Pause]"))
        browser.wait("paused", lambda: batch["state"] == "paused")
        self.wait_state(batch, "Paused")
        self.assertEqual(self.actions(batch), ["Resume", "Slow…", "Stop…"])
        self.assertEqual(browser.focused("data-action"), "Resume", "the focus stays beside the button")
        browser.wait_text("#status-region", "The batch of fern from ")
        self.assertIn("Paused", browser.text("#status-region"))
        self.assertEqual(other["state"], "running")
        browser.keys(Keys.ENTER)
        browser.wait("running", lambda: batch["state"] == "running")
        self.wait_state(batch, "Sending")
        self.assertEqual(browser.focused("data-action"), "Pause")
        self.assertEqual(self.relay.count("PATCH", f"/v1/batches/{batch['id']}"), 2)

    def test_slow(self):
        browser = self.browser
        batch = self.relay.batch(queued=990)
        self.show()
        slow = self.batch(batch, "[data-action=Slow…]")
        browser.click(slow)
        browser.wait("the dialog", lambda: browser.is_shown("#confirm"))
        self.assertIn("Slow the batch of fern", browser.text("#confirm-title"))
        self.assertEqual(browser.focused(), "confirm-value")
        browser.keys("0", Keys.ENTER)
        self.assertTrue(browser.is_shown("#confirm"), "0 is no rate")
        browser.keys(".5", Keys.ENTER)
        browser.wait("the rate", lambda: batch["pushesPerSecond"] == 0.5)
        browser.wait_text(self.batch(batch, "[data-field=progress]"), "limit 0.5/s")
        self.assertEqual(browser.focused("data-action"), "Slow…")
        # The dialog begins with the present rate. Going back changes nothing.
        before = self.relay.count("PATCH", ".*")
        for leave in (lambda: browser.keys(Keys.ESCAPE), lambda: browser.click("#confirm-no")):
            browser.click(slow)
            self.assertEqual(browser.find("#confirm-value").get_attribute("value"), "0.5")
            browser.keys("7")
            self.assertEqual(browser.find("#confirm-value").get_attribute("value"), "7", "it is selected")
            leave()
            browser.wait("a closed dialog", lambda: not browser.is_shown("#confirm"))
        self.tick()
        self.assertEqual(self.relay.count("PATCH", ".*"), before)
        browser.click(slow)
        browser.find("#confirm-value").clear()
        browser.click("#confirm-yes")
        browser.wait("no limit", lambda: batch["pushesPerSecond"] is None)
        browser.wait_text(self.batch(batch, "[data-field=progress]"), "no limit")
        browser.click(slow)
        self.assertEqual(browser.find("#confirm-value").get_attribute("value"), "")

    def test_stop_asks_first(self):
        browser = self.browser
        batch = self.relay.batch(outcomes={"accepted": 100}, queued=850, parked=40, inFlight=10)
        self.show()
        stop = self.batch(batch, "[data-action=Stop…]")
        browser.click(stop)
        self.assertIn("Stop the batch of fern", browser.text("#confirm-title"))
        self.assertIn("about 890 of 1,000 pushes", browser.text("#confirm-text"))
        self.assertEqual(browser.focused(), "confirm-no", "the safe answer has the focus")
        browser.keys(Keys.ESCAPE)
        browser.click(stop)
        browser.click("#confirm-no")
        self.tick()
        self.assertEqual(self.relay.count("DELETE", ".*"), 0)
        browser.click(stop)
        browser.click("#confirm-yes")
        self.wait_state(batch, "Cancelled")
        self.assertEqual(batch["state"], "cancelled")
        self.assertEqual(self.actions(batch), [])
        self.assertEqual(browser.focused("data-batch"), batch["id"], "the focus stays at the batch")

    def test_an_action_that_fails_says_so_beside_it(self):
        browser = self.browser
        self.allowed_errors = " 40[39] "
        batch, other = self.relay.batch(queued=10), self.relay.batch(queued=10)
        message = "The caller shop needs the role cancel or cancelAll for this."
        self.relay.fail("PATCH", ".*", (403, {"error": {"code": "forbidden", "message": message}}))
        self.show()
        browser.click(self.batch(batch, "[data-action=Pause]"))
        browser.wait_text(self.batch(batch, ".note"), f"Pause: {message}")
        self.assertEqual(browser.text(self.batch(other, ".note")), "")
        self.assertIn(message, browser.text("#alert-region"))
        self.tick()
        self.assertIn(message, browser.text(self.batch(batch, ".note")), "the message stays")
        self.relay.faults.clear()
        # Somebody else has cancelled it, and the page does not know that yet.
        browser.click(self.batch(batch, "[data-action=Slow…]"))
        batch["state"] = "cancelled"
        browser.find("#confirm-value").send_keys("5", Keys.ENTER)
        browser.wait_text(self.batch(batch, ".note"), "Slow: The batch was cancelled.")
        self.wait_state(batch, "Cancelled")

    def test_name(self):
        browser = self.browser
        now = time.time()
        self.relay.clock = lambda: now
        named = self.relay.batch(queued=10, createdAt=now, caller="news", name="Autumn sale")
        keyed = self.relay.batch(queued=10, createdAt=now, idempotencyKey="sale-17")
        at = time.strftime("%H:%M:%S", time.localtime(now))
        self.show()
        browser.wait("the batches", lambda: len(self.shown_batches()) == 2)
        self.assertEqual(browser.text(self.batch(named, "h3")), f"Autumn salefern · production · bulk · news · {at}")
        self.assertEqual(browser.text(self.batch(keyed, "h3")), f"sale-17fern · production · bulk · shop · {at}")
        browser.click(self.batch(named, "[data-action=Stop…]"))
        self.assertEqual(browser.text("#confirm-title"), f"Stop the batch Autumn sale of fern from {at}?")

    def test_details(self):
        browser = self.browser
        batch = self.relay.batch("paused", lines=1_000, invalid=3, queued=997, caller="news",
                                 idempotencyKey="sale-17", metadata={"campaign": 17}, deadline=1_795_500_000)
        self.show()
        browser.wait("the batch", lambda: self.shown_batches())
        self.assertFalse(browser.is_shown("[data-field='batch.id']"))
        browser.find(self.batch(batch, "summary")).send_keys(Keys.ENTER)
        browser.wait("the details", lambda: browser.is_shown("[data-field='batch.id']"))
        deadline = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(1_795_500_000))
        for name, value in {"id": batch["id"], "caller": "news", "idempotencyKey": "sale-17", "lines": "1,000",
                            "metadata": '{"campaign":17}', "deadline": deadline, "invalid": "3"}.items():
            self.assertEqual(browser.text(f"[data-field='batch.{name}']"), value, name)
        self.tick(2)
        self.assertTrue(browser.is_shown("[data-field='batch.id']"), "the details stay open")

    def test_dead_tokens_of_a_batch_are_saved(self):
        browser = self.browser
        batch, other = self.relay.batch("finished"), self.relay.batch("finished")
        expected = ["token,invalid since"]
        for number in range(2_300):
            mine = number % 3 == 0
            push = self.relay.settle({"outcome": "rejected", "status": 410, "reason": "Unregistered",
                                      "tokenInvalidSince": 1_795_440_000 + number}, token=f"{number:064x}",
                                     batch=batch["id"] if mine else None)
            if mine:
                expected.append(f"{push['token']},{1_795_440_000 + number}")
        self.show()
        with tempfile.TemporaryDirectory() as folder:
            browser.command("Browser.setDownloadBehavior", behavior="allow", downloadPath=folder)
            browser.click(self.batch(batch, "summary"))
            browser.click(self.batch(batch, "[data-action='Save dead tokens']"))
            file = pathlib.Path(folder, f"dead-tokens-{batch['id']}.csv")
            browser.wait("the file", lambda: file.exists() and file.read_text().splitlines() == expected)
            self.assertEqual(self.relay.count("GET", "/v1/dead-tokens.*limit=1000.*"), 3)
            browser.click(self.batch(other, "summary"))
            browser.click(self.batch(other, "[data-action='Save dead tokens']"))
            browser.wait_text(self.batch(other, "details .note"), "APNs has declared no token of this batch invalid.")
            self.assertEqual(len(list(pathlib.Path(folder).iterdir())), 1)

    def test_older_batches(self):
        browser = self.browser
        ids = [self.relay.batch("finished")["id"] for _ in range(23)][::-1]
        self.show()
        browser.wait("the newest", lambda: self.shown_batches() == ids[:10])
        browser.click("#batches [data-action=more]")
        browser.wait("more", lambda: self.shown_batches() == ids[:20])
        browser.click("#batches [data-action=more]")
        browser.wait("all", lambda: self.shown_batches() == ids)
        self.assertFalse(browser.is_shown("#batches [data-action=more]"))
        self.tick()
        self.assertEqual(self.shown_batches(), ids)

    def test_batches_that_cannot_be_loaded_say_so(self):
        browser = self.browser
        self.allowed_errors = " 503 "
        batch = self.relay.batch()
        self.show()
        browser.wait("the batch", lambda: self.shown_batches() == [batch["id"]])
        self.relay.fail("GET", "/v1/batches", (503, {"error": {"code": "unavailable", "message": "Disk is slow."}}))
        browser.wait_text("#batches > [data-field=note]", "The batches could not be loaded: Disk is slow.")
        self.assertEqual(self.shown_batches(), [batch["id"]], "the last figures stay")
        self.relay.faults.clear()
        browser.wait("no message", lambda: not browser.is_shown("#batches > [data-field=note]"))

    def test_a_slow_relay_is_asked_once_at_a_time(self):
        browser = self.browser
        batch = self.relay.batch()
        released = threading.Event()
        self.relay.fail("GET", "/v1/batches", lambda: released.wait(20) and None)
        self.show()
        self.tick(3)
        self.assertEqual(self.relay.count("GET", "/v1/batches.*"), 1)
        released.set()
        browser.wait("the batch", lambda: self.shown_batches() == [batch["id"]])
