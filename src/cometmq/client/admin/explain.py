"""Explains why a group has not consumed a message, by checking the places that can hold it back, in order.

All checks but two use requests that any RocketMQ broker answers: only CometMQ brokers report queue locks and
contradictions between members.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple, TypeVar

from cometmq.client.admin.queries import MessageQueries, is_offset_message_id
from cometmq.client.api.asking import all_of, side_by_side
from cometmq.client.api.broker import BrokerApi
from cometmq.client.api.offsets import OffsetApi
from cometmq.client.connection.instance import ClientInstance
from cometmq.codec.bodies.connection import ConsumerConnections
from cometmq.codec.bodies.heartbeat import BROADCASTING
from cometmq.codec.bodies.running import QueueState
from cometmq.codec.properties import encode_properties
from cometmq.model import names
from cometmq.model import properties as keys_of
from cometmq.model.errors import (
    BrokerRefused,
    CometError,
    ExpressionError,
    MessageError,
    TopicNotFound,
)
from cometmq.model.flags import is_readable
from cometmq.model.message import StoredMessage
from cometmq.model.queue import MessageQueue
from cometmq.model.route import TopicRoute
from cometmq.model.subscription import SQL92
from cometmq.model.text import in_quotes, plural, time_text

Value = TypeVar("Value")

# Maximum number of members that are queried for their queues; groups are seldom larger.
_MEMBERS_ASKED_MAX = 64
# Maximum number of topics that are searched if the topic is unknown, and that are named in the answer.
_TOPICS_MAX = 500
_TOPICS_TOLD = 10
# Topics where a message waits before it is delivered to its own topic, with a description.
_WAITING = {
    names.SCHEDULE_TOPIC: "it is delayed",
    names.WHEEL_TIMER_TOPIC: "it waits for its delivery time",
    names.TRANS_CHECK_MAX_TIME_TOPIC: (
        "its transaction was discarded after too many checks; cometmq transactions resume restores it"
    ),
    names.HALF_TOPIC: "its transaction was rolled back, or its producer has not decided yet",
}


class ExplainFinding(NamedTuple):
    """The result of one check of why a message was not consumed.

    Attributes:
        check: Name of the check.
        is_fine: False: this may keep the message from the group, or the group has consumed it; None: unknown.
        text: Description of the result.
    """

    check: str
    is_fine: bool | None
    text: str


def _fine(check: str, text: str) -> ExplainFinding:
    return ExplainFinding(check, is_fine=True, text=text)


def _stops(check: str, text: str) -> ExplainFinding:
    return ExplainFinding(check, is_fine=False, text=text)


def _unknown(check: str, text: str) -> ExplainFinding:
    return ExplainFinding(check, is_fine=None, text=text)


class Explanation(NamedTuple):
    """The findings that explain why a message has not been consumed.

    Attributes:
        message: The message; None if it was not found in its own topic.
        findings: Results of the checks, in order.
    """

    message: StoredMessage | None
    findings: tuple[ExplainFinding, ...]

    @property
    def answer(self) -> str:
        """The text of the first finding whose `is_fine` is False; without one, a text that nothing blocks the message."""
        for finding in self.findings:
            if finding.is_fine is False:
                return finding.text
        return "nothing blocks it: it should be consumed any moment"

    @property
    def is_free(self) -> bool:
        """Whether no finding has `is_fine` False: it seems that nothing blocks the message, and it is not consumed yet."""
        return all(finding.is_fine is not False for finding in self.findings)


@dataclass(frozen=True, slots=True)
class _Case:
    """A message, the group that should consume it, the address of the message's broker, and the group's members."""

    message: StoredMessage
    group: str
    address: str
    members: ConsumerConnections


class Explainer:
    """Explains for one client why a group has not consumed a message."""

    def __init__(self, instance: ClientInstance) -> None:
        self._instance = instance
        self._queries = MessageQueries(instance)
        self._offsets = OffsetApi(instance)
        self._api = BrokerApi(instance)

    async def explain(self, message_id: str, group: str, topic: str | None) -> Explanation:
        """Find out why a group has not consumed a message; topic None: search topics of members, then up to 500 others.

        Raises:
            MessageError: No topic is given or known from a member, and the id has not the form of an offset message id.
            TopicNotFound: The topic of the message has no route any more.
            BrokerNotFound: The broker of the message has no master now.
            NetError, BrokerRefused, CodecError: The cluster cannot be queried.
        """
        members = await self._members(group)
        topics = [topic] if topic else [t for t in members.subscriptions if _is_plain(t)]
        if not topics and not is_offset_message_id(message_id):
            raise MessageError(
                f"group {in_quotes(group)} has no connected member that knows its topics; name the topic"
            )
        message = await self._find(message_id, topics)
        if message is None and topic is None:
            others = await self._other_topics(group, topics)
            message = await self._find(message_id, others)
            topics += others
        message = message or await self._view(message_id)
        if message is None:
            waits = await self._where_it_waits(message_id, topics, is_named=topic is not None)
            return Explanation(None, (waits,))
        route = (await self._instance.known(message.topic)).route
        case = _Case(message, group, self._instance.address(message.queue.broker_name), members)
        found = [_fine("message", f"it is in {message.queue} at offset {message.queue_offset}")]
        found += [each async for each in self._findings(case, route)]
        return Explanation(message, tuple(found))

    async def _findings(self, case: _Case, route: TopicRoute) -> AsyncIterator[ExplainFinding]:
        yield _permission(case, route)
        yield await self._group(case)
        yield _online(case)
        yield _wanted(case)
        yield await self._conflicts(case)
        if case.members.model == BROADCASTING:
            yield _unknown("offset", "each broadcasting member keeps its own offsets")
            return
        offset = await self._offset(case)
        yield offset
        if offset.is_fine:
            yield await self._owner(case)
            yield await self._lock(case)

    # --- finding the message

    async def _find(self, message_id: str, topics: list[str]) -> StoredMessage | None:
        for topic in topics:
            found = await self._lookup(topic, message_id)
            if found is not None:
                return found
        return None

    async def _view(self, message_id: str) -> StoredMessage | None:
        if is_offset_message_id(message_id):
            try:
                found = await self._queries.view(message_id)
            except (
                CometError
            ):  # A unique id has the same format, and usually contains no broker's address.
                return None
            return found if found.topic not in _WAITING else None
        return None

    async def _other_topics(self, group: str, looked_at: list[str]) -> list[str]:
        """Return up to 500 topics not in `looked_at`, first those of the group; no retry, dead-letter and reserved topics."""
        told = await self._told(lambda address: self._api.topics_of_group(address, group))
        every = await self._instance.nameserver_api.topics()
        found = dict.fromkeys([*chain.from_iterable(told), *every])
        wanted = [
            topic
            for topic in found
            if topic not in looked_at
            and not topic.startswith((names.RETRY_PREFIX, names.DLQ_PREFIX))
            and not names.is_system_topic(topic)
        ]
        return wanted[:_TOPICS_MAX]

    async def _lookup(self, topic: str, message_id: str) -> StoredMessage | None:
        try:
            return await self._queries.by_unique_id(topic, message_id)
        except TopicNotFound:
            return None

    async def _where_it_waits(
        self, message_id: str, topics: list[str], *, is_named: bool
    ) -> ExplainFinding:
        for topic, what in _WAITING.items():
            found = await self._lookup(topic, message_id)
            if found is None:
                continue
            if not is_named or found.properties.get(keys_of.REAL_TOPIC) in topics:
                return _stops("delay", f"{what}{_until(found)}")
        where = ", ".join(topics[:_TOPICS_TOLD]) or "the store"
        if len(topics) > _TOPICS_TOLD:
            where += f" and {len(topics) - _TOPICS_TOLD} other topics"
        hint = "" if is_named else "; if it has another topic, name it (--topic)"
        return _stops(
            "message",
            f"no message {message_id} in {where}: it was never stored, has been deleted, or the "
            f"index does not have it{hint}",
        )

    # --- group and filter

    async def _members(self, group: str) -> ConsumerConnections:
        """Return the group's connected members according to the broker that has most of them, or no members."""
        told = await self._told(lambda address: self._api.consumer_connections(address, group))
        # None: no member of the group is connected there.
        seen = [ConsumerConnections(), *(each for each in told if each is not None)]
        return max(seen, key=lambda each: len(each.connections))

    async def _told(self, ask: Callable[[str], Awaitable[Value]]) -> list[Value]:
        """Return the answers of all brokers that do not refuse; raise any other error."""
        addresses = (await self._instance.nameserver_api.readable_brokers()).values()
        answers = await side_by_side(ask, addresses)
        return all_of(each for each in answers if not isinstance(each, BrokerRefused))

    async def _group(self, case: _Case) -> ExplainFinding:
        config = (await self._api.groups(case.address)).get(case.group)
        if config is None:
            return _stops("group", f"{case.address} has no group {in_quotes(case.group)}")
        if not config.consume_enabled:
            return _stops(
                "group",
                f"group {in_quotes(case.group)} may not consume (consumeEnable=false); allow it with cometmq group "
                "set --consume",
            )
        return _fine("group", f"group {in_quotes(case.group)} may consume")

    async def _conflicts(self, case: _Case) -> ExplainFinding:
        try:
            conflicts = await self._api.conflicts(case.address, case.group)
        except BrokerRefused:
            return _unknown("agreement", "this broker does not compare subscriptions")
        for conflict in conflicts:
            sides = " | ".join(
                f"{', '.join(side.clients)}: {side.says}" for side in conflict.sides
            )
            return _stops("agreement", f"members have different subscriptions: {sides}")
        return _fine("agreement", "all members have the same subscriptions")

    # --- committed offset

    async def _offset(self, case: _Case) -> ExplainFinding:
        message = case.message
        committed = await self._offsets.committed(case.group, message.queue)
        if committed is None:
            return _fine("offset", "the group has not committed an offset of this queue yet")
        if committed > message.queue_offset:
            return await self._behind(case, committed)
        left = message.queue_offset - committed
        return _fine(
            "offset",
            f"the group has committed offset {committed}; {left} {plural(left, 'message')} of the queue "
            f"{plural(left, 'is', 'are')} before this one",
        )

    async def _behind(self, case: _Case, committed: int) -> ExplainFinding:
        message, group = case.message, case.group
        if await self._lookup(names.dead_letter_topic(group), message.message_id):
            return _stops("retry", f"it is a dead letter of group {in_quotes(group)}")
        waiting = await self._lookup(names.SCHEDULE_TOPIC, message.message_id)
        again = await self._lookup(names.retry_topic(group), message.message_id)
        is_retry = waiting is not None and waiting.properties.get(
            keys_of.REAL_TOPIC
        ) == names.retry_topic(group)
        if is_retry and waiting and (not again or waiting.stored_ms > again.stored_ms):
            tries = waiting.reconsume_times
            return _stops("retry", f"its attempt {tries + 1} waits{_until(waiting)}")
        if again is not None:
            retry_queue = MessageQueue(
                names.retry_topic(group), message.queue.broker_name, again.queue.queue_id
            )
            stands = await self._offsets.committed(group, retry_queue) or 0
            if stands <= again.queue_offset:
                return _stops(
                    "retry", f"its attempt {again.reconsume_times + 1} is in the retry topic"
                )
            return _stops("offset", f"it was consumed at attempt {again.reconsume_times + 1}")
        return _stops("offset", f"it was consumed: the group has committed offset {committed}")

    # --- queue assignment and lock

    async def _owner(self, case: _Case) -> ExplainFinding:
        clients = [each.client_id for each in case.members.connections][:_MEMBERS_ASKED_MAX]
        states = await asyncio.gather(*(self._state(case, client) for client in clients))
        for client, state in zip(clients, states, strict=True):
            if state is not None:
                cached = f"{state.cached_count} {plural(state.cached_count, 'message')} cached"
                return _fine("queue", f"{client} has the queue, {cached}")
        if not clients:
            return _unknown("queue", "the group has no connected member")
        return _stops(
            "queue",
            f"no member reports that it has {case.message.queue}; a rebalance may be in progress",
        )

    async def _state(self, case: _Case, client_id: str) -> QueueState | None:
        try:
            state = await self._api.running_state(case.address, case.group, client_id)
            return state.queues.get(case.message.queue)
        except CometError:
            return None

    async def _lock(self, case: _Case) -> ExplainFinding:
        try:
            locks = await self._api.queue_locks(case.address, case.group)
        except BrokerRefused:
            return _unknown("lock", "this broker does not report the owners of queue locks")
        holder = locks.get((case.group, case.message.queue))
        if holder is None:
            return _fine("lock", "no member holds a lock of the queue")
        if holder not in {each.client_id for each in case.members.connections}:
            return _stops(
                "lock",
                f"{holder} holds the lock of the queue but has left; the lock expires within 60 s",
            )
        return _fine("lock", f"{holder} holds the lock of the queue")


def _is_plain(topic: str) -> bool:
    return not names.is_retry_topic(topic)


def _permission(case: _Case, route: TopicRoute) -> ExplainFinding:
    topic, broker = case.message.topic, case.message.queue.broker_name
    for data in route.queues:
        if data.broker_name == broker:
            if not is_readable(data.perm):
                return _stops(
                    "route",
                    f"topic {in_quotes(topic)} may not be read at {broker}; allow it with cometmq topic set --read",
                )
            if case.message.queue.queue_id >= data.read_queues:
                return _stops(
                    "route",
                    f"topic {in_quotes(topic)} has only {data.read_queues} read "
                    f"{plural(data.read_queues, 'queue')} at {broker}",
                )
            return _fine("route", f"topic {in_quotes(topic)} can be read at {broker}")
    return _stops("route", f"the route of topic {in_quotes(topic)} does not have {broker}")


def _online(case: _Case) -> ExplainFinding:
    count = len(case.members.connections)
    return (_fine if count else _stops)(
        "members",
        f"group {in_quotes(case.group)} has {count or 'no'} connected {plural(count, 'member')}",
    )


def _wanted(case: _Case) -> ExplainFinding:
    message = case.message
    wish = case.members.subscriptions.get(message.topic)
    if wish is None:
        told = f"no member subscribes to topic {in_quotes(message.topic)}"
        return _stops("filter", told) if case.members.connections else _unknown("filter", told)
    if wish.kind == SQL92:
        # Loaded only when needed.
        from cometmq.codec.sql92 import sql92_filter

        try:
            fits = sql92_filter(wish.expression).matches
        except ExpressionError as error:
            why = str(error).partition("\n")[0]
            return _stops(
                "filter", f"the group's filter {in_quotes(wish.expression)} is invalid: {why}"
            )
        is_wanted = fits(encode_properties(message.properties))
    else:
        is_wanted = wish.matches_tag(message.tag)
    tag = (
        f"the tag of the message is {in_quotes(message.tag)}"
        if message.tag
        else "the message has no tag"
    )
    told = f"the group subscribes to {in_quotes(wish.expression)}; {tag}"
    return _fine("filter", told) if is_wanted else _stops("filter", told)


def _until(message: StoredMessage) -> str:
    due = message.properties.get(keys_of.TIMER_OUT_MS, "")
    if due.isdecimal():
        return f" until {time_text(int(due))}"
    level = message.properties.get(keys_of.DELAY)
    since = time_text(message.stored_ms)
    return f" at delay level {level} since {since}" if level else f" since {since}"
