"""Pop in order: while a queue has hidden messages that are not acknowledged, it is locked for its group.

There are no check points. The group's offset is that of the oldest message that is not acknowledged; when the invisible
time is over, messages are delivered again from there. Follows ConsumerOrderInfoManager of RocketMQ 5.3.3, with its file
consumerOrderInfo.json.
"""

from collections.abc import Callable, Mapping, Sequence

from cometmq.broker.parts import Parts
from cometmq.broker.pop.check_points import Place
from cometmq.broker.tables.logged_table import LoggedTable, place_key, place_of
from cometmq.broker.tables.saving import Saver
from cometmq.codec.bodies.order_state import (
    OrderState,
    decode_order_states,
    encode_order_states,
    order_state,
    order_state_json,
)
from cometmq.steps.steps import Steps

# Time after which an unused queue is forgotten (CLEAN_SPAN_FROM_LAST), ms.
_FORGOTTEN_MS = 24 * 3_600_000
# How far in the future a pop may have been, because clocks of a group's members differ, ms.
_AHEAD_MS = 60_000
NOT_FOUND, OUTDATED = -1, -2


class Orders:
    """The queues that are popped in order, with their messages in flight."""

    def __init__(self, parts: Parts) -> None:
        self._clock = parts.clock
        self._file = parts.config_file("consumerOrderInfo.json")
        self._states: dict[Place, OrderState] = {}
        self._on_change: list[Callable[[str], None]] = []
        self.saver = Saver(self._file, self._snapshot, parts.pool)

    def load(self) -> None:
        """Read consumerOrderInfo.json, if it exists; raises CodecError if only damaged copies exist."""
        self._states = self._file.load(decode_order_states) or {}

    def is_closed(self, place: Place, attempt_id: str | None) -> bool:
        """Return whether a queue popped in order has hidden, unacknowledged messages, so that it must not be popped.

        A client that repeats a pop whose answer was lost, with the same attempt id, may pop them again. So may any client
        if the clock was set back, or another leader's is behind, as the queue would be locked for as long.
        """
        state = self._states.get(place)
        if state is None or (attempt_id and attempt_id == state.attempt_id):
            return False
        now = self._clock.now_ms()
        if state.pop_time_ms > now + _AHEAD_MS:
            return False
        return any(
            now < state.visible_at(index)
            for index in range(len(state.offsets))
            if not state.acknowledged >> index & 1
        )

    def handed_out(
        self,
        place: Place,
        offsets: Sequence[int],
        *,
        pop_time_ms: int,
        invisible_ms: int,
        attempt_id: str | None,
    ) -> dict[int, int]:
        """Note that a pop in order delivered messages; return the known numbers of earlier deliveries, by queue offset.

        A repeated pop (same attempt id) gets the numbers of the first one.
        """
        old = self._states.get(place)
        counts: dict[int, int] = {}
        if old is not None and attempt_id and attempt_id == old.attempt_id:
            counts = dict(old.counts)
        elif old is not None:
            counts = {
                offset: old.counts.get(offset, 0) + 1
                for offset in offsets
                if offset in old.offsets
            }
        self._states[place] = OrderState(
            tuple(offsets), pop_time_ms, invisible_ms, self._clock.now_ms(),
            attempt_id=attempt_id, counts=counts,
        )  # fmt: skip
        self._changed(place)
        return counts

    def acknowledge(self, place: Place, offset: int, pop_time_ms: int) -> int:
        """Acknowledge a message popped in order; return the offset to commit, NOT_FOUND, or OUTDATED (old handle).

        If no pop in order of the queue is known, the offset to commit is the one after the message.
        """
        state = self._states.get(place)
        if state is None:
            return offset + 1
        if pop_time_ms != state.pop_time_ms:
            return OUTDATED
        if offset not in state.offsets:
            return NOT_FOUND
        state.acknowledged |= 1 << state.offsets.index(offset)
        self._changed(place)
        for index, each in enumerate(state.offsets):
            if not state.acknowledged >> index & 1:
                return each
        return state.offsets[-1] + 1

    def in_flight(self, place: Place, pop_time_ms: int) -> list[int]:
        """Return the queue offsets of the unacknowledged messages of a pop in order; empty for an outdated pop time."""
        state = self._states.get(place)
        if state is None or state.pop_time_ms != pop_time_ms:
            return []
        return [
            offset
            for index, offset in enumerate(state.offsets)
            if not state.acknowledged >> index & 1
        ]

    def hidden_until_ms(self, place: Place) -> int:
        """Return the time until which any message in flight of a queue popped in order is hidden, epoch ms."""
        state = self._states[place]
        return max(
            state.visible_at(index)
            for index in range(len(state.offsets))
            if not state.acknowledged >> index & 1
        )

    def show_again_at(self, place: Place, offset: int, pop_time_ms: int, at_ms: int) -> None:
        """Set the time at which a message popped in order is delivered again, epoch ms; ignore an outdated handle."""
        state = self._states.get(place)
        if state is not None and state.pop_time_ms == pop_time_ms and offset in state.offsets:
            state.visible[offset] = at_ms
            self._changed(place)

    def truncated(self, end_of: Callable[[str, int], int]) -> None:
        """Unlock queues popped in order if a truncation removed messages in flight.

        `end_of` returns a queue's new end.
        """
        for place, state in list(self._states.items()):
            _, topic, queue_id = place
            if state.offsets and state.offsets[-1] >= end_of(topic, queue_id):
                self.forget(place)

    def forget(self, place: Place) -> None:
        """Forget the messages in flight of a queue that is popped in order, which unlocks it."""
        if self._states.pop(place, None) is not None:
            self._changed(place)

    def forget_all(self, is_gone: Callable[[str, str], bool]) -> None:
        """Forget the pops in order of deleted topics or groups; `is_gone` gets topic and group."""
        for place in [place for place in self._states if is_gone(place[1], place[0])]:
            self.forget(place)

    def _changed(self, place: Place) -> None:
        self.saver.changed()
        self._note(place)

    def _note(self, place: Place) -> None:
        for note in self._on_change:
            note(place_key(*place))

    def logged_table(self) -> LoggedTable:
        """Return the states as a table of a group that elects its leader; a key is "topic@queue@group"."""

        def value(key: str) -> Mapping[str, object] | None:
            state = self._states.get(place_of(key))
            return None if state is None else order_state_json(state)

        def apply(changes: Mapping[str, OrderState | None]) -> Steps[None]:
            for key, state in changes.items():
                place = place_of(key)
                self._states.pop(place, None)
                if state is not None:
                    self._states[place] = state
            self.saver.changed()
            yield from ()

        return LoggedTable(
            "orderStates",
            lambda: [place_key(*place) for place in self._states],
            value,
            order_state,
            apply,
            self._on_change,
        )

    def _snapshot(self) -> Callable[[], str]:
        oldest = self._clock.now_ms() - _FORGOTTEN_MS
        for place in [at for at, state in self._states.items() if state.used_ms <= oldest]:
            del self._states[place]
            self._note(place)
        text = encode_order_states(self._states)
        return lambda: text
