"""What waits in a store is delivered by the broker that opens it next, whoever wrote it: Java's or ours."""

import signal
import time

import pytest

from tests.interop import reference
from tests.interop.handover import handover
from tests.support import processes
from tests.support.delays import QUEUES, Wish, lying_in, send_back, send_wishes
from tests.support.processes import wait_until

TOPIC, GROUP = "WaitsOn", "waiters"
RETRY = f"%RETRY%{GROUP}"
SETTINGS = {
    "autoCreateTopicEnable": "true",
    "autoCreateSubscriptionGroup": "true",
    "defaultTopicQueueNums": QUEUES,
    "messageDelayLevel": "1s 15s",
}
SOON = [Wish(f"soon-{number}", 1000, number % 2) for number in range(10)]
LATER = [Wish(f"later-{number}", 15_000, number % 2 * 2) for number in range(10)]

pytestmark = [pytest.mark.java, pytest.mark.timeout(180)]


# A clean stop of Java's takes 15 s; tests/crash kills ours.
@pytest.mark.parametrize(
    ("first", "how", "second"),
    [
        (processes.broker, signal.SIGTERM, reference.broker),
        (reference.broker, signal.SIGKILL, processes.broker),
    ],
    ids=["ours stops, then Java", "Java is killed, then ours"],
)
def test_the_other_broker_delivers_what_is_left(tmp_path, first, how, second):
    with handover(tmp_path, SETTINGS) as (_, begin):
        writer = begin(first)
        asked = send_wishes(writer.address, TOPIC, LATER + SOON)
        wait_until(
            lambda: len(lying_in(writer.address, TOPIC)) == len(SOON), seconds=15, what="soon"
        )
        (to_retry,) = lying_in(writer.address, TOPIC)[:1]
        assert send_back(writer.address, to_retry, GROUP, 2) == 0
        time.sleep(2.5)  # Its timer has been saved.
        writer.end(how)
        heir = begin(second)
        wait_until(
            lambda: {r.body for r in lying_in(heir.address, TOPIC)} == bodies(SOON + LATER),
            seconds=60,
            what="later",
        )
        wait_until(lambda: lying_in(heir.address, RETRY, 1), seconds=30, what="the retry")
        found, (retry,) = lying_in(heir.address, TOPIC), lying_in(heir.address, RETRY, 1)
    wishes = {wish.name: wish for wish in SOON + LATER}
    for record in found:
        name = record.body.decode()
        assert record.store_timestamp >= asked[name] + wishes[name].delay_ms
    assert (retry.body, retry.reconsume_times) == (to_retry.body, 1)
    assert retry.properties()["RETRY_TOPIC"] == TOPIC
    if how is signal.SIGTERM:
        assert len(found) == len(SOON + LATER)


def bodies(wishes: list[Wish]) -> set[bytes]:
    return {wish.name.encode() for wish in wishes}
