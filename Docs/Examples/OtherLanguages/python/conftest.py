"""The simulator of each test, and a sender that is configured for it."""

from pathlib import Path

import pytest
from apns_simulator import apns, apns_process  # noqa: F401
from sender import PushSender


@pytest.fixture
def settings(apns):  # noqa: F811
    """The variables of apns.env as arguments of PushSender."""
    values = apns.settings
    return {
        "endpoint": values["APNS_ENDPOINT"],
        "ca_file": values["APNS_CA_FILE"],
        "key": Path(values["APNS_KEY_FILE"]).read_text(),
        "key_id": values["APNS_KEY_ID"],
        "team_id": values["APNS_TEAM_ID"],
        "pause": 0.05,
    }


@pytest.fixture
def sender(settings):
    return PushSender(**settings)
