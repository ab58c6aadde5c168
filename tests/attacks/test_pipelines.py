"""One connection that asks for very much at once: it is served in turns with the others, in its order."""

import json
import threading

import pytest

from tests.attacks.stranger import Stranger
from tests.support.frames import json_frame, parts_of, read_frame
from tests.support.good_client import GoodClient
from tests.support.load import (
    PULL_MESSAGE,
    SUBSCRIPTION_IN_REQUEST,
    read_queue,
    send_all,
    send_frame,
)
from tests.support.request_fields import pull_fields

TOPIC = "Pipeline"
COUNT = 12_000


def sends() -> bytes:
    return b"".join(
        send_frame(TOPIC, b"%05d" % number + b"x" * 100, opaque=number, queue_id=0)
        for number in range(COUNT)
    )


def pulls() -> bytes:
    fields = pull_fields(
        TOPIC, consumerGroup="by_hand", maxMsgNums=1, sysFlag=SUBSCRIPTION_IN_REQUEST
    )
    return b"".join(json_frame(PULL_MESSAGE, fields, opaque=number) for number in range(COUNT))


@pytest.mark.parametrize("kind", ["sends", "pulls"])
def test_thousands_of_requests_at_once_keep_nobody_waiting(broker, kind):
    """12,000 requests on one connection are all answered in their order, and others are served between them."""
    send_all(broker.address, TOPIC, [b"first"])
    frames = sends() if kind == "sends" else pulls()
    with GoodClient(broker.address, broker.pid) as good, Stranger(broker.address) as peer:
        writing = threading.Thread(target=peer.socket.sendall, args=(frames,))
        writing.start()
        headers = [json.loads(parts_of(read_frame(peer.socket))[1]) for _ in range(COUNT)]
        writing.join()
    assert [header["opaque"] for header in headers] == list(range(COUNT))
    assert {header["code"] for header in headers} == {0}
    good.check()
    if kind == "sends":
        bodies = [body[:5] for _, body in read_queue(broker.address, TOPIC, 0)]
        assert bodies == [b"first", *(b"%05d" % number for number in range(COUNT))]
