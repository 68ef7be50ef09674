"""The demo of Web Push, and the page that it points to, in headless Chromium.

DEMO_PYTHON is the Python that has the senders' packages.
"""

import os
import re
import signal
import subprocess
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "Page"))

from browser import Browser  # noqa: E402


class Demo(unittest.TestCase):
    def setUp(self):
        self.demo = subprocess.Popen(
            [os.environ["DEMO_PYTHON"], str(HERE / "demo.py")], stdout=subprocess.PIPE, text=True
        )

    def tearDown(self):
        self.demo.send_signal(signal.SIGINT)
        self.demo.communicate(timeout=60)

    def test_page_shows_the_decrypted_texts(self):
        address = None
        for line in self.demo.stdout:
            found = re.search(r"on the page (http://\S+)", line)
            if found:
                address = found[1]
                break
        self.assertIsNotNone(address, "the demo has ended")
        browser = Browser()
        try:
            browser.driver.get(address)
            browser.click("#tab-device")
            texts = ["Somebody is at the garden gate", "Grüße aus Köln", "Is the kettle on?"]
            browser.wait("the texts", lambda: browser.texts(".notification .text") == texts)
            self.assertEqual(browser.texts("[data-field=webpush]"), ["Web Push, decrypted"] * 3)
            browser.shot("webpush-demo")
        finally:
            browser.driver.quit()


if __name__ == "__main__":
    unittest.main(verbosity=2)
