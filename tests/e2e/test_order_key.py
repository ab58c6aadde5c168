"""Order by key: messages of one key one after the other, of several beside each other, and a refusal holds up its own key only."""

import asyncio
from collections import defaultdict

from cometmq import (
    AsyncAdmin,
    AsyncProducer,
    AsyncPullConsumer,
    AsyncPushConsumer,
    ConsumeFrom,
    Message,
    PushConsumerSettings,
    StoredMessage,
    first_key,
)

KEYS, EACH = 6, 12
SETTINGS = PushConsumerSettings(
    orderly=True, order_key=first_key, consume_from=ConsumeFrom.FIRST, suspend_queue_ms=30,
    rebalance_interval_ms=200,
)  # fmt: skip


async def send_all(names: str, topic: str) -> int:
    """Messages of all keys in turn, in one queue; how many."""
    async with AsyncAdmin(names) as admin, AsyncProducer(names) as producer:
        await admin.topics.create(topic, queues=1)
        for number in range(EACH):
            for key in range(KEYS):
                await producer.send(Message(topic, b"%d" % number, keys=f"k{key}"))
    return KEYS * EACH


class Seen:
    """What a listener was given, by key, and how many calls ran at once."""

    def __init__(self, count: int) -> None:
        self.by_key: dict[str, list[int]] = defaultdict(list)
        self.running: set[str] = set()
        self.most = 0
        self.left = count
        self.is_done = asyncio.Event()
        self.refusals = {("k1", 3): 2}  # Which message is refused, and how often.

    async def listen(self, message: StoredMessage) -> bool:
        [key] = message.keys
        number = int(message.body)
        assert key not in self.running, "two calls of one key"
        self.running.add(key)
        self.most = max(self.most, len(self.running))
        await asyncio.sleep(0.003)
        self.running.discard(key)
        if self.refusals.get((key, number), 0):
            self.refusals[key, number] -= 1
            return False
        self.by_key[key].append(number)
        self.left -= 1
        if not self.left:
            self.is_done.set()
        return True


async def test_keys_of_one_queue_are_consumed_beside_each_other_and_each_in_its_order(names):
    seen = Seen(await send_all(names, "Keyed"))
    async with AsyncPushConsumer(
        names, group="keyed", listener=seen.listen, subscriptions=["Keyed"], settings=SETTINGS
    ):
        await asyncio.wait_for(seen.is_done.wait(), 30)
    assert seen.by_key == {f"k{key}": list(range(EACH)) for key in range(KEYS)}
    assert seen.most > 1
    async with AsyncPullConsumer(names, group="keyed") as reader:
        [queue] = await reader.queues("Keyed")
        assert await reader.committed(queue) == KEYS * EACH


async def test_what_is_refused_holds_up_its_own_key_only(names):
    total = await send_all(names, "Stuck")
    seen = Seen(total - EACH + 3)  # All but what stands behind the refusal.
    seen.refusals = {("k1", 3): 10_000}
    async with AsyncPushConsumer(
        names, group="stuck", listener=seen.listen, subscriptions=["Stuck"], settings=SETTINGS
    ):
        await asyncio.wait_for(seen.is_done.wait(), 30)
    assert seen.by_key["k1"] == [0, 1, 2]
    async with AsyncPullConsumer(names, group="stuck") as reader:
        [queue] = await reader.queues("Stuck")
        assert await reader.committed(queue) == 3 * KEYS + 1  # The first that is not consumed.


async def test_a_key_function_that_fails_loses_no_message(names, caplog):
    seen = Seen(await send_all(names, "Odd"))
    seen.refusals = {}

    def order_key(message: StoredMessage) -> str:
        if int(message.body) % 2:
            raise LookupError("no key")
        return first_key(message)

    settings = PushConsumerSettings(
        orderly=True, order_key=order_key, consume_from=ConsumeFrom.FIRST, concurrency=1
    )
    async with AsyncPushConsumer(
        names, group="odd", listener=seen.listen, subscriptions=["Odd"], settings=settings
    ):
        await asyncio.wait_for(seen.is_done.wait(), 30)
    assert {key: sorted(numbers) for key, numbers in seen.by_key.items()} == {
        f"k{key}": list(range(EACH)) for key in range(KEYS)
    }
    assert "(Odd@" in caplog.text
