"""Tests the relay's page in headless Chromium: python3 test_page.py [NAME of a test]…

Without RELAY_URL, the page talks to a mock relay (mock_relay.py) that can produce every state. With RELAY_URL, only
the tests in common_tests.py run, against the relay there: RELAY_TOKEN is an operator's token, if the relay asks for
one, and RELAY_APP the name of an app to hand a push in for (default `fern`), which the test cancels.
PAGE_SHOTS is the folder for screenshots, PAGE_CHROMEDRIVER and PAGE_CHROMIUM are the browser's programs.
"""
import sys
import time
import unittest

from batch_tests import BatchTests
from case import PageCase, RealRelay
from common_tests import CommonTests
from overview_tests import OverviewTests
from panel_tests import PanelTests
from parked_tests import ParkedTests
from quota_tests import QuotaTests
from safety_tests import SafetyTests


class Names(unittest.TextTestResult):
    """Prints each test's name and how long it took."""

    def startTest(self, test):
        self.began = time.monotonic()
        super().startTest(test)

    def stopTest(self, test):
        print(f"{test.id().split('.')[-1]} ({time.monotonic() - self.began:.1f} s)", flush=True)
        super().stopTest(test)


def main():
    with_a_mock = [OverviewTests, BatchTests, QuotaTests, PanelTests, ParkedTests, SafetyTests]
    classes = [CommonTests] if RealRelay.url else [CommonTests, *with_a_mock]
    loader = unittest.defaultTestLoader
    wanted = sys.argv[1:]
    suite = unittest.TestSuite(
        kind(name) for kind in classes for name in loader.getTestCaseNames(kind) if not wanted or name in wanted)
    try:
        result = unittest.TextTestRunner(stream=sys.stdout, resultclass=Names, verbosity=0).run(suite)
    finally:
        if PageCase.browser:
            PageCase.browser.driver.quit()
    failed = len({test.id().split(" ")[0] for test, _ in result.failures + result.errors})
    skipped = len(result.skipped)
    print(f"relay page: {result.testsRun - failed - skipped} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed or result.testsRun == 0 else 0)


if __name__ == "__main__":
    main()
