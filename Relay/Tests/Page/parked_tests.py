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
        return dict(zip(names, self.browser.texts("[data-group] [data-field=pushes]")))

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
        self.assertIn(f"fern · the oldest queued {oldest}", first)
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

    def test_groups_follow_the_number_of_parked_pushes(self):
        browser = self.browser
        ids = self.park(2)
        self.open_parked(ids)
        browser.wait("the groups", lambda: self.groups() == {"fern/Reason0": "1", "fern/Reason1": "1"})
        asked = lambda: self.relay.count("GET", "/v1/parked/groups")
        before = asked()
        time.sleep(1)  # Counting is fast here, so the page may ask again.
        self.tick()
        self.assertEqual(asked(), before, "nothing has changed, and counting reads all parked pushes")
        self.park(1)
        browser.wait("another push", lambda: self.groups() == {"fern/Reason0": "2", "fern/Reason1": "1"})
        # Nobody sees the groups.
        browser.tab("outcomes")
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
        self.browser.wait_text("[data-field=groups-note]", "Only the 100,001 oldest parked pushes are counted here.")
        # Without a reason, a request would concern all pushes of the app.
        self.assertEqual(self.browser.text(self.group("moss/null") + " .item-title"), "No reason")
        self.assertFalse(self.browser.all(self.group("moss/null") + " button"))

    def test_groups_that_cannot_be_counted_say_so(self):
        self.allowed_errors = " 503 "
        ids = self.park(1)
        message = {"error": {"code": "unavailable", "message": "Disk is slow."}}
        self.relay.fail("GET", "/v1/parked/groups", (503, message))
        self.open_parked(ids)
        self.browser.wait_text("[data-field=groups-note]", "could not be counted: Disk is slow.")

    def test_parked_pushes(self):
        browser = self.browser
        ids = self.park()
        self.open_parked(ids)
        self.assertEqual(browser.text("#parked-count"), "3")
        self.assertEqual(browser.text("#panel-parked [data-field=summary]"), "3 of 3 parked pushes, the oldest first")
        self.assertEqual(browser.texts("[data-parked] .item-title"), ["403 Reason0", "403 Reason1", "403 Reason2"])
        self.assertIn("20 attempts", browser.text("[data-parked]"))
        browser.click(f"[data-parked='{ids[0]}'] [data-action=Retry]")
        browser.wait("two rows", lambda: self.parked_rows() == ids[1:])
        self.assertEqual(self.relay.pushes[ids[0]]["state"], "queued")
        # A drop asks first.
        browser.click(f"[data-parked='{ids[2]}'] [data-action^=Drop]")
        self.assertIn("never sent again", browser.text("#confirm-text"))
        self.assertEqual(browser.focused("value"), "cancel", "the safe answer has the focus")
        browser.keys(Keys.ESCAPE)
        browser.wait("a closed dialog", lambda: not browser.is_shown("#confirm"))
        browser.click(f"[data-parked='{ids[2]}'] [data-action^=Drop]")
        browser.click("#confirm button[value=cancel]")
        self.tick()
        self.assertEqual(self.parked_rows(), ids[1:])
        self.assertEqual(self.relay.count("DELETE", ".*"), 0)
        browser.click(f"[data-parked='{ids[2]}'] [data-action^=Drop]")
        browser.click("#confirm-yes")
        browser.wait("one row", lambda: self.parked_rows() == [ids[1]])
        self.assertEqual(self.relay.pushes[ids[2]]["state"], "settled")
        # The focus goes to the same button of the row that is left.
        self.assertEqual(browser.run("return document.activeElement.closest('[data-parked]').dataset.parked"), ids[1])
        browser.click("[data-parked] [data-action=open]")
        browser.wait_text("#panel-push [data-field=title]", ids[1])
        # A push that somebody else parks appears.
        browser.tab("parked")
        more = self.park(1)
        browser.wait("another row", lambda: self.parked_rows() == [ids[1], *more])

    def test_an_action_that_fails_says_so_beside_it(self):
        browser = self.browser
        ids = self.park()
        self.open_parked(ids)
        self.allowed_errors = " 503 "
        message = {"error": {"code": "unavailable", "message": "The queue cannot be written."}}
        self.relay.fail("POST", "/v1/parked/.*", (503, message))
        browser.click(f"[data-parked='{ids[1]}'] [data-action=Retry]")
        browser.wait_text(f"[data-parked='{ids[1]}'] .note", "Retry: The queue cannot be written.")
        self.assertEqual(browser.text(f"[data-parked='{ids[0]}'] .note"), "")
        self.assertIn("The queue cannot be written.", browser.text("#alert-region"))
        self.tick()
        self.assertIn("The queue", browser.text(f"[data-parked='{ids[1]}'] .note"), "the message stays")
        browser.click("[data-group='fern/Reason0'] [data-action^=Retry]")
        browser.wait_text("[data-group='fern/Reason0'] .note", "Retry all: The queue cannot be written.")
        self.relay.faults.clear()
        browser.click(f"[data-parked='{ids[1]}'] [data-action=Retry]")
        browser.wait("two rows", lambda: self.parked_rows() == [ids[0], ids[2]])

    def test_pages_of_parked_pushes(self):
        browser = self.browser
        ids = self.park(230)
        self.open_parked(ids[:100])
        browser.wait_text("#panel-parked [data-field=summary]", "100 of 230 parked pushes, the oldest first")
        browser.click("#panel-parked [data-action=next]")
        browser.wait("the second page", lambda: self.parked_rows() == ids[100:200])
        browser.click("#panel-parked [data-action=next]")
        browser.wait("the last page", lambda: self.parked_rows() == ids[200:])
        self.assertFalse(browser.is_shown("#panel-parked [data-action=next]"))
        browser.click("#panel-parked [data-action=first]")
        browser.wait("the first page", lambda: self.parked_rows() == ids[:100])

    def test_double_click_acts_once(self):
        browser = self.browser
        ids = self.park(1)
        self.open_parked(ids)
        released = threading.Event()
        self.relay.fail("POST", "/v1/parked/.*", lambda: released.wait(10) and None)
        browser.run("const b = document.querySelector('[data-parked] [data-action=Retry]'); b.click(); b.click();")
        browser.wait("the request", lambda: self.relay.count("POST", ".*") > 0)
        released.set()
        browser.wait("no row", lambda: self.parked_rows() == [])
        self.assertEqual(self.relay.count("POST", ".*"), 1)
