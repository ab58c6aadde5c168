"""Runs the methods of MessagingService: decodes a request, finds its sender and client, does the work, and answers.

Errors of these methods become answers here; Telemetry handles its own. Work that waits is a generator of steps
(`steps.steps`); there is no task for a call.
"""

import logging
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from google.protobuf.message import DecodeError, Message

from cometmq.model.codes import RequestCode
from cometmq.model.errors import ConnectionLost
from cometmq.model.rights import Access, Asker, Right
from cometmq.proxy.backend import Backend
from cometmq.proxy.grpc.calls import Unary
from cometmq.proxy.grpc.server_call import GrpcCall
from cometmq.proxy.services.access import OpenGate
from cometmq.proxy.services.clients import GrpcClient, GrpcClients
from cometmq.proxy.v2 import messaging_pb2 as pb
from cometmq.proxy.v2.statuses import ProxyRefusal, status_of
from cometmq.steps.runner import StepsRun, World
from cometmq.steps.steps import Steps

_log = logging.getLogger(__name__)

WAITING_MAX = 50_000
NO_MESSAGE = "no new message"
T = TypeVar("T")
# Results are tuples; steps are not.
Result = TypeVar("Result", bound=tuple[Any, ...])


class CallContext(NamedTuple):
    """A call with all that its method needs.

    Attributes:
        call: The call.
        client: Its client.
        asker: The user who sends it.
        backend: The brokers behind the proxy.
        gate: Checks the rights of the user.
    """

    call: GrpcCall
    client: GrpcClient
    asker: Asker
    backend: Backend
    gate: OpenGate

    def check(self, right: Right, *accesses: Access) -> None:
        """Raise ProxyRefusal (UNAUTHORIZED) if the user lacks one of these accesses."""
        self.gate.check(self.call, self.asker, right, *accesses)


# The work of a method: gets the call and its request; returns the response, steps that return it, or None if the call
# is answered elsewhere.
Work = Callable[[CallContext, Any], Any]


class Method(NamedTuple):
    """A method of MessagingService.

    Attributes:
        code: The request of the remoting protocol that does the same, for texts of errors and the log.
        request: The class of its request.
        response: The class of its response, which has a `status`.
        work: Does what the request asks for.
    """

    code: RequestCode
    request: type[Message]
    response: type[Message]
    work: Work


class CallCaller(Generic[Result]):
    """The sender of a pop or pull that came as a gRPC call; implements `broker.loop.caller.Caller`."""

    __slots__ = ("_call", "_done", "_run", "owner")

    def __init__(
        self,
        owner: GrpcClient,
        call: GrpcCall,
        run: Callable[..., None],
        done: Callable[[Result | None, BaseException | None], None],
    ) -> None:
        """`run` runs steps; `done` is called with the result or the error."""
        self.owner = owner
        self._call = call
        self._run = run
        self._done = done

    @property
    def is_gone(self) -> bool:
        """Whether the call is over."""
        return self._call.is_closed

    def hold(self) -> None:
        """Do nothing: a request has no body that could be released."""

    def answer(self, work: Callable[[], Result | Steps[Result | None] | None]) -> None:
        """Run `work` and any steps that it returns; report the result or error, but no result None (still waiting)."""
        try:
            outcome = work()
        except Exception as error:  # noqa: BLE001  It becomes the answer.
            self._done(None, error)
            return
        if isinstance(outcome, tuple):
            self._done(outcome, None)
        elif outcome is not None:
            self._run(outcome, self._ended)

    def _ended(self, result: Result | None, error: BaseException | None) -> None:
        if result is not None or error is not None:
            self._done(result, error)


class CallRunner:
    """Runs the methods for calls, on the brokers behind the proxy."""

    def __init__(
        self,
        backend: Callable[[], Backend],
        clients: GrpcClients,
        gate: OpenGate,
        world: World,
    ) -> None:
        """`backend` returns the brokers, or raises ProxyRefusal if none can serve calls now."""
        self._backend = backend
        self.clients = clients
        self.gate = gate
        self._world = world
        self._running: set[StepsRun[Any]] = set()

    def context(self, call: GrpcCall) -> CallContext:
        """Return the context of a call; raise ProxyRefusal if sender or client id is refused, or no broker serves."""
        asker = self.gate.asker_of(call)
        client = self.clients.of(call, asker)
        return CallContext(call, client, asker, self._backend(), self.gate)

    def handler(self, method: Method) -> Unary:
        """Return the handler for the gRPC server that runs a method."""
        return Unary(partial(self._handle, method))

    def _handle(self, method: Method, call: GrpcCall, content: bytes) -> None:
        try:
            request = _decoded(method.request, content)
            outcome = method.work(self.context(call), request)
            if isinstance(outcome, Generator):
                self.run(outcome, partial(self._ended, method, call))
                return
        except Exception as error:  # noqa: BLE001  The one place where errors become answers.
            refuse(method, call, error)
            return
        if outcome is not None:
            _answer(call, outcome)

    def _ended(
        self, method: Method, call: GrpcCall, outcome: Any, error: BaseException | None
    ) -> None:
        if error is not None:
            if not (call.is_closed and isinstance(error, ConnectionLost)):
                refuse(method, call, error)
        elif outcome is not None:
            _answer(call, outcome)

    def run(
        self, steps: Steps[T], ended: Callable[[T | None, BaseException | None], None]
    ) -> None:
        """Run steps, and call `ended` with their result or error, unless the proxy is closed before.

        Raises ProxyRefusal (TOO_MANY_REQUESTS) if 50,000 others are not finished.
        """
        if len(self._running) >= WAITING_MAX:
            raise ProxyRefusal(pb.TOO_MANY_REQUESTS, "flow limit")
        try:
            wait = next(steps)
        except StopIteration as over:  # Most steps do not wait.
            ended(over.value, None)
            return
        except Exception as error:  # noqa: BLE001  The caller handles it.
            ended(None, error)
            return

        def end(result: T | None, error: BaseException | None) -> None:
            self._running.discard(run)
            ended(result, error)

        run: StepsRun[T] = StepsRun(self._world, steps, end)
        self._running.add(run)
        run.begin(wait)

    def waiting(
        self,
        method: Method,
        context: CallContext,
        answer: Callable[[Result], Steps[None]],
    ) -> CallCaller[Result]:
        """Return the `CallCaller` of a pop or pull that may wait; `answer` is run with its result and answers the call.

        The call counts as open, and is answered with MESSAGE_NOT_FOUND if the proxy stops before.
        """
        call = context.call

        def ended(_result: object, error: BaseException | None) -> None:
            if error is not None:
                refuse(method, call, error)

        def done(result: Result | None, error: BaseException | None) -> None:
            if result is not None:
                self.run(answer(result), ended)
            else:
                ended(None, error)

        nothing = ProxyRefusal(pb.MESSAGE_NOT_FOUND, NO_MESSAGE)
        self.clients.opened(context.client, call, partial(refuse, method, call, nothing))
        return CallCaller(context.client, call, self.run, done)

    def close(self) -> None:
        """Stop all steps that are not finished, without calling their `ended`."""
        running, self._running = self._running, set()
        for run in running:
            run.stop(lambda: None)


def refuse(method: Method, call: GrpcCall, error: BaseException) -> None:
    """Answer a call with the status of an error."""
    _answer(call, method.response(status=status_of(error, method.code)))


def _answer(call: GrpcCall, response: Message) -> None:
    call.answer(response.SerializeToString())
    call.finish()


def _decoded(kind: type[Message], content: bytes) -> Message:
    try:
        return kind.FromString(content)
    except DecodeError:
        raise ProxyRefusal(
            pb.BAD_REQUEST, f"the request is no {kind.DESCRIPTOR.name}: it cannot be decoded"
        ) from None
