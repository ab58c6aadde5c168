"""Dispatch of the requests of a read batch (mostly what arrived in one loop iteration) to the handlers of their codes.

Most handlers get one command and return its answer, or a generator (`Steps`) that waits and then returns it. A batch
handler gets commands of its codes (such as sends) of several connections together, for example to store them with one
write. Its `written` runs afterwards, for example to serve waiting consumers. Requests of a connection in a read batch
are begun in order, but those of batch handlers last, and those accepted by the fast path (`Intake`) first.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import inf
from operator import itemgetter
from time import monotonic
from typing import TYPE_CHECKING, Any

from cometmq.codec.remoting import Command, RawCommand
from cometmq.kernel.turn_reads import PeerState
from cometmq.model.codes import DLEDGER_CODES, ResponseCode
from cometmq.model.errors import ConnectionLost, RequestError
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
from cometmq.steps.on_loop import LoopWorld
from cometmq.steps.peer_bounds import PeerBounds
from cometmq.steps.runner import StepsRun, World
from cometmq.steps.steps import Steps, Wait

if TYPE_CHECKING:
    from cometmq.net.peer import Peer

_log = logging.getLogger(__name__)

# Maximum number of waiting requests of a connection (an official client has a few dozen), and maximum bytes of those of
# one connection and of all; a request counts REQUEST_SIZE for its header and state.
PENDING_MAX = 4096
PENDING_SIZE_MAX, PENDING_SIZE_OF_ALL = 32 << 20, 64 << 20
REQUEST_SIZE = 2048
_US = 1_000_000
_code_and_flag = itemgetter(0, 1)  # Of a RawCommand.
PAUSED = int(PeerState.PAUSED)
# Command(*values) goes through a Python function and takes three times as long.
_named = tuple.__new__
_TELLING_FAILED = "the callback after the answers of a read batch failed"


# By request code, flag ONEWAY and response code: a function that counts an answer, and gets the microseconds it took.
AnswerTimes = Mapping[tuple[int, int, int], Callable[[int], None]]


class Dispatcher:
    """Calls the handlers of a server as its request table says.

    Attributes:
        intake: Fast path that accepts requests as bytes before they are decoded; None if there is none.
        refused: Number of requests that were refused because too many of their connection, or of all, were waiting.
        now: Returns monotonic seconds; the read batch sets it to that of its clock.
        ends: Time (`now`) after which requests are left to a later read batch, by `handle` if they have no batch handler,
            and by the handlers of requests that share a write.
    """

    def __init__(
        self,
        table: RequestTable | None = None,
        *,
        world: World | None = None,
        answer_times: AnswerTimes | None = None,
    ) -> None:
        """Use a table of requests; without one, every request is refused with REQUEST_CODE_NOT_SUPPORTED.

        Args:
            table: The requests with their handlers.
            world: Timers and threads for handlers that wait; None: those of the running loop.
            answer_times: Counts each answer of a handler of single requests; batch handlers count theirs themselves.
        """
        self.now: Callable[[], float] = monotonic
        self.ends = inf
        self._answer_times = answer_times
        self._world = world
        self._waiting: set[StepsRun[Any]] = set()
        self._bounds = PeerBounds(
            peer_count_max=PENDING_MAX,
            peer_size_max=PENDING_SIZE_MAX,
            size_max=PENDING_SIZE_OF_ALL,
        )
        self._handlers: Mapping[int, Handler] = {}
        self._batches: Mapping[int, BatchHandler] = {}
        self.intake: Intake | None = None
        self.refused = 0
        self._has_dledger = False  # Whether a request of DLedger came.
        if table is not None:
            self.serve(table)

    def serve(self, table: RequestTable) -> None:
        """Use another table from now on, for example after the server changed its role."""
        assert self.intake is None or not self.intake.count, "the old table handles its own"
        self._handlers, self._batches = table.handlers, table.batches
        self.intake = table.intake

    def handle(self, reads: list[Read]) -> None:
        """Handle the fast path's requests, then commands of many connections together.

        Some may be put back when a peer stops reading or time is up (`ends`).
        """
        self.handle_taken()
        batches = self._batches
        gathered: dict[BatchHandler, list[Read]] = {}
        for read in reads:
            peer, commands = read
            if not commands:
                continue  # The intake accepted all of its requests.
            peer.gather()
            first = commands[0]
            only = None if first[1] & RESPONSE else batches.get(first[0])
            if only is not None and len(set(map(_code_and_flag, commands))) == 1:
                # Most reads hold only sends or only acknowledgements and need no sorting.
                gathered.setdefault(only, []).append(read)
                continue
            if not self._sort(commands, peer, gathered):
                # Flush now: writing takes time as well, which counts.
                peer.flush()
        for batch, some in gathered.items():
            run_batch(batch, some)
        for some in gathered.values():
            for peer, _ in some:
                peer.flush()
        for batch in gathered:
            _end_batch(batch)

    def handle_taken(self) -> None:
        """Process the requests that the fast path accepted, if any."""
        intake = self.intake
        if intake is not None and intake.count:
            if not intake.handle():
                return
            try:
                intake.written()
            except Exception:  # noqa: BLE001
                _log.exception(_TELLING_FAILED)

    def handle_one(self, commands: list[RawCommand], peer: "Peer") -> bool:
        """Handle the only command of a batch; return False, having done nothing, if it is not for a batch handler."""
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
    ) -> bool:
        """Handle a peer's answers and its requests without a batch handler; add the others to `gathered`, if any.

        Return whether there were any others. If the peer has stopped reading or time is up before a request without a
        batch handler, the peer gets this request and the rest back.
        """
        batches, handlers, now = self._batches, self._handlers, self.now()
        of_peer: dict[BatchHandler, list[RawCommand]] = {}
        latest: BatchHandler | None = None
        some: list[RawCommand] = []
        waiting = iter(commands)
        for command in waiting:
            if command[1] & RESPONSE:
                peer.take_answer(command)
                now = self.now()  # Who waited for the answer may have gone on at once.
                continue
            handler = handlers.get(command[0])
            if handler is None:
                batch = batches.get(command[0])
                if batch is not None:
                    if batch is not latest:
                        latest, some = batch, of_peer.setdefault(batch, [])
                    some.append(command)
                    continue
                handler = self._not_supported
            if peer.state >= PAUSED or now >= self.ends:
                peer.put_back([command, *waiting])
                break
            now = self._run(handler, _named(Command, command), peer, now)
        for batch, some in of_peer.items():
            gathered.setdefault(batch, []).append((peer, some))
        return bool(of_peer)

    # --- single requests

    def run(self, handler: Handler, command: Command, peer: "Peer") -> None:
        """Run a handler and answer its request, now or when its generator (`Steps`) has ended; errors become answers.

        Nothing is answered if handler or generator return None. If the connection closes, the answer is dropped, and
        the request goes on unless its steps raise ConnectionLost.
        """
        self._run(handler, command, peer, self.now())

    def _run(self, handler: Handler, command: Command, peer: "Peer", began: float) -> float:
        """Run a handler for a request begun at `began`, answer now or once its steps end; return the time, monotonic s."""
        try:
            if self._waiting:
                self.check_room(peer)
            outcome = handler(command, peer)
        except Exception as error:  # noqa: BLE001  The one place where errors become answers.
            outcome = answer_to_error(error, command[0])
        if outcome.__class__ is not Answer:
            if outcome is not None:
                self._take_steps(outcome, command, peer, began)  # type: ignore[arg-type]
            return self.now()
        peer.answer(command, outcome)
        now = self.now()
        if self._answer_times is not None:
            kind = command[0], command[1] & ONEWAY, outcome[0]
            self._answer_times[kind](int((now - began) * _US))
        return now

    def _not_supported(self, command: Command, peer: "Peer") -> Answer:
        """Refuse a request of a code without a handler; log the first one of DLedger, whose members repeat theirs for ever."""
        if command.code in DLEDGER_CODES and not self._has_dledger:
            self._has_dledger = True
            _log.warning(
                "%s sends requests of DLedger (first code %d), which are refused; this address is in its dLegerPeers, "
                "but all members of its group must be brokers of RocketMQ",
                peer.address,
                command.code,
            )
        # The text, including the leading blank, is that of RocketMQ's NettyRemotingAbstract.
        return Answer(
            ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
            f" request type {command.code} not supported",
        )

    def check_room(self, peer: "Peer") -> None:
        """Raise RequestError (SYSTEM_BUSY) if too many requests of a connection, or of all, are waiting."""
        if self._waiting and self._bounds.is_full(peer):
            self.refused += 1
            raise RequestError(
                ResponseCode.SYSTEM_BUSY,
                f"[REJECTREQUEST]system busy: {PENDING_MAX} requests of this connection, or too many bytes of requests, "
                "are not answered yet; wait for answers before sending more",
            )

    def answer(
        self, command: Command | RawCommand, peer: "Peer", began: float, answer: Answer
    ) -> None:
        """Send the answer to a request that was begun at `began` (`now`); count it in `answer_times`, if given."""
        peer.answer(command, answer)
        if self._answer_times is not None:
            kind = command[0], command[1] & ONEWAY, answer[0]
            self._answer_times[kind](int((self.now() - began) * _US))

    def _take_steps(
        self, steps: Steps[Answer | None], command: Command, peer: "Peer", began: float
    ) -> None:
        """Run a handler's generator to its first wait, and the rest later; then answer, unless it returns None."""
        try:
            wait = next(steps)
        except StopIteration as end:
            if end.value is not None:
                self.answer(command, peer, began, end.value)
            return
        except Exception as error:  # noqa: BLE001  As `run`.
            self.answer(command, peer, began, answer_to_error(error, command[0]))
            return

        def ended(answer: Answer | None, error: BaseException | None) -> None:
            if error is not None:
                if peer.is_closed and isinstance(error, ConnectionLost):
                    return  # It was dropped because of that.
                answer = answer_to_error(error, command[0])
            if answer is not None:
                self.answer(command, peer, began, answer)

        self._wait(steps, wait, [(peer, command)], ended)

    def run_steps(
        self,
        steps: Steps[None],
        requests: "Sequence[tuple[Peer, RawCommand]]",
        ended: Callable[[None, BaseException | None], None],
    ) -> None:
        """Run steps that several requests share, to their first wait now, the rest later; `ended` answers the requests."""
        try:
            wait = next(steps)
        except StopIteration:
            ended(None, None)
        except Exception as error:  # noqa: BLE001  As `run`.
            ended(None, error)
        else:
            self._wait(steps, wait, requests, ended)

    def _wait(
        self,
        steps: Steps[Any],
        wait: Wait,
        requests: "Sequence[tuple[Peer, RawCommand]]",
        ended: Callable[[Any, BaseException | None], None],
    ) -> None:
        """Run the rest of steps, which are at a wait; until they end, their requests count as waiting."""
        if self._world is None:
            self._world = LoopWorld()
        sizes = [(peer, REQUEST_SIZE + len(command[7])) for peer, command in requests]
        for peer, size in sizes:
            self._bounds.add(peer, size)

        def end(result: Any, error: BaseException | None) -> None:
            self._waiting.discard(run)
            for peer, size in sizes:
                self._bounds.give_back(peer, size)
            ended(result, error)

        run = StepsRun(self._world, steps, end)
        self._waiting.add(run)
        run.begin(wait)

    async def close(self) -> None:
        """Stop the requests that wait for something, without answers; wait until their work in threads has ended."""
        waiting, self._waiting = self._waiting, set()
        stopped = [asyncio.get_running_loop().create_future() for _ in waiting]
        for run, end in zip(waiting, stopped, strict=True):
            run.stop(partial(end.set_result, None))
        if stopped:
            await asyncio.wait(stopped)


def run_batch(batch: BatchHandler, reads: list[Read]) -> None:
    """Run a batch handler; if it fails, answer all its requests with the error.

    Some may then be answered twice; RocketMQ's clients ignore the second answer.
    """
    try:
        batch.handle(reads)
    except Exception as error:  # noqa: BLE001  As `Dispatcher.run`.
        for peer, commands in reads:
            refuse_all(commands, peer, error)


def _end_batch(batch: BatchHandler) -> None:
    try:
        batch.written()
    except Exception:  # noqa: BLE001
        # The requests are answered already; a failing callback must not affect other handlers.
        _log.exception(_TELLING_FAILED)
