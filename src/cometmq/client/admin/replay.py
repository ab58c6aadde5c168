"""Replays a group's dead letters: sends a copy of each to its original or a given topic, usually once only.

A ledger (`ReplayLedger`) records the dead letters that were sent, for all runs. A copy keeps the message id, and its
property REPLAY_OF names the dead letter. A run that takes over from another one can thus look for copies in indexes.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from cometmq.client.admin.ledger_topic import LedgerTopic
from cometmq.client.admin.letters import REPLAY_OF, dead_letter_origin, place_of
from cometmq.client.admin.queries import MessageQueries
from cometmq.client.admin.replay_ledger import Claim, ClaimEnd, LetterId, places_of
from cometmq.client.api.asking import all_of, side_by_side
from cometmq.client.connection.instance import ClientInstance
from cometmq.client.consumer.pull.queue_reader import AsyncQueueReader
from cometmq.client.results import SendResult
from cometmq.model import properties as keys_of
from cometmq.model.errors import BrokerRefused, CometError, MessageError, TopicNotFound
from cometmq.model.message import StoredMessage
from cometmq.model.names import TOOLS_GROUP, is_retry_topic

_BATCH_MAX = 2_000
# Of a claim: the time until the last send starts; with the timeout of a send (`ledger_topic`) it is less than a lease.
_SEND_SECONDS_MAX = 8.0
# With a rate limit: maximum time lost by claiming and reading that is made up for.
_CATCH_UP_SECONDS = 0.25
_HELD = "another run has reserved it and may be sending it; try again in 20 s"
_LATE = "this run had no time left to send it; try again"
_HOMELESS = "it has no property with its original topic"


@dataclass(slots=True)
class ReplayResult:
    """The counts of a replay.

    Attributes:
        sent: Number of dead letters sent in this run, by target topic; in a dry run, of those not sent yet.
        before: Number of dead letters that had been sent already.
        homeless: Number of dead letters without a recorded original topic.
        failed: Number of dead letters that could not be decoded or sent, or whose outcome is unknown.
        reasons: Distinct reasons of failures, at most 10.
        dry_run: Whether nothing was sent.
    """

    sent: dict[str, int] = field(default_factory=dict)
    before: int = 0
    homeless: int = 0
    failed: int = 0
    reasons: list[str] = field(default_factory=list)
    dry_run: bool = False


class Replay:
    """A run of a replay.

    Args:
        instance: Connections to the cluster.
        group: Group of the dead letters.
        say: Called with a text when the run first waits for another one.
        to_topic: Target topic; None: the original topic of each dead letter.
        rate: Maximum number of messages per second; None: no limit.
        is_dry: Whether only to count.
    """

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        say: Callable[[str], None],
        *,
        to_topic: str | None = None,
        rate: float | None = None,
        is_dry: bool = False,
    ) -> None:
        self.result = ReplayResult(dry_run=is_dry)
        self._instance = instance
        self._group = group
        self._say = say
        self._to_topic = to_topic
        self._rate = rate
        self._is_dry = is_dry
        self._queries = MessageQueries(instance)
        self._ledger = LedgerTopic(instance, group)
        self._run = f"{instance.chance.getrandbits(64):016x}"
        self._claims = 0
        self._is_waiting = False
        self._refused: dict[LetterId, str] = {}  # With the reasons.
        self._late: set[LetterId] = set()  # Of the last batch: not sent, or refused.
        self._due = 0.0

    async def all(self, letters: AsyncIterator[StoredMessage]) -> ReplayResult:
        """Send dead letters, waiting for claims of other runs, or in a dry run count them; return the counts.

        Raises:
            RequestError: The name of the group is too long for the topic of its replay ledger.
            NetError, BrokerRefused, BrokerNotFound, SendFailed: The cluster cannot be queried, or the ledger not
                written; another run can continue.
            CodecError: An answer or an entry of the ledger cannot be decoded.
        """
        async with AsyncQueueReader(group=TOOLS_GROUP, instance=self._instance) as reader:
            await self._ledger.open(reader, is_made=not self._is_dry)
            held: list[StoredMessage] = []
            async for batch in self._batches(letters):
                held += await self._replay(batch)
            while held:
                await self._wait_for(held)
                held = await self._replay(held)
        return self.result

    async def these(self, letters: Sequence[StoredMessage], *, again: bool) -> list[str]:
        """Send these dead letters, without waiting for other runs; return for each "" if a copy was sent, or why not.

        With `again`, also send those that the ledger records as replayed. If a send ended without an answer, a copy may
        exist although a reason is returned. Raises RequestError and other CometErrors as `all` does.
        """
        ids = [id_of(each) for each in letters]
        homed = list({id_of(each): each for each in letters if self._target(each)}.values())
        async with AsyncQueueReader(group=TOOLS_GROUP, instance=self._instance) as reader:
            await self._ledger.open(reader, is_made=True)
            before = {each for each in ids if each in self._ledger.state.done}
            late: set[LetterId] = set()
            if again:
                until = self._instance.clock.monotonic() + _SEND_SECONDS_MAX
                wanted = [each for each in homed if id_of(each) in before]
                unsent, _ = await self._send(wanted, until)
                late.update(map(id_of, unsent))
                before.clear()
            held = await self._replay(homed)
        said = dict.fromkeys(before, "it was replayed before")
        said |= {id_of(each): _HELD for each in held}
        said |= dict.fromkeys(late | self._late, _LATE)
        said |= {id_of(each): _HOMELESS for each in letters if self._target(each) is None}
        said |= self._refused
        return [said.get(each, "") for each in ids]

    async def _batches(
        self, letters: AsyncIterator[StoredMessage]
    ) -> AsyncIterator[list[StoredMessage]]:
        rate = self._rate
        size = _BATCH_MAX if rate is None else max(1, min(_BATCH_MAX, int(rate * 2)))
        batch: list[StoredMessage] = []
        async for letter in letters:
            if self._target(letter) is None:
                self.result.homeless += 1
                continue
            batch.append(letter)
            if len(batch) == size:
                yield batch
                batch = []
        if batch:
            yield batch

    def _target(self, letter: StoredMessage) -> str | None:
        return self._to_topic or dead_letter_origin(letter)

    def _marks(self, letter: StoredMessage) -> dict[str, str]:
        """Return the properties of a copy that the dead letter has not: its place and, for a retry topic, the original topic.

        Consumers show a message of their retry topic as one of the topic that it names.
        """
        marks = {REPLAY_OF: place_of(letter, self._group)}
        origin = dead_letter_origin(letter)
        if origin and is_retry_topic(self._to_topic or ""):
            marks[keys_of.RETRY_TOPIC] = origin
        return marks

    async def _replay(self, batch: Sequence[StoredMessage]) -> list[StoredMessage]:
        """Send, or in a dry run count, the letters not sent yet; return those claimed by others or left for lack of time."""
        ledger = self._ledger.state
        by_id = {id_of(letter): letter for letter in batch}
        open_ = {each: letter for each, letter in by_id.items() if each not in ledger.done}
        self.result.before += len(by_id) - len(open_)
        if self._is_dry:
            for letter in open_.values():
                self._count(letter)
            return []
        now_ms = self._instance.clock.now_ms()
        free = tuple(each for each in open_ if ledger.free_at(each) <= now_ms)
        held = [letter for each, letter in open_.items() if ledger.free_at(each) > now_ms]
        if not free:
            return held
        claim = Claim(self._run, self._claims, free)
        self._claims += 1
        until = self._instance.clock.monotonic() + _SEND_SECONDS_MAX
        await self._ledger.write(claim)
        won = self._ledger.state.won(claim)
        held += [open_[each] for each in free if each not in won and each not in ledger.done]
        self.result.before += sum(each in ledger.done for each in free)
        sent_before = await self._sent_before(
            [open_[each] for each, is_inherited in won.items() if is_inherited]
        )
        self.result.before += len(sent_before)
        to_send = [open_[each] for each in won if each not in sent_before]
        unsent, unsure = await self._send(to_send, until)
        self._late = set(map(id_of, unsent))
        await self._ledger.write(
            ClaimEnd(
                claim.run,
                claim.number,
                places_of(free, map(id_of, unsent)),
                places_of(free, map(id_of, unsure)),
            )
        )
        return held + [each for each in unsent if id_of(each) not in self._refused]

    async def _sent_before(self, letters: Sequence[StoredMessage]) -> set[LetterId]:
        return await sent_before(
            self._queries,
            [
                ReplayCandidate(
                    id_of(each),
                    self._target(each) or "",
                    each.message_id,
                    place_of(each, self._group),
                )
                for each in letters
            ],
        )

    # --- sending

    async def _send(
        self, letters: Sequence[StoredMessage], until: float
    ) -> tuple[list[StoredMessage], list[StoredMessage]]:
        """Send dead letters; return those that were certainly not sent, and those that failed but may have been sent."""
        unsent: list[StoredMessage] = []
        unsure: list[StoredMessage] = []
        started: list[tuple[StoredMessage, asyncio.Future[SendResult]]] = []
        for place, letter in enumerate(letters):
            if self._instance.clock.monotonic() > until:
                unsent += letters[place:]
                break
            await self._pace()
            try:
                encoded = self._ledger.encoder.pack_copy(
                    letter, self._target(letter) or "", self._marks(letter)
                )
            except MessageError as error:
                self._refuse(letter, error)
                unsent.append(letter)
                continue
            started.append((letter, self._ledger.sender.start(encoded, None, None)))
        await asyncio.gather(*(future for _, future in started), return_exceptions=True)
        for letter, future in started:
            failure = future.exception()
            if failure is None:
                self._count(letter)
                continue
            if not isinstance(failure, CometError):
                raise failure
            self._refuse(letter, failure)
            # A broker that refuses has not stored the message; after any other failure it is unknown.
            is_sure = isinstance(failure, BrokerRefused | TopicNotFound)
            (unsent if is_sure else unsure).append(letter)
        return unsent, unsure

    async def _pace(self) -> None:
        if self._rate is None:
            return
        now = self._instance.clock.monotonic()
        earliest = now - _CATCH_UP_SECONDS if self._due else now
        self._due = max(self._due, earliest) + 1 / self._rate
        if self._due - now > 0.005:
            await asyncio.sleep(self._due - now)

    def _count(self, letter: StoredMessage) -> None:
        topic = self._target(letter) or ""
        self.result.sent[topic] = self.result.sent.get(topic, 0) + 1

    def _refuse(self, letter: StoredMessage, error: CometError) -> None:
        self._refused[id_of(letter)] = str(error)
        self.fail(str(error))

    def fail(self, reason: str) -> None:
        """Count a dead letter that cannot be sent, with the reason."""
        self.result.failed += 1
        if reason not in self.result.reasons and len(self.result.reasons) < 10:
            self.result.reasons.append(reason)

    async def _wait_for(self, held: Sequence[StoredMessage]) -> None:
        """Unless a letter is free, wait until the first claim on them expires, at most about 2 s; then read the ledger.

        The first wait of the run is reported to `say`.
        """
        now_ms = self._instance.clock.now_ms()
        free_ms = min(self._ledger.state.free_at(id_of(each)) for each in held)
        if free_ms > now_ms:
            seconds = (free_ms - now_ms) / 1000
            if not self._is_waiting:
                self._is_waiting = True
                self._say(
                    f"another run has reserved {len(held)} of them; if it does not finish, this run continues in "
                    f"{seconds:.0f} s"
                )
            await asyncio.sleep(min(seconds + 0.1, 2.0))
        await self._ledger.read()


def id_of(letter: StoredMessage) -> LetterId:
    """Return the identity of a dead letter in the replay ledger."""
    queue = letter.queue
    return LetterId(queue.broker_name, queue.queue_id, letter.queue_offset, letter.stored_ms)


class ReplayCandidate(NamedTuple):
    """A dead letter that may already have been sent.

    Attributes:
        id: Identity in the ledger.
        topic: Target topic.
        message_id: Message id, which the copy keeps.
        place: Value of REPLAY_OF in the copy.
    """

    id: LetterId
    topic: str
    message_id: str
    place: str


async def sent_before(
    queries: MessageQueries, letters: Sequence[ReplayCandidate]
) -> set[LetterId]:
    """Return the ids of those dead letters of which a query by message id finds a copy in their target topic.

    Raises NetError, BrokerRefused or CodecError if a broker of the topic, or the nameserver, cannot be queried.
    """

    async def is_sent(letter: ReplayCandidate) -> bool:
        try:
            copies = await queries.all_by_unique_id(letter.topic, letter.message_id)
        except TopicNotFound:
            return False
        return any(each.properties.get(REPLAY_OF) == letter.place for each in copies)

    answers = all_of(await side_by_side(is_sent, letters))
    return {each.id for each, is_there in zip(letters, answers, strict=True) if is_there}
