"""The plugin as a user's own test run meets it: a pytest of its own, in a folder of its own."""

import subprocess
import sys
import time
from pathlib import Path

from cometmq.embedded import Embedded

USERS_TESTS = """
import os
import pytest
from cometmq import Message, Producer, PullConsumer
from cometmq.model.errors import TopicNotFound

def received(nameserver=None):
    with PullConsumer(nameserver, group="test") as consumer:
        consumer.subscribe("orders")
        return [message.body for message in consumer.receive(wait_ms=5000)]

@pytest.mark.parametrize("body", [b"17", b"18"])
def test_each_test_has_topics_of_its_own(cometmq, body):
    with Producer() as producer:
        producer.send(Message("orders", body))
    assert received() == [body]

def test_the_address_is_told(cometmq):
    assert os.environ["NAMESRV_ADDR"] == cometmq.nameserver

@pytest.mark.cometmq(autoCreateTopicEnable=False)
def test_settings_are_those_of_a_broker(cometmq):
    with Producer(cometmq.nameserver) as producer, pytest.raises(TopicNotFound):
        producer.send(Message("nothing", b"x"))

@pytest.mark.cometmq(grpc_port=0)
def test_grpc_clients_have_an_address(cometmq):
    assert cometmq.grpc_address.startswith("127.0.0.1:")

def test_one_for_all(cometmq_session):
    with Producer(cometmq_session.nameserver) as producer:
        producer.send(Message("orders", b"19"))

def test_is_the_same(cometmq_session):
    assert received(cometmq_session.nameserver) == [b"19"]
    assert "NAMESRV_ADDR" not in os.environ
"""


def test_a_users_tests_get_their_broker(tmp_path: Path):
    (tmp_path / "test_users.py").write_text(USERS_TESTS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--strict-markers"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PATH": ""},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "7 passed" in done.stdout


def test_a_broker_is_there_in_under_half_a_second():
    times = []
    for _ in range(3):
        began = time.monotonic()
        with Embedded():
            times.append(time.monotonic() - began)
    assert min(times) < 0.5
