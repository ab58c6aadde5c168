"""The caller of a service of the broker, for a request that comes as a call."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from cometmq.proxy.grpc.calls import GrpcCall
from cometmq.proxy.services.clients import GrpcClient
from cometmq.steps.steps import Steps

# Results are tuples; steps are not.
Result = TypeVar("Result", bound=tuple[Any, ...])


class CallCaller(Generic[Result]):
    """The client of a pop or pull that comes as a call (`broker.loop.caller.Caller`)."""

    __slots__ = ("_call", "_done", "_run", "owner")

    def __init__(
        self,
        owner: GrpcClient,
        call: GrpcCall,
        run: Callable[..., None],
        done: Callable[[Result | None, BaseException | None], None],
    ) -> None:
        """`run` runs steps; `done` gets the result or the error, once."""
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
        """Give the result or the error of `work` to the call; a result None means that the request waits on."""
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
