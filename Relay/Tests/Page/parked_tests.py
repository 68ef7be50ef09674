"""Parked pushes: the groups by app and reason, and the single pushes."""
import threading
import time

from selenium.webdriver.common.keys import Keys

from case import MockCase


class ParkedTests(MockCase):
    def group(self, name):
        return f"[data-group='{name}']"

    def groups(self):
        """The shown groups with their numbers."""
        names = self.browser.values("[data-group]", "data-group")
        return dict(zip(names, self.browser.texts("[data-group] [data-cell=pushes]")))

    def park_groups(self):
        """Parks more pushes of a group than a page of the list has."""
        for number in range(130):
            self.relay.push("parked", {"outcome": "rejected", "status": 403, "reason": "TopicDisallowed"},
                            queuedAt=1_795_440_000 + number)
        self.relay.push("parked", {"outcome": "not-sent", "code": "configuration"})
        for _ in range(2):
            self.relay.push("parked", {"outcome": "rejected", "status": 403, "reason": "TopicDisallowed"}, app="moss")

    def test_groups_count_all_parked_pushes(self):
        browser = self.browser
        self.park_groups()
        self.show()
        browser.tab("parked")
        expected = {"fern/TopicDisallowed": "130", "fern/configuration": "1", "moss/TopicDisallowed": "2"}
        browser.wait("the groups", lambda: self.groups() == expected)
        first = browser.text(self.group("fern/TopicDisallowed"))
        oldest = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(1_795_440_000))
        self.assertEqual(first.split("fern")[1][:22], f"130{oldest}")
        self.assertEqual(len(self.parked_rows()), 100)

    def test_retry_of_a_group(self):
        browser = self.browser
        self.park_groups()
        self.show()
        browser.tab("parked")
        browser.wait("the group", lambda: browser.is_shown(self.group("fern/TopicDisallowed")))
        browser.stop_timers()
        browser.click(self.group("fern/TopicDisallowed") + " [data-action^=Retry]")
        others = {"fern/configuration": "1", "moss/TopicDisallowed": "2"}
        browser.wait("the other groups", lambda: self.groups() == others)
        self.assertFalse(browser.is_shown("#confirm"), "a retry does not ask")
        self.assertEqual(self.relay.count("POST", r"/v1/parked/retry\?app=fern&reason=TopicDisallowed"), 1)
        self.assertEqual(len(self.relay.parked), 3)
        browser.wait("the single pushes", lambda: len(self.parked_rows()) == 3)
        browser.wait_text("#status-region", "130 pushes retried.")
        # The focus goes to the same button of the next group.
        focused = browser.run("return document.activeElement.closest('[data-group]')?.dataset.group")
        self.assertEqual(focused, "fern/configuration")

    def test_drop_of_a_group_asks_first(self):
        browser = self.browser
        self.park_groups()
        self.show()
        browser.tab("parked")
        drop = self.group("moss/TopicDisallowed") + " [data-action^=Drop]"
        browser.click(drop)
        self.assertEqual(browser.text("#confirm-title"), "Drop 2 parked pushes?")
        self.assertIn("of moss that are parked with the reason TopicDisallowed", browser.text("#confirm-text"))
        browser.keys(Keys.ESCAPE)
        self.tick()
        self.assertEqual(self.relay.count("DELETE", ".*"), 0)
        browser.click(drop)
        browser.click("#confirm-yes")
        browser.wait("two groups", lambda: list(self.groups()) == ["fern/TopicDisallowed", "fern/configuration"])
        self.assertEqual(len(self.relay.parked), 131)

    def test_parked_pushes_are_read_while_they_are_shown(self):
        browser = self.browser
        self.open_parked(self.park(2))
        browser.wait("the groups", lambda: self.groups() == {"fern/Reason0": "1", "fern/Reason1": "1"})
        self.park(1)
        browser.wait("another push", lambda: self.groups() == {"fern/Reason0": "2", "fern/Reason1": "1"})
        # Nobody sees them.
        browser.tab("outcomes")
        asked = lambda: self.relay.count("GET", "/v1/parked.*")
        before = asked()
        self.park(1)
        self.tick(2)
        self.assertEqual(asked(), before)
        browser.tab("parked")
        browser.wait("both", lambda: self.groups() == {"fern/Reason0": "3", "fern/Reason1": "1"})

    def test_slow_groups_are_read_rarely(self):
        browser = self.browser
        ids = self.park(1)
        self.relay.fail("GET", "/v1/parked/groups", lambda: time.sleep(0.8))
        self.open_parked(ids)
        browser.wait("the group", lambda: self.groups() == {"fern/Reason0": "1"})
        before = self.relay.count("GET", "/v1/parked/groups")
        for _ in range(3):
            self.park(1)
            self.tick()
        self.assertEqual(self.relay.count("GET", "/v1/parked/groups"), before, "it took 0.8 s, so 7.2 s must pass")
        browser.wait("the group", lambda: self.groups() == {"fern/Reason0": "4"})

    def test_groups_that_are_not_complete_say_so(self):
        self.relay.fail("GET", "/v1/parked/groups", (200, {"complete": False, "groups": [
            {"app": "fern", "reason": "BadTopic", "pushes": 100_000, "oldest": 1_795_440_000},
            {"app": "moss", "reason": None, "pushes": 1, "oldest": 1_795_440_000}]}))
        self.show()
        self.browser.tab("parked")
        self.park(1)
        self.browser.wait_text("#panel-parked [data-field=summary]", "The oldest 1 of at least 100,001 parked pushes:")
        # Without a reason, a request would concern all pushes of the app.
        self.assertEqual(self.browser.text(self.group("moss/null") + " .main"), "No reason")
        self.assertFalse(self.browser.all(self.group("moss/null") + " button"))

    def test_groups_that_cannot_be_counted_say_so(self):
        self.allowed_errors = " 503 "
        self.park(1)
        message = {"error": {"code": "unavailable", "message": "Disk is slow."}}
        self.relay.fail("GET", "/v1/parked/groups", (503, message))
        self.show()
        self.browser.tab("parked")
        self.browser.wait_text("#panel-parked > [data-field=note]", "could not be loaded: Disk is slow.")

    def test_parked_pushes(self):
        browser = self.browser
        ids = self.park()
        self.open_parked(ids)
        self.assertEqual(browser.text("#parked-count"), "3")
        self.assertEqual(browser.text("#panel-parked [data-field=summary]"), "The oldest 3 of 3 parked pushes:")
        self.assertEqual(browser.texts("#panel-parked [data-push] [data-cell=outcome] .detail"),
                         ["403 Reason0", "403 Reason1", "403 Reason2"])
        browser.click(f"[data-push='{ids[0]}']")
        browser.wait_text("#panel-push [data-field=state]", "Parked")
        browser.click("#panel-push [data-action=Retry]")
        browser.wait_text("#panel-push [data-field=state]", "Queued")
        self.assertEqual(self.relay.pushes[ids[0]]["state"], "queued")
        self.assertFalse(browser.is_shown("#panel-push [data-action=Retry]"))
        # A drop asks first.
        browser.tab("parked")
        browser.wait("two rows", lambda: self.parked_rows() == ids[1:])
        browser.click(f"[data-push='{ids[2]}']")
        drop = "#panel-push [data-action^=Drop]"
        browser.click(drop)
        self.assertIn("never sent again", browser.text("#confirm-text"))
        self.assertEqual(browser.focused(), "confirm-no", "the safe answer has the focus")
        browser.keys(Keys.ESCAPE)
        browser.wait("a closed dialog", lambda: not browser.is_shown("#confirm"))
        browser.click(drop)
        browser.click("#confirm-no")
        self.tick()
        self.assertEqual(self.relay.count("DELETE", ".*"), 0)
        browser.click(drop)
        browser.click("#confirm-yes")
        browser.wait_text("#panel-push [data-field=state]", "Settled")
        self.assertEqual(self.relay.pushes[ids[2]]["state"], "settled")
        # A push that somebody else parks appears.
        browser.tab("parked")
        browser.wait("one row", lambda: self.parked_rows() == [ids[1]])
        more = self.park(1)
        browser.wait("another row", lambda: self.parked_rows() == [ids[1], *more])

    def test_an_action_that_fails_says_so_beside_it(self):
        browser = self.browser
        self.open_parked(self.park())
        self.allowed_errors = " 503 "
        message = {"error": {"code": "unavailable", "message": "The queue cannot be written."}}
        self.relay.fail("POST", "/v1/parked/.*", (503, message))
        retry = self.group("fern/Reason1") + " [data-action^=Retry]"
        note = self.group("fern/Reason1") + " .note"
        browser.click(retry)
        browser.wait_text(note, "Retry all: The queue cannot be written.")
        self.assertEqual(browser.text(self.group("fern/Reason0") + " .note"), "")
        self.assertIn("The queue cannot be written.", browser.text("#alert-region"))
        self.tick()
        self.assertIn("The queue", browser.text(note), "the message stays")
        self.relay.faults.clear()
        browser.click(retry)
        browser.wait("two groups", lambda: [*self.groups()] == ["fern/Reason0", "fern/Reason2"])

    def test_only_the_oldest_parked_pushes_are_listed(self):
        ids = self.park(230)
        self.open_parked(ids[:100])
        self.browser.wait_text("#panel-parked [data-field=summary]", "The oldest 100 of 230 parked pushes:")

    def test_double_click_acts_once(self):
        browser = self.browser
        self.open_parked(self.park(1))
        released = threading.Event()
        self.relay.fail("POST", "/v1/parked/.*", lambda: released.wait(10) and None)
        browser.run("const b = document.querySelector('[data-group] [data-action^=Retry]'); b.click(); b.click();")
        browser.wait("the request", lambda: self.relay.count("POST", ".*") > 0)
        released.set()
        browser.wait("no row", lambda: self.parked_rows() == [])
        self.assertEqual(self.relay.count("POST", ".*"), 1)
