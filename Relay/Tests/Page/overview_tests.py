"""The overview, the operator's token, and a relay that fails."""
import re
import threading
import time

from selenium.webdriver.common.keys import Keys

from browser import PATIENCE
from case import MockCase, figure
from mock_relay import TOTALS, fill


class OverviewTests(MockCase):
    def test_queue(self):
        browser = self.browser
        now = time.time()
        self.relay.capacity = 20_000
        self.relay.clock = lambda: now
        self.relay.route(queued=12_345, claimed=100, written=55, oldestDue=now - 3725)
        self.relay.route(lane="bulk", queued=655, parked=45)
        self.show()
        self.assertEqual(browser.text("#capacity"), "Pushes without an outcome: 13,200 of 20,000, 66 %")
        self.assertNotIn("bad", browser.find("#capacity").get_attribute("class"))
        self.relay.capacity = 13_500
        self.tick()
        browser.wait_text("#capacity", "97 %")
        self.assertIn("bad", browser.find("#capacity").get_attribute("class"))
        self.relay.capacity = None
        self.tick()
        browser.wait_text("#capacity", "13,200, no limit")
        # A push that is due later is not waiting.
        oldest = "[data-route] [data-cell=oldest]"
        self.assertEqual(browser.text(oldest), "1 h 2 min")
        self.relay.routes[0]["oldestDue"] = now + 300
        self.tick()
        browser.wait_text(oldest, "in 5 min")
        self.relay.routes[0]["oldestDue"] = None
        self.tick()
        browser.wait_text(oldest, "–")

    def test_rates_and_chart(self):
        browser = self.browser
        clock = [1_795_440_000.0]
        self.relay.clock = lambda: clock[0]
        self.relay.totals.update(queued=5_000_000, accepted=1_000, late=3)
        self.show()
        self.assertEqual(browser.text("[data-total=queued] + dd"), "5,000,000")
        self.assertEqual(browser.text("[data-total=late] + dd"), "3")
        self.assertEqual(browser.text("[data-total=queued]"), "–/s")

        def advance(seconds, **more):
            with self.relay.lock:
                clock[0] += seconds
                for name, value in more.items():
                    self.relay.totals[name] += value
            self.tick()

        advance(2, queued=3_000, accepted=2_000, rejected=20, notProcessed=4, notSent=3, unknown=1, retried=8,
                duplicates=6, parked=10, late=2)
        rates = {name: browser.text(f"[data-total={name}]") for name in TOTALS}
        self.assertEqual(rates, {
            "queued": "1,500/s", "accepted": "1,000/s", "rejected": "10/s", "notProcessed": "2.0/s", "notSent": "1.5/s",
            "unknown": "0.5/s", "retried": "4.0/s", "duplicates": "3.0/s", "parked": "5.0/s", "late": "1.0/s"})
        self.assertEqual(browser.text("[data-total=late] + dd"), "5")
        self.assertIn("1,500", browser.values(".chart svg", "aria-label")[0])
        self.assertIn("1,014", browser.values(".chart svg", "aria-label")[1])
        # Half as much in the next two seconds: the average is over ten seconds, the chart has both.
        advance(2, queued=1_500)
        self.assertEqual(browser.text("[data-total=queued]"), "1,125/s")
        bars = re.findall(r"M([\d.]+) ([\d.]+)V([\d.]+)H([\d.]+)", browser.values("[data-series=queued]", "d")[0])
        left, right = [[float(part) for part in bar] for bar in bars]
        self.assertEqual([left[0], left[3], right[0], right[3]], [296, 298, 298, 300])
        self.assertAlmostEqual((left[1] - left[2]) / (right[1] - right[2]), 2, 1)
        # The outcomes are stacked on each other.
        tops = browser.run("""return ['accepted', 'rejected'].map((name) =>
            document.querySelector(`[data-series=${name}]`).getBBox()).map((box) => [box.y, box.y + box.height])""")
        self.assertAlmostEqual(tops[0][0], tops[1][1], 1)
        # After twelve seconds without pushes, the average is zero, and the highest rate stays.
        advance(12)
        self.assertEqual(browser.text("[data-total=queued]"), "0/s")
        self.assertIn("highest 1,500/s", browser.text(".chart figcaption"))
        # What is older than five minutes leaves the chart.
        advance(400)
        self.assertIn("highest 0/s", browser.text(".chart figcaption"))
        # A restart begins again at zero: no negative rates.
        with self.relay.lock:
            self.relay.totals.update(dict.fromkeys(TOTALS, 0))
        advance(2)
        self.assertEqual(browser.text("[data-total=queued]"), "–/s")
        advance(2, queued=10)
        self.assertEqual(browser.text("[data-total=queued]"), "5.0/s")

    def test_charts_begin_before_the_page(self):
        browser = self.browser
        now = 1_795_440_000.0
        self.relay.clock = lambda: now
        self.relay.totals.update(queued=1_000, accepted=600)
        # The relay has these, and nobody had the page open.
        for seconds, queued in (10, 0), (5, 750):
            self.relay.samples.append({"now": now - seconds, "totals": {**self.relay.totals, "queued": queued}})
        self.show()
        self.assertEqual(browser.text("[data-total=queued]"), "100/s")
        self.assertIn("highest 150/s", browser.text(".chart figcaption"))
        self.assertEqual(len(re.findall("M", browser.values("[data-series=queued]", "d")[0])), 2)

    def test_batches_and_routes_come_first(self):
        browser = self.browser
        self.relay.route("fern", queued=10)
        self.relay.batch(queued=10)
        for width in 1280, 390:
            browser.set_screen(width, 900)
            self.show()
            tops = browser.run("""return ['batches', 'routes', 'capacity', 'charts', 'totals'].map((id) =>
                document.getElementById(id).getBoundingClientRect().top)""")
            self.assertEqual(tops, sorted(tops))

    def test_not_ready(self):
        browser = self.browser
        self.show()
        self.assertEqual(browser.driver.title, "APNs relay")
        self.relay.reason = "The queue is full."
        self.tick()
        browser.wait_text("#state", "Not ready")
        self.assertEqual(browser.text("#reason"), "The queue is full.")
        self.assertIn("The queue is full.", browser.text("#alert-region"))
        self.assertEqual(browser.driver.title, "Not ready · APNs relay")
        self.relay.reason = None
        self.tick()
        browser.wait("ready", lambda: browser.text("#state") == "Ready" and browser.text("#reason") == "")

    def test_problems(self):
        browser = self.browser
        self.relay.route("fern", queued=1_234)
        self.show()
        self.assertFalse(browser.is_shown("#problems"))
        causes = {
            "credential": "Pushes are not being delivered.", "apns": "Pushes are not being delivered.",
            "configuration": "Pushes are not being delivered.", "rejections": "APNs rejects most pushes.",
            "storage": "Pushes are not being delivered.", "disk": "New pushes are refused.",
        }
        for width in 1280, 390:
            browser.set_screen(width, 900)
            for cause, effect in causes.items():
                apps = [{"app": "fern", "environment": "production"}] if cause not in ("storage", "disk") else []
                self.relay.problems = [{
                    "cause": cause, "effect": effect, "message": f"<b>{cause}</b> is broken", "remedy": "Mend it.",
                    "since": self.relay.clock() - 65, "waiting": 1_234, "apps": apps}]
                self.relay.reason = "It is broken." if cause in ("storage", "disk") else None
                self.tick()
                row = f"[data-problem={cause}]"
                browser.wait("the banner", lambda: browser.is_shown(row))
                self.assertEqual(browser.text(f"{row} [data-field=effect]"), effect)
                self.assertRegex(browser.text(f"{row} [data-field=when]"),
                                 r"^Since \S+ \(1 min \d+ s\)\. 1,234 pushes wait\.$")
                who = "fern (production): " if apps else ""
                self.assertEqual(browser.text(f"{row} [data-field=message]"), f"{who}<b>{cause}</b> is broken.")
                self.assertEqual(browser.text(f"{row} [data-field=remedy]"), "Mend it.")
                word = "Not delivering" if apps else "Not ready"
                browser.wait_text("#state", word)
                self.assertEqual(browser.driver.title, f"{word} · APNs relay")
                self.assertIn(word, browser.text("#alert-region"))
                self.assertFalse(browser.run("return document.documentElement.scrollWidth > innerWidth"))
                browser.shot(f"problem-{cause}-{width}")
        self.relay.problems, self.relay.reason = [], None
        self.tick()
        browser.wait("no banner", lambda: not browser.is_shown("#problems"))
        browser.wait_text("#state", "Ready")
        # Figures from the time before the storage failed say so.
        self.relay.read_at = self.relay.clock() - 60
        self.tick()
        browser.wait_text("#reason", "The figures are from")

    def test_first_command(self):
        browser = self.browser
        self.relay.apps = [{"name": "fern", "unsettled": 0, "capacity": None, "pushesPerSecond": None}]
        self.show()
        self.assertTrue(browser.is_shown("#first"))
        command = browser.text("#first-command")
        self.assertIn(f"curl {self.relay.url}/v1/pushes", command)
        self.assertIn('"app":"fern"', command)
        self.relay.route("fern", queued=1)
        self.tick()
        browser.wait("the queue", lambda: not browser.is_shown("#first"))

    def test_refreshes_every_two_seconds_while_visible(self):
        browser = self.browser
        self.show()

        def intervals():
            times = [at for _, path, _, at in self.relay.requests if path == "/v1/overview"]
            return [later - earlier for earlier, later in zip(times, times[1:])]

        # A machine that stalls makes some of them longer.
        browser.wait("intervals of two seconds", lambda: sum(abs(time - 2) < 0.3 for time in intervals()) >= 3)
        self.assertGreaterEqual(min(intervals()), 1.7)
        page = browser.driver.current_window_handle
        for has_timers in True, False:
            if not has_timers:
                browser.stop_timers()
            browser.driver.switch_to.new_window("tab")
            try:
                time.sleep(0.5)  # A request may be under way.
                before = len(self.relay.requests)
                time.sleep(3)
                self.assertEqual(self.relay.requests[before:], [], "a page that nobody sees reads nothing")
            finally:
                browser.driver.close()
                browser.driver.switch_to.window(page)
            browser.wait("an overview at once", lambda: len(self.relay.requests) > before)

    def test_routes(self):
        browser = self.browser
        now = time.time()
        self.relay.clock = lambda: now
        until = now + 90
        self.relay.route("fern", queued=1_234, claimed=10, written=32, parked=7, oldestDue=now - 42, state="sending")
        self.relay.route("grasscove", "development", "bulk", state="idle")
        self.relay.route("tidepool", state="paused", reason="403 InvalidProviderToken", pausedUntil=until, queued=5,
                         oldestDue=now - 200_000)
        self.show()
        self.assertEqual(browser.text("#routes-count"), "3, 1 paused")
        fern = "tbody[data-route='fern/production/interactive']"
        cells = [browser.text(f"{fern} [data-cell={name}]") for name in ("queued", "flight", "parked", "oldest")]
        self.assertEqual(cells, ["1,234", "42", "7", "42 s"])
        self.assertEqual(browser.find(f"{fern} [data-cell=flight]").get_attribute("title"), "10 claimed, 32 written")
        self.assertEqual(browser.texts("[data-route] .pill"), ["Sending", "Idle", "Paused"])
        self.assertFalse(browser.is_shown(f"{fern} .below"))
        paused = "tbody[data-route='tidepool/production/interactive']"
        self.assertTrue(browser.is_shown(f"{paused} .below"))
        at = time.strftime("%H:%M:%S", time.localtime(until))
        self.assertRegex(browser.text(f"{paused} .below"),
                         rf"^403 InvalidProviderToken\. Resumes at (\S+ )?{at}, in 1 min 30 s\.$")
        self.assertEqual(browser.text(f"{paused} [data-cell=oldest]"), "2 d 7 h")
        self.assertFalse(browser.is_shown("#routes-filter"))
        self.relay.routes[2].update(state="sending", reason=None, pausedUntil=None)
        browser.wait("no reason", lambda: not browser.is_shown(".below"))

    def test_relays(self):
        browser = self.browser
        self.show()
        self.assertFalse(browser.find("#relays").is_displayed(), "a relay that is alone")
        now = time.time()
        self.relay.clock = lambda: now
        self.relay.relays[0]["since"] = now - 7_260
        other = self.relay.relay("other", host="<b>relay-2</b>", version="1.1.0", since=now - 65)
        self.tick()
        browser.wait("the table", lambda: browser.is_shown("#relays"))
        self.assertEqual(browser.values("[data-relay]", "data-relay"), ["0f1e2d3c4b5a6978", "other"])
        first, second = "[data-relay='0f1e2d3c4b5a6978']", "[data-relay=other]"
        self.assertIn("this page", browser.text(f"{first} th"))
        self.assertNotIn("this page", browser.text(f"{second} th"))
        self.assertIn("<b>relay-2</b>", browser.text(f"{second} th"))
        self.assertIn("process 4711", browser.text(f"{second} th"))
        cells = [browser.text(f"{row} [data-cell={name}]") for row in (first, second)
                 for name in ("version", "since", "posts")]
        self.assertEqual(cells, ["1.0.0", "2 h 1 min", "yes", "1.1.0", "1 min 5 s", "–"])
        other["postsWebhooks"] = True
        self.tick()
        browser.wait_text(f"{second} [data-cell=posts]", "yes")
        self.relay.relays.remove(other)
        self.tick()
        browser.wait("the table to go", lambda: not browser.find("#relays").is_displayed())

    def test_filter_of_many_routes(self):
        browser = self.browser
        for number in range(21):
            self.relay.route(f"app-{number:02}", queued=number)
        self.relay.route("last", state="paused", reason="Credentials were refused")
        self.show()
        browser.wait("the filter", lambda: browser.is_shown("#routes-filter"))
        browser.find("#routes-filter input").send_keys("APP-1")
        browser.wait_text("#routes-count", "10 of 22, 1 paused")
        self.assertEqual(len(browser.all("tbody[data-route]")), 10)
        self.tick()
        self.assertEqual(len(browser.all("tbody[data-route]")), 10, "the filter stays")
        browser.find("#routes-filter input").clear()
        browser.find("#routes-filter input").send_keys("refused")
        browser.wait("one row", lambda: browser.values("tbody[data-route]", "data-route") == [
            "last/production/interactive"])
        browser.find("#routes-filter input").send_keys("nothing")
        browser.wait_text("#routes", "No route matches")
        with self.relay.lock:
            del self.relay.routes[20:]
        browser.wait("all rows", lambda: len(browser.all("tbody[data-route]")) == 20)
        self.assertFalse(browser.is_shown("#routes-filter"), "a hidden filter does not filter")

    def test_many_routes_do_not_hold_the_page(self):
        for number in range(1_000):
            self.relay.route(f"app-{number:04}", queued=number, oldestDue=time.time())
        self.show()
        self.browser.run("""window.longTasks = [];
            new PerformanceObserver((list) => window.longTasks.push(...list.getEntries().map((e) => e.duration)))
                .observe({type: 'longtask'});""")
        self.tick(2)
        longest = max(self.browser.run("return window.longTasks"), default=0)
        figure("longest task with 1,000 routes", f"{longest:.0f} ms")
        self.assertLess(longest, 500)

    def test_layout_does_not_shift(self):
        browser = self.browser
        move = fill(self.relay)
        self.show()
        browser.tab("parked")
        browser.wait("the parked pushes", self.parked_rows)
        self.tick()
        browser.run("""window.shifts = [];
            new PerformanceObserver((list) => window.shifts.push(...list.getEntries().map((e) => e.value)))
                .observe({type: 'layout-shift'});""")
        for _ in range(2):
            move(97)
            self.relay.version = "1.0.1"
            self.tick()
        self.allowed_errors = "ERR_|503"
        self.relay.fail("GET", "/v1/overview", (503, {"error": {"code": "unavailable", "message": "Busy."}}))
        browser.wait_text("#reason", "Busy.")
        self.assertLess(browser.run("return window.shifts.reduce((a, b) => a + b, 0)"), 0.001)

    # Access

    def test_token_of_no_operator(self):
        browser = self.browser
        self.allowed_errors = " 40[13] "
        self.relay.token, self.relay.plain_token = "operator", "plain"
        self.show_without_token()
        browser.wait("the form", lambda: browser.is_shown("#login"))
        browser.keys("plain", Keys.ENTER)
        browser.wait_text("#login-note", "not an operator's")
        self.assertEqual(browser.run("return sessionStorage.length"), 0)
        self.assertIn("the role operate", browser.text("#alert-region"))
        before = len(self.relay.requests)
        time.sleep(2.5)
        self.assertEqual(self.relay.requests[before:], [], "nothing is asked without a token")

    def test_token_that_expires(self):
        browser = self.browser
        self.allowed_errors = " 401 "
        self.relay.token = "first"
        ids = self.park(1)
        self.open_parked(ids)
        self.relay.token = "second"
        browser.click("[data-group] [data-action^=Retry]")
        browser.wait_text("#login-note", "does not accept this token")
        self.assertFalse(browser.find("#main").is_displayed())
        before = len(self.relay.requests)
        time.sleep(2.5)
        self.assertEqual(self.relay.requests[before:], [], "nothing is asked until there is a token")
        browser.keys("second", Keys.ENTER)
        browser.wait_text("#state", "Ready")
        browser.wait("the push", lambda: self.parked_rows() == ids)
        later = self.relay.requests[before - 1:]
        self.assertEqual({token for _, _, token, _ in later if token != "first"}, {"second"})

    def test_no_token_is_needed(self):
        self.show()
        self.assertFalse(self.browser.find("#forget").is_displayed())
        self.assertFalse(self.browser.find("#login").is_displayed())
        self.assertEqual({token for _, _, token, _ in self.relay.requests}, {""})

    def test_refusal_without_a_token_is_an_error(self):
        self.allowed_errors = " 403 "
        message = {"error": {"code": "forbidden", "message": "The host is not a loopback name."}}
        self.relay.fail("GET", "/v1/overview", (403, message))
        self.show("No connection")
        self.browser.wait_text("#reason", "The host is not a loopback name. There are no figures yet.")
        self.assertFalse(self.browser.find("#login").is_displayed())

    # Failures

    def test_relay_that_is_gone(self):
        browser = self.browser
        self.allowed_errors = "ERR_"
        self.relay.route(queued=77)
        before = int(time.time())
        self.show()
        updated = browser.text("#updated").removeprefix("Updated ")
        self.relay.stop()
        browser.wait_text("#state", "No connection")
        self.assertIn("The relay cannot be reached. The figures are from ", browser.text("#reason"))
        at = time.mktime(time.strptime(time.strftime("%Y%m%d ") + updated, "%Y%m%d %H:%M:%S"))
        self.assertTrue(before <= at <= time.time(), updated)
        shown = re.search(r"from (\S+), (\d+) s ago", browser.text("#reason"))
        self.assertIn(shown[1], browser.text("#updated"))
        browser.wait("a growing age", lambda: int(re.search(r"(\d+) s ago", browser.text("#reason"))[1])
                     >= int(shown[2]) + 3)
        self.assertEqual(browser.text("[data-cell=queued]"), "77", "the last figures stay")
        self.assertIn("cannot be reached", browser.text("#alert-region"))
        self.assertEqual(browser.driver.title, "No connection · APNs relay")
        self.relay.routes[0]["queued"] = 78
        self.relay.start()
        browser.wait_text("#state", "Ready")
        browser.wait_text("[data-cell=queued]", "78")
        self.assertEqual(browser.text("#reason"), "")
        self.assertIn("responds again", browser.text("#status-region"))

    def test_relay_that_fails(self):
        browser = self.browser
        self.allowed_errors = " 50[03] "
        self.show()
        for response, text in [
            ((503, {"error": {"code": "unavailable", "message": "The disk is slow."}}), "The disk is slow."),
            ((500, b"oops"), "The relay responded with status 500."),
            ((200, b"{not json"), "The relay's response is not valid JSON."),
        ]:
            self.relay.faults[:] = [("GET", "/v1/overview", response)]
            self.tick()
            browser.wait_text("#reason", text)
            self.assertEqual(browser.text("#state"), "No connection")
        self.relay.faults.clear()
        browser.wait_text("#state", "Ready")

    def test_relay_that_does_not_respond(self):
        browser = self.browser
        self.show()
        released = threading.Event()
        self.relay.fail("GET", "/v1/overview", lambda: released.wait(PATIENCE) and None)
        browser.wait_text("#reason", "has not responded yet")
        self.assertEqual(browser.text("#state"), "No connection")
        browser.wait_text("#reason", "did not respond within 10 s")
        # The next request waits, too, and the age grows meanwhile.
        age = lambda: int(re.search(r"(\d+) s ago", browser.text("#reason"))[1])
        before = age()
        browser.wait("a growing age", lambda: age() > before + 1)
        self.relay.faults.clear()
        released.set()
        browser.wait_text("#state", "Ready")
