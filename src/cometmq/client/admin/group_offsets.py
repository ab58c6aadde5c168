"""Changes the committed offsets of consumer groups: to a time, or to chosen offsets.

A broker with useServerSideResetOffset stores the offset and redirects the members at their next pull. Any other broker only
notifies the members of a time, so exact offsets can be stored only while no member is connected.
"""

from collections.abc import Mapping, Sequence

from cometmq.client.api.asking import all_of, side_by_side
from cometmq.client.api.broker import BrokerApi
from cometmq.client.api.offsets import OffsetApi, OffsetBounds
from cometmq.client.connection.instance import ClientInstance
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.queue import MessageQueue
from cometmq.model.text import in_quotes

# Setting of a broker that moves groups itself.
_MOVES_ITSELF = "useServerSideResetOffset"


class GroupOffsetAdmin:
    """Changes the offsets of groups, for one client."""

    def __init__(self, instance: ClientInstance) -> None:
        self._instance = instance
        self._offsets = OffsetApi(instance)
        self._brokers = BrokerApi(instance)

    async def at(self, topic: str, timestamp_ms: int | None) -> dict[MessageQueue, int]:
        """Return the offset at a time for each readable queue of a topic; ms since 1970, 0: the first, None: the end."""
        return await self._of((await self._instance.known(topic)).read_queues, timestamp_ms)

    async def _of(
        self, queues: Sequence[MessageQueue], timestamp_ms: int | None
    ) -> dict[MessageQueue, int]:
        if timestamp_ms is None:
            found = await self._offsets.max_offsets(queues)
        elif timestamp_ms == 0:
            found = await self._offsets.min_offsets(queues)
        else:
            found = await self._offsets.offsets_by_time(dict.fromkeys(queues, timestamp_ms))
        return dict(zip(queues, all_of(found.values()), strict=True))

    async def reset(
        self, group: str, topic: str, timestamp_ms: int | None
    ) -> dict[MessageQueue, int]:
        """Move a group to a time (ms since 1970; 0: start, None: end) in a topic, and return the new offset by queue."""
        at_ms = -1 if timestamp_ms is None else timestamp_ms
        queues = (await self._instance.known(topic)).read_queues
        offsets: dict[MessageQueue, int] = {}
        for name in sorted({queue.broker_name for queue in queues}):
            address = self._instance.address(name)
            moved = await self._brokers.reset_offsets(address, group, topic, at_ms)
            if moved is None:  # No member is connected: store the offsets.
                ours = [queue for queue in queues if queue.broker_name == name]
                moved = await self._of(ours, timestamp_ms)
                await self._offsets.commit_all(group, moved)
            offsets.update(moved)
        return offsets

    async def put(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Move a group to given offsets, all of which are checked before any is stored.

        Raises RequestError if a queue or offset does not exist, or a broker cannot move connected members to an offset;
        other brokers may then have stored theirs.
        """
        bounds = await self._bounds(offsets)
        for queue, offset in offsets.items():
            first, end = bounds[queue]
            if not first <= offset <= end:
                raise RequestError(
                    ResponseCode.INVALID_PARAMETER,
                    f"{queue} has the offsets {first} to {end}: a group cannot continue at {offset}",
                )
        for name in sorted({queue.broker_name for queue in offsets}):
            ours = {queue: each for queue, each in offsets.items() if queue.broker_name == name}
            await self._put_at(self._instance.address(name), group, ours)

    async def _bounds(
        self, queues: Mapping[MessageQueue, int]
    ) -> dict[MessageQueue, OffsetBounds]:
        for topic in {queue.topic for queue in queues}:
            known = set((await self._instance.known(topic)).read_queues)
            for queue in queues:
                if queue.topic == topic and queue not in known:
                    raise RequestError(
                        ResponseCode.INVALID_PARAMETER,
                        f"no route has the queue {queue}; does its topic exist, and is its broker registered?",
                    )
        found = await self._offsets.bounds(queues)
        return dict(zip(found, all_of(found.values()), strict=True))

    async def _put_at(
        self, address: str, group: str, offsets: Mapping[MessageQueue, int]
    ) -> None:
        if await self._brokers.consumer_connections(address, group) is None:
            await self._offsets.commit_all(group, offsets)
            return
        settings = await self._brokers.settings(address)
        if settings.values.get(_MOVES_ITSELF) != "true":
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"group {in_quotes(group)} has connected members, and the broker at {address} cannot reset them to "
                f"an offset ({_MOVES_ITSELF} is not true): stop the members, or reset the group to a time",
            )
        all_of(
            await side_by_side(
                lambda pair: self._brokers.put_offset(address, group, *pair), offsets.items()
            )
        )
