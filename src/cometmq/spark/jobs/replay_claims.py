"""Claims the dead letters of a micro-batch in the cluster's ledger, and renews the claim while tasks send.

The command line and the dashboard read and write the same ledger, so none sends what another one sent (docs/design/0062).

Next: cometmq.client.admin.replay_ledger
"""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self

from cometmq.client import AsyncPullConsumer, ClientInstance
from cometmq.client.admin.ledger_topic import LedgerTopic
from cometmq.client.admin.queries import MessageQueries
from cometmq.client.admin.replay import ReplayCandidate, sent_before
from cometmq.client.admin.replay_ledger import Claim, Done, LetterId, Renewal, places_of
from cometmq.client.sync.portal import portal
from cometmq.model.errors import CometError, NetError
from cometmq.model.names import TOOLS_GROUP

CLAIM_MAX = 2_000
RENEW_SECONDS = 5.0
_LOOK_SECONDS = 2.0


class ReplayClaims:
    """Claims of one run after another, each of a micro-batch. To be used in `with`, on the driver.

    Args:
        nameserver: of the cluster with the dead letters.
        group: whose they are.
    """

    def __init__(self, nameserver: str, group: str) -> None:
        self._portal = portal()
        self._nameserver = nameserver
        self._group = group
        self._claims: list[Claim] = []
        self._found: set[LetterId] = set()  # Of them, sent by a run that died.
        self._count = 0  # Of letters in them.

    def __enter__(self) -> Self:
        """Find the ledger, or make it.

        Raises:
            CometError: the cluster cannot be asked.
        """
        self._portal.call(self._open)
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """Renew nothing any more, and close the connections."""
        self._portal.call(self._close)

    def take(self, run: str, letters: Sequence[ReplayCandidate]) -> set[LetterId]:
        """Claim the letters that this run is to send: those that nobody else has sent.

        Waits while another run has one of them. What is taken is renewed until `end`.

        Args:
            run: the same when the same micro-batch comes again, and nobody else's.
            letters: of the micro-batch.

        Raises:
            CometError: the cluster cannot be asked.
        """
        taken: set[LetterId] = self._portal.call(self._take, run, letters)
        return taken

    def end(self) -> None:
        """All that was taken is sent.

        Raises:
            NetError: another run took over some of it meanwhile, and may have sent it, too.
        """
        self._portal.call(self._end)

    # --- on the portal's loop

    async def _open(self) -> None:
        self._instance = ClientInstance(self._nameserver)
        self._busy = asyncio.Lock()
        self._consumer = AsyncPullConsumer(group=TOOLS_GROUP, instance=self._instance)
        await self._consumer.start()
        self._ledger = LedgerTopic(self._instance, self._group)
        await self._ledger.open(self._consumer, is_made=True)
        self._queries = MessageQueries(self._instance)
        self._renewing = asyncio.ensure_future(self._renew())

    async def _close(self) -> None:
        self._renewing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._renewing
        await self._consumer.close()
        await self._instance.close()

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            async with self._busy:
                if self._claims:
                    numbers = tuple(each.number for each in self._claims)
                    # Another try comes, and `end` finds out whether all of them were too late.
                    with contextlib.suppress(CometError):
                        await self._ledger.write(Renewal(self._claims[0].run, numbers))

    async def _take(self, run: str, letters: Sequence[ReplayCandidate]) -> set[LetterId]:
        by_id = {each.id: each for each in letters}
        own = {each for each in by_id if self._ledger.state.done.get(each) == run}
        left, won = set(by_id) - own, dict[LetterId, bool]()
        while left:
            async with self._busy:
                for some in _parts([each for each in by_id if each in left]):
                    won |= await self._claim(run, some)
                done = self._ledger.state.done
                own |= {each for each in left if done.get(each) == run}
                left = {each for each in left if each not in won and each not in done}
            if left:
                await self._wait_for(left)
        doubtful = [by_id[each] for each, is_inherited in won.items() if is_inherited]
        self._found = await sent_before(self._queries, doubtful)
        return (set(won) | own) - self._found

    async def _claim(self, run: str, letters: Sequence[LetterId]) -> dict[LetterId, bool]:
        now_ms, state = self._instance.clock.now_ms(), self._ledger.state
        free = [each for each in letters if state.free_at(each, run) <= now_ms]
        if not free:
            return {}
        claim = Claim(run, len(self._claims), tuple(free))
        await self._ledger.write(claim)
        self._claims.append(claim)
        won = state.won(claim)
        self._count += len(won)
        return won

    async def _wait_for(self, letters: set[LetterId]) -> None:
        free_ms = min(self._ledger.state.free_at(each) for each in letters)
        seconds = (free_ms - self._instance.clock.now_ms()) / 1000
        await asyncio.sleep(min(max(seconds, 0) + 0.1, _LOOK_SECONDS))
        async with self._busy:
            await self._ledger.read()

    async def _end(self) -> None:
        async with self._busy:
            await self._ledger.read()
            lost = self._count - sum(len(self._ledger.state.won(each)) for each in self._claims)
            for each in self._claims:
                found = places_of(each.letters, self._found)
                await self._ledger.write(Done(each.run, each.number, before=found))
            self._claims, self._found, self._count = [], set(), 0
        if lost:
            raise NetError(
                f"another run took over {lost} dead letters of {self._group} while they were sent, for their claims were not "
                "renewed in time; it may have sent them, too"
            )


def _parts(letters: Sequence[LetterId]) -> Iterator[Sequence[LetterId]]:
    for start in range(0, len(letters), CLAIM_MAX):
        yield letters[start : start + CLAIM_MAX]
