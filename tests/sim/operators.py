"""An operator of a simulated group of brokers: changes the leader and the members by requests, from the leader's machine."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from cometmq import AsyncAdmin
from cometmq.errors import CometError
from cometmq.replication.group.messages import Membership
from tests.sim.places import BROKER, NAMES, address_of

if TYPE_CHECKING:
    from tests.sim.brokers import BrokerGroup

# In which a healed group must complete the changes that were begun in the storm.
_FINISHED_SECONDS = 60.0
_ANSWER_SECONDS = 30.0
_STOPPED_SECONDS = 5.0  # After which a removed broker is stopped at the latest.


class Operator:
    """The operator of a group.

    A request without a certain answer is repeated only once the leader's list of members shows that this is needed.
    """

    def __init__(self, group: BrokerGroup) -> None:
        self._group = group
        self._replacing: asyncio.Task[None] | None = None
        self._requests: set[asyncio.Task[bool]] = set()

    def hand_over(self, to: str) -> None:
        """Ask the leader once to let a member lead, which it may refuse."""
        self._group.note("hand over", to)
        asking = asyncio.ensure_future(
            self._ask(lambda admin: admin.brokers.transfer(BROKER, to))
        )
        self._requests.add(asking)

    def replace(self, gone: str, *, is_dead: bool) -> None:
        """Replace a member by a spare machine, as docs/operate says, unless another one is being replaced.

        A dead one has lost its disk before; another one is stopped some seconds after its removal.
        """
        if self._replacing is not None:
            if not self._replacing.done():
                return
            self._replacing.result()  # Raises what it has found.
        self._group.note("replace", gone, is_dead)
        self._replacing = asyncio.ensure_future(self._replace(gone, is_dead=is_dead))

    async def finish(self) -> None:
        """Wait until the last replacement is complete, and all requests are answered."""
        if self._replacing is not None:
            async with asyncio.timeout(_FINISHED_SECONDS):
                await self._replacing
        if self._requests:
            await asyncio.wait(self._requests)

    async def _replace(self, gone: str, *, is_dead: bool) -> None:
        group, chance = self._group, self._group.chance
        if is_dead:
            group.retire(gone)
        await self.remove(gone)
        if not is_dead:
            await asyncio.sleep(chance.uniform(0, _STOPPED_SECONDS))
            group.retire(gone)
        new = chance.choice(sorted(group.spare))
        await self.add(new)
        group.note("replaced", gone, new)

    async def remove(self, gone: str) -> None:
        """Remove a member, which may run on."""
        await self._insist(
            lambda admin: admin.brokers.remove_member(BROKER, gone),
            lambda members: gone not in members.everyone,
        )

    async def add(self, new: str) -> None:
        """Set up a spare machine and let it become a member that votes."""
        self._group.set_up(new)
        await self._insist(
            lambda admin: admin.brokers.add_member(BROKER, f"{new}-{address_of(new)}"),
            lambda members: new in members.voters,
        )

    async def _insist(
        self,
        work: Callable[[AsyncAdmin], Awaitable[object]],
        is_done: Callable[[Membership], bool],
    ) -> None:
        """Send a request again and again, until the leader knows that it is fulfilled."""
        while True:
            members = self._members()
            if members is not None:
                if is_done(members):
                    return
                await self._ask(work)
            await asyncio.sleep(self._group.chance.uniform(0.1, 1))

    def _members(self) -> Membership | None:
        """Return the members, if a leader knows that the last change of them is committed."""
        leader = self._group.leader
        running = None if leader is None else self._group.running(leader)
        if running is None or not running.is_serving or not running.member.is_settled:
            return None
        return running.member.log.membership

    async def _ask(self, work: Callable[[AsyncAdmin], Awaitable[object]]) -> bool:
        """Send a request from the leader's machine; return whether it was fulfilled."""
        leader = self._group.leader
        if leader is None:
            return False
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                await self._group.machines[leader].run(_with_admin(work))
        except (CometError, TimeoutError) as error:
            self._group.note("refused", str(error)[:60])
            return False
        return True


async def _with_admin(work: Callable[[AsyncAdmin], Awaitable[object]]) -> None:
    async with AsyncAdmin(NAMES) as admin:
        await work(admin)
