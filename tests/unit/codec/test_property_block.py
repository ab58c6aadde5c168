"""The properties of a record are found without decoding the rest of it."""

from __future__ import annotations

import pytest

from cometmq.codec.record import Record, encode_record, property_block
from cometmq.model.errors import CodecError

V4, V6 = bytes(8), bytes(20)


@pytest.mark.parametrize("born", [V4, V6])
@pytest.mark.parametrize("stored", [V4, V6])
@pytest.mark.parametrize("topic", ["T", "T" * 300])
@pytest.mark.parametrize("block", [b"", b"a\x01b\x02"])
def test_every_form_of_a_record_gives_its_properties(born, stored, topic, block):
    record = encode_record(
        Record(
            topic=topic, born_host=born, store_host=stored, body=b"body", property_block=block
        )
    )
    assert property_block(memoryview(record + b"behind")) == block


@pytest.mark.parametrize("size", [0, 30, 88, 93])
def test_a_record_that_ends_within_its_fields_is_an_error(size):
    whole = encode_record(Record(topic="T", body=b"body", property_block=b"a\x01b\x02"))
    with pytest.raises(CodecError, match="ends within"):
        property_block(whole[:size])
