"""The clients that use the proxy, by the id that each call carries, and as members of groups in the broker's tables.

A client has no connection of its own here: its calls may come over several, and its stream of telemetry may break and
come back. For renewals it is gone (`GrpcClient.is_online`) 12 s after its last call or the end of its last long
one, unless one is open, and in any case 35 s after its last call. Its groups lose it if no call came for channelExpiredTimeout and no long one is open.
"""

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from cometmq.broker.tables.client_peer import ClientPeer, PeerAnswer
from cometmq.model.clock import Clock
from cometmq.model.codes import VERSION, Language, RequestCode
from cometmq.model.rights import Asker
from cometmq.model.subscription import Subscription
from cometmq.net.own_machine import plain_ip
from cometmq.proxy.grpc.server_call import GrpcCall
from cometmq.proxy.v2 import messaging_pb2 as pb
from cometmq.proxy.v2.checks import CLIENT_ID_LENGTH_MAX
from cometmq.proxy.v2.statuses import ProxyRefusal
from cometmq.steps.steps import Steps

if TYPE_CHECKING:
    from cometmq.proxy.services.commands import StreamCommands

CLIENT_ID, LANGUAGE, CLIENT_VERSION = "x-mq-client-id", "x-mq-language", "x-mq-client-version"
CLIENTS_MAX = 20_000
# A client without an open call for this long, or without a new one for the second time, is taken for gone: its messages
# are delivered to others. Clients send a heartbeat every 10 s.
ALONE_SECONDS = 12.0
SILENT_SECONDS = 35.0
EXPIRE_SECONDS = 10.0

# Official clients send RocketMQ's names, which those of Java's proxy are, or the protocol's.
_LANGUAGES = {each.name: each for each in Language} | {
    "GOLANG": Language.GO, "DOT_NET": Language.DOTNET,
}  # fmt: skip
_VERSION_TEXT = re.compile(r"(\d)\.(\d)\.(\d)(?!\d)")


class GrpcClient:
    """A client of the proxy, and its place in the broker's tables of members.

    Attributes:
        client_id: The id that the client gave itself.
        asker: The user of its last call.
        language: `model.codes.Language`.
        version: Ordinal of its version.
        type: Its ClientType (producer, push consumer, ...), by its latest settings or heartbeat.
        stream: Its open telemetry call, or None.
        topics: The topics that it produces to, as far as they were reported.
        subscriptions: Its subscriptions by consumer group, from its settings; empty until they came.
        open_calls: Number of its long calls that are open: telemetry, and those that wait for messages.
        seen: When its last call came, or a long one ended, monotonic seconds.
    """

    is_paused = False

    def __init__(self, client_id: str, asker: Asker, commands: "StreamCommands") -> None:
        self.client_id = client_id
        self.asker = asker
        self.language, self.version = int(Language.OTHER), VERSION
        self.type = pb.CLIENT_TYPE_UNSPECIFIED
        self.stream: GrpcCall | None = None
        self.topics: set[str] = set()
        self.subscriptions: dict[str, tuple[Subscription, ...]] = {}
        self.open_calls = 0
        self.seen = self.called = 0.0
        self.address = ""
        self.is_closed = False
        self.on_close: list[Callable[[ClientPeer], None]] = []
        self._commands = commands

    def is_online(self, now: float) -> bool:
        """Return whether the client seems to be alive; `now` is in monotonic seconds."""
        is_near = self.open_calls > 0 or now - self.seen < ALONE_SECONDS
        return not self.is_closed and is_near and now - self.called < SILENT_SECONDS

    def notify(self, code: int, fields: dict[str, str], body: bytes = b"") -> None:
        """Send CHECK_TRANSACTION_STATE over the client's telemetry stream, if it is open; ignore other requests."""
        if code == RequestCode.CHECK_TRANSACTION_STATE:
            self._commands.check(self, fields, body)

    def call(
        self,
        code: int,
        fields: dict[str, str],
        body: bytes = b"",
        *,
        timeout_ms: int = 10_000,
    ) -> Steps[PeerAnswer]:
        """Return the answer to a console's request; the client is only asked if the broker does not know the answer.

        Raises RequestTimeout if the client does not answer in 5 s, or cannot be asked (`StreamCommands.ask`).
        """
        return self._commands.ask(self, code, fields, body)

    def close(self) -> None:
        """Remove the client from all groups, and end its stream of telemetry."""
        if self.is_closed:
            return
        self.is_closed = True
        listeners, self.on_close = self.on_close, []
        for listener in listeners:
            listener(self)
        if self.stream is not None:
            self.stream.finish()


class GrpcClients:
    """All clients of the proxy.

    Attributes:
        on_gone: Called with each client that terminates or is forgotten after a long silence.
    """

    def __init__(
        self, clock: Clock, commands: "StreamCommands", *, idle_seconds: float
    ) -> None:
        """`idle_seconds`: A client without an open call that has sent none for so long is forgotten."""
        self.on_gone: Callable[[GrpcClient], None] = lambda _: None
        self._clock = clock
        self._commands = commands
        self._idle_seconds = idle_seconds
        self._clients: dict[str, GrpcClient] = {}
        self._open: dict[GrpcCall, Callable[[], None]] = {}  # What ends a call that waits.

    def __len__(self) -> int:
        return len(self._clients)

    def __iter__(self) -> Any:
        return iter(self._clients.values())

    def of(self, call: GrpcCall, asker: Asker) -> GrpcClient:
        """Return the client with the id of a call, a new one if the id is unknown, and note that it is alive.

        Raises:
            ProxyRefusal: CLIENT_ID_REQUIRED if the id is missing, blank or too long; FORBIDDEN if it belongs to another
                known user; TOO_MANY_REQUESTS if there are 20,000 other clients.
        """
        metadata = call.metadata
        client_id = metadata.get(CLIENT_ID, "")
        if not client_id or client_id.isspace():
            raise ProxyRefusal(pb.CLIENT_ID_REQUIRED, "client id cannot be empty")
        client = self._clients.get(client_id)
        if client is None or client.is_closed:
            client = self._new(client_id, asker)
        elif client.asker != asker:
            if client.asker.name != asker.name and client.asker.is_known:
                raise ProxyRefusal(
                    pb.FORBIDDEN,
                    f"client id {client_id[:128]} belongs to a client of another user",
                )
            client.asker = asker
        client.address = _address(*call.remote)
        client.language = _LANGUAGES.get(metadata.get(LANGUAGE, ""), Language.OTHER)
        client.version = _ordinal(metadata.get(CLIENT_VERSION, ""))
        client.seen = client.called = self._clock.monotonic()
        return client

    def _new(self, client_id: str, asker: Asker) -> GrpcClient:
        if len(client_id) > CLIENT_ID_LENGTH_MAX:
            raise ProxyRefusal(
                pb.CLIENT_ID_REQUIRED,
                f"client id has {len(client_id)} characters; at most {CLIENT_ID_LENGTH_MAX} are allowed",
            )
        if len(self._clients) >= CLIENTS_MAX:
            raise ProxyRefusal(
                pb.TOO_MANY_REQUESTS,
                f"{CLIENTS_MAX} clients are connected; try again later",
            )
        client = self._clients[client_id] = GrpcClient(client_id, asker, self._commands)
        return client

    def opened(self, client: GrpcClient, call: GrpcCall, end: Callable[[], None]) -> None:
        """Count a call as open until it is over; `end` is called to answer it if the proxy stops before."""
        if call.is_closed:
            return
        client.open_calls += 1
        self._open[call] = end

        def over() -> None:
            del self._open[call]
            client.open_calls -= 1
            client.seen = self._clock.monotonic()

        call.on_close.append(over)

    def terminate(self, client: GrpcClient) -> None:
        """Remove a client from its groups, call `on_gone` with it, and end its stream of telemetry."""
        self._clients.pop(client.client_id, None)
        self.on_gone(client)
        client.close()

    def expire(self) -> float:
        """Remove clients that are closed or silent for too long; return the seconds until the next call of this."""
        oldest = self._clock.monotonic() - self._idle_seconds
        gone: Iterable[GrpcClient] = [
            each
            for each in self._clients.values()
            if each.is_closed or (not each.open_calls and each.called < oldest)
        ]
        for client in gone:
            self.terminate(client)
        return EXPIRE_SECONDS

    def end_calls(self) -> None:
        """End all calls that `opened` counts, because the proxy stops."""
        for end in list(self._open.values()):
            end()

    def close(self) -> None:
        """Remove all clients, because the proxy stops."""
        for client in list(self._clients.values()):
            client.close()
        self._clients.clear()


def _address(host: str, port: int) -> str:
    ip = plain_ip(host) if ":" in host else host
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"


def _ordinal(text: str) -> int:
    """Return RocketMQ's number of the version x.y.z that begins a text (right from 4.6 on); without one, CometMQ's."""
    found = _VERSION_TEXT.match(text)
    if found is None:
        return VERSION
    number = int("".join(found.groups()))
    return VERSION - 2 * (533 - number)
