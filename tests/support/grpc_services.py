"""Services of gRPC for tests of the server: they echo, talk, wait, stream and fail."""

from cometmq.proxy.grpc.calls import CallRefused, GrpcStatus, Services, Streaming, Unary
from cometmq.proxy.grpc.server_call import GrpcCall


class Talking:
    """Answers each message in capitals; keeps what happened to it."""

    def __init__(self, call: GrpcCall) -> None:
        self.call = call
        self.events: list[str] = []

    def received(self, message: bytes) -> None:
        self.events.append(message.decode())
        self.call.answer(message.upper())

    def half_closed(self) -> None:
        self.events.append("half closed")
        self.call.finish()

    def closed(self) -> None:
        self.events.append("closed")


class TestedServices:
    """The methods of "/t.T/", with what they saw.

    Attributes:
        calls: All calls, in order.
        waiting: Calls of Wait that are open.
        closed: Number of calls of Wait that were closed.
        talks: Calls of Talk.
    """

    __test__ = False

    def __init__(self) -> None:
        self.calls: list[GrpcCall] = []
        self.waiting: list[GrpcCall] = []
        self.closed = 0
        self.talks: list[Talking] = []

    @property
    def table(self) -> Services:
        return {
            "/t.T/Echo": Unary(self.echo),
            "/t.T/Many": Unary(self.many),
            "/t.T/Wait": Unary(self.wait),
            "/t.T/Fail": Unary(self.fail),
            "/t.T/Refuse": Unary(self.refuse),
            "/t.T/Talk": Streaming(self.talk),
        }

    def echo(self, call: GrpcCall, request: bytes) -> None:
        self.calls.append(call)
        call.answer(request)
        call.finish()

    def many(self, call: GrpcCall, request: bytes) -> None:
        """Answer as many messages of as many bytes as the request says: "100 1024"."""
        count, size = map(int, request.split())
        for _ in range(count):
            call.answer(bytes(size))
        call.finish()

    def wait(self, call: GrpcCall, _request: bytes) -> None:
        self.waiting.append(call)
        call.on_close.append(lambda: self._over(call))

    def end_waits(self) -> None:
        for each in list(self.waiting):
            each.finish()

    def _over(self, call: GrpcCall) -> None:
        self.waiting.remove(call)
        self.closed += 1

    def fail(self, _call: GrpcCall, request: bytes) -> None:
        raise ValueError(f"cannot do {request.decode()}")

    def refuse(self, _call: GrpcCall, _request: bytes) -> None:
        raise CallRefused(GrpcStatus.FAILED_PRECONDITION, "not now: 100 % später")

    def talk(self, call: GrpcCall) -> Talking:
        self.talks.append(talking := Talking(call))
        return talking
