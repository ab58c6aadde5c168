"""Values of the proxy that others compute, too: queues of message groups, transaction ids, receipt handles, versions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.codec.receipt import Receipt
from cometmq.model.codes import version_name
from cometmq.proxy.queue_choice import queue_of_group
from cometmq.proxy.services.clients import _ordinal
from cometmq.proxy.v2.receipt_handles import decode_handle, encode_handle
from cometmq.proxy.v2.statuses import OK, ProxyRefusal, status_of_durability
from cometmq.proxy.v2.transaction_ids import (
    TransactionPlace,
    decode_transaction_id,
    encode_transaction_id,
)
from cometmq.store.positions import Durability

# From Guava's own tests (HashingTest.testConsistentHash_linearCongruentialGeneratorCompatibility).
_GOLDEN = (0, 55, 62, 8, 45, 59, 86, 97, 82, 59, 73, 37, 17, 56, 86, 21, 90, 37, 38, 83)
_MORE = (
    (10863919174838991, 11, 6), (2016238256797177309, 11, 3), (1673758223894951030, 11, 5),
    (2, 100001, 80343), (2201, 100001, 22152), (2202, 100001, 15018),
)  # fmt: skip
_OFFSETS = st.integers(0, 10**17)


def test_queues_of_groups_are_guavas():
    assert tuple(queue_of_group(each, 100) for each in range(20)) == _GOLDEN
    for number, count, expected in _MORE:
        assert queue_of_group(number, count) == expected


@given(st.integers(-(1 << 31), (1 << 31) - 1), st.integers(1, 64))
def test_a_group_moves_only_to_the_new_queue_when_a_topic_grows(group, count):
    before, after = queue_of_group(group, count), queue_of_group(group, count + 1)
    assert after in (before, count)


@given(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    _OFFSETS,
    _OFFSETS,
    st.text("ab-é", max_size=9),
)
def test_transaction_ids_come_back(key, queue_offset, physical_offset, broker):
    place = TransactionPlace(key, queue_offset, physical_offset, broker)
    text = encode_transaction_id(place)
    assert decode_transaction_id(text) == place
    assert decode_transaction_id(f"x{text}") is None
    assert decode_transaction_id(text[:-2]) is None


@given(st.text(max_size=60))
def test_other_texts_are_no_transaction_ids(text):
    assert decode_transaction_id(text) is None


@given(_OFFSETS, _OFFSETS)
def test_handles_come_back(offset, physical):
    receipt = Receipt(offset, 2, 3, 4, "0", "broker-a", 6, offset)
    assert decode_handle(encode_handle(receipt, physical)) == (receipt, physical)
    assert decode_handle(str(receipt)) == (receipt, None)


@given(st.text(max_size=600))
def test_other_texts_are_no_handles(text):
    with pytest.raises(ProxyRefusal):
        decode_handle(text)


def test_versions_of_clients_are_shown_as_they_are():
    assert version_name(_ordinal("5.1.2")) == "V5_1_2"
    assert version_name(_ordinal("5.0.7-SNAPSHOT")) == "V5_0_7"
    assert version_name(_ordinal("rust")) == version_name(_ordinal(""))


@pytest.mark.parametrize("durability", Durability)
def test_each_durability_of_a_stored_message_has_a_status(durability):
    found = status_of_durability(durability)
    assert (found == OK) is (durability is Durability.OK)
    assert found.code
