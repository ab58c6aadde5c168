"""Claims on dead letters in the replay ledger, for programs that send the letters themselves (docs/design/0055)."""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence

from cometmq.client.admin.ledger_topic import LedgerTopic
from cometmq.client.admin.queries import MessageQueries
from cometmq.client.admin.replay import ReplayCandidate, sent_before
from cometmq.client.admin.replay_ledger import Claim, ClaimEnd, LetterId, Renewal, places_of
from cometmq.client.connection.instance import ClientInstance
from cometmq.client.consumer.pull.queue_reader import AsyncQueueReader
from cometmq.client.lifecycle import AsyncGroupClient
from cometmq.client.settings import ClientSettings
from cometmq.model.errors import CometError, NetError
from cometmq.model.names import TOOLS_GROUP
from cometmq.model.text import plural
from cometmq.net.tasks import Tasks

CLAIM_MAX = 2_000
RENEW_SECONDS = 5.0
_LOOK_SECONDS = 2.0


class AsyncReplayClaims(AsyncGroupClient):
    """Claims of a run on dead letters, from before its sends until after them, so that other runs do not send the same.

    The command line and the dashboard use the same ledger. The client tries to renew claims until `end` or the close.

    Args:
        nameservers: "ip:port;ip:port" of the cluster with the dead letters; None: NAMESRV_ADDR, then 127.0.0.1:9876.
        group: Consumer group of the dead letters.
        settings: Times; with a namespace, `group` is without it.
        instance: Shares the connections of another client, whose owner closes them.

    Raises:
        SettingsError: A nameserver address, or a setting for credentials or TLS in the environment, is invalid.
        RequestError: The name of the group is invalid.
    """

    def __init__(
        self,
        nameservers: str | None = None,
        *,
        group: str,
        settings: ClientSettings | None = None,
        instance: ClientInstance | None = None,
    ) -> None:
        super().__init__(nameservers, settings, instance, group)
        self._claims: list[Claim] = []
        self._found: set[LetterId] = set()  # Those claimed letters that a dead run had sent.
        self._won: set[LetterId] = set()  # Letters that are claimed.
        self._busy = asyncio.Lock()
        self._queries = MessageQueries(self._instance)
        self._ledger: LedgerTopic | None = None
        self._tasks = Tasks(f"{self._group} claims")

    async def _open(self) -> None:
        reader = AsyncQueueReader(group=TOOLS_GROUP, instance=self._instance)
        self._at_close(reader.close)
        await reader.start()
        self._ledger = LedgerTopic(self._instance, self._group)
        await self._ledger.open(reader, is_made=True)
        self._at_close(self._tasks.close)
        self._tasks.spawn(self._renew(self._ledger), "renew")

    def _opened(self) -> LedgerTopic:
        self._check_running()
        assert self._ledger is not None, "made at start"
        return self._ledger

    async def take(self, run: str, letters: Sequence[ReplayCandidate]) -> set[LetterId]:
        """Claim dead letters for this run, and return the ids of those that no other run has sent.

        Those that were recorded as sent under the same `run` are returned again. Waits while another run holds one.

        Args:
            run: Id of the run: unique, and the same when the same dead letters are claimed again.
            letters: Dead letters to send now.

        Raises:
            ClientClosed: The client is not running.
            CometError: The cluster cannot be queried, or the ledger not written.
        """
        by_id = {each.id: each for each in letters}
        ledger = self._opened()
        own = {each for each in by_id if ledger.state.done.get(each) == run}
        left, won = set(by_id) - own, dict[LetterId, bool]()
        while left:
            async with self._busy:
                for some in _parts([each for each in by_id if each in left]):
                    won |= await self._claim(ledger, run, some)
                done = ledger.state.done
                own |= {each for each in left if done.get(each) == run}
                left = {each for each in left if each not in won and each not in done}
            if left:
                await self._wait_for(ledger, left)
        doubtful = [by_id[each] for each, is_inherited in won.items() if is_inherited]
        self._found |= await sent_before(self._queries, doubtful)
        return (set(won) | own) - self._found

    async def end(self) -> None:
        """Record that the claimed dead letters are sent; call it after their sends.

        Raises:
            ClientClosed: The client is not running.
            CometError: The ledger cannot be read or written; the claims are kept.
            NetError: As before; or another run took over some of them meanwhile, and these may be sent twice.
        """
        ledger = self._opened()
        async with self._busy:
            await ledger.read()
            for each in self._claims:
                won, found = ledger.state.won(each), places_of(each.letters, self._found)
                await ledger.write(ClaimEnd(each.run, each.number, before=found))
                self._won -= won.keys()
            lost = len(self._won)
            self._claims, self._found, self._won = [], set(), set()
        if lost:
            raise NetError(
                f"another run took over {lost} dead {plural(lost, 'letter')} of group {self._group} during the "
                "sends, because the reservations were not renewed in time; these may be sent twice"
            )

    async def _renew(self, ledger: LedgerTopic) -> None:
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            async with self._busy:
                if self._claims:
                    numbers = tuple(each.number for each in self._claims)
                    # It will be tried again, and `end` detects whether the renewals were too late.
                    with contextlib.suppress(CometError):
                        await ledger.write(Renewal(self._claims[0].run, numbers))

    async def _claim(
        self, ledger: LedgerTopic, run: str, letters: Sequence[LetterId]
    ) -> dict[LetterId, bool]:
        now_ms, state = self._instance.clock.now_ms(), ledger.state
        free = [each for each in letters if state.free_at(each, run) <= now_ms]
        if not free:
            return {}
        claim = Claim(run, len(self._claims), tuple(free))
        await ledger.write(claim)
        self._claims.append(claim)
        won = state.won(claim)
        self._won |= won.keys()
        return won

    async def _wait_for(self, ledger: LedgerTopic, letters: set[LetterId]) -> None:
        free_ms = min(ledger.state.free_at(each) for each in letters)
        seconds = (free_ms - self._instance.clock.now_ms()) / 1000
        await asyncio.sleep(min(max(seconds, 0) + 0.1, _LOOK_SECONDS))
        async with self._busy:
            await ledger.read()


def _parts(letters: Sequence[LetterId]) -> Iterator[Sequence[LetterId]]:
    for start in range(0, len(letters), CLAIM_MAX):
        yield letters[start : start + CLAIM_MAX]
