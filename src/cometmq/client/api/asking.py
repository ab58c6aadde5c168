"""The basis of typed requests to brokers: their base class, and helpers for many requests."""

import asyncio
from collections.abc import Awaitable, Callable, Container, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from cometmq.codec.fields import decode_fields, encode_fields
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode, ResponseCode
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

if TYPE_CHECKING:
    from cometmq.client.connection.instance import ClientInstance

Subject = TypeVar("Subject")
Value = TypeVar("Value")
Header = TypeVar("Header")

# Concurrent requests: 1,000 queues take two rounds, and a broker receives at most 512 x 300 bytes at a time.
AT_ONCE = 512


def read_fields(header: type[Header], answer: Command, what: str) -> Header:
    """Decode the header fields of an answer; raise CodecError, which names `what`, if one is missing or malformed."""
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
    """Query one server after the other until one answers; each of several gets only a share of the time.

    Args:
        ask: Queries the server at an address.
        addresses: Equivalent servers, at least one.
        seconds: Time for all of them together; a single one has only the timeout of `ask`.
        failed: Called with the address of each server that did not answer.

    Raises:
        NetError: None answered; the error is that of the last one.
        CometError: Any other error of `ask`, for example a refusal or a malformed answer; no further server is queried.
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
            failure = RequestTimeout(f"{address} did not answer in its share of the timeout")
        except NetError as error:
            failure = error
        if failed is not None:
            failed(address)
    assert failure is not None, "there is one address at least"
    raise failure


async def side_by_side(
    ask: Callable[[Subject], Awaitable[Value]], subjects: Iterable[Subject]
) -> list[Value | CometError]:
    """Query each subject with `ask`, at most 512 (`AT_ONCE`) at a time; return an answer or CometError for each, in order.

    Raises any other error.
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
    """Return the answers if none of them is an error; otherwise raise the first error."""
    values: list[Value] = []
    for answer in answers:
        if isinstance(answer, CometError):
            raise answer
        values.append(answer)
    return values


async def ask_each(
    finds: "ClientInstance", asked: Sequence[tuple[MessageQueue, Command]]
) -> list[Command | CometError]:
    """Send each request to its queue's broker, at most 512 at a time; return an answer or CometError for each, in order."""
    # One queue represents all queues of its topic at its broker.
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


class BrokerRequests:
    """The base of typed requests to one broker; methods raise BrokerRefused, NetError and CodecError."""

    def __init__(self, asks: "ClientInstance") -> None:
        self._asks = asks

    async def _ask(
        self,
        address: str,
        code: RequestCode,
        header: object = None,
        *,
        body: bytes = b"",
        timeout_ms: float | None = None,
    ) -> Command:
        fields = {} if header is None else encode_fields(header)
        command = Command(code, fields=fields, body=body)
        return await self._asks.ask(address, command, timeout_ms=timeout_ms)


async def unless(codes: Container[int], asked: Awaitable[Value]) -> Value | None:
    """Return the result of a request, or None if it is refused with one of these codes."""
    try:
        return await asked
    except BrokerRefused as refused:
        if refused.code in codes:
            return None
        raise


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
