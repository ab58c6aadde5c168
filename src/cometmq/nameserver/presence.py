"""A check whether a broker still answers at its address.

The connection of a hanging process stays open, and the kernel accepts new ones for it; only an answer shows that it is
alive. Any answer counts, as does the end of an open connection, by which a broker that requires TLS refuses cleartext.
"""

import asyncio
from typing import cast

from cometmq.codec.remoting import Command, encode_command
from cometmq.model.address import split_address
from cometmq.model.codes import RequestCode
from cometmq.steps.steps import Steps, called_back

# A broker that does not answer a request within this many seconds is considered hung.
ANSWER_SECONDS = 3.0
# Maximum number of concurrent checks. Beyond it all owners keep their place; the refused broker will retry.
ASKED_MAX = 8


class Presence:
    """Checks whether brokers answer: at the same time one check per address, and ASKED_MAX in all."""

    def __init__(self) -> None:
        self._asked: dict[str, asyncio.Task[bool]] = {}

    def answers(self, address: str) -> Steps[bool]:
        """Return whether the broker at "host:port" reacts within ANSWER_SECONDS; True if too many checks run."""
        asked = self._asked.get(address)
        if asked is None:
            if len(self._asked) >= ASKED_MAX:
                return True
            asked = asyncio.get_running_loop().create_task(_answers(address))
            self._asked[address] = asked
            asked.add_done_callback(lambda _: self._asked.pop(address, None))
        is_there: bool = yield from called_back(
            lambda done: asked.add_done_callback(lambda task: done(task.result(), None))
        )
        return is_there


async def _answers(address: str) -> bool:
    loop = asyncio.get_running_loop()
    question = _Question(loop.create_future())
    try:
        host, port = split_address(address)
        async with asyncio.timeout(ANSWER_SECONDS):
            await loop.create_connection(lambda: question, host, port)
            await question.reaction
    except (OSError, ValueError):  # TimeoutError is an OSError.
        return False
    finally:
        question.close()
    return True


class _Question(asyncio.Protocol):
    """A connection that sends one request and waits for the first byte or the end of the connection."""

    def __init__(self, reaction: asyncio.Future[None]) -> None:
        self.reaction = reaction
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's class is no subclass.
        self._transport.write(encode_command(Command(RequestCode.GET_BROKER_RUNTIME_INFO)))

    def data_received(self, _data: bytes) -> None:
        self._react()

    def connection_lost(self, _error: Exception | None) -> None:
        self._react()

    def _react(self) -> None:
        if not self.reaction.done():
            self.reaction.set_result(None)

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._transport is not None:
            self._transport.abort()
