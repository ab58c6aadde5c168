"""Renewals: messages received with auto_renew stay hidden while their client is alive, under unchanged handles.

They are hidden for a minute at first. Shortly before a time is over it is extended, by one minute and then by up to an
hour, for at most three hours in all. Soon after their client is gone (`GrpcClient.is_online`), they can be delivered to
others. Times follow RenewStrategyPolicy of RocketMQ 5.3.x.
"""

import logging
import math
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count

from cometmq.model.clock import Clock
from cometmq.model.errors import CometError
from cometmq.model.text import printable
from cometmq.proxy.backend import HiddenMessages
from cometmq.proxy.services.clients import GrpcClient

_log = logging.getLogger(__name__)

AHEAD_SECONDS = 10.0
TIMES_SECONDS = (60, 180, 300, 600, 1_800, 3_600)
LONGEST_SECONDS = 10_800.0
LOOK_SECONDS = 1.0
_SWEEP_MIN = 4_096


class RenewedMessages:
    """Messages of one queue that a client has received by one pop and whose invisible time is renewed.

    Attributes:
        client: The client.
        held: The messages.
        began: When they were sent to the client, monotonic seconds.
        times: How often they were renewed.
    """

    __slots__ = ("began", "client", "held", "times")

    def __init__(self, client: GrpcClient, held: HiddenMessages, began: float) -> None:
        self.client = client
        self.held = held
        self.began = began
        self.times = 0


class Renewals:
    """All messages that are renewed, by client and by the time of the next renewal.

    Attributes:
        on_first: Called when the first messages come, because `look` must then be called again.
    """

    def __init__(self, clock: Clock) -> None:
        self.on_first: Callable[[], None] = lambda: None
        self._clock = clock
        self._due: list[tuple[float, int, RenewedMessages]] = []
        self._order = count()
        self._of: dict[GrpcClient, set[RenewedMessages]] = {}
        # Number of entries at which those that are over are removed.
        self._swept_at = _SWEEP_MIN

    def __len__(self) -> int:
        return sum(map(len, self._of.values()))

    def add(self, client: GrpcClient, held: HiddenMessages, invisible_ms: int) -> None:
        """Renew messages from now on that are sent to a client; they are hidden for `invisible_ms` so far."""
        now = self._clock.monotonic()
        if not self._of:
            self.on_first()
        renewed = RenewedMessages(client, held, now)
        self._of.setdefault(client, set()).add(renewed)
        self._again_at(renewed, now + invisible_ms / 1_000)
        if len(self._due) >= self._swept_at:
            self._sweep()

    def _sweep(self) -> None:
        """Remove messages that are not hidden any more, which are nearly all if consumers are fast."""
        for _, _, renewed in self._due:
            if renewed in self._of.get(renewed.client, ()) and renewed.held.is_over:
                self._drop(renewed)
        self._due = [each for each in self._due if each[2] in self._of.get(each[2].client, ())]
        heapify(self._due)
        self._swept_at = max(_SWEEP_MIN, 2 * len(self._due))

    def release(self, client: GrpcClient) -> None:
        """Let the renewed messages of a client be delivered to others now, because it is gone."""
        for each in self._of.pop(client, ()):
            each.held.release()

    def look(self) -> float:
        """Release the messages of clients that are gone, renew those that are due; return seconds to the next call."""
        now = self._clock.monotonic()
        for client in [each for each in self._of if not each.is_online(now)]:
            _log.info(
                "client %s is gone; the messages that it held are delivered to others",
                printable(client.client_id[:128]),
            )
            self.release(client)
        while self._due and self._due[0][0] <= now:
            _, _, renewed = heappop(self._due)
            if renewed in self._of.get(renewed.client, ()):
                self._renew(renewed, now)
        return LOOK_SECONDS if self._of else math.inf

    def _renew(self, renewed: RenewedMessages, now: float) -> None:
        left = renewed.began + LONGEST_SECONDS - now
        if renewed.held.is_over or left <= AHEAD_SECONDS:
            self._drop(renewed)
            return
        seconds = min(TIMES_SECONDS[min(renewed.times, len(TIMES_SECONDS) - 1)], left)
        renewed.times += 1
        try:
            renewed.held.extend(int(seconds * 1_000))
        except CometError as error:
            _log.warning("messages are hidden for longer, but only until a restart: %s", error)
        self._again_at(renewed, now + seconds)

    def _drop(self, renewed: RenewedMessages) -> None:
        some = self._of[renewed.client]
        some.discard(renewed)
        if not some:
            del self._of[renewed.client]

    def _again_at(self, renewed: RenewedMessages, visible_at: float) -> None:
        due = max(visible_at - AHEAD_SECONDS, self._clock.monotonic() + LOOK_SECONDS)
        heappush(self._due, (due, next(self._order), renewed))
