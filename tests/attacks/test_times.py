"""Numbers beyond all sense: times that hide a message for ever, offsets that skip all that is to come."""

import pytest

from tests.attacks.by_hand import send
from tests.attacks.stranger import Answered, Stranger
from tests.support.request_fields import pop_fields, pull_fields

PULL, QUERY_OFFSET, UPDATE_OFFSET = 11, 14, 15
POP, ACK, CHANGE_INVISIBLE_TIME = 200050, 200051, 200053
SUCCESS, INVALID_PARAMETER, MESSAGE_ILLEGAL = 0, 29, 13
ENDLESS = str((1 << 63) - 1)
THREE_DAYS_MS = 3 * 24 * 3_600_000  # timerMaxDelaySec


def fill(address: str, topic: str, count: int = 1) -> None:
    """Messages in the topic's only queue."""
    with Stranger(address) as peer:
        for _ in range(count):
            send(peer, topic, queues=1)


def pop(peer: Stranger, topic: str, invisible: str, *, order: str = "false") -> Answered:
    fields = pop_fields(
        topic, 0, maxMsgNums=1, invisibleTime=invisible, pollTime=ENDLESS, order=order
    )
    return peer.ask(POP, fields)


def handle(answer: Answered) -> str:
    """The handle of the first message of a pop, as a client makes it."""
    fields = answer.fields
    _, queue_id, start = fields["startOffsetInfo"].split(" ")
    return (
        f"{start} {fields['popTime']} {fields['invisibleTime']} {fields['reviveQid']} "
        f"0 broker-a {queue_id} {start}"
    )


@pytest.mark.parametrize("order", ["false", "true"])
def test_a_pop_with_an_endless_invisible_time_is_refused(standing, order):
    """A pop, and a change of its time, may hide a message for three days, and not for ever."""
    topic = f"Popped{order}"
    fill(standing.address, topic)
    with Stranger(standing.address) as peer:
        for endless in (ENDLESS, str(THREE_DAYS_MS + 1)):
            answer = pop(peer, topic, endless, order=order)
            assert (answer.code, str(THREE_DAYS_MS) in answer.remark) == (
                INVALID_PARAMETER,
                True,
            )
        given = pop(peer, topic, "60000", order=order)
        assert given.code == SUCCESS, given
        change = {
            "consumerGroup": "g", "topic": topic, "queueId": "0", "offset": "0",
            "extraInfo": handle(given), "invisibleTime": ENDLESS,
        }  # fmt: skip
        assert peer.ask(CHANGE_INVISIBLE_TIME, change).code == INVALID_PARAMETER
        assert peer.ask(CHANGE_INVISIBLE_TIME, change | {"invisibleTime": "1"}).code == SUCCESS
        again = pop(peer, topic, "1000", order=order)
        assert again.code == SUCCESS, "it must come again, whatever was asked before"


def test_an_acknowledgement_in_order_beyond_the_end_is_refused(standing):
    """An acknowledgement names a message that there is, or the group would skip all that is to come."""
    fill(standing.address, "Acknowledged", 2)
    ack = {
        "consumerGroup": "skipping", "topic": "Acknowledged", "queueId": "0", "offset": "2",
        "extraInfo": "2 1 60000 999 0 broker-a 0 2",
    }  # fmt: skip
    with Stranger(standing.address) as peer:
        assert peer.ask(ACK, ack).code == MESSAGE_ILLEGAL
        where = {"consumerGroup": "skipping", "topic": "Acknowledged", "queueId": "0"}
        assert peer.ask(QUERY_OFFSET, where | {"setZeroIfNotFound": "false"}).code != SUCCESS


def test_an_offset_far_beyond_the_end_skips_nothing(standing):
    """An offset of 10^18 in a queue of ten messages is refused by name, and a pull that brings one brings none."""
    fill(standing.address, "Skipped", 10)
    place = {"consumerGroup": "g", "topic": "Skipped", "queueId": "0"}
    with Stranger(standing.address) as peer:
        assert peer.ask(UPDATE_OFFSET, place | {"commitOffset": "7"}).code == SUCCESS
        for beyond in (str(10**18), "1035"):
            answer = peer.ask(UPDATE_OFFSET, place | {"commitOffset": beyond})
            assert answer.code == INVALID_PARAMETER, answer
            assert f"offset {beyond} is illegal" in answer.remark
            assert "ends at 10" in answer.remark
        pull = pull_fields("Skipped", offset=10, sysFlag=5, commitOffset=10**18)
        peer.ask(PULL, pull)
        assert peer.ask(QUERY_OFFSET, place).fields["offset"] == "7"
