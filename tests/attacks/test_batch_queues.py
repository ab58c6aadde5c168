"""A batch topic that a Java broker wrote stays readable, whatever is pulled from it or sent to it."""

from pathlib import Path

import pytest

from tests.attacks.by_hand import pull, send
from tests.attacks.stranger import Stranger
from tests.golden.test_store_kinds import EXPECTED, SOURCE
from tests.support import processes
from tests.support.request_fields import pop_fields
from tests.support.store_puts import writable_copy

TOPIC, QUEUE = "KindsBatches", 1
OK, MESSAGE_ILLEGAL, NOT_FOUND, POP = 0, 13, 19, 200050
MESSAGES = sum(len(line["bodies"]) for line in EXPECTED["batches"] if line["queue"] == QUEUE)
SETTINGS = {
    "mappedFileSizeCommitLog": 65_536,
    "mappedFileSizeConsumeQueue": 2_000,
    "maxHashSlotNum": 100,
    "maxIndexNum": 400,
    "diskMaxUsedSpaceRatio": 99,
    "diskSpaceWarningLevelRatio": 99,
    "messageDelayLevel": "1s 2s",
}


@pytest.fixture
def broker(tmp_path: Path):
    """A broker on a copy of the store, alone."""
    writable_copy(SOURCE / "store", tmp_path / "broker" / "store")
    with processes.broker(tmp_path / "broker", "", settings=SETTINGS) as program:
        yield program


def assert_readable(address: str) -> None:
    with Stranger(address) as stranger:
        answer = pull(stranger, TOPIC, QUEUE)
        assert answer.code == OK, answer
        assert answer.body
        assert int(answer.fields["maxOffset"]) == MESSAGES


def test_a_long_poll_at_the_end_of_a_batch_queue_leaves_it_readable(broker):
    with Stranger(broker.address) as stranger:
        answer = pull(stranger, TOPIC, QUEUE, MESSAGES, hold_ms=300)
    assert_readable(broker.address)
    assert answer.code == NOT_FOUND, answer
    assert broker.stop() == 0
    with broker.start():
        assert_readable(broker.address)


def test_a_pop_that_waits_leaves_a_batch_queue_readable(broker):
    fields = pop_fields(
        TOPIC, QUEUE, consumerGroup="popper", maxMsgNums=1, pollTime=300, initMode=1
    )
    with Stranger(broker.address) as stranger:
        for _ in range(MESSAGES):
            if stranger.ask(POP, fields).code != OK:  # It has waited at the end.
                break
    assert_readable(broker.address)


@pytest.mark.parametrize(
    "special",
    ["DELAY\x011\x02", "TIMER_DELAY_SEC\x011\x02", "TRAN_MSG\x01true\x02PGROUP\x01halves\x02"],
    ids=["delayed", "timed", "half"],
)
def test_a_message_that_would_wait_elsewhere_for_a_batch_topic_is_refused(broker, special):
    with Stranger(broker.address) as stranger:
        answer = send(stranger, TOPIC, QUEUE, properties=special)
        if (
            answer.code == OK and "TRAN" not in special
        ):  # As it was: wait until it is delivered.
            with pytest.raises(TimeoutError):
                processes.wait_until(
                    lambda: pull(stranger, TOPIC, QUEUE).code not in (OK, NOT_FOUND),
                    seconds=4,
                    what="the batch queue is hidden",
                )
        assert_readable(broker.address)
        assert answer.code == MESSAGE_ILLEGAL, answer
        assert "queue.type=BatchCQ" in answer.remark
