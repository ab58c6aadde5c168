"""The examples run, as their first lines say."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import wait_until
from tests.support.programs import said_by_python

ROOT = Path(__file__).resolve().parents[2]


def run(name: str, nameserver: str) -> str:
    return said_by_python("-m", f"examples.{name}", nameserver, cwd=ROOT)


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


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("in_order", [f"order-{n}: new -> paid -> packed -> sent" for n in range(5)]),
        ("request_reply", ["apple: 0.30", "pear: 0.45", "kiwi: nobody knows"]),
        ("later", ["first 'now', then ['after a time', 'at a time', 'by level 1']"]),
        ("in_processes", ["20 sums, 0 failed; paused"]),
    ],
)
def test_an_example_prints_these_lines(cluster, name, lines):
    assert run(name, cluster.nameserver).splitlines() == lines


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("watched", [f"{kind}: ours, SUCCESS" for kind in ("Pub of PYTHON_PRODUCER", "SubAfter of watched", "SubBefore of watched")]),
        # Heavy parcels are done, and the heaviest comes again.
        ("pop", ["30 kg: done, received 2 times", "30 kg: in a second", "7 kg: done, received 1 times"]),
    ],
)  # fmt: skip
def test_an_example_prints_these_lines_in_any_order(cluster, name, lines):
    assert sorted(run(name, cluster.nameserver).splitlines()) == lines


def test_transactions_have_an_example(cluster):
    assert run("transactions", cluster.nameserver).splitlines()[1:] == [
        "rolled back: order-18 is sold out",
        "the listener says COMMIT",
    ]
