"""Waits of steps for requests to brokers, which are coroutines, and their errors as the proxy answers them."""

import asyncio
from collections import Counter
from collections.abc import Coroutine
from typing import Any, TypeVar

from cometmq.broker.loop.caller import Owner
from cometmq.model.errors import (
    BrokerNotFound,
    BrokerRefused,
    ClientClosed,
    CometError,
    NetError,
    RequestError,
    RequestTimeout,
    SendFailed,
    TopicNotFound,
)
from cometmq.proxy.v2 import messaging_pb2 as pb
from cometmq.proxy.v2.statuses import ProxyRefusal
from cometmq.steps.steps import Done, Steps, called_back

T = TypeVar("T")

# Receives and pulls of a client that brokers hold; a broker is not told that a call was cancelled, and holds it on.
WAITS_OF_CLIENT_MAX = 1_000


class Waits:
    """The coroutines for which steps wait; each ends by its own timeout, whether its steps still wait or not."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()
        self._of_clients: Counter[Owner] = Counter()

    def steps(self, work: Coroutine[Any, Any, T], client: Owner | None = None) -> Steps[T]:
        """Yield a wait for a coroutine, and return its result; raise its error as `refusal_of`.

        With a client, raise ProxyRefusal (TOO_MANY_REQUESTS) if 1,000 coroutines of it have not ended.
        """
        if client is not None and self._of_clients[client] >= WAITS_OF_CLIENT_MAX:
            work.close()
            raise ProxyRefusal(
                pb.TOO_MANY_REQUESTS,
                f"brokers hold {WAITS_OF_CLIENT_MAX} receives and pulls of this client, also cancelled ones until their time is "
                "over; try again later",
            )

        def begin(done: Done) -> None:
            task = asyncio.get_running_loop().create_task(work)
            self._running.add(task)
            if client is not None:
                self._of_clients[client] += 1
            task.add_done_callback(lambda _: self._ended(task, client, done))

        try:
            result: T = yield from called_back(begin)
        except CometError as error:
            raise refusal_of(error) from None
        return result

    def _ended(self, task: asyncio.Task[Any], client: Owner | None, done: Done) -> None:
        self._running.discard(task)
        if client is not None:
            self._of_clients[client] -= 1
            if not self._of_clients[client]:
                del self._of_clients[client]
        if task.cancelled():
            done(None, ClientClosed("the proxy stops"))
        elif (error := task.exception()) is not None:
            done(None, error)
        else:
            done(task.result(), None)

    async def close(self) -> None:
        """Cancel all coroutines, and wait for them."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def refusal_of(error: CometError) -> CometError:
    """Return an error of a request to a broker as that of a call: the broker's refusal, or a refusal of the proxy."""
    if isinstance(error, SendFailed) and isinstance(error.__cause__, CometError):
        cause = refusal_of(error.__cause__)
        return (
            ProxyRefusal(cause.code, str(error)) if isinstance(cause, ProxyRefusal) else cause
        )
    if isinstance(error, BrokerRefused):
        return RequestError(error.code, error.remark)
    if isinstance(error, RequestTimeout):
        return ProxyRefusal(pb.PROXY_TIMEOUT, str(error))
    if isinstance(error, TopicNotFound):
        return ProxyRefusal(pb.TOPIC_NOT_FOUND, str(error))
    if isinstance(error, BrokerNotFound):
        return ProxyRefusal(pb.HA_NOT_AVAILABLE, str(error))
    if isinstance(error, NetError | ClientClosed | SendFailed):
        return ProxyRefusal(pb.INTERNAL_SERVER_ERROR, str(error))
    return error
