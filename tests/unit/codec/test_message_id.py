"""Offset message ids and unique ids."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

import pytest

from cometmq.codec.host import encode_host
from cometmq.codec.message_id import (
    UniqueIds,
    decode_message_id,
    encode_message_id,
    unique_id_time,
)
from cometmq.model.errors import CodecError


def ms(year: int, month: int, day: int, *time: int, zone: tzinfo = UTC) -> int:
    hour, minute, second = (*time, 0, 0, 0)[:3]
    return int(datetime(year, month, day, hour, minute, second, tzinfo=zone).timestamp() * 1000)


class HandClock:
    is_steady = True

    def __init__(self, now_ms: int) -> None:
        self.now = now_ms

    def now_ms(self) -> int:
        return self.now

    def monotonic(self) -> float:
        return 0.0


def ids(clock: HandClock, *, ip: bytes = b"\x7f\0\0\1", zone=UTC) -> UniqueIds:
    return UniqueIds(ip=ip, pid=0x10ABC, loader=0x1DEADBEEF, clock=clock, zone=zone)


@pytest.mark.parametrize(
    ("host", "offset", "message_id"),
    [
        ("127.0.0.1:41911", 268, "7F0000010000A3B7000000000000010C"),
        ("[fd00::2]:41911", 268, "FD0000000000000000000000000000020000A3B7000000000000010C"),
    ],
)
def test_offset_ids_come_back(host, offset, message_id):
    assert encode_message_id(encode_host(host), offset) == message_id
    assert decode_message_id(message_id) == (encode_host(host), offset)
    assert decode_message_id(message_id.lower()) == (encode_host(host), offset)


@pytest.mark.parametrize(
    "text",
    ["", "7F", "7F0000010000A3B7000000000000010", "X" * 32, "7F 0" * 8, "é" * 32, "0" * 40],
)
def test_what_is_no_id_is_refused_by_name(text):
    for read in (decode_message_id, lambda text: unique_id_time(text, now_ms=0)):
        with pytest.raises(CodecError, match="is not a message id"):
            read(text)


def test_an_offset_id_of_nonsense_is_refused():
    with pytest.raises(CodecError, match="5 bytes"):
        encode_message_id(b"12345", 0)
    with pytest.raises(CodecError, match="does not fit"):
        encode_message_id(bytes(8), 1 << 63)


def test_a_unique_id_holds_ip_process_loader_time_and_counter():
    clock = HandClock(ms(2026, 11, 1, 0, 0, 1))
    source = ids(clock)
    assert source.next_id() == "7F000001" + "0ABC" + "DEADBEEF" + "000003E8" + "0000"
    assert source.next_id().endswith("0001")
    assert len(ids(clock, ip=bytes(16)).next_id()) == 56
    with pytest.raises(CodecError, match="5 bytes"):
        ids(clock, ip=bytes(5))


def test_time_counts_from_the_month_in_the_given_zone():
    zone = ZoneInfo("Asia/Shanghai")
    source = ids(HandClock(ms(2026, 12, 1, 0, 0, 2, zone=zone)), zone=zone)
    assert source.next_id()[20:28] == "000007D0"


def test_a_new_month_moves_the_base_and_a_clock_set_back_gives_0():
    clock = HandClock(ms(2026, 12, 31, 23, 59, 59))
    source = ids(clock)
    assert int(source.next_id()[20:28], 16) == 31 * 86_400_000 - 1000
    clock.now = ms(2027, 1, 1, 0, 0, 0)
    assert source.next_id()[20:28] == "00000000"
    clock.now -= 5
    assert source.next_id()[20:28] == "00000000"


def test_65536_ids_of_one_millisecond_differ_between_threads_too():
    source = ids(HandClock(ms(2026, 11, 21)))
    with ThreadPoolExecutor(4) as pool:
        pieces = pool.map(lambda _: [source.next_id() for _ in range(16384)], range(4))
        assert len({one for piece in pieces for one in piece}) == 65536


@pytest.mark.parametrize(
    ("born", "now"),
    [
        (ms(2026, 11, 21, 12), ms(2026, 11, 21, 13)),
        (ms(2026, 10, 31, 23, 59), ms(2026, 11, 1, 0, 1)),
        (ms(2026, 12, 31, 23, 59), ms(2027, 1, 1, 0, 1)),
    ],
)
def test_the_time_of_a_unique_id_is_found_again(born, now):
    for ip in (bytes(4), bytes(16)):
        unique_id = ids(HandClock(born), ip=ip).next_id()
        assert unique_id_time(unique_id, now_ms=now, zone=UTC) == born


def test_without_a_zone_the_machines_is_used():
    now = ms(2026, 11, 21, 12)
    source = UniqueIds(ip=bytes(4), pid=1, loader=2, clock=HandClock(now))
    assert unique_id_time(source.next_id(), now_ms=now + 1000) == now
