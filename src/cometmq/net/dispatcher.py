"""From request code to handler: the commands of one turn of the loop, in one pass.

Most handlers take one command and return its answer. A batch handler takes all commands of its
codes that a turn brought (sends), so that they are stored with one write; its `written` runs after
their answers are on the wire, which is when consumers are served. A handler gets the requests of
a connection in their order; a batch handler after all others. What an intake took is done before all of them.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from operator import itemgetter
from time import perf_counter_ns
from typing import TYPE_CHECKING

from cometmq.codec.remoting import Command, RawCommand
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.flags import ONEWAY, RESPONSE
from cometmq.net.answer import Answer, answer_to_error
from cometmq.net.requests import (
    BatchHandler,
    Handler,
    Intake,
    Read,
    RequestTable,
    refuse_all,
)

if TYPE_CHECKING:
    from cometmq.net.peer import Peer

_log = logging.getLogger(__name__)

# Requests of one connection whose answers are being worked on; an official client has at most a few
# dozen, and each costs a task.
PENDING_MAX = 4096
_code_and_flag = itemgetter(0, 1)  # Of a raw command.
_TELLING_FAILED = "what follows a turn's answers failed"


# Told of a request: its code, its flag, the code of its answer, and after how many nanoseconds that came.
OnAnswered = Callable[[int, int, int, int], None]


class Dispatcher:
    """Hands the commands of one server to what its table says.

    Attributes:
        intake: takes requests as bytes, before they are commands; None where the table has none.
    """

    def __init__(
        self, table: RequestTable | None = None, *, on_answered: OnAnswered | None = None
    ) -> None:
        """Without a table every request is answered REQUEST_CODE_NOT_SUPPORTED.

        `on_answered` is told of each that is handled by itself: a batch handler's count themselves.
        """
        self._on_answered = on_answered
        self._handlers: Mapping[int, Handler] = {}
        self._batches: Mapping[int, BatchHandler] = {}
        self.intake: Intake | None = None
        if table is not None:
            self.serve(table)

    def serve(self, table: RequestTable) -> None:
        """Answer by this table from now on; another role of the server is another table."""
        self._handlers, self._batches = table.handlers, table.batches
        self.intake = table.intake

    def handle(self, reads: list[Read], is_over: Callable[[], bool]) -> None:
        """Handle commands of one turn; what is left when their peer stops reading, or it takes too long, goes back to it.

        Args:
            reads: them.
            is_over: whether it takes too long; asked in front of each that is handled by itself.
        """
        self.handle_taken()
        batches = self._batches
        gathered: dict[BatchHandler, list[Read]] = {}
        for read in reads:
            peer, commands = read
            if not commands:
                continue  # All that it sent was taken.
            peer.gather()
            kinds = set(map(_code_and_flag, commands))
            if len(kinds) == 1:
                code, flag = kinds.pop()
                only = None if flag & RESPONSE else batches.get(code)
                if (
                    only is not None
                ):  # Most often a read is nothing but sends or acknowledgements: no sorting for it.
                    gathered.setdefault(only, []).append(read)
                    continue
            if not self._sort(commands, peer, gathered, is_over):
                # At once: writing takes its time too, of which those behind it are told by `is_over`.
                peer.flush()
        for batch, some in gathered.items():
            run_batch(batch, some)
        for some in gathered.values():
            for peer, _ in some:
                peer.flush()
        for batch in gathered:
            _end_batch(batch)

    def handle_taken(self) -> None:
        """Do what the intake has taken: it came before all that its connections sent behind it."""
        intake = self.intake
        if intake is not None and intake.count:
            if not intake.handle():
                return
            try:
                intake.written()
            except Exception:  # noqa: BLE001
                _log.exception(_TELLING_FAILED)

    def handle_one(self, commands: list[RawCommand], peer: "Peer") -> bool:
        """Handle the one request that a turn brought; False where no batch handler takes it, and nothing was done."""
        batch = self._batches.get(commands[0][0])
        if batch is None or commands[0][1] & RESPONSE:
            return False
        peer.gather()
        run_batch(batch, [(peer, commands)])
        peer.flush()
        _end_batch(batch)
        return True

    def _sort(
        self,
        commands: list[RawCommand],
        peer: "Peer",
        gathered: dict[BatchHandler, list[Read]],
        is_over: Callable[[], bool],
    ) -> bool:
        """Handle what is handled one by one, and add the rest of one peer to what is gathered; True where there is some."""
        batches = self._batches
        of_peer: dict[BatchHandler, list[RawCommand]] = {}
        latest: BatchHandler | None = None
        some: list[RawCommand] = []
        waiting = iter(commands)
        for command in waiting:
            batch = batches.get(command[0])
            if command[1] & RESPONSE:
                peer.take_answer(command)
            elif batch is not None:
                if batch is not latest:
                    latest, some = batch, of_peer.setdefault(batch, [])
                some.append(command)
            elif peer.is_paused or is_over():
                peer.put_back([command, *waiting])
                break
            else:
                handler = self._handlers.get(command[0], _not_supported)
                run_handler(handler, Command(*command), peer, self._on_answered)
        for batch, some in of_peer.items():
            gathered.setdefault(batch, []).append((peer, some))
        return bool(of_peer)


def run_batch(batch: BatchHandler, reads: list[Read]) -> None:
    """Let a batch handler answer its requests of a turn; a failure of it becomes their answers.

    One that it had answered before it failed is answered twice, and clients pass over the second.
    """
    try:
        batch.handle(reads)
    except Exception as error:  # noqa: BLE001  As run_handler.
        for peer, commands in reads:
            refuse_all(commands, peer, error)


def _end_batch(batch: BatchHandler) -> None:
    try:
        batch.written()
    except Exception:  # noqa: BLE001
        # It is answered already; a fault of who is told of it must not end the turn of others.
        _log.exception(_TELLING_FAILED)


def run_handler(
    handler: Handler, command: Command, peer: "Peer", on_answered: OnAnswered | None = None
) -> None:
    """Let a handler answer a request, now or in a task of the peer; its errors become answers."""
    began = perf_counter_ns() if on_answered is not None else 0
    try:
        _check_pending(peer)
        answer = handler(command, peer)
    except Exception as error:  # noqa: BLE001  The one place where errors become answers.
        answer = answer_to_error(error, command)
    if on_answered is not None and isinstance(answer, Answer):
        on_answered(command.code, command.flag, answer.code, perf_counter_ns() - began)
    if answer is None or command.flag & ONEWAY:
        if isawaitable(answer):
            peer.tasks.spawn(_settle(answer, command), f"request-{command.code}")
        return
    if isinstance(answer, Answer):
        peer.answer(command, answer)
    else:
        work = _answer_later(answer, command, peer, on_answered, began)
        peer.tasks.spawn(work, f"request-{command.code}")


def _check_pending(peer: "Peer") -> None:
    if len(peer.tasks) >= PENDING_MAX:
        raise RequestError(
            ResponseCode.SYSTEM_BUSY,
            f"[REJECTREQUEST]system busy: {PENDING_MAX} requests of this connection are not "
            "answered yet; wait for them",
        )


async def _answer_later(
    work: Awaitable[Answer | None],
    command: Command,
    peer: "Peer",
    on_answered: OnAnswered | None,
    began: int,
) -> None:
    try:
        answer = await work
    except Exception as error:  # noqa: BLE001  See run_handler.
        answer = answer_to_error(error, command)
    if answer is not None:
        if on_answered is not None:
            on_answered(command.code, command.flag, answer.code, perf_counter_ns() - began)
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
