"""The port on which a member receives the messages of the others."""

import asyncio
import logging
from collections.abc import Callable
from typing import cast

from cometmq.broker.replication.group.greeting import (
    Challenge,
    KnownPlaces,
    OwnGreeting,
    PeerHello,
    refusal,
)
from cometmq.broker.replication.group.peer_link import UNSENT_SIZE_MAX
from cometmq.model.clock import Clock
from cometmq.model.errors import CodecError, LinkError
from cometmq.net.connections import Bounds, OpenConnection, ServedProtocol
from cometmq.net.door import AddressCheck, Door
from cometmq.net.tls import ServerTls
from cometmq.replication.group.messages import Message
from cometmq.replication.group.wire import GroupFrames, decode_message, encode_frame

_log = logging.getLogger(__name__)

_BOUNDS = Bounds(count_max=64, of_network_max=16, of_network_key="")
# A member that has sent nothing for this long may be replaced by another process with its id; it pings twice a second.
ALIVE_SECONDS = 2.0
# Bytes of messages that wait to be handled, above which no more are read.
UNHANDLED_SIZE_MAX = 32 << 20
_PONG = encode_frame({"type": "pong"})

OnMessage = Callable[[Message, int], None]


class PeerPort:
    """The port of a member, and the connections of the others to it.

    Attributes:
        door: Accepts connections; its `bind` gives the port an address.
        members: Ids of the members that may connect; set by `admit`.
        known: The places of the members, which this member sends to each member that connects.
    """

    def __init__(
        self,
        own: OwnGreeting,
        *,
        clock: Clock,
        admission: AddressCheck,
        tls: ServerTls | None,
        on_message: OnMessage,
    ) -> None:
        """Call `on_message` with each message of another member and its size; the receiver calls `handled` later."""
        self.own = own
        self.members: frozenset[str] = frozenset()
        self.known = KnownPlaces()
        self.clock = clock
        self.door = Door(
            self._accept, clock, name="group port", bounds=_BOUNDS, tls=tls, admission=admission
        )
        self._on_message = on_message
        self._peers: dict[str, PeerConnection] = {}
        self._unhandled = 0
        self._held_back: list[PeerConnection] = []

    def _accept(self, came: OpenConnection) -> "PeerConnection":
        return PeerConnection(self, came)

    def admit(self, members: frozenset[str], known: KnownPlaces) -> None:
        """Let only these members connect, and send them the places when they do; close the connections of others."""
        self.members, self.known = members, known
        for member, peer in self._peers.items():
            if member not in members:
                peer.abort()

    def address_of(self, member: str) -> str | None:
        """Return "ip:port" of a member's broker; None while the member is not connected."""
        peer = self._peers.get(member)
        return None if peer is None or peer.hello is None else peer.hello.address

    # --- called by connections

    def greeted(self, peer: "PeerConnection", hello: PeerHello) -> None:
        """Note that a member has connected, in place of its old connection.

        Raises:
            LinkError: Another process with this id is connected, and has sent something in the last 2 s.
        """
        old = self._peers.get(hello.member)
        if old is not None and old.hello is not None:
            if old.hello.run != hello.run and old.is_alive:
                raise LinkError(
                    f"another process is connected as member {hello.member}, from {old.address}; give each member a "
                    "dLegerSelfId and a storePathRootDir of its own"
                )
            old.abort()
        self._peers[hello.member] = peer

    def came(self, peer: "PeerConnection", message: Message, size: int) -> None:
        """Pass a message to `on_message`; stop reading from its sender if over 32 MiB in all wait to be handled."""
        self._unhandled += size
        if self._unhandled > UNHANDLED_SIZE_MAX and peer not in self._held_back:
            self._held_back.append(peer)
            peer.hold_back()
        self._on_message(message, size)

    def handled(self, size: int) -> None:
        """Note that a message of this size was handled; read from stopped members again if at most 16 MiB wait."""
        self._unhandled -= size
        if self._held_back and self._unhandled <= UNHANDLED_SIZE_MAX // 2:
            for peer in self._held_back:
                peer.go_on()
            self._held_back = []

    def left(self, peer: "PeerConnection") -> None:
        """Forget a connection that has ended."""
        self.door.forget(peer)
        hello = peer.hello
        if hello is not None and self._peers.get(hello.member) is peer:
            del self._peers[hello.member]


class PeerConnection(ServedProtocol):
    """A connection of another member to this one.

    Attributes:
        hello: The member's hello; None during the greeting.
        address: "ip:port" of the connection.
    """

    def __init__(self, port: PeerPort, came: OpenConnection) -> None:
        self.has_read = False
        self.hello: PeerHello | None = None
        self.address = came.address
        self._port = port
        self._challenge = Challenge(port.own)
        self._frames = GroupFrames()
        self._heard_at = port.clock.monotonic()
        self._transport: asyncio.Transport | None = None

    @property
    def is_busy(self) -> bool:
        """Whether the other member has sent a valid hello."""
        return self.hello is not None

    @property
    def is_alive(self) -> bool:
        """Whether the member has sent something in the last 2 s."""
        return self._port.clock.monotonic() - self._heard_at < ALIVE_SECONDS

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the challenge."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass.
        self._transport.writelines(self._challenge.challenge())

    def data_received(self, data: bytes) -> None:
        """Handle the frames of the other member; close the connection if one is faulty."""
        self.has_read = True
        self._heard_at = self._port.clock.monotonic()
        try:
            for frame in self._frames.received(data):
                if self.hello is None:
                    hello, welcome = self._challenge.hello(
                        frame, self._port.members, self._port.known
                    )
                    self._port.greeted(self, hello)
                    self.hello, self._frames.is_greeted = hello, True
                    self._write(welcome)
                elif frame.type == "ping":
                    self._write(_PONG)
                else:
                    message = decode_message(frame, self.hello.member)
                    self._port.came(self, message, frame.size)
        except (CodecError, LinkError) as error:
            self._refuse(error)

    def _write(self, parts: list[bytes | bytearray | memoryview]) -> None:
        """Send a frame; raise LinkError if the other member has not read the last 16 MiB."""
        transport = self._transport
        if transport is not None:
            if transport.get_write_buffer_size() >= UNSENT_SIZE_MAX:
                raise LinkError("it does not read the answers to its pings")
            transport.writelines(parts)

    def _refuse(self, why: CodecError | LinkError) -> None:
        self._port.door.refuse(self.address, str(why))
        if self._transport is None:
            return
        if self.hello is None:
            self._write(refusal(why))
            self._transport.close()
        else:
            self._transport.abort()

    def connection_lost(self, _error: Exception | None) -> None:
        """Remove this connection from the port's connections."""
        self._transport = None
        self._port.left(self)

    def hold_back(self) -> None:
        """Read nothing until `go_on`."""
        if self._transport is not None:
            self._transport.pause_reading()

    def go_on(self) -> None:
        """Read again."""
        if self._transport is not None:
            self._transport.resume_reading()

    def abort(self) -> None:
        """Close the connection immediately."""
        if self._transport is not None:
            self._transport.abort()
