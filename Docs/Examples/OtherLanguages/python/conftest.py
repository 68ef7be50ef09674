"""One simulator for all tests, and a sender that is configured for it."""

import shlex
from pathlib import Path

import pytest
from sender import PushSender
from simulator import running_simulator


@pytest.fixture(scope="session")
def credentials(tmp_path_factory):
    return tmp_path_factory.mktemp("credentials")


@pytest.fixture(scope="session")
def running(credentials):
    with running_simulator(credentials) as simulator:
        yield simulator


@pytest.fixture
def simulator(running):
    running.reset()
    return running


@pytest.fixture
def settings(simulator, credentials):
    """The variables of apns.env as arguments of PushSender."""
    text = (credentials / "apns.env").read_text()
    values = dict(word.split("=", 1) for word in shlex.split(text))
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
