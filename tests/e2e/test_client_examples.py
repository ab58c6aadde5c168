"""The examples run, as their first lines say."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cometmq.embedded import Embedded
from tests.support.processes import wait_until

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def cluster():
    with Embedded() as made:
        yield made


def run(name: str, nameserver: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", f"examples.{name}", nameserver],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_message_goes_through_all_three_examples(cluster, tmp_path):
    assert "1000 messages in 4 queues" in run("producer", cluster.nameserver)
    pulled = run("pull", cluster.nameserver)
    assert pulled.count("messages,") == 4
    assert len(pulled.splitlines()) == 4 + 8 + 10
    said = tmp_path / "consumer.log"
    with said.open("w") as log:
        consumer = subprocess.Popen(
            [sys.executable, "-u", "-m", "examples.consumer", cluster.nameserver],
            stdout=log,
            stderr=log,
            cwd=ROOT,
        )
        try:
            # All but the batch, which has no tag, and the state "packed".
            wait_until(
                lambda: len(said.read_text().splitlines()) >= 1003,
                seconds=30,
                what="1003 messages",
            )
            consumer.send_signal(signal.SIGINT)
            assert consumer.wait(20) == 0
        finally:
            consumer.kill()
            consumer.wait()
    assert len(said.read_text().splitlines()) == 1003


def test_transactions_and_order_have_examples(cluster):
    told = run("transactions", cluster.nameserver)
    assert told.splitlines()[1:] == [
        "rolled back: order-18 is sold out",
        "the listener says COMMIT",
    ]
    ordered = run("in_order", cluster.nameserver).splitlines()
    assert ordered == [f"order-{number}: new -> paid -> packed -> sent" for number in range(5)]


def test_requests_times_traces_and_processes_have_examples(cluster):
    assert run("request_reply", cluster.nameserver).splitlines() == [
        "apple: 0.30",
        "pear: 0.45",
        "kiwi: nobody knows",
    ]
    told = run("later", cluster.nameserver)
    assert told == "first 'now', then ['after a time', 'at a time', 'by level 1']\n"
    assert sorted(run("watched", cluster.nameserver).splitlines()) == [
        "Pub of PYTHON_PRODUCER: ours, SUCCESS",
        "SubAfter of watched: ours, SUCCESS",
        "SubBefore of watched: ours, SUCCESS",
    ]
    assert run("in_processes", cluster.nameserver) == "20 sums, 0 failed; paused\n"
