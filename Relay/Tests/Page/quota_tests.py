"""What callers and apps use of their quotas."""
from case import MockCase


class QuotaTests(MockCase):
    def caller(self, name="shop", **values):
        return {"name": name, "unsettled": 0, "capacity": None, "pushesPerSecond": None, "available": None, **values}

    def app(self, name="fern", **values):
        return {"name": name, "unsettled": 0, "capacity": None, "pushesPerSecond": None, **values}

    def cell(self, quota, name):
        return f"[data-quota='{quota}'] [data-cell={name}]"

    def test_relay_without_quotas(self):
        self.show()
        self.assertFalse(self.browser.is_shown("#quotas"))
        self.relay.callers, self.relay.apps = [], []
        self.tick()
        self.assertFalse(self.browser.is_shown("#quotas"))
        self.relay.apps = [self.app()]
        self.tick()
        self.assertEqual(self.browser.values("[data-quota]", "data-quota"), ["app/fern"])
        self.assertTrue(self.browser.is_shown("#quotas"))

    def test_quotas(self):
        browser = self.browser
        # An app and a caller may have the same name.
        self.relay.callers = [
            self.caller(unsettled=45_000, capacity=180_000, pushesPerSecond=5_000, available=12_500.7),
            self.caller("fern", unsettled=12)]
        self.relay.apps = [self.app(unsettled=1_000, capacity=500_000, pushesPerSecond=2_000), self.app("moss")]
        self.show()
        texts = {quota: [browser.text(self.cell(quota, name)) for name in ("unsettled", "submitted")]
                 for quota in browser.values("[data-quota]", "data-quota")}
        self.assertEqual(list(texts), ["caller/shop", "caller/fern", "app/fern", "app/moss"])
        self.assertEqual(texts, {
            "caller/shop": ["45,000 of 180,000, 25 %", "limit 5,000/s, 12,500 free now"],
            "caller/fern": ["12, no limit", "no limit"],
            "app/fern": ["1,000 of 500,000, less than 1 %", "limit 2,000/s"],
            "app/moss": ["0, no limit", "no limit"]})

    def test_a_quota_that_is_used_up(self):
        browser = self.browser
        self.relay.callers = [self.caller(unsettled=79, capacity=100, pushesPerSecond=10, available=100)]
        self.show()
        self.assertEqual(browser.text(self.cell("caller/shop", "unsettled")), "79 of 100, 79 %")
        # A large request may take more than there is.
        self.relay.callers[0].update(unsettled=130, available=-40)
        self.tick()
        browser.wait_text(self.cell("caller/shop", "unsettled"), "130 of 100, 130 %")
        self.assertEqual(browser.text(self.cell("caller/shop", "unsettled")), "130 of 100, 130 %nearly full")
        self.assertEqual(browser.text(self.cell("caller/shop", "submitted")), "limit 10/s, used up")
