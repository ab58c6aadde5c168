"""Pull requests: what is asked, of whom, and what the answer says.

Both consumers use it: the pull consumer with its own subscription in each request, the push
consumer with a long poll that the broker answers when something comes.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from cometmq.client.api.consuming import pull_command
from cometmq.client.connection.instance import ClientInstance
from cometmq.client.results import PULL_STATUSES, PullStatus, RawPull
from cometmq.codec.headers.pull import PullRequest
from cometmq.codec.pull_text import PullText, pull_text
from cometmq.codec.remoting import Command, RawCommand
from cometmq.model.clock import Clock
from cometmq.model.errors import BrokerRefused, CodecError
from cometmq.model.flags import PULL_COMMIT_OFFSET, PULL_SUBSCRIPTION, PULL_SUSPEND
from cometmq.model.queue import MessageQueue
from cometmq.model.subscription import Subscription
from cometmq.net.channel import Channel

# consumerPullTimeoutMillis of DefaultMQPullConsumer: of a pull that does not wait, ms.
PULL_TIMEOUT_MS = 10_000
# A replica that must not be read (slaveReadEnable=false) has looked, says so, and gives nothing; its
# next offset lies behind what it kept back. PullMessageProcessor of 4.9, case SLAVE; that of 5.x
# refuses the request.
_KEPT_BACK = "FOUND"
# What an answer to a waiting pull may take beyond the wait: the broker looks every 5 s
# (PullRequestHoldService), and Java allows 15 s too.
SUSPEND_MARGIN_MS = 15_000
# Behind an entry that is gone a Java broker goes on with the next file of the queue: 300,000 entries.
_BEYOND_END_MAX = 1 << 24


@dataclass(frozen=True, slots=True)
class PullTerms:
    """The parameters of a pull request.

    Attributes:
        subscription: which messages.
        max_count: messages at most; a Java broker gives 32 at most.
        max_bytes: bytes at most; None: as the broker likes.
        wait_ms: how long the broker may hold a pull that finds nothing; 0: it answers at once.
        commit_offset: to store this group's offset along with it; None: nothing is stored.
        broker_id: which member of the broker group to ask, where the route has it; None: the one
            that the last answer suggested.
    """

    subscription: Subscription
    max_count: int = 32
    max_bytes: int | None = None
    wait_ms: int = 0
    commit_offset: int | None = None
    broker_id: int | None = None

    @property
    def timeout_ms(self) -> int:
        """The longest wait for the answer, ms."""
        return self.wait_ms + SUSPEND_MARGIN_MS if self.wait_ms else PULL_TIMEOUT_MS


class Puller:
    """Pulls for one consumer group.

    Args:
        instance: routes and connections.
        group: the consumer group.
    """

    def __init__(self, instance: ClientInstance, group: str) -> None:
        self._instance = instance
        self._group = group
        # Which member of a broker group to ask, as its last answer suggested; mostly the master.
        self._suggested: dict[MessageQueue, int] = {}

    async def channel(self, queue: MessageQueue, broker_id: int | None = None) -> Channel:
        """The connection on which a queue is pulled, to a certain member or the suggested one.

        Raises:
            BrokerNotFound, TopicNotFound, NetError: there is none.
        """
        instance = self._instance
        if instance.routes.get(queue.topic) is None:
            await instance.known(queue.topic)
        if broker_id is None:
            broker_id = self._suggested.get(queue, 0)
        address = instance.routes.address_to_read(queue.broker_name, broker_id)
        if address is None:
            raise instance.not_found(queue.broker_name, broker_id)
        return await instance.channels.get(address)

    def open_channel(self, queue: MessageQueue) -> Channel | None:
        """The connection that `channel` gives where it stands; None where that would have to wait."""
        instance = self._instance
        if instance.routes.get(queue.topic) is None:
            return None
        broker_id = self._suggested.get(queue, 0) if self._suggested else 0
        address = instance.routes.address_to_read(queue.broker_name, broker_id)
        return None if address is None else instance.channels.peek(address)

    def header(self, queue: MessageQueue, offset: int, ask: PullTerms) -> PullRequest:
        """Make the header of a pull."""
        sys_flag = PULL_SUBSCRIPTION
        if ask.wait_ms:
            sys_flag |= PULL_SUSPEND
        if ask.commit_offset is not None:
            sys_flag |= PULL_COMMIT_OFFSET
        return PullRequest(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=ask.max_count,
            sys_flag=sys_flag,
            commit_offset=ask.commit_offset or 0,
            suspend_timeout_millis=ask.wait_ms,
            sub_version=ask.subscription.version,
            subscription=ask.subscription.expression,
            expression_type=ask.subscription.kind,
            max_msg_bytes=ask.max_bytes,
            broker_name=queue.broker_name,
        )

    async def start(
        self, queue: MessageQueue, offset: int, ask: PullTerms
    ) -> asyncio.Future[Command]:
        """Send a pull; give its answer to `read`.

        Raises:
            BrokerNotFound, TopicNotFound, NetError: nobody can be asked.
        """
        channel = await self.channel(queue, ask.broker_id)
        command = pull_command(self.header(queue, offset, ask))
        return channel.start_call(command, timeout_ms=ask.timeout_ms)

    async def pull(self, queue: MessageQueue, offset: int, ask: PullTerms) -> RawPull:
        """Pull once.

        Raises:
            BrokerRefused: the broker does not give this queue to this group.
            BrokerNotFound, TopicNotFound, NetError, CodecError: no answer.
        """
        return self.read(queue, await (await self.start(queue, offset, ask)))

    def read(self, queue: MessageQueue, answer: Command) -> RawPull:
        """Make the result of a pull of a broker's answer.

        Raises:
            BrokerRefused: an error.
            CodecError: it lacks its offsets.
        """
        status = PULL_STATUSES.get(answer.code)
        fields = answer.fields
        if status is None:
            address = (
                self._instance.routes.address_to_read(queue.broker_name) or queue.broker_name
            )
            raise BrokerRefused(answer.code, answer.remark or "", address)
        try:
            next_offset = int(fields["nextBeginOffset"])
            min_offset = int(fields["minOffset"])
            max_offset = int(fields["maxOffset"])
            suggested = int(fields.get("suggestWhichBrokerId") or 0)
        except (KeyError, ValueError) as error:
            raise CodecError(
                f"the answer to a pull of {queue} lacks an offset: {error!r}"
            ) from None
        if not 0 <= next_offset <= max(min_offset, max_offset, 0) + _BEYOND_END_MAX:
            raise CodecError(
                f"the answer to a pull of {queue}, which holds {min_offset} to {max_offset}, says to "
                f"go on at {next_offset}"
            )
        if suggested or (self._suggested and queue in self._suggested):
            self._suggested[queue] = suggested
        if status is PullStatus.NO_MATCHED_MESSAGE and answer.remark == _KEPT_BACK:
            raise BrokerRefused(
                answer.code,
                f"a replica of {queue.broker_name} has messages of {queue} but must not give them "
                "(slaveReadEnable=false)",
                queue.broker_name,
            )
        body = answer.body if status is PullStatus.FOUND else b""
        return RawPull(status, next_offset, min_offset, max_offset, body, suggested)


# Takes the result of a pull.
Came = Callable[[RawPull], None]
# Command(*values) goes through a Python-level __new__ and takes three times as long.
_named = tuple.__new__


class _PullCall:
    """Waits for the answer to a pull: who shall be told at once is told, and then the future has it."""

    __slots__ = ("_came", "_future", "_puller", "_queue")

    def __init__(
        self, puller: Puller, queue: MessageQueue, future: asyncio.Future[RawPull], came: Came
    ) -> None:
        self._puller = puller
        self._queue = queue
        self._future = future
        self._came = came

    def answered(self, answer: RawCommand, /) -> None:
        """See `net.waiters.Waiter`."""
        if self._future.done():
            return
        try:
            pull = self._puller.read(self._queue, _named(Command, answer))
            self._came(pull)
        except Exception as error:  # noqa: BLE001  Whoever awaits it must be told.
            self._future.set_exception(error)
        else:
            self._future.set_result(pull)

    def failed(self, error: BaseException, _opaque: int, /) -> None:
        """See `net.waiters.Waiter`."""
        if not self._future.done():
            self._future.set_exception(error)


class RepeatedPull:
    """Pulls of one queue that differ by their offsets alone; what they share is written once.

    Args:
        puller: who pulls.
        queue: which.
        ask: all but the offset to commit.
        clock: the time.
        came: told of each result at once, before whoever awaits it goes on.
    """

    def __init__(
        self, puller: Puller, queue: MessageQueue, ask: PullTerms, clock: Clock, came: Came
    ) -> None:
        self._puller = puller
        self._queue = queue
        self._ask = ask
        self._seconds = ask.timeout_ms / 1000
        self._now = clock.monotonic
        self._came = came
        self._new_future = asyncio.get_running_loop().create_future
        self._texts: dict[bool, PullText] = {}

    async def start(self, offset: int, commit_offset: int | None) -> asyncio.Future[RawPull]:
        """Send the pull from an offset.

        Args:
            offset: where from.
            commit_offset: as in `PullTerms`.

        Raises:
            BrokerNotFound, TopicNotFound, NetError: nobody can be asked.
        """
        channel = await self._puller.channel(self._queue)
        return self._send(channel, offset, commit_offset)

    def start_now(
        self, offset: int, commit_offset: int | None
    ) -> asyncio.Future[RawPull] | None:
        """Send the pull from an offset as `start`, where the connection stands; None where it does not."""
        channel = self._puller.open_channel(self._queue)
        if channel is None or channel.is_closed:
            return None
        return self._send(channel, offset, commit_offset)

    def _send(
        self, channel: Channel, offset: int, commit_offset: int | None
    ) -> asyncio.Future[RawPull]:
        is_told = commit_offset is not None
        text = self._texts.get(is_told)
        if text is None:
            ask = replace(self._ask, commit_offset=commit_offset)
            text = pull_text(self._puller.header(self._queue, offset, ask))
            self._texts[is_told] = text
        answer: asyncio.Future[RawPull] = self._new_future()
        channel.send(
            text.pieces(offset, commit_offset or 0), b"",
            _PullCall(self._puller, self._queue, answer, self._came), self._now() + self._seconds,
        )  # fmt: skip
        return answer
