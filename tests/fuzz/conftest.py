"""The nameserver that frames are sent to, or that the broker under test is registered at; and how many frames there are."""

import os

import pytest

from tests.support import processes
from tests.support.good_client import rerun_waits

# What `--frames` counts: broken frames at open servers, and at those that ask who sends.
COUNTED = ("COMETMQ_FUZZ_FRAMES", "COMETMQ_FUZZ_GUARDED")


def pytest_addoption(parser):
    parser.addoption(
        "--frames", type=int, help="so many broken frames of each kind: make fuzz ARGS='--frames 1000000'"
    )  # fmt: skip


def pytest_configure(config):
    """Tests read these when they are imported, which is later."""
    frames = config.getoption("--frames", default=None)
    if frames is not None:
        for name in COUNTED:
            os.environ[name] = str(frames)


def pytest_collection_modifyitems(items):
    rerun_waits(items, under=__file__)


@pytest.fixture
def nameserver(tmp_path):
    with processes.nameserver(tmp_path) as program:
        yield program
