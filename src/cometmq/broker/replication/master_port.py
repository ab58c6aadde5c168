"""The HA port of a master: its slaves, what they are sent, and how their acknowledgements confirm sends.

Each connection is a state machine (`replication.master_end`) with a transport. When more of the log may be sent, each
slave gets it frame by frame, as its connection and its rate limit allow; bytes that are not in the page cache are read
in a thread. If sends wait for replicas, acknowledgements of slaves confirm them in the store.
"""

import asyncio
import logging
import secrets
from concurrent.futures import Executor
from typing import NamedTuple

from cometmq.broker.replication.allowed_addresses import AllowedAddresses
from cometmq.broker.replication.slave_link import SlaveLink
from cometmq.broker.tables.replication_state import ReplicationState
from cometmq.codec.replication import CHANCE_SIZE
from cometmq.model.clock import Clock
from cometmq.net.connections import Bounds, OpenConnection
from cometmq.net.door import Door
from cometmq.net.tasks import Tasks
from cometmq.net.tls import ServerTls
from cometmq.replication.copies import Copies, CopyCount, CopyRule
from cometmq.replication.far_slave_rate import FarSlaveRate
from cometmq.replication.master_end import MasterEnd
from cometmq.replication.terms import LinkTerms, LogBounds, SlaveRates
from cometmq.store.message_store import MessageStore

_log = logging.getLogger(__name__)

# All slaves of a group may be in one network.
BOUNDS = Bounds(count_max=64, of_network_max=16, of_network_key="")
# Errors of slaves that are kept.
_ERRORS_MAX = 64
_TICK_SECONDS = 0.25
# If sends do not wait for replicas, log bytes are collected for this time, or up to this size, and sent together.
_BUNCH_SECONDS = 0.005
_BUNCH_SIZE = 1 << 20
_TOO_FEW = "in-sync replicas not enough"  # Text of CommitLog of RocketMQ 5.3.3.


class _LinkFailure(NamedTuple):
    """The reason why a slave's connection failed or cannot copy more, and the offset that it had acknowledged."""

    why: str | None
    acked: int


_NO_ERROR = _LinkFailure(None, 1 << 63)


class MasterPort:
    """The port from which slaves copy the log.

    Attributes:
        door: Accepts connections; its `bind` gives the port an address.
    """

    def __init__(
        self,
        store: MessageStore,
        *,
        rule: CopyRule,
        terms: LinkTerms,
        allowed: AllowedAddresses,
        clock: Clock,
        pool: Executor,
        tls: ServerTls | None = None,
    ) -> None:
        """Without `tls` connections are not encrypted; with it as on the broker's own port."""
        self._store = store
        self._side = store.replica_side
        self._terms = terms
        self._allowed = allowed
        self._clock = clock
        self._pool = pool
        self.door = Door(
            self._link, clock, name="HA port", bounds=BOUNDS, tls=tls, admission=allowed
        )
        self._copies = Copies(rule)
        self._counted: CopyCount | None = None
        self._far_rate = FarSlaveRate(SlaveRates())
        self._errors: dict[str, _LinkFailure] = {}
        self._links: list[SlaveLink] = []
        self._tasks = Tasks("replicas")
        self._timer: asyncio.TimerHandle | None = None
        self._bunch: asyncio.TimerHandle | None = None
        self._pumped_to = 0  # Physical offset up to which links were asked to send.

    def apply(self, rule: CopyRule, *, slave_timeout_ms: int, rates: SlaveRates) -> None:
        """Apply the rule for replicas, also to sends that are waiting, and timeout and rate limits; at first and if changed."""
        self._side.change_timeout(slave_timeout_ms)
        self._far_rate.rates = rates
        waited, self._copies.rule = self._copies.rule, rule
        for link in self._links:
            link.bound(self._rate_of(link))
        if rule != waited:
            self._counted = None
        self._follow()
        if rule.needed > 1:
            self._count()
        elif waited.needed > 1:  # Sends need not wait any more.
            self._side.refuse(None)
            self._side.replicated(None, 1)

    def serve(self) -> None:
        """Start to accept slaves' connections."""
        self.door.serve()

    async def close(self) -> None:
        """Close the HA port and all connections of slaves."""
        await self.door.close()
        await self._tasks.close()
        for timer in (self._timer, self._bunch):
            if timer is not None:
                timer.cancel()
        self._timer = self._bunch = None

    def state(self) -> ReplicationState:
        """Return the replication state of this master."""
        end = self._store.max_offset
        count = self._copies.count(end)
        return ReplicationState(
            is_master=True,
            max_offset=end,
            copies=tuple(
                link.state(
                    end,
                    is_in_sync=self._copies.is_in_sync(link.end.acked, end),
                    error=self._errors.get(link.member, _NO_ERROR).why,
                )
                for link in self._links
                if link.end.is_copying
            ),
            in_sync=count.in_sync,
            needed=count.needed,
            refused=self.door.refused,
        )

    def knows(self, ip: str) -> bool:
        """Return whether an address is known as that of a slave of this group.

        If slaves authenticate with a secret, these are the addresses from which a slave is copying; if not, those that
        may copy the log, and for an unknown one nameservers, if any, are asked in the background.
        """
        if self._terms.secret is not None:
            return any(link.ip == ip and link.end.is_copying for link in self._links)
        return self._allowed.knows(ip)

    def _link(self, came: OpenConnection) -> SlaveLink:
        chance, now = secrets.token_bytes(CHANCE_SIZE), self._clock.monotonic()
        end = MasterEnd(self._terms, chance=chance, now=now)
        return SlaveLink(self, end, came, store=self._store, pool=self._pool)

    # --- called by links

    def bounds(self) -> LogBounds:
        """Return the physical offsets that bound the log now, and the size of its files."""
        store = self._store
        return LogBounds(
            store.min_offset,
            store.max_offset,
            self._side.sendable,
            store.flushed_offset,
            self._side.file_size,
        )

    def now(self) -> float:
        """Return monotonic seconds."""
        return self._clock.monotonic()

    def came(self, link: SlaveLink) -> None:
        """Note a new connection of a slave."""
        self._links.append(link)
        link.bound(self._rate_of(link))
        self._follow()
        if self._timer is None:
            self._tick()

    def joined(self, link: SlaveLink) -> None:
        """Note that a slave starts to get frames.

        Other connections with its broker id, if any, are closed, and what they acknowledged is forgotten. A Java slave sends
        no id, so its other connections stay.
        """
        _log.info(
            "slave %s copies the log from physical offset %d on", link.name, link.end.sent
        )
        link.bound(self._rate_of(link))
        for other in list(self._links):
            if (
                other is not link
                and other.member == link.member
                and link.end.broker_id is not None
            ):
                _log.warning(
                    "slave %s has connected again, so its connection from %s is closed; if both are in use, two slaves have "
                    "brokerId=%d", link.name, other.name, link.end.broker_id,
                )  # fmt: skip
                other.abort()
                self._copies.gone(link.member)

    def acked(self, link: SlaveLink) -> None:
        """Note that a slave has acknowledged more of the log; confirm the sends that now have enough replicas."""
        if link.end.acked > self._errors.get(link.member, _NO_ERROR).acked:
            self._errors.pop(link.member, None)
        self._count_in(link)
        self._count()

    def _count_in(self, link: SlaveLink) -> None:
        self._copies.acked(link.member, link.end.acked, is_compared=link.end.is_compared)

    def failed(self, link: SlaveLink, why: str) -> None:
        """Note that a slave's connection is closed as faulty, and why."""
        self._errors[link.member] = _LinkFailure(why, link.end.acked)
        while len(self._errors) > _ERRORS_MAX:
            del self._errors[next(iter(self._errors))]
        self.door.refuse(link.name, why)

    def left(self, link: SlaveLink) -> None:
        """Remove a slave's closed connection; if sends wait for replicas, confirm or refuse them by the new count.

        If the slave was copying and had not acknowledged all that it was sent, look for damage of the log from there
        on.
        """
        self.door.forget(link)
        self._links.remove(link)
        self._follow()
        self._copies.gone(link.member)
        for other in self._links:  # A Java slave may have several connections.
            if other.member == link.member and other.end.is_copying:
                self._count_in(other)
        if link.end.is_copying:
            _log.info(
                "slave %s has disconnected; it has the log up to physical offset %d",
                link.name,
                link.end.acked,
            )
            if 0 <= link.end.acked < link.end.sent:
                self._tasks.spawn(self._look_at_log(link), "look")
        self._count()

    async def _look_at_log(self, link: SlaveLink) -> None:
        """Look for damage of this log after the offset that a slave that left has acknowledged; log it if it is new."""
        loop = asyncio.get_running_loop()
        try:
            fault = await loop.run_in_executor(
                self._pool, self._store.first_fault, link.end.acked
            )
        except OSError as error:
            _log.error(
                "the log cannot be read from physical offset %d on: %s",
                link.end.acked,
                error.strerror or error,
            )
            return
        if fault is None:
            return
        offset, kind = fault
        why = (
            f"the log here has no valid record at physical offset {offset} ({kind}), so no slave can copy more: "
            "stop this broker, and repair its store with `cometmq store repair DIR --yes`"
        )
        if self._errors.get(link.member, _NO_ERROR).why != why:
            _log.error(
                "slave %s has the log up to physical offset %d: %s",
                link.name,
                link.end.acked,
                why,
            )
        self._errors[link.member] = _LinkFailure(why, link.end.acked)

    # --- consequences

    def _follow(self) -> None:
        """Listen for changes of the log only if there are slaves or sends wait for them, as each send pays for it."""
        is_followed = self._links or self._copies.rule.needed > 1
        self._side.on_moved(self.moved if is_followed else None)

    def moved(self) -> None:
        """Send new log to the slaves; collect it for up to 5 ms or 1 MiB unless sends wait for replicas."""
        if self._copies.rule.needed > 1:
            self._pump()
            self._count()
        elif self._side.sendable - self._pumped_to >= _BUNCH_SIZE:
            self._pump()
        elif self._bunch is None:
            # A frame with few messages costs both sides as much as one with many.
            self._bunch = asyncio.get_running_loop().call_later(_BUNCH_SECONDS, self._pump)

    def _pump(self) -> None:
        if self._bunch is not None:
            self._bunch.cancel()
            self._bunch = None
        self._pumped_to = self._side.sendable
        for link in self._links:
            link.pump()

    def _count(self) -> None:
        """Count the replicas in sync, if sends wait for them, and confirm or refuse sends."""
        rule = self._copies.rule
        if rule.needed <= 1:
            return
        count = self._copies.count(self._store.max_offset)
        if count == self._counted:
            return
        self._counted = count
        is_refused = rule.least > 1 and count.in_sync < rule.least
        self._side.refuse(_TOO_FEW if is_refused else None)
        self._side.replicated(count.end, count.in_sync if count.is_enough else 0)

    def _rate_of(self, link: SlaveLink) -> int | None:
        """Return the rate limit of a slave in bytes of the log per second; None: no limit."""
        gap = self._side.sendable - link.end.sent
        return self._far_rate.rate(gap, is_awaited=self._copies.rule.needed > 1)

    def _tick(self) -> None:
        """Send heartbeats, detect silent slaves, and update rates; runs only while slaves are connected."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._far_rate.look(self._side.sendable, self._clock.monotonic())
        for link in list(self._links):
            link.bound(self._rate_of(link))
            link.tick()
        if self._links:
            self._timer = asyncio.get_running_loop().call_later(_TICK_SECONDS, self._tick)
        else:
            self._far_rate.forget()
