"""What a sender is told of a message that was stored and not confirmed."""

import json

import pytest

from cometmq.broker.send.requests.answers import as_late
from cometmq.kernel import encode_answers
from cometmq.model.codes import ResponseCode
from cometmq.store.positions import Durability


@pytest.mark.parametrize(
    ("durability", "code"),
    [
        (Durability.DISK_LATE, ResponseCode.FLUSH_DISK_TIMEOUT),
        (Durability.REPLICA_LATE, ResponseCode.FLUSH_SLAVE_TIMEOUT),
        (Durability.NO_REPLICA, ResponseCode.SLAVE_NOT_AVAILABLE),
    ],
)
def test_the_code_says_whose_fault_it_is(durability, code):
    start = '{"code":0,"extFields":{"queueId":"3","msgId":"7F000001'
    late = as_late([(17, start, "KEY"), (18, None, "ONEWAY")], durability)
    assert late[1] == (18, None, "ONEWAY")
    frame = encode_answers(late, [(5, 900, 100), (6, 1_000, 100)])
    header = json.loads(frame[8:])
    assert (header["code"], header["opaque"]) == (code, 17)
    assert header["extFields"]["queueOffset"] == "5"
