"""From request code to handler: the commands of one read, in one pass.

Most handlers take one command and return its answer. A batch handler takes all commands of its
codes that one read held (sends), so that they are stored with one write; its `written` runs after
their answers are on the wire, which is when consumers are served (decision 3c).

Next: cometmq.broker.handlers.send
"""

from collections.abc import Awaitable, Mapping
from inspect import isawaitable
from typing import TYPE_CHECKING

from cometmq.codec.remoting import Command, RawCommand
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.flags import ONEWAY, RESPONSE
from cometmq.net.answer import Answer, answer_to_error
from cometmq.net.requests import BatchHandler, Handler, RequestTable

if TYPE_CHECKING:
    from cometmq.net.peer import Peer

# Requests of one connection whose answers are being worked on; an official client has at most a few
# dozen, and each costs a task.
PENDING_MAX = 4096


class Dispatcher:
    """Hands the commands of one server to what its table says."""

    def __init__(self, table: RequestTable | None = None) -> None:
        """Without a table every request is answered REQUEST_CODE_NOT_SUPPORTED."""
        self._handlers: Mapping[int, Handler] = {}
        self._batches: Mapping[int, BatchHandler] = {}
        if table is not None:
            self.serve(table)

    def serve(self, table: RequestTable) -> None:
        """Answer by this table from now on; another role of the server is another table."""
        self._handlers, self._batches = table.handlers, table.batches

    def handle(self, commands: list[RawCommand], peer: "Peer") -> list[RawCommand]:
        """Handle the commands of one read; those left when the peer stops reading come back."""
        batches = self._batches
        if len(commands) == 1 and not commands[0][1] & RESPONSE:
            only = batches.get(commands[0][0])
            if only is not None:  # What an unpipelined producer sends: no gathering for it.
                run_batch(only, commands, peer)
                peer.flush()
                only.written()
                return []
        gathered: dict[BatchHandler, list[RawCommand]] = {}
        left: list[RawCommand] = []
        latest, add = None, left.append
        waiting = iter(commands)
        for command in waiting:
            batch = batches.get(command[0])
            if command[1] & RESPONSE:
                peer.take_answer(command)
            elif batch is not None:
                if batch is not latest:  # Most often a read is nothing but sends.
                    latest, add = batch, gathered.setdefault(batch, []).append
                add(command)
            elif peer.is_paused:
                left = [command, *waiting]
                break
            else:
                handler = self._handlers.get(command[0], _not_supported)
                run_handler(handler, Command(*command), peer)
        for batch, requests in gathered.items():
            run_batch(batch, requests, peer)
        peer.flush()
        for batch in gathered:
            batch.written()
        return left


def run_batch(batch: BatchHandler, commands: list[RawCommand], peer: "Peer") -> None:
    """Let a batch handler answer its requests of a read; a failure of it becomes their answers.

    One that it had answered before it failed is answered twice, and clients pass over the second.
    """
    try:
        batch.handle(commands, peer)
    except Exception as error:  # noqa: BLE001  As run_handler.
        answer = answer_to_error(error, commands[0])
        for command in commands:
            peer.answer(command, answer)


def run_handler(handler: Handler, command: Command, peer: "Peer") -> None:
    """Let a handler answer a request, now or in a task of the peer; its errors become answers."""
    try:
        _check_pending(peer)
        answer = handler(command, peer)
    except Exception as error:  # noqa: BLE001  The one place where errors become answers.
        answer = answer_to_error(error, command)
    if answer is None or command.flag & ONEWAY:
        if isawaitable(answer):
            peer.tasks.spawn(_settle(answer, command), f"request-{command.code}")
        return
    if isinstance(answer, Answer):
        peer.answer(command, answer)
    else:
        peer.tasks.spawn(_answer_later(answer, command, peer), f"request-{command.code}")


def _check_pending(peer: "Peer") -> None:
    if len(peer.tasks) >= PENDING_MAX:
        raise RequestError(
            ResponseCode.SYSTEM_BUSY,
            f"[REJECTREQUEST]system busy: {PENDING_MAX} requests of this connection are not "
            "answered yet; wait for them",
        )


async def _answer_later(work: Awaitable[Answer | None], command: Command, peer: "Peer") -> None:
    try:
        answer = await work
    except Exception as error:  # noqa: BLE001  See run_handler.
        answer = answer_to_error(error, command)
    if answer is not None:
        peer.answer(command, answer)


async def _settle(work: Awaitable[Answer | None], command: Command) -> None:
    try:
        await work
    except Exception as error:  # noqa: BLE001  See run_handler; nobody waits for this answer.
        answer_to_error(error, command)


def _not_supported(command: Command, _peer: "Peer") -> Answer:
    # The words, blank included, are those of RocketMQ's NettyRemotingAbstract.
    return Answer(
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {command.code} not supported"
    )
