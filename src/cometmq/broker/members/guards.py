"""Detects members of a group that contradict each other, which RocketMQ does not.

The latest subscription counts for the whole group, so members with different subscriptions may silently lose messages;
two clients with the same id get the same queues. Both are usually logged once, and returned to administrators
(GET_GROUP_CONFLICTS). This refuses no client, because a rolling update to another subscription looks the same.
"""

import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from cometmq.broker.parts import Feature, Parts
from cometmq.broker.tables.client_peer import ClientPeer
from cometmq.broker.tables.members import Client, ConsumerGroup
from cometmq.codec.bodies.conflicts import (
    CLIENT_ID,
    SUBSCRIPTION,
    Conflict,
    ConflictSide,
)
from cometmq.codec.bodies.heartbeat import ConsumerPart
from cometmq.codec.bodies.lock import Holders
from cometmq.model.names import is_retry_topic
from cometmq.model.subscription import TAG, Subscription

_log = logging.getLogger(__name__)

# Number of conflicts that are remembered as logged; beyond it, the oldest may be logged again.
_LOGGED_MAX = 10_000
_AT = " at "
# How much of a conflict a log line shows.
_SIDES_SHOWN = 4
_CLIENTS_SHOWN = 3
_SHOWN_MAX = 200
# Interval between comparisons per member, so that they take at most a hundredth of the loop's time: 5 us each.
_LOOK_SECONDS_EACH = 0.0005
_FEW = 64  # Groups up to this size are always compared.


@dataclass(slots=True)
class _Told:
    """The last heartbeat of a member with its subscriptions.

    Attributes:
        says: Its model and subscriptions as text, in a fixed order.
        since: Time of its first heartbeat for the group on this connection, monotonic seconds.
        part: The part of the heartbeat from which `says` was made.
    """

    client_id: str
    says: str
    since: float
    part: ConsumerPart


@dataclass(slots=True)
class _Seen:
    """The heartbeats of the members of a group, and when to compare them next.

    Attributes:
        told: Last heartbeats by connection.
        says: Number of connections per subscription text.
        ids: Number of connections per client id.
        next_look: Monotonic seconds before which no comparison is made.
        is_due: Whether a comparison is wanted, because members may contradict each other.
    """

    told: dict[ClientPeer, _Told] = field(default_factory=dict)
    says: Counter[str] = field(default_factory=Counter)
    ids: Counter[str] = field(default_factory=Counter)
    next_look: float = 0.0
    is_due: bool = False

    def take(self, peer: ClientPeer, told: _Told) -> None:
        self.drop(peer)
        self.told[peer] = told
        self.says[told.says] += 1
        self.ids[told.client_id] += 1

    def drop(self, peer: ClientPeer) -> None:
        old = self.told.pop(peer, None)
        if old is not None:
            for counts, value in ((self.says, old.says), (self.ids, old.client_id)):
                counts[value] -= 1
                if not counts[value]:
                    del counts[value]


class Guards(Feature):
    """The feature that finds members of a group with different subscriptions or the same client id."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._groups: dict[str, _Seen] = {}
        self._logged: dict[tuple[str, str, int], None] = {}
        parts.members.on_heartbeat.append(self._heartbeat)
        parts.members.on_left.append(self._left)

    # --- requests of this project

    def conflicts(self, name: str | None) -> list[Conflict]:
        """Return the contradictions in one group, or (None) in all."""
        return [
            conflict
            for group in self._parts.members.consumer_groups()
            if name in (None, group.name)
            for conflict in self._conflicts_of(group)
        ]

    def locks(self, name: str | None) -> Holders:
        """Return the client id of the holder of each queue lock, by group and queue, of one group, or (None) of all."""
        held = self._parts.locks.holders()
        return {key: who for key, who in held.items() if name in (None, key[0])}

    # --- heartbeats

    def _heartbeat(self, group: ConsumerGroup, client: Client, part: ConsumerPart) -> None:
        """Note a heartbeat of a member, which is already in the group; log contradictions that it may have caused.

        Members are only compared if they may contradict each other, and in a large group not at each heartbeat.
        """
        seen = self._groups.get(group.name)
        if seen is None:
            seen = self._groups[group.name] = _Seen()
        now = self._parts.clock.monotonic()
        told = seen.told.get(client.peer)
        if told is not None and told.part is part:
            says = told.says
        else:
            says = _text(part.model, part.subscriptions)
        if told is None or (told.says, told.client_id) != (says, client.client_id):
            since = now if told is None else told.since
            seen.take(client.peer, _Told(client.client_id, says, since, part))
            seen.is_due = len(seen.says) > 1 or seen.is_due
        if seen.ids[client.client_id] > 1:
            seen.is_due = True
        if seen.is_due and now >= seen.next_look:
            # All members are compared: the more there are, the less often.
            count = len(seen.told)
            seen.next_look = now + (count * _LOOK_SECONDS_EACH if count > _FEW else 0)
            seen.is_due = False
            for conflict in self._conflicts_of(group):
                self._log_once(conflict)

    def _left(self, group: str, peer: ClientPeer) -> None:
        seen = self._groups.get(group)
        if seen is not None:
            seen.drop(peer)
            if not seen.told:
                del self._groups[group]

    def _log_once(self, conflict: Conflict) -> None:
        # Once per contradiction, whichever members join one of its sides later.
        what_about = (conflict.group, conflict.kind, hash(_subject(conflict)))
        if what_about in self._logged:
            return
        self._logged[what_about] = None
        if len(self._logged) > _LOGGED_MAX:
            del self._logged[next(iter(self._logged))]
        what = (
            "members have different subscriptions; the broker applies the latest to all"
            if conflict.kind == SUBSCRIPTION
            else "several clients have the same client id and consume the same queues"
        )
        sides = " | ".join(
            f"{_listed(side.clients)}: {_cut(side.says)}"
            for side in conflict.sides[:_SIDES_SHOWN]
        )
        more = len(conflict.sides) - _SIDES_SHOWN
        end = f" | and {more} more" if more > 0 else ""
        _log.warning("consumer group %s: %s: %s%s", conflict.group, what, sides, end)

    # --- finding

    def _conflicts_of(self, group: ConsumerGroup) -> Iterator[Conflict]:
        seen = self._groups.get(group.name, _Seen())
        known = [
            (client, seen.told[client.peer])
            for client in group.clients.values()
            if client.peer in seen.told
        ]
        by_says: dict[str, list[str]] = {}
        by_id: dict[str, list[tuple[Client, _Told]]] = {}
        for client, told in known:
            by_says.setdefault(told.says, []).append(_name(client))
            by_id.setdefault(client.client_id, []).append((client, told))
        if len(by_says) > 1:
            sides = [
                ConflictSide(tuple(sorted(names)), says)
                for says, names in sorted(by_says.items())
            ]
            yield Conflict(group.name, SUBSCRIPTION, tuple(sides))
        for clients in by_id.values():
            if _are_several(clients):
                sides = [ConflictSide((_name(client),), told.says) for client, told in clients]
                yield Conflict(group.name, CLIENT_ID, tuple(sides))


def _are_several(clients: list[tuple[Client, _Told]]) -> bool:
    """Return whether an older connection with the same client id sent a heartbeat after the newest had joined.

    Then several clients have the id: one that reconnected may still have its old connection, but is silent there.
    """
    newest = max(told.since for _, told in clients)
    return any(client.seen > newest for client, told in clients if told.since < newest)


def _listed(clients: tuple[str, ...]) -> str:
    more = len(clients) - _CLIENTS_SHOWN
    shown = ", ".join(map(_cut, clients[:_CLIENTS_SHOWN]))
    return f"{shown} and {more} more" if more > 0 else shown


def _cut(text: str) -> str:
    return (
        text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}... ({len(text)} characters)"
    )


def _subject(conflict: Conflict) -> str:
    """Return what a conflict is about: the client id, or all of the different subscriptions."""
    if conflict.kind == CLIENT_ID:
        return conflict.sides[0].clients[0].partition(_AT)[0]
    return " | ".join(side.says for side in conflict.sides)


def _name(client: Client) -> str:
    return f"{client.client_id}{_AT}{client.peer.address}"


def _text(model: str, subscriptions: tuple[Subscription, ...]) -> str:
    """Format the message model and subscriptions of a member, without retry topics; equal ones give equal texts."""
    wishes = sorted(
        f"{each.topic}: {_wish(each)}"
        for each in subscriptions
        if not is_retry_topic(each.topic)
    )
    return f"{model} {'; '.join(wishes)}"


def _wish(subscription: Subscription) -> str:
    if subscription.kind == TAG:
        return " || ".join(sorted(subscription.tags)) or "*"
    return f"{subscription.kind} {subscription.expression}"
