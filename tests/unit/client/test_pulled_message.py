"""A message that was pulled says what its record says, whatever is asked first, in any thread, and of any copy."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, asdict, fields, replace

import pytest

from cometmq.client.consumer.pull.received import PulledMessage, RecordUnpacker, unpack
from cometmq.codec.record import Record, decode_record, encode_record
from cometmq.model.message import StoredMessage
from cometmq.model.queue import MessageQueue

QUEUE = MessageQueue("Orders", "b", 1)
RECORD = Record(
    queue_id=1, topic="Orders", body=b"one", property_block=b"UNIQ_KEY\1A1\2TAGS\1t\2KEYS\1k l\2mine\1x\2",
    queue_offset=7, physical_offset=1 << 40, flag=3, born_timestamp=11, store_timestamp=12,
    reconsume_times=2, prepared_offset=9, body_crc=77, born_host=bytes((127, 0, 0, 1, 0, 0, 1, 2)),
)  # fmt: skip
MEANT = unpack(decode_record(encode_record(RECORD), 0), QUEUE, body_size_max=99)


async def pulled() -> StoredMessage:
    """One that nobody has asked anything yet."""
    (message,) = (await RecordUnpacker(QUEUE, 99, 32).read(encode_record(RECORD))).messages
    assert type(message) is PulledMessage
    return message


@pytest.mark.parametrize(
    "name", [*(each.name for each in fields(StoredMessage)), "topic", "tag", "keys", "user_properties", "born_at", "stored_at"]
)  # fmt: skip
async def test_each_attribute_is_there_when_it_is_asked_for(name):
    message = await pulled()
    assert getattr(message, name) == getattr(MEANT, name)
    assert getattr(message, name) == getattr(MEANT, name)
    assert message == MEANT


@pytest.mark.parametrize(
    "same",
    [
        copy.copy, copy.deepcopy, replace, lambda message: pickle.loads(pickle.dumps(message)),
        lambda message: StoredMessage(**{each.name: getattr(message, each.name) for each in fields(message)}),
    ],
)  # fmt: skip
async def test_a_copy_is_a_message_as_any_other(same):
    made = same(await pulled())
    assert type(made) is StoredMessage
    assert made == MEANT
    assert await pulled() == made


async def test_it_looks_and_compares_as_any_other():
    assert repr(await pulled()) == repr(MEANT)
    assert asdict(await pulled()) == asdict(MEANT)
    assert await pulled() == await pulled()
    assert await pulled() != replace(MEANT, flag=4)
    assert await pulled() != object()
    with pytest.raises(TypeError):  # Its properties have no hash, as those of any other.
        hash(await pulled())


@pytest.mark.parametrize("name", ["body", "flag", "properties", "queue_offset"])
async def test_nobody_may_change_it(name):
    message = await pulled()
    with pytest.raises((FrozenInstanceError, AttributeError)):
        setattr(message, name, None)
    with pytest.raises((FrozenInstanceError, AttributeError)):
        delattr(message, name)
    assert message == MEANT


async def test_properties_and_id_are_read_without_the_rest():
    message = await pulled()
    assert (message.tag, message.keys, message.message_id) == ("t", ("k", "l"), "A1")
    assert type(message) is PulledMessage
    assert message.properties is message.properties


async def test_threads_that_ask_at_once_get_the_same():
    with ThreadPoolExecutor(8) as pool:
        for _ in range(200):
            message = await pulled()
            names = ("flag", "properties", "born_host", "message_id") * 4
            found = list(pool.map(lambda name, each=message: getattr(each, name), names))
            assert found == [getattr(MEANT, name) for name in names]
