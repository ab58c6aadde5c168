"""What a message becomes on its way out."""

import json
from dataclasses import replace

import pytest

from cometmq.client.producer.encoded_send import EncodedMessage, EncodedSend, SendEncoder
from cometmq.client.producer.send_attempts import header_pieces
from cometmq.client.settings import ProducerSettings
from cometmq.codec.batch import decode_batch
from cometmq.codec.compression import Compression, decompress
from cometmq.codec.message_id import UniqueIds
from cometmq.codec.properties import decode_properties
from cometmq.codec.send_text import END
from cometmq.model.codes import RequestCode
from cometmq.model.errors import MessageError
from cometmq.model.message import Message, StoredMessage
from cometmq.model.queue import MessageQueue
from tests.support.hand_clock import HandClock


def fields_of(encoded: EncodedSend) -> dict[str, str]:
    """The header's fields, as a broker reads them."""
    pieces = header_pieces(encoded, MessageQueue(encoded.topic, "broker-a", 3))
    fields: dict[str, str] = json.loads("".join(map(str, (*pieces, 17, END))))["extFields"]
    return fields


def encoder(**settings) -> SendEncoder:
    clock = HandClock()
    ids = UniqueIds(ip=bytes(4), pid=1, loader=2, clock=clock)
    return SendEncoder("PG", ProducerSettings(**settings), clock, ids)


def test_a_small_body_goes_out_as_it_is():
    encoded = encoder().pack(Message("T", b"hello", tag="A", keys=("k1", "k2"), flag=5))
    assert f'"code":{RequestCode.SEND_MESSAGE_V2},' in encoded.front
    assert (encoded.body, encoded.topic) == (b"hello", "T")
    fields = fields_of(encoded)
    properties = decode_properties(fields.pop("i").encode())
    assert properties == {
        "TAGS": "A", "KEYS": "k1 k2", "WAIT": "true", "UNIQ_KEY": encoded.message_id,
    }  # fmt: skip
    assert fields == {
        "a": "PG", "b": "T", "c": "TBW102", "d": "4", "e": "3", "f": "0", "g": "1700000000000",
        "h": "5", "n": "broker-a",
    }  # fmt: skip


def test_a_message_without_properties_says_the_same_as_one_with_them_would():
    bare = fields_of(encoder().pack(Message("T", b"", wait_store_ok=False)))
    tagged = fields_of(encoder().pack(Message("T", b"", tag='"é\\', wait_store_ok=False)))
    assert tagged["i"] == 'TAGS\x01"é\\\x02' + bare["i"]
    assert list(decode_properties(bare["i"].encode())) == ["WAIT", "UNIQ_KEY"]


def test_what_a_special_send_adds_stands_in_its_header():
    encoded = encoder(compress_over=10).pack(
        Message("T", bytes(100)), {"TRAN_MSG": "true"}, sys_flag=4, more=',"j":"2"'
    )
    fields = fields_of(encoded)
    assert (int(fields["f"]) & 5, fields["j"]) == (5, "2")
    assert decode_properties(fields["i"].encode())["TRAN_MSG"] == "true"


def test_every_message_has_an_id_of_its_own():
    made = encoder()
    assert len({made.pack(Message("T", b"")).message_id for _ in range(1000)}) == 1000


@pytest.mark.parametrize("algorithm", Compression)
def test_a_long_body_is_compressed_and_says_how(algorithm):
    body = b"again and again " * 1000
    encoded = encoder(compression=algorithm).pack(Message("T", body))
    assert len(encoded.body) < 1000
    sys_flag = int(fields_of(encoded)["f"])
    assert sys_flag == 1 | algorithm
    assert decompress(encoded.body, sys_flag, limit=len(body)) == body


def test_a_body_over_the_limit_is_refused_before_any_network():
    with pytest.raises(MessageError, match="body_size_max"):
        encoder(body_size_max=5000).pack(Message("T", b"x" * 5001))
    with pytest.raises(MessageError, match="101 bytes"):
        encoder(body_size_max=100).pack(Message("T", b"x" * 101))


def test_a_tag_that_no_record_has_room_for_is_refused_before_any_network():
    with pytest.raises(MessageError, match="a record has room for 32767"):
        encoder().pack(Message("T", b"", tag="x" * 32_760))


def test_a_received_message_is_no_message_to_send():
    received = StoredMessage(
        MessageQueue("T", "broker-a", 0), 0, "id", "", b"", {}, 0, "", 0, ""
    )
    with pytest.raises(MessageError, match=r"is not a Message; send Message\(topic, body\)"):
        encoder().pack(received)  # type: ignore[arg-type]  # What is tried.


def test_nobody_sends_to_the_systems_topics():
    with pytest.raises(MessageError, match="SCHEDULE_TOPIC_XXXX"):
        encoder().pack(Message("SCHEDULE_TOPIC_XXXX", b"x"))


def test_a_batch_holds_its_messages_with_ids_of_their_own():
    encoded = encoder().pack_batch([Message("T", b"%d" % n, tag="A") for n in range(3)])
    assert f'"code":{RequestCode.SEND_BATCH_MESSAGE},' in encoded.front
    assert fields_of(encoded)["m"] == "true"
    items = decode_batch(encoded.body)
    assert [item.body for item in items] == [b"0", b"1", b"2"]
    ids = [decode_properties(item.property_block)["UNIQ_KEY"] for item in items]
    assert encoded.message_id == ",".join(ids)
    assert len(set(ids)) == 3


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([], "at least one"),
        ([Message("T", b""), Message("U", b"")], "one topic"),
        ([Message("T", b"", delay_level=1)], "delay"),
        ([Message("T", b""), Message("T", b"", wait_store_ok=False)], "wait_store_ok"),
        ([Message("T", b"x" * 60)] * 10, "body_size_max"),
    ],
)
def test_a_batch_that_no_broker_would_take_is_refused(messages, reason):
    with pytest.raises(MessageError, match=reason):
        encoder(body_size_max=500).pack_batch(messages)


def test_an_encoded_message_has_the_id_in_its_properties():
    for properties, message_id in (("WAIT\1true\2UNIQ_KEY\1own\2", "own"), ("k\1v\2", "")):
        message = EncodedMessage("T", b"x", properties)
        assert encoder().pack_encoded(message).message_id == message_id


def test_a_copy_keeps_what_is_the_users_and_nothing_of_the_systems():
    old = {
        "TAGS": "A",
        "KEYS": "k1 k2",
        "UNIQ_KEY": "id",
        "DELAY": "3",
        "RETRY_TOPIC": "T",
        "own": "é",
    }
    stored = StoredMessage(
        MessageQueue("%DLQ%g", "broker-a", 0), 7, "id", "", b"x" * 20, old, 1, "", 2, "", flag=5
    )
    encoded = encoder(compress_over=10, body_size_max=30).pack_copy(stored, "T", {"of": "7"})
    fields = fields_of(encoded)
    assert (encoded.topic, encoded.message_id, fields["b"], fields["h"]) == (
        "T",
        "id",
        "T",
        "5",
    )
    assert decode_properties(fields["i"].encode()) == {
        "TAGS": "A", "KEYS": "k1 k2", "own": "é", "of": "7", "WAIT": "true", "UNIQ_KEY": "id",
    }  # fmt: skip
    assert decompress(encoded.body, int(fields["f"]), limit=30) == b"x" * 20
    for topic, large in (("no topic", 1), ("SCHEDULE_TOPIC_XXXX", 1), ("T", 2)):
        with pytest.raises(MessageError):
            encoder(body_size_max=30).pack_copy(
                replace(stored, body=b"x" * 20 * large), topic, {}
            )
