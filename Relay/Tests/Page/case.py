"""What the tests of the page share."""
import json
import os
import re
import unittest
import urllib.request

from browser import PATIENCE, Browser
from mock_relay import MockRelay

TABS = ("outcomes", "parked", "push")


def figure(name, value):
    print(f"  {name}: {value}", flush=True)


class RealRelay:
    url = os.environ.get("RELAY_URL", "").rstrip("/")
    token = os.environ.get("RELAY_TOKEN")

    def stop(self):
        pass


def call(relay, method, path, body=None):
    headers = {"content-type": "application/json"}
    if relay.token:
        headers["authorization"] = f"Bearer {relay.token}"
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(relay.url + path, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=PATIENCE) as response:
        return json.loads(response.read())


class PageCase(unittest.TestCase):
    browser = None

    @classmethod
    def setUpClass(cls):
        cls.relay = cls.make_relay()
        if PageCase.browser is None:
            PageCase.browser = Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.driver.get("about:blank")
        cls.relay.stop()

    def setUp(self):
        self.allowed_errors = None
        self.browser.driver.get("about:blank")
        self.browser.network()
        self.browser.errors()
        self.browser.set_screen(1280, 900)

    def tearDown(self):
        origins = (self.relay.url + "/", "data:", "about:blank")
        foreign = [address for address in self.browser.network() if not address.startswith(origins)]
        self.assertEqual(foreign, [], "requests to other origins")
        errors = self.browser.errors()
        if self.allowed_errors:
            errors = [error for error in errors if not re.search(self.allowed_errors, error)]
        self.assertEqual(errors, [], "errors in the console")

    def show(self, state="Ready"):
        """Opens the page anew, in a tab that has no token."""
        browser = self.browser
        self.show_without_token()
        if self.relay.token:
            browser.wait("the form", lambda: browser.is_shown("#login"))
            browser.run("sessionStorage.setItem('apns-relay-token', arguments[0])", self.relay.token)
            browser.errors()
            browser.driver.refresh()
        if state:
            browser.wait("the state", lambda: browser.text("#state") == state)


    def show_without_token(self):
        browser = self.browser
        browser.driver.get("about:blank")
        browser.driver.get(self.relay.url + "/page.css")
        browser.run("sessionStorage.clear()")
        browser.errors()
        browser.driver.get(self.relay.url + "/")


class MockCase(PageCase):
    """For what needs a relay in a certain state."""

    @staticmethod
    def make_relay():
        return MockRelay()

    def setUp(self):
        super().setUp()
        self.relay.token = None
        if self.relay.server is None:
            self.relay.start()
        self.relay.reset()

    def tick(self, times=1):
        """Lets the page read overviews now, and waits until it has shown as many that it asked for after this call."""
        count = lambda: self.relay.count("GET", "/v1/overview")
        before = count()

        def is_shown():
            self.browser.run("document.dispatchEvent(new Event('visibilitychange'))")
            return count() > before + times  # The page asks for the next one when it has shown the last one.

        self.browser.wait("another overview", is_shown)

    # The panel

    def shown_pushes(self):
        return self.browser.values("#panel-outcomes [data-push]", "data-push")

    def park(self, count=3, **values):
        return [self.relay.push("parked", {"outcome": "rejected", "status": 403, "reason": f"Reason{number}"},
                                attempts=20, **values)["id"] for number in range(count)]

    def parked_rows(self):
        return self.browser.values("#panel-parked [data-push]", "data-push")

    def open_parked(self, ids):
        self.show()
        self.browser.tab("parked")
        self.browser.wait("the parked pushes", lambda: self.parked_rows() == ids)
