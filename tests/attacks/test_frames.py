"""Frames that are too large, or never whole: who sent them or asked for them learns it, and nobody else notices."""

import contextlib
import struct

from cometmq.codec.remoting import FRAME_SIZE_MAX
from cometmq.model.codes import RequestCode, ResponseCode
from tests.attacks import beats
from tests.attacks.stranger import Stranger
from tests.support.frames import json_frame
from tests.support.good_client import GoodClient
from tests.support.load import send_all
from tests.support.memory import MIB, MemoryWatch

GROUP = "large_answers"


def heartbeat(client_id: str) -> bytes:
    """What a push consumer of one group says of itself."""
    return beats.heartbeat(client_id, [beats.consumer(GROUP)])


def test_a_list_that_fits_no_frame_ends_nobodys_connection(broker):
    """Two members with ids of 9 MiB: who asks for the group's members is answered, and so is the request behind."""
    with GoodClient(broker.address, broker.pid) as good:
        members = [Stranger(broker.address) for _ in range(2)]
        for number, member in enumerate(members):
            member.ask(RequestCode.HEART_BEAT, body=heartbeat(f"{number}" * (9 << 20)))
        with Stranger(broker.address, seconds=10) as asker:
            fields = {"consumerGroup": GROUP}
            asked = json_frame(RequestCode.GET_CONSUMER_LIST_BY_GROUP, fields, opaque=7)
            behind = json_frame(RequestCode.GET_BROKER_RUNTIME_INFO, opaque=8)
            asker.socket.sendall(asked + behind)  # One read of the broker's.
            answers = [asker.read(), asker.read()]
        for member in members:
            member.socket.close()
    assert [answer.opaque for answer in answers] == [7, 8]
    assert answers[1].code == ResponseCode.SUCCESS
    good.check()


def test_what_a_client_tells_too_much_of_is_answered_too(broker):
    """A client answers the broker's question with a full frame; passed on it fits none, and the asker learns that."""
    fields = {"consumerGroup": GROUP, "clientId": "talker", "jstackEnable": "false"}
    with GoodClient(broker.address, broker.pid) as good, Stranger(broker.address) as talker:
        assert talker.ask(RequestCode.HEART_BEAT, body=heartbeat("talker")).code == 0
        with Stranger(broker.address, seconds=8) as asker:
            asker.send(RequestCode.GET_CONSUMER_RUNNING_INFO, fields)
            while (question := talker.read()).code != RequestCode.GET_CONSUMER_RUNNING_INFO:
                pass
            header = b'{"code":0,"flag":1,"opaque":%d}' % question.opaque
            body = bytes(FRAME_SIZE_MAX - 8 - len(header))
            head = struct.pack(">II", FRAME_SIZE_MAX - 4, len(header)) + header
            talker.socket.sendall(head + body)
            answer = asker.read()
    good.check(wait_ms=100)  # 16 MiB come in, and are copied.
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "ask for less" in answer.remark


def test_half_frames_lock_nobody_out(broker, access):
    """20 connections hold all but the end of a large frame; sends of 3 MB that come in many reads are all taken."""
    half = struct.pack(">II", FRAME_SIZE_MAX - 4, 100) + bytes(FRAME_SIZE_MAX - 200_000)
    watch = MemoryWatch(broker.pid)
    with contextlib.ExitStack() as left, GoodClient(broker.address, broker.pid) as good, watch:
        for _ in range(20):
            peer = left.enter_context(Stranger(broker.address))
            with contextlib.suppress(ConnectionError):
                peer.socket.sendall(half)
        assert send_all(broker.address, "Large", [bytes(3 << 20)] * 5, window=1) == [0] * 5
    good.check()
    # The 3 MB of the honest ones, in the log's map and on their way, are beside the halves.
    watch.check(growth_max=80 * MIB)
    watch.check_back()
    if access == "open":  # Who has not signed may not even begin a large frame.
        assert "incomplete frames" in broker.log.read_text()


def test_a_header_that_is_too_long_is_refused_before_it_is_whole(broker):
    """A header of 8 MB is refused by its number after 64 KiB of it; the connection goes on behind the frame."""
    header = b'{"code":34,"opaque":77,' + b" " * (8 << 20)
    frame = struct.pack(">II", 4 + len(header), len(header)) + header
    watch = MemoryWatch(broker.pid)
    with (
        GoodClient(broker.address, broker.pid) as good,
        watch,
        Stranger(broker.address) as peer,
    ):
        peer.socket.sendall(frame[: 1 << 20])
        refused = peer.read()
        peer.socket.sendall(frame[1 << 20 :])
        assert peer.ask(RequestCode.GET_BROKER_RUNTIME_INFO).code == 0
    assert refused.opaque == 77
    assert "at most 65536 are allowed" in refused.remark
    good.check()
    watch.check(growth_max=8 * MIB)


def test_bad_frames_write_few_lines(broker):
    """400 connections that speak no RocketMQ, as a browser does, cost some lines of the log and not 400."""
    before = len(broker.log.read_text())
    with GoodClient(broker.address, broker.pid) as good:
        for _ in range(400):
            with Stranger(broker.address) as peer:
                peer.socket.sendall(b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n")
                assert peer.socket.recv(1) == b""
    good.check()
    assert len(broker.log.read_text()) - before < 12_000
