"""Pull requests: parameters, choice of the broker, and decoding of the answer."""

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

# consumerPullTimeoutMillis of DefaultMQPullConsumer: timeout of a pull without long polling, ms.
PULL_TIMEOUT_MS = 10_000
# Remark of a replica that must not be read (slaveReadEnable=false): it found messages but returns none, and its next
# offset is after them. PullMessageProcessor of 4.9, case SLAVE; 5.x refuses the request.
_KEPT_BACK = "FOUND"
# Time beyond the wait until a long poll times out, ms (as in Java); the broker checks every 5 s (PullRequestHoldService).
SUSPEND_MARGIN_MS = 15_000
# After a missing queue entry a Java broker continues with the next file of the queue: 300,000 entries.
_BEYOND_END_MAX = 1 << 24
# Command(*values) calls a Python-level __new__, which takes three times as long.
_named = tuple.__new__


@dataclass(frozen=True, slots=True)
class PullTerms:
    """The parameters of a pull request.

    Attributes:
        subscription: Topic and filter.
        max_count: Maximum number of messages; a Java broker returns at most 32 by default.
        max_bytes: Maximum total size of several messages, bytes; None: the broker's limit.
        wait_ms: How long the broker may hold a pull that finds no message, ms; 0: not at all.
        commit_offset: Offset of the group to commit with the request; None: none.
        broker_id: Member of the broker group to pull from, if the route has it; None: the one suggested last.
    """

    subscription: Subscription
    max_count: int = 32
    max_bytes: int | None = None
    wait_ms: int = 0
    commit_offset: int | None = None
    broker_id: int | None = None

    @property
    def timeout_ms(self) -> int:
        """The time to wait for the answer, ms: 15 s longer than the broker may hold the pull, or 10 s if it may not."""
        return self.wait_ms + SUSPEND_MARGIN_MS if self.wait_ms else PULL_TIMEOUT_MS


class Puller:
    """Sends pulls for one consumer group, by default to the members of broker groups that the brokers suggested last."""

    def __init__(self, instance: ClientInstance, group: str) -> None:
        self._instance = instance
        self._group = group
        # Member of the broker group that the last answer suggested; usually the master.
        self._suggested: dict[MessageQueue, int] = {}

    async def channel(self, queue: MessageQueue, broker_id: int | None = None) -> Channel:
        """Return the connection for pulling a queue, to a member of the broker group (None: the last suggested one).

        If no member was suggested or the route lacks the member, the master or else another member is used.

        Raises BrokerNotFound, NetError or ClientClosed without a connection, and the errors of `ClientInstance.known`.
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
        """Return the connection that `channel` would return by default; None if it or the route is not there yet."""
        instance = self._instance
        if instance.routes.get(queue.topic) is None:
            return None
        broker_id = self._suggested.get(queue, 0) if self._suggested else 0
        address = instance.routes.address_to_read(queue.broker_name, broker_id)
        return None if address is None else instance.channels.peek(address)

    async def pause(self, queue: MessageQueue, seconds: float, error: Exception) -> None:
        """Wait before the next pull of a queue, after an error; maybe only until the broker group has another master."""
        await self._instance.masters.pause(queue.broker_name, seconds, error)

    def header(self, queue: MessageQueue, offset: int, ask: PullTerms) -> PullRequest:
        """Make the header of a pull request from an offset of a queue."""
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
        """Send a pull and return the future of its answer, to be decoded with `read`.

        Raises the errors of `channel`; the future may fail with NetError or CodecError.
        """
        channel = await self.channel(queue, ask.broker_id)
        command = pull_command(self.header(queue, offset, ask))
        return channel.start_call(command, timeout_ms=ask.timeout_ms)

    async def pull(self, queue: MessageQueue, offset: int, ask: PullTerms) -> RawPull:
        """Send a pull and return the decoded answer.

        Raises:
            BrokerRefused: The broker refuses, for example as the group may not read the queue, or the nameserver.
            BrokerNotFound, TopicNotFound, NetError, CodecError, ClientClosed: There is no valid answer of a broker.
        """
        return self.read(queue, await (await self.start(queue, offset, ask)))

    def read(self, queue: MessageQueue, answer: Command) -> RawPull:
        """Decode the header of a broker's answer to a pull, and remember the member of the broker group it suggests.

        Raises BrokerRefused if the answer is an error or a replica holds messages back, and CodecError if it lacks
        offsets or its next offset is impossible.
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
        except (KeyError, ValueError):
            raise CodecError(
                f"the answer to a pull of {queue} has no valid nextBeginOffset, minOffset or maxOffset"
            ) from None
        if not 0 <= next_offset <= max(min_offset, max_offset, 0) + _BEYOND_END_MAX:
            raise CodecError(
                f"the answer to a pull of {queue} has the offsets {min_offset} to {max_offset}, but the "
                f"next offset {next_offset}"
            )
        if suggested or (self._suggested and queue in self._suggested):
            self._suggested[queue] = suggested
        if status is PullStatus.NO_MATCHED_MESSAGE and answer.remark == _KEPT_BACK:
            raise BrokerRefused(
                answer.code,
                f"a replica of broker {queue.broker_name} has messages of {queue} but may not return them "
                "(slaveReadEnable=false)",
                queue.broker_name,
            )
        body = answer.body if status is PullStatus.FOUND else b""
        return _named(RawPull, (status, next_offset, min_offset, max_offset, body, suggested))


# Called with the result of a pull.
Came = Callable[[RawPull], None]


class _PullCall:
    """Waits for the answer to a pull; calls `came` with the decoded answer and then sets the future."""

    __slots__ = ("_came", "_future", "_puller", "_queue")

    def __init__(
        self, puller: Puller, queue: MessageQueue, future: asyncio.Future[RawPull], came: Came
    ) -> None:
        self._puller = puller
        self._queue = queue
        self._future = future
        self._came = came

    def answered(self, answer: RawCommand, /) -> None:
        """Unless the future is done, decode the answer, call `came` with it and set it as the result, or set the error."""
        if self._future.done():
            return
        try:
            pull = self._puller.read(self._queue, _named(Command, answer))
            self._came(pull)
        except Exception as error:  # noqa: BLE001  The future gets any error.
            self._future.set_exception(error)
        else:
            self._future.set_result(pull)

    def failed(self, error: BaseException, _opaque: int, /) -> None:
        """Set the error in the future unless it is done; a later answer is ignored."""
        if not self._future.done():
            self._future.set_exception(error)


class RepeatedPull:
    """Sends pulls of one queue that differ only in their offsets; keeps the encoded text of the common header.

    Unless a pull was cancelled, `came` is called with its valid answer before the task that awaits the result continues.
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
        """Send a pull from an offset, after connecting if necessary, and return the future of its result.

        `commit_offset` is as in `PullTerms`.

        Raises the errors of `Puller.channel`; the future fails with those of `Puller.read`, or NetError.
        """
        channel = await self._puller.channel(self._queue)
        return self._send(channel, offset, commit_offset)

    def start_now(
        self, offset: int, commit_offset: int | None
    ) -> asyncio.Future[RawPull] | None:
        """Send a pull from an offset and return the future of its result; None if no connection is ready."""
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
