"""Sends as columns, function by function; that they mean what the slow path does is said by `tests.property.test_fast_path`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq import kernel
from cometmq.codec.record import RECORD_HEADS
from cometmq.kernel import sends
from tests.support.lane_tables import table_of
from tests.support.send_frames import Sent, frame_of, in_words, item_of

pytestmark = pytest.mark.compiled

SUFFIX = b"MSG_REGION\1R\2TRACE_ON\1true\2"
BORN_HOST = bytes(range(8))
STORE_HOST = b"storehos"
LAYOUTS = {8: (RECORD_HEADS[0].pack, RECORD_HEADS[0].size + 2, 0)}
LIMITS = 1 << 20, 1 << 24, 1 << 16, 3  # The last: messages of a batch.
HOST = "C0A80001"
START = '{"code":0,"extFields":{"queueId":"0","msgId":"C0A8'
PLAIN = Sent(
    310, 0, 7,
    {
        "a": "p", "b": "Orders", "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "1700000000000",
        "h": "0", "i": "UNIQ_KEY\1A1\2WAIT\1true\2TAGS\1TagA\2", "j": "0", "k": "false", "m": "false",
    },
    b"body",
)  # fmt: skip
_ITEMS = [
    item_of(b"one", 3, "UNIQ_KEY\1A2\2TAGS\1TagA\2", (0, 0, 0)),
    item_of(b"", 0, "", (0, 0, 0)),
    item_of(b"three", 0, "KEYS\1k1 k2", (0, 0, 0)),
]
BATCH = PLAIN._replace(
    code=320,
    fields=PLAIN.fields | {"i": "WAIT\1true\2UNIQ_KEY\1A1\2", "m": "true"},
    body=b"".join(_ITEMS),
)
FORMS = pytest.mark.parametrize("form", ["json", "raw", "binary"])


class Taken:
    """A batch that takes the sends of a connection, and the one queue that there is."""

    def __init__(self, data: bytes, count_max: int = 9, offset: int = 0) -> None:
        self.queue: Any = kernel.QueueEnd(1)
        self.queue.next_offset = offset
        self.batch: Any = kernel.SendBatch(SUFFIX)
        self.end = kernel.take_sends(
            self.batch, data, 0, count_max, BORN_HOST, table_of(kernel, {"Orders": {1: self.queue}}, START), LIMITS
        )  # fmt: skip

    @property
    def seen(self) -> tuple[int, int, int]:
        """Where they end, messages, requests."""
        assert len(self.batch) == self.batch.count
        return self.end, self.batch.count, self.batch.request_count

    def pack(self, position: int = 1000, room: int = 1 << 40) -> tuple[int, int]:
        return kernel.pack_columns(
            self.batch, 0, position, position + room, LAYOUTS, 1700, STORE_HOST, []
        )


@FORMS
def test_what_official_clients_write_is_taken(form):
    data = frame_of(PLAIN, form) * 3
    assert Taken(data).seen == (len(data), 3, 3)
    assert Taken(data, 2).seen == (len(data) * 2 // 3, 2, 2)


@FORMS
def test_so_are_batches_and_sends_with_words(form):
    words, whole = frame_of(in_words(PLAIN), form), frame_of(BATCH, form)
    assert Taken(words * 3).seen == (3 * len(words), 3, 3)
    assert Taken(whole * 3, 2).seen == (2 * len(whole), 6, 2)
    four = BATCH._replace(body=BATCH.body + item_of(b"four", 0, "", (0, 0, 0)))
    assert Taken(whole + frame_of(four, form)).seen == (len(whole), 3, 1)


@FORMS
@pytest.mark.parametrize("offset", [0, 9, *(10**n + d for n in range(1, 19) for d in (-1, 0))])
def test_answers_name_numbers_of_any_length(form, offset):
    opaque = offset if offset < 1 << 31 else -(offset % (1 << 31))
    taken = Taken(frame_of(PLAIN._replace(opaque=opaque), form), offset=offset)
    taken.pack(offset, 1 << 62)
    batch = taken.batch
    answer = bytes(kernel.answer_columns(batch, 0, 1, HOST))
    assert answer == sends.encode_answers(batch.pending(0, 1), batch.results(0, 1))
    assert json.loads(answer[8:])["opaque"] == opaque
    assert json.loads(answer[8:])["extFields"]["queueOffset"] == str(offset)


def test_a_batch_that_does_not_fit_ends_the_packing_and_what_is_taken_back_was_never_there():
    single, whole = frame_of(PLAIN, "json"), frame_of(BATCH, "json")
    taken = Taken(single + whole + single, offset=5)
    alone = Taken(single)
    alone.pack()
    ((_, _, size),) = alone.batch.results(0, 9)
    packed, position = taken.pack(room=size + 10)
    assert (packed, position) == (1, 1000 + size)
    assert taken.batch.results(0, 9) == [(5, 1000, size)]
    assert (taken.batch.start, taken.batch.end_of(1)) == (1000, 1000 + size)
    kernel.take_back(taken.batch)
    assert taken.queue.next_offset == 5
    assert (taken.batch.results(0, 9), taken.batch.start) == ([], 0)
    assert taken.pack()[0] == 5
    assert [offset for offset, _, _ in taken.batch.results(0, 9)] == [5, 6, 7, 8, 9]


def test_columns_are_counted_as_the_puts_that_they_are():
    seen = []
    for is_columns in (True, False):
        taken = Taken(frame_of(PLAIN, "json") * 2 + frame_of(BATCH, "binary"))
        taken.pack()
        fresh: list[Any] = []
        above: Any = kernel.Tally("above", None, fresh)
        own = taken.queue.tally = kernel.Tally("own", above, fresh)
        if is_columns:
            kernel.count_columns(taken.batch, 0, 2, 7)
            kernel.count_columns(taken.batch, 2, 1 << 40, 7)
        else:
            kernel.count_puts(taken.batch.puts()[:2], taken.batch.results(0, 2), 7)
            kernel.count_puts(taken.batch.puts()[2:], taken.batch.results(2, 9), 7)
        seen.append([
            sorted(each.of for each in fresh),
            *((each.count, each.size, each.time_us, each.times, each.sizes) for each in (own, above)),
        ])  # fmt: skip
    assert seen[0] == seen[1]


def test_an_answer_before_its_record_is_an_error():
    batch: Any = kernel.SendBatch(SUFFIX)
    with pytest.raises(IndexError):
        kernel.answer_columns(batch, 0, 1, HOST)
    with pytest.raises(IndexError):
        batch.end_of(1)


def test_a_key_that_needs_an_escape_is_left():
    odd = PLAIN._replace(fields=PLAIN.fields | {"i": 'UNIQ_KEY\1a"b\2'})
    data = frame_of(odd, "json")
    assert json.loads(data[8 : -len(odd.body)])["extFields"]["i"] == 'UNIQ_KEY\1a"b\2'
    assert Taken(data).seen == (0, 0, 0)


@given(st.binary(max_size=64))
def test_garbage_is_left(data):
    assert Taken(data).seen == (0, 0, 0)


@pytest.mark.parametrize("count", [1, 63, 64, 65, 200])
def test_a_message_of_very_many_properties_is_left(count):
    block = PLAIN.fields["i"] + "".join(f"n{number}\1v\2" for number in range(count - 3))
    data = frame_of(PLAIN._replace(fields=PLAIN.fields | {"i": block}), "json")
    assert bool(Taken(data).end) == (count <= 64)


def test_other_kernels_queues_and_signers_are_refused():
    no_table: Any = {}
    no_signer: Any = object()
    batch: Any = kernel.SendBatch(b"")
    with pytest.raises(TypeError, match="LaneTable"):
        kernel.take_sends(batch, b"", 0, 1, bytes(8), no_table, LIMITS)
    with pytest.raises(TypeError, match="KnownSigner"):
        kernel.take_sends(batch, b"", 0, 1, bytes(8), kernel.LaneTable(), LIMITS, no_signer)
