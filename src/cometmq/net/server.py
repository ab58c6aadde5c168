"""The server of remoting requests: its door, its read batch, and limits on the memory of its connections."""

from cometmq.model.clock import Clock
from cometmq.net.connections import Bounds
from cometmq.net.dispatcher import Dispatcher
from cometmq.net.door import Door
from cometmq.net.held_bytes import HeldBytes
from cometmq.net.peer import Peer
from cometmq.net.requests import StrangerGate
from cometmq.net.tls import ServerTls
from cometmq.net.turn import Turn

# Maximum bytes of incomplete frames, over all connections.
PARTIAL_SIZE_MAX = 56 << 20
# Maximum bytes of unread answers and of requests that wait for them, over all connections.
UNREAD_SIZE_MAX = 32 << 20
# Seconds for the header of a frame once the frame has begun.
HEADER_SECONDS = 10.0
_DEFAULT_BOUNDS = Bounds()


class Server(Door):
    """A server of remoting requests: listening addresses and the peers that connect to them.

    Attributes:
        dispatcher: Calls the request handlers.
        turn: Collects the reads of the peers and handles them together.
        bad_frames: Number of frames refused since the start.
        half_frames: Limit on the buffered bytes of incomplete frames.
        unread_answers: Limit on the bytes of unsent answers, and of decoded requests of the same peers that wait.
        strangers: May refuse frames over 64 KiB of peers that have not signed; None without access control.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        clock: Clock,
        *,
        bounds: Bounds = _DEFAULT_BOUNDS,
        partial_size_max: int = PARTIAL_SIZE_MAX,
        unread_size_max: int = UNREAD_SIZE_MAX,
        tls: ServerTls | None = None,
        strangers: StrangerGate | None = None,
        is_own_machine_trusted: bool = True,
    ) -> None:
        """Set the limits; `start` listens. Without `tls` only cleartext is accepted."""
        super().__init__(
            lambda came: Peer(self, came), clock, name="remoting port", bounds=bounds, tls=tls,
            is_own_machine_trusted=is_own_machine_trusted,
        )  # fmt: skip
        self.dispatcher = dispatcher
        self.turn = Turn(dispatcher, clock)
        self.bad_frames = 0
        self.half_frames = HeldBytes(
            "incomplete frames", partial_size_max, lambda peer: peer.partial_size, clock
        )
        self.unread_answers = HeldBytes(
            "answers that the peer has not read", unread_size_max, Peer.unread_size, clock
        )
        self.half_frames.on_first = self.look_soon
        self.unread_answers.on_closed = self.turn.cut
        self.strangers = strangers

    async def close(self) -> None:
        """Stop listening, close every connection, and stop the requests that still wait, without answers."""
        await super().close()
        await self.dispatcher.close()

    def is_awaiting(self) -> bool:
        """Return whether any connection had sent nothing by the last check, or has sent only a part of a frame."""
        return bool(self.half_frames) or super().is_awaiting()

    def close_silent(self) -> None:
        """Close connections that are silent for too long or stuck within a frame."""
        super().close_silent()
        self.half_frames.close_late(HEADER_SECONDS, lambda peer: not peer.is_header_whole)
        self.half_frames.close_stuck()
