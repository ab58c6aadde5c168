"""Dispatch of the requests that all connections sent in one loop iteration (a read batch) to the handlers of their codes.

Most handlers get one command and return its answer. A batch handler gets all commands of its codes (sends, for example)
that came in one iteration of the loop, to store them with one write. Its `written` then runs after the answers are on
the wire and serves waiting consumers. Requests of a connection are handled in order, but those of batch handlers last,
and those accepted by the intake (the fast path) first.
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

# Maximum of one connection's requests in tasks. An official client has at most a few dozen.
PENDING_MAX = 4096
_code_and_flag = itemgetter(0, 1)  # Of a RawCommand.
_TELLING_FAILED = "what follows a turn's answers failed"


# Called for each answered request: its code, its flag, the response code, and the nanoseconds it took.
OnAnswered = Callable[[int, int, int, int], None]


class Dispatcher:
    """Calls the handlers of a server as its request table says.

    Attributes:
        intake: Fast path that accepts requests as bytes before they are decoded; None if the table has none.
    """

    def __init__(
        self, table: RequestTable | None = None, *, on_answered: OnAnswered | None = None
    ) -> None:
        """Use the table; without one every request is answered with REQUEST_CODE_NOT_SUPPORTED.

        `on_answered` is called for each request of a single handler; batch handlers count their requests themselves.
        """
        self._on_answered = on_answered
        self._handlers: Mapping[int, Handler] = {}
        self._batches: Mapping[int, BatchHandler] = {}
        self.intake: Intake | None = None
        if table is not None:
            self.serve(table)

    def serve(self, table: RequestTable) -> None:
        """Use another table from now on, for example after the server changed its role."""
        assert self.intake is None or not self.intake.count, "the old table handles its own"
        self._handlers, self._batches = table.handlers, table.batches
        self.intake = table.intake

    def handle(self, reads: list[Read], is_over: Callable[[], bool]) -> None:
        """Handle the commands of a read batch, and return the rest to their peer if it stops reading or time runs out.

        Args:
            reads: The connections with their commands.
            is_over: Returns whether time has run out; called before each request of a single handler.
        """
        self.handle_taken()
        batches = self._batches
        gathered: dict[BatchHandler, list[Read]] = {}
        for read in reads:
            peer, commands = read
            if not commands:
                continue  # The intake accepted all of its requests.
            peer.gather()
            kinds = set(map(_code_and_flag, commands))
            if len(kinds) == 1:
                code, flag = kinds.pop()
                only = None if flag & RESPONSE else batches.get(code)
                if (
                    only is not None
                ):  # Most reads hold only sends or only acknowledgements and need no sorting.
                    gathered.setdefault(only, []).append(read)
                    continue
            if not self._sort(commands, peer, gathered, is_over):
                # Flush now: writing takes time as well, which `is_over` counts.
                peer.flush()
        for batch, some in gathered.items():
            run_batch(batch, some)
        for some in gathered.values():
            for peer, _ in some:
                peer.flush()
        for batch in gathered:
            _end_batch(batch)

    def handle_taken(self) -> None:
        """Process the requests that the intake accepted; their connections sent them before the others."""
        intake = self.intake
        if intake is not None and intake.count:
            if not intake.handle():
                return
            try:
                intake.written()
            except Exception:  # noqa: BLE001
                _log.exception(_TELLING_FAILED)

    def handle_one(self, commands: list[RawCommand], peer: "Peer") -> bool:
        """Handle the only request of a batch; return False, having done nothing, if it has no batch handler."""
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
        """Run single handlers, and add other requests of the peer to `gathered`; return whether there are any."""
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
    """Run a batch handler; if it fails, answer all its requests with the error.

    Some are then answered twice; clients ignore the second answer.
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
        # The requests are answered already; a failing callback must not affect other handlers.
        _log.exception(_TELLING_FAILED)


def run_handler(
    handler: Handler, command: Command, peer: "Peer", on_answered: OnAnswered | None = None
) -> None:
    """Run a handler, in a task of the peer if it is asynchronous; answer with the error if it fails."""
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
    except Exception as error:  # noqa: BLE001  See run_handler; a oneway request has no answer.
        answer_to_error(error, command)


def _not_supported(command: Command, _peer: "Peer") -> Answer:
    # The text, including the leading blank, is that of RocketMQ's NettyRemotingAbstract.
    return Answer(
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {command.code} not supported"
    )
