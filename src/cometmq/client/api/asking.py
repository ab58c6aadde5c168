"""The layer below every typed request: the protocol of a client, and many requests side by side."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple, Protocol, TypeVar

from cometmq.codec.fields import decode_fields
from cometmq.codec.remoting import Command
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import (
    BrokerRefused,
    CodecError,
    CometError,
    NetError,
    RequestError,
    RequestTimeout,
)
from cometmq.model.queue import MessageQueue
from cometmq.net.channel import Channel

Subject = TypeVar("Subject")
Value = TypeVar("Value")
Header = TypeVar("Header")

# Requests under way at once: 1,000 queues are two waves, and a broker sees no more than 512 x 300 bytes in a turn.
AT_ONCE = 512


class BrokerAsker(Protocol):
    """A client that can send requests to brokers."""

    async def ask(
        self, address: str, command: Command, *, timeout_ms: float | None = None
    ) -> Command:
        """Send a request to a broker, and give its answer.

        Raises:
            BrokerRefused: it is an error.
            NetError, CodecError: there is none.
        """
        ...


class QueueAsker(BrokerAsker, Protocol):
    """A client that can send requests, and knows the brokers of queues."""

    async def broker_of(self, queue: MessageQueue) -> str:
        """The address of the broker that has a queue.

        Raises:
            TopicNotFound, BrokerNotFound: nobody knows it.
            NetError, BrokerRefused, CodecError: the nameservers cannot be asked.
        """
        ...

    async def tell(self, address: str, command: Command) -> None:
        """Send a request that nobody answers.

        Raises:
            NetError: there is nobody.
        """
        ...

    async def channel_of(self, queue: MessageQueue) -> Channel:
        """The connection to the broker that has a queue; raises what `broker_of` raises."""
        ...

    @property
    def request_timeout_ms(self) -> int:
        """The longest wait for an answer, ms."""
        ...


def read_fields(header: type[Header], answer: Command, what: str) -> Header:
    """Decode the fields of an answer.

    Raises:
        CodecError: one is missing or wrong; `what` says of which answer.
    """
    try:
        return decode_fields(header, answer.fields)
    except RequestError as error:
        raise CodecError(f"{what}: {error.remark}") from None


async def first_answer(
    ask: Callable[[str], Awaitable[Value]],
    addresses: Sequence[str],
    *,
    seconds: float,
    failed: Callable[[str], None] | None = None,
) -> Value:
    """Ask one server after the other until one answers; one that hangs takes a part of the time.

    Args:
        ask: Asks the server at an address.
        addresses: The servers, at least one; any of them will do.
        seconds: The time for all of them, if there are several.
        failed: Called with the address of each server that did not answer.

    Raises:
        NetError: None answered; the reason of the last one.
    """
    now = asyncio.get_running_loop().time
    deadline = now() + seconds
    failure: NetError | None = None
    for number, address in enumerate(addresses):
        share = max(deadline - now(), 0.0) / (len(addresses) - number)
        try:
            async with asyncio.timeout(share if len(addresses) > 1 else None):
                return await ask(address)
        except TimeoutError:
            failure = RequestTimeout(f"{address} did not answer in its part of the time")
        except NetError as error:
            failure = error
        if failed is not None:
            failed(address)
    assert failure is not None, "there is one address at least"
    raise failure


async def side_by_side(
    ask: Callable[[Subject], Awaitable[Value]], subjects: Iterable[Subject]
) -> list[Value | CometError]:
    """Ask about each subject, at most `AT_ONCE` at a time; the answers in order, errors in their place.

    Args:
        ask: about one.
        subjects: what is asked about.

    Raises:
        BaseException: one that is none of ours.
    """
    answers: list[Value | CometError] = []
    wanted = list(subjects)
    for start in range(0, len(wanted), AT_ONCE):
        part = wanted[start : start + AT_ONCE]
        for answer in await asyncio.gather(*map(ask, part), return_exceptions=True):
            if isinstance(answer, BaseException) and not isinstance(answer, CometError):
                raise answer
            answers.append(answer)
    return answers


def all_of(answers: Iterable[Value | CometError]) -> list[Value]:
    """The answers, where none is an error.

    Raises:
        CometError: the first that stands in the place of an answer.
    """
    values: list[Value] = []
    for answer in answers:
        if isinstance(answer, CometError):
            raise answer
        values.append(answer)
    return values


async def ask_each(
    finds: QueueAsker, asked: Sequence[tuple[MessageQueue, Command]]
) -> list[Command | CometError]:
    """Ask the broker of each queue; the answers, errors in their place.

    `AT_ONCE` are under way; each is a future of its channel and no task.
    """
    # One queue stands for all of its topic at its broker.
    places = {(queue.topic, queue.broker_name): queue for queue, _ in asked}
    found = await side_by_side(finds.channel_of, places.values())
    channels = dict(zip(places, found, strict=True))
    answers: list[Command | CometError] = []
    for start in range(0, len(asked), AT_ONCE):
        under_way = [
            _start(channels[queue.topic, queue.broker_name], command, finds.request_timeout_ms)
            for queue, command in asked[start : start + AT_ONCE]
        ]
        waiting = [each for each in under_way if isinstance(each, _Started)]
        await asyncio.gather(*(each.answer for each in waiting), return_exceptions=True)
        answers += [
            each.outcome() if isinstance(each, _Started) else each for each in under_way
        ]
    return answers


class _Started(NamedTuple):
    address: str
    answer: asyncio.Future[Command]

    def outcome(self) -> Command | CometError:
        error = self.answer.exception()
        if error is None:
            answer = self.answer.result()
            if answer.code == ResponseCode.SUCCESS:
                return answer
            return BrokerRefused(answer.code, answer.remark or "", self.address)
        if isinstance(error, CometError):
            return error
        raise error


def _start(
    channel: Channel | CometError, command: Command, timeout_ms: int
) -> _Started | CometError:
    if isinstance(channel, CometError):
        return channel
    try:
        return _Started(channel.address, channel.start_call(command, timeout_ms=timeout_ms))
    except CometError as error:
        return error
