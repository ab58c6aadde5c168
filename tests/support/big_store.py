"""A store of ours with very many messages, put as a broker puts them."""

import random
from dataclasses import replace
from pathlib import Path

from cometmq.codec.properties import encode_properties
from cometmq.model.java_hash import java_hash
from cometmq.store.appender import Put, encode_topic_block
from cometmq.store.message_store import MessageStore
from cometmq.store.settings import IndexSettings, StoreSettings
from tests.support.hand_clock import HandClock
from tests.support.store_puts import HOST_V4, open_store, run_jobs

TAGS = ("a", "b", "c", None)
TOPICS = ("orders", "payments", "ships")
QUEUES = 4
_BATCH = 500
_BEGIN_MS = 1_700_000_000_000

SETTINGS = StoreSettings(
    commitlog_file_size=64 << 20,
    queue_file_size=20_000 * 20,
    disk_reserve=0,
    index=IndexSettings(slots=100_000, entries=400_000),
)


def make_big_store(
    path: Path,
    messages: int,
    *,
    body_size: int = 1000,
    filling: bytes = b"",
    settings: StoreSettings = SETTINGS,
) -> None:
    """Make a store, closed in order. Messages have tags, keys and unique keys.

    Args:
        path: where.
        messages: how many.
        body_size: bytes of each body.
        filling: a body is the message's number in 16 digits and this sign again and again; without one,
            bodies are random.
        settings: the store's.
    """
    clock = HandClock(_BEGIN_MS)
    settings = replace(settings, warm_tail_bytes=16 << 20)
    store = open_store(path, settings, clock=clock)
    blocks = {topic: encode_topic_block(topic) for topic in TOPICS}
    hashes = {tag: java_hash(tag) if tag else 0 for tag in TAGS}
    noise = random.Random(6).randbytes(body_size + (1 << 16))
    for first in range(0, messages, _BATCH):
        numbers = range(first, min(first + _BATCH, messages))
        puts = [
            _put(store, blocks, hashes, _body(noise, filling, body_size, number), number)
            for number in numbers
        ]
        store.put_many(puts)
        store.dispatch_pending()
        clock.turn(0.05)
        if first // _BATCH % 20 == 0:
            run_jobs(store, ticks=1)
    run_jobs(store)
    store.close()


def _body(noise: bytes, filling: bytes, size: int, number: int) -> bytes:
    at = number * 7 % (1 << 16)
    return (b"%016d" % number).ljust(size, filling) if filling else noise[at : at + size]


def _put(
    store: MessageStore,
    blocks: dict[str, bytes],
    hashes: dict[str | None, int],
    body: bytes,
    number: int,
) -> Put:
    topic, queue_id, tag = TOPICS[number % 3], number // 3 % QUEUES, TAGS[number // 7 % 4]
    properties = {"UNIQ_KEY": f"{number:032X}", "KEYS": f"k{number % 1000} n{number}"}
    if tag:
        properties["TAGS"] = tag
    return (
        store.queue_for_append(topic, queue_id),
        blocks[topic],
        body,
        encode_properties(properties),
        hashes[tag],
        0,
        0,
        _BEGIN_MS + number,
        HOST_V4,
        0,
        0,
        0,
    )
